import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { readVectors, writeVectors } from '../../../src/train/model/checkpoint.js'
import { decoderLayout, layoutSize } from '../../../src/train/model/layout.js'
import { InputError } from '../../../src/util/errors.js'
import { awake, decoder, fastest } from './models.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-checkpoint-'))
const file = join(folder, 'a.safetensors')
const layout = decoderLayout(decoder())
const values = awake(layoutSize(layout))

beforeAll(async () => {
  await initEngine(fastest)
  await writeVectors(file, layout, { theta: tf.tensor1d(values), first: tf.tensor1d(values.map((x) => 2 * x)) }, { steps: '7' })
})

test('vectors come back bit for bit, with their metadata, and nothing else is left in the folder', async () => {
  const { vectors, metadata } = readVectors(file, layout, ['theta', 'first'])
  expect(await vectors.theta.data()).toEqual(values)
  expect(await vectors.first.data()).toEqual(values.map((x) => 2 * x))
  expect(metadata).toEqual({ steps: '7' })
  expect(readdirSync(folder)).toEqual(['a.safetensors'])
})

test('a checkpoint that is truncated or of another model is one clear line, and makes no tensors', () => {
  const { numTensors } = tf.memory()
  const fails = (path: string, of: typeof layout, keys: string[], message: RegExp): void => {
    expect(() => readVectors(path, of, keys)).toThrow(InputError)
    expect(() => readVectors(path, of, keys)).toThrow(message)
  }
  const cut = join(folder, 'cut')
  writeFileSync(cut, readFileSync(file).subarray(0, -5))
  fails(cut, layout, ['theta', 'first'], /cut: tensor "first\/norm": data_offsets: end at .*; the file is truncated/)
  fails(file, layout, ['theta'], /tensor "first\/embedding": does not belong to this model/)
  fails(file, layout, ['theta', 'first', 'second'], /tensor "second\/embedding": missing; shape \[11,16\] is needed/)
  fails(file, decoderLayout(decoder({ vocabulary: 12 })), ['theta', 'first'], /tensor "theta\/embedding": is F32 of shape \[11,16\]; F32 of shape \[12,16\] is needed/)
  expect(tf.memory().numTensors).toBe(numTensors)
})
