import { groupNormalisedAdvantages, weightedMean } from '../theory/messages.js'
import type { Episode, Rollouts } from './rollout.js'

export interface AdvantageOptions {
  /** What a return is compared with: the mean of its group (GRPO, TeamTR), or a critic's values (PPO). Default `group`. */
  readonly baseline?: 'group' | 'value'
  /** λ of generalised advantage estimation, with a critic. Default 1. */
  readonly lambda?: number
  /** Divide by the deviation of the group; with a critic, subtract the mean of all messages and divide by their deviation. */
  readonly normalise: boolean
  /** ε_norm. */
  readonly epsilon: number
  /** A_clip; null for none. */
  readonly clip: number | null
  /** What long messages lose of the returns that advantages are made of; null for nothing. */
  readonly overlong?: Overlong | null
}

/**
 * DAPO's soft punishment of overlong messages: none up to maxTokens − buffer tokens, then growing linearly, up to `penalty` at maxTokens, where
 * messages are cut.
 */
export interface Overlong {
  /** In tokens, ≥ 1. */
  readonly buffer: number
  readonly penalty: number
}

/**
 * What stands in for fresh rollouts, where agents have moved since these were sampled. W = Π π_new/π_old over an episode's messages of those agents.
 * `compound`: the advantage is multiplied by W (HAPPO). `importance`: every mean is one under the weights W, which then sum to their number.
 */
export type Correction = 'none' | 'compound' | 'importance'

export interface AdvantageInputs {
  readonly correction?: Correction
  /** log W of every episode, for a correction. */
  readonly logRatios?: ArrayLike<number>
  /** γ: needed with a critic or a penalty. */
  readonly gamma?: number
  /** Longest message, its end included: needed with a penalty. */
  readonly maxTokens?: number
  /** V̂ of the context before every message; default: all 0, which is what a critic says before it has learned. */
  readonly values?: ArrayLike<number>
}

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
 * The advantages that an update learns from: group-normalised and clipped ones (theory.md, section 4) of discounted returns, which all messages of an
 * episode share; or, with a critic, those of `generalisedAdvantages`, message by message.
 */
export const advantagesOf = (rollouts: Rollouts, options: AdvantageOptions, inputs: AdvantageInputs = {}): Advantages => {
  const { group, episodes } = rollouts
  const { correction = 'none', logRatios = [] } = inputs
  const ones = new Float64Array(episodes.length).fill(1)
  const ratios = correction === 'none' ? ones : Float64Array.from(logRatios, Math.exp)
  const weights = correction === 'importance' ? selfNormalised(logRatios) : ones
  const factor = correction === 'compound' ? ratios : ones
  const limit = options.clip ?? Infinity
  const z = options.baseline === 'value' ? valueAdvantages(rollouts, options, inputs, weights) : groupAdvantages(rollouts, options, inputs, weights)
  const [used, unclipped, centred] = [0, 0, 0].map((): number[] => [])
  for (let from = 0; from < episodes.length; from += group) {
    const own = weights.subarray(from, from + group)
    const returns = episodes.slice(from, from + group).map((episode) => episode.return)
    const vanished = own.every((weight) => weight === 0)
    returns.forEach((value, g) => {
      const others = weightedMean(returns.filter((_, h) => h !== g), own.filter((_, h) => h !== g))
      const teaches = !vanished && Number.isFinite(others)
      const difference = returns.every((other) => other === value) ? 0 : value - others
      const each = (x: number): number => (teaches ? x * factor[from + g] : 0)
      for (let turn = 0; turn < episodes[from + g].messages.length; turn++) {
        const a = z[used.length]
        used.push(each(Math.min(limit, Math.max(-limit, a))))
        unclipped.push(each(a))
        centred.push(each(difference))
      }
    })
  }
  return { used: Float64Array.from(used), unclipped: Float64Array.from(unclipped), centred: Float64Array.from(centred), weights }
}

