/**
 * Stage 0: a new agent is drawn to the behaviour of the one whose place it takes, before the team learns on. Minimised is the reverse divergence of
 * their messages on probe contexts, where the team as it was would let the agent speak:
 *
 *     E_{s ~ d | j acts} KL(new(·|s) ‖ old(·|s)),      KL(new‖old) = E_{m~new} Σ_u KL(new_u ‖ old_u)      (Lemma 3.2),
 *
 * with KL_u = KL(new(·|s, x_<u)‖old(·|s, x_<u)) over the whole vocabulary. Messages are sampled from the new agent as it is at each step, so the gradient
 * has two parts, that of each KL_u and that of the prefixes' law: E_{m~new} Σ_u [∇KL_u + ∇log new(x_u|s, x_<u) · Σ_{v>u} KL_v].
 */
import { setImmediate } from 'node:timers/promises'
import { studentInterval } from '../theory/intervals.js'
import type { Random } from '../util/random.js'
import { tf } from './backend.js'
import { adamStart, adamStep } from './model/adam.js'
import { tokenBatch, type MarkedSequence } from './model/batch.js'
import { acting, referenceDivergence, type Acting } from './objective.js'
import type { TokenBatch } from './policy.js'
import type { Rollouts } from './rollout.js'
import type { Estimate } from './estimate.js'
import type { Agent } from './team.js'

/** A context in which the agent speaks. */
export interface ProbeContext {
  /** What it reads. */
  readonly prompt: readonly number[]
  /** γ^t: contexts of rollouts so weighed are contexts of the occupancy. */
  readonly weight: number
}

/** What an agent was asked in rollouts, in the order of episodes, then turns. */
export const probeContexts = ({ episodes }: Rollouts, agent: number, gamma: number): ProbeContext[] =>
  episodes.flatMap(({ messages }) => messages.filter((message) => message.agent === agent).map(({ prompt, turn }) => ({ prompt, weight: gamma ** turn })))

/** How the agents speak: as in the rollouts, since the policies that act are compared. */
export interface SpeakOptions {
  readonly temperature: number
  readonly maxTokens: number
  readonly random: Random
}

export interface AlignOptions extends SpeakOptions {
  /** Of Adam; 0 changes nothing. */
  readonly steps: number
  /** Contexts a step, drawn with their weights. At least 2. */
  readonly batch: number
  /** At first; it falls linearly to 0. */
  readonly learningRate: number
  /** After each step: how many are done, and the divergence of its messages in nats. */
  readonly onStep?: (done: number, divergence: number) => void
}

type Speaker = Pick<Agent, 'policy' | 'voice' | 'theta'>

/**
 * @param agent the new one, as it is before
 * @param old of the same tokens
 * @param probes at least one, of positive weight
 * @returns the new agent's θ, which the caller disposes
 */
export const align = async (agent: Speaker, old: Speaker, probes: readonly ProbeContext[], options: AlignOptions): Promise<tf.Tensor1D> => {
  const { steps, batch, learningRate, random, onStep } = options
  const draw = drawerOf(probes)
  let current = { theta: tf.clone(agent.theta), state: adamStart(agent.theta.size) }
  for (let done = 1; done <= steps; done++) {
    const { gradient, divergence } = await reverseKlGradient({ ...agent, theta: current.theta }, old, Array.from({ length: batch }, () => draw(random)), options)
    const next = adamStep(current.theta, gradient, current.state, { learningRate: learningRate * (1 - (done - 1) / steps), beta2: 0.95, clipNorm: 1 })
    tf.dispose([gradient, current])
    current = next
    onStep?.(done, divergence)
    await setImmediate() // Tensor reads may not turn the event loop; signals and timers need it to turn.
  }
  tf.dispose([current.state.first, current.state.second])
  return current.theta
}

/**
 * An estimate of the gradient of the divergence, unbiased, from one message in each context, all of which count the same.
 *
 * @param contexts at least one
 * @returns a gradient that the caller disposes, and the divergence of these messages in nats
 */
