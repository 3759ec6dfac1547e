/**
 * Checkpoints in the Hugging Face layout (config.json, safetensors in one file or shards, peft adapters) for the families that the decoder
 * covers: Llama, Qwen2, Qwen3. Their matrices are [out, in] and one per projection; ours are [in, out] and side by side (layout.ts).
 */
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import { readJson } from '../../util/files.js'
import { show, validate } from '../../util/validate.js'
import type { ParameterSlot } from '../policy.js'
import type { DecoderConfig } from './config.js'
import { decoderLayout, linears, loraLayout, slotSize, type LoraConfig } from './layout.js'
import { finite } from './numbers.js'
import { modules, peftName, projections, type Projection } from './projections.js'
import { openSafetensors, type NamedArray, type StoredTensor } from './safetensors.js'

export { readHubConfig } from './hubConfig.js'

/** Where a tensor of a hub file lies in one of our slots. */
export interface Correspondence {
  /** Its name in the file, and shape there. */
  readonly hub: string
  readonly shape: readonly number[]
  readonly slot: string
  /** For a matrix stored [out, in] whose slot is [in, all outs]: its first column there. For a bias: its first element. Else 0. */
  readonly column: number
  readonly transposed: boolean
}

/** Every tensor of a decoder's hub checkpoint. */
export const hubTensors = (config: DecoderConfig): Correspondence[] => {
  const { vocabulary: V, hidden: d, headDim } = config
  const plain = (hub: string, slot: string, shape: number[]) => ({ hub, slot, shape, column: 0, transposed: false })
  const block = (l: number): Correspondence[] => {
    const [hub, slot] = [`model.layers.${l}`, `blocks.${l}`]
    return [
      plain(`${hub}.input_layernorm.weight`, `${slot}.attention.norm`, [d]),
      plain(`${hub}.post_attention_layernorm.weight`, `${slot}.mlp.norm`, [d]),
      ...(config.qkNorm
        ? [
            plain(`${hub}.self_attn.q_norm.weight`, `${slot}.attention.queryNorm`, [headDim]),
            plain(`${hub}.self_attn.k_norm.weight`, `${slot}.attention.keyNorm`, [headDim]),
          ]
        : []),
      ...linears(config).flatMap(({ name, input, outputs, bias }) => {
        let column = 0
        return Object.entries(outputs).flatMap(([output, rows]) => {
          const at = `${hub}.${modules[output as Projection]}`
          const first = column
          column += rows
          return [
            { hub: `${at}.weight`, shape: [rows, input], slot: `${slot}.${name}`, column: first, transposed: true },
            ...(bias ? [{ hub: `${at}.bias`, shape: [rows], slot: `${slot}.${name}.bias`, column: first, transposed: false }] : []),
          ]
        })
      }),
    ]
  }
  return [
    plain('model.embed_tokens.weight', 'embedding', [V, d]),
    plain('model.norm.weight', 'norm', [d]),
    ...(config.tied ? [] : [plain('lm_head.weight', 'head', [V, d])]),
    ...Array.from({ length: config.layers }, (_, l) => block(l)).flat(),
  ]
}

/** Every tensor of a peft adapter on that decoder. */
export const hubAdapterTensors = (config: DecoderConfig, lora: LoraConfig): Correspondence[] =>
  Array.from({ length: config.layers }, (_, l) =>
    linears(config).flatMap(({ name, input, outputs }) => {
      const at = `blocks.${l}.${name}`
      return Object.keys(outputs)
        .filter((output) => lora.targets.includes(output as Projection))
        .flatMap((output, i) => {
          const hub = `base_model.model.model.layers.${l}.${modules[output as Projection]}`
          return [
            {
              hub: `${hub}.lora_A.weight`,
              shape: [lora.rank, input],
              slot: `${at}.loraA`,
              column: i * lora.rank * input,
              transposed: false,
            },
            {
              hub: `${hub}.lora_B.weight`,
              shape: [outputs[output], lora.rank],
              slot: `${at}.loraB.${output}`,
              column: 0,
              transposed: false,
            },
          ]
        })
    })).flat()

/** A matrix [rows, columns] inside an array. */
interface Matrix {
  readonly array: Float32Array
  readonly from: number
  /** Elements from a row to the next. */
  readonly stride: number
}

/** Side of the squares that are copied together: both fit the processor's cache. */
const TILE = 32

/** to[j, i] = from[i, j] for the [rows, columns] of `from`. */
const transpose = (from: Matrix, to: Matrix, rows: number, columns: number): void => {
  for (let r = 0; r < rows; r += TILE) {
    for (let c = 0; c < columns; c += TILE) {
      const [rEnd, cEnd] = [Math.min(rows, r + TILE), Math.min(columns, c + TILE)]
      for (let i = r; i < rEnd; i++)
        for (let j = c; j < cEnd; j++) to.array[to.from + j * to.stride + i] = from.array[from.from + i * from.stride + j]
    }
  }
}

