import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readTokenizer, textTokenizer, type TokenizerFiles } from '../../../src/train/model/tokenizer.js'
import type { ChatMessage } from '../../../src/train/model/chatTemplate.js'
import { InputError } from '../../../src/util/errors.js'
import { sharedPath } from '../../shared.js'

interface Expected {
  readonly stop_ids: number[]
  readonly vocab_size: number
  readonly tokenizer: { text: string; ids: number[]; ids_without_specials: number[]; decoded: string; decoded_skip_special: string }[]
  readonly chat: {
    name: string
    messages: ChatMessage[]
    add_generation_prompt: boolean
    variables: Record<string, unknown>
    text: string
    ids: number[]
  }[]
}

describe.each(['tiny-llama', 'tiny-qwen2', 'tiny-qwen3'])('%s', (name) => {
  const folder = sharedPath(`models/${name}`)

  test.skipIf(!folder)('ids, decoding and chats are those of transformers', () => {
    const expected = JSON.parse(readFileSync(join(folder!, 'expected.json'), 'utf8')) as Expected
    const tokenizer = readTokenizer(folder!, expected.stop_ids)
    expect(tokenizer.endToken).toBe(expected.stop_ids[0])
    expect(tokenizer.vocabulary).toBe(expected.vocab_size)
    for (const { text, ids, ids_without_specials, decoded, decoded_skip_special } of expected.tokenizer) {
      expect(tokenizer.encode(text, { specials: true })).toEqual(ids)
      expect(tokenizer.encode(text)).toEqual(ids_without_specials)
      expect(tokenizer.decode(ids_without_specials, { specials: true })).toBe(decoded)
      expect(tokenizer.decode(ids_without_specials)).toBe(decoded_skip_special)
    }
    for (const { messages, add_generation_prompt, variables, text, ids } of expected.chat) {
      const rendered = tokenizer.chat(messages, { addGenerationPrompt: add_generation_prompt, variables })
      expect(rendered).toBe(text)
      expect(tokenizer.encode(rendered)).toEqual(ids)
    }
  })
})

