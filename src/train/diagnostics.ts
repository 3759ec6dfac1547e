/**
 * What is measured on a run and trains nothing: how far the rollouts that an update learned from are from those that it should have learned from.
 * It is done on rollouts of its own (*probes*, on problems of their own), which no update was fitted to, and their tokens are counted apart.
 *
 * **Stale gap.** Update i turns θ into θ' on rollouts of the team b (π̂^{i−1}; stale: π̂⁰). The same change is weighed twice, with the true advantage:
 *
 *     gap_i = L̂(probe of b) − L̂(independent probe of π̂^{i−1}),       L̂ = (1/E) Σ_m (w_m − 1)(R − mean of the others' R)
 *
 * on the same problems, so that it is a mean of paired differences with Student's interval. Its expectation is 0 where b = π̂^{i−1}; and gap² − se² is
 * unbiased for the square of its expectation. (Stale rollouts also have the returns of the older team: that is part of the gap.)
 *
 * **Occupancy drift.** ‖d^{π̂^i} − d^b‖₁: from the occupancy that update i learned on to the one that its team acts under. (Not what stale rollouts do not
 * see, ‖d^{π̂^{i−1}} − d^{π̂⁰}‖₁, which the exact theory adds up as D_occ: `measureBehaviour` in theory/stage.ts is this one, exactly.) The context holds every
 * message so far and the task is deterministic, so for a context s_t reached by b, d^{π̂^i}(s_t)/d^b(s_t) = W_t = Π_{u<t} π̂^i(m_u|s_u)/b(m_u|s_u). Hence
 *
 *     ½‖d' − d‖₁ = E_{s~d} (1 − W(s))₊ + (|d'| − |d|)₊,       |d| the discounted mass of the contexts in which somebody speaks,
 *
 * the last term for the mass that the end state loses (0 where all episodes are equally long). So it is unbiased but for that term: no histogram, no bins,
 * and each sample lies in [0, 1]. It is the drift of message histories: where different token sequences give the same context, an upper bound.
 */
import { mean, studentInterval, variance } from '../theory/intervals.js'
import { advantagesOf } from './advantage.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { messageLogRatios, surrogateByProblem } from './measure.js'
import { messagesOf, microBatches, type AgentMessages } from './messages.js'
import { actingLogProbs } from './objective.js'
import { byProblem, sampledTokens, type Episode, type Rollouts } from './rollout.js'
import type { Agent } from './team.js'

/** Two independent samples of rollouts, on the same problems. Plain data, kept in a checkpoint. */
export interface Probe {
  /** By the team whose rollouts the next update learns from. */
  readonly behaviour: Rollouts
  /** Of each of its messages, in the order of episodes, then turns: log π_now/π_then. */
  readonly logRatios: readonly number[]
  /** By the team as it now is. */
  readonly current: Rollouts
}

/** A mean over problems, its standard error, and its 95 % interval (Student). */
export interface Measured {
  readonly estimate: number
  readonly standardError: number
  readonly low: number
  readonly high: number
}

/** Of one update. In units of return, but for `drift`. */
export interface UpdateDiagnostics {
  /** L̂ on a probe of the team whose rollouts it learned from: that of the record, without having been fitted to it. */
  readonly behaviour: Measured
  /** L̂ on a probe of the team just before it: L^seq. */
  readonly current: Measured
  /** The one minus the other. */
  readonly gap: Measured
  /** ‖d^{π̂^i} − d^b‖₁, in [0, 2]. */
  readonly drift: Measured
  /** Sampled for it. */
  readonly tokens: number
  readonly rollouts: number
}

export type DiagnosticsConfig = Pick<Config, 'objective' | 'method' | 'rollout'>

/** What an update changes: a policy, from θ to θ'. */
export interface Change {
  /** Place of the agent in the team. */
  readonly index: number
  readonly policy: Agent['policy']
  readonly from: tf.Tensor1D
  readonly to: tf.Tensor1D
}

export const newProbe = (behaviour: Rollouts, current: Rollouts): Probe =>
  ({ behaviour, current, logRatios: behaviour.episodes.flatMap(({ messages }) => messages.map(() => 0)) })

