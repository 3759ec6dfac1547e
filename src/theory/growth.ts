import type { Random } from '../util/random.js'
import { mean, quantileSorted, studentQuantile, type Interval } from './intervals.js'

/**
 * Growth exponents: the α of y ~ c·n^α, from a table of (n, y).
 *
 * Three readings, none of them "the" exponent: a line through the logarithms, the same with weights, and
 * a power law over an offset, y = a + c·n^α. Over a few small n they differ by more than their error bars
 * (n(n−1) fits as 2.40 on n = 2, 3, 4, 5, 6, 8), so show {@link localExponents} beside any of them.
 */
export interface GrowthRow {
  /** Size, > 0. */
  readonly n: number
  /** What grows; > 0 for fits on logarithms. */
  readonly y: number
  /** Weight of this row's squared residual, > 0; 1 by default. */
  readonly weight?: number
}

export interface GrowthFit {
  readonly method: 'log-log' | 'offset'
  readonly alpha: number
  /** c. */
  readonly coefficient: number
  /** a; 0 for a fit on logarithms. */
  readonly offset: number
  /** Of α, from the residuals; Infinity when there are no more rows than parameters. */
  readonly standardError: number
  /** Confidence limits of α (Student's t with `degreesOfFreedom`), under the model with independent normal residuals. */
  readonly low: number
  readonly high: number
  readonly confidence: number
  readonly degreesOfFreedom: number
}

interface FitOptions {
  /** 1 − α; 0.95 by default. */
  readonly confidence?: number
}

/**
 * Least squares of log y on log n, weighted where rows have weights: log y = log c + α log n + error.
 *
 * @throws RangeError for fewer than two different n, or an n, y or weight that is not positive
 */
export const fitPowerLaw = (rows: readonly GrowthRow[], { confidence = 0.95 }: FitOptions = {}): GrowthFit => {
  checkRows(rows, 2)
  for (const { y } of rows) if (!(y > 0)) throw new RangeError(`y is ${y}; a fit on logarithms needs y > 0`)
  const { intercept, slope, residual, spread } = line(
    rows.map(({ n }) => Math.log(n)),
    rows.map(({ y }) => Math.log(y)),
    rows.map(weightOf),
  )
  const degreesOfFreedom = rows.length - 2
  const standardError = degreesOfFreedom > 0 ? Math.sqrt(residual / degreesOfFreedom / spread) : Infinity
  const radius = degreesOfFreedom > 0 ? studentQuantile((1 + confidence) / 2, degreesOfFreedom) * standardError : Infinity
  return {
    method: 'log-log',
    alpha: slope,
    coefficient: Math.exp(intercept),
    offset: 0,
    standardError,
    low: slope - radius,
    high: slope + radius,
    confidence,
    degreesOfFreedom,
  }
}

/**
 * Non-linear least squares of y = a + c·n^α. For a fixed α the model is linear in (a, c), so only the profile RSS(α) is searched: on a
 * grid over `exponents`, then by golden sections. The standard error is Gauss–Newton's; the limits are the profile's, {α : RSS(α) ≤
 * RSS_min (1 + t²/ν)}, and infinite where the profile stays below that up to the end of `exponents`.
 *
 * @param exponents where α is searched; [−2, 5] by default
 * @throws RangeError for fewer than three different n, or an n or weight that is not positive
 */
