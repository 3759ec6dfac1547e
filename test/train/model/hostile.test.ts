import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { openModel, weightArrays } from '../../../src/train/model/source.js'
import { InputError } from '../../../src/util/errors.js'
import { sharedPath } from '../../shared.js'
import { converted } from './gguf/convert.js'
import { writeGguf } from './gguf/write.js'

const shared = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-hostile-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Everything that is read of a model before it computes. */
const use = (model: string): void => {
  const source = openModel(model)
  const tokenizer = source.tokenizer()
  const ids = tokenizer.encode('It costs 123 euros.', { specials: true })
  tokenizer.decode([...ids, 1, 2, 3])
  tokenizer.chat([{ role: 'user', content: 'x' }])
  for (const { data } of weightArrays(source)) expect(data.length).toBeGreaterThan(0)
}

/** Bits to flip (place as a fraction of the file), and where to cut it. */
const damage = fc.record({
  flips: fc.array(fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(7)), { minLength: 1, maxLength: 3 }),
  kept: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.double({ min: 0, max: 1, noNaN: true })),
})

/** Damages a file in many ways, one after the other. @param part the share of the file, from its beginning, that is damaged */
const survives = (file: string, model: string, runs: number, part = 1): void => {
  const intact = readFileSync(file)
  fc.assert(fc.property(damage, ({ flips, kept }) => {
    const bytes = Buffer.from(intact)
    for (const [place, bit] of flips) bytes[Math.floor(place * part * bytes.length)] ^= 1 << bit
    writeFileSync(file, bytes.subarray(0, Math.ceil(kept * bytes.length)))
    try {
      use(model)
    } catch (error) {
      if (!(error instanceof InputError)) throw error
    }
  }), { numRuns: runs })
  writeFileSync(file, intact)
}

describe.skipIf(!shared)('no damage to a file of a model does more than an InputError', () => {
  test.each(['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'])('%s', (name) => {
    const model = join(folder, 'llama')
    cpSync(join(shared!, 'tiny-llama'), model, { recursive: true })
    use(model)
    survives(join(model, name), model, 60)
  })

  test.each(['model.safetensors.index.json', 'chat_template.jinja'])('%s', (name) => {
    const model = join(folder, 'qwen3')
    cpSync(join(shared!, 'tiny-qwen3'), model, { recursive: true })
    survives(join(model, name), model, 60)
  })

  test('the metadata of a GGUF file', () => {
    const { metadata, tensors } = converted(join(shared!, 'tiny-llama'))
    const file = join(folder, 'tiny.gguf')
    writeGguf(file, metadata, tensors)
    use(file)
    const header = readFileSync(file).indexOf('blk.1.') / readFileSync(file).length
    survives(file, file, 200, header)
  })
})
