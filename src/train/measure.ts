/** What an update did, in numbers: estimates on the rollouts it was made from, in float64. */
import { activeMassOfRollouts, lowVarianceMessageKl, plainMessageKl, weightedMean } from '../theory/messages.js'
import { studentInterval } from '../theory/intervals.js'
import type { Advantages } from './advantage.js'
import type { AgentMessages } from './messages.js'
import { tokenWeights, type Estimator, type ObjectiveOptions } from './objective.js'
import type { Random } from '../util/random.js'
import type { Rollouts } from './rollout.js'

/**
 * ρ̂_j of each agent. An episode that is over has left the MDP: the ρ̂ sum to less than 1.
 *
 * @param weights of the episodes, with mean 1; default: all 1
 */
export const activeMass = ({ episodes }: Rollouts, agents: number, gamma: number, weights?: Float64Array): Float64Array =>
  activeMassOfRollouts(episodes.map(({ messages }) => messages.map(({ agent }) => agent)), agents, gamma, weights)

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

/** A part of the tokens, drawn at random, that stands for all: its sums are divided by the part it was drawn with (Horvitz and Thompson). */
export interface TokenSample {
  /** The probability with which each token is in it. */
  readonly fraction: number
  /** Per marked token. */
  readonly drawn: readonly boolean[]
}

/**
 * Draw each of `tokens` tokens with probability q, on condition that one is drawn at least: without any, a divergence would read 0 whatever it is. The
 * condition raises the probability of each token to q/(1 − (1−q)^tokens), and with this one sums stay unbiased.
 *
 * @param q in (0, 1)
 */
export const drawTokens = (tokens: number, q: number, random: Random): TokenSample => {
  const drawn = Array.from({ length: tokens }, () => random.next() < q)
  const some = -Math.expm1(tokens * Math.log1p(-q))
  if (tokens > 0 && !drawn.includes(true)) {
    // The same draw anew, on condition that it is not empty: where its first token stands is geometric, cut off at the end.
    const first = Math.min(tokens - 1, Math.floor(Math.log1p(-random.next() * some) / Math.log1p(-q)))
    for (let u = first; u < tokens; u++) drawn[u] = u === first || random.next() < q
  }
  return { fraction: tokens > 0 ? q / some : q, drawn }
}

/** Divergence of each distinct message, the sum over its tokens. */
const messageDivergences = (
  { spans }: AgentMessages, { logBehaviour, logUpdated, exact }: TokenValues, estimator: Estimator, sample?: TokenSample,
): number[] =>
  spans.map(([from, to]) => {
    const tokens = Array.from({ length: to - from }, (_, k) => from + k).filter((u) => sample?.drawn[u] ?? true)
    const part = sample?.fraction ?? 1
    if (estimator === 'exact') return Math.max(0, tokens.reduce((sum, u) => sum + exact![u], 0)) / part
    const [behaviour, updated] = [logBehaviour, logUpdated].map((values) => tokens.map((u) => values[u]))
    return (estimator === 'plain' ? plainMessageKl(behaviour, updated) : lowVarianceMessageKl(behaviour, updated)) / part
  })

export interface DivergenceOptions {
  readonly estimator: Estimator
  readonly gamma: number
  /** ρ̂_j of the agent whose messages these are. */
  readonly rho: number
  /** Of every episode; default: all 1. */
  readonly weights?: Float64Array
  /** Default: all tokens. */
  readonly sample?: TokenSample
}

export const divergence = (messages: AgentMessages, values: TokenValues, { estimator, gamma, rho, weights, sample }: DivergenceOptions): Divergence => {
  const each = messageDivergences(messages, values, estimator, sample)
  const { occurrences } = messages
  const all = occurrences.map(({ distinct }) => each[distinct])
  const weigh = occurrences.map(({ episode }) => weights?.[episode] ?? 1)
  const discounted = weightedMean(all, occurrences.map(({ turn }, m) => weigh[m] * gamma ** turn))
  return { message: weightedMean(all, weigh), discounted, occupancy: rho * discounted }
}

