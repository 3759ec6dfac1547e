import { bootstrapInterval, empiricalBernsteinInterval, proportionInterval, studentInterval } from '../theory/intervals.js'
import type { Random } from '../util/random.js'

/** An estimate and its 95 % interval. */
export interface Estimate {
  readonly estimate: number
  readonly low: number
  readonly high: number
}

/** A mean of independent samples, with Student's interval. */
export const studentEstimate = (samples: ArrayLike<number>): Estimate => bare(studentInterval(samples))

/**
 * Mean of after − before, pair by pair. On the same problems they are pairs; on other ones independent samples of one size, whose differences have the
 * right mean and variance whichever is taken from which. Either way Student's interval holds. What is left by rounding alone (the same values in another
 * order) is 0.
 */
export const differenceEstimate = (after: readonly number[], before: readonly number[]): Estimate => {
  const { estimate, low, high } = studentEstimate(after.map((value, p) => value - before[p]))
  const size = [...after, ...before].reduce((sum, value) => sum + Math.abs(value), 0)
  return { estimate: Math.abs(estimate) <= size * Number.EPSILON ? 0 : estimate, low, high }
}

/** A mean of independent samples, with a bootstrap interval. @param random drives it */
export const bootstrapEstimate = (samples: ArrayLike<number>, random: Random): Estimate => bare(bootstrapInterval(samples, { random }))

/**
 * A mean of rewards in [0, 1] with an interval that holds for any number of them, also where all are the same, of which a bootstrap makes a point:
 * Clopper and Pearson's where each is 0 or 1, else empirical Bernstein.
 *
 * @param given one of each episode
 * @throws RangeError for no rewards, or one outside [0, 1]
 */
export const rewardEstimate = (given: readonly number[]): Estimate => {
  // Rewards that are earned in parts add up to 1 but for rounding.
  const rewards = given.map((reward) => (Math.abs(reward - Math.round(reward)) < 1e-12 ? Math.round(reward) : reward))
  return bare(rewards.every((reward) => reward === 0 || reward === 1)
    ? proportionInterval(rewards.filter((reward) => reward === 1).length, rewards.length)
    : empiricalBernsteinInterval(rewards, { range: [0, 1] }))
}

const bare = ({ estimate, low, high }: Estimate): Estimate => ({ estimate, low, high })
