import { fileURLToPath } from 'node:url'
import { readText } from '../util/files.js'
import { random } from '../util/random.js'
import {
  bootstrapResiduals,
  fitPowerLaw,
  fitPowerLawWithOffset,
  localExponents,
  roundingRange,
  type GrowthFit,
  type GrowthRow,
} from './growth.js'
import type { Interval } from './intervals.js'

/** A row of the paper's team-size table (MATH-500) with the exponent that the paper states for it. The paper's numbers, not ours. */
export interface PaperRow {
  readonly quantity: string
  readonly method: string
  readonly rows: readonly GrowthRow[]
  readonly publishedAlpha: number
}

/** One way to read an exponent from a row. */
export interface AuditedFit {
  readonly name: string
  readonly fit: GrowthFit
  /** Residual bootstrap, percentile. */
  readonly bootstrap: Interval
  /** The published α lies inside the fit's own interval. */
  readonly coversPublished: boolean
}

export interface AuditedRow extends PaperRow {
  readonly fits: readonly AuditedFit[]
  readonly local: ReturnType<typeof localExponents>
  /** Every α that ordinary least squares could give before the table was rounded to two decimals. */
  readonly rounding: readonly [low: number, high: number]
  /** The row against coefficient · n(n−1): `relative` is (coefficient·n(n−1) − y)/y per n. */
  readonly pairs: { readonly coefficient: number; readonly relative: readonly number[] }
}

/** The paper's table as the files in data/paper/ hold it. */
export const paperTable = (): PaperRow[] => {
  const values = readCsv('team-size-scaling.csv')
  return readCsv('team-size-exponents.csv').map(({ quantity, method, alpha }) => ({
    quantity,
    method,
    rows: values
      .filter((row) => row.quantity === quantity && row.method === method)
      .map(({ n, value }) => ({ n: Number(n), y: Number(value) })),
    publishedAlpha: Number(alpha),
  }))
}

/**
 * The audit of the paper's team-size table (theory.md, section 5): each row's published α beside what the usual fits make of
 * the very numbers that the paper prints, and n(n−1), which has no exponent, through the same fit.
 */
export const auditPaperTable = ({ confidence = 0.95, seed = 1 }: { readonly confidence?: number; readonly seed?: number } = {}): {
  readonly rows: readonly AuditedRow[]
  /** What ordinary least squares on logarithms calls the exponent of n(n−1) on the same n. */
  readonly pairsAlpha: number
} => {
  const table = paperTable()
  const pairs = (n: number): number => n * (n - 1)
  const draw = random(seed)
  const audit = (paper: PaperRow): AuditedRow => {
    const audited = (name: string, rows: readonly GrowthRow[], fit: (rows: readonly GrowthRow[]) => GrowthFit): AuditedFit => {
      const found = fit(rows)
      const bootstrap = bootstrapResiduals(rows, fit, { confidence, random: draw })
      return { name, fit: found, bootstrap, coversPublished: found.low <= paper.publishedAlpha && paper.publishedAlpha <= found.high }
    }
    // equal absolute errors of y (rounding) are errors of log y in proportion to 1/y, so a weight of y²
    const weighted = paper.rows.map((row) => ({ ...row, weight: row.y ** 2 }))
    const power = (rows: readonly GrowthRow[]): GrowthFit => fitPowerLaw(rows, { confidence })
    const offset = (rows: readonly GrowthRow[]): GrowthFit => fitPowerLawWithOffset(rows, { confidence })
    const coefficient = ratio(paper.rows.map(({ n, y }) => [pairs(n), y]))
    return {
      ...paper,
      fits: [
        audited('least squares on logarithms', paper.rows, power),
        audited('least squares on logarithms, weight y²', weighted, power),
        audited('with offset, y = a + c·n^α', paper.rows, offset),
      ],
      local: localExponents(paper.rows),
      rounding: roundingRange(paper.rows, 0.005),
      pairs: { coefficient, relative: paper.rows.map(({ n, y }) => (coefficient * pairs(n) - y) / y) },
    }
  }
  return { rows: table.map(audit), pairsAlpha: fitPowerLaw(table[0].rows.map(({ n }) => ({ n, y: pairs(n) }))).alpha }
}

/** Least squares through the origin: Σ xy / Σ x². */
const ratio = (points: readonly (readonly [x: number, y: number])[]): number =>
  points.reduce((sum, [x, y]) => sum + x * y, 0) / points.reduce((sum, [x]) => sum + x * x, 0)

/** A file of data/paper/: plain cells without quotes. */
const readCsv = (name: string): Record<string, string>[] => {
  const [header, ...lines] = readText(fileURLToPath(new URL(`../../data/paper/${name}`, import.meta.url)))
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','))
  return lines.map((cells) => Object.fromEntries(header.map((column, k) => [column, cells[k]])))
}
