import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openSafetensors, writeSafetensors } from '../../../src/train/model/safetensors.js'
import { InputError } from '../../../src/util/errors.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-safetensors-'))
const file = join(folder, 'a.safetensors')

/** A file with this header and so many zero bytes of data. */
const write = (header: unknown, bytes = 0): string => {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  writeFileSync(file, Buffer.concat([length, json, Buffer.alloc(bytes)]))
  return file
}
const readAll = (path: string) => [...openSafetensors(path).tensors].map(([name, tensor]) => ({ name, shape: tensor.shape, data: [...tensor.read()] }))

test('what is written is read back bit for bit', () => {
  fc.assert(fc.property(
    fc.uniqueArray(fc.record({ name: fc.string().filter((name) => name !== '__metadata__'), shape: fc.array(fc.nat(4), { maxLength: 3 }) }), { selector: ({ name }) => name, maxLength: 5 }),
    // A key that would be an object's prototype is not read.
    fc.dictionary(fc.string().filter((key) => key !== '__proto__'), fc.string(), { maxKeys: 3 }),
    (specs, metadata) => {
      const tensors = specs.map(({ name, shape }, i) => ({ name, shape, data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, j) => Math.sin(7 * i + j)) }))
      writeSafetensors(file, tensors, metadata)
      const order = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1)
      expect(readAll(file).sort(order)).toEqual(tensors.map(({ name, shape, data }) => ({ name, shape, data: [...data] })).sort(order))
      expect({ ...openSafetensors(file).metadata }).toEqual({ ...metadata })
    }), { numRuns: 60 })
})

test('half precision is read exactly', () => {
  const halves = [0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x0400, 0x7c00, 0xfc00, 0x3555]
  write({ x: { dtype: 'F16', shape: [halves.length], data_offsets: [0, 2 * halves.length] } })
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from(Uint16Array.from(halves).buffer)]))
  expect(readAll(file)[0].data).toEqual([0, -0, 1, -2, 65504, 2 ** -24, 1023 * 2 ** -24, 2 ** -14, Infinity, -Infinity, 1365 * 2 ** -12])
  write({ x: { dtype: 'BF16', shape: [3], data_offsets: [0, 6] } })
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from(Uint16Array.from([0x3f80, 0xc049, 0x0001]).buffer)]))
  expect(readAll(file)[0].data).toEqual([1, -3.140625, 2 ** -133])
})

const entry = (changes: object = {}) => ({ x: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...changes } })
test.each<[string, () => string, RegExp]>([
  ['no file', () => join(folder, 'none'), /none: no such file/],
  ['seven bytes', () => (writeFileSync(file, 'seven b'), file), /7 bytes; a safetensors file has at least 8/],
  ['a header longer than the file', () => (writeFileSync(file, Buffer.alloc(16, 255)), file), /says its header has 18446744073709551615 bytes, with 8 left/],
  ['a header of more than 16 MiB', () => write(`{}${' '.repeat(2 ** 24)}`), /says its header has 16777218 bytes, with 16777218 left in the file and 16777216 allowed/],
  ['a header that nests', () => write('['.repeat(1000)), /header: is not valid JSON: nests deeper than 3 levels at position 3/],
  ['no JSON', () => write('{"x":'), /header: is not valid JSON/],
  ['no object', () => write('[1]'), /header: holds \[1\]; expected an object/],
  ['metadata of numbers', () => write({ __metadata__: { a: 1 } }), /__metadata__: holds/],
  ['an unknown dtype', () => write(entry({ dtype: 'constructor' }), 8), /tensor "x": dtype: holds "constructor"; one of F64, F32/],
  ['a negative size', () => write(entry({ shape: [-2] }), 8), /tensor "x": shape\.0: /],
  ['a size that no number holds', () => write(entry({ shape: [2 ** 40, 2 ** 40] }), 8), /tensor "x": data_offsets: hold 8 bytes; F32 of shape/],
  ['offsets backwards', () => write(entry({ data_offsets: [8, 0] }), 8), /tensor "x": data_offsets: hold -8 bytes/],
  ['a truncated file', () => write(entry(), 7), /tensor "x": data_offsets: end at byte 8 of 7; the file is truncated/],
  ['bytes to spare', () => write(entry(), 9), /1 bytes after its last tensor/],
  ['a gap', () => write(entry({ data_offsets: [4, 12] }), 12), /tensor "x": starts at byte 4, with a gap/],
  ['an overlap', () => write({ ...entry(), y: { dtype: 'F32', shape: [1], data_offsets: [4, 8] } }, 8), /tensor "y": starts at byte 4, inside the tensor before it/],
  ['integers as weights', () => write(entry({ dtype: 'I64', shape: [1] }), 8), /tensor "x": dtype: holds I64; F32, F16 or BF16/],
])('%s: one line that says where', (_, make, message) => {
  const path = make()
  expect(() => readAll(path)).toThrow(InputError)
  expect(() => readAll(path)).toThrow(message)
})

test('no damage does more than an InputError', () => {
  writeSafetensors(file, [{ name: 'a', shape: [2, 3], data: new Float32Array(6) }, { name: 'b', shape: [], data: new Float32Array(1) }], { made: 'here' })
  const intact = readFileSync(file)
  const damaged = join(folder, 'damaged')
  fc.assert(fc.property(fc.array(fc.tuple(fc.nat(intact.length - 1), fc.nat(255)), { maxLength: 4 }), fc.nat(intact.length), (changes, length) => {
    const bytes = Buffer.from(intact)
    for (const [at, value] of changes) bytes[at] = value
    writeFileSync(damaged, bytes.subarray(0, length))
    try {
      readAll(damaged)
    } catch (error) {
      if (!(error instanceof InputError)) throw error
    }
  }), { numRuns: 300 })
})
