import type { Random } from '../util/random.js'
import { bootstrapInterval, type Interval } from './intervals.js'

/** Ranks from 1; equal values share the mean of theirs. */
export const ranks = (x: ArrayLike<number>): Float64Array => {
  const order = Array.from({ length: x.length }, (_, i) => i).sort((a, b) => x[a] - x[b])
  const rank = new Float64Array(x.length)
  for (let from = 0; from < order.length;) {
    let to = from + 1
    while (to < order.length && x[order[to]] === x[order[from]]) to++
    for (let k = from; k < to; k++) rank[order[k]] = (from + 1 + to) / 2
    from = to
  }
  return rank
}

/**
 * Spearman's rank correlation of pairs, −1 … 1: the correlation of their ranks. NaN where all x or all y are equal.
 *
 * @throws RangeError for different lengths or fewer than two pairs
 */
export const rankCorrelation = (x: ArrayLike<number>, y: ArrayLike<number>): number => {
  if (x.length !== y.length || x.length < 2) throw new RangeError(`${x.length} and ${y.length} values; pairs are needed, at least two`)
  const [a, b] = [ranks(x), ranks(y)]
  const centre = (x.length + 1) / 2
  let [ab, aa, bb] = [0, 0, 0]
  for (let k = 0; k < a.length; k++) {
    ab += (a[k] - centre) * (b[k] - centre)
    aa += (a[k] - centre) ** 2
    bb += (b[k] - centre) ** 2
  }
  return ab / Math.sqrt(aa * bb)
}

/** The same with a bootstrap interval over the pairs. Throws as {@link rankCorrelation}. */
export const rankCorrelationInterval = (x: ArrayLike<number>, y: ArrayLike<number>, options: { readonly confidence?: number; readonly random: Random }): Interval => {
  rankCorrelation(x, y)
  const pairs = Float64Array.from({ length: x.length }, (_, k) => k)
  const of = (values: ArrayLike<number>, chosen: Float64Array): Float64Array => chosen.map((k) => values[k])
  return bootstrapInterval(pairs, { ...options, statistic: (chosen) => rankCorrelation(of(x, chosen), of(y, chosen)) })
}
