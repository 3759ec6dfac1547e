/**
 * The GGUF container of llama.cpp, versions 2 and 3, little-endian: magic, version, counts, metadata, a description of each tensor, then
 * the tensors. Files are untrusted: every length is checked against the file's size before anything is allocated or read.
 */
import { fileSize, readBytes } from '../../util/binaryFile.js'
import { InputError } from '../../util/errors.js'
import { show } from '../../util/validate.js'
import { blockTypes, typeName } from './dequantise.js'
import { finite } from './numbers.js'
import type { StoredTensor } from './safetensors.js'

/** A metadata value. Arrays of numbers and booleans are typed arrays (booleans as 0 and 1). */
export type GgufValue = string | number | boolean | readonly string[] | GgufNumbers
export type GgufNumbers =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array

export interface GgufFile {
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** By name; shapes [out, in], as in safetensors. */
  readonly tensors: ReadonlyMap<string, StoredTensor>
}

const MAGIC = 0x46554747
/** Most entries of metadata, most tensors, most strings in an array: far above what models have. */
const MAX_ENTRIES = 65_536
const MAX_STRINGS = 2 ** 22
const MAX_DIMENSIONS = 4

/** Types of metadata values: bytes of one, and how to read it or many. */
const valueTypes: readonly (
  undefined | { readonly width: number; readonly one: (b: Buffer) => number | bigint; readonly many: new (b: ArrayBuffer) => GgufNumbers }
)[] = [
  { width: 1, one: (b) => b.readUInt8(), many: Uint8Array },
  { width: 1, one: (b) => b.readInt8(), many: Int8Array },
  { width: 2, one: (b) => b.readUInt16LE(), many: Uint16Array },
  { width: 2, one: (b) => b.readInt16LE(), many: Int16Array },
  { width: 4, one: (b) => b.readUInt32LE(), many: Uint32Array },
  { width: 4, one: (b) => b.readInt32LE(), many: Int32Array },
  { width: 4, one: (b) => b.readFloatLE(), many: Float32Array },
  { width: 1, one: (b) => b.readUInt8(), many: Uint8Array },
  undefined,
  undefined,
  { width: 8, one: (b) => b.readBigUInt64LE(), many: BigUint64Array },
  { width: 8, one: (b) => b.readBigInt64LE(), many: BigInt64Array },
  { width: 8, one: (b) => b.readDoubleLE(), many: Float64Array },
]
const [BOOL, STRING, ARRAY] = [7, 8, 9]

/**
 * Read and check a file's header; tensors are read when asked for.
 *
 * @throws InputError naming the file, and the metadata key or tensor: no such file, not GGUF, another version, an unknown type,
 *   a length or an offset outside the file, tensors that overlap
 */
export const openGguf = (file: string): GgufFile => {
  const cursor = cursorOf(file)
  if (cursor.size < 24 || cursor.u32(file) !== MAGIC) throw new InputError(`${file}: is no GGUF file`)
  const version = cursor.u32(file)
  if (version !== 2 && version !== 3) throw new InputError(`${file}: version: holds ${version}; 2 or 3, little-endian, is supported`)
  const tensorCount = cursor.count(`${file}: number of tensors`, MAX_ENTRIES)
  const entryCount = cursor.count(`${file}: number of metadata entries`, MAX_ENTRIES)

  const metadata = new Map<string, GgufValue>()
  for (let i = 0; i < entryCount; i++) {
    const key = cursor.string(`${file}: metadata entry ${i}`)
    const where = `${file}: ${show(key)}`
    if (metadata.has(key)) throw new InputError(`${where}: occurs twice`)
    metadata.set(key, readValue(cursor, where))
  }

  const described = Array.from({ length: tensorCount }, (_, i) => readDescription(cursor, file, i))
  const alignment = metadata.get('general.alignment') ?? 32
  if (typeof alignment !== 'number' || !Number.isInteger(alignment) || alignment < 1 || alignment > 2 ** 20) {
    throw new InputError(`${file}: "general.alignment": holds ${show(alignment)}; expected a whole number, 1 to 2^20`)
  }
  const start = Math.ceil(cursor.position() / alignment) * alignment
  checkPlaces(file, described, cursor.size - start)

  const tensors = new Map<string, StoredTensor>()
  for (const { name, where, shape, type, from, bytes } of described) {
    if (tensors.has(name)) throw new InputError(`${where}: occurs twice`)
    const { label, toFloat32 } = blockTypes[type]!
    tensors.set(name, { dtype: label, shape, read: () => finite(toFloat32(readBytes(file, start + from, bytes, where)), where) })
  }
  return { metadata, tensors }
}

/** Reads a file from its beginning, in pages. Each method checks that the file has so much left. */
type Cursor = ReturnType<typeof cursorOf>

