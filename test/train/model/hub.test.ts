import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { tokenBatch } from '../../../src/train/model/batch.js'
import { adapterPolicy, decoderPolicy } from '../../../src/train/model/decoderPolicy.js'
import { hubAdapterTensors, hubTensors, readHubAdapter, readHubAdapterConfig, readHubConfig, readHubWeights, toHub } from '../../../src/train/model/hub.js'
import { decoderLayout, loraLayout, named } from '../../../src/train/model/layout.js'
import type { NamedArray } from '../../../src/train/model/safetensors.js'
import type { Policy } from '../../../src/train/policy.js'
import { random } from '../../../src/util/random.js'
import { sharedPath } from '../../shared.js'
import { engines, fastest } from './models.js'

/** What transformers computed; ../shared/models/README.md describes it and gives the tolerances. */
interface Expected {
  prompts: { name: string; ids: number[]; next_logprobs: number[]; mean_nll: number; last_logits: number[]; greedy_ids: number[] }[]
  gradients: { prompt: string; loss: number; parameters: Record<string, { norm: number; peak_index: number; peak_value: number }> }
}

const models = ['tiny-llama', 'tiny-qwen2', 'tiny-qwen3']
const folder = sharedPath('models')
const greedy = { maxTokens: 16, temperature: 0, endToken: -1, random: random(0) }

const flat = (slots: Iterable<NamedArray>): tf.Tensor1D => tf.concat([...slots].map(({ data }) => tf.tensor1d(data)))
const load = (model: string) => {
  const at = join(folder!, model)
  const config = readHubConfig(at)
  const lora = readHubAdapterConfig(join(at, 'adapter'))
  const expected = JSON.parse(readFileSync(join(at, 'expected.json'), 'utf8')) as Expected & { adapter: Expected; kl: { prompt: string; per_position: number[] } }
  const theta = flat(readHubWeights(at, config))
  const base = { policy: decoderPolicy(config), theta, expected: expected as Expected, layout: decoderLayout(config), parts: hubTensors(config) }
  const adapted = {
    policy: adapterPolicy(config, named(theta, base.layout), lora),
    theta: flat(readHubAdapter(join(at, 'adapter'), config, lora)),
    expected: expected.adapter,
    layout: loraLayout(config, lora),
    parts: hubAdapterTensors(config, lora),
  }
  return { base, adapted, kl: expected.kl }
}

const marked = (ids: number[]) => tokenBatch([{ ids, marked: [[1, ids.length]] }])
const worst = (ours: ArrayLike<number>, theirs: number[]): number => {
  expect(ours.length).toBe(theirs.length)
  return theirs.reduce((most, x, i) => Math.max(most, Math.abs(x - ours[i])), 0)
}

