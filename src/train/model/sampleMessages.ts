import { tf } from '../backend.js'
import type { SampledMessage, SampleOptions } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { joined, nothingRecent, prefill, tokensAt, type Cache, type Read, type Tokens, type Weights } from './decoder.js'
import { draw } from './sampling.js'

/** One more token for every row of a batch, as `step` computes it. */
export type Stepper = (tokens: Tokens, past: Cache, recent: Cache) => Read

/** Tokens that are kept apart from the past at most: each step copies them, and each time that there are so many the past is copied. */
const MOST_RECENT = 16

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
  let { logits, cache: past } = readPrompts(config, weights, prompts, longest)
  let recent = nothingRecent(config, batch.length)
  for (let u = 1; ; u++) {
    const scores = (await logits.data()) as Float32Array
    logits.dispose()
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
    if (2 * going.length <= batch.length) {
      batch = going.map((i) => batch[i])
      past = onlyRows(past, going)
      recent = onlyRows(recent, going)
    }
    if (u % MOST_RECENT === 0) {
      past = joined(past, recent)
      recent = nothingRecent(config, batch.length)
    }
    const read = tf.tidy(() => {
      const lengths = batch.map((b) => prompts[b].length)
      const last = batch.map((b) => messages[b].tokens.at(-1)!)
      return next(tokensAt(config, last, lengths.map((length) => length + u - 1), lengths.map((length) => [length, longest]), past, recent), past, recent)
    })
    tf.dispose(recent)
    logits = read.logits
    recent = read.cache
  }
  tf.dispose([past, recent])
  return messages
}

/** `rowsOf` in its place. */
const onlyRows = (cache: Cache, rows: readonly number[]): Cache => {
  const fewer = tf.tidy(() => rowsOf(cache, rows))
  tf.dispose(cache)
  return fewer
}

/** Read each distinct prompt once, and what they all begin with once for all. @returns what `prefill` gives, a row per prompt */
const readPrompts = (config: DecoderConfig, weights: Weights, prompts: readonly (readonly number[])[], longest: number): Read =>
  tf.tidy(() => {
    const unique = new Map(prompts.map((prompt) => [prompt.join(), prompt]))
    const index = new Map([...unique.keys()].map((key, i) => [key, i]))
    const common = commonLength([...unique.values()])
    const shared = (unique.size - 1) * common >= WORTH_SHARING ? common : 0
    const T = longest - shared
    const ids = new Int32Array(unique.size * T)
    const last: number[] = []
    for (const prompt of unique.values()) {
      ids.set(prompt.slice(shared), last.length * T)
      last.push(last.length * T + prompt.length - shared - 1)
    }
    const read = (ids: tf.Tensor2D, last: number[], past?: Cache): Read => prefill(config, weights, ids, tf.tensor1d(last, 'int32'), past)
    const past = shared > 0 ? read(tf.tensor2d([prompts[0].slice(0, shared)], [1, shared], 'int32'), [shared - 1]).cache : undefined
    const { logits, cache } = read(tf.tensor2d(ids, [unique.size, T], 'int32'), last, past)
    if (unique.size === prompts.length) return { logits, cache }
    const row = prompts.map((prompt) => index.get(prompt.join())!)
    return { logits: tf.gather(logits, tf.tensor1d(row, 'int32')), cache: rowsOf(cache, row) }
  })

/** Tokens not to be read from which on a pass of its own for the common beginning pays. */
const WORTH_SHARING = 512

/** Tokens that all prompts begin with, at least one of each left over: the one that the next is predicted at. */
const commonLength = ([first, ...others]: readonly (readonly number[])[]): number =>
  others.reduce((most, prompt) => {
    let length = 0
    while (length < Math.min(most, prompt.length - 1) && prompt[length] === first[length]) length++
    return length
  }, first.length - 1)

const rowsOf = ({ keys, values }: Cache, rows: readonly number[]): Cache => {
  const index = tf.tensor1d(rows as number[], 'int32')
  return { keys: keys.map((k) => tf.gather(k, index)), values: values.map((v) => tf.gather(v, index)) }
}
