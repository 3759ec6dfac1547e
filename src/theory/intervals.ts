import jstat from 'jstat'
import type { Random } from '../util/random.js'

/**
 * Confidence intervals for the mean of independent samples: two-sided, and at level 1 − α each tail
 * is given α/2, so either end alone is a one-sided bound at level 1 − α/2.
 *
 * | interval | needs | holds |
 * |---|---|---|
 * | Hoeffding | a range known beforehand | for every sample size |
 * | empirical Bernstein | a range known beforehand | for every sample size; narrower when the variance is small |
 * | Student t | — | exactly for normal samples, else asymptotically |
 * | bootstrap | — | asymptotically |
 * | Clopper–Pearson | successes and trials | for every sample size |
 */
export interface Interval {
  /** The sample mean (or the statistic of the sample). */
  readonly estimate: number
  readonly low: number
  readonly high: number
  /** 1 − α, in (0, 1). */
  readonly confidence: number
  readonly method: 'hoeffding' | 'empirical-bernstein' | 'student-t' | 'bootstrap-percentile' | 'bootstrap-bca' | 'clopper-pearson'
}

/** Where every sample must lie, known before sampling: [low, high]. */
export type Range = readonly [low: number, high: number]

export interface BoundedOptions {
  /** 1 − α; 0.95 by default. */
  readonly confidence?: number
  readonly range: Range
}

/**
 * Hoeffding's inequality: |mean − E X| ≤ (b − a) √(log(2/α) / 2m) with probability ≥ 1 − α, for m
 * independent samples in [a, b]. The interval is cut at [a, b], where the mean lies anyway.
 *
 * @throws RangeError for no samples, a sample outside the range, or a confidence outside (0, 1)
 */
export const hoeffdingInterval = (samples: ArrayLike<number>, { confidence = 0.95, range }: BoundedOptions): Interval => {
  const alpha = checkBounded(samples, confidence, range)
  return clipped(mean(samples), hoeffdingRadius(samples.length, alpha / 2, range), range, confidence, 'hoeffding')
}

/** One-sided Hoeffding radius: P(E X − mean ≥ radius) ≤ `alpha` for m independent samples in `range`. */
export const hoeffdingRadius = (m: number, alpha: number, [low, high]: Range): number =>
  (high - low) * Math.sqrt(Math.log(1 / alpha) / (2 * m))

/**
 * The empirical Bernstein inequality of Maurer and Pontil (2009, Theorem 4), applied to both tails:
 * |mean − E X| ≤ √(2 V log(4/α) / m) + 7 (b − a) log(4/α) / (3 (m − 1)) with probability ≥ 1 − α,
 * V the unbiased sample variance. From one sample nothing follows but the range.
 *
 * @throws RangeError as {@link hoeffdingInterval}
 */
export const empiricalBernsteinInterval = (samples: ArrayLike<number>, { confidence = 0.95, range }: BoundedOptions): Interval => {
  const alpha = checkBounded(samples, confidence, range)
  const radius = empiricalBernsteinRadius(samples.length, variance(samples), alpha / 2, range)
  return clipped(mean(samples), radius, range, confidence, 'empirical-bernstein')
}

/**
 * One-sided empirical Bernstein radius: P(E X − mean ≥ radius) ≤ `alpha`, from m samples of unbiased variance `sampleVariance` in
 * `range`.
 */
export const empiricalBernsteinRadius = (m: number, sampleVariance: number, alpha: number, [low, high]: Range): number => {
  if (m < 2) return high - low
  const log = Math.log(2 / alpha)
  return Math.sqrt((2 * sampleVariance * log) / m) + (7 * (high - low) * log) / (3 * (m - 1))
}

/**
 * Student's interval: mean ± t_{m−1}(1 − α/2) · s/√m. Two samples at least; from one the interval is the whole line.
 *
 * @throws RangeError for no samples or a confidence outside (0, 1)
 */
export const studentInterval = (samples: ArrayLike<number>, { confidence = 0.95 }: { readonly confidence?: number } = {}): Interval => {
  const alpha = checkSamples(samples, confidence)
  const m = samples.length
  const estimate = mean(samples)
  const radius = m < 2 ? Infinity : studentQuantile(1 - alpha / 2, m - 1) * Math.sqrt(variance(samples) / m)
  return { estimate, low: estimate - radius, high: estimate + radius, confidence, method: 'student-t' }
}

export interface BootstrapOptions {
  /** 1 − α; 0.95 by default. */
  readonly confidence?: number
  readonly random: Random
  /** Resamples; 2000 by default. */
  readonly replicates?: number
  /** `percentile`, or `bca` (bias-corrected and accelerated; Efron 1987): second-order accurate. */
  readonly method?: 'percentile' | 'bca'
  /** What is estimated; the mean by default. */
  readonly statistic?: (samples: Float64Array) => number
}

/**
 * A bootstrap interval: the statistic of `replicates` resamples with replacement, and the quantiles of
 * those. Asymptotic, never a guarantee; too narrow for a handful of samples.
 *
 * @throws RangeError for no samples or a confidence outside (0, 1)
 */
