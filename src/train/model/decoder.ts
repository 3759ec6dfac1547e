/**
 * A decoder-only transformer, from token ids to logits, in one file: embedding, blocks of attention and MLP around a
 * residual stream, final norm, head. The same code is the small model trained from scratch and the Hugging Face families.
 */
import { tf } from '../backend.js'
import type { DecoderConfig } from './config.js'
import { dropped, type Dropout } from './dropout.js'
import { attention, gelu, grouped, lookUp, recomputed, rmsNorm, rotate, swiglu, type Rotation } from './functions.js'

/** Parameters by name (layout.ts), as tensors. */
export type Weights = Record<string, tf.Tensor>

/** Hidden states, one row per token: [B·T, d]. */
type Stream = tf.Tensor2D

/** What attention does with a layer's queries, keys and values, [B, H + 2K, T, headDim]: causal over the batch, or against a cache. @returns [B, H, T, headDim] */
type Attend = (heads: tf.Tensor4D) => tf.Tensor4D

/**
 * The residual stream after the last block, before the final norm.
 *
 * @param ids [B, T] int32
 * @param positions T positions (all rows alike) or B·T of them; needed by learned positions only
 * @param through a block: x and its layer → x. What it computes on its way is its own to free: of all blocks at once, that is gigabytes
 * @returns [B·T, d]
 */
const trunk = (
  config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, positions: () => tf.Tensor1D, through: (x: Stream, layer: number) => Stream,
): Stream => {
  let x = lookUp(weights.embedding as tf.Tensor2D, tf.reshape(ids, [-1]))
  if (config.positions === 'learned') x = tf.add(x, lookUp(weights.positions as tf.Tensor2D, positions()))
  for (let layer = 0; layer < config.layers; layer++) {
    const before = x
    x = through(before, layer)
    before.dispose()
  }
  return x
}

/**
 * One block: x + attention(norm(x)), and to that its MLP.
 *
 * @param x [B·T, d]
 * @param shape B, T
 * @param dropout of what the adapters read
 */
const block = (
  config: DecoderConfig, weights: Weights, x: Stream, layer: number, [B, T]: readonly [number, number], attend: Attend, dropout?: Dropout,
): Stream => {
  const { heads: H, kvHeads: K, headDim } = config
  const at = `blocks.${layer}`
  const linear = (x: Stream, name: string): Stream => {
    let y = tf.matMul(x, weights[name] as tf.Tensor2D) as Stream
    const { [`${name}.bias`]: bias, [`${name}.loraA`]: a, [`${name}.loraB`]: b } = weights
    if (bias) y = tf.add(y, bias)
    if (!a) return y
    return tf.add(y, tf.matMul(tf.matMul(dropped(x, dropout, name), a as tf.Tensor2D, false, true), b as tf.Tensor2D, false, true))
  }
  const normed = (x: Stream, name: string): Stream => norm(config, weights, x, name)

  const heads = split(linear(normed(x, `${at}.attention.norm`), `${at}.attention.qkv`), [B, T, H + 2 * K, headDim])
  const o = attend(config.qkNorm ? headNorm(config, weights, heads, at) : heads)
  const between = tf.add(x, linear(merge(o), `${at}.attention.out`)) as Stream

  const up = linear(normed(between, `${at}.mlp.norm`), `${at}.mlp.up`)
  return tf.add(between, linear(config.mlp === 'swiglu' ? swiglu(up) : gelu(up), `${at}.mlp.down`))
}

/** Rows of all heads → [B, heads, T, headDim]. */
const split = (x: Stream, [B, T, heads, headDim]: [number, number, number, number]): tf.Tensor4D =>
  T === 1 ? tf.reshape(x, [B, heads, T, headDim]) : tf.transpose(tf.reshape(x, [B, T, heads, headDim]), [0, 2, 1, 3])

/** The way back: [B, heads, T, headDim] → [B·T, heads · headDim]. */
const merge = (o: tf.Tensor4D): Stream => {
  const [B, heads, T, headDim] = o.shape
  return tf.reshape(T === 1 ? o : tf.transpose(o, [0, 2, 1, 3]), [B * T, heads * headDim])
}

const norm = ({ norm, normEpsilon }: DecoderConfig, weights: Weights, x: Stream, name: string): Stream => {
  const weight = weights[name] as tf.Tensor1D
  if (norm === 'rms') return rmsNorm(x, weight, normEpsilon)
  return tf.add(rmsNorm(tf.sub(x, tf.mean(x, -1, true)), weight, normEpsilon), weights[`${name}.bias`])
}

