import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { initEngine } from '../../../src/train/backend.js'
import { generate } from '../../../src/train/generate.js'
import { loadModel, sequenceLogits, type LanguageModel } from '../../../src/train/languageModel.js'
import { modelsFolder, openModel } from '../../../src/train/model/source.js'
import { random } from '../../../src/util/random.js'
import { output, peer } from '../../peers.js'
import { sharedPath } from '../../shared.js'
import { converted, expanded } from './gguf/convert.js'
import { writeGguf } from './gguf/write.js'
import { fastest } from './models.js'

interface Answer { readonly textIds: number[]; readonly logProbs: number[]; readonly tokens: number[]; readonly tokenLogProbs: number[] }

const GREEDY = 16

const smollm2 = join(modelsFolder(), 'smollm2')
const pulled = existsSync(smollm2)
if (!pulled) console.warn('the comparison of SmolLM2 with llama.cpp is skipped: teamtr pull smollm2')
const llama = peer('llama', pulled)

/** Largest and mean absolute difference. */
const apart = (a: readonly number[], b: readonly number[]): { most: number; mean: number } => {
  expect(a.length).toBe(b.length)
  const each = a.map((x, i) => Math.abs(x - b[i]))
  return { most: Math.max(...each), mean: each.reduce((sum, x) => sum + x, 0) / each.length }
}

/** Log-probabilities of texts and greedy continuations, ours and llama.cpp's. */
const both = async (model: LanguageModel, texts: readonly string[]): Promise<{ ours: Answer; theirs: Answer }[]> => {
  const prompts = texts.map((text) => model.tokenizer.encode(text, { specials: true }))
  const request = JSON.stringify(prompts.map((ids, i) => ({ text: texts[i], ids, greedy: GREEDY })))
  const script = new URL('gguf/llamaCpp.mjs', import.meta.url).pathname
  const theirs = JSON.parse(await output(process.execPath, [script, llama!, model.source.path], request)) as Answer[]
  const { tokenizer } = model
  // Without stopping, as asked of llama.cpp.
  const ours = await generate({ ...model, tokenizer: { ...tokenizer, endToken: -1, stopTokens: [] } }, prompts, {
    maxTokens: GREEDY,
    temperature: 0,
    random: random(0),
  })
  return Promise.all(
    prompts.map(async (ids, i) => ({
      ours: {
        textIds: model.tokenizer.encode(texts[i]),
        logProbs: [...(await sequenceLogits(model, ids)).next_logprobs],
        tokens: [...ours[i].tokens],
        tokenLogProbs: [...ours[i].logProbs],
      },
      theirs: theirs[i],
    })),
  )
}

describe.skipIf(!llama)('llama.cpp on the same GGUF file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-llama-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  beforeAll(async () => {
    await initEngine(fastest)
  })

  test.each(['tiny-llama', 'tiny-qwen2', 'tiny-qwen3'])(
    '%s in float32: the same ids, log-probabilities and greedy tokens',
    async (name) => {
      const at = sharedPath(`models/${name}`)
      if (!at) return
      const { metadata, tensors } = converted(at)
      writeGguf(join(folder, `${name}.gguf`), metadata, tensors)
      const model = loadModel(join(folder, `${name}.gguf`))
      for (const { ours, theirs } of await both(model, [
        `It's 12345 o'clock:\n\n\tnaïve  “quotes”, 東京 🙂  `,
        'def f(x):\n    return x',
      ])) {
        expect(ours.textIds).toEqual(theirs.textIds)
        expect(apart(ours.logProbs, theirs.logProbs).most).toBeLessThan(1e-3)
        expect(ours.tokens).toEqual(theirs.tokens)
        expect(apart(ours.tokenLogProbs, theirs.tokenLogProbs).most).toBeLessThan(1e-3)
      }
      model.dispose()
    },
  )

  const texts = ['The capital of France is', 'Water boils at 100 degrees Celsius, and it freezes at']

  test.skipIf(!pulled)(
    'SmolLM2-135M, its weights written out in float32: the same log-probabilities and greedy tokens',
    async () => {
      const source = openModel(smollm2)
      const file = join(folder, 'smollm2.gguf')
      writeGguf(file, ...expanded(source.path))
      const model = loadModel(file)
      for (const { ours, theirs } of await both(model, [
        "In 1998 there were 12345 people, it's said:\n\n\tnaïve  “quotes” 🙂. The capital of France is",
      ])) {
        expect(ours.textIds).toEqual(theirs.textIds)
        expect(ours.tokens).toEqual(theirs.tokens)
        expect(apart([...ours.logProbs, ...ours.tokenLogProbs], [...theirs.logProbs, ...theirs.tokenLogProbs]).most).toBeLessThan(1e-3)
      }
      model.dispose()
      rmSync(file)
    },
    300_000,
  )

  test.skipIf(!pulled)(
    'SmolLM2-135M as it is: the same, up to the 8 bits to which llama.cpp rounds what it multiplies with quantised weights',
    async () => {
      const model = loadModel(smollm2)
      const answers = await both(model, texts)
      expect(answers[0].ours.tokens).toEqual(answers[0].theirs.tokens)
      for (const [i, { theirs }] of answers.entries()) {
        const { next_logprobs } = await sequenceLogits(model, [...model.tokenizer.encode(texts[i]), ...theirs.tokens])
        const { most, mean } = apart([...next_logprobs], [...theirs.logProbs, ...theirs.tokenLogProbs])
        expect(most).toBeLessThan(0.5)
        expect(mean).toBeLessThan(0.12)
      }
      model.dispose()
    },
    300_000,
  )
})
