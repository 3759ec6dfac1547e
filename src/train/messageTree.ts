/**
 * Every message that an agent can send, as a tree: from a prefix, what ends a message or the limit of `maxTokens` ends it, any other token leads
 * to a longer prefix. One row of next-token probabilities per prefix is then the exact law of the message, and the token chain rule
 * (Lemma 3.2) a sum over the tree.
 */
import { kl } from '../theory/divergence.js'

export interface MessageTree {
  /** V, the end token included. */
  readonly vocabulary: number
  /** All prefixes that a message can go on from, shorter ones first; the empty one is number 0. */
  readonly prefixes: readonly (readonly number[])[]
  /** The prefix before its last token, over prefixes; −1 for the empty one. */
  readonly parent: Int32Array
  /** All messages, what ended them included. */
  readonly messages: readonly (readonly number[])[]
  /** The prefix that a message's last token follows, over messages. */
  readonly after: Int32Array
}

export interface MessageLimits {
  readonly vocabulary: number
  readonly maxTokens: number
}

/** How many messages there are where one token ends them, without making them: Σ_{k<T} (V−1)^{k−1} that end early, and (V−1)^{T−1}·V of full length. */
export const countMessages = ({ vocabulary, maxTokens }: MessageLimits): number => {
  const going = vocabulary - 1
  let early = 0
  for (let k = 1; k < maxTokens; k++) early += going ** (k - 1)
  return early + going ** (maxTokens - 1) * vocabulary
}

/** @param ends asked of every sequence of tokens that no prefix of it ends, as a sampler asks */
export const messageTree = ({ vocabulary, maxTokens }: MessageLimits, ends: (tokens: readonly number[]) => boolean): MessageTree => {
  const prefixes: number[][] = [[]]
  const parent = [-1]
  const messages: number[][] = []
  const after: number[] = []
  for (let r = 0; r < prefixes.length; r++) {
    for (let token = 0; token < vocabulary; token++) {
      const tokens = [...prefixes[r], token]
      if (ends(tokens) || tokens.length === maxTokens) {
        messages.push(tokens)
        after.push(r)
      } else {
        prefixes.push(tokens)
        parent.push(r)
      }
    }
  }
  return { vocabulary, prefixes, parent: Int32Array.from(parent), messages, after: Int32Array.from(after) }
}

/** Pr(a message begins so), over prefixes. @param rows next-token probabilities, one row of V per prefix */
const prefixProbabilities = ({ vocabulary, prefixes, parent }: MessageTree, rows: Float64Array): Float64Array => {
  const reach = new Float64Array(prefixes.length)
  reach[0] = 1
  for (let r = 1; r < reach.length; r++) reach[r] = reach[parent[r]] * rows[parent[r] * vocabulary + prefixes[r].at(-1)!]
  return reach
}

/** Pr(message), over messages; they sum to 1. @param rows next-token probabilities, one row of V per prefix */
export const messageProbabilities = (tree: MessageTree, rows: Float64Array): Float64Array => {
  const reach = prefixProbabilities(tree, rows)
  return Float64Array.from(tree.messages, (tokens, m) => reach[tree.after[m]] * rows[tree.after[m] * tree.vocabulary + tokens.at(-1)!])
}

/** KL(before‖after) of the message: E_{m~before} Σ_u KL(before_u‖after_u) (Lemma 3.2), exactly. Rows as in {@link messageProbabilities}. */
export const messageKl = (tree: MessageTree, before: Float64Array, after: Float64Array): number => {
  const { vocabulary } = tree
  const row = (rows: Float64Array, r: number): Float64Array => rows.subarray(r * vocabulary, (r + 1) * vocabulary)
  return prefixProbabilities(tree, before).reduce((sum, p, r) => (p > 0 ? sum + p * kl(row(before, r), row(after, r)) : sum), 0)
}
