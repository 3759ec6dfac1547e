import { expect, test } from 'vitest'
import { hubConfig } from '../../../src/train/model/hubConfig.js'
import { InputError } from '../../../src/util/errors.js'

const llama = {
  architectures: ['LlamaForCausalLM'], model_type: 'llama', vocab_size: 384, hidden_size: 64, intermediate_size: 112, num_hidden_layers: 2,
  num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 512, rms_norm_eps: 1e-5, rope_theta: 5e5, hidden_act: 'silu',
}
const read = (changes: object) => hubConfig({ ...llama, ...changes }, 'config.json')

test('both generations of keys say the same', () => {
  const llama3 = { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 }
  const { rope_theta, ...rest } = llama
  const older = read({ rope_scaling: { rope_type: 'llama3', ...llama3 }, torch_dtype: 'bfloat16' })
  expect(hubConfig({ ...rest, rope_parameters: { rope_type: 'llama3', rope_theta, ...llama3 }, dtype: 'bfloat16' }, 'config.json')).toEqual(
    older,
  )
  expect(older).toMatchObject({
    vocabulary: 384, hidden: 64, layers: 2, heads: 4, kvHeads: 2, headDim: 16, ropeTheta: 5e5, qkNorm: false, qkvBias: false, tied: false,
  })
})

test('scaled frequencies', () => {
  expect(read({ rope_scaling: { type: 'linear', factor: 4 } }).ropeFactors).toEqual(Array(8).fill(4))
  // Wavelengths in positions at θ = 500 000 and headDim 16: 2π · 500 000^(i/8) = 6.3, 32, 167, 863, 4443, 22 923, 118 253, 609 991.
  const { ropeFactors } = read({
    rope_scaling: { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
  })
  expect(ropeFactors!.slice(0, 4)).toEqual([1, 1, 1, 1])
  expect(ropeFactors!.slice(5)).toEqual([8, 8, 8])
  const smooth = (8192 / (2 * Math.PI * 5e5 ** (4 / 8)) - 1) / 3
  expect(1 / ropeFactors![4]).toBeCloseTo((1 - smooth) / 8 + smooth, 12)
  expect(read({}).ropeFactors).toBeUndefined()
})

test('families differ in their biases and norms', () => {
  expect(read({ attention_bias: true, mlp_bias: true, tie_word_embeddings: true })).toMatchObject({
    qkvBias: true,
    outBias: true,
    mlpBias: true,
    tied: true,
  })
  expect(read({ architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2', sliding_window: 32, use_sliding_window: false })).toMatchObject({
    qkvBias: true,
    outBias: false,
  })
  expect(read({ architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', head_dim: 20, layer_types: ['full_attention'] })).toMatchObject({
    qkNorm: true,
    qkvBias: false,
    headDim: 20,
  })
})

test('fields without effect are read over', () => {
  expect(
    read({
      torch_dtype: 'float16', transformers_version: '4.1', use_cache: true, rope_interleaved: false, is_llama_config: true, pretraining_tp:
      1, bos_token_id: 1,
      'transformers.js_config': { kv_cache_dtype: {} },
      quantization_config: null,
      pruned_heads: {},
      attention_dropout: 0.0,
    }),
  ).toEqual(read({}))
})

test.each<[object, string]>([
  [{ model_type: 'mistral' }, 'config.json: model_type: holds "mistral"'],
  [
    { architectures: ['LlamaForSequenceClassification'] },
    'config.json: architectures: holds ["LlamaForSequenceClassification"]; LlamaForCausalLM is supported',
  ],
  [{ hidden_act: 'gelu' }, 'config.json: hidden_act: holds "gelu"; only "silu" is supported'],
  [{ attention_dropout: 0.1 }, 'config.json: attention_dropout: holds 0.1; only 0 is supported'],
  [{ use_sliding_window: true }, 'config.json: use_sliding_window: holds true'],
  [{ layer_types: ['full_attention', 'sliding_attention'] }, 'config.json: layer_types[1]: holds "sliding_attention"'],
  [{ quantization_config: { bits: 4 } }, 'config.json: quantization_config: holds {"bits":4}; the field is not known here'],
  [{ auto_map: { AutoModel: 'x--y.Z' } }, 'config.json: auto_map: holds'],
  [{ embedding_multiplier: 12 }, 'config.json: embedding_multiplier: holds 12; the field is not known here'],
  [{ no_rope_layers: [1, 0] }, 'config.json: no_rope_layers: holds [1,0]'],
  [{ partial_rotary_factor: 0.5 }, 'config.json: partial_rotary_factor: holds 0.5; only 1'],
  [
    { rope_parameters: { rope_type: 'default', partial_rotary_factor: 0.25 } },
    'config.json: rope_parameters.partial_rotary_factor: holds 0.25',
  ],
  [{ rope_scaling: { rope_type: 'yarn', factor: 4 } }, 'config.json: rope_scaling: rope_type: holds "yarn"'],
  [{ rope_scaling: { rope_type: 'llama3', factor: 4 } }, 'config.json: rope_scaling: low_freq_factor: missing'],
  [{ rope_scaling: { type: 'linear', factor: 4, attention_factor: 2 } }, 'config.json: rope_scaling: unknown key "attention_factor"'],
  [{ rope_theta: -1 }, 'config.json: rope_theta'],
  [{ model_type: 'qwen2', architectures: undefined, attention_bias: false }, 'config.json: attention_bias: holds false'],
  [{ model_type: 'qwen3', architectures: undefined, mlp_bias: true }, 'config.json: mlp_bias: holds true'],
  [{ num_key_value_heads: 3 }, 'config.json: num_key_value_heads: holds 3; a divisor of num_attention_heads, 4, is needed'],
  [{ num_attention_heads: 0 }, 'config.json: num_attention_heads: holds 0'],
  [{ hidden_size: 65 }, 'config.json: head_dim: is hidden_size / num_attention_heads, 16.25; an even number is needed'],
  [{ hidden_size: 1e12 }, 'config.json: hidden_size: holds 1000000000000'],
])('%j is refused by name and value', (changes, message) => {
  expect(() => read(changes)).toThrow(InputError)
  expect(() => read(changes)).toThrow(message)
})