/** RMSNorm of each query and key head, with one weight for all query heads and one for all key heads. */
const headNorm = ({ heads: H, kvHeads: K, headDim, normEpsilon }: DecoderConfig, weights: Weights, heads: tf.Tensor4D, at: string): tf.Tensor4D => {
  const each = (x: tf.Tensor, kind: string): tf.Tensor =>
    tf.reshape(rmsNorm(tf.reshape(x, [-1, headDim]), weights[`${at}.attention.${kind}Norm`] as tf.Tensor1D, normEpsilon), x.shape)
  const [q, k, v] = tf.split(heads, [H, K, K], 1)
  return tf.concat([each(q, 'query'), each(k, 'key'), v], 1) as tf.Tensor4D
}

/** What a pass that is differentiated does otherwise. */
export interface Training {
  /** Names of the weights that are differentiated. */
  readonly trained: readonly string[]
  /** Keep only the input of each block, and compute the block again in the backward pass: less memory for a third more time. */
  readonly recompute: boolean
  readonly dropout?: Dropout
}

/**
 * Hidden states at chosen places of right-padded sequences, after the final norm: what the head reads.
 *
 * @param ids [B, T] int32
 * @param places [M] int32: flat places b·T + t
 * @returns [M, d]
 */
export const states = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, places: tf.Tensor1D, training?: Training): tf.Tensor2D => {
  const [B, T] = ids.shape
  const rotation = rotationAt(config, range(T))
  const through = (x: Stream, layer: number, weights: Weights, { cos, sin, turn }: Rotation, mask: tf.Tensor2D): Stream =>
    tf.tidy(() => block(config, weights, x, layer, [B, T], (heads) => attention(heads, config.kvHeads, { cos, sin, turn }, mask), training?.dropout))
  const mask = causalMask(config, T)
  const x = trunk(config, weights, ids, () => everyRow(B, range(T)), (x, layer) => {
    if (!training?.recompute) return through(x, layer, weights, rotation, mask)
    const names = training.trained.filter((name) => name.startsWith(`blocks.${layer}.`))
    return recomputed(([x, ...own], [cos, sin, turn, mask]) => {
      const all = { ...weights, ...Object.fromEntries(names.map((name, i) => [name, own[i]])) }
      return through(x as Stream, layer, all, { cos, sin, turn: turn as tf.Tensor2D }, mask as tf.Tensor2D)
    }, [x, ...names.map((name) => weights[name])], [rotation.cos, rotation.sin, rotation.turn, mask])
  })
  return norm(config, weights, lookUp(x, places), 'norm')
}

/** Logits at chosen places of right-padded sequences. @returns [M, V] */
export const logits = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, places: tf.Tensor1D): tf.Tensor2D =>
  tf.matMul(states(config, weights, ids, places), headOf(weights), false, true)

/** The matrix from hidden states to logits, [V, d]: the embedding where they are tied. */
export const headOf = (weights: Weights): tf.Tensor2D => (weights.head ?? weights.embedding) as tf.Tensor2D

const head = (config: DecoderConfig, weights: Weights, x: Stream): tf.Tensor2D =>
  tf.matMul(norm(config, weights, x, 'norm'), headOf(weights), false, true)

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** The same positions for each of B rows. */
const everyRow = (B: number, positions: readonly number[]): tf.Tensor1D => tf.tensor1d(Array.from({ length: B }, () => positions).flat(), 'int32')

/** [H/K · T, P + T], T tokens after P others: 0 where a query may read a key, −10⁹ where the key comes later. */
const causalMask = ({ heads, kvHeads }: DecoderConfig, T: number, P = 0): tf.Tensor2D => {
  const [rows, keys] = [(heads / kvHeads) * T, P + T]
  const mask = new Float32Array(rows * keys)
  for (let r = 0; r < rows; r++) mask.fill(-1e9, r * keys + P + (r % T) + 1, (r + 1) * keys)
  return tf.tensor2d(mask, [rows, keys])
}

/**
 * The rotation of rotary positions, for queries, keys and values at once: the queries' carries the scale 1/√headDim, the values' turns nothing.
 * Angles are formed in float64.
 *
 * @param positions of T time steps, the same for every row ([H + 2K, T, headDim]) …
 * @param perRow … or of one time step, one per row ([B, H + 2K, 1, headDim])
 */
const rotationAt = (config: DecoderConfig, positions: readonly number[], perRow = false): Rotation => {
  const { heads: H, kvHeads: K, headDim, ropeTheta, ropeFactors } = config
  const [count, all, half] = [positions.length, H + 2 * K, headDim / 2]
  const rotary = config.positions === 'rotary'
  const frequencies = Float64Array.from({ length: half }, (_, i) => ropeTheta ** (-i / half) / (ropeFactors?.[i] ?? 1))
  const cos = new Float32Array(count * all * headDim)
  const sin = new Float32Array(count * all * headDim)
  const scale = 1 / Math.sqrt(headDim)
  const place = (t: number, h: number): number => (perRow ? t * all + h : h * count + t) * headDim
  for (let t = 0; t < count; t++) {
    for (let i = 0; i < half; i++) {
      const angle = rotary ? positions[t] * frequencies[i] : 0
      const [c, s] = [Math.cos(angle), Math.sin(angle)]
      for (let h = 0; h < H + K; h++) {
        const at = place(t, h) + i
        cos[at] = cos[at + half] = h < H ? c * scale : c
        sin[at] = sin[at + half] = h < H ? s * scale : s
      }
    }
    for (let h = H + K; h < all; h++) cos.fill(1, place(t, h), place(t, h) + headDim)
  }
  const shape = perRow ? [count, all, 1, headDim] : [all, count, headDim]
  return { cos: tf.tensor(cos, shape), sin: tf.tensor(sin, shape), turn: turn(headDim) }
}

