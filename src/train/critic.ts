/**
 * The critic of PPO: V̂(s), the return to go from a shared context, by a small decoder over the context's UTF-8 bytes with a scalar head. It reads text, so
 * one critic serves any team; and it is one for the whole team, which reads what all agents read.
 *
 * It learns from each set of rollouts once no update needs them any more (Σ_{l ≥ t} γ^(l−t) r_l by least squares): what an update takes as V̂ was not fitted
 * to the very rollouts that it judges.
 */
import type { Random } from '../util/random.js'
import { returnsToGo, shapedRewards } from './advantage.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { sequencesOf } from './messages.js'
import { adamStart, adamStep, type AdamState } from './model/adam.js'
import { byLength } from './model/batch.js'
import { decoderSchema, type DecoderConfig } from './model/config.js'
import { states } from './model/decoder.js'
import { decoderLayout, initialTheta, layoutSize, named } from './model/layout.js'
import type { ParameterSlot } from './policy.js'
import type { Rollouts } from './rollout.js'

/** Its parameters and Adam's memory; owned by the team. */
export interface Critic {
  theta: tf.Tensor1D
  optimiser: AdamState
}

/** Bytes, and one token that stands before them. */
const START = 256

const decoderOf = ({ critic: { layers, hidden, heads, intermediate, bytes } }: Pick<Config, 'critic'>): DecoderConfig =>
  decoderSchema.parse({ layers, hidden, heads, intermediate, vocabulary: START + 1, maxPositions: bytes + 1 })

/** The parameters of the critic that a configuration describes: a decoder's, and a scalar head that starts at 0, so that V̂ does. */
export const criticLayout = (config: Pick<Config, 'critic'>): ParameterSlot[] => {
  const layout = decoderLayout(decoderOf(config))
  const zero = { mean: 0, deviation: 0 }
  const at = layoutSize(layout)
  const { hidden } = config.critic
  return [
    ...layout,
    { name: 'value', shape: [hidden, 1], offset: at, initial: zero },
    { name: 'value.bias', shape: [1], offset: at + hidden, initial: zero },
  ]
}

/** A critic that has not learned: V̂ = 0. @returns what the caller disposes */
export const newCritic = (config: Pick<Config, 'critic'>, random: Random): Critic => {
  const theta = initialTheta({ layout: criticLayout(config) }, random)
  return { theta, optimiser: adamStart(theta.size) }
}

export const disposeCritic = ({ theta, optimiser: { first, second } }: Critic): void => tf.dispose([theta, first, second])

export const cloneCritic = ({ theta, optimiser }: Critic): Critic =>
  ({ theta: tf.clone(theta), optimiser: { ...optimiser, first: tf.clone(optimiser.first), second: tf.clone(optimiser.second) } })

/** V̂ of the context before every message, in the order of episodes, then turns. */
export const valuesOf = async ({ theta }: Pick<Critic, 'theta'>, rollouts: Rollouts, config: Pick<Config, 'critic'>): Promise<Float64Array> => {
  const { batches, stateOf, count } = statesOf(rollouts, config)
  const values = new Float64Array(count)
  const weights = decoderOf(config)
  const layout = criticLayout(config)
  for (const { ids, places, holds } of batches) {
    const v = tf.tidy(() => predict(weights, layout, theta, ids, places))
    ;(await v.data()).forEach((value, i) => (values[holds[i]] = value))
    tf.dispose([v, ids, places])
  }
  return Float64Array.from(stateOf, (state) => values[state])
}

/**
 * Fit the critic to the returns to go of rollouts, by `critic.steps` steps of Adam on the mean squared error over their messages. What it replaces is disposed.
 */