/** log π_new − log π_cur of each distinct message. */
export const messageLogRatios = ({ spans }: AgentMessages, { logBehaviour, logUpdated }: Pick<TokenValues, 'logBehaviour' | 'logUpdated'>): number[] =>
  spans.map(([from, to]) => {
    let sum = 0
    for (let u = from; u < to; u++) sum += logUpdated[u] - logBehaviour[u]
    return sum
  })

/** Σ over an agent's messages of log π_new − log π_cur, per episode. */
export const logRatiosOf = (messages: AgentMessages, values: TokenValues, episodes: number): Float64Array => {
  const { occurrences } = messages
  const each = messageLogRatios(messages, values)
  const ratios = new Float64Array(episodes)
  for (const { episode, distinct } of occurrences) ratios[episode] += each[distinct]
  return ratios
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

export type SurrogateOptions = Omit<ObjectiveOptions, 'estimator'> & { readonly gamma: number }

export const surrogate = (
  rollouts: Rollouts, messages: AgentMessages, { logBehaviour, logUpdated }: TokenValues, advantages: Advantages,
  { gamma, clip, ratio, average }: SurrogateOptions,
): Surrogate => {
  const { used, unclipped, centred, weights } = advantages
  const perToken = tokenWeights(messages, { ratio, average })
  const ratios = messages.spans.map(([from, to]) => {
    const logs = Array.from({ length: to - from }, (_, k) => logUpdated[from + k] - logBehaviour[from + k])
    const message = Math.exp(logs.reduce((sum, x) => sum + x, 0))
    return { message, units: ratio === 'message' ? [message] : logs.map(Math.exp) }
  })
  const clipped = (w: number, a: number): number => Math.min(w * a, Math.min(1 + clip.high, Math.max(1 - clip.low, w)) * a) - a
  const scale = dot(centred, used) / (dot(used, used) || 1)

  const E = rollouts.episodes.length
  const sums = { value: 0, clip: 0, ratio: 0, normalisation: 0 }
  for (const { episode, distinct, message } of messages.occurrences) {
    const { message: w, units } = ratios[distinct]
    const a = used[message]
    const term = perToken[distinct] * units.reduce((sum, unit) => sum + clipped(unit, a), 0)
    const share = weights[episode] / E
    sums.value += share * scale * term
    sums.ratio += share * scale * (term - (w - 1) * a)
    sums.clip += share * scale * (w - 1) * (a - unclipped[message])
    sums.normalisation += share * (w - 1) * (scale * unclipped[message] - centred[message])
  }
  const part = (x: number): number => (1 - gamma) * Math.abs(x)
  const parts = { clip: part(sums.clip), ratio: part(sums.ratio), normalisation: part(sums.normalisation) }
  const zeta = { ...parts, total: parts.clip + parts.ratio + parts.normalisation }
  const { estimate, low, high } = studentInterval(surrogateByProblem(rollouts, messages, ratios.map(({ message }) => message), advantages))
  return { value: sums.value, unbiased: estimate, low, high, scale, zeta }
}

/**
 * L̂ with the true advantage, of each problem: (1/G) Σ_m (w − 1)(R − mean of the others' R) over its episodes. Their mean is `Surrogate.unbiased`.
 *
 * @param ratios w of each distinct message
 */
export const surrogateByProblem = (
  { problems, group, episodes }: Rollouts, { occurrences }: AgentMessages, ratios: ArrayLike<number>, { centred, weights }: Pick<Advantages, 'centred' | 'weights'>,
): Float64Array => {
  const sums = new Float64Array(problems.length)
  for (const { episode, distinct, message } of occurrences) {
    sums[episodes[episode].problem] += (weights[episode] * (ratios[distinct] - 1) * centred[message]) / group
  }
  return sums
}

const dot = (a: Float64Array, b: Float64Array): number => a.reduce((sum, x, i) => sum + x * b[i], 0)
