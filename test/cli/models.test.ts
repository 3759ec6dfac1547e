import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { addGenerate } from '../../src/cli/generate.js'
import { addLogits } from '../../src/cli/logits.js'
import { addMerge } from '../../src/cli/merge.js'
import { addPull } from '../../src/cli/pull.js'
import { InputError } from '../../src/util/errors.js'
import { nativeEngine } from '../native.js'
import { sharedPath } from '../shared.js'

const shared = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-cli-'))
const cache = process.env.XDG_CACHE_HOME
beforeAll(() => void (process.env.XDG_CACHE_HOME = join(folder, 'cache')))
afterAll(() => {
  if (cache === undefined) delete process.env.XDG_CACHE_HOME
  else process.env.XDG_CACHE_HOME = cache
  rmSync(folder, { recursive: true })
})
afterEach(() => void vi.restoreAllMocks())

/** What a command writes to standard output. */
const run = async (...args: string[]): Promise<string> => {
  let out = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((out += String(text)), true))
  vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  const program = new Command().exitOverride()
  for (const add of [addGenerate, addLogits, addMerge, addPull]) add(program)
  program.commands.forEach((command) => command.exitOverride())
  await program.parseAsync(args, { from: 'user' })
  return out
}
const lines = async <T>(...args: string[]): Promise<T[]> =>
  (await run(...args, '--json'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T)

interface Prompt {
  name: string
  text: string
  ids: number[]
  next_logprobs: number[]
  last_logits: number[]
  greedy_ids: number[]
  greedy_until_stop: number
}
interface Expected {
  prompts: Prompt[]
  adapter: { prompts: Prompt[] }
  chat: { messages: object[]; add_generation_prompt: boolean; variables: object; ids: number[] }[]
}
interface Logits {
  ids: number[]
  next_logprobs: number[]
  last_logits: number[]
}
interface Generated {
  prompt: number
  sample: number
  text: string
  tokens: number[]
  logProbs: number[]
  samplingLogProbs: number[]
  finish: string
}

const engines = [...(nativeEngine ? ['tensorflow'] : []), 'wasm']
const apart = (a: number[], b: number[]): number => {
  expect(a.length).toBe(b.length)
  return a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0)
}

