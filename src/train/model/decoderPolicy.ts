import { tf } from '../backend.js'
import type { ParameterSlot, Policy } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { logits, type Weights } from './decoder.js'
import { markedLogProbs } from './functions.js'
import { decoderLayout, loraLayout, named, type LoraConfig } from './layout.js'
import { adapterWeights } from './lora.js'
import { sampleMessages } from './sampleMessages.js'

/** A decoder whose every parameter is trained: θ holds them all. */
export const decoderPolicy = (config: DecoderConfig): Policy => {
  const layout = decoderLayout(config)
  return policyOf(config, layout, {}, (theta) => named(theta, layout))
}

/**
 * A frozen decoder under a trained LoRA adapter: θ holds the adapter alone. Several policies may share one base.
 *
 * @param base the decoder's weights by name; they stay the caller's
 */
export const adapterPolicy = (config: DecoderConfig, base: Weights, lora: LoraConfig): Policy => {
  const layout = loraLayout(config, lora)
  return policyOf(config, layout, base, (theta) => adapterWeights(config, lora, named(theta, layout)))
}

/**
 * A frozen decoder as it is: θ is empty.
 *
 * @param base the decoder's weights by name; they stay the caller's
 */
export const frozenPolicy = (config: DecoderConfig, base: Weights): Policy => policyOf(config, [], base, () => ({}))

/** @param frozen the weights that are not trained @param trained those that θ gives */
const policyOf = (config: DecoderConfig, layout: readonly ParameterSlot[], frozen: Weights, trained: (theta: tf.Tensor1D) => Weights): Policy => {
  const logDistributions: Policy['logDistributions'] = (theta, batch) =>
    tf.tidy(() => tf.logSoftmax(logits(config, { ...frozen, ...trained(theta) }, batch.ids, batch.places)))
  return {
    layout,
    vocabulary: config.vocabulary,
    logDistributions,
    logProbs: (theta, batch) => tf.tidy(() => markedLogProbs(logDistributions(theta, batch), batch.picks)),
    sample: async (theta, prompts, options) => {
      const own = tf.tidy(() => trained(theta))
      try {
        return await sampleMessages(config, { ...frozen, ...own }, prompts, options)
      } finally {
        tf.dispose(own)
      }
    },
  }
}
