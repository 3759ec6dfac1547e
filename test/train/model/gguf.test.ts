import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { tokenBatch } from '../../../src/train/model/batch.js'
import { logits } from '../../../src/train/model/decoder.js'
import { openGguf } from '../../../src/train/model/ggufFile.js'
import { loadWeights, openModel, weightArrays } from '../../../src/train/model/source.js'
import { InputError } from '../../../src/util/errors.js'
import { sharedPath } from '../../shared.js'
import { converted } from './gguf/convert.js'
import { writeGguf, type Tensor, type Value } from './gguf/write.js'
import { digest, fastest } from './models.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-gguf-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = join(folder, 'model.gguf')

const models = ['tiny-llama', 'tiny-qwen2', 'tiny-qwen3'].map((name) => [name, sharedPath(`models/${name}`)] as const)

describe.skipIf(!models[0][1])('models', () => {
  beforeAll(async () => {
    await initEngine(fastest)
  })

  test.each(models)('%s in a GGUF file is the same model', async (_, at) => {
    const { metadata, tensors } = converted(at!)
    writeGguf(file, metadata, tensors)
    const source = openModel(file)
    const original = openModel(at!)
    expect(source.config).toEqual(original.config)
    expect(digest(weightArrays(source))).toEqual(digest(weightArrays(original)))

    const expected = JSON.parse(readFileSync(join(at!, 'expected.json'), 'utf8')) as {
      tokenizer: { text: string; ids: number[]; decoded: string; ids_without_specials: number[] }[]
      chat: {
        messages: { role: string; content: string }[]
        text: string
        ids: number[]
        add_generation_prompt: boolean
        variables: object
      }[]
      prompts: { ids: number[]; last_logits: number[] }[]
      stop_ids: number[]
    }
    const tokenizer = source.tokenizer()
    expect(tokenizer.stopTokens).toEqual(expected.stop_ids)
    for (const { text, ids, decoded, ids_without_specials } of expected.tokenizer) {
      expect(tokenizer.encode(text, { specials: true })).toEqual(ids)
      expect(tokenizer.decode(ids_without_specials, { specials: true })).toBe(decoded)
    }
    for (const { messages, text, ids, add_generation_prompt, variables } of expected.chat) {
      expect(tokenizer.chat(messages, { addGenerationPrompt: add_generation_prompt, variables: { ...variables } })).toBe(text)
      expect(tokenizer.encode(text)).toEqual(ids)
    }

    const weights = loadWeights(source)
    const { ids, last_logits } = expected.prompts[0]
    const batch = tokenBatch([{ ids: [...ids, 0], marked: [[ids.length, ids.length + 1]] }])
    const ours = await logits(source.config, weights, batch.ids, batch.places).data()
    last_logits.forEach((x, v) => expect(Math.abs(x - ours[v])).toBeLessThan(2e-4))
    tf.dispose([weights, batch])
  })

  const llama = () => converted(models[0][1]!)
  const scaled = (factors: number[]): Tensor => ({ name: 'rope_freqs.weight', shape: [factors.length], data: Float32Array.from(factors) })

  test('rotary factors, biases and a tied head are told by the tensors', () => {
    const { metadata, tensors } = llama()
    const bias = (name: string, size: number): Tensor => ({ name, shape: [size], data: Float32Array.from({ length: size }, (_, i) => i) })
    const biases = [0, 1].flatMap((l) => [
      bias(`blk.${l}.attn_q.bias`, 64),
      bias(`blk.${l}.attn_k.bias`, 32),
      bias(`blk.${l}.attn_v.bias`, 32),
    ])
    writeGguf(file, metadata, [...tensors.filter(({ name }) => name !== 'output.weight'), ...biases, scaled([1, 1, 1, 1, 2, 8, 8, 8])])
    const source = openModel(file)
    expect(source.config).toMatchObject({ tied: true, qkvBias: true, outBias: false, ropeFactors: [1, 1, 1, 1, 2, 8, 8, 8] })
    const bias0 = [...weightArrays(source)].find(({ name }) => name === 'blocks.0.attention.qkv.bias')!.data
    // Row i of a head is row 2i of the file, or 2(i − 8) + 1.
    expect([...bias0.subarray(0, 16)]).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15])
    expect([...bias0.subarray(96, 100)]).toEqual([0, 1, 2, 3])
  })

  test.each<[string, (model: ReturnType<typeof converted>) => void, string]>([
    [
      'another architecture',
      ({ metadata }) => (metadata['general.architecture'] = 'mamba'),
      '"general.architecture": holds "mamba"; one of llama, qwen2, qwen3',
    ],
    ['an adapter', ({ metadata }) => (metadata['general.type'] = 'adapter'), '"general.type": holds "adapter"; a model is needed'],
    ['experts', ({ metadata }) => (metadata['llama.expert_count'] = { u32: 8 }), '"llama.expert_count": holds 8; only 0'],
    [
      'an unknown key',
      ({ metadata }) => (metadata['llama.logit_scale'] = { f32: 2 }),
      '"llama.logit_scale": holds 2; the key is not known here',
    ],
    [
      'yarn',
      ({ metadata }) => (metadata['llama.rope.scaling.type'] = 'yarn'),
      '"llama.rope.scaling.type": holds "yarn"; only "none" or "linear"',
    ],
    ['a missing key', ({ metadata }) => delete metadata['llama.block_count'], '"llama.block_count": missing'],
    [
      'partial rotation',
      ({ metadata }) => (metadata['llama.rope.dimension_count'] = { u32: 8 }),
      '"llama.rope.dimension_count": holds 8; only the width of a head, 16',
    ],
    [
      'another vocabulary',
      ({ metadata }) => (metadata['llama.vocab_size'] = { u32: 380 }),
      '"llama.vocab_size": holds 380; the embedding has 384 rows',
    ],
    ['rotary factors of another size', ({ tensors }) => tensors.push(scaled([1, 2])), 'tensor "rope_freqs.weight": has shape [2]; [8]'],
    ['a missing tensor', ({ tensors }) => tensors.splice(3, 1), 'tensor "model.layers.0.'],
    [
      'an unknown tensor',
      ({ tensors }) => tensors.push({ name: 'blk.0.attn_sinks.weight', shape: [4], data: new Float32Array(4) }),
      'tensor "blk.0.attn_sinks.weight": the configuration describes a model without it',
    ],
    ['a weight that is no number', ({ tensors }) => (tensors[3].data[5] = NaN), 'element 5 is NaN; finite numbers are needed'],
    [
      'a SentencePiece tokenizer',
      ({ metadata }) => (metadata['tokenizer.ggml.model'] = 'llama'),
      '"tokenizer.ggml.model": holds "llama"; "gpt2"',
    ],
    [
      'an unknown way to split',
      ({ metadata }) => (metadata['tokenizer.ggml.pre'] = 'default'),
      '"tokenizer.ggml.pre": holds "default"; one of gpt-2, smollm',
    ],
    [
      'a token twice',
      ({ metadata }) => {
        const { strings } = metadata['tokenizer.ggml.tokens'] as { strings: string[] }
        metadata['tokenizer.ggml.tokens'] = { strings: strings.with(300, strings[7]) }
      },
      '"tokenizer.ggml.tokens": holds',
    ],
    [
      'types for other tokens',
      ({ metadata }) => (metadata['tokenizer.ggml.token_type'] = { i32s: [1, 1] }),
      '"tokenizer.ggml.token_type": expected 384 whole numbers',
    ],
    [
      'a token outside',
      ({ metadata }) => (metadata['tokenizer.ggml.bos_token_id'] = { u32: 9999 }),
      '"tokenizer.ggml.bos_token_id": holds 9999; expected a token id, 0 to 383',
    ],
  ])('%s is refused by name', (_, change, message) => {
    const model = llama()
    change(model)
    writeGguf(file, model.metadata, model.tensors)
    const open = () => {
      const source = openModel(file)
      source.tokenizer()
      return [...weightArrays(source)]
    }
    expect(open).toThrow(InputError)
    expect(open).toThrow(message)
  })
})