/** Copy a hub tensor's values into those of its slot. */
const fromHub = (
  { shape: [rows, input], column, transposed }: Correspondence,
  slot: ParameterSlot,
  values: Float32Array,
  data: Float32Array,
): void => {
  if (transposed) transpose({ array: values, from: 0, stride: input }, { array: data, from: column, stride: slot.shape[1] }, rows, input)
  else data.set(values, column)
}

/** The hub's tensor out of values laid out by `layout` (parameters, or a gradient in them). */
export const toHub = (part: Correspondence, layout: readonly ParameterSlot[], values: Float32Array): NamedArray => {
  const slot = layout.find(({ name }) => name === part.slot)
  if (!slot) throw new RangeError(`no slot ${part.slot}`)
  const { hub: name, shape, shape: [rows, input], transposed } = part
  const [from, size] = [slot.offset + part.column, slotSize(part)]
  if (!transposed) return { name, shape, data: values.slice(from, from + size) }
  const data = new Float32Array(size)
  transpose({ array: values, from, stride: slot.shape[1] }, { array: data, from: 0, stride: input }, input, rows)
  return { name, shape, data }
}

/** A decoder's parameters (trained, say) as tensors under their hub names. @param values in the order of the decoder's layout */
export const parameterTensors = (config: DecoderConfig, values: Float32Array): Map<string, Located> => {
  const layout = decoderLayout(config)
  return new Map(
    hubTensors(config).map((part) => [
      part.hub,
      { file: 'parameters', tensor: { dtype: 'F32', shape: part.shape, read: () => toHub(part, layout, values).data } },
    ]),
  )
}

/**
 * A folder's weights, slot by slot in the order of the decoder's layout: one slot is in memory at a time.
 *
 * @throws InputError naming the tensor that is missing, has another shape or cannot be read
 */
export const readHubWeights = (folder: string, config: DecoderConfig): Generator<NamedArray> => weightsOf(config, storedTensors(folder))

/** The same out of tensors by their hub names. @throws InputError as `readHubWeights`, and naming a tensor that the model has no use for */
export const weightsOf = (config: DecoderConfig, stored: ReadonlyMap<string, Located>): Generator<NamedArray> => {
  const parts = hubTensors(config)
  refuseOthers(parts, new Map([...stored].filter(([name]) => !name.endsWith('.rotary_emb.inv_freq') && !isTiedHead(name, config, stored))))
  return slotsOf(decoderLayout(config), parts, stored)
}

/** Whether it is a second copy of the embedding, which some tied models store as their head. */
const isTiedHead = (name: string, { tied }: DecoderConfig, stored: ReadonlyMap<string, Located>): boolean => {
  const embedding = stored.get('model.embed_tokens.weight')?.tensor
  if (!tied || name !== 'lm_head.weight' || !embedding) return false
  const { file, tensor } = stored.get(name)!
  const same =
    tensor.shape.join() === embedding.shape.join() &&
    Buffer.compare(Buffer.from(tensor.read().buffer), Buffer.from(embedding.read().buffer)) === 0
  if (!same) {
    throw new InputError(`${file}: tensor "lm_head.weight": differs from the embedding, though tie_word_embeddings says they are one`)
  }
  return true
}

const refuseOthers = (parts: readonly Correspondence[], stored: ReadonlyMap<string, Located>): void => {
  const known = new Set(parts.map(({ hub }) => hub))
  const other = [...stored].find(([name]) => !known.has(name))
  if (other) throw new InputError(`${other[1].file}: tensor ${show(other[0])}: the configuration describes a model without it`)
}

const adapterSchema = z.looseObject({
  peft_type: z.literal('LORA'),
  r: z.int().min(1).max(65536),
  lora_alpha: z.number().positive(),
  lora_dropout: z.number().min(0).lt(1).default(0),
  target_modules: z.array(z.enum(projections.map(peftName))).min(1),
  bias: z.literal('none').default('none'),
  use_dora: z.literal(false).default(false),
  use_rslora: z.boolean().default(false),
  fan_in_fan_out: z.literal(false).default(false),
  rank_pattern: z.record(z.string(), z.number()).default({}),
  alpha_pattern: z.record(z.string(), z.number()).default({}),
  modules_to_save: z.null().default(null),
})

/**
 * Fields of adapter_config.json that no number depends on once an adapter is trained, and those that matter only beside a field that is
 * checked.
 */
const adapterHarmless = new Set([
  'auto_mapping', 'base_model_name_or_path', 'inference_mode', 'init_lora_weights', 'megatron_core', 'peft_version',
  'qalora_group_size', 'revision', 'task_type', 'ensure_weight_tying', 'eva_config', 'corda_config', 'loftq_config', 'lora_ga_config',
  'runtime_config',
])

