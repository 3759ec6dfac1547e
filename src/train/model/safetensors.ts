/**
 * The safetensors format: an 8-byte little-endian header length, a JSON header naming each tensor's dtype, shape and
 * place, then the bytes. Files are untrusted: everything is checked against the file's size before anything is allocated.
 */
import { z } from 'zod'
import { fileSize, readBytes } from '../../util/binaryFile.js'
import { InputError, messageOf } from '../../util/errors.js'
import { parseJson, writeAtomic } from '../../util/files.js'
import { show } from '../../util/validate.js'
import { bfloat16, float16, toBfloat16, toFloat16 } from './numbers.js'

/** Largest header, in bytes: 100 thousand tensors fit. The format allows 100 MB; parsed, that may be sixty times as much memory. */
const MAX_HEADER = 2 ** 24
/** The header, a tensor, its shape. */
const HEADER_DEPTH = 3

/** Bytes per element. */
const widths: Record<string, number> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  U64: 8,
  I32: 4,
  U32: 4,
  I16: 2,
  U16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
}

const entrySchema = z.object({
  dtype: z.string(),
  shape: z.array(z.int().min(0)).max(16),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
})

/** One tensor of a file, not read yet. */
export interface StoredTensor {
  readonly dtype: string
  readonly shape: readonly number[]
  /** Reads it as float32 (exact for F32, F16 and BF16). @throws InputError for another dtype, or when the file got shorter meanwhile */
  read(): Float32Array
}

export interface SafetensorsFile {
  readonly tensors: ReadonlyMap<string, StoredTensor>
  readonly metadata: Readonly<Record<string, string>>
}

/**
 * Read and check a file's header.
 *
 * @throws InputError naming the file and the tensor: no such file, header longer than the file or than 16 MiB, no JSON, unknown dtype, a
 *   shape that
 *   does not match its bytes, bytes outside the file, or tensors that overlap or leave gaps
 */
export const openSafetensors = (file: string): SafetensorsFile => {
  const { header, start, size } = readHeader(file)
  const tensors = new Map<string, StoredTensor>()
  const spans: { name: string; from: number; to: number }[] = []
  let metadata: Record<string, string> = {}
  for (const [name, value] of Object.entries(header)) {
    if (name === '__metadata__') {
      const parsed = z.record(z.string(), z.string()).safeParse(value)
      if (!parsed.success) throw new InputError(`${file}: __metadata__: holds ${show(value)}; expected an object of strings`)
      metadata = parsed.data
      continue
    }
    const where = `${file}: tensor ${show(name)}`
    const parsed = entrySchema.safeParse(value)
    if (!parsed.success) throw new InputError(`${where}: ${parsed.error.issues[0].path.join('.')}: ${parsed.error.issues[0].message}`)
    const { dtype, shape, data_offsets: [from, to] } = parsed.data
    const width = Object.hasOwn(widths, dtype) ? widths[dtype] : undefined
    if (width === undefined) throw new InputError(`${where}: dtype: holds ${show(dtype)}; one of ${Object.keys(widths).join(', ')}`)
    const bytes = shape.reduce((a, b) => a * b, width)
    if (to - from !== bytes) {
      throw new InputError(`${where}: data_offsets: hold ${to - from} bytes; ${dtype} of shape [${shape}] has ${bytes}`)
    }
    if (to > size - start) {
      throw new InputError(`${where}: data_offsets: end at byte ${to} of ${size - start}; the file is truncated or its header wrong`)
    }
    spans.push({ name, from, to })
    tensors.set(name, { dtype, shape, read: () => toFloat32(readBytes(file, start + from, bytes, where), dtype, where) })
  }
  checkSpans(file, spans, size - start)
  return { tensors, metadata }
}