const groupAdvantages = (
  { group, episodes }: Rollouts, { normalise, epsilon, overlong }: AdvantageOptions, { gamma = 1, maxTokens = Infinity }: AdvantageInputs, weights: Float64Array,
): number[] => {
  const all: number[] = []
  for (let from = 0; from < episodes.length; from += group) {
    const own = weights.subarray(from, from + group)
    const returns = episodes.slice(from, from + group).map((episode) => episode.return - discounted(penalties(episode, overlong, maxTokens), gamma))
    const mean = weightedMean(returns, own)
    const centred = (value: number): number => (returns.every((other) => other === value) ? 0 : value - mean)
    const values = normalise ? groupNormalisedAdvantages(returns, { epsilon, weights: own }).advantages : returns.map(centred)
    values.forEach((value, g) => all.push(...episodes[from + g].messages.map(() => value)))
  }
  return all
}

const valueAdvantages = (
  rollouts: Rollouts, { lambda = 1, normalise, epsilon, overlong }: AdvantageOptions, { gamma = 1, maxTokens = Infinity, values }: AdvantageInputs,
  weights: Float64Array,
): number[] => {
  let at = 0
  const perEpisode = shapedRewards(rollouts, overlong, maxTokens).map((rewards) => {
    const own = rewards.map((_, turn) => values?.[at + turn] ?? 0)
    at += rewards.length
    return generalisedAdvantages(rewards, own, gamma, lambda)
  })
  const all = perEpisode.flat()
  // Whitening is normalising one group: that of all messages.
  return normalise ? [...groupNormalisedAdvantages(all, { epsilon, weights: perEpisode.flatMap((own, e) => own.map(() => weights[e])) }).advantages] : all
}

/**
 * Generalised advantage estimation (Schulman et al. 2016) of one episode: Â_t = Σ_l (γλ)^l δ_{t+l}, δ_t = r_t + γ V(s_{t+1}) − V(s_t), with V = 0 after the end.
 *
 * @param rewards r_t of each message
 * @param values V(s_t) of the context before it
 */
export const generalisedAdvantages = (rewards: readonly number[], values: readonly number[], gamma: number, lambda: number): number[] => {
  const advantages = rewards.map(() => 0)
  let after = 0
  for (let t = rewards.length - 1; t >= 0; t--) {
    const delta = rewards[t] + gamma * (values[t + 1] ?? 0) - values[t]
    advantages[t] = after = delta + gamma * lambda * after
  }
  return advantages
}

/** Σ_{l ≥ t} γ^(l−t) r_l of each message of one episode: what a critic learns. */
export const returnsToGo = (rewards: readonly number[], gamma: number): number[] => generalisedAdvantages(rewards, rewards.map(() => 0), gamma, 1)

/** Rewards of every episode's messages, less what long messages lose. */
export const shapedRewards = ({ episodes }: Rollouts, overlong: Overlong | null | undefined, maxTokens: number): number[][] =>
  episodes.map((episode) => {
    const lost = penalties(episode, overlong, maxTokens)
    return episode.messages.map(({ reward }, turn) => reward - (lost[turn] ?? 0))
  })

/** What each message loses; nothing where there is no penalty. */
const penalties = ({ messages }: Episode, overlong: Overlong | null | undefined, maxTokens: number): number[] => {
  if (!overlong) return []
  const { buffer, penalty } = overlong
  return messages.map(({ tokens }) => penalty * Math.min(1, Math.max(0, (tokens.length - (maxTokens - buffer)) / buffer)))
}

const discounted = (values: readonly number[], gamma: number): number => values.reduce((sum, value, turn) => sum + gamma ** turn * value, 0)

/** Weights of mean 1 from their logarithms. */
const selfNormalised = (logs: ArrayLike<number>): Float64Array => {
  const most = Math.max(...Array.from(logs))
  const weights = Float64Array.from(logs, (log) => Math.exp(log - most))
  const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length
  return weights.map((weight) => weight / mean)
}