/** (x₁, x₂) → (−x₂, x₁) as a matrix to the right of x. */
const turn = (headDim: number): tf.Tensor2D => {
  const half = headDim / 2
  const matrix = new Float32Array(headDim * headDim)
  for (let i = 0; i < half; i++) {
    matrix[(i + half) * headDim + i] = -1
    matrix[i * headDim + i + half] = 1
  }
  return tf.tensor2d(matrix, [headDim, headDim])
}

/** Keys and values of all layers: [B, K, time, headDim] each. */
export type Cache = { keys: tf.Tensor4D[]; values: tf.Tensor4D[] }

/** Logits after each row's last token [B, V], and keys and values up to it. */
export type Read = { logits: tf.Tensor2D; cache: Cache }

/**
 * Read prompts (right-padded) and keep their keys and values.
 *
 * @param ids [B, T] int32
 * @param last [B] int32: flat place of each prompt's last token
 * @param past what is before each prompt: the cache of one row
 * @returns logits [B, V] after each prompt, and the cache, past and prompt
 */
export const prefill = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, last: tf.Tensor1D, past?: Cache): Read => {
  const [B, T] = ids.shape
  const P = past?.keys[0].shape[2] ?? 0
  const positions = range(T).map((t) => P + t)
  const rotation = rotationAt(config, positions)
  const mask = causalMask(config, T, P)
  const after = (past: tf.Tensor4D | undefined, x: tf.Tensor4D): tf.Tensor4D => (past ? tf.concat([tf.tile(past, [B, 1, 1, 1]), x], 2) : x)
  const { x, cache } = reading(config, weights, ids, () => everyRow(B, positions), rotation,
    (kind, layer, x) => after(past?.[kind][layer], x), (q, keys, values) => attend(q, keys, values, mask))
  return { logits: head(config, weights, lookUp(x, last)), cache }
}

/**
 * Through all blocks, without a gradient, with each one's keys and values kept.
 *
 * @param grown keys or values of a layer, with those before them that are kept together with them
 * @param attend q, and the grown keys and values of a layer → o
 */
const reading = (
  config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, positions: () => tf.Tensor1D, rotation: Rotation,
  grown: (kind: keyof Cache, layer: number, x: tf.Tensor4D) => tf.Tensor4D,
  attend: (q: tf.Tensor4D, keys: tf.Tensor4D, values: tf.Tensor4D, layer: number) => tf.Tensor4D,
): { x: Stream; cache: Cache } => {
  const cache: Cache = { keys: [], values: [] }
  const x = trunk(config, weights, ids, positions, (x, layer) => {
    const { after, keys, values } = tf.tidy(() => {
      let [keys, values] = [] as tf.Tensor4D[]
      const after = block(config, weights, x, layer, ids.shape, (heads) => {
        const [q, k, v] = rotated(config, heads, rotation)
        keys = grown('keys', layer, k)
        values = grown('values', layer, v)
        return attend(q, keys, values, layer)
      })
      return { after, keys, values }
    })
    cache.keys.push(keys)
    cache.values.push(values)
    return after
  })
  return { x, cache }
}

/** What a step reads beside the cache: one more token for every row. */
export type Tokens = {
  /** [B, 1] int32. */
  ids: tf.Tensor2D
  /** [B] int32. */
  positions: tf.Tensor1D
  rotation: Rotation
  /** [B or 1, 1, 1, time of the past or 1]: −10⁹ where a row's prompt was padded. */
  mask: tf.Tensor4D
  /** [1, 1, 1, time of what is recent, this token included]: −10⁹ at the first, which is none. */
  recentMask: tf.Tensor4D
}

/**
 * The next tokens of B rows, at their positions in their own texts.
 *
 * @param padded of each row, its prompt's length and what that was padded to; −10⁹ goes between
 */
