import { tf } from '../backend.js'
import type { Random } from '../../util/random.js'
import type { ParameterSlot, Policy, SampledMessage } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { logits, prefill, step, type Read, type Weights } from './decoder.js'
import { markedLogProbs } from './functions.js'
import { decoderLayout, loraLayout, named, type LoraConfig } from './layout.js'
import { adapterWeights } from './lora.js'

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

/** @param frozen the weights that are not trained @param trained those that θ gives */
const policyOf = (config: DecoderConfig, layout: readonly ParameterSlot[], frozen: Weights, trained: (theta: tf.Tensor1D) => Weights): Policy => {
  const logDistributions: Policy['logDistributions'] = (theta, batch) =>
    tf.tidy(() => tf.logSoftmax(logits(config, { ...frozen, ...trained(theta) }, batch.ids, batch.places)))
  return {
    layout,
    vocabulary: config.vocabulary,
    logDistributions,
    logProbs: (theta, batch) => tf.tidy(() => markedLogProbs(logDistributions(theta, batch), batch.picks)),
    sample: async (theta, prompts, { maxTokens, temperature, endToken, random }) => {
      if (prompts.length === 0 || maxTokens === 0) return prompts.map(() => ({ tokens: [], logProbs: [], samplingLogProbs: [] }))
      const own = tf.tidy(() => trained(theta))
      const weights = { ...frozen, ...own }
      const messages = prompts.map(() => ({ tokens: [] as number[], logProbs: [] as number[], samplingLogProbs: [] as number[] }))
      const scratch = new Float64Array(config.vocabulary)
      const { unique, row } = distinct(prompts)
      const longest = Math.max(...unique.map((prompt) => prompt.length))
      const padded = unique.some((prompt) => prompt.length < longest)

      let { logits: next, cache } = tf.tidy(() => {
        const ids = new Int32Array(unique.length * longest)
        unique.forEach((prompt, b) => ids.set(prompt, b * longest))
        const last = unique.map((prompt, b) => b * longest + prompt.length - 1)
        const read = prefill(config, weights, tf.tensor2d(ids, [unique.length, longest], 'int32'), tf.tensor1d(last, 'int32'))
        return row.every((r, i) => r === i) ? read : rows(read, row)
      })
      for (let u = 0; ; u++) {
        const scores = (await next.data()) as Float32Array
        next.dispose()
        const tokens = messages.map((message, b) => {
          if (message.tokens.at(-1) === endToken) return endToken
          const drawn = draw(scores.subarray(b * config.vocabulary, (b + 1) * config.vocabulary), temperature, random, scratch)
          message.tokens.push(drawn.token)
          message.logProbs.push(drawn.logProb)
          message.samplingLogProbs.push(drawn.samplingLogProb)
          return drawn.token
        })
        if (u + 1 === maxTokens || tokens.every((token) => token === endToken)) break
        const grown = tf.tidy(() => {
          const mask = padded ? padding(prompts, longest, u + 1) : undefined
          return step(config, weights, tf.tensor2d(tokens, [tokens.length, 1], 'int32'), prompts.map((prompt) => prompt.length + u), cache, mask)
        })
        tf.dispose(cache)
        next = grown.logits
        cache = grown.cache
      }
      tf.dispose([cache, own])
      return messages satisfies SampledMessage[]
    },
  }
}

/** Each distinct prompt once, and which of them each prompt is. */
const distinct = (prompts: readonly (readonly number[])[]): { unique: (readonly number[])[]; row: number[] } => {
  const index = new Map<string, number>()
  const unique: (readonly number[])[] = []
  const row = prompts.map((prompt) => {
    const key = prompt.join()
    const known = index.get(key)
    if (known !== undefined) return known
    index.set(key, unique.length)
    return unique.push(prompt) - 1
  })
  return { unique, row }
}

/** The chosen rows of everything in a batch. */
const rows = ({ logits, cache }: Read, row: readonly number[]): Read => {
  const index = tf.tensor1d(row as number[], 'int32')
  return {
    logits: tf.gather(logits, index),
    cache: { keys: cache.keys.map((k) => tf.gather(k, index)), values: cache.values.map((v) => tf.gather(v, index)) },
  }
}

/** [B, 1, 1, longest + grown]: −10⁹ where a row's prompt was padded. */
const padding = (prompts: readonly (readonly number[])[], longest: number, grown: number): tf.Tensor4D => {
  const width = longest + grown
  const mask = new Float32Array(prompts.length * width)
  prompts.forEach((prompt, b) => mask.fill(-1e9, b * width + prompt.length, b * width + longest))
  return tf.tensor4d(mask, [prompts.length, 1, 1, width])
}

/**
 * One token from a row of logits, in float64: by the inverse of the cumulative distribution, or the (first) most probable at temperature 0.
 *
 * @param weights scratch space, as long as the row
 * @returns the token, log of its probability, and log of the (tempered) probability it was drawn with
 */
const draw = (scores: Float32Array, temperature: number, random: Random, weights: Float64Array): { token: number; logProb: number; samplingLogProb: number } => {
  let best = 0
  for (let v = 1; v < scores.length; v++) if (scores[v] > scores[best]) best = v
  const top = scores[best]
  /** Fills `weights` with exp((score − top) · scale). @returns their sum */
  const exponentiate = (scale: number): number => {
    let sum = 0
    for (let v = 0; v < scores.length; v++) sum += weights[v] = Math.exp((scores[v] - top) * scale)
    return sum
  }
  if (temperature === 0) return { token: best, logProb: -Math.log(exponentiate(1)), samplingLogProb: 0 }
  const total = exponentiate(1 / temperature)
  // Rounding may leave nothing of u · total behind the last token: then the most probable one.
  let left = random.next() * total
  const found = weights.findIndex((weight) => (left -= weight) < 0)
  const token = found < 0 ? best : found
  const samplingLogProb = (scores[token] - top) / temperature - Math.log(total)
  return { token, samplingLogProb, logProb: temperature === 1 ? samplingLogProb : scores[token] - top - Math.log(exponentiate(1)) }
}
