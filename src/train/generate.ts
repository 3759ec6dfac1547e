import type { Random } from '../util/random.js'
import { InputError } from '../util/errors.js'
import type { LanguageModel } from './languageModel.js'

export interface GenerateOptions {
  /** Longest continuation, in tokens, what ends it included. */
  readonly maxTokens: number
  /** > 0; 0 takes the most probable token. */
  readonly temperature: number
  readonly topK?: number
  readonly topP?: number
  /** Texts that end a continuation; they are left out of it. */
  readonly stop?: readonly string[]
  readonly random: Random
}

export interface Generated {
  readonly text: string
  readonly tokens: readonly number[]
  /** log-probability of each token under the policy: no temperature, nothing left out. */
  readonly logProbs: readonly number[]
  /** log-probability of each token under the distribution it was drawn from. */
  readonly samplingLogProbs: readonly number[]
  /** What ended it: a token of the model's, a stop text, or maxTokens. */
  readonly finish: 'end' | 'stop' | 'length'
}

/**
 * Continue prompts, all in one batch with a KV cache.
 *
 * @param prompts token ids, at least one each
 * @throws InputError when a prompt and maxTokens exceed the model's positions
 */
export const generate = async (
  { source, tokenizer, policy, theta }: Pick<LanguageModel, 'source' | 'tokenizer' | 'policy' | 'theta'>,
  prompts: readonly (readonly number[])[],
  { stop = [], maxTokens, ...options }: GenerateOptions,
): Promise<Generated[]> => {
  const { maxPositions } = source.config
  const longest = prompts.reduce((most, { length }) => Math.max(most, length), 0)
  if (longest + maxTokens > maxPositions) {
    throw new InputError(`prompt: ${longest} tokens, and ${maxTokens} to come, are more than the model's ${maxPositions} positions`)
  }
  const stopTokens = new Set(tokenizer.stopTokens)
  const seen = stop.length ? stopWindow(stop) : 0
  const messages = await policy.sample(theta, prompts, {
    ...options,
    maxTokens,
    endToken: tokenizer.endToken,
    stopTokens: tokenizer.stopTokens,
    stop: (tokens) => seen > 0 && firstStop(tokenizer.decode(tokens.slice(-seen)), stop) >= 0,
  })
  return messages.map(({ tokens, logProbs, samplingLogProbs }) => {
    const ended = stopTokens.has(tokens.at(-1) ?? -1)
    const text = tokenizer.decode(ended ? tokens.slice(0, -1) : tokens)
    const at = firstStop(text, stop)
    return {
      text: at < 0 ? text : text.slice(0, at),
      tokens,
      logProbs,
      samplingLogProbs,
      finish: at >= 0 ? 'stop' : ended ? 'end' : 'length',
    }
  })
}

/** Last tokens among which a stop text that has just been completed lies whole: a token is at least a byte. */
export const stopWindow = (stop: readonly string[]): number => Math.max(...stop.map((text) => Buffer.byteLength(text))) + 4

/** Where the first stop text begins; −1: none. */
export const firstStop = (text: string, stop: readonly string[]): number =>
  stop.reduce((first, each) => {
    const at = text.indexOf(each)
    return at >= 0 && (first < 0 || at < first) ? at : first
  }, -1)
