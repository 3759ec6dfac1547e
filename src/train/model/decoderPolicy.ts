import { tf } from '../backend.js'
import { compileGraph, compiles } from '../graph.js'
import type { ParameterSlot, PassOptions, Policy, TokenBatch } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { headOf, states, step, type Cache, type Read, type Tokens, type Weights } from './decoder.js'
import { pickedLogProbs } from './functions.js'
import { decoderLayout, loraLayout, named, type LoraConfig } from './layout.js'
import { adapterWeights } from './lora.js'
import { sampleMessages, type Stepper } from './sampleMessages.js'

/** How a policy computes; none of it changes what it computes. */
export interface PolicySettings {
  /**
   * Keep only the input of each block for the backward pass, and compute the block again there: memory for one block instead of all, for about a
   * third more time. Default false.
   */
  readonly recompute?: boolean
}

/** A decoder whose every parameter is trained: θ holds them all. */
export const decoderPolicy = (config: DecoderConfig, settings: PolicySettings = {}): Policy => {
  const layout = decoderLayout(config)
  return policyOf(config, layout, {}, (theta) => named(theta, layout), settings)
}

/**
 * A frozen decoder under a trained LoRA adapter: θ holds the adapter alone. Several policies may share one base.
 *
 * @param base the decoder's weights by name; they stay the caller's
 */
export const adapterPolicy = (config: DecoderConfig, base: Weights, lora: LoraConfig, settings: PolicySettings = {}): Policy => {
  const layout = loraLayout(config, lora)
  return policyOf(config, layout, base, (theta) => adapterWeights(config, lora, named(theta, layout)), settings, lora.dropout)
}

/**
 * A frozen decoder as it is: θ is empty.
 *
 * @param base the decoder's weights by name; they stay the caller's
 */
export const frozenPolicy = (config: DecoderConfig, base: Weights): Policy => policyOf(config, [], base, () => ({}))

/** @param frozen the weights that are not trained @param trained those that θ gives @param rate of the dropout in training */
const policyOf = (
  config: DecoderConfig, layout: readonly ParameterSlot[], frozen: Weights, trained: (theta: tf.Tensor1D) => Weights,
  { recompute = false }: PolicySettings = {}, rate = 0,
): Policy => {
  const pass = (theta: tf.Tensor1D, { ids, places }: TokenBatch, { temperature = 1, dropoutSeed: seed }: PassOptions) => {
    const own = trained(theta)
    const weights = { ...frozen, ...own }
    const dropout = rate > 0 && seed !== undefined ? { rate, seed } : undefined
    const h = states(config, weights, ids, places, { trained: Object.keys(own), recompute, dropout })
    return {
      // Logits are h Wᵀ: dividing h by τ divides them.
      h: temperature === 1 ? h : tf.div<tf.Tensor2D>(h, temperature),
      head: headOf(weights),
      headTrained: (config.tied ? 'embedding' : 'head') in own,
    }
  }
  let compiled: CompiledStep | undefined
  return {
    layout,
    vocabulary: config.vocabulary,
    logProbs: (theta, batch, options = {}) =>
      tf.tidy(() => {
        const { h, head, headTrained } = pass(theta, batch, options)
        return pickedLogProbs(h, head, batch.picks, headTrained)
      }),
    logDistributions: (theta, batch, options = {}) =>
      tf.tidy(() => {
        const { h, head } = pass(theta, batch, options)
        return tf.logSoftmax(tf.matMul<tf.Tensor2D>(h, head, false, true))
      }),
    sample: async (theta, prompts, options) => {
      const own = tf.tidy(() => trained(theta))
      const weights = { ...frozen, ...own }
      const next: Stepper = options.maxTokens >= WORTH_COMPILING && compiles()
        ? (tokens, past, recent) => (compiled ??= compileStep(config, weights, tokens, past, recent))(weights, tokens, past, recent)
        : (tokens, past, recent) => step(config, weights, tokens, past, recent)
      try {
        return await sampleMessages(config, weights, next, prompts, options)
      } finally {
        tf.dispose(own)
      }
    },
  }
}

/**
 * From this length of messages on, steps are compiled where they can be: that takes a few tenths of a second once. It must not depend on how often
 * a policy was used, since the two round differently, and a run that is resumed must go on with the same numbers.
 */
const WORTH_COMPILING = 4

type CompiledStep = (weights: Weights, tokens: Tokens, past: Cache, recent: Cache) => Read

/** `step` as a graph, whose inputs are everything that it reads. */
const compileStep = (config: DecoderConfig, weights: Weights, tokens: Tokens, past: Cache, recent: Cache): CompiledStep => {
  const names = Object.keys(weights)
  const flat = (weights: Weights, { ids, positions, rotation: { cos, sin, turn }, mask, recentMask }: Tokens, ...caches: Cache[]): tf.Tensor[] => [
    ids, positions, cos, sin, turn, mask, recentMask, ...names.map((name) => weights[name]), ...caches.flatMap(({ keys, values }) => [...keys, ...values]),
  ]
  const graph = compileGraph((inputs) => {
    const [ids, positions, cos, sin, turn, mask, recentMask, ...rest] = inputs
    const own = Object.fromEntries(names.map((name, i) => [name, rest[i]]))
    const caches = rest.slice(names.length)
    const half = caches.length / 2
    const tokens = { ids, positions, rotation: { cos, sin, turn }, mask, recentMask } as Tokens
    const { logits, cache } = step(config, own, tokens, cacheOf(caches.slice(0, half)), cacheOf(caches.slice(half)))
    return [logits, ...cache.keys, ...cache.values]
  }, flat(weights, tokens, past, recent))
  return (weights, tokens, past, recent) => {
    const [logits, ...rest] = graph(flat(weights, tokens, past, recent))
    return { logits: logits as tf.Tensor2D, cache: cacheOf(rest) }
  }
}

/** Keys of all layers, then values. */
const cacheOf = (tensors: readonly tf.Tensor[]): Cache => {
  const layers = tensors.length / 2
  return { keys: tensors.slice(0, layers) as tf.Tensor4D[], values: tensors.slice(layers) as tf.Tensor4D[] }
}
