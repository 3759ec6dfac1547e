/** The tokenizer that a GGUF file carries in its metadata, as the tokenizer.json and tokenizer_config.json it was made from. */
import { InputError } from '../../util/errors.js'
import { show } from '../../util/validate.js'
import type { GgufFile } from './ggufFile.js'
import type { TokenizerFiles } from './tokenizer.js'

const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false })
const byteLevel = (use_regex: boolean) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex })
const sequence = (...pretokenizers: object[]) => ({ type: 'Sequence', pretokenizers })
const likeGpt4 = (digits: string) =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`

interface Kind {
  readonly pre_tokenizer: object
  readonly normalizer: object | null
  readonly ignoreMerges: boolean
  /** Whether a text begins with the bos token where `add_bos_token` says nothing. */
  readonly bos: boolean
}

const gpt2: Kind = { pre_tokenizer: byteLevel(true), normalizer: null, ignoreMerges: false, bos: false }
const singleDigits: Kind = { ...gpt2, pre_tokenizer: sequence({ type: 'Digits', individual_digits: true }, byteLevel(true)) }
const llama3: Kind = {
  pre_tokenizer: sequence(split(likeGpt4('\\p{N}{1,3}')), byteLevel(false)),
  normalizer: null,
  ignoreMerges: true,
  bos: true,
}
const qwen2: Kind = {
  pre_tokenizer: sequence(split(likeGpt4('\\p{N}')), byteLevel(false)),
  normalizer: { type: 'NFC' },
  ignoreMerges: false,
  bos: false,
}

/** By `tokenizer.ggml.pre`: how text is split before the merges. */
const kinds: Readonly<Record<string, Kind>> = {
  'gpt-2': gpt2, smollm: singleDigits, starcoder: singleDigits, 'llama-bpe': llama3, llama3: llama3, 'llama-v3': llama3, qwen2: qwen2,
  'deepseek-r1-qwen': qwen2,
}

/** Types of tokens. */
const [UNKNOWN, CONTROL, USER_DEFINED] = [2, 3, 4]

/** Control tokens that end a message by their name, in the models that have them. */
const ends = ['<|im_end|>', '<|eot_id|>', '<|eom_id|>', '<|endoftext|>', '<|end_of_text|>']

/**
 * @param file its name, for messages
 * @returns what `textTokenizer` takes, and the tokens that end a message: those the metadata name, then control tokens known to
 * @throws InputError naming the key that is missing, malformed, or says something that is not supported
 */
export const ggufTokenizer = ({ metadata }: GgufFile, file: string): { files: TokenizerFiles; stopTokens: number[] } => {
  const key = (name: string): string => `tokenizer.ggml.${name}`
  const refuse = (name: string, right: string): never => {
    const value = metadata.get(name)
    throw new InputError(`${file}: ${show(name)}: ${value === undefined ? 'missing' : `holds ${show(value)}`}; ${right}`)
  }
  const strings = (name: string): readonly string[] => {
    const value = metadata.get(key(name))
    return Array.isArray(value) && value.every((item) => typeof item === 'string')
      ? value
      : refuse(key(name), 'expected an array of strings')
  }
  if (metadata.get(key('model')) !== 'gpt2') refuse(key('model'), '"gpt2", byte-level BPE, is supported')
  const pre = metadata.get(key('pre'))
  const kind =
    typeof pre === 'string' && Object.hasOwn(kinds, pre)
      ? kinds[pre]
      : refuse(key('pre'), `one of ${Object.keys(kinds).join(', ')} is supported`)
  const tokens = strings('tokens')
  const types = metadata.get(key('token_type')) ?? new Int32Array(tokens.length).fill(1)
  if (!(types instanceof Int32Array || types instanceof Uint32Array) || types.length !== tokens.length) {
    throw new InputError(`${file}: "${key('token_type')}": expected ${tokens.length} whole numbers, one for each token`)
  }
  const vocab = new Map(tokens.map((token, id) => [token, id]))
  if (vocab.size < tokens.length) {
    const id = tokens.findIndex((token, id) => vocab.get(token) !== id)
    throw new InputError(`${file}: "${key('tokens')}": holds ${show(tokens[id])} twice, at ${id} and ${vocab.get(tokens[id])}`)
  }

  /** A token that metadata name by its id. */
  const named = (name: string): number | undefined => {
    const id = metadata.get(key(`${name}_token_id`))
    if (id === undefined || (typeof id === 'number' && id < tokens.length)) return id
    return refuse(key(`${name}_token_id`), `expected a token id, 0 to ${tokens.length - 1}`)
  }
  const [bos, eos, unk, pad] = ['bos', 'eos', 'unknown', 'padding'].map(named)
  const ofType = (...wanted: number[]) => tokens.flatMap((content, id) => (wanted.includes(types[id]) ? [{ id, content }] : []))
  const special = ofType(UNKNOWN, CONTROL)
  const added = [
    ...special.map((token) => ({ ...token, special: true, normalized: false })),
    ...ofType(USER_DEFINED).map((token) => ({ ...token, special: false, normalized: false })),
  ]

  const begins = metadata.get(key('add_bos_token')) ?? kind.bos
  const stops = [eos, ...['eot', 'eom'].map(named), ...special.filter(({ content }) => ends.includes(content)).map(({ id }) => id)]
  const template = metadata.get('tokenizer.chat_template')
  return {
    files: {
      tokenizer: {
        version: '1.0',
        truncation: null,
        padding: null,
        added_tokens: added.sort((a, b) => a.id - b.id).map((token) => ({ single_word: false, lstrip: false, rstrip: false, ...token })),
        normalizer: kind.normalizer,
        pre_tokenizer: kind.pre_tokenizer,
        post_processor: around([begins === true ? bos : undefined, metadata.get(key('add_eos_token')) === true ? eos : undefined], tokens),
        decoder: byteLevel(true),
        model: {
          type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
          byte_fallback: false,
          ignore_merges: kind.ignoreMerges,
          vocab: Object.fromEntries(vocab),
          merges: strings('merges').map((merge) => merge.split(' ')),
        },
      },
      config: {
        tokenizer_class: 'PreTrainedTokenizerFast',
        clean_up_tokenization_spaces: false,
        ...Object.fromEntries(
          Object.entries({ bos, eos, unk, pad }).map(([name, id]) => [`${name}_token`, id === undefined ? null : tokens[id]]),
        ),
      },
      template: template === undefined || typeof template === 'string' ? template : refuse('tokenizer.chat_template', 'expected a text'),
    },
    stopTokens: [...new Set(stops.filter((id) => id !== undefined))],
  }
}

/** What the tokenizer puts before and after a text. */
const around = ([first, last]: (number | undefined)[], tokens: readonly string[]): object => {
  const [before, after] = [first, last].map((id) => (id === undefined ? [] : [{ SpecialToken: { id: tokens[id], type_id: 0 } }]))
  const ids = [first, last].filter((id) => id !== undefined)
  if (ids.length === 0) return byteLevel(true)
  const single = [...before, { Sequence: { id: 'A', type_id: 0 } }, ...after]
  return {
    type: 'TemplateProcessing',
    single,
    pair: [...single, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: Object.fromEntries(ids.map((id) => [tokens[id], { id: tokens[id], ids: [id], tokens: [tokens[id]] }])),
  }
}
