import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { ratios } from './estimates.js'
import { quantileSorted } from './intervals.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'
import { simulate, type Rollouts } from './simulate.js'

/**
 * Why stale rollouts cannot be repaired by reweighting: a rollout of π̂⁰ stands for π̂^{i−1} with weight w = Π_t
 * π̂^{i−1}(a_t|s_t)/π̂⁰(a_t|s_t), a product over all turns of all agents that have moved. Its mean stays 1 while its second moment grows
 * exponentially in their number, so the effective sample size, (Σw)²/Σw² of B rollouts, collapses.
 */
export interface WeightSummary {
  /** ESS/B = (Σw)²/(B Σw²), in [1/B, 1]. */
  readonly essPerRollout: number
  /** Quantiles of w over its mean. */
  readonly median: number
  readonly p90: number
  readonly p99: number
  readonly max: number
  /** Share of the total weight that the largest 1 % of the rollouts (at least one) carry. */
  readonly topShare: number
}

/** log w of every rollout: Σ_t log(current/base) of its pairs; −∞ where `current` would never do what the rollout did. */
export const logImportanceWeights = (mdp: TeamMdp, rollouts: Rollouts, base: TeamPolicy, current: TeamPolicy): Float64Array => {
  const { start, pair } = rollouts
  const logs = ratios(mdp, base, current).map(Math.log)
  return Float64Array.from({ length: start.length - 1 }, (_, m) => {
    let sum = 0
    for (let at = start[m]; at < start[m + 1]; at++) sum += logs[pair[at]]
    return sum
  })
}

/**
 * Effective sample size and tail of importance weights given by their logarithms (any common factor cancels).
 * @throws InputError when no weight is above 0
 */
export const summariseWeights = (logWeights: ArrayLike<number>): WeightSummary => {
  const logs = Float64Array.from(logWeights)
  const top = logs.reduce((a, b) => Math.max(a, b), -Infinity)
  if (!(top > -Infinity)) throw new InputError(`weights: hold ${logs.length} of 0; at least one above 0`)
  const sorted = logs.map((l) => Math.exp(l - top)).sort()
  const sum = sorted.reduce((a, w) => a + w, 0)
  const squares = sorted.reduce((a, w) => a + w * w, 0)
  const average = sum / sorted.length
  const tail = sorted.subarray(sorted.length - Math.max(1, Math.floor(sorted.length / 100)))
  return {
    essPerRollout: (sum * sum) / squares / sorted.length,
    median: quantileSorted(sorted, 0.5) / average,
    p90: quantileSorted(sorted, 0.9) / average,
    p99: quantileSorted(sorted, 0.99) / average,
    max: sorted[sorted.length - 1] / average,
    topShare: tail.reduce((a, w) => a + w, 0) / sum,
  }
}

/**
 * 1/E[w²] over rollouts of `turns` steps of `base`: what ESS/B tends to as B grows, exactly, by a backward recursion over the turns:
 * M_0 = 1, M_t(s) = Σ_a π⁰(a|s) w(s,a)² Σ_s' P(s'|s,a) M_{t−1}(s').
 *
 * @throws InputError where `current` plays what `base` never plays
 */
export const essLimit = (mdp: TeamMdp, base: TeamPolicy, current: TeamPolicy, turns: number): number => {
  const { states, actionStart, rowStart, next, prob, mu } = mdp
  const w = ratios(mdp, base, current)
  let moment = new Float64Array(states).fill(1)
  for (let t = 0; t < turns; t++) {
    const ahead = moment
    moment = new Float64Array(states)
    for (let s = 0; s < states; s++) {
      for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
        let onward = 0
        for (let e = rowStart[k]; e < rowStart[k + 1]; e++) onward += prob[e] * ahead[next[e]]
        moment[s] += base[k] * w[k] * w[k] * onward
      }
    }
  }
  return 1 / mu.reduce((sum, p, s) => sum + p * moment[s], 0)
}

export interface CollapseRow extends WeightSummary {
  /** Which update of the stage the weights are for, from 2 (the first needs none) to n. */
  readonly update: number
  /** The limit of ESS/B for many rollouts, exact. */
  readonly essLimit: number
}

/**
 * The weights that the stale rollouts of π̂⁰ would need at every update of a stage (the paper's Table 10 reports ESS/B of the same kind).
 *
 * @param policies π̂⁰ … π̂^{n−1} (a π̂ⁿ is not used)
 * @param turns length of every rollout
 */
export const importanceCollapse = (
  { mdp, policies, rollouts, turns, random }: {
    readonly mdp: TeamMdp
    readonly policies: readonly TeamPolicy[]
    readonly rollouts: number
    readonly turns: number
    readonly random: Random
  },
): CollapseRow[] => {
  const stale = simulate(mdp, policies[0], { rollouts, horizon: turns, random })
  return policies.slice(1, mdp.n).map((current, k) => ({
    update: k + 2,
    ...summariseWeights(logImportanceWeights(mdp, stale, policies[0], current)),
    essLimit: essLimit(mdp, policies[0], current, turns),
  }))
}
