import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { initEngine } from '../../../src/train/backend.js'
import { loadModel, readAdapter, sequenceLogits } from '../../../src/train/languageModel.js'
import type { ChatMessage } from '../../../src/train/model/chatTemplate.js'
import { decoderSchema, type DecoderInput } from '../../../src/train/model/config.js'
import { parameterTensors } from '../../../src/train/model/hub.js'
import { hubConfig } from '../../../src/train/model/hubConfig.js'
import { decoderLayout, layoutSize, loraLayout } from '../../../src/train/model/layout.js'
import { projections } from '../../../src/train/model/projections.js'
import { openModel, weightArrays, type ModelSource } from '../../../src/train/model/source.js'
import { writeAdapter, writeMerged } from '../../../src/train/model/writeHub.js'
import { InputError } from '../../../src/util/errors.js'
import { random } from '../../../src/util/random.js'
import { hubPython, output } from '../../peers.js'
import { sharedPath } from '../../shared.js'
import { digest, fastest } from './models.js'

const shared = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-write-'))
afterAll(() => rmSync(folder, { recursive: true }))
let made = 0
const fresh = (): string => join(folder, String(made++))

const models = ['tiny-llama', 'tiny-qwen2', 'tiny-qwen3']
const at = (model: string, ...rest: string[]): string => join(shared!, model, ...rest)
interface Prompt {
  readonly name: string
  readonly ids: number[]
  readonly last_logits: number[]
}
const expected = (model: string) =>
  JSON.parse(readFileSync(at(model, 'expected.json'), 'utf8')) as {
    prompts: Prompt[]
    adapter: { prompts: Prompt[] }
    chat: { messages: ChatMessage[]; text: string; ids: number[] }[]
  }

const noise = (size: number, scale: number, seed: number): Float32Array => {
  const source = random(seed)
  return Float32Array.from({ length: size }, () => scale * source.normal())
}
const close = (ours: readonly number[], theirs: readonly number[], error: number): void => {
  expect(ours.length).toBe(theirs.length)
  expect(Math.max(...ours.map((x, i) => Math.abs(x - theirs[i])))).toBeLessThan(error)
}
const ours = async (model: string, ids: number[], adapter?: string): Promise<readonly number[]> => {
  const loaded = loadModel(model, adapter)
  const { last_logits } = await sequenceLogits(loaded, ids)
  loaded.dispose()
  return last_logits
}

/** Architectures that the shared models do not have, with random weights and the tokenizer of tiny-llama. */
const architectures: Record<string, Partial<DecoderInput>> = {
  'llama with biases everywhere and the scaling of Llama 3': {
    qkvBias: true,
    outBias: true,
    mlpBias: true,
    tied: true,
    ropeTheta: 500_000,
    ropeFactors: hubConfig(
      {
        model_type: 'llama', vocab_size: 384, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4,
        max_position_embeddings: 512,
        rms_norm_eps: 1e-5,
        rope_theta: 500_000,
        rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
      },
      'config.json',
    ).ropeFactors,
  },
  'llama with linear scaling': { tied: false, ropeFactors: Array(8).fill(4) },
  'qwen3 with biases': { qkNorm: true, qkvBias: true, outBias: true, headDim: 24 },
}
const invented = (changes: Partial<DecoderInput>): ModelSource => {
  const config = decoderSchema.parse({
    vocabulary: 384, hidden: 64, layers: 2, heads: 4, kvHeads: 2, intermediate: 96, maxPositions: 512,
    ...changes,
  })
  const values = noise(layoutSize(decoderLayout(config)), 0.2, 8)
  return { ...openModel(at('tiny-llama')), format: 'gguf', path: 'invented', config, tensors: parameterTensors(config, values) }
}

/** All folders that are written here, with what they must compute. */
const written = async (): Promise<
  { name: string; model: string; adapter?: string; prompts: { ids: number[]; logits: readonly number[] }[]; dtype?: string }[]
