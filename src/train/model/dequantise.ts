/**
 * The block formats of llama.cpp's tensors, as float32. A block holds 32 or 256 weights as small integers q with scales in half precision:
 * x = d·q, or d·q + m; the K formats have a second level of scales. Computed in float64 and rounded once.
 */
import { bfloat16, float16, fromHalf } from './numbers.js'

export interface BlockType {
  readonly label: string
  /** Weights of a block. */
  readonly elements: number
  /** Bytes of a block. */
  readonly bytes: number
  /** @param bytes whole blocks, little-endian */
  readonly toFloat32: (bytes: Buffer) => Float32Array
}

/** Writes the weights of the block at byte `i` of `b` into `x` from element `o`. */
type ReadBlock = (b: Uint8Array, i: number, x: Float32Array, o: number) => void

const blocks = (label: string, elements: number, bytes: number, read: ReadBlock): BlockType => ({
  label,
  elements,
  bytes,
  toFloat32: (b) => {
    const count = b.length / bytes
    const x = new Float32Array(count * elements)
    for (let n = 0; n < count; n++) read(b, n * bytes, x, n * elements)
    return x
  },
})

const half = (b: Uint8Array, i: number): number => fromHalf(b[i] | (b[i + 1] << 8))
const int8 = (b: Uint8Array, i: number): number => (b[i] << 24) >> 24

// Four bits a weight, two weights to a byte: the first half of a block in the lower bits, the second in the upper.

const q4_0: ReadBlock = (b, i, x, o) => {
  const d = half(b, i)
  for (let j = 0; j < 16; j++) {
    const q = b[i + 2 + j]
    x[o + j] = d * ((q & 15) - 8)
    x[o + 16 + j] = d * ((q >> 4) - 8)
  }
}

const q4_1: ReadBlock = (b, i, x, o) => {
  const [d, m] = [half(b, i), half(b, i + 2)]
  for (let j = 0; j < 16; j++) {
    const q = b[i + 4 + j]
    x[o + j] = d * (q & 15) + m
    x[o + 16 + j] = d * (q >> 4) + m
  }
}

/** Bit j of the four bytes at i: the fifth bit of weight j. */
const fifth = (b: Uint8Array, i: number, j: number): number => ((b[i + (j >> 3)] >> (j & 7)) & 1) << 4

const q5_0: ReadBlock = (b, i, x, o) => {
  const d = half(b, i)
  for (let j = 0; j < 16; j++) {
    const q = b[i + 6 + j]
    x[o + j] = d * (((q & 15) | fifth(b, i + 2, j)) - 16)
    x[o + 16 + j] = d * (((q >> 4) | fifth(b, i + 2, j + 16)) - 16)
  }
}

const q5_1: ReadBlock = (b, i, x, o) => {
  const [d, m] = [half(b, i), half(b, i + 2)]
  for (let j = 0; j < 16; j++) {
    const q = b[i + 8 + j]
    x[o + j] = d * ((q & 15) | fifth(b, i + 4, j)) + m
    x[o + 16 + j] = d * ((q >> 4) | fifth(b, i + 4, j + 16)) + m
  }
}

const q8_0: ReadBlock = (b, i, x, o) => {
  const d = half(b, i)
  for (let j = 0; j < 32; j++) x[o + j] = d * int8(b, i + 2 + j)
}

/** The six-bit scale of group g of eight in Q4_K and Q5_K, out of the twelve bytes at i; with `minimum`, of its minimum. */
const sixBits = (b: Uint8Array, i: number, g: number, minimum: boolean): number => {
  if (g < 4) return b[i + g + (minimum ? 4 : 0)] & 63
  const low = minimum ? b[i + g + 4] >> 4 : b[i + g + 4] & 15
  return low | ((b[i + g - (minimum ? 0 : 4)] >> 6) << 4)
}

/** Q4_K, and Q5_K with its fifth bits at `high`: eight groups of 32, two to 32 bytes. */
const fourOrFiveK = (high: number | undefined, low: number): ReadBlock => (b, i, x, o) => {
  const [d, minimum] = [half(b, i), half(b, i + 2)]
  for (let g = 0; g < 8; g++) {
    const scale = d * sixBits(b, i + 4, g, false)
    const m = minimum * sixBits(b, i + 4, g, true)
    for (let l = 0; l < 32; l++) {
      const byte = b[i + low + 32 * (g >> 1) + l]
      const bit = high === undefined ? 0 : ((b[i + high + l] >> g) & 1) << 4
      x[o + 32 * g + l] = scale * ((g & 1 ? byte >> 4 : byte & 15) | bit) - m
    }
  }
}

/** Two halves of 128: four lower bits in 64 bytes, two upper bits in 32, a scale for every 16 weights. */
const q6_k: ReadBlock = (b, i, x, o) => {
  const d = half(b, i + 208)
  for (let n = 0; n < 2; n++) {
    for (let part = 0; part < 4; part++) {
      for (let l = 0; l < 32; l++) {
        const byte = b[i + 64 * n + 32 * (part & 1) + l]
        const q = (part < 2 ? byte & 15 : byte >> 4) | (((b[i + 128 + 32 * n + l] >> (2 * part)) & 3) << 4)
        x[o + 128 * n + 32 * part + l] = d * int8(b, i + 192 + 8 * n + 2 * part + (l >> 4)) * (q - 32)
      }
    }
  }
}

/** By ggml's type number. */
export const blockTypes: Readonly<Record<number, BlockType | undefined>> = {
  0: { label: 'F32', elements: 1, bytes: 4, toFloat32: (b) => new Float32Array(b.buffer, b.byteOffset, b.length / 4) },
  1: { label: 'F16', elements: 1, bytes: 2, toFloat32: float16 },
  2: blocks('Q4_0', 32, 18, q4_0),
  3: blocks('Q4_1', 32, 20, q4_1),
  6: blocks('Q5_0', 32, 22, q5_0),
  7: blocks('Q5_1', 32, 24, q5_1),
  8: blocks('Q8_0', 32, 34, q8_0),
  12: blocks('Q4_K', 256, 144, fourOrFiveK(undefined, 16)),
  13: blocks('Q5_K', 256, 176, fourOrFiveK(16, 48)),
  14: blocks('Q6_K', 256, 210, q6_k),
  30: { label: 'BF16', elements: 1, bytes: 2, toFloat32: bfloat16 },
}

const others: Readonly<Record<number, string>> = {
  9: 'Q8_1', 10: 'Q2_K', 11: 'Q3_K', 15: 'Q8_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS', 19: 'IQ1_S', 20: 'IQ4_NL', 21: 'IQ3_S',
  22: 'IQ2_S', 23: 'IQ4_XS', 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64', 28: 'F64', 29: 'IQ1_M', 34: 'TQ1_0', 35: 'TQ2_0', 39: 'MXFP4',
}

/** A type's name, also of those that cannot be read. */
export const typeName = (type: number): string => blockTypes[type]?.label ?? others[type] ?? `type ${type}`