const isOff = (value: unknown): boolean =>
  value === null || value === undefined || value === false || (typeof value === 'object' && Object.keys(value).length === 0)

/** What an adapter folder's adapter_config.json describes. @throws InputError naming file and field */
export const readHubAdapterConfig = (folder: string): LoraConfig => {
  const file = join(folder, 'adapter_config.json')
  const hub = validate(adapterSchema, readJson(file), file)
  for (const [field, value] of Object.entries(hub)) {
    if (!isOff(value) && !Object.hasOwn(adapterSchema.shape, field) && !adapterHarmless.has(field)) {
      throw new InputError(`${file}: ${field}: holds ${show(value)}; the field is not known here and may change what the adapter computes`)
    }
  }
  for (const field of ['rank_pattern', 'alpha_pattern'] as const) {
    if (Object.keys(hub[field]).length) {
      throw new InputError(`${file}: ${field}: holds ${show(hub[field])}; one rank and alpha for all targets are supported ({})`)
    }
  }
  const targets = projections.filter((p) => hub.target_modules.includes(peftName(p)))
  // peft scales by α/r, and with rslora by α/√r.
  const alpha = hub.use_rslora ? hub.lora_alpha * Math.sqrt(hub.r) : hub.lora_alpha
  return { rank: hub.r, alpha, targets, dropout: hub.lora_dropout }
}

/** An adapter folder's weights, slot by slot in the order of the adapter's layout. @throws InputError as `readHubWeights` */
export const readHubAdapter = (folder: string, config: DecoderConfig, lora: LoraConfig): Generator<NamedArray> => {
  const file = join(folder, 'adapter_model.safetensors')
  const stored = located(file)
  const parts = hubAdapterTensors(config, lora)
  refuseOthers(parts, stored)
  return slotsOf(loraLayout(config, lora), parts, stored)
}

/** A tensor, and the file it lies in. */
export interface Located {
  readonly file: string
  readonly tensor: StoredTensor
}

function* slotsOf(
  layout: readonly ParameterSlot[],
  parts: readonly Correspondence[],
  stored: ReadonlyMap<string, Located>,
): Generator<NamedArray> {
  const bySlot = groupBySlot(parts)
  for (const slot of layout) {
    // What is stored was checked against the file's size, so checking shapes first bounds the allocation.
    const found = (bySlot.get(slot.name) ?? []).map((part) => ({ part, tensor: find(part, stored) }))
    const data = new Float32Array(slotSize(slot))
    for (const { part, tensor } of found) fromHub(part, slot, tensor.read(), data)
    yield { name: slot.name, shape: slot.shape, data }
  }
}

const find = ({ hub, shape }: Correspondence, stored: ReadonlyMap<string, Located>): StoredTensor => {
  const found = stored.get(hub)
  if (!found) {
    const files = new Set([...stored.values()].map(({ file }) => file))
    throw new InputError(`${[...files].join(', ')}: tensor ${show(hub)}: missing; shape [${shape}] is needed`)
  }
  if (found.tensor.shape.join() !== shape.join()) {
    throw new InputError(`${found.file}: tensor ${show(hub)}: has shape [${found.tensor.shape}]; [${shape}] is needed`)
  }
  return found.tensor
}

const groupBySlot = (parts: readonly Correspondence[]): Map<string, Correspondence[]> => {
  const groups = new Map<string, Correspondence[]>()
  for (const part of parts) groups.set(part.slot, [...(groups.get(part.slot) ?? []), part])
  return groups
}

/** All tensors of a folder's weights: model.safetensors, or the shards that model.safetensors.index.json names. */
export const storedTensors = (folder: string): Map<string, Located> => {
  const index = join(folder, 'model.safetensors.index.json')
  if (!existsSync(index)) return located(join(folder, 'model.safetensors'))
  const { weight_map } = validate(z.object({ weight_map: z.record(z.string(), z.string()) }), readJson(index), index)
  const shards = new Map<string, Map<string, Located>>()
  const tensors = new Map<string, Located>()
  for (const [name, shard] of Object.entries(weight_map)) {
    if (basename(shard) !== shard || shard === '..' || shard === '.') {
      throw new InputError(`${index}: weight_map: ${show(name)} is in ${show(shard)}; a file name in the same folder is needed`)
    }
    if (!shards.has(shard)) shards.set(shard, located(join(folder, shard)))
    const found = shards.get(shard)!.get(name)
    if (!found) throw new InputError(`${join(folder, shard)}: tensor ${show(name)}: missing, though ${index} says it is there`)
    tensors.set(name, found)
  }
  return tensors
}

const located = (file: string): Map<string, Located> =>
  new Map([...openSafetensors(file).tensors].map(([name, tensor]) => [
    name,
    { file, tensor: { ...tensor, read: () => finite(tensor.read(), `${file}: tensor ${JSON.stringify(name)}`) } },
  ]))