export const bootstrapInterval = (
  samples: ArrayLike<number>,
  { confidence = 0.95, random, replicates = 2000, method = 'percentile', statistic = mean }: BootstrapOptions,
): Interval => {
  const alpha = checkSamples(samples, confidence)
  const all = Float64Array.from(samples)
  const estimate = statistic(all)
  const resample = new Float64Array(all.length)
  const values = Float64Array.from({ length: replicates }, () => {
    for (let k = 0; k < resample.length; k++) resample[k] = all[random.int(all.length)]
    return statistic(resample)
  }).sort()
  const [at, to] = method === 'bca' ? bcaLevels(all, statistic, estimate, values, alpha) : [alpha / 2, 1 - alpha / 2]
  return { estimate, low: quantileSorted(values, at), high: quantileSorted(values, to), confidence, method: `bootstrap-${method}` }
}

/** The levels at which BCa reads the bootstrap distribution: z₀ corrects its median, a (from the jackknife) its skew. */
const bcaLevels = (
  all: Float64Array,
  statistic: (x: Float64Array) => number,
  estimate: number,
  sorted: Float64Array,
  alpha: number,
): [number, number] => {
  const below = sorted.filter((x) => x < estimate).length
  const equal = sorted.filter((x) => x === estimate).length
  const z0 = normalQuantile(clamp((below + equal / 2) / sorted.length, 1e-9, 1 - 1e-9))
  const jackknife = Float64Array.from(all, (_, k) => statistic(all.filter((__, i) => i !== k)))
  const centre = mean(jackknife)
  const squares = jackknife.reduce((sum, x) => sum + (centre - x) ** 2, 0)
  const cubes = jackknife.reduce((sum, x) => sum + (centre - x) ** 3, 0)
  const a = squares > 0 ? cubes / (6 * squares ** 1.5) : 0
  const level = (p: number): number => {
    const z = z0 + normalQuantile(p)
    return jstat.normal.cdf(z0 + z / (1 - a * z), 0, 1)
  }
  return [level(alpha / 2), level(1 - alpha / 2)]
}

/**
 * Clopper–Pearson: the exact interval of a probability from `successes` in `trials`.
 *
 * @throws RangeError unless 0 ≤ successes ≤ trials and trials ≥ 1
 */
export const proportionInterval = (
  successes: number,
  trials: number,
  { confidence = 0.95 }: { readonly confidence?: number } = {},
): Interval => {
  const alpha = checkConfidence(confidence)
  if (!(trials >= 1 && successes >= 0 && successes <= trials)) throw new RangeError(`${successes} successes in ${trials} trials`)
  const low = successes === 0 ? 0 : jstat.beta.inv(alpha / 2, successes, trials - successes + 1)
  const high = successes === trials ? 1 : jstat.beta.inv(1 - alpha / 2, successes + 1, trials - successes)
  return { estimate: successes / trials, low, high, confidence, method: 'clopper-pearson' }
}

export const mean = (samples: ArrayLike<number>): number => {
  let sum = 0
  for (let k = 0; k < samples.length; k++) sum += samples[k]
  return sum / samples.length
}

/** Unbiased sample variance, Σ (x − mean)² / (m − 1); 0 for one sample. */
export const variance = (samples: ArrayLike<number>): number => {
  if (samples.length < 2) return 0
  const centre = mean(samples)
  let sum = 0
  for (let k = 0; k < samples.length; k++) sum += (samples[k] - centre) ** 2
  return sum / (samples.length - 1)
}

/** The p-quantile of ascending values, linear between order statistics (Hyndman and Fan's type 7). */
export const quantileSorted = (sorted: ArrayLike<number>, p: number): number => {
  const at = clamp(p, 0, 1) * (sorted.length - 1)
  const below = Math.floor(at)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below] + (at - below) * (sorted[above] - sorted[below])
}

/** The p-quantile of Student's t with ν degrees of freedom. */
export const studentQuantile = (p: number, degreesOfFreedom: number): number => jstat.studentt.inv(p, degreesOfFreedom)

/** The p-quantile of the standard normal. */
export const normalQuantile = (p: number): number => jstat.normal.inv(p, 0, 1)

const clamp = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high)

const clipped = (estimate: number, radius: number, range: Range, confidence: number, method: Interval['method']): Interval => ({
  estimate,
  low: Math.max(range[0], estimate - radius),
  high: Math.min(range[1], estimate + radius),
  confidence,
  method,
})

/** @returns α = 1 − confidence */
const checkConfidence = (confidence: number): number => {
  if (!(confidence > 0 && confidence < 1)) throw new RangeError(`confidence is ${confidence}; it lies strictly between 0 and 1`)
  return 1 - confidence
}

const checkSamples = (samples: ArrayLike<number>, confidence: number): number => {
  if (samples.length === 0) throw new RangeError('an interval needs at least one sample')
  return checkConfidence(confidence)
}

const checkBounded = (samples: ArrayLike<number>, confidence: number, [low, high]: Range): number => {
  for (let k = 0; k < samples.length; k++) {
    if (!(samples[k] >= low && samples[k] <= high))
      throw new RangeError(`sample ${k} is ${samples[k]}, outside its range [${low}, ${high}]`)
  }
  return checkSamples(samples, confidence)
}