const small: Record<string, Value> = {
  'general.architecture': 'llama',
  'a.strings': { strings: ['x', 'yz'] },
  'a.numbers': { i32s: [1, -2, 3] },
  'a.yes': true,
  'a.half': { f32: 0.5 },
  'a.end': { f32: 1 },
}
const two: Tensor[] = [
  { name: 'one', shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
  { name: 'two', shape: [4], data: Float32Array.of(7, 8, 9, 10) },
]

test('metadata and tensors are read as they were written', () => {
  writeGguf(file, small, two)
  const { metadata, tensors } = openGguf(file)
  expect([...metadata]).toEqual([
    ['general.architecture', 'llama'],
    ['a.strings', ['x', 'yz']],
    ['a.numbers', Int32Array.of(1, -2, 3)],
    ['a.yes', true],
    ['a.half', 0.5],
    ['a.end', 1],
  ])
  expect([...tensors].map(([name, { dtype, shape, read }]) => ({ name, dtype, shape, values: [...read()] }))).toEqual([
    { name: 'one', dtype: 'F32', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] },
    { name: 'two', dtype: 'F32', shape: [4], values: [7, 8, 9, 10] },
  ])
})

/** Writes the small file with some bytes replaced. */
const damaged = (at: number, bytes: Buffer): string => {
  writeGguf(file, small, two)
  const content = readFileSync(file)
  bytes.copy(content, at)
  writeFileSync(file, content)
  return file
}
const u64 = (x: bigint): Buffer => {
  const b = Buffer.alloc(8)
  b.writeBigUInt64LE(x)
  return b
}
/** Place of a text in the small file. */
const find = (text: string): number => {
  writeGguf(file, small, two)
  return readFileSync(file).indexOf(text)
}

