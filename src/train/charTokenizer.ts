import { InputError } from '../util/errors.js'

/** Text as token ids and back. */
export interface Tokenizer {
  /** Number of token ids. */
  readonly vocabulary: number
  /** The token that ends a message; `decode` leaves it out. */
  readonly endToken: number
  /** @throws InputError on text that the vocabulary cannot write */
  encode(text: string): number[]
  decode(ids: readonly number[]): string
}

/**
 * One token per character of an alphabet, for models trained from scratch: id 0 is padding, 1 the end of message, then the
 * alphabet's characters in order. `decode` leaves out padding and end of message.
 *
 * @param alphabet distinct characters (Unicode code points)
 * @throws InputError when a character comes twice
 */
export const charTokenizer = (alphabet: string): Tokenizer => {
  const characters = [...alphabet]
  const ids = new Map(characters.map((character, i) => [character, i + 2]))
  if (ids.size < characters.length) {
    const twice = characters.find((character, i) => characters.indexOf(character) !== i)
    throw new InputError(`alphabet: holds ${JSON.stringify(twice)} twice; distinct characters are needed`)
  }
  return {
    vocabulary: characters.length + 2,
    endToken: 1,
    encode: (text) =>
      Array.from(text, (character, at) => {
        const id = ids.get(character)
        if (id === undefined) throw new InputError(`text ${JSON.stringify(text)}: character ${JSON.stringify(character)} at ${at} is not in the alphabet ${JSON.stringify(alphabet)}`)
        return id
      }),
    decode: (tokens) => tokens.map((id) => characters[id - 2] ?? '').join(''),
  }
}
