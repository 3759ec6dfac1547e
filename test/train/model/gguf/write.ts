/** GGUF files for tests. */
import { writeFileSync } from 'node:fs'

export type Value = string | boolean | { u32: number } | { f32: number } | { i32s: number[] } | { strings: readonly string[] }

export interface Tensor {
  readonly name: string
  /** [out, in]; stored as F32. */
  readonly shape: readonly number[]
  readonly data: Float32Array
}

const u32 = (x: number): Buffer => {
  const b = Buffer.alloc(4)
  b.writeUInt32LE(x)
  return b
}
const u64 = (x: number): Buffer => {
  const b = Buffer.alloc(8)
  b.writeBigUInt64LE(BigInt(x))
  return b
}
const f32 = (x: number): Buffer => Buffer.from(Float32Array.of(x).buffer)
const string = (x: string): Buffer => Buffer.concat([u64(Buffer.byteLength(x)), Buffer.from(x)])

const value = (v: Value): Buffer => {
  if (typeof v === 'string') return Buffer.concat([u32(8), string(v)])
  if (typeof v === 'boolean') return Buffer.concat([u32(7), Buffer.of(Number(v))])
  if ('u32' in v) return Buffer.concat([u32(4), u32(v.u32)])
  if ('f32' in v) return Buffer.concat([u32(6), f32(v.f32)])
  if ('i32s' in v) return Buffer.concat([u32(9), u32(5), u64(v.i32s.length), Buffer.from(Int32Array.from(v.i32s).buffer)])
  return Buffer.concat([u32(9), u32(8), u64(v.strings.length), ...v.strings.map(string)])
}

export const writeGguf = (file: string, metadata: Readonly<Record<string, Value>>, tensors: readonly Tensor[]): void => {
  let offset = 0
  const described = tensors.map(({ name, shape, data }) => {
    const at = offset
    offset += Math.ceil(data.byteLength / 32) * 32
    return Buffer.concat([string(name), u32(shape.length), ...[...shape].reverse().map(u64), u32(0), u64(at)])
  })
  const header = Buffer.concat([
    Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(Object.keys(metadata).length),
    ...Object.entries(metadata).flatMap(([key, v]) => [string(key), value(v)]), ...described,
  ])
  const start = Math.ceil(header.length / 32) * 32
  const content = Buffer.alloc(start + offset)
  header.copy(content)
  let at = start
  for (const { data } of tensors) {
    Buffer.from(data.buffer, data.byteOffset, data.byteLength).copy(content, at)
    at += Math.ceil(data.byteLength / 32) * 32
  }
  writeFileSync(file, content)
}
