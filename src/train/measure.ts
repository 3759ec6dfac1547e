/** What an update did, in numbers: estimates on the rollouts it was made from, in float64. */
import { activeMassOfRollouts, discountedMean, lowVarianceMessageKl, plainMean, plainMessageKl } from '../theory/messages.js'
import { studentInterval } from '../theory/intervals.js'
import type { Advantages } from './advantage.js'
import type { AgentMessages } from './messages.js'
import type { Estimator } from './objective.js'
import type { Rollouts } from './rollout.js'

/** ρ̂_j of each agent. An episode that is over has left the MDP: the ρ̂ sum to less than 1. */
export const activeMass = ({ episodes }: Rollouts, agents: number, gamma: number): Float64Array =>
  activeMassOfRollouts(episodes.map(({ messages }) => messages.map(({ agent }) => agent)), agents, gamma)

/** A divergence behaviour‖updated under the three readings. */
export interface Divergence {
  /** Mean over the agent's messages: the paper's monitor. */
  readonly message: number
  /** The same with weights γ^t: D_tok/ρ_j. */
  readonly discounted: number
  /** D_tok: the mean over all states under the discounted occupancy, the radius of Theorem 3.4. */
  readonly occupancy: number
}

/** Per marked token, [M]: what the forward passes gave. */
export interface TokenValues {
  readonly logBehaviour: ArrayLike<number>
  readonly logUpdated: ArrayLike<number>
  /** KL of the whole next-token distribution; null where it was not computed. */
  readonly exact: ArrayLike<number> | null
}

/** Divergence of each distinct message, the sum over its tokens. */
const messageDivergences = ({ spans }: AgentMessages, { logBehaviour, logUpdated, exact }: TokenValues, estimator: Estimator): number[] =>
  spans.map(([from, to]) => {
    if (estimator === 'exact') {
      let sum = 0
      for (let u = from; u < to; u++) sum += exact![u]
      return Math.max(0, sum)
    }
    const [behaviour, updated] = [logBehaviour, logUpdated].map((values) => Array.prototype.slice.call(values, from, to) as number[])
    return estimator === 'plain' ? plainMessageKl(behaviour, updated) : lowVarianceMessageKl(behaviour, updated)
  })

/** @param rho ρ̂_j of the agent whose messages these are */
export const divergence = (messages: AgentMessages, values: TokenValues, estimator: Estimator, gamma: number, rho: number): Divergence => {
  const each = messageDivergences(messages, values, estimator)
  const all = messages.occurrences.map(({ distinct }) => each[distinct])
  const discounted = discountedMean(all, messages.occurrences.map(({ turn }) => turn), gamma)
  return { message: plainMean(all), discounted, occupancy: rho * discounted }
}

/** L̂ of one update and how far the advantage in it may be from the true one. All in units of return. */
export interface Surrogate {
  /**
   * L̂ with the Â that the objective used, per unit of σ: (1/E) Σ_m σ(min(w Ã, clip(w) Ã) − Ã) over the E episodes. Centred: what it is
   * at w = 1 is subtracted, since no action changes that.
   */
  readonly value: number
  /**
   * L̂ with the true advantage, (1/E) Σ_m (w − 1)(R − mean of the others' R): unbiased for L^seq under rollouts that the update has not
   * seen (the ones it was fitted to flatter it), with its 95 % interval over problems.
   */
  readonly unbiased: number
  readonly low: number
  readonly high: number
  /** σ: the return that one unit of Ã stands for (least squares of the centred returns on Ã). */
  readonly scale: number
  readonly zeta: Zeta
}

/**
 * Parts of ζ̂, an upper estimate of |E_{s~d, a~π_new}[Â − A]| by the triangle inequality, from the true advantage to the one used:
 * each is (1−γ) times the absolute mean over episodes of what one approximation changes.
 */
export interface Zeta {
  /** Cutting Ã at ±A_clip: σ (w − 1)(Ã − z). */
  readonly clip: number
  /** Clipping the ratio, and taking it token by token where that is so: σ [(r(Ã) − Ã) − (w − 1) Ã], r(Ã) the objective's term. */
  readonly ratio: number
  /** Dividing each group by its own deviation: (w − 1)(σ z − (R − mean of the others' R)). */
  readonly normalisation: number
  /** Their sum: ζ̂. */
  readonly total: number
}

export interface SurrogateOptions {
  readonly gamma: number
  /** ε of the ratio's clip. */
  readonly clip: number
  readonly ratio: 'message' | 'token'
}

export const surrogate = (
  rollouts: Rollouts, messages: AgentMessages, { logBehaviour, logUpdated }: TokenValues, advantages: Advantages,
  { gamma, clip, ratio }: SurrogateOptions,
): Surrogate => {
  const { used, unclipped, centred } = advantages
  const ratios = messages.spans.map(([from, to]) => {
    const logs = Array.from({ length: to - from }, (_, k) => logUpdated[from + k] - logBehaviour[from + k])
    const message = Math.exp(logs.reduce((sum, x) => sum + x, 0))
    return { message, units: ratio === 'message' ? [message] : logs.map(Math.exp) }
  })
  const clipped = (w: number, a: number): number => Math.min(w * a, Math.min(1 + clip, Math.max(1 - clip, w)) * a) - a
  const scale = dot(centred, used) / (dot(used, used) || 1)

  const E = rollouts.episodes.length
  const perProblem = new Float64Array(rollouts.problems.length)
  const sums = { value: 0, clip: 0, ratio: 0, normalisation: 0 }
  for (const { episode, distinct } of messages.occurrences) {
    const { message: w, units } = ratios[distinct]
    const a = used[episode]
    const term = units.reduce((sum, unit) => sum + clipped(unit, a), 0)
    sums.value += (scale * term) / E
    sums.ratio += (scale * (term - (w - 1) * a)) / E
    sums.clip += (scale * (w - 1) * (a - unclipped[episode])) / E
    sums.normalisation += ((w - 1) * (scale * unclipped[episode] - centred[episode])) / E
    perProblem[rollouts.episodes[episode].problem] += ((w - 1) * centred[episode]) / rollouts.group
  }
  const part = (x: number): number => (1 - gamma) * Math.abs(x)
  const parts = { clip: part(sums.clip), ratio: part(sums.ratio), normalisation: part(sums.normalisation) }
  const zeta = { ...parts, total: parts.clip + parts.ratio + parts.normalisation }
  const { estimate, low, high } = studentInterval(perProblem)
  return { value: sums.value, unbiased: estimate, low, high, scale, zeta }
}

const dot = (a: Float64Array, b: Float64Array): number => a.reduce((sum, x, i) => sum + x * b[i], 0)