describe.skipIf(!shared)('commands on models', () => {
  const at = (model: string, ...rest: string[]) => join(shared!, model, ...rest)
  const expected = (model: string) => JSON.parse(readFileSync(at(model, 'expected.json'), 'utf8')) as Expected
  const tiny = ['tiny-llama', 'tiny-qwen2', 'tiny-qwen3']

  describe.each(engines)('on %s', (engine) => {
    test.each(tiny)('logits: %s, with its adapter and without, is what transformers says', async (model) => {
      const { prompts, adapter } = expected(model)
      for (const [given, options] of [
        [prompts, []],
        [adapter.prompts, ['--adapter', at(model, 'adapter')]],
      ] as const) {
        const results = await lines<Logits>(
          'logits',
          '--engine',
          engine,
          '--model',
          at(model),
          ...options,
          ...given.flatMap(({ ids }) => ['--ids', ids.join()]),
        )
        given.forEach((prompt, i) => {
          expect(results[i].ids).toEqual(prompt.ids)
          expect(apart(results[i].next_logprobs, prompt.next_logprobs)).toBeLessThan(2e-4)
          expect(apart(results[i].last_logits, prompt.last_logits)).toBeLessThan(2e-4)
        })
      }
    })

    test.each(tiny)('generate: %s continues as transformers does, and stops where it does', async (model) => {
      const { prompts } = expected(model)
      const texts = await lines<Generated>(
        'generate',
        '--engine',
        engine,
        '--model',
        at(model),
        '--temperature',
        '0',
        '--max-tokens',
        '16',
        ...prompts.flatMap(({ ids }) => ['--ids', ids.join()]),
      )
      texts.forEach(({ tokens, finish }, i) => {
        const { greedy_ids, greedy_until_stop } = prompts[i]
        expect(tokens).toEqual(greedy_ids.slice(0, greedy_until_stop))
        if (greedy_until_stop < 16) expect(finish).toBe('end')
      })
    })
  })

  test('--text and --chat give the ids that they should', async () => {
    const { prompts, chat } = expected('tiny-qwen3')
    const { messages, add_generation_prompt, variables, ids } = chat.find(({ variables }) => Object.keys(variables).length)!
    writeFileSync(join(folder, 'chat.json'), JSON.stringify({ messages, add_generation_prompt, variables }))
    writeFileSync(join(folder, 'messages.json'), JSON.stringify(chat[0].messages))
    const given = ['--text', prompts[0].text, '--chat', join(folder, 'chat.json'), '--chat', join(folder, 'messages.json')]
    const results = await lines<Logits>('logits', '--model', at('tiny-qwen3'), ...given)
    expect(results.map((result) => result.ids)).toEqual([prompts[0].ids, ids, chat[0].ids])
    expect(await run('logits', '--model', at('tiny-qwen3'), '--text', prompts[0].text)).toContain('next (the 10 most probable)')
  })

  test('generate: samples, top-k, top-p, stop texts, both kinds of log-probabilities', async () => {
    const options = [
      'generate',
      '--model',
      at('tiny-llama'),
      '--text', 'one two', '--text', 'three', '--samples', '3', '--max-tokens', '12', '--seed', '5',
    ]
    const plain = await lines<Generated>(...options)
    expect(plain.map(({ prompt, sample }) => [prompt, sample])).toEqual([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    for (const { logProbs, samplingLogProbs } of plain) expect(logProbs).toEqual(samplingLogProbs)
    expect(await lines<Generated>(...options)).toEqual(plain)
    const cut = await lines<Generated>(...options, '--top-k', '20', '--top-p', '0.9')
    for (const { logProbs, samplingLogProbs } of cut) expect(samplingLogProbs.every((x, i) => x > logProbs[i])).toBe(true)

    const long = plain.find(({ text }) => text.length > 8)!
    const stop = long.text.slice(4, 6)
    const stopped = (await lines<Generated>(...options, '--stop', stop))[plain.indexOf(long)]
    expect(stopped).toMatchObject({ text: long.text.slice(0, long.text.indexOf(stop)), finish: 'stop' })
    expect(stopped.tokens).toEqual(long.tokens.slice(0, stopped.tokens.length))
    expect(stopped.tokens.length).toBeLessThan(long.tokens.length)
  })

  test('merge: the merged folder says what the adapted model says', async () => {
    const out = join(folder, 'merged')
    expect(
      await run('merge', '--model', at('tiny-qwen2'), '--adapter', at('tiny-qwen2', 'adapter'), '--out', out, '--dtype', 'float32'),
    ).toBe(`${out}\n`)
    const { ids, last_logits } = expected('tiny-qwen2').adapter.prompts[0]
    const [result] = await lines<Logits>('logits', '--model', out, '--ids', ids.join())
    expect(apart(result.last_logits, last_logits)).toBeLessThan(2e-4)
  })

  test('pull: a local model is checked, linked, and found by its name', async () => {
    expect(await run('pull', at('tiny-llama'), '--name', 'mine')).toMatch(/^mine: ready, /)
    expect(await run('pull', at('tiny-llama'), '--name', 'mine')).toMatch(/^mine: /)
    const { ids } = expected('tiny-llama').prompts[0]
    expect((await lines<Logits>('logits', '--model', 'mine', '--ids', ids.join()))[0].ids).toEqual(ids)
    expect(existsSync(at('tiny-llama', 'config.json'))).toBe(true)
  })

  test.each([
    [
      ['logits', '--model', 'nowhere', '--text', 'x'],
      'model: holds "nowhere"; no such folder or file, and no pulled model of that name (mine; see teamtr pull)',
    ],
    [['logits', '--model', '/tiny-llama'], 'one of --text, --ids, --chat is needed'],
    [['logits', '--model', '/tiny-llama', '--ids', '1,x'], '--ids: holds "x"; expected token ids, 0 to 383'],
    [['logits', '--model', '/tiny-llama', '--ids', '384'], '--ids: holds "384"'],
    [['logits', '--model', '/tiny-qwen2', '--text', ''], 'a prompt has no tokens'],
    [['logits', '--model', '/tiny-llama', '--chat', '/tiny-llama/config.json'], 'config.json: '],
    [
      ['logits', '--model', '/tiny-llama', '--adapter', '/tiny-qwen3/adapter', '--text', 'x'],
      'adapter_model.safetensors: tensor "base_model.model.model.layers.2.',
    ],
    [
      ['generate', '--model', '/tiny-llama', '--text', 'x', '--max-tokens', '512'],
      "prompt: 2 tokens, and 512 to come, are more than the model's 512 positions",
    ],
    [['pull', 'nothing'], 'pull: holds "nothing"; expected smollm2'],
    [['pull', 'some/model'], 'pull: holds "some/model"; no such path here, and for a hub\'s name HF_ENDPOINT'],
    [['pull', '/tiny-llama/adapter'], 'holds no config.json and 0 .gguf files'],
    [['pull', '/tiny-llama', '--name', '../x'], '--name: holds "../x"'],
  ])('%j: one line that says what is wrong', async (args, message) => {
    vi.stubEnv('HF_ENDPOINT', '')
    const run1 = run(...args.map((arg) => (arg.startsWith('/tiny') ? join(shared!, arg) : arg)))
    const error = await run1.then(() => undefined, (error: unknown) => error)
    expect(error).toBeInstanceOf(InputError)
    expect((error as Error).message).toContain(message)
    vi.unstubAllEnvs()
  })
})