export const tokensAt = (
  config: DecoderConfig, ids: readonly number[], positions: readonly number[], padded: readonly (readonly [from: number, to: number])[],
  past: Cache, recent: Cache,
): Tokens => {
  const alike = positions.every((position) => position === positions[0])
  return {
    ids: tf.tensor2d(ids as number[], [ids.length, 1], 'int32'),
    positions: tf.tensor1d(positions as number[], 'int32'),
    rotation: alike ? rotationAt(config, positions.slice(0, 1)) : rotationAt(config, positions, true),
    mask: paddingMask(padded, timeOf(past)),
    recentMask: tf.tensor4d(Float32Array.from({ length: timeOf(recent) + 1 }, (_, t) => (t === 0 ? -1e9 : 0)), [1, 1, 1, timeOf(recent) + 1]),
  }
}

const timeOf = ({ keys }: Cache): number => keys[0].shape[2]

const paddingMask = (padded: readonly (readonly [number, number])[], time: number): tf.Tensor4D => {
  if (padded.every(([from, to]) => from === to)) return tf.zeros([1, 1, 1, 1])
  const mask = new Float32Array(padded.length * time)
  padded.forEach(([from, to], b) => mask.fill(-1e9, b * time + from, b * time + to))
  return tf.tensor4d(mask, [padded.length, 1, 1, time])
}

/**
 * What is recent before anything is: one key and value of each layer, that nobody reads. (Engines differ in what they do with empty tensors.)
 * What grows with every token is kept apart from the past, so that a step copies the few recent keys and values and not all.
 */
export const nothingRecent = ({ layers, kvHeads: K, headDim }: DecoderConfig, rows: number): Cache => {
  const each = (): tf.Tensor4D[] => Array.from({ length: layers }, () => tf.zeros([rows, K, 1, headDim]))
  return { keys: each(), values: each() }
}

/** The past with what is recent behind it; both are used up. `nothingRecent` begins anew. */
export const joined = (past: Cache, recent: Cache): Cache => {
  const each = (kind: keyof Cache): tf.Tensor4D[] =>
    past[kind].map((x, layer) => {
      const more = recent[kind][layer]
      const all = tf.tidy(() => tf.concat([x, tf.slice(more, [0, 0, 1, 0])], 2))
      tf.dispose([x, more])
      return all
    })
  return { keys: each('keys'), values: each('values') }
}

/**
 * One more token for every row. A function of tensors alone, that mentions no size but the model's: so it can be compiled (graph.ts).
 *
 * @returns logits [B, V], and what is recent grown by one
 */
export const step = (config: DecoderConfig, weights: Weights, { ids, positions, rotation, mask, recentMask }: Tokens, past: Cache, recent: Cache): Read => {
  const { x, cache } = reading(config, weights, ids, () => positions, rotation,
    (kind, layer, x) => tf.concat([recent[kind][layer], x], 2),
    (q, keys, values, layer) => attendBoth(q, [{ keys: past.keys[layer], values: past.values[layer], mask }, { keys, values, mask: recentMask }]))
  return { logits: head(config, weights, x), cache }
}

/** Queries, keys and values, the first two at their positions. */
const rotated = ({ heads: H, kvHeads: K }: DecoderConfig, heads: tf.Tensor4D, rotation: Rotation): tf.Tensor4D[] =>
  tf.split(rotate(heads, rotation), [H, K, K], 1) as tf.Tensor4D[]

/** softmax(q kᵀ + mask) v without a gradient. @param q [B, H, T, headDim] @returns the same shape */
const attend = (q: tf.Tensor4D, k: tf.Tensor4D, v: tf.Tensor4D, mask: tf.Tensor): tf.Tensor4D => {
  const scores = tf.matMul(grouped(q, k.shape[1]), k, false, true)
  const o = tf.matMul(tf.softmax(tf.add(scores, mask)), v)
  return o.shape[1] === q.shape[1] ? (o as tf.Tensor4D) : tf.reshape(o, q.shape)
}

/**
 * `attend` to two parts as to one, without putting them together: exponentials of both from their common maximum, divided by their common sum.
 *
 * @param q [B, H, 1, headDim]
 */
const attendBoth = (q: tf.Tensor4D, parts: readonly { keys: tf.Tensor4D; values: tf.Tensor4D; mask: tf.Tensor }[]): tf.Tensor4D => {
  const queries = grouped(q, parts[0].keys.shape[1])
  const scores = parts.map(({ keys, mask }) => tf.add(tf.matMul(queries, keys, false, true), mask))
  const [a, b] = scores.map((s) => tf.max(s, -1, true))
  const top = tf.maximum(a, b)
  const weights = scores.map((s) => tf.exp(tf.sub(s, top)))
  const [sumA, sumB] = weights.map((w) => tf.sum(w, -1, true))
  const [oA, oB] = weights.map((w, i) => tf.matMul(w, parts[i].values))
  const o = tf.div(tf.add(oA, oB), tf.add(sumA, sumB))
  return o.shape[1] === q.shape[1] ? (o as tf.Tensor4D) : tf.reshape(o, q.shape)
}
