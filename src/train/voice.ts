import type { Tokenizer } from './charTokenizer.js'

/** How an agent reads the shared context and writes its messages: text outside, its own tokens inside. */
export interface Voice {
  /** The token that ends a message. */
  readonly endToken: number
  /** Further tokens that end it. */
  readonly stopTokens?: readonly number[]
  /** Asked after each token of a message: true ends it there. */
  stop?(tokens: readonly number[]): boolean
  /**
   * What the agent reads before it speaks.
   *
   * @param context the shared context
   * @param role what the task tells an agent in this role; a model that reads no prose leaves it out
   */
  prompt(context: string, role: string | undefined): number[]
  /** What a sampled message adds to the shared context: its text, without what ended it. */
  text(tokens: readonly number[]): string
}

/** Reads the context as it is, and writes all that it samples. */
export const plainVoice = ({ endToken, encode, decode }: Tokenizer): Voice => ({
  endToken,
  prompt: (context) => encode(context),
  text: (tokens) => decode(tokens.at(-1) === endToken ? tokens.slice(0, -1) : tokens),
})
