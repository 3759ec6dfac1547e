/**
 * config.json and generation_config.json of the families that the decoder covers: Llama, Qwen2, Qwen3. A field that changes the
 * mathematics is never ignored: each is read, or has to hold the one value that is computed here, or is known to be without effect;
 * anything else is refused by name.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import { readJson } from '../../util/files.js'
import { show, validate } from '../../util/validate.js'
import { decoderSchema, type DecoderConfig } from './config.js'
import { dtypes, type Dtype } from './dtypes.js'

/** What is computed of scaled rotary positions. */
const scalingSchema = z.discriminatedUnion('rope_type', [
  z.strictObject({ rope_type: z.literal('default') }),
  z.strictObject({ rope_type: z.literal('linear'), factor: z.number().positive() }),
  z.strictObject({
    rope_type: z.literal('llama3'),
    factor: z.number().min(1),
    low_freq_factor: z.number().positive(),
    high_freq_factor: z.number().positive(),
    original_max_position_embeddings: z.number().positive(),
  }),
], { error: 'expected default, linear or llama3' })
type Scaling = z.output<typeof scalingSchema>

const fields = z.record(z.string(), z.unknown())
const size = z.int().min(1).max(2 ** 20)

/** What is read. Both generations of keys: transformers 4 writes rope_theta and rope_scaling, 5 writes rope_parameters. */
const hubShape = {
  model_type: z.enum(['llama', 'qwen2', 'qwen3']),
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  max_position_embeddings: z.int().min(1).max(2 ** 24),
  rms_norm_eps: z.number().positive(),
  rope_theta: z.number().nullish(),
  rope_scaling: fields.nullish(),
  rope_parameters: fields.nullish(),
  attention_bias: z.boolean().nullish(),
  mlp_bias: z.boolean().nullish(),
  tie_word_embeddings: z.boolean().nullish(),
  layer_types: z.array(z.literal('full_attention')).nullish(),
  use_sliding_window: z.literal(false).nullish(),
  // With these two, sliding_window and max_window_layers say nothing.
  sliding_window: z.unknown().optional(),
  max_window_layers: z.unknown().optional(),
}
const hubSchema = z.looseObject(hubShape)

/** Fields that have to hold one of these values, where they are: what is computed here. */
const only: Readonly<Record<string, readonly unknown[]>> = {
  hidden_act: ['silu'],
  attention_dropout: [0],
  hidden_dropout: [0],
  hidden_dropout_prob: [0],
  pretraining_tp: [1],
  partial_rotary_factor: [1],
  rope_interleaved: [false],
  use_mrope: [false],
  is_llama_config: [true],
  is_encoder_decoder: [false],
  add_cross_attention: [false],
  chunk_size_feed_forward: [0],
  output_attentions: [false],
  output_hidden_states: [false],
  torch_dtype: dtypes,
  dtype: dtypes,
}

/** Fields that no number depends on: provenance, storage, defaults of generation. */
const harmless = new Set([
  'bos_token_id', 'eos_token_id', 'pad_token_id', 'transformers_version', 'use_cache', 'initializer_range',
  '_name_or_path', 'name_or_path', 'return_dict', 'return_dict_in_generate', 'id2label', 'label2id', 'task_specific_params', 'problem_type',
  'finetuning_task', 'tokenizer_class', 'transformers.js_config', '_attn_implementation', '_attn_implementation_autoset', '_flash_attn_2_enabled',
  'attn_implementation', 'unsloth_fixed', 'unsloth_version', 'keys_to_ignore_at_inference', 'max_length', 'min_length', 'do_sample',
  'temperature', 'top_k', 'top_p', 'typical_p', 'num_beams', 'repetition_penalty', 'length_penalty', 'no_repeat_ngram_size',
  'tie_encoder_decoder',
])

const architectures: Readonly<Record<string, string>> = { llama: 'LlamaForCausalLM', qwen2: 'Qwen2ForCausalLM', qwen3: 'Qwen3ForCausalLM' }

/**
 * The decoder that a folder's config.json describes.
 *
 * @throws InputError naming file, field and value, for anything that would not be computed as it says
 */
export const readHubConfig = (folder: string): DecoderConfig => {
  const file = join(folder, 'config.json')
  return hubConfig(readJson(file), file)
}

