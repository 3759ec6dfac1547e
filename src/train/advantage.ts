import { groupNormalisedAdvantages, weightedMean } from '../theory/messages.js'
import type { Rollouts } from './rollout.js'

export interface AdvantageOptions {
  /** Divide by the group's deviation, or only subtract its mean. */
  readonly normalise: boolean
  /** ε_norm. */
  readonly epsilon: number
  /** A_clip; null for none. */
  readonly clip: number | null
}

/**
 * What stands in for fresh rollouts, where agents have moved since these were sampled. W = Π π_new/π_old over an episode's messages of those agents.
 * `compound`: the advantage is multiplied by W (HAPPO). `importance`: every mean is one under the weights W, which then sum to their number.
 */
export type Correction = 'none' | 'compound' | 'importance'

/** Of every message of every agent, in the order of episodes, then turns. */
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
  /** Of every episode: how much it stands for in a mean over episodes. All 1 but under importance weights; their mean is 1. */
  readonly weights: Float64Array
}

/**
 * Group-normalised, clipped advantages (theory.md, section 4) of discounted returns, and what they approximate: all messages of an episode
 * share them.
 *
 * @param logRatios log W of every episode
 */
export const advantagesOf = (
  { group, episodes }: Rollouts, { normalise, epsilon, clip }: AdvantageOptions, correction: Correction = 'none', logRatios: ArrayLike<number> = [],
): Advantages => {
  const ones = new Float64Array(episodes.length).fill(1)
  const ratios = correction === 'none' ? ones : Float64Array.from(logRatios, Math.exp)
  const weights = correction === 'importance' ? selfNormalised(logRatios) : ones
  const factor = correction === 'compound' ? ratios : ones
  const limit = clip ?? Infinity
  const [used, unclipped, centred] = [0, 0, 0].map((): number[] => [])
  for (let from = 0; from < episodes.length; from += group) {
    const own = weights.subarray(from, from + group)
    const returns = episodes.slice(from, from + group).map((episode) => episode.return)
    const equal = returns.every((value) => value === returns[0]) || own.every((weight) => weight === 0)
    const mean = weightedMean(returns, own)
    const values = normalise ? groupNormalisedAdvantages(returns, { epsilon, weights: own }).advantages : returns.map((value) => value - mean)
    returns.forEach((value, g) => {
      const others = weightedMean(returns.filter((_, h) => h !== g), own.filter((_, h) => h !== g))
      const each = (x: number): number => (equal || !Number.isFinite(others) ? 0 : x * factor[from + g])
      for (let turn = 0; turn < episodes[from + g].messages.length; turn++) {
        used.push(each(Math.min(limit, Math.max(-limit, values[g]))))
        unclipped.push(each(values[g]))
        centred.push(each(value - others))
      }
    })
  }
  return { used: Float64Array.from(used), unclipped: Float64Array.from(unclipped), centred: Float64Array.from(centred), weights }
}

/** Weights of mean 1 from their logarithms. */
const selfNormalised = (logs: ArrayLike<number>): Float64Array => {
  const most = Math.max(...Array.from(logs))
  const weights = Float64Array.from(logs, (log) => Math.exp(log - most))
  const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length
  return weights.map((weight) => weight / mean)
}