export const fitCritic = (critic: Critic, rollouts: Rollouts, config: Pick<Config, 'critic' | 'gamma' | 'advantage' | 'rollout'>): void => {
  const { steps, learningRate } = config.critic
  const targets = targetsOf(rollouts, config)
  const { batches, stateOf, count } = statesOf(rollouts, config)
  // Messages that were said on equal contexts pull at one value: towards the mean of their targets, as many times as they are.
  const [times, sums] = [new Float32Array(count), new Float32Array(count)]
  stateOf.forEach((state, m) => {
    times[state]++
    sums[state] += targets[m]
  })
  const decoder = decoderOf(config)
  const layout = criticLayout(config)
  const lessons = batches.map(({ ids, places, holds }) => ({
    ids, places,
    weights: tf.tensor1d(holds.map((state) => times[state] / targets.length)),
    means: tf.tensor1d(holds.map((state) => sums[state] / times[state])),
  }))
  for (let k = 0; k < steps; k++) {
    const before = { ...critic }
    const next = tf.tidy(() => {
      const gradient = lessons.map(({ ids, places, weights, means }) => tf.grad((theta) => {
        const error = tf.sub(predict(decoder, layout, theta as tf.Tensor1D, ids, places), means)
        return tf.sum(tf.mul(weights, tf.square(error)))
      })(before.theta)).reduce((sum, part) => tf.add(sum, part)) as tf.Tensor1D
      return adamStep(before.theta, gradient, before.optimiser, { learningRate, clipNorm: 1 })
    })
    disposeCritic(before)
    critic.theta = next.theta
    critic.optimiser = next.state
  }
  tf.dispose([...lessons])
}

/** What the critic learns, message by message. */
export const targetsOf = (
  rollouts: Rollouts, { advantage: { overlong }, rollout: { maxTokens }, gamma }: Pick<Config, 'advantage' | 'rollout' | 'gamma'>,
): number[] => shapedRewards(rollouts, overlong, maxTokens).flatMap((rewards) => returnsToGo(rewards, gamma))

/** V̂ at chosen places of sequences of bytes. @returns [M] */
const predict = (decoder: DecoderConfig, layout: readonly ParameterSlot[], theta: tf.Tensor1D, ids: tf.Tensor2D, places: tf.Tensor1D): tf.Tensor1D => {
  const weights = named(theta, layout)
  const hidden = states(decoder, weights, ids, places)
  return tf.add(tf.reshape(tf.matMul(hidden, weights.value as tf.Tensor2D), [-1]), weights['value.bias'])
}

/** Tokens in one pass, padding included, about. */
const PASS = 2 ** 14

interface StateBatch {
  /** [B, T] int32. */
  readonly ids: tf.Tensor2D
  /** [M] int32: flat places of the last byte of each context. */
  readonly places: tf.Tensor1D
  /** Which contexts. */
  readonly holds: readonly number[]
}

/**
 * The contexts that messages were said on, as byte sequences: those of one episode on one sequence, since each begins with the one before it, and equal
 * sequences once. Of a longer context the last `critic.bytes` bytes are read.
 *
 * @returns batches that the caller disposes, and of every message which context is its own
 */
const statesOf = ({ episodes }: Rollouts, { critic: { bytes } }: Pick<Config, 'critic'>): { batches: StateBatch[]; stateOf: number[]; count: number } => {
  const found = new Map<string, { ids: readonly number[]; places: number[]; first: number }>()
  const stateOf: number[] = []
  let count = 0
  for (const { messages, context } of episodes) {
    const prompts = messages.map(({ read }) => ({ prompt: [START, ...Buffer.from(context.slice(0, read)).subarray(-bytes)], tokens: [] }))
    for (const { ids, marked } of sequencesOf(prompts)) {
      const places = marked.map(([from]) => from - 1)
      const key = `${ids.join()}|${places.join()}`
      const sequence = found.get(key) ?? { ids, places, first: count }
      if (!found.has(key)) count += places.length
      found.set(key, sequence)
      places.forEach((_, i) => stateOf.push(sequence.first + i))
    }
  }
  const batches = byLength([...found.values()], ({ ids }) => ids.length, PASS).map((part): StateBatch => {
    const length = part[part.length - 1].ids.length
    const flat = new Int32Array(part.length * length)
    part.forEach(({ ids }, b) => flat.set(ids, b * length))
    return {
      ids: tf.tensor2d(flat, [part.length, length], 'int32'),
      places: tf.tensor1d(part.flatMap(({ places }, b) => places.map((place) => b * length + place)), 'int32'),
      holds: part.flatMap(({ places, first }) => places.map((_, i) => first + i)),
    }
  })
  return { batches, stateOf, count }
}