const PAGE = 2 ** 20

const cursorOf = (file: string) => {
  const size = fileSize(file)
  let page: Buffer = Buffer.alloc(0)
  let begin = 0
  let at = 0
  const take = (length: number, where: string): Buffer => {
    if (length > size - at) throw new InputError(`${where}: ${length} bytes at byte ${at}; the file has ${size}`)
    if (at + length > begin + page.length) {
      begin = at
      page = readBytes(file, at, Math.min(size - at, Math.max(length, PAGE)), where)
    }
    const bytes = page.subarray(at - begin, at - begin + length)
    at += length
    return bytes
  }
  const u32 = (where: string): number => take(4, where).readUInt32LE()
  const u64 = (where: string): number => safe(take(8, where).readBigUInt64LE(), where)
  return {
    size,
    position: () => at,
    take,
    u32,
    u64,
    /** A number of things that follow. */
    count: (where: string, most: number): number => {
      const count = u64(where)
      if (count > most) throw new InputError(`${where}: holds ${count}; at most ${most} are read`)
      return count
    },
    string: (where: string): string => {
      const bytes = take(u64(where), where)
      try {
        return utf8.decode(bytes)
      } catch {
        throw new InputError(`${where}: is not UTF-8 text`)
      }
    },
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const safe = (value: bigint, where: string): number => {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new InputError(`${where}: holds ${value}; at most 2^53 is read`)
  return number
}

const readValue = (cursor: Cursor, where: string): GgufValue => {
  const type = cursor.u32(where)
  if (type === STRING) return cursor.string(where)
  if (type === ARRAY) return readArray(cursor, where)
  const known = valueTypes[type]
  if (!known) throw new InputError(`${where}: is of type ${type}; 0 to 12 are known`)
  const value = known.one(cursor.take(known.width, where))
  return type === BOOL ? value !== 0 : typeof value === 'bigint' ? safe(value, where) : value
}

const readArray = (cursor: Cursor, where: string): GgufValue => {
  const type = cursor.u32(where)
  if (type === STRING) {
    const count = cursor.count(`${where}: length`, MAX_STRINGS)
    return Array.from({ length: count }, (_, i) => cursor.string(`${where}[${i}]`))
  }
  const known = valueTypes[type]
  if (!known) throw new InputError(`${where}: is an array of type ${type}; arrays of numbers, booleans and strings are read`)
  const bytes = cursor.take(cursor.u64(`${where}: length`) * known.width, where)
  // A copy: aligned, and free of the page it lay in.
  return new known.many(Uint8Array.from(bytes).buffer)
}

interface Description {
  readonly name: string
  readonly where: string
  readonly shape: readonly number[]
  readonly type: number
  /** Place behind the header. */
  readonly from: number
  readonly bytes: number
}

const readDescription = (cursor: Cursor, file: string, index: number): Description => {
  const name = cursor.string(`${file}: tensor ${index}`)
  const where = `${file}: tensor ${show(name)}`
  const rank = cursor.u32(where)
  if (rank > MAX_DIMENSIONS) throw new InputError(`${where}: has ${rank} dimensions; at most ${MAX_DIMENSIONS} are read`)
  // The first dimension is the one that lies together: the last of ours.
  const shape = Array.from({ length: rank }, () => cursor.u64(where)).reverse()
  const type = cursor.u32(where)
  const from = cursor.u64(where)
  const known = blockTypes[type]
  if (!known) {
    throw new InputError(
      `${where}: is stored as ${typeName(type)}; ${Object.values(blockTypes)
        .map((t) => t!.label)
        .join(', ')} can be read`,
    )
  }
  const elements = shape.reduce((a, b) => a * b, 1)
  if (!Number.isSafeInteger(elements)) throw new InputError(`${where}: shape [${shape}] has more elements than any file`)
  if ((shape.at(-1) ?? 1) % known.elements !== 0) {
    throw new InputError(`${where}: rows of ${shape.at(-1)} are no multiple of ${known.label}'s blocks of ${known.elements}`)
  }
  return { name, where, shape, type, from, bytes: (elements / known.elements) * known.bytes }
}

/** Every tensor lies inside the file and over no other. */
const checkPlaces = (file: string, tensors: readonly Description[], size: number): void => {
  let end = 0
  for (const { where, from, bytes } of [...tensors].sort((a, b) => a.from - b.from || a.bytes - b.bytes)) {
    if (from < end) throw new InputError(`${where}: begins at byte ${from}, inside the tensor before it, which ends at ${end}`)
    end = from + bytes
    if (!(end <= size)) {
      throw new InputError(`${where}: ends at byte ${end} of ${Math.max(0, size)}; the file is truncated or its header wrong`)
    }
  }
}