export const fitPowerLawWithOffset = (
  rows: readonly GrowthRow[],
  { confidence = 0.95, exponents = [-2, 5] }: FitOptions & { readonly exponents?: readonly [number, number] } = {},
): GrowthFit => {
  checkRows(rows, 3)
  const weights = rows.map(weightOf)
  const y = rows.map((row) => row.y)
  const logScale = mean(rows.map(({ n }) => Math.log(n)))
  const logs = rows.map(({ n }) => Math.log(n) - logScale)
  // (x^α − 1)/α instead of x^α, x = n / geometric mean: the same model, and α = 0 is the logarithm instead of a hole.
  const power = (alpha: number): number[] => logs.map((l) => (alpha === 0 ? l : Math.expm1(alpha * l) / alpha))
  const profile = (alpha: number): number => line(power(alpha), y, weights).residual
  const [least, most] = exponents

  const steps = Math.ceil((most - least) / 0.05)
  const grid = Array.from({ length: steps + 1 }, (_, k) => least + ((most - least) * k) / steps)
  const best = grid.map(profile).reduce((at, value, k, all) => (value < all[at] ? k : at), 0)
  const alpha = goldenSection(profile, grid[Math.max(best - 1, 0)], grid[Math.min(best + 1, steps)])

  const { intercept, slope, residual } = line(power(alpha), y, weights)
  const degreesOfFreedom = rows.length - 3
  // Var α = s² / (what of ∂y/∂α the columns 1 and n^α leave unexplained): Frisch–Waugh–Lovell.
  const derivative = logs.map((l) =>
    Math.abs(alpha) < 1e-6 ? (slope * l * l) / 2 : (slope * (alpha * l * Math.exp(alpha * l) - Math.expm1(alpha * l))) / alpha ** 2,
  )
  const unexplained = line(power(alpha), derivative, weights).residual
  const standardError = degreesOfFreedom > 0 ? Math.sqrt(residual / degreesOfFreedom / unexplained) : Infinity
  const t = degreesOfFreedom > 0 ? studentQuantile((1 + confidence) / 2, degreesOfFreedom) : Infinity
  const level = degreesOfFreedom > 0 ? residual * (1 + (t * t) / degreesOfFreedom) : Infinity
  return {
    method: 'offset',
    alpha,
    coefficient: alpha === 0 ? slope : slope / alpha / Math.exp(alpha * logScale),
    offset: alpha === 0 ? intercept : intercept - slope / alpha,
    standardError,
    low: profile(least) <= level ? -Infinity : crossing(profile, level, alpha, least),
    high: profile(most) <= level ? Infinity : crossing(profile, level, alpha, most),
    confidence,
    degreesOfFreedom,
  }
}

/** The slope of log y between neighbouring n: α itself for a pure power law, and where it is heading for anything else. */
export const localExponents = (rows: readonly GrowthRow[]): { readonly from: number; readonly to: number; readonly alpha: number }[] =>
  rows.slice(1).map((row, k) => ({ from: rows[k].n, to: row.n, alpha: Math.log(row.y / rows[k].y) / Math.log(row.n / rows[k].n) }))

interface ResampleOptions extends FitOptions {
  readonly random: Random
  /** Resamples; 1000 by default. */
  readonly replicates?: number
}

/**
 * A bootstrap interval of α where every n has several samples (seeds): the samples of each n are drawn again
 * with replacement, averaged, and fitted. Percentile limits.
 *
 * @param fit for example {@link fitPowerLaw}
 */
export const bootstrapSamples = (
  table: readonly { readonly n: number; readonly samples: ArrayLike<number> }[],
  fit: (rows: readonly GrowthRow[]) => GrowthFit,
  { confidence = 0.95, random, replicates = 1000 }: ResampleOptions,
): Interval => {
  const redraw = (samples: ArrayLike<number>): number => {
    let sum = 0
    for (let k = 0; k < samples.length; k++) sum += samples[random.int(samples.length)]
    return sum / samples.length
  }
  const estimate = fit(table.map(({ n, samples }) => ({ n, y: mean(samples) }))).alpha
  return percentile(estimate, replicates, confidence, () => fit(table.map(({ n, samples }) => ({ n, y: redraw(samples) }))).alpha)
}

/**
 * A bootstrap interval of α where every n has one value: the fit's residuals, on the scale that it fits (logarithms, or y
 * itself with an offset), are scaled by √(m/ν) for the parameters used up, drawn again with replacement, and fitted. Percentile limits.
 */
export const bootstrapResiduals = (
  rows: readonly GrowthRow[],
  fit: (rows: readonly GrowthRow[]) => GrowthFit,
  { confidence = 0.95, random, replicates = 1000 }: ResampleOptions,
): Interval => {
  const { method, alpha, coefficient, offset, degreesOfFreedom } = fit(rows)
  const scale = method === 'log-log' ? { to: Math.log, from: Math.exp } : { to: (x: number) => x, from: (x: number) => x }
  const fitted = rows.map(({ n }) => scale.to(offset + coefficient * n ** alpha))
  const inflate = Math.sqrt(rows.length / Math.max(degreesOfFreedom, 1))
  const residuals = rows.map((row, k) => Math.sqrt(weightOf(row)) * (scale.to(row.y) - fitted[k]) * inflate)
  return percentile(
    alpha,
    replicates,
    confidence,
    () =>
      fit(rows.map((row, k) => ({ ...row, y: scale.from(fitted[k] + residuals[random.int(rows.length)] / Math.sqrt(weightOf(row))) })))
        .alpha,
  )
}