> => {
  const cases: Awaited<ReturnType<typeof written>> = []
  for (const model of models) {
    const source = openModel(at(model))
    const { prompts, adapter } = expected(model)
    const logits = (from: Prompt[]) => from.map(({ ids, last_logits }) => ({ ids, logits: last_logits }))

    const merged = fresh()
    writeMerged(merged, source, readAdapter(at(model, 'adapter'), source), 'float32')
    cases.push({ name: `${model}, its adapter merged`, model: merged, prompts: logits(adapter.prompts), dtype: 'float32' })
    const same = fresh()
    writeAdapter(same, source.config, readAdapter(at(model, 'adapter'), source), model)
    cases.push({ name: `${model}, its adapter`, model: at(model), adapter: same, prompts: logits(adapter.prompts) })
    const converted = fresh()
    writeMerged(converted, { ...source, format: 'gguf' }, undefined)
    cases.push({
      name: `${model}, as from elsewhere`,
      model: converted,
      prompts: logits(prompts),
      dtype: model === 'tiny-qwen2' ? 'bfloat16' : 'float32',
    })
  }
  const lora = { rank: 3, alpha: 7, targets: projections, dropout: 0.125 }
  const base = openModel(at('tiny-llama'))
  const all = fresh()
  writeAdapter(all, base.config, { lora, values: noise(layoutSize(loraLayout(base.config, lora)), 0.1, 3) }, 'tiny-llama')
  expect(readAdapter(all, base).lora).toEqual(lora)
  const ids = expected('tiny-llama').prompts[0].ids
  cases.push({
    name: 'an adapter on every layer',
    model: at('tiny-llama'),
    adapter: all,
    prompts: [{ ids, logits: await ours(at('tiny-llama'), ids, all) }],
  })
  for (const [name, changes] of Object.entries(architectures)) {
    const model = fresh()
    writeMerged(model, invented(changes))
    cases.push({ name, model, prompts: [{ ids, logits: await ours(model, ids) }] })
  }
  const half = fresh()
  writeMerged(half, invented({}), undefined, 'float16')
  cases.push({ name: 'half precision', model: half, prompts: [{ ids, logits: await ours(half, ids) }], dtype: 'float16' })
  return cases
}

describe.skipIf(!shared)('folders written here', () => {
  let cases: Awaited<ReturnType<typeof written>>
  beforeAll(async () => {
    await initEngine(fastest)
    cases = await written()
  })

  test('compute the same when they are read again', async () => {
    for (const { model, adapter, prompts } of cases)
      for (const { ids, logits } of prompts.slice(0, 1)) close(await ours(model, ids, adapter), logits, 2e-4)
  })

  test('are what was written: configuration, weights bit for bit, tokenizer', () => {
    for (const changes of Object.values(architectures)) {
      const source = invented(changes)
      const model = fresh()
      writeMerged(model, source)
      expect(openModel(model).config).toEqual(source.config)
      expect(digest(weightArrays(openModel(model)))).toEqual(digest(weightArrays(source)))
    }
    for (const model of models) {
      const again = fresh()
      writeMerged(again, { ...openModel(at(model)), format: 'gguf' })
      const { messages, text, ids } = expected(model).chat[0]
      const tokenizer = openModel(again).tokenizer()
      expect(tokenizer.chat(messages)).toBe(text)
      expect(tokenizer.encode(text)).toEqual(ids)
      expect(tokenizer.stopTokens).toEqual(openModel(at(model)).stopTokens)
    }
  })

  test('compute the same in transformers and peft, with the same tokens', async (context) => {
    const python = hubPython(process.env.CI === 'true')
    if (!python) return context.skip('node scripts/peers.mjs hf sets transformers up')
    const text = 'Agent 2 says: 12345 is even.\n'
    const requests = cases.map(({ model, adapter = null, prompts }) => ({ model, adapter, ids: prompts.map(({ ids }) => ids), text }))
    const printed = await output(python, [new URL('hub.py', import.meta.url).pathname], JSON.stringify(requests))
    const theirs = JSON.parse(printed) as { logits: number[][]; dtype: string; ids: number[]; chat: string }[]
    cases.forEach(({ name, model, prompts, dtype }, i) => {
      prompts.forEach(({ logits }, p) => {
        expect(Math.max(...logits.map((x, v) => Math.abs(x - theirs[i].logits[p][v]))), name).toBeLessThan(2e-4)
      })
      if (dtype) expect(theirs[i].dtype, name).toBe(dtype)
      const tokenizer = openModel(model).tokenizer()
      expect(theirs[i].ids, name).toEqual(tokenizer.encode(text, { specials: true }))
      expect(theirs[i].chat, name).toBe(tokenizer.chat([{ role: 'user', content: text }]))
    })
  }, 600_000)

  test('nothing half-written stays, and nothing is overwritten', () => {
    const source = openModel(at('tiny-llama'))
    const taken = fresh()
    mkdirSync(taken)
    writeFileSync(join(taken, 'mine'), '')
    expect(() => writeMerged(taken, source)).toThrow(`${taken}: exists and is not empty; a new folder is needed`)
    expect(readdirSync(taken)).toEqual(['mine'])
    const target = fresh()
    const broken = { ...source, tensors: new Map([...source.tensors].slice(0, 5)) }
    expect(() => writeMerged(target, broken)).toThrow()
    expect(() => writeMerged(join(taken, 'mine', 'below'), source)).toThrow('mine: cannot be written: ENOTDIR')
    expect(existsSync(target)).toBe(false)
    expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([])
    expect(() => writeMerged(fresh(), invented({ norm: 'layer' }))).toThrow(InputError)
    expect(() => writeMerged(fresh(), invented({ ropeFactors: [1, 2, 3, 4, 5, 6, 7, 8] }))).toThrow('its rotary factors')
  })
})