/** The same from the file's content. @param file for messages */
export const hubConfig = (content: unknown, file: string): DecoderConfig => {
  const hub = validate(hubSchema, content, file)
  const family = hub.model_type
  refuseUnknown(hub, architectures[family], file)
  if (family !== 'llama' && hub.mlp_bias) throw new InputError(`${file}: mlp_bias: holds true; ${family} models have none`)
  if (family === 'qwen2' && hub.attention_bias === false) {
    throw new InputError(`${file}: attention_bias: holds false; qwen2 models have biases on q, k and v`)
  }
  const { hidden_size: hidden, num_attention_heads: heads, num_key_value_heads: kvHeads } = hub
  const headDim = hub.head_dim ?? hidden / heads
  if (headDim % 2 !== 0) {
    const holds = hub.head_dim ? 'holds' : 'is hidden_size / num_attention_heads,'
    throw new InputError(`${file}: head_dim: ${holds} ${headDim}; an even number is needed`)
  }
  if (kvHeads && heads % kvHeads !== 0) {
    throw new InputError(`${file}: num_key_value_heads: holds ${kvHeads}; a divisor of num_attention_heads, ${heads}, is needed`)
  }
  const { ropeTheta, scaling } = rotary(hub, file)
  return validate(decoderSchema, {
    vocabulary: hub.vocab_size,
    hidden,
    layers: hub.num_hidden_layers,
    heads,
    kvHeads: kvHeads ?? undefined,
    headDim,
    intermediate: hub.intermediate_size,
    maxPositions: hub.max_position_embeddings,
    normEpsilon: hub.rms_norm_eps,
    ropeTheta,
    ropeFactors: ropeFactors(scaling, ropeTheta, headDim),
    qkNorm: family === 'qwen3',
    qkvBias: family === 'qwen2' || !!hub.attention_bias,
    outBias: family !== 'qwen2' && !!hub.attention_bias,
    mlpBias: !!hub.mlp_bias,
    tied: !!hub.tie_word_embeddings,
  }, file)
}

const refuseUnknown = (hub: Readonly<Record<string, unknown>>, architecture: string, file: string): void => {
  for (const [field, value] of Object.entries(hub)) {
    if (value === null || value === undefined || Object.hasOwn(hubShape, field) || harmless.has(field)) continue
    const refuse = (why: string): never => {
      throw new InputError(`${file}: ${field}: holds ${show(value)}; ${why}`)
    }
    if (field === 'architectures') {
      if (!Array.isArray(value) || !value.includes(architecture)) refuse(`${architecture} is supported`)
    } else if (Object.hasOwn(only, field)) {
      if (!only[field].includes(value)) refuse(`only ${only[field].map(show).join(' or ')} is supported`)
    } else if (isEmpty(value)) {
      continue
    } else {
      refuse('the field is not known here and may change what the model computes')
    }
  }
}

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0

/** θ and the scaling, from either generation of keys. */
const rotary = (hub: z.output<typeof hubSchema>, file: string): { ropeTheta: number; scaling: Scaling } => {
  const key = hub.rope_parameters ? 'rope_parameters' : 'rope_scaling'
  const { rope_theta, type, rope_type, partial_rotary_factor = 1, ...rest } = hub[key] ?? {}
  if (partial_rotary_factor !== 1) {
    throw new InputError(`${file}: ${key}.partial_rotary_factor: holds ${show(partial_rotary_factor)}; only 1 is supported`)
  }
  if (typeof rope_theta === 'number' && typeof hub.rope_theta === 'number' && rope_theta !== hub.rope_theta) {
    throw new InputError(`${file}: ${key}.rope_theta: holds ${rope_theta}, and rope_theta holds ${hub.rope_theta}; one value is needed`)
  }
  const ropeTheta = validate(
    z.number().positive(),
    rope_theta ?? hub.rope_theta ?? 10_000,
    `${file}: ${rope_theta ? `${key}.rope_theta` : 'rope_theta'}`,
  )
  return { ropeTheta, scaling: validate(scalingSchema, { rope_type: rope_type ?? type ?? 'default', ...rest }, `${file}: ${key}`) }
}

