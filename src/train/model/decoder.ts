/**
 * A decoder-only transformer, from token ids to logits, in one file: embedding, blocks of attention and MLP around a
 * residual stream, final norm, head. The same code is the small model trained from scratch and the Hugging Face families.
 */
import { tf } from '../backend.js'
import type { DecoderConfig } from './config.js'
import { attention, gelu, lookUp, rmsNorm, rotate, swiglu, type Rotation } from './functions.js'

/** Parameters by name (layout.ts), as tensors. */
export type Weights = Record<string, tf.Tensor>

/** Hidden states, one row per token: [B·T, d]. */
type Stream = tf.Tensor2D

/** What attention does with a layer's projected queries, keys and values: causal over the batch, or against a cache. */
type Attend = (qk: tf.Tensor4D, v: tf.Tensor4D, layer: number) => tf.Tensor4D

/**
 * The residual stream after the last block, before the final norm.
 *
 * @param ids [B, T] int32
 * @param positions T positions (all rows alike) or B·T of them; needed by learned positions only
 * @returns [B·T, d]
 */
const trunk = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, positions: () => tf.Tensor1D, attend: Attend): Stream => {
  const [B, T] = ids.shape
  const { heads: H, kvHeads: K, headDim, layers } = config
  const linear = (x: Stream, name: string): Stream => {
    let y = tf.matMul(x, weights[name] as tf.Tensor2D) as Stream
    const { [`${name}.bias`]: bias, [`${name}.loraA`]: a, [`${name}.loraB`]: b } = weights
    if (bias) y = tf.add(y, bias)
    return a ? tf.add(y, tf.matMul(tf.matMul(x, a as tf.Tensor2D, false, true), b as tf.Tensor2D, false, true)) : y
  }
  const normed = (x: Stream, name: string): Stream => norm(config, weights, x, name)

  let x = lookUp(weights.embedding as tf.Tensor2D, tf.reshape(ids, [B * T]))
  if (config.positions === 'learned') x = tf.add(x, lookUp(weights.positions as tf.Tensor2D, positions()))
  for (let l = 0; l < layers; l++) {
    const at = `blocks.${l}`
    const projected = tf.reshape(linear(normed(x, `${at}.attention.norm`), `${at}.attention.qkv`), [B, T, H + 2 * K, headDim])
    const heads = T === 1 ? tf.reshape(projected, [B, H + 2 * K, 1, headDim]) : tf.transpose(projected, [0, 2, 1, 3])
    const [joint, v] = tf.split(heads, [H + K, K], 1) as tf.Tensor4D[]
    const qk = config.qkNorm ? headNorm(config, weights, joint, at) : joint
    const o = attend(qk, v, l)
    const mixed = tf.reshape(T === 1 ? o : tf.transpose(o, [0, 2, 1, 3]), [B * T, H * headDim]) as Stream
    x = tf.add(x, linear(mixed, `${at}.attention.out`))

    const up = linear(normed(x, `${at}.mlp.norm`), `${at}.mlp.up`)
    x = tf.add(x, linear(config.mlp === 'swiglu' ? swiglu(up) : gelu(up), `${at}.mlp.down`))
  }
  return x
}

const norm = ({ norm, normEpsilon }: DecoderConfig, weights: Weights, x: Stream, name: string): Stream => {
  const weight = weights[name] as tf.Tensor1D
  if (norm === 'rms') return rmsNorm(x, weight, normEpsilon)
  return tf.add(rmsNorm(tf.sub(x, tf.mean(x, -1, true)), weight, normEpsilon), weights[`${name}.bias`])
}

/** RMSNorm of each query and key head, with one weight for all query heads and one for all key heads. */
const headNorm = ({ heads: H, kvHeads: K, headDim, normEpsilon }: DecoderConfig, weights: Weights, qk: tf.Tensor4D, at: string): tf.Tensor4D => {
  const each = (x: tf.Tensor, kind: string): tf.Tensor =>
    tf.reshape(rmsNorm(tf.reshape(x, [-1, headDim]), weights[`${at}.attention.${kind}Norm`] as tf.Tensor1D, normEpsilon), x.shape)
  const [q, k] = tf.split(qk, [H, K], 1)
  return tf.concat([each(q, 'query'), each(k, 'key')], 1) as tf.Tensor4D
}

/**
 * Logits at chosen places of right-padded sequences.
 *
 * @param ids [B, T] int32
 * @param places [M] int32: flat places b·T + t
 * @returns [M, V]
 */
export const logits = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, places: tf.Tensor1D): tf.Tensor2D => {
  const [B, T] = ids.shape
  const rotation = rotationAt(config, range(T))
  const mask = causalMask(config, T)
  const x = trunk(config, weights, ids, () => tf.tensor1d(Array.from({ length: B }, () => range(T)).flat(), 'int32'), (qk, v) => attention(qk, v, mask, rotation))
  return head(config, weights, lookUp(x, places))
}

