import { tf } from '../backend.js'
import type { SampledMessage, SampleOptions } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { prefill, tokensAt, type Cache, type Read, type Tokens, type Weights } from './decoder.js'
import { draw } from './sampling.js'

/** One more token for every row of a batch, as `step` computes it. */
export type Stepper = (tokens: Tokens, cache: Cache) => Read

/**
 * Sample one message after each prompt, all in one batch with a KV cache. Equal prompts are read once; messages that have ended leave the batch
 * when they are half of it. Tokens are drawn in the order of the prompts, one number of `random` each.
 */
export const sampleMessages = async (
  config: DecoderConfig, weights: Weights, next: Stepper, prompts: readonly (readonly number[])[], options: SampleOptions,
): Promise<SampledMessage[]> => {
  const messages = prompts.map(() => ({ tokens: [] as number[], logProbs: [] as number[], samplingLogProbs: [] as number[] }))
  if (prompts.length === 0 || options.maxTokens < 1) return messages
  const ends = new Set([options.endToken, ...(options.stopTokens ?? [])])
  const scratch = new Float64Array(config.vocabulary)
  const longest = Math.max(...prompts.map((prompt) => prompt.length))
  // Which message each row of the batch is, and whether it goes on.
  let batch = prompts.map((_, b) => b)
  const open = prompts.map(() => true)
  let read = readPrompts(config, weights, prompts, longest)
  for (let u = 1; ; u++) {
    const scores = (await read.logits.data()) as Float32Array
    read.logits.dispose()
    batch.forEach((b, i) => {
      if (!open[b]) return
      const message = messages[b]
      const { token, logProb, samplingLogProb } = draw(scores.subarray(i * config.vocabulary, (i + 1) * config.vocabulary), options, options.random, scratch)
      message.tokens.push(token)
      message.logProbs.push(logProb)
      message.samplingLogProbs.push(samplingLogProb)
      open[b] = !ends.has(token) && !options.stop?.(message.tokens, b)
    })
    const going = [...batch.keys()].filter((i) => open[batch[i]])
    if (u === options.maxTokens || going.length === 0) break
    const before = read.cache
    const smaller = 2 * going.length <= batch.length
    if (smaller) batch = going.map((i) => batch[i])
    read = tf.tidy(() => {
      const lengths = batch.map((b) => prompts[b].length)
      const tokens = tokensAt(config, batch.map((b) => messages[b].tokens.at(-1)!), lengths.map((length) => length + u - 1), lengths.map((length) => [length, longest]), longest + u)
      return next(tokens, smaller ? rowsOf(before, going) : before)
    })
    tf.dispose(before)
  }
  tf.dispose(read.cache)
  return messages
}

/** Read each distinct prompt once. @returns what `prefill` gives, a row per prompt */
const readPrompts = (config: DecoderConfig, weights: Weights, prompts: readonly (readonly number[])[], longest: number): Read =>
  tf.tidy(() => {
    const unique = new Map(prompts.map((prompt) => [prompt.join(), prompt]))
    const index = new Map([...unique.keys()].map((key, i) => [key, i]))
    const ids = new Int32Array(unique.size * longest)
    const last: number[] = []
    for (const prompt of unique.values()) {
      ids.set(prompt, last.length * longest)
      last.push(last.length * longest + prompt.length - 1)
    }
    const { logits, cache } = prefill(config, weights, tf.tensor2d(ids, [unique.size, longest], 'int32'), tf.tensor1d(last, 'int32'))
    if (unique.size === prompts.length) return { logits, cache }
    const row = prompts.map((prompt) => index.get(prompt.join())!)
    return { logits: tf.gather(logits, tf.tensor1d(row, 'int32')), cache: rowsOf(cache, row) }
  })

const rowsOf = ({ keys, values }: Cache, rows: readonly number[]): Cache => {
  const index = tf.tensor1d(rows as number[], 'int32')
  return { keys: keys.map((k) => tf.gather(k, index)), values: values.map((v) => tf.gather(v, index)) }
}
