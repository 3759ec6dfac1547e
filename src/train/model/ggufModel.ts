/** A model in one GGUF file: its decoder and weights. Architectures llama, qwen2, qwen3. */
import { InputError } from '../../util/errors.js'
import { show, validate } from '../../util/validate.js'
import { decoderSchema, type DecoderConfig } from './config.js'
import type { GgufFile, GgufValue } from './ggufFile.js'
import type { Located } from './hub.js'
import type { StoredTensor } from './safetensors.js'

/**
 * What is done with `ARCHITECTURE.…`: read, required to hold one of these values where it is there, or without effect. As in hubConfig.ts,
 * nothing else passes.
 */
const read = [
  'block_count', 'context_length', 'embedding_length', 'feed_forward_length', 'attention.head_count', 'attention.head_count_kv',
  'attention.layer_norm_rms_epsilon', 'attention.key_length', 'attention.value_length', 'rope.freq_base', 'rope.scaling.factor',
]
const only: Readonly<Record<string, readonly GgufValue[]>> = {
  'attention.causal': [true],
  'attention.sliding_window': [0],
  'expert_count': [0],
  'expert_used_count': [0],
  'rope.scaling.type': ['none', 'linear'],
  'rope.scaling.attn_factor': [1],
  'rope.scale_linear': [1],
  'use_parallel_residual': [false],
}
const harmless = ['vocab_size', 'rope.dimension_count', 'rope.scaling.original_context_length', 'rope.scaling.finetuned']

const architectures = ['llama', 'qwen2', 'qwen3'] as const

/**
 * The decoder that a file's metadata and tensors describe. Where metadata says nothing (biases, a head of its own, scaled rotary
 * positions), the tensors do, as in llama.cpp.
 *
 * @param file its name, for messages
 * @throws InputError naming key and value, for anything that would not be computed as it says
 */
export const ggufConfig = ({ metadata, tensors }: GgufFile, file: string): DecoderConfig => {
  const refuse = (key: string, right: string): never => {
    const value = metadata.get(key)
    throw new InputError(`${file}: ${show(key)}: ${value === undefined ? 'missing' : `holds ${show(value)}`}; ${right}`)
  }
  const architecture =
    architectures.find((name) => name === metadata.get('general.architecture')) ??
    refuse('general.architecture', `one of ${architectures.join(', ')} is supported`)
  refuseUnknown(metadata, architecture, refuse)
  const number = (name: string, fallback?: number): number => {
    const value = metadata.get(`${architecture}.${name}`) ?? fallback
    return typeof value === 'number' ? value : refuse(`${architecture}.${name}`, 'expected one number')
  }
  const [hidden, heads] = [number('embedding_length'), number('attention.head_count')]
  const headDim = number('attention.key_length', hidden / heads)
  if (number('attention.value_length', headDim) !== headDim)
    refuse(`${architecture}.attention.value_length`, `only that of the keys, ${headDim}, is supported`)
  if (number('rope.dimension_count', headDim) !== headDim)
    refuse(`${architecture}.rope.dimension_count`, `only the width of a head, ${headDim}, is supported`)
  const linear = metadata.get(`${architecture}.rope.scaling.type`) === 'linear' ? number('rope.scaling.factor') : undefined
  const factors = tensors.get('rope_freqs.weight')
  if (factors && (factors.shape.join() !== String(headDim / 2) || linear)) {
    throw new InputError(
      `${file}: tensor "rope_freqs.weight": has shape [${factors.shape}]; [${headDim / 2}] without other scaling is needed`,
    )
  }
  const vocabulary = tensors.get('token_embd.weight')?.shape[0]
  if (vocabulary === undefined) throw new InputError(`${file}: tensor "token_embd.weight": missing`)
  if (vocabulary !== number('vocab_size', vocabulary)) refuse(`${architecture}.vocab_size`, `the embedding has ${vocabulary} rows`)
  return validate(decoderSchema, {
    vocabulary,
    hidden,
    layers: number('block_count'),
    heads,
    kvHeads: number('attention.head_count_kv', heads),
    headDim,
    intermediate: number('feed_forward_length'),
    maxPositions: number('context_length'),
    normEpsilon: decimal(number('attention.layer_norm_rms_epsilon')),
    ropeTheta: number('rope.freq_base', 10_000),
    ropeFactors: factors ? [...factors.read()] : linear && Array.from({ length: headDim / 2 }, () => linear),
    qkNorm: architecture === 'qwen3',
    qkvBias: tensors.has('blk.0.attn_q.bias'),
    outBias: tensors.has('blk.0.attn_output.bias'),
    mlpBias: tensors.has('blk.0.ffn_up.bias'),
    tied: !tensors.has('output.weight'),
  }, file)
}

