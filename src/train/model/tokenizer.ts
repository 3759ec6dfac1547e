/** Tokenizers as models bring them: byte-level (or byte-fallback) BPE, through @huggingface/tokenizers. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Tokenizer as HubTokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'
import { InputError, messageOf } from '../../util/errors.js'
import { readJson, readText } from '../../util/files.js'
import { withTimeLimit } from '../../util/timeLimit.js'
import { show, validate } from '../../util/validate.js'
import type { Tokenizer } from '../charTokenizer.js'
import { chatTemplate, type ChatTemplate } from './chatTemplate.js'

/** The tokenizer of a pretrained model. */
export interface TextTokenizer extends Tokenizer {
  /** The tokens that end a message; `endToken` is the first. */
  readonly stopTokens: readonly number[]
  /** Special tokens by name (`bos_token`, `eos_token`, …), as chat templates read them. */
  readonly specials: Readonly<Record<string, string>>
  /**
   * Characters that the vocabulary lacks are left out, as `transformers` does; a byte-level vocabulary has all.
   *
   * @param options.specials also the tokens that the model puts around a text (for example the one that begins it); not for the text of a
   *   chat template, which has written them already. Default false
   */
  encode(text: string, options?: { readonly specials?: boolean }): number[]
  /** @param options.specials keep special tokens. Default false. Bytes that are no UTF-8 become U+FFFD. */
  decode(ids: readonly number[], options?: { readonly specials?: boolean }): string
  /** The token's id, if there is one. */
  id(token: string): number | undefined
  /** The model's chat template. @throws InputError when it has none */
  readonly chat: ChatTemplate
  /** What it was made from: to be written beside a model that is saved. */
  readonly files: TokenizerFiles
}

/** The content of tokenizer.json and tokenizer_config.json, and the chat template's text. */
export interface TokenizerFiles {
  readonly tokenizer: Readonly<Record<string, unknown>>
  readonly config: Readonly<Record<string, unknown>>
  readonly template: string | undefined
}

const specialToken = z.union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)]).nullish()
const specialNames = ['bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token'] as const

const configSchema = z.object({
  ...Object.fromEntries(specialNames.map((name) => [name, specialToken])) as Record<(typeof specialNames)[number], typeof specialToken>,
  chat_template: z.union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))]).nullish(),
  clean_up_tokenization_spaces: z.boolean().nullish(),
})

