import { setImmediate } from 'node:timers/promises'
import { tf } from './backend.js'
import type { Random } from '../util/random.js'
import { compiledByShape } from './graph.js'
import { adamRates, adamStart, adamStep, type AdamState } from './model/adam.js'
import { markCount, tokenBatch, type MarkedSequence } from './model/batch.js'
import type { Policy, TokenBatch } from './policy.js'

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
  const step = compiledByShape((inputs) => imitationStep(policy, inputs))
  let current = { theta: tf.clone(theta), ...adamStart(theta.size) }
  for (let done = 1; done <= steps; done++) {
    const before = current
    const { next, loss } = tf.tidy(() => {
      const { rate, floor } = adamRates(done, { ...adam, learningRate: learningRate * schedule(done, steps) })
      const [theta, first, second, loss] = step([
        before.theta, before.first, before.second, tf.scalar(rate), tf.scalar(floor), ...lesson(demonstrations(batch, random)),
      ]) as tf.Tensor1D[]
      return { next: { theta, first, second, steps: done }, loss }
    })
    tf.dispose(before)
    current = next
    if (onStep) onStep(done, (await loss.data())[0])
    loss.dispose()
    await setImmediate() // Tensor reads may not turn the event loop; signals and timers need it to turn.
  }
  step.dispose()
  tf.dispose([current.first, current.second])
  return current.theta
}

const adam = { beta2: 0.95, clipNorm: 1 }

/** A batch of demonstrations, and each marked token's share of the loss: 1/M, 0 for those that only fill up. */
const lesson = (sequences: readonly MarkedSequence[]): tf.Tensor[] => {
  const { ids, places, picks } = tokenBatch(sequences, { length: 4, marks: 64 })
  const count = markCount(sequences)
  return [ids, places, picks, tf.tensor1d(Float32Array.from({ length: places.size }, (_, m) => (m < count ? 1 / count : 0)))]
}

/** One step of Adam on the cross-entropy. A function of tensors alone, so that it can be compiled. @returns θ', both moments, the loss */
const imitationStep = (policy: Policy, [theta, first, second, rate, floor, ids, places, picks, shares]: readonly tf.Tensor[]): tf.Tensor[] => {
  const batch = { ids, places, picks } as TokenBatch
  const { value: loss, grad } = tf.valueAndGrad((theta) => tf.neg(tf.sum(tf.mul(policy.logProbs(theta as tf.Tensor1D, batch), shares))))(theta)
  const moments = { steps: 0, first, second } as AdamState
  const next = adamStep(theta as tf.Tensor1D, grad as tf.Tensor1D, moments, { ...adam, learningRate: 1 }, { rate, floor })
  return [next.theta, next.state.first, next.state.second, loss]
}

/** Share of the peak learning rate at a step, 1 … steps. */
const schedule = (step: number, steps: number): number => {
  const warm = Math.ceil(steps / 20)
  if (step <= warm) return step / warm
  return 0.1 + 0.45 * (1 + Math.cos((Math.PI * (step - warm)) / Math.max(1, steps - warm)))
}
