import { tf } from '../backend.js'
import type { Random } from '../../util/random.js'
import type { ParameterSlot, Policy } from '../policy.js'
import type { DecoderConfig } from './config.js'

/**
 * The parameters of a decoder, in the order in which θ holds them. Matrices are [in, out], and those that read the same
 * input are one matrix, so a forward pass multiplies once: qkv = [q | k | v], gateUp = [gate | up]. Embedding and head are [V, d].
 */
export const decoderLayout = (config: DecoderConfig): ParameterSlot[] => {
  const { vocabulary: V, hidden: d, layers, heads: H, kvHeads: K, headDim, intermediate: f } = config
  const slots: ParameterSlot[] = []
  let offset = 0
  const add = (name: string, shape: number[], mean: number, deviation: number) => {
    slots.push({ name, shape, offset, initial: { mean, deviation } })
    offset += shape.reduce((a, b) => a * b, 1)
  }
  // Each output of a product has the variance of its inputs: with GPT-2's fixed 0.02 a model of width 64 learns several times slower.
  const matrix = (name: string, rows: number, columns: number, deviation = rows ** -0.5) => add(name, [rows, columns], 0, deviation)
  const bias = (name: string, width: number, when: boolean) => when && add(`${name}.bias`, [width], 0, 0)
  const norm = (name: string, width: number) => {
    add(name, [width], 1, 0)
    bias(name, width, config.norm === 'layer')
  }
  // Two matrices per layer write into the residual stream: the sum of all keeps the variance of one.
  const residual = (rows: number): number => (2 * layers * rows) ** -0.5

  matrix('embedding', V, d, d ** -0.5)
  if (config.positions === 'learned') matrix('positions', config.maxPositions, d, d ** -0.5)
  for (let l = 0; l < layers; l++) {
    const at = `blocks.${l}`
    norm(`${at}.attention.norm`, d)
    matrix(`${at}.attention.qkv`, d, (H + 2 * K) * headDim)
    bias(`${at}.attention.qkv`, (H + 2 * K) * headDim, config.qkvBias)
    if (config.qkNorm) {
      add(`${at}.attention.queryNorm`, [headDim], 1, 0)
      add(`${at}.attention.keyNorm`, [headDim], 1, 0)
    }
    matrix(`${at}.attention.out`, H * headDim, d, residual(H * headDim))
    bias(`${at}.attention.out`, d, config.outBias)
    norm(`${at}.mlp.norm`, d)
    const up = config.mlp === 'swiglu' ? 2 * f : f
    matrix(`${at}.mlp.up`, d, up)
    bias(`${at}.mlp.up`, up, config.mlpBias)
    matrix(`${at}.mlp.down`, f, d, residual(f))
    bias(`${at}.mlp.down`, d, config.mlpBias)
  }
  norm('norm', d)
  if (!config.tied) matrix('head', V, d, d ** -0.5)
  return slots
}

/** Elements of one parameter. */
export const slotSize = (slot: ParameterSlot): number => slot.shape.reduce((a, b) => a * b, 1)

/** Length of θ. */
export const layoutSize = (layout: readonly ParameterSlot[]): number => {
  const last = layout.at(-1)
  return last ? last.offset + slotSize(last) : 0
}

/** Random initial parameters, each slot normal with its own mean and deviation. @returns a vector that the caller disposes */
export const initialTheta = ({ layout }: Pick<Policy, 'layout'>, random: Random): tf.Tensor1D => {
  const theta = new Float32Array(layoutSize(layout))
  for (const slot of layout) {
    const { mean, deviation } = slot.initial
    const end = slot.offset + slotSize(slot)
    if (deviation === 0) theta.fill(mean, slot.offset, end)
    else for (let i = slot.offset; i < end; i++) theta[i] = mean + deviation * random.normal()
  }
  return tf.tensor1d(theta)
}

/** θ as named tensors, differentiable: one split forward, one concatenation backward. */
export const named = (theta: tf.Tensor1D, layout: readonly ParameterSlot[]): Record<string, tf.Tensor> => {
  const parts = tf.split(theta, layout.map(slotSize))
  return Object.fromEntries(layout.map((slot, i) => [slot.name, slot.shape.length === 1 ? parts[i] : tf.reshape(parts[i], slot.shape as number[])]))
}