const size = z.int().min(0).max(2 ** 24)
const tokenizerSchema = z.object({
  model: z.object({
    type: z.literal('BPE').default('BPE'),
    vocab: z.custom<object>(
      (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      'expected an object of token ids',
    ),
    merges: z.array(z.unknown()),
    dropout: z.literal(0).nullish(),
    continuing_subword_prefix: z.literal('').nullish(),
  }),
  added_tokens: z
    .array(
      z.object({ id: size, content: z.string().min(1), single_word: z.literal(false).default(false), special: z.boolean().default(false) }),
    )
    .default([]),
})

/**
 * The tokenizer of a model folder: tokenizer.json, tokenizer_config.json, and chat_template.jinja, which has precedence over a template in
 * the config.
 *
 * @param stopTokens the model's end-of-sequence ids (generation_config.json, config.json); none: the tokenizer's own `eos_token`
 * @throws InputError naming file and field: what is missing, malformed, or not supported
 */
export const readTokenizer = (folder: string, stopTokens: readonly number[] = []): TextTokenizer => {
  const config = validate(
    z.record(z.string(), z.unknown()),
    readJson(join(folder, 'tokenizer_config.json')),
    join(folder, 'tokenizer_config.json'),
  )
  const jinja = join(folder, 'chat_template.jinja')
  const template = existsSync(jinja) ? readText(jinja) : defaultTemplate(config.chat_template, join(folder, 'tokenizer_config.json'))
  const file = join(folder, 'tokenizer.json')
  const tokenizer = validate(z.record(z.string(), z.unknown()), readJson(file), file)
  return textTokenizer({ tokenizer, config, template }, stopTokens, folder)
}

/** A template as it is, or the one called "default" of several. */
const defaultTemplate = (value: unknown, file: string): string | undefined => {
  const templates = validate(configSchema.pick({ chat_template: true }), { chat_template: value }, file).chat_template
  return Array.isArray(templates) ? templates.find(({ name }) => name === 'default')?.template : templates ?? undefined
}

/**
 * A tokenizer from the content of its files.
 *
 * @param where folder or file that it came from, for messages
 * @throws InputError as `readTokenizer`
 */
export const textTokenizer = (files: TokenizerFiles, stopTokens: readonly number[], where: string): TextTokenizer => {
  const own = validate(configSchema, files.config, `${where}: tokenizer_config.json`)
  const at = `${where}: tokenizer.json`
  const { model, added_tokens: added } = validate(tokenizerSchema, files.tokenizer, at)
  const vocabulary = checkedVocabulary(model.vocab, at)
  checkMerges(model.merges, vocabulary, at)
  checkPatterns(files.tokenizer, at)
  const hub = guarded(
    at,
    () =>
      new HubTokenizer(
        {
          normalizer: null,
          pre_tokenizer: null,
          post_processor: null,
          decoder: null,
          ...files.tokenizer,
          added_tokens: added.length ? files.tokenizer.added_tokens : [],
        },
        // `transformers` 5 leaves spaces as they are unless the configuration asks.
        { ...files.config, clean_up_tokenization_spaces: own.clean_up_tokenization_spaces ?? false },
      ),
  )
  for (const { content, id } of added) vocabulary.set(content, id)
  const specials: Record<string, string> = {}
  for (const name of specialNames) {
    const token = own[name]
    if (token) specials[name] = token
  }
  const special = new Set(added.filter((token) => token.special).map(({ id }) => id))
  const stops = stopTokens.length ? [...stopTokens] : [hub.token_to_id(specials.eos_token ?? '')].filter((id) => id !== undefined)
  if (stops.length === 0) {
    throw new InputError(
      `${where}: no token ends a message: eos_token in tokenizer_config.json, or eos_token_id in generation_config.json, is needed`,
    )
  }
  return {
    vocabulary: [...vocabulary.values()].reduce((most, id) => Math.max(most, id + 1), 0),
    endToken: stops[0],
    stopTokens: stops,
    specials,
    encode: (text, { specials = false } = {}) => {
      const { ids } = guarded(at, () => hub.encode(text, { add_special_tokens: specials }))
      if (ids.includes(undefined as never)) throw new InputError(`${at}: the vocabulary cannot write ${show(text)}`)
      return ids
    },
    decode: (ids, { specials = false } = {}) => {
      const known = ids.filter((id) => hub.id_to_token(id) !== undefined && (specials || !special.has(id)))
      return known.length ? hub.decode(known) : ''
    },
    id: (token) => hub.token_to_id(token),
    chat: files.template === undefined
      ? () => {
          throw new InputError(`${where}: has no chat template`)
        }
      : chatTemplate(files.template, specials, `${where}: chat template`),
    files,
  }
}

/** Token ids by token. Large, so checked by hand; and any string may be a token, also one that is special to JavaScript objects. */
const checkedVocabulary = (vocab: object, at: string): Map<string, number> => {
  const ids = new Map<string, number>(Object.entries(vocab))
  for (const [token, id] of ids) {
    if (!size.safeParse(id).success) {
      throw new InputError(`${at}: model.vocab: ${show(token)}: holds ${show(id)}; expected a token id, 0 to 2^24`)
    }
  }
  return ids
}

/** Both parts of a merge and what they make must be tokens. */
const checkMerges = (merges: readonly unknown[], vocabulary: ReadonlyMap<string, number>, at: string): void => {
  merges.forEach((merge, i) => {
    const parts: unknown[] = typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : []
    const known = parts.length === 2 && [...parts, parts.join('')].every((token) => typeof token === 'string' && vocabulary.has(token))
    if (!known || typeof merge !== typeof merges[0]) {
      throw new InputError(
        `${at}: model.merges[${i}]: holds ${show(merge)}; expected two tokens whose union is a token, all as strings or all as pairs`,
      )
    }
  })
}

/** The tokenizers package would silently match nothing where a pattern is neither of the two kinds. */
const checkPatterns = (value: unknown, at: string, depth = 0): void => {
  if (typeof value !== 'object' || value === null || depth > 16) return
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'vocab' || key === 'merges' || key === 'added_tokens') continue
    if (key === 'pattern')
      validate(
        z.union([z.object({ Regex: z.string().max(10_000) }), z.object({ String: z.string().max(10_000) })]),
        inner,
        `${at}: pattern`,
      )
    checkPatterns(inner, at, depth + 1)
  }
}

/** Longest time for one text: a pattern may be slow, in a hostile file without end. */
const SECONDS = 20

const guarded = <T>(where: string, f: () => T): T => {
  try {
    return withTimeLimit(where, SECONDS, f)
  } catch (error) {
    throw error instanceof InputError ? error : new InputError(`${where}: ${messageOf(error).split('\n')[0]}`)
  }
}
