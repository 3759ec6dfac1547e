import { tf } from '../backend.js'
import type { Random } from '../../util/random.js'
import type { ParameterSlot, Policy } from '../policy.js'
import type { DecoderConfig } from './config.js'
import type { Projection } from './projections.js'

/** A linear layer of a block: one matrix for all outputs that read the same input, side by side. */
export interface Linear {
  readonly name: string
  readonly input: number
  readonly outputs: Readonly<Record<string, number>>
  readonly bias: boolean
  /** Writes into the residual stream. */
  readonly residual: boolean
}

/** The linear layers of a block, in order: qkv = [query | key | value], out; up = [gate | up], down. */
export const linears = (config: DecoderConfig): Linear[] => {
  const { hidden: d, heads: H, kvHeads: K, headDim, intermediate: f, qkvBias, outBias, mlpBias } = config
  return [
    { name: 'attention.qkv', input: d, outputs: { query: H * headDim, key: K * headDim, value: K * headDim }, bias: qkvBias, residual: false },
    { name: 'attention.out', input: H * headDim, outputs: { out: d }, bias: outBias, residual: true },
    { name: 'mlp.up', input: d, outputs: config.mlp === 'swiglu' ? { gate: f, up: f } : { up: f }, bias: mlpBias, residual: false },
    { name: 'mlp.down', input: f, outputs: { down: d }, bias: mlpBias, residual: true },
  ]
}

/** Columns of a linear layer's matrix. */
export const width = ({ outputs }: Linear): number => Object.values(outputs).reduce((a, b) => a + b, 0)

/** Slots one after the other, each where the one before it ends. */
const packed = (slots: readonly Omit<ParameterSlot, 'offset'>[]): ParameterSlot[] => {
  let offset = 0
  return slots.map((slot) => {
    const placed = { ...slot, offset }
    offset += slotSize(slot)
    return placed
  })
}

const normal = (name: string, shape: number[], deviation: number) => ({ name, shape, initial: { mean: 0, deviation } })
const constant = (name: string, size: number, mean: number) => ({ name, shape: [size], initial: { mean, deviation: 0 } })

/**
 * The parameters of a decoder, in the order in which θ holds them. Matrices are [in, out]; embedding and head are [V, d].
 *
 * Initial weights have variance 1/in, so that outputs have that of inputs at any width. (GPT-2's 0.02 is for widths near 1000: at d = 64 a model
 * so started stood still for 250 steps on a task that this one learns in 150.)
 */
export const decoderLayout = (config: DecoderConfig): ParameterSlot[] => {
  const { vocabulary: V, hidden: d, layers, headDim } = config
  const norm = (name: string) => [constant(name, d, 1), ...(config.norm === 'layer' ? [constant(`${name}.bias`, d, 0)] : [])]
  // Two matrices per layer write into the residual stream: together they add as much variance as one.
  const linear = (at: string, layer: Linear) => [
    normal(`${at}.${layer.name}`, [layer.input, width(layer)], 1 / Math.sqrt(layer.residual ? 2 * layers * layer.input : layer.input)),
    ...(layer.bias ? [constant(`${at}.${layer.name}.bias`, width(layer), 0)] : []),
  ]
  const block = (at: string) => {
    const [qkv, out, up, down] = linears(config)
    return [
      ...norm(`${at}.attention.norm`),
      ...linear(at, qkv),
      ...(config.qkNorm ? [constant(`${at}.attention.queryNorm`, headDim, 1), constant(`${at}.attention.keyNorm`, headDim, 1)] : []),
      ...linear(at, out),
      ...norm(`${at}.mlp.norm`),
      ...linear(at, up),
      ...linear(at, down),
    ]
  }
  return packed([
    normal('embedding', [V, d], 1 / Math.sqrt(d)),
    ...(config.positions === 'learned' ? [normal('positions', [config.maxPositions, d], 1 / Math.sqrt(d))] : []),
    ...Array.from({ length: layers }, (_, l) => block(`blocks.${l}`)).flat(),
    ...norm('norm'),
    ...(config.tied ? [] : [normal('head', [V, d], 1 / Math.sqrt(d))]),
  ])
}

/** A LoRA adapter: y = x W + (α/r) (x Aᵀ) Bᵀ on each target. */
export interface LoraConfig {
  readonly rank: number
  readonly alpha: number
  readonly targets: readonly Projection[]
  /** Probability in [0, 1) that an element of what A reads is dropped in training; default 0. */
  readonly dropout?: number
}

/**
 * The parameters of an adapter on a decoder: per linear layer with targets, A of all its targets stacked [targets · r, in], and B of each [out, r].
 * B starts at 0, so a fresh adapter changes nothing.
 */
export const loraLayout = (config: DecoderConfig, { rank, targets }: LoraConfig): ParameterSlot[] => {
  const block = (at: string) =>
    linears(config).flatMap(({ name, input, outputs }) => {
      const hit = Object.keys(outputs).filter((output) => targets.includes(output as Projection))
      if (hit.length === 0) return []
      return [
        normal(`${at}.${name}.loraA`, [hit.length * rank, input], 1 / Math.sqrt(3 * input)),
        ...hit.map((output) => normal(`${at}.${name}.loraB.${output}`, [outputs[output], rank], 0)),
      ]
    })
  return packed(Array.from({ length: config.layers }, (_, l) => block(`blocks.${l}`)).flat())
}

/** Elements of one parameter. */
export const slotSize = (slot: Pick<ParameterSlot, 'shape'>): number => slot.shape.reduce((a, b) => a * b, 1)

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
