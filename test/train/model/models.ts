/** Small decoders and their data, for the tests of this folder. */
import { createHash } from 'node:crypto'
import type { EngineName } from '../../../src/train/backend.js'
import { decoderSchema, type DecoderConfig, type DecoderInput } from '../../../src/train/model/config.js'
import type { NamedArray } from '../../../src/train/model/safetensors.js'
import { random, type Random } from '../../../src/util/random.js'
import { nativeEngine } from '../../native.js'

export const engines: EngineName[] = [...(nativeEngine ? ['tensorflow'] as const : []), 'wasm', 'cpu']
/** The first of them: for what needs no comparison between engines. */
export const fastest = engines[0]

export const decoder = (changes: Partial<DecoderInput> = {}): DecoderConfig =>
  decoderSchema.parse({ vocabulary: 11, hidden: 16, layers: 2, heads: 4, kvHeads: 2, intermediate: 24, maxPositions: 32, ...changes })

/** One of each kind of everything. */
export const kinds: Record<string, DecoderConfig> = {
  'Llama-like': decoder({ tied: false, ropeTheta: 500 }),
  'Qwen2-like': decoder({ qkvBias: true }),
  'Qwen3-like': decoder({ qkNorm: true, headDim: 6 }),
  'GPT-2-like': decoder({ norm: 'layer', positions: 'learned', mlp: 'gelu', qkvBias: true, outBias: true, mlpBias: true, kvHeads: 4 }),
}

export const tokens = (length: number, vocabulary: number, source: Random = random(length)): number[] => Array.from({ length }, () => source.int(vocabulary))

/** Parameters far from their initial values, so that nothing is nearly zero or nearly linear. */
export const awake = (size: number, seed = 5): Float32Array => {
  const source = random(seed)
  return Float32Array.from({ length: size }, () => 0.3 * source.normal())
}

/** Tensors in a form that is compared quickly, bit for bit. */
export const digest = (tensors: Iterable<NamedArray>): string[] =>
  [...tensors].map(({ name, shape, data }) => `${name} [${shape}] ${createHash('sha256').update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)).digest('hex')}`)