/** A float32 that was written as a short decimal, as that decimal: 9.99999974e-6 is 1e-5. */
const decimal = (x: number): number => {
  const short = Number(x.toPrecision(6))
  return Math.fround(short) === x ? short : x
}

const refuseUnknown = (metadata: GgufFile['metadata'], architecture: string, refuse: (key: string, right: string) => never): void => {
  if ((metadata.get('general.type') ?? 'model') !== 'model') refuse('general.type', 'a model is needed')
  if ((metadata.get('general.quantization_version') ?? 2) !== 2) refuse('general.quantization_version', 'only 2 is supported')
  if ((metadata.get('split.count') ?? 1) !== 1) refuse('split.count', 'a model in one file is needed')
  for (const [key, value] of metadata) {
    if (!key.startsWith(`${architecture}.`)) {
      if (!/^(general|tokenizer|quantize|split)\./.test(key))
        refuse(key, 'the key is not known here and may change what the model computes')
      continue
    }
    const name = key.slice(architecture.length + 1)
    if (read.includes(name) || harmless.includes(name)) continue
    if (!Object.hasOwn(only, name)) refuse(key, 'the key is not known here and may change what the model computes')
    if (!only[name].includes(value)) refuse(key, `only ${only[name].map(show).join(' or ')} is supported`)
  }
}

const names: Readonly<Record<string, string>> = {
  'token_embd': 'model.embed_tokens', 'output_norm': 'model.norm', 'output': 'lm_head', 'attn_norm': 'input_layernorm', 'ffn_norm':
  'post_attention_layernorm', 'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj', 'attn_output':
  'self_attn.o_proj', 'attn_q_norm': 'self_attn.q_norm', 'attn_k_norm': 'self_attn.k_norm', 'ffn_gate': 'mlp.gate_proj', 'ffn_up':
  'mlp.up_proj', 'ffn_down': 'mlp.down_proj',
}

/**
 * A file's tensors under the names they have in the Hugging Face layout, and as they are there: the llama architecture's queries and keys
 * are put back in order.
 */
export const ggufTensors = ({ metadata, tensors }: GgufFile, config: DecoderConfig, file: string): Map<string, Located> => {
  const interleaved = metadata.get('general.architecture') === 'llama'
  const located = new Map<string, Located>()
  for (const [name, tensor] of tensors) {
    if (name === 'rope_freqs.weight') continue
    const [, layer, module, kind] = /^(?:blk\.(\d{1,4})\.)?(\w+)\.(weight|bias)$/.exec(name) ?? []
    const known = Object.hasOwn(names, module ?? '') ? names[module] : undefined
    const hub = known && `${layer === undefined ? '' : `model.layers.${layer}.`}${known}.${kind}`
    const heads = interleaved && { attn_q: config.heads, attn_k: config.kvHeads }[module]
    located.set(hub ?? name, { file, tensor: heads ? { ...tensor, read: () => halves(tensor, heads) } : tensor })
  }
  return located
}

/** Rotary pairs: llama.cpp's llama has them at rows 2i and 2i + 1 of each head, everyone else at i and i + headDim/2. */
const halves = ({ shape: [rows, columns = 1], read }: StoredTensor, heads: number): Float32Array => {
  const values = read()
  const [headDim, half] = [rows / heads, rows / heads / 2]
  const ordered = new Float32Array(values.length)
  for (let row = 0; row < rows; row++) {
    const [head, i] = [Math.floor(row / headDim), row % headDim]
    const from = head * headDim + 2 * (i % half) + Math.floor(i / half)
    ordered.set(values.subarray(from * columns, (from + 1) * columns), row * columns)
  }
  return ordered
}