export const reverseKlGradient = async (
  agent: Speaker, old: Speaker, contexts: readonly ProbeContext[], options: SpeakOptions,
): Promise<{ gradient: tf.Tensor1D; divergence: number }> => {
  const { tokens, target, divergences } = await speakOnce(agent, old, contexts, options)
  const later = lessBaseline(divergences.map(sumsOfLater)).flat()
  const gradient = tf.tidy(() => tf.grad((theta) => {
    const now = acting(agent.policy, theta as tf.Tensor1D, tokens, options.temperature, true)
    return tf.div(tf.sum(tf.add(referenceDivergence('exact', now, target), tf.mul(now.logProbs, later))), contexts.length)
  })(agent.theta)) as tf.Tensor1D
  tf.dispose([tokens, target])
  return { gradient, divergence: divergences.flat().reduce((sum, x) => sum + x, 0) / contexts.length }
}

/**
 * The divergence that `align` lowers, in nats a message, estimated with one message of the new agent in each context; its 95 % interval (Student, over
 * contexts; with unequal weights by the ratio's linearisation).
 */
export const reverseKl = async (
  agent: Speaker, old: Speaker, probes: readonly ProbeContext[], options: SpeakOptions,
): Promise<Estimate> => {
  const values: number[] = []
  for (let from = 0; from < probes.length; from += AT_ONCE) {
    const { tokens, target, divergences } = await speakOnce(agent, old, probes.slice(from, from + AT_ONCE), options)
    tf.dispose([tokens, target])
    values.push(...divergences.map((all) => all.reduce((sum, x) => sum + x, 0)))
  }
  const total = probes.reduce((sum, { weight }) => sum + weight, 0)
  const mean = probes.reduce((sum, { weight }, i) => sum + weight * values[i], 0) / total
  const { estimate, low, high } = studentInterval(probes.map(({ weight }, i) => mean + ((weight * probes.length) / total) * (values[i] - mean)))
  return { estimate, low: Math.max(0, low), high }
}

/** Contexts in one forward pass of a measurement. */
const AT_ONCE = 1024

/** The new agent's messages, one in each context, what the old one would have said token by token, and KL(new_u‖old_u) of each message's tokens. */
const speakOnce = async (
  agent: Speaker, old: Speaker, contexts: readonly ProbeContext[], { temperature, maxTokens, random }: SpeakOptions,
): Promise<{ tokens: TokenBatch; target: Acting; divergences: number[][] }> => {
  const { policy, theta, voice: { endToken, stopTokens, stop } } = agent
  const prompts = contexts.map(({ prompt }) => prompt)
  const said = await policy.sample(theta, prompts, { maxTokens, temperature, endToken, stopTokens, stop, random })
  const sequences = said.map(({ tokens }, i): MarkedSequence => ({ ids: [...prompts[i], ...tokens], marked: [[prompts[i].length, prompts[i].length + tokens.length]] }))
  const tokens = tokenBatch(sequences)
  const { target, perToken } = tf.tidy(() => {
    const target = acting(old.policy, old.theta, tokens, temperature, true)
    return { target, perToken: referenceDivergence('exact', acting(policy, theta, tokens, temperature, true), target) }
  })
  const values = await perToken.data()
  perToken.dispose()
  let at = 0
  return { tokens, target, divergences: said.map(({ tokens }) => tokens.map(() => values[at++])) }
}

/** Σ_{v>u} of each u. */
const sumsOfLater = (values: readonly number[]): number[] => {
  const sums = values.map(() => 0)
  for (let u = values.length - 2; u >= 0; u--) sums[u] = sums[u + 1] + values[u + 1]
  return sums
}

/** Each less the mean of the other messages' at the same token: what does not depend on a message takes noise from its score, and no more. */
const lessBaseline = (rows: readonly (readonly number[])[]): number[][] => {
  const sums: number[] = []
  const counts: number[] = []
  for (const row of rows) {
    row.forEach((value, u) => {
      sums[u] = (sums[u] ?? 0) + value
      counts[u] = (counts[u] ?? 0) + 1
    })
  }
  return rows.map((row) => row.map((value, u) => (counts[u] > 1 ? value - (sums[u] - value) / (counts[u] - 1) : value)))
}

/** Draws contexts with their weights. */
const drawerOf = (probes: readonly ProbeContext[]) => {
  const upTo: number[] = []
  for (const { weight } of probes) upTo.push((upTo.at(-1) ?? 0) + weight)
  return (random: Random): ProbeContext => {
    const at = random.next() * upTo[upTo.length - 1]
    let [low, high] = [0, probes.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (upTo[middle] > at) high = middle
      else low = middle + 1
    }
    return probes[low]
  }
}
