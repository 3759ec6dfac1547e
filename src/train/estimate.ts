import { bootstrapInterval, studentInterval } from '../theory/intervals.js'
import type { Random } from '../util/random.js'

/** An estimate and its 95 % interval. */
export interface Estimate {
  readonly estimate: number
  readonly low: number
  readonly high: number
}

/** A mean of independent samples, with Student's interval. */
export const studentEstimate = (samples: ArrayLike<number>): Estimate => bare(studentInterval(samples))

/** The same with a bootstrap interval. @param random drives it */
export const bootstrapEstimate = (samples: ArrayLike<number>, random: Random): Estimate => bare(bootstrapInterval(samples, { random }))

const bare = ({ estimate, low, high }: Estimate): Estimate => ({ estimate, low, high })