/** A byte-level tokenizer of a few tokens. */
const files = (changes: { tokenizer?: object; config?: object; template?: string } = {}): TokenizerFiles => ({
  tokenizer: {
    model: { type: 'BPE', vocab: { a: 0, b: 1, ab: 2, __proto__x: 3 }, merges: [['a', 'b']] },
    added_tokens: [{ id: 4, content: '<end>', special: true }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
    decoder: { type: 'ByteLevel' },
    ...changes.tokenizer,
  },
  config: { eos_token: { content: '<end>' }, ...changes.config },
  template: changes.template,
})
const made = (changes: Parameters<typeof files>[0] = {}, stops: number[] = []) => textTokenizer(files(changes), stops, 'model')
const messages = [{ role: 'user', content: 'ab' }]

test('the end of a message: the given ids, else the tokenizer\'s own', () => {
  expect(made().stopTokens).toEqual([4])
  expect(made({}, [1, 4]).endToken).toBe(1)
  expect(() => made({ config: { eos_token: null } })).toThrow('model: no token ends a message')
})

test('ids without a token are left out when decoding', () => {
  expect(made().decode([2, 99, 4, 0])).toBe('aba')
  expect(made().decode([2, 4], { specials: true })).toBe('ab<end>')
  expect(made().decode([])).toBe('')
})

test.each([
  [{ model: { type: 'Unigram', vocab: [], merges: [] } }, 'model.type: holds "Unigram"'],
  [{ model: { type: 'BPE', vocab: { a: -1 }, merges: [] } }, 'model.vocab: "a": holds -1'],
  [{ model: { type: 'BPE', vocab: { a: 0 }, merges: ['a b'] } }, 'model.merges[0]: holds "a b"'],
  [{ model: { type: 'BPE', vocab: { a: 0, b: 1, ab: 2 }, merges: [['a', 'b'], 'a b'] } }, 'model.merges[1]'],
  [{ model: { type: 'BPE', vocab: { a: 0 }, merges: [7] } }, 'model.merges[0]: holds 7'],
  [{ model: { type: 'BPE', vocab: { a: 0 }, merges: [], dropout: 0.1 } }, 'model.dropout: holds 0.1'],
  [{ added_tokens: [{ id: 1e9, content: 'x' }] }, 'added_tokens[0].id: holds 1000000000'],
  [{ pre_tokenizer: { type: 'Unheard' } }, 'Unknown PreTokenizer type: Unheard'],
  [{ pre_tokenizer: { type: 'Split', pattern: { Regex: '(' }, behavior: 'Isolated', invert: false } }, 'model: tokenizer.json'],
  [{ pre_tokenizer: { type: 'Split', pattern: {}, behavior: 'Isolated', invert: false } }, 'pattern'],
])('a tokenizer that is wrong or not supported is refused: %j', (tokenizer, message) => {
  expect(() => made({ tokenizer })).toThrow(InputError)
  expect(() => made({ tokenizer })).toThrow(message)
})

test('characters that the vocabulary lacks: left out, or the unknown token', () => {
  const model = files().tokenizer.model as object
  expect(made().encode('abc')).toEqual([2])
  expect(made({ tokenizer: { model: { ...model, unk_token: 'b' } } }).encode('abc')).toEqual([2, 1])
  expect(() => made({ tokenizer: { model: { ...model, unk_token: '?' } } }).encode('abc')).toThrow('the vocabulary cannot write "abc"')
})

describe('templates', () => {
  const render = (template: string, variables = {}) => made({ template }).chat(messages, { variables })

  test('special tokens, variables, the generation prompt', () => {
    expect(
      render(
        '{{ eos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ x }}',
        { x: 1 },
      ),
    ).toBe('<end>[user]ab>1')
    expect(made({ template: '{% if add_generation_prompt %}>{% endif %}' }).chat(messages, { addGenerationPrompt: false })).toBe('')
  })

  test.each([
    ['{{ raise_exception("roles must alternate") }}', 'the template refuses: roles must alternate'],
    ['{% for %}', 'model: chat template'],
    ['{{ range(1000000000) | length }}', 'range of 1000000000 numbers; at most 100000'],
    ['{{ range(3, 1, 0) }}', 'range'],
    [
      '{% set ns = namespace(s="aaaaaaaa") %}{% for i in range(30) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}',
      'model: chat template',
    ],
    ['{{ messages.constructor.constructor("return process")() }}', 'model: chat template'],
  ])('one that fails is refused: %s', (template, message) => {
    expect(() => render(template)).toThrow(InputError)
    expect(() => render(template)).toThrow(message)
  })

  test('one that takes too long is stopped', () => {
    const loops = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'
    expect(() => render(loops)).toThrow('model: chat template: stopped after 2 s')
  })

  test('none, and the one called default of several', () => {
    expect(() => made().chat(messages)).toThrow('model: has no chat template')
    const folder = mkdtempSync(join(tmpdir(), 'teamtr-'))
    afterAll(() => rmSync(folder, { recursive: true }))
    const { tokenizer, config } = files()
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer))
    writeFileSync(
      join(folder, 'tokenizer_config.json'),
      JSON.stringify({
        ...config,
        chat_template: [
          { name: 'tools', template: 'T' },
          { name: 'default', template: 'D' },
        ],
      }),
    )
    expect(readTokenizer(folder).chat(messages)).toBe('D')
    writeFileSync(join(folder, 'chat_template.jinja'), 'J')
    expect(readTokenizer(folder).chat(messages)).toBe('J')
    cpSync(join(folder, 'tokenizer.json'), join(folder, 'copy'))
    writeFileSync(join(folder, 'tokenizer.json'), readFileSync(join(folder, 'copy')).subarray(0, 100))
    expect(() => readTokenizer(folder)).toThrow('tokenizer.json: is not valid JSON')
  })
})