/**
 * What each rotary frequency is divided by. `llama3`: frequencies whose wavelength exceeds the original context / low_freq_factor by
 * `factor`, those below original context / high_freq_factor by nothing, in between linearly in the frequency.
 */
const ropeFactors = (scaling: Scaling, theta: number, headDim: number): number[] | undefined => {
  if (scaling.rope_type === 'default') return undefined
  const half = Math.floor(headDim / 2)
  if (scaling.rope_type === 'linear') return Array.from({ length: half }, () => scaling.factor)
  const { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: context } = scaling
  return Array.from({ length: half }, (_, i) => {
    const turns = (context * theta ** (-i / half)) / (2 * Math.PI)
    if (turns < low) return factor
    if (turns > high) return 1
    const smooth = (turns - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)
  })
}

const id = z.int().min(0).max(2 ** 24)
const endSchema = z.looseObject({ eos_token_id: z.union([id, z.array(id)]).nullish() })

/**
 * The tokens that end a message: generation_config.json's, else config.json's; none where neither says.
 *
 * @throws InputError naming file and field
 */
export const readStopTokens = (folder: string): number[] => {
  for (const name of ['generation_config.json', 'config.json']) {
    const file = join(folder, name)
    const ids = existsSync(file) ? validate(endSchema, readJson(file), file).eos_token_id : undefined
    if (ids !== undefined && ids !== null) return [ids].flat()
  }
  return []
}

/** What else a written configuration says. */
export interface HubExtras {
  readonly dtype: Dtype
  readonly bos?: number
  readonly stopTokens: readonly number[]
}

/**
 * The config.json of a decoder, in the older generation of keys, which all versions read. The inverse of `hubConfig`.
 *
 * @throws InputError when no family of the hub has this architecture
 */
export const hubConfigOf = (config: DecoderConfig, { dtype, bos, stopTokens }: HubExtras): Record<string, unknown> => {
  const { qkNorm, qkvBias, outBias, mlpBias } = config
  const family = qkNorm ? 'qwen3' : qkvBias && !outBias ? 'qwen2' : 'llama'
  const fits =
    config.norm === 'rms' &&
    config.positions === 'rotary' &&
    config.mlp === 'swiglu' &&
    (family === 'qwen2' || qkvBias === outBias) &&
    (family === 'llama' || !mlpBias)
  if (!fits) {
    const families = Object.keys(architectures).join(', ')
    throw new InputError(`model: no family of the Hugging Face layout (${families}) has these norms, positions, MLP and biases`)
  }
  return {
    architectures: [architectures[family]],
    model_type: family,
    vocab_size: config.vocabulary,
    hidden_size: config.hidden,
    intermediate_size: config.intermediate,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    hidden_act: 'silu',
    max_position_embeddings: config.maxPositions,
    rms_norm_eps: config.normEpsilon,
    rope_theta: config.ropeTheta,
    rope_scaling: scalingOf(config),
    attention_dropout: 0,
    ...(family === 'qwen2' ? {} : { attention_bias: qkvBias }),
    ...(family === 'llama' ? { mlp_bias: mlpBias } : { use_sliding_window: false }),
    tie_word_embeddings: config.tied,
    torch_dtype: dtype,
    bos_token_id: bos ?? null,
    eos_token_id: stopTokens.length > 1 ? stopTokens : stopTokens[0] ?? null,
    use_cache: true,
  }
}

/** Scalings that GGUF files hold as bare factors: those of the published Llama 3 models. */
const published: readonly Scaling[] = [8, 32].map((factor) => (
  { rope_type: 'llama3', factor, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 }))

/** The scaling that gives a decoder's factors. @throws InputError when it is none of the known ones */
const scalingOf = ({ ropeFactors: factors, ropeTheta, headDim }: DecoderConfig): Scaling | null => {
  if (!factors) return null
  const known = [{ rope_type: 'linear', factor: factors[0] } as const, ...published]
  const found = known.find((scaling) => ropeFactors(scaling, ropeTheta, headDim)!.every((x, i) => Math.abs(x / factors[i] - 1) < 1e-6))
  if (!found) {
    throw new InputError('model: its rotary factors are those of no scaling that a config.json can name here (linear, or that of Llama 3)')
  }
  return found
}
