import { groupNormalisedAdvantages, plainMean } from '../theory/messages.js'
import type { Rollouts } from './rollout.js'

export interface AdvantageOptions {
  /** Divide by the group's deviation, or only subtract its mean. */
  readonly normalise: boolean
  /** ε_norm. */
  readonly epsilon: number
  /** A_clip; null for none. */
  readonly clip: number | null
}

/** Of every episode, in the order of the rollouts; all messages of an episode share them. */
export interface Advantages {
  /** Ã: what the objective uses, clipped. */
  readonly used: Float64Array
  /** z: the same before clipping. */
  readonly unclipped: Float64Array
  /**
   * R_g − the mean return of the *other* G − 1 episodes of its problem: in units of return, and unbiased for the advantage up to a
   * baseline that no action changes.
   */
  readonly centred: Float64Array
}

/** Group-normalised, clipped advantages (theory.md, section 4) of discounted returns, and what they approximate. */
export const advantagesOf = ({ group, episodes }: Rollouts, { normalise, epsilon, clip }: AdvantageOptions): Advantages => {
  const used = new Float64Array(episodes.length)
  const unclipped = new Float64Array(episodes.length)
  const centred = new Float64Array(episodes.length)
  const limit = clip ?? Infinity
  for (let from = 0; from < episodes.length; from += group) {
    const returns = episodes.slice(from, from + group).map((episode) => episode.return)
    if (returns.every((value) => value === returns[0])) continue
    const mean = plainMean(returns)
    const deviations = returns.map((value) => value - mean)
    const values = normalise ? groupNormalisedAdvantages(returns, { epsilon }).advantages : deviations
    values.forEach((value, g) => {
      unclipped[from + g] = value
      used[from + g] = Math.min(limit, Math.max(-limit, value))
      centred[from + g] = deviations[g] * (group / (group - 1))
    })
  }
  return { used, unclipped, centred }
}