const readHeader = (file: string): { header: object; start: number; size: number } => {
  const size = fileSize(file)
  if (size < 8) throw new InputError(`${file}: ${size} bytes; a safetensors file has at least 8`)
  const length = readBytes(file, 0, 8, file).readBigUInt64LE()
  if (length > BigInt(MAX_HEADER) || length > BigInt(size - 8)) {
    const says = `says its header has ${length} bytes, with ${size - 8} left in the file and ${MAX_HEADER} allowed`
    throw new InputError(`${file}: ${says}; truncated, or not a safetensors file`)
  }
  const start = 8 + Number(length)
  let header: unknown
  try {
    header = parseJson(new TextDecoder('utf-8', { fatal: true }).decode(readBytes(file, 8, Number(length), file)), HEADER_DEPTH)
  } catch (error) {
    if (error instanceof InputError) throw error
    throw new InputError(`${file}: header: is not valid JSON: ${messageOf(error)}`)
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw new InputError(`${file}: header: holds ${show(header)}; expected an object`)
  }
  return { header, start, size }
}

/** The tensors must fill the data without overlap or gap: no byte is read twice, none is hidden. */
const checkSpans = (file: string, spans: { name: string; from: number; to: number }[], size: number): void => {
  spans.sort((a, b) => a.from - b.from || a.to - b.to)
  let end = 0
  for (const { name, from, to } of spans) {
    if (from !== end) {
      const how = from < end ? 'inside' : 'with a gap after'
      throw new InputError(`${file}: tensor ${show(name)}: starts at byte ${from}, ${how} the tensor before it, which ends at ${end}`)
    }
    end = to
  }
  if (end !== size) throw new InputError(`${file}: ${size - end} bytes after its last tensor`)
}

const toFloat32 = (bytes: Buffer, dtype: string, where: string): Float32Array => {
  if (dtype === 'F32') return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  if (dtype !== 'BF16' && dtype !== 'F16') throw new InputError(`${where}: dtype: holds ${dtype}; F32, F16 or BF16 can be read as weights`)
  return dtype === 'F16' ? float16(bytes) : bfloat16(bytes)
}

/** A tensor to be stored as F32. */
export interface NamedArray {
  readonly name: string
  readonly shape: readonly number[]
  readonly data: Float32Array
}

/** How numbers are stored. */
export type StoredType = 'F32' | 'F16' | 'BF16'

/** Write float32 tensors, atomically. The data start at a multiple of 8 bytes. @throws InputError when the file cannot be written */
export const writeSafetensors = (file: string, tensors: readonly NamedArray[], metadata: Readonly<Record<string, string>> = {}): void =>
  writeTensors(file, tensors.map((tensor) => ({ ...tensor, dtype: 'F32' as const, read: () => tensor.data })), metadata)

/** A tensor to be stored: its values are asked for when it is their turn. */
export interface PendingTensor {
  readonly name: string
  readonly shape: readonly number[]
  readonly dtype: StoredType
  readonly read: () => Float32Array
}

/** The same, one tensor in memory at a time. F16 and BF16 are rounded to the nearest. */
export const writeTensors = (file: string, tensors: readonly PendingTensor[], metadata: Readonly<Record<string, string>> = {}): void => {
  let end = 0
  const entries = tensors.map(({ name, shape, dtype }) => {
    const bytes = shape.reduce((a, b) => a * b, widths[dtype])
    return [name, { dtype, shape, data_offsets: [end, (end += bytes)] }] as const
  })
  const json = JSON.stringify(
    Object.fromEntries([...(Object.keys(metadata).length ? [['__metadata__', metadata] as const] : []), ...entries]),
  )
  const text = Buffer.from(json)
  const header = Buffer.alloc(8 + Math.ceil(text.length / 8) * 8, ' ')
  header.writeBigUInt64LE(BigInt(header.length - 8))
  text.copy(header, 8)
  const parts = function* (): Generator<Uint8Array> {
    yield header
    for (const { name, shape, dtype, read } of tensors) {
      const values = read()
      if (values.length !== shape.reduce((a, b) => a * b, 1)) {
        throw new RangeError(`tensor ${name}: ${values.length} elements for shape [${shape}]`)
      }
      const stored = dtype === 'F32' ? values : dtype === 'F16' ? toFloat16(values) : toBfloat16(values)
      yield new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength)
    }
  }
  writeAtomic(file, parts())
}
