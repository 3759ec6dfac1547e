/** Hugging Face folders as GGUF files. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openGguf } from '../../../../src/train/model/ggufFile.js'
import { openModel } from '../../../../src/train/model/source.js'
import type { Tensor, Value } from './write.js'

const names: [RegExp, string][] = [
  [/model\.embed_tokens/, 'token_embd'],
  [/model\.norm/, 'output_norm'],
  [/lm_head/, 'output'],
  [/model\.layers\.(\d+)\./, 'blk.$1.'],
  [/input_layernorm/, 'attn_norm'],
  [/post_attention_layernorm/, 'ffn_norm'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.([qk])_norm/, 'attn_$1_norm'],
  [/mlp\.(\w+)_proj/, 'ffn_$1'],
]

/** As llama.cpp's converter stores queries and keys of llama: W.reshape(heads, 2, headDim/2, in).swapaxes(1, 2). */
const interleave = (data: Float32Array, heads: number, rows: number, columns: number): Float32Array => {
  const half = rows / heads / 2
  const out = new Float32Array(data.length)
  for (let h = 0; h < heads; h++) {
    for (let part = 0; part < 2; part++) {
      for (let i = 0; i < half; i++) {
        const [from, to] = [h * 2 * half + part * half + i, h * 2 * half + 2 * i + part]
        out.set(data.subarray(from * columns, (from + 1) * columns), to * columns)
      }
    }
  }
  return out
}

/** A Hugging Face folder as llama.cpp's converter would write it: metadata and tensors. */
export const converted = (model: string): { metadata: Record<string, Value>; tensors: Tensor[] } => {
  const source = openModel(model)
  const { config } = source
  const hub = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as { model_type: string }
  const { files, specials, id } = source.tokenizer()
  const arch = hub.model_type
  const { vocab, merges } = (files.tokenizer as { model: { vocab: Record<string, number>; merges: (string | string[])[] } }).model
  const added = (files.tokenizer as { added_tokens: { id: number; content: string; special: boolean }[] }).added_tokens
  const tokens: string[] = []
  for (const [token, at] of Object.entries(vocab)) tokens[at] = token
  for (const { id, content } of added) tokens[id] = content
  const u32 = (x: number) => ({ u32: x })
  return {
    metadata: {
      'general.architecture': arch,
      'general.name': 'tiny',
      [`${arch}.block_count`]: u32(config.layers),
      [`${arch}.context_length`]: u32(config.maxPositions),
      [`${arch}.embedding_length`]: u32(config.hidden),
      [`${arch}.feed_forward_length`]: u32(config.intermediate),
      [`${arch}.attention.head_count`]: u32(config.heads),
      [`${arch}.attention.head_count_kv`]: u32(config.kvHeads),
      [`${arch}.attention.key_length`]: u32(config.headDim),
      [`${arch}.attention.value_length`]: u32(config.headDim),
      [`${arch}.attention.layer_norm_rms_epsilon`]: { f32: config.normEpsilon },
      [`${arch}.rope.freq_base`]: { f32: config.ropeTheta },
      'tokenizer.ggml.model': 'gpt2',
      'tokenizer.ggml.pre': arch === 'llama' ? 'llama-bpe' : 'qwen2',
      'tokenizer.ggml.tokens': { strings: tokens },
      'tokenizer.ggml.token_type': {
        i32s: tokens.map((token) => {
          const known = added.find(({ content }) => content === token)
          return known ? (known.special ? 3 : 4) : 1
        }),
      },
      'tokenizer.ggml.merges': { strings: merges.map((merge) => (typeof merge === 'string' ? merge : merge.join(' '))) },
      'tokenizer.ggml.eos_token_id': u32(source.stopTokens[0]),
      ...(specials.bos_token ? { 'tokenizer.ggml.bos_token_id': u32(id(specials.bos_token)!) } : {}),
      'tokenizer.chat_template': files.template!,
    },
    tensors: [...source.tensors].map(([hubName, { tensor }]) => {
      const data = tensor.read()
      const [rows, columns = 1] = tensor.shape
      const heads =
        arch === 'llama' && hubName.includes('q_proj') ? config.heads : arch === 'llama' && hubName.includes('k_proj') ? config.kvHeads : 0
      return {
        name: names.reduce((name, [from, to]) => name.replace(from, to), hubName),
        shape: tensor.shape,
        data: heads ? interleave(data, heads, rows, columns) : data,
      }
    }),
  }
}

/** A quantised GGUF file's metadata and tensors, to be written in float32. */
export const expanded = (file: string): [Record<string, Value>, Tensor[]] => {
  const { metadata, tensors } = openGguf(file)
  const value = (key: string, v: unknown): Value => {
    if (typeof v === 'string' || typeof v === 'boolean') return v
    if (typeof v === 'number') return /freq_base|epsilon/.test(key) ? { f32: v } : { u32: v }
    return Array.isArray(v) ? { strings: v as string[] } : { i32s: [...(v as Int32Array)] }
  }
  const kept = [...metadata].filter(([key]) => key !== 'general.file_type')
  return [
    Object.fromEntries(kept.map(([key, v]) => [key, value(key, v)])),
    [...tensors].map(([name, { shape, read }]) => ({ name, shape, data: read() })),
  ]
}