/**
 * The least and the largest α that {@link fitPowerLaw} can give when every y is only known to ± `halfUnit` (a table printed to two
 * decimals: 0.005). Exact: α is linear in the log y, so each y goes to the end of its interval that its coefficient asks for.
 *
 * @throws RangeError as {@link fitPowerLaw}, also when a y − halfUnit is not positive
 */
export const roundingRange = (rows: readonly GrowthRow[], halfUnit: number): readonly [low: number, high: number] => {
  const weights = rows.map(weightOf)
  const centre = weightedMean(
    rows.map(({ n }) => Math.log(n)),
    weights,
  )
  const extreme = (sign: number): number =>
    fitPowerLaw(rows.map((row) => ({ ...row, y: row.y + sign * Math.sign(Math.log(row.n) - centre) * halfUnit }))).alpha
  return [extreme(-1), extreme(1)]
}

const percentile = (estimate: number, replicates: number, confidence: number, draw: () => number): Interval => {
  const values = Float64Array.from({ length: replicates }, draw).sort()
  const tail = (1 - confidence) / 2
  return { estimate, low: quantileSorted(values, tail), high: quantileSorted(values, 1 - tail), confidence, method: 'bootstrap-percentile' }
}

const weightOf = ({ weight = 1 }: GrowthRow): number => weight

const weightedMean = (x: readonly number[], weights: readonly number[]): number =>
  x.reduce((sum, value, k) => sum + weights[k] * value, 0) / weights.reduce((sum, w) => sum + w, 0)

/** Weighted least squares of y = intercept + slope·x; `residual` is Σ w r², `spread` Σ w (x − x̄)². */
const line = (x: readonly number[], y: readonly number[], weights: readonly number[]) => {
  const cx = weightedMean(x, weights)
  const cy = weightedMean(y, weights)
  let xx = 0
  let xy = 0
  for (let k = 0; k < x.length; k++) {
    xx += weights[k] * (x[k] - cx) ** 2
    xy += weights[k] * (x[k] - cx) * (y[k] - cy)
  }
  const slope = xx > 0 ? xy / xx : 0
  let residual = 0
  for (let k = 0; k < x.length; k++) residual += weights[k] * (y[k] - cy - slope * (x[k] - cx)) ** 2
  return { intercept: cy - slope * cx, slope, residual, spread: xx }
}

/** The minimiser of a function with one minimum in [low, high]. */
const goldenSection = (f: (x: number) => number, low: number, high: number): number => {
  const ratio = (Math.sqrt(5) - 1) / 2
  let a = high - ratio * (high - low)
  let b = low + ratio * (high - low)
  let fa = f(a)
  let fb = f(b)
  for (let k = 0; k < 80; k++) {
    if (fa <= fb) {
      ;[high, b, fb] = [b, a, fa]
      a = high - ratio * (high - low)
      fa = f(a)
    } else {
      ;[low, a, fa] = [a, b, fb]
      b = low + ratio * (high - low)
      fb = f(b)
    }
  }
  return (low + high) / 2
}

/** Where f leaves {f ≤ level} between `inside` and `outside`, by bisection. */
const crossing = (f: (x: number) => number, level: number, inside: number, outside: number): number => {
  for (let k = 0; k < 60; k++) {
    const middle = (inside + outside) / 2
    if (f(middle) <= level) inside = middle
    else outside = middle
  }
  return (inside + outside) / 2
}

const checkRows = (rows: readonly GrowthRow[], different: number): void => {
  for (const row of rows) {
    if (!(row.n > 0 && Number.isFinite(row.n))) throw new RangeError(`n is ${row.n}; a size is positive`)
    if (!Number.isFinite(row.y)) throw new RangeError(`y is ${row.y} at n = ${row.n}; a finite number is needed`)
    if (!(weightOf(row) > 0)) throw new RangeError(`weight is ${row.weight} at n = ${row.n}; a weight is positive`)
  }
  const sizes = new Set(rows.map(({ n }) => n)).size
  if (sizes < different) throw new RangeError(`${sizes} different n; ${different} at least are needed`)
}