/** What a change does, before the team has it. */
export interface ProbedChange extends Pick<UpdateDiagnostics, 'behaviour' | 'current' | 'gap'> {
  /** `Probe.logRatios` after the change. */
  readonly logRatios: readonly number[]
}

export const probeChange = async ({ behaviour, logRatios, current }: Probe, change: Change, config: DiagnosticsConfig): Promise<ProbedChange> => {
  const old = await weigh(behaviour, change, config, logRatios)
  const now = await weigh(current, change, config)
  return {
    behaviour: measured(old.surrogate),
    current: measured(now.surrogate),
    gap: measured(old.surrogate.map((value, p) => value - now.surrogate[p])),
    logRatios: logRatios.map((log, message) => log + old.logRatios[message]),
  }
}

/** L̂ of a change on rollouts, problem by problem, and log π_new/π_cur of every message. */
const weigh = async (rollouts: Rollouts, change: Change, config: DiagnosticsConfig, moved?: readonly number[]): Promise<{ surrogate: Float64Array; logRatios: Float64Array }> => {
  const messages = messagesOf(rollouts, change.index)
  const logs = await distinctLogRatios(messages, change, config)
  // Whatever the objective makes of returns: the true advantage, under the weights that a method corrects old rollouts with.
  const advantages = advantagesOf(rollouts, { normalise: false, epsilon: 0, clip: null }, moved && { correction: config.method.correction, logRatios: perEpisode(rollouts, moved) })
  const logRatios = new Float64Array(advantages.used.length)
  for (const { message, distinct } of messages.occurrences) logRatios[message] = logs[distinct]
  return { surrogate: surrogateByProblem(rollouts, messages, logs.map(Math.exp), advantages), logRatios }
}

const distinctLogRatios = async (messages: AgentMessages, { policy, from, to }: Change, { rollout: { temperature }, objective: { microTokens } }: DiagnosticsConfig): Promise<number[]> => {
  if (messages.spans.length === 0 || from === to) return messages.spans.map(() => 0)
  const batches = microBatches(messages, microTokens)
  const logProbs = (theta: tf.Tensor1D): Promise<Float32Array> => actingLogProbs(policy, theta, messages, batches, temperature)
  const [logBehaviour, logUpdated] = [await logProbs(from), await logProbs(to)]
  tf.dispose(batches.map(({ batch }) => batch))
  return messageLogRatios(messages, { logBehaviour, logUpdated })
}

const perEpisode = ({ episodes }: Rollouts, perMessage: ArrayLike<number>): Float64Array => {
  let message = 0
  return Float64Array.from(episodes, ({ messages }) => messages.reduce((sum) => sum + perMessage[message++], 0))
}

/**
 * ‖d^{π̂^i} − d^b‖₁ on rollouts of b.
 *
 * @param logRatios log π̂^i/b of each of its messages, in the order of episodes, then turns
 * @param after rollouts of π̂^i, for the mass of the contexts in which somebody speaks
 */
export const occupancyDrift = (behaviour: Rollouts, logRatios: ArrayLike<number>, after: Rollouts, gamma: number): Measured => {
  let message = 0
  const lost = new Map<Episode, number>()
  for (const episode of behaviour.episodes) {
    let [log, sum] = [0, 0]
    episode.messages.forEach((_, turn) => {
      sum += (1 - gamma) * gamma ** turn * Math.max(0, -Math.expm1(log))
      log += logRatios[message++]
    })
    lost.set(episode, sum)
  }
  const mass = ({ episodes }: Rollouts): number => mean(episodes.map(({ messages }) => 1 - gamma ** messages.length))
  const gained = Math.max(0, mass(after) - mass(behaviour))
  return measured(byProblem(behaviour, (episode) => 2 * (lost.get(episode)! + gained)))
}

/** Sampled for a probe. */
export const probeCost = (sampled: readonly Rollouts[]): Pick<UpdateDiagnostics, 'tokens' | 'rollouts'> =>
  ({ tokens: sampled.reduce((sum, each) => sum + sampledTokens(each), 0), rollouts: sampled.reduce((sum, { episodes }) => sum + episodes.length, 0) })

const measured = (samples: ArrayLike<number>): Measured => {
  const { estimate, low, high } = studentInterval(samples)
  return { estimate, standardError: Math.sqrt(variance(samples) / samples.length), low, high }
}