const head = (config: DecoderConfig, weights: Weights, x: Stream): tf.Tensor2D =>
  tf.matMul(norm(config, weights, x, 'norm'), (weights.head ?? weights.embedding) as tf.Tensor2D, false, true)

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** [H/K · T, T]: 0 where a query may read a key, −10⁹ where the key comes later. */
const causalMask = ({ heads, kvHeads }: DecoderConfig, T: number): tf.Tensor2D => {
  const rows = (heads / kvHeads) * T
  const mask = new Float32Array(rows * T)
  for (let r = 0; r < rows; r++) mask.fill(-1e9, r * T + (r % T) + 1, (r + 1) * T)
  return tf.tensor2d(mask, [rows, T])
}

/**
 * The angles of rotary positions, formed in float64, for queries and keys at once; the queries' carry the scale 1/√headDim of attention.
 *
 * @param positions one per time step, the same for every row ([H + K, T, headDim]) …
 * @param perRow … or one per row, for a single time step ([B, H + K, 1, headDim])
 */
const rotationAt = (config: DecoderConfig, positions: readonly number[], perRow = false): Rotation => {
  const { heads: H, kvHeads: K, headDim, ropeTheta } = config
  const half = headDim / 2
  const T = positions.length
  const cos = new Float32Array(T * (H + K) * headDim)
  const sin = new Float32Array(T * (H + K) * headDim)
  const scale = 1 / Math.sqrt(headDim)
  for (let t = 0; t < T; t++) {
    for (let i = 0; i < half; i++) {
      const angle = config.positions === 'rotary' ? positions[t] * ropeTheta ** (-i / half) : 0
      for (let h = 0; h < H + K; h++) {
        const at = (perRow ? t * (H + K) + h : h * T + t) * headDim + i
        cos[at] = cos[at + half] = Math.cos(angle) * (h < H ? scale : 1)
        sin[at] = sin[at + half] = Math.sin(angle) * (h < H ? scale : 1)
      }
    }
  }
  const turn = new Float32Array(headDim * headDim)
  for (let i = 0; i < half; i++) {
    turn[(i + half) * headDim + i] = -1
    turn[i * headDim + i + half] = 1
  }
  const shape = perRow ? [T, H + K, 1, headDim] : [H + K, T, headDim]
  return { cos: tf.tensor(cos, shape), sin: tf.tensor(sin, shape), turn: tf.tensor2d(turn, [headDim, headDim]) }
}

/** Keys and values of all layers so far: [B, K, time, headDim] each. */
export type Cache = { keys: tf.Tensor4D[]; values: tf.Tensor4D[] }

/** Logits after each row's last token [B, V], and the cache up to it. */
export type Read = { logits: tf.Tensor2D; cache: Cache }

/**
 * Read prompts (right-padded) and keep their keys and values.
 *
 * @param ids [B, T] int32
 * @param last [B] int32: flat place of each prompt's last token
 * @returns logits [B, V] after each prompt, and the cache
 */
export const prefill = (config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, last: tf.Tensor1D): Read => {
  const [B, T] = ids.shape
  const rotation = rotationAt(config, range(T))
  const mask = causalMask(config, T)
  const keys: tf.Tensor4D[] = []
  const values: tf.Tensor4D[] = []
  const positions = (): tf.Tensor1D => tf.tensor1d(Array.from({ length: B }, () => range(T)).flat(), 'int32')
  const x = trunk(config, weights, ids, positions, (qk, v) => {
    const [q, k] = tf.split(rotate(qk, rotation), [config.heads, config.kvHeads], 1) as tf.Tensor4D[]
    keys.push(k)
    values.push(v)
    return attend(config, q, k, v, mask)
  })
  return { logits: head(config, weights, lookUp(x, last)), cache: { keys, values } }
}

/**
 * One more token for every row.
 *
 * @param ids [B, 1] int32
 * @param positions of these tokens, one per row
 * @param mask [B, 1, 1, time + 1]: −10⁹ where a row's prompt was padded; absent where none was
 * @returns logits [B, V], and the cache grown by one
 */
export const step = (
  config: DecoderConfig, weights: Weights, ids: tf.Tensor2D, positions: readonly number[], cache: Cache, mask?: tf.Tensor4D,
): Read => {
  const rotation = rotationAt(config, positions, true)
  const keys: tf.Tensor4D[] = []
  const values: tf.Tensor4D[] = []
  const x = trunk(config, weights, ids, () => tf.tensor1d(positions as number[], 'int32'), (qk, v, layer) => {
    const [q, k] = tf.split(rotate(qk, rotation), [config.heads, config.kvHeads], 1) as tf.Tensor4D[]
    keys.push(tf.concat([cache.keys[layer], k], 2))
    values.push(tf.concat([cache.values[layer], v], 2))
    return attend(config, q, keys[layer], values[layer], mask)
  })
  return { logits: head(config, weights, x), cache: { keys, values } }
}

/** softmax(q kᵀ + mask) v, no gradient. @param q [B, H, T, headDim] @returns the same shape */
const attend = ({ heads: H, kvHeads: K }: DecoderConfig, q: tf.Tensor4D, k: tf.Tensor4D, v: tf.Tensor4D, mask?: tf.Tensor): tf.Tensor4D => {
  const [B, , T, headDim] = q.shape
  const grouped = H === K ? q : tf.reshape(q, [B, K, (H / K) * T, headDim])
  const scores = tf.matMul(grouped, k, false, true)
  return tf.reshape(tf.matMul(tf.softmax(mask ? tf.add(scores, mask) : scores), v), q.shape)
}
