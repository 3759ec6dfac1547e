import { expect, test } from 'vitest'
import { parseConfig, type Protocol } from '../../src/train/config.js'
import { languageVoice, withoutThoughts } from '../../src/train/languageVoice.js'
import type { ChatMessage } from '../../src/train/model/chatTemplate.js'
import { textTokenizer } from '../../src/train/model/tokenizer.js'
import { openModel } from '../../src/train/model/source.js'
import { sharedPath } from '../shared.js'

const models = sharedPath('models')
const protocol = (more: Partial<Protocol> = {}): Protocol => ({ ...parseConfig({ team: { agents: [{ model: 'any' }] } }).protocol!, ...more })
const tokenizer = models ? openModel(`${models}/tiny-qwen3`).tokenizer() : undefined

test.skipIf(!models)('each part of the protocol can be switched off', () => {
  const said = (more: Partial<Protocol>, own?: string, role?: string): string =>
    tokenizer!.decode(languageVoice(tokenizer!, protocol(more), own).prompt('1+1=', role), { specials: true })
  const chat = (messages: object[]): string => tokenizer!.chat(messages as ChatMessage[])
  const user = { role: 'user', content: '1+1=' }
  expect(said({}, 'Own.', 'Task.')).toBe(chat([{ role: 'system', content: 'Own.\n\nTask.' }, user]))
  expect(said({ taskRole: false }, 'Own.', 'Task.')).toBe(chat([{ role: 'system', content: 'Own.' }, user]))
  expect(said({ ownRole: false }, 'Own.', 'Task.')).toBe(chat([{ role: 'system', content: 'Task.' }, user]))
  expect(said({ ownRole: false, taskRole: false }, 'Own.', 'Task.')).toBe(chat([user]))
  expect(said({ chatTemplate: false }, 'Own.', 'Task.')).toBe('Own.\n\nTask.\n\n1+1=\n\n')
  expect(said({ chatTemplate: false, cue: '' })).toBe('1+1=')
})

test.skipIf(!models)('enable_thinking reaches the template only where the protocol says so', () => {
  const { files, stopTokens } = tokenizer!
  const reads = textTokenizer({ ...files, template: '{% if enable_thinking is defined %}{{ enable_thinking }}{% else %}none{% endif %}' }, stopTokens, 'test')
  const said = (enableThinking: boolean | null): string => reads.decode(languageVoice(reads, protocol({ enableThinking })).prompt('', undefined))
  expect([said(null), said(true), said(false)].map((text) => text.toLowerCase())).toEqual(['none', 'true', 'false'])
})

test.skipIf(!models)('thoughts, stop texts and what ends a message stay out of the shared context', () => {
  const write = (text: string): number[] => [...tokenizer!.encode(text), tokenizer!.endToken]
  const voice = languageVoice(tokenizer!, protocol())
  expect(voice.text(write('<think>It is 3, no 4.</think>\n\n4'))).toBe('4')
  expect(voice.text(write('<think>It is 3, no'))).toBe('')
  expect(voice.text(write('4').slice(0, -1))).toBe('4')
  expect(languageVoice(tokenizer!, protocol({ thinking: 'keep' })).text(write('<think>3</think>4'))).toBe('<think>3</think>4')
  expect(languageVoice(tokenizer!, protocol({ thinkingTags: ['[[', ']]'] })).text(write('a[[b]]c'))).toBe('ac')

  const stopping = languageVoice(tokenizer!, protocol({ stop: ['\n\n', 'END'] }))
  expect(stopping.text(write('4\n\nand so on'))).toBe('4')
  const tokens = tokenizer!.encode('four is the answer END of it')
  const stopped = tokens.findIndex((_, i) => stopping.stop!(tokens.slice(0, i + 1)))
  expect(tokenizer!.decode(tokens.slice(0, stopped + 1))).toMatch(/END/)
  expect(tokenizer!.decode(tokens.slice(0, stopped))).not.toMatch(/END/)
  expect(voice.stop).toBeUndefined()
})

test.skipIf(!models)('where the template itself opens the thoughts, a message begins inside of them', () => {
  const { files, stopTokens } = tokenizer!
  const opens = textTokenizer({ ...files, template: '{{ messages[-1].content }}<think>\n' }, stopTokens, 'test')
  const voice = languageVoice(opens, protocol())
  expect(voice.text(opens.encode('Let me see.</think>\n4'))).toBe('4')
  expect(voice.text(opens.encode('Let me'))).toBe('')
  expect(languageVoice(opens, protocol({ thinking: 'keep' })).text(opens.encode('Hm.</think>4'))).toBe('Hm.</think>4')
})

test.skipIf(!models)('tags that are special tokens are known as tags', () => {
  const { files, stopTokens } = tokenizer!
  const added = (files.tokenizer.added_tokens as { content: string }[]).map((token) => (/think/.test(token.content) ? { ...token, special: true } : token))
  const special = textTokenizer({ ...files, tokenizer: { ...files.tokenizer, added_tokens: added } }, stopTokens, 'test')
  const tokens = special.encode('<think>It is 3.</think>4')
  expect(special.decode(tokens)).toBe('It is 3.4')
  expect(languageVoice(special, protocol()).text(tokens)).toBe('4')
})

test('withoutThoughts takes out every closed part, and the rest after one that is not', () => {
  const strip = (text: string): string => withoutThoughts(text, '<t>', '</t>')
  expect(strip('a<t>b</t>c<t>d</t>e')).toBe('ace')
  expect(strip('a<t>b</t> c<t>d')).toBe('ac')
  expect(strip('no tags')).toBe('no tags')
})
