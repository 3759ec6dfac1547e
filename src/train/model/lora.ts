import { tf } from '../backend.js'
import type { DecoderConfig } from './config.js'
import type { Weights } from './decoder.js'
import { linears, type LoraConfig } from './layout.js'

/**
 * An adapter's weights as the decoder reads them beside its base's: `….loraA` [n·r, in], and `….loraB` [out, n·r], which is
 * block-diagonal over the n targets of a layer (zero rows for the outputs that are no target) and carries the scale α/r.
 *
 * @param adapter the adapter's tensors by name (loraLayout)
 */
export const adapterWeights = (config: DecoderConfig, { rank, alpha, targets }: LoraConfig, adapter: Record<string, tf.Tensor>): Weights => {
  const weights: Weights = {}
  for (let l = 0; l < config.layers; l++) {
    for (const { name, outputs } of linears(config)) {
      const at = `blocks.${l}.${name}`
      const a = adapter[`${at}.loraA`]
      if (!a) continue
      const n = a.shape[0] / rank
      let before = 0
      const blocks = Object.entries(outputs).map(([output, rows]) => {
        if (!targets.includes(output as LoraConfig['targets'][number])) return tf.zeros([rows, n * rank])
        const b = adapter[`${at}.loraB.${output}`] as tf.Tensor2D
        return n === 1 ? b : tf.pad(b, [[0, 0], [rank * before, rank * (n - 1 - before++)]])
      })
      weights[`${at}.loraA`] = a
      weights[`${at}.loraB`] = tf.mul(blocks.length === 1 ? blocks[0] : tf.concat(blocks, 0), alpha / rank)
    }
  }
  return weights
}