test.each<[string, () => string, RegExp]>([
  ['no file', () => join(folder, 'none'), /none: no such file/],
  ['a folder', () => folder, /is a folder; a file is needed/],
  ['another magic', () => damaged(0, Buffer.from('GGML')), /is no GGUF file/],
  ['version 1', () => damaged(4, Buffer.of(1)), /version: holds 1; 2 or 3/],
  ['big-endian', () => damaged(4, Buffer.of(0, 0, 0, 3)), /version: holds 50331648/],
  ['2^64 − 1 tensors', () => damaged(8, u64(2n ** 64n - 1n)), /number of tensors: holds 18446744073709551615; at most/],
  ['a billion entries', () => damaged(16, u64(10n ** 9n)), /number of metadata entries: holds 1000000000; at most/],
  ['a string longer than the file', () => damaged(24, u64(2n ** 40n)), /metadata entry 0: 1099511627776 bytes at byte 32; the file has/],
  ['text that is none', () => damaged(32, Buffer.of(255)), /metadata entry 0: is not UTF-8 text/],
  ['an unknown type', () => damaged(find('a.yes') + 5, Buffer.of(13)), /"a\.yes": is of type 13/],
  ['an array longer than the file', () => damaged(find('a.numbers') + 9 + 8, u64(2n ** 50n)), /"a\.numbers": 4503599627370496 bytes/],
  [
    'an array of a million million strings',
    () => damaged(find('a.strings') + 9 + 8, u64(10n ** 12n)),
    /"a\.strings": length: holds 1000000000000; at most/,
  ],
  ['a key twice', () => damaged(find('a.end'), Buffer.from('a.yes')), /"a\.yes": occurs twice/],
  ['ten dimensions', () => damaged(find('one') + 3, Buffer.of(10)), /tensor "one": has 10 dimensions/],
  ['a size that no file has', () => damaged(find('one') + 7, u64(2n ** 52n)), /tensor "one": (ends at byte|shape|rows)/],
  ['a type that is not read', () => damaged(find('one') + 23, Buffer.of(10)), /tensor "one": is stored as Q2_K; F32, F16, Q4_0/],
  [
    'rows that are no blocks',
    () => damaged(find('one') + 23, Buffer.of(2)),
    /tensor "one": rows of 3 are no multiple of Q4_0's blocks of 32/,
  ],
  ['an offset beyond the end', () => damaged(find('two') + 19, u64(2n ** 40n)), /tensor "two": ends at byte 1099511627792 of/],
  ['tensors that overlap', () => damaged(find('two') + 19, u64(0n)), /tensor "(one|two)": begins at byte 0, inside the tensor before it/],
])('%s: one line that says where', (_, make, message) => {
  const path = make()
  expect(() => openGguf(path)).toThrow(InputError)
  expect(() => openGguf(path)).toThrow(message)
})

test('no damage does more than an InputError', () => {
  writeGguf(file, small, two)
  const intact = readFileSync(file)
  const at = join(folder, 'damaged.gguf')
  let opened = 0
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(intact.length - 1), fc.nat(7)), { maxLength: 3 }),
      fc.oneof(fc.constant(intact.length), fc.nat(intact.length)),
      (flips, length) => {
        const bytes = Buffer.from(intact)
        for (const [place, bit] of flips) bytes[place] ^= 1 << bit
        writeFileSync(at, bytes.subarray(0, length))
        try {
          let floats = 0
          for (const { read } of openGguf(at).tensors.values()) floats += read().length
          expect(4 * floats).toBeLessThanOrEqual(length)
          opened++
        } catch (error) {
          if (!(error instanceof InputError)) throw error
        }
      },
    ),
    { numRuns: 600 },
  )
  // Flips in the tensors or in a text leave a file that opens.
  expect(opened).toBeGreaterThan(20)
})