describe.skipIf(!folder)('checkpoints of the Hugging Face families', () => {
  describe.each(engines.filter((engine) => engine !== 'cpu'))('on %s', (engine) => {
    beforeAll(async () => {
      await initEngine(engine)
    })

    test.each(models.flatMap((model) => (['base', 'adapted'] as const).map((kind) => [model, kind] as const)))('%s, %s: what transformers computes', async (model, kind) => {
      const { policy, theta, expected, layout, parts } = load(model)[kind]
      for (const { ids, next_logprobs, mean_nll, last_logits } of expected.prompts) {
        const logProbs = await policy.logProbs(theta, marked(ids)).data()
        expect(worst(logProbs, next_logprobs)).toBeLessThan(2e-4)
        expect(Math.abs(-(logProbs as Float32Array).reduce((a, b) => a + b, 0) / logProbs.length - mean_nll)).toBeLessThan(1e-5)
        // The distribution after the last id, up to the constant that log-softmax takes off.
        const last = await policy.logDistributions(theta, tokenBatch([{ ids: [...ids, 0], marked: [[ids.length, ids.length + 1]] }])).data()
        const shift = last_logits[0] - last[0]
        expect(worst(last.map((x) => x + shift), last_logits)).toBeLessThan(2e-4)
      }
      // All prompts at once, of unequal lengths, through the cache.
      const messages = await policy.sample(theta, expected.prompts.map(({ ids }) => ids), greedy)
      expect(messages.map(({ tokens }) => tokens)).toEqual(expected.prompts.map(({ greedy_ids }) => greedy_ids))

      const { ids } = expected.prompts.find(({ name }) => name === expected.gradients.prompt)!
      const batch = marked(ids)
      const gradient = (await tf.grad((t) => tf.neg(tf.mean(policy.logProbs(t as tf.Tensor1D, batch))))(theta).data()) as Float32Array
      expect(parts.map(({ hub }) => hub).sort()).toEqual(Object.keys(expected.gradients.parameters).sort())
      for (const part of parts) {
        const { norm, peak_index, peak_value } = expected.gradients.parameters[part.hub]
        const { data } = toHub(part, layout, gradient)
        expect(Math.abs(Math.hypot(...data) / norm - 1), part.hub).toBeLessThan(2e-5)
        expect(Math.abs(data[peak_index] - peak_value) / norm, part.hub).toBeLessThan(5e-5)
      }
    })

    test.each(models)('%s: KL of the base to the adapted model, token by token', async (model) => {
      const { base, adapted, kl } = load(model)
      const { ids } = base.expected.prompts.find(({ name }) => name === kl.prompt)!
      const distributions = async ({ policy, theta }: { policy: Policy; theta: tf.Tensor1D }): Promise<number[][]> =>
        (await policy.logDistributions(theta, tokenBatch([{ ids: [...ids, 0], marked: [[1, ids.length + 1]] }])).array()) as number[][]
      const [p, q] = [await distributions(base), await distributions(adapted)]
      // Normalised again in float64, as the reference was: the rounding of the normaliser would be most of the error.
      for (const row of [...p, ...q]) {
        const rest = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0))
        row.forEach((x, v) => (row[v] = x - rest))
      }
      const ours = p.map((row, m) => row.reduce((sum, logP, v) => sum + Math.exp(logP) * (logP - q[m][v]), 0))
      expect(worst(ours, kl.per_position)).toBeLessThan(2e-5)
      ours.forEach((x, m) => expect(Math.abs(x / kl.per_position[m] - 1)).toBeLessThan(2e-4))
    })
  })

  describe('what is wrong with a folder is one clear line', () => {
    beforeAll(async () => {
      await initEngine(fastest)
    })
    const copy = (model: string, change: (at: string) => void): string => {
      const at = mkdtempSync(join(tmpdir(), 'teamtr-hub-'))
      cpSync(join(folder!, model), at, { recursive: true })
      change(at)
      return at
    }
    const edit = (file: string, fields: object) => (at: string) =>
      writeFileSync(join(at, file), JSON.stringify({ ...JSON.parse(readFileSync(join(at, file), 'utf8')), ...fields }))
    const read = (at: string) => [...readHubWeights(at, readHubConfig(at))]

    test.each([
      ['another family', edit('config.json', { model_type: 'gpt_neox' }), /config\.json: model_type: holds "gpt_neox"/],
      ['scaled positions', edit('config.json', { rope_scaling: { rope_type: 'yarn', factor: 8 } }), /config\.json: rope_scaling: rope_type: holds "yarn"; expected default, linear or llama3/],
      ['a sliding window', edit('config.json', { use_sliding_window: true }), /config\.json: use_sliding_window: holds true/],
      ['two rotary bases', edit('config.json', { rope_theta: 10000, rope_parameters: { rope_type: 'default', rope_theta: 500000 } }), /config\.json: rope_parameters\.rope_theta: holds 500000, and rope_theta holds 10000; one value is needed/],
      ['another number format', edit('config.json', { dtype: 'int8' }), /config\.json: dtype: holds "int8"; only "float32" or "float16" or "bfloat16" is supported/],
      ['another width', edit('config.json', { intermediate_size: 113 }), /model\.safetensors: tensor "model\.layers\.0\.mlp\.gate_proj\.weight": has shape \[112,64\]; \[113,64\] is needed/],
      ['a missing tensor', edit('config.json', { num_hidden_layers: 3 }), /model\.safetensors: tensor "model\.layers\.2\.input_layernorm\.weight": missing/],
    ])('%s', (_, change, message) => {
      expect(() => read(copy('tiny-llama', change))).toThrow(message)
    })

    test('a shard outside the folder', () => {
      const index = 'model.safetensors.index.json'
      const outside = edit(index, { weight_map: { 'model.norm.weight': '../model.safetensors' } })
      expect(() => read(copy('tiny-qwen3', outside))).toThrow(/weight_map: "model\.norm\.weight" is in "\.\.\/model\.safetensors"; a file name in the same folder is needed/)
    })

    test.each(['NaN', 'Infinity'])('%s among the weights', (value) => {
      const poison = (file: string) => (at: string) => {
        const bytes = readFileSync(join(at, file))
        bytes.writeFloatLE(Number(value), bytes.length - 4)
        writeFileSync(join(at, file), bytes)
      }
      const message = new RegExp(`model\\.safetensors: tensor "[\\w.]+": element \\d+ is ${value}; finite numbers are needed`)
      expect(() => read(copy('tiny-llama', poison('model.safetensors')))).toThrow(message)
      const folder = join(copy('tiny-llama', poison('adapter/adapter_model.safetensors')), 'adapter')
      expect(() => [...readHubAdapter(folder, readHubConfig(join(folder, '..')), readHubAdapterConfig(folder))]).toThrow(message)
    })

    test('an adapter of another kind', () => {
      const at = copy('tiny-llama', edit('adapter/adapter_config.json', { use_dora: true }))
      expect(() => readHubAdapterConfig(join(at, 'adapter'))).toThrow(/adapter_config\.json: use_dora: holds true/)
    })
  })
})
