import { setImmediate } from 'node:timers/promises'
import { tf } from './backend.js'
import type { Random } from '../util/random.js'
import { adamStart, adamStep } from './model/adam.js'
import { tokenBatch, type MarkedSequence } from './model/batch.js'
import type { Policy } from './policy.js'

export interface ImitateOptions {
  readonly steps: number
  /** Demonstrations per step. */
  readonly batch: number
  /** Peak: rises linearly over the first twentieth of the steps, then falls to a tenth along a cosine. */
  readonly learningRate: number
  readonly random: Random
  /** After each step: how many are done, and the step's loss in nats per token. */
  readonly onStep?: (done: number, loss: number) => void
}

/**
 * Warm up by imitation: minimise the cross-entropy −mean log π_θ of the marked tokens of demonstrations (messages of a
 * weak player), with Adam.
 *
 * @param demonstrations draws `count` fresh demonstrations
 * @returns a new θ, which the caller disposes; the given one is left alone
 */
export const imitate = async (
  policy: Policy, theta: tf.Tensor1D, demonstrations: (count: number, random: Random) => readonly MarkedSequence[], options: ImitateOptions,
): Promise<tf.Tensor1D> => {
  const { steps, batch, learningRate, random, onStep } = options
  let current = tf.clone(theta)
  let state = adamStart(theta.size)
  for (let done = 1; done <= steps; done++) {
    const { next, loss } = imitationStep(policy, current, state, demonstrations(batch, random), learningRate * schedule(done, steps))
    tf.dispose([current, state])
    current = next.theta
    state = next.state
    if (onStep) onStep(done, (await loss.data())[0])
    loss.dispose()
    await setImmediate() // Tensor reads may not turn the event loop; signals and timers need it to turn.
  }
  tf.dispose(state)
  return current
}

const imitationStep = (policy: Policy, theta: tf.Tensor1D, state: ReturnType<typeof adamStart>, sequences: readonly MarkedSequence[], learningRate: number) =>
  tf.tidy(() => {
    const batch = tokenBatch(sequences)
    const { value: loss, grad } = tf.valueAndGrad((theta) => tf.neg(tf.mean(policy.logProbs(theta as tf.Tensor1D, batch))))(theta)
    return { next: adamStep(theta, grad as tf.Tensor1D, state, { learningRate, beta2: 0.95, clipNorm: 1 }), loss: loss as tf.Scalar }
  })

/** Share of the peak learning rate at a step, 1 … steps. */
const schedule = (step: number, steps: number): number => {
  const warm = Math.ceil(steps / 20)
  if (step <= warm) return step / warm
  return 0.1 + 0.45 * (1 + Math.cos((Math.PI * (step - warm)) / Math.max(1, steps - warm)))
}
