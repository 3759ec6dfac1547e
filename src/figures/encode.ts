import type { TopLevelSpec } from 'vega-lite'
import type { Row } from './csv.js'
import { dashes, palette } from './theme.js'

/** The words around a chart. */
export interface ChartText {
  /** The one message of the figure. */
  readonly title: string
  /** How it was made: what the bands are, how many seeds, which command. */
  readonly subtitle?: string | readonly string[]
}

/** A quantitative axis. */
export interface Axis {
  /** Meaning and unit. */
  readonly title: string
  /** Logarithmic; values are then above 0. */
  readonly log?: boolean
  /** Where ticks stand; Vega's choice by default. */
  readonly ticks?: readonly number[]
  readonly domain?: readonly [number, number]
  /** Includes 0; no by default. */
  readonly zero?: boolean
  /** d3-format of the labels. */
  readonly format?: string
}

export const schema = 'https://vega.github.io/schema/vega-lite/v5.json'

/** Characters of a title, and of a subtitle, that fit the column at their sizes. */
const titleWidth = 62
const subtitleWidth = 78

/** Title and subtitle, broken into lines that fit the column. */
export const heading = ({ title, subtitle }: ChartText): TopLevelSpec['title'] => ({
  text: wrap(title, titleWidth),
  ...(subtitle === undefined ? {} : { subtitle: [subtitle].flat().flatMap((line) => wrap(line, subtitleWidth)) }),
})

/** Lines of at most `width` characters, broken at spaces (not beside an equals sign), as few as that needs and about equally long; a longer word stays whole. */
export const wrap = (text: string, width: number): string[] => {
  const fewest = greedyWrap(text, width).length
  let narrow = width
  while (narrow > 1 && greedyWrap(text, narrow - 1).length === fewest) narrow--
  return greedyWrap(text, narrow)
}

const greedyWrap = (text: string, width: number): string[] => {
  const lines: string[] = []
  // "δ = 0.05" stays together
  for (const word of text.split(/(?<!=) (?!=)/)) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

/** The values of a field in the order in which they come. */
export const seriesOf = (rows: readonly Row[], field: string): string[] => [...new Set(rows.map((row) => String(row[field])))]

const nominal = (field: string, rows: readonly Row[], range: readonly unknown[]): object => {
  const domain = seriesOf(rows, field)
  return { field, type: 'nominal', title: null, scale: { domain, range: domain.map((_, i) => range[i % range.length]) }, legend: { columns: columnsFor(domain) } }
}

/** Columns of a legend: all labels in one row if they fit the figure's column, else two. */
const columnsFor = (labels: readonly string[]): number =>
  labels.length * (45 + 6 * Math.max(...labels.map((label) => label.length))) <= 470 ? labels.length : 2

/** Colours, dashes and shapes go together, in the order of the series, so that none depends on colour alone. */
export const colorBy = (field: string, rows: readonly Row[]): object => ({ color: nominal(field, rows, palette) })
export const dashBy = (field: string, rows: readonly Row[]): object => ({ strokeDash: nominal(field, rows, dashes) })
/** Colour and dash of lines, with a legend long enough to show the dashes. */
export const lineBy = (field: string, rows: readonly Row[]): object =>
  Object.fromEntries(Object.entries({ ...colorBy(field, rows), ...dashBy(field, rows) }).map(([channel, definition]) => [channel, { ...(definition as object), legend: { ...(definition as { legend: object }).legend, symbolType: 'stroke', symbolSize: 600 } }]))
export const shapeBy = (field: string, rows: readonly Row[]): object => ({ shape: nominal(field, rows, shapes) })
const shapes = ['circle', 'square', 'triangle-up', 'diamond', 'cross', 'triangle-down', 'triangle-right']

/** Encodings that another layer's legend speaks for. The chart then needs `ownLegends`. */
export const withoutLegend = (encoding: object): object =>
  Object.fromEntries(Object.entries(encoding).map(([channel, definition]) => [channel, { ...(definition as object), legend: null }]))

/** Whether a row has an interval. */
export const hasInterval = (row: Row): boolean => row.low !== undefined && row.low !== null

/** Keeps the rows whose estimate has an interval. */
export const isInterval = { filter: 'isValid(datum.low) && isValid(datum.high)' } as const

/** A plot of layers over one table, each with legends of its own. */
export const layered = (rows: readonly Row[], text: ChartText, layer: readonly object[]): TopLevelSpec =>
  ({ $schema: schema, title: heading(text), data: { values: rows as Row[] }, resolve: ownLegends, layer }) as TopLevelSpec

/** Lets one layer leave out a legend that another one draws. */
export const ownLegends = { legend: { color: 'independent', shape: 'independent', strokeDash: 'independent' } } as const

/** Short labels at any size: 1e-5, 0.01, 300. */
const shortLabel = "abs(datum.value) >= 1e5 || (datum.value != 0 && abs(datum.value) < 1e-3) ? format(datum.value, '~e') : format(datum.value, '~g')"

/** A quantitative channel along an axis. */
export const along = (field: string, { title, log, ticks, domain, zero = false, format }: Axis): object => ({
  field,
  type: 'quantitative',
  title,
  scale: { ...(log ? { type: 'log' } : { zero }), ...(domain ? { domain, nice: false } : {}) },
  axis: { ...(ticks ? { values: ticks } : {}), ...(format ? { format } : log ? { labelExpr: shortLabel } : {}) },
})

/** The axis with ticks: on a logarithmic one at powers of ten, or at 1, 2 and 5 of each where the values span less than two of them. */
export const withTicks = (axis: Axis, values: readonly number[]): Axis => {
  const above = values.filter((value) => value > 0)
  if (!axis.log || axis.ticks || above.length === 0) return axis
  const [low, high] = [Math.log10(Math.min(...above)), Math.log10(Math.max(...above))]
  const steps = high - low < 2 ? [1, 2, 5] : [1]
  const decades = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, k) => Math.floor(low) + k)
  return { ...axis, ticks: decades.flatMap((decade) => steps.map((step) => Number(`${step}e${decade}`))) }
}
