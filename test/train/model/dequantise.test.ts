import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { blockTypes } from '../../../src/train/model/dequantise.js'
import { hubPython, output } from '../../peers.js'

const python = hubPython(false)

type Vectors = Record<string, { bytes: string; floats: string }>

const compare = (vectors: Vectors): void => {
  for (const [label, { bytes, floats }] of Object.entries(vectors)) {
    const type = Object.values(blockTypes).find((t) => t!.label === label)!
    const ours = type.toFloat32(Buffer.from(bytes, 'base64'))
    expect(Buffer.from(ours.buffer, ours.byteOffset, ours.byteLength).equals(Buffer.from(floats, 'base64')), label).toBe(true)
  }
}

describe('weights are, bit for bit, those of PyPI\'s gguf', () => {
  test('on two blocks of each type', () => {
    const vectors = JSON.parse(readFileSync(new URL('gguf/vectors.json', import.meta.url), 'utf8')) as Vectors
    expect(Object.keys(vectors)).toHaveLength(10)
    compare(vectors)
  })

  test.skipIf(!python)('on two thousand random blocks of each type', async () => {
    const script = new URL('gguf/vectors.py', import.meta.url).pathname
    compare(JSON.parse(await output(python!, [script, '2', '2000'], '')) as Vectors)
  })
})
