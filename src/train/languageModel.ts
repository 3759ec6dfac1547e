/** A pretrained model, with an adapter or without, ready to compute: what the commands `logits`, `generate` and `merge` stand on. */
import { tf } from './backend.js'
import { logits as decoderLogits, type Weights } from './model/decoder.js'
import { adapterPolicy, frozenPolicy } from './model/decoderPolicy.js'
import { readHubAdapter, readHubAdapterConfig } from './model/hub.js'
import { layoutSize, loraLayout, named, slotSize, type LoraConfig } from './model/layout.js'
import { adapterWeights } from './model/lora.js'
import { loadWeights, openModel, type ModelSource } from './model/source.js'
import type { TextTokenizer } from './model/tokenizer.js'
import type { Policy } from './policy.js'

export interface LanguageModel {
  readonly source: ModelSource
  readonly tokenizer: TextTokenizer
  readonly policy: Policy
  /** The adapter's parameters; empty without one. */
  readonly theta: tf.Tensor1D
  /** All weights that the decoder reads, the adapter's included. */
  readonly weights: Weights
  dispose(): void
}

/**
 * @param model as `openModel` takes it
 * @param adapter a PEFT folder: adapter_config.json, adapter_model.safetensors
 * @throws InputError naming file, field or tensor
 */
export const loadModel = (model: string, adapter?: string): LanguageModel => {
  const source = openModel(model)
  const tokenizer = source.tokenizer()
  const { config } = source
  const read = adapter === undefined ? undefined : readAdapter(adapter, source)
  const base = loadWeights(source)
  const theta = tf.tensor1d(read?.values ?? [])
  const own = read ? tf.tidy(() => adapterWeights(config, read.lora, named(theta, loraLayout(config, read.lora)))) : {}
  return {
    source,
    tokenizer,
    policy: read ? adapterPolicy(config, base, read.lora) : frozenPolicy(config, base),
    theta,
    weights: { ...base, ...own },
    dispose: () => tf.dispose([base, own, theta]),
  }
}

/** A PEFT adapter's configuration, and its parameters in the order of its layout. @throws InputError naming file, field or tensor */
export const readAdapter = (folder: string, { config }: Pick<ModelSource, 'config'>): { lora: LoraConfig; values: Float32Array } => {
  const lora = readHubAdapterConfig(folder)
  const slots = [...readHubAdapter(folder, config, lora)]
  const layout = loraLayout(config, lora)
  const values = new Float32Array(layoutSize(layout))
  slots.forEach(({ data }, i) => values.subarray(layout[i].offset, layout[i].offset + slotSize(layout[i])).set(data))
  return { lora, values }
}

export interface Logits {
  readonly ids: readonly number[]
  /** Entry i: log p(ids[i+1] | ids[0..i]), natural, without temperature. One fewer than ids. */
  readonly next_logprobs: readonly number[]
  /** The logits of the whole vocabulary after the last id. */
  readonly last_logits: readonly number[]
}

/** Logits that are held at once. */
const MOST = 2 ** 25

/** What the model says of a sequence of at least one token. Log-probabilities are a float64 log-softmax of the float32 logits. */
export const sequenceLogits = async ({ source: { config }, weights }: LanguageModel, ids: readonly number[]): Promise<Logits> => {
  const V = config.vocabulary
  const rows = Math.max(1, Math.floor(MOST / V))
  const next: number[] = []
  let last: Float32Array = new Float32Array(0)
  for (let from = 0; from < ids.length; from += rows) {
    const places = Array.from({ length: Math.min(rows, ids.length - from) }, (_, i) => from + i)
    const chunk = tf.tidy(() =>
      decoderLogits(config, weights, tf.tensor2d([...ids], [1, ids.length], 'int32'), tf.tensor1d(places, 'int32')),
    )
    const values = (await chunk.data()) as Float32Array
    chunk.dispose()
    places.forEach((place, i) => {
      last = values.subarray(i * V, (i + 1) * V)
      if (place + 1 < ids.length) next.push(logSoftmax(last, ids[place + 1]))
    })
  }
  return { ids, next_logprobs: next, last_logits: Array.from(last) }
}

const logSoftmax = (row: Float32Array, token: number): number => {
  let top = -Infinity
  for (const x of row) top = Math.max(top, x)
  let sum = 0
  for (const x of row) sum += Math.exp(x - top)
  return row[token] - top - Math.log(sum)
}
