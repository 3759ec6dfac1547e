/** Models and adapters as folders that `transformers` and `peft` load. */
import { copyFileSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { InputError } from '../../util/errors.js'
import { makeFolder, readJson, writableFolder, writeAtomic } from '../../util/files.js'
import type { DecoderConfig } from './config.js'
import { dtypes, type Dtype } from './dtypes.js'
import { hubAdapterTensors, hubTensors, toHub } from './hub.js'
import { hubConfigOf } from './hubConfig.js'
import { loraLayout, type LoraConfig } from './layout.js'
import { peftName } from './projections.js'
import { writeTensors, type StoredType } from './safetensors.js'
import type { ModelSource } from './source.js'
import type { TokenizerFiles } from './tokenizer.js'

/** An adapter's parameters, in the order of its layout. */
export interface AdapterValues {
  readonly lora: LoraConfig
  readonly values: Float32Array
}

/**
 * Write a PEFT adapter: adapter_config.json and adapter_model.safetensors.
 *
 * @param base what the adapter is for: the name or path that `base_model_name_or_path` gets
 * @throws InputError when the folder exists and is not empty, or cannot be written; nothing half-written stays
 */
export const writeAdapter = (folder: string, config: DecoderConfig, { lora, values }: AdapterValues, base: string): void =>
  intoFolder(folder, (at) => {
    const layout = loraLayout(config, lora)
    const tensors = hubAdapterTensors(config, lora).map((part) => ({
      name: part.hub,
      shape: part.shape,
      dtype: 'F32' as const,
      read: () => toHub(part, layout, values).data,
    }))
    writeJson(join(at, 'adapter_config.json'), {
      peft_type: 'LORA',
      task_type: 'CAUSAL_LM',
      base_model_name_or_path: base,
      r: lora.rank,
      lora_alpha: lora.alpha,
      lora_dropout: lora.dropout ?? 0,
      target_modules: lora.targets.map(peftName),
      bias: 'none',
      fan_in_fan_out: false,
      use_rslora: false,
      use_dora: false,
      rank_pattern: {},
      alpha_pattern: {},
      modules_to_save: null,
      init_lora_weights: true,
      inference_mode: true,
    })
    writeTensors(join(at, 'adapter_model.safetensors'), tensors, { format: 'pt' })
  })

const stored: Readonly<Record<Dtype, StoredType>> = { float32: 'F32', float16: 'F16', bfloat16: 'BF16' }

/** Files of a Hugging Face folder that go along with its weights unchanged. */
const companions = [
  'generation_config.json', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'special_tokens_map.json',
  'added_tokens.json', 'vocab.json', 'merges.txt', 'tokenizer.model', 'LICENSE',
]

/**
 * Write a model, with an adapter's product added to its weights: W + (α/r) B A. One tensor is in memory at a time.
 *
 * @param dtype how the weights are stored; default: as the model's are, and float32 for one that is quantised
 * @throws InputError when the folder exists and is not empty, cannot be written, or the model's weights cannot be read; nothing
 *   half-written stays
 */
export const writeMerged = (folder: string, source: ModelSource, adapter?: AdapterValues, dtype: Dtype = storedDtype(source)): void =>
  intoFolder(folder, (at) => {
    const { config, tensors } = source
    const layout = adapter && loraLayout(config, adapter.lora)
    const pieces = new Map(adapter ? hubAdapterTensors(config, adapter.lora).map((part) => [part.hub, part]) : [])
    const pending = hubTensors(config).map(({ hub: name, shape }) => {
      const module = `base_model.model.${name.replace(/\.weight$/, '')}`
      const [a, b] = ['lora_A', 'lora_B'].map((kind) => pieces.get(`${module}.${kind}.weight`))
      const read = (): Float32Array => {
        const weights = tensors.get(name)!.tensor.read()
        if (!adapter || !layout || !a || !b) return weights
        return addProduct(weights, toHub(b, layout, adapter.values).data, toHub(a, layout, adapter.values).data, adapter.lora)
      }
      return { name, shape, dtype: stored[dtype], read }
    })
    writeTensors(join(at, 'model.safetensors'), pending, { format: 'pt' })
    if (source.format === 'folder') copyCompanions(source.path, at, dtype)
    else writeCompanions(at, source, dtype)
  })

/** W + (α/r) B A, in float64. @param weights [out, in] @param b [out, r] @param a [r, in] */
const addProduct = (weights: Float32Array, b: Float32Array, a: Float32Array, { rank, alpha }: LoraConfig): Float32Array => {
  const [rows, columns] = [b.length / rank, a.length / rank]
  const merged = new Float32Array(weights.length)
  const row = new Float64Array(columns)
  for (let o = 0; o < rows; o++) {
    row.fill(0)
    for (let k = 0; k < rank; k++) {
      const factor = (alpha / rank) * b[o * rank + k]
      for (let i = 0; i < columns; i++) row[i] += factor * a[k * columns + i]
    }
    for (let i = 0; i < columns; i++) merged[o * columns + i] = weights[o * columns + i] + row[i]
  }
  return merged
}

const storedDtype = ({ tensors }: ModelSource): Dtype => {
  const kinds = new Set([...tensors.values()].map(({ tensor }) => tensor.dtype))
  return dtypes.find((dtype) => kinds.size === 1 && kinds.has(stored[dtype])) ?? 'float32'
}

const copyCompanions = (from: string, to: string, dtype: Dtype): void => {
  const config = readJson(join(from, 'config.json')) as Record<string, unknown>
  const key = 'dtype' in config ? 'dtype' : 'torch_dtype'
  writeJson(join(to, 'config.json'), { ...config, [key]: dtype })
  for (const name of companions) if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name))
}

/** What a Hugging Face folder says beside its weights, of a model from elsewhere. */
const writeCompanions = (to: string, source: ModelSource, dtype: Dtype): void => {
  const tokenizer = source.tokenizer()
  const bos = tokenizer.id(tokenizer.specials.bos_token ?? '')
  writeJson(join(to, 'config.json'), hubConfigOf(source.config, { dtype, bos, stopTokens: source.stopTokens }))
  writeJson(join(to, 'generation_config.json'), { bos_token_id: bos ?? null, eos_token_id: source.stopTokens })
  writeTokenizer(to, tokenizer.files)
}

const writeTokenizer = (to: string, { tokenizer, config, template }: TokenizerFiles): void => {
  writeJson(join(to, 'tokenizer.json'), tokenizer)
  writeJson(join(to, 'tokenizer_config.json'), config)
  if (template !== undefined) writeAtomic(join(to, 'chat_template.jinja'), template)
}

const writeJson = (file: string, value: unknown): void => writeAtomic(file, `${JSON.stringify(value, null, 2)}\n`)

/**
 * Fill a folder under a temporary name, and give it its own when it is complete.
 *
 * @throws InputError when there is something in its place, or the folder above it cannot be made or written
 */
const intoFolder = (folder: string, fill: (at: string) => void): void => {
  const target = resolve(folder)
  if (existsSync(target) && (!isFolder(target) || readdirSync(target).length > 0)) {
    throw new InputError(`${folder}: exists and is not empty; a new folder is needed`)
  }
  writableFolder(dirname(target))
  const temporary = join(dirname(target), `.${basename(target)}.${process.pid}.tmp`)
  try {
    rmSync(temporary, { recursive: true, force: true })
    makeFolder(temporary)
    fill(temporary)
    rmSync(target, { recursive: true, force: true })
    renameSync(temporary, target)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

const isFolder = (path: string): boolean => {
  try {
    readdirSync(path)
    return true
  } catch {
    return false
  }
}
