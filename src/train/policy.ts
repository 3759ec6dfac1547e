import type * as tf from '@tensorflow/tfjs'
import type { Random } from '../util/random.js'

/**
 * A language model as the training loop sees it: a pure function of one flat trainable vector θ.
 * Whatever is frozen (a shared base under an adapter) lives inside and exists once. So an update is
 * θ' = θ + step, scaling an update back is a point on that line, and nothing copies a model.
 */
export interface Policy {
  /** The named tensors that θ holds, in order. */
  readonly layout: readonly ParameterSlot[]
  /** Tokens, including the end of message. */
  readonly vocabulary: number
  /** log π_θ(x_u | x_<u) of the batch's M marked tokens, [M], differentiable in θ. By itself untempered: the model itself. */
  logProbs(theta: tf.Tensor1D, batch: TokenBatch, options?: PassOptions): tf.Tensor1D
  /**
   * log π_θ(· | x_<u) at the batch's M marked tokens over the whole vocabulary, [M, V], differentiable in θ: for the exact
   * KL(behaviour‖updated) of every token. `markedLogProbs` (model/functions.ts) picks the tokens' own out of it.
   */
  logDistributions(theta: tf.Tensor1D, batch: TokenBatch, options?: PassOptions): tf.Tensor2D
  /** Sample one message after each prompt, all prompts in one batch with a KV cache; equal prompts are read once. Prompts hold at least one token. */
  sample(theta: tf.Tensor1D, prompts: readonly (readonly number[])[], options: SampleOptions): Promise<SampledMessage[]>
}

export interface PassOptions {
  /** τ > 0: of softmax(logits/τ). Default 1. */
  readonly temperature?: number
  /**
   * In training: seed of the masks of dropout, where the policy has dropout; the same seed gives the same masks. Absent: without dropout. Not for
   * what is compiled (graph.ts): the masks would be constants there.
   */
  readonly dropoutSeed?: number
}

export interface ParameterSlot {
  readonly name: string
  readonly shape: readonly number[]
  /** First element inside θ. */
  readonly offset: number
  /** Normal distribution of its elements before any training. */
  readonly initial: { readonly mean: number; readonly deviation: number }
}

/**
 * Sequences padded on the right to one length T, and which M of their tokens are asked for (an agent's own messages).
 * Made by `tokenBatch` (model/batch.ts), which says which order the M come in; only what is marked is computed up to the vocabulary.
 * Its owner disposes it with `tf.dispose(batch)`.
 */
export type TokenBatch = {
  /** [B, T] int32. */
  readonly ids: tf.Tensor2D
  /** [M] int32: b·T + u − 1, the flat place of the token *before* the marked one, where it is predicted. */
  readonly places: tf.Tensor1D
  /** [M, 2] int32: (m, the marked token itself). */
  readonly picks: tf.Tensor2D
}

export interface SampleOptions {
  /** Longest message, in tokens, the end of message included. */
  readonly maxTokens: number
  /** > 0; 0 takes the most probable token. */
  readonly temperature: number
  /** Only the k most probable tokens; after temperature. */
  readonly topK?: number
  /** Only the most probable tokens that together have at least this probability, in (0, 1]; after temperature and top-k. */
  readonly topP?: number
  /** The token that ends a message. */
  readonly endToken: number
  /** Further tokens that end it. */
  readonly stopTokens?: readonly number[]
  /** Asked after each token of the message after prompt `row`: true ends it there. */
  readonly stop?: (tokens: readonly number[], row: number) => boolean
  readonly random: Random
}

export interface SampledMessage {
  /** The message's tokens, what ended it included if it was reached within maxTokens. */
  readonly tokens: readonly number[]
  /** log π_θ of each token: the model itself, untempered, nothing left out. Ratios and divergences are made of these. */
  readonly logProbs: readonly number[]
  /** log of the probability each token was drawn with (tempered, after top-k and top-p); equal to `logProbs` at temperature 1 without the two. */
  readonly samplingLogProbs: readonly number[]
}
