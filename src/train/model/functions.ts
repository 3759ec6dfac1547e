/**
 * The decoder's functions with their derivatives written out: a small model's step costs its number of tensor operations,
 * and a derivative by hand takes about half as many as one composed of those of its parts.
 * Each is checked against finite differences in test/train/model/functions.test.ts.
 */
import { tf } from '../backend.js'

/** `tf.customGrad`, applied and typed: f gives the value of its inputs, and from the value's gradient those of the inputs. `save` keeps tensors for that. */
const withGradient = <I extends tf.Tensor[], O extends tf.Tensor>(
  inputs: [...I],
  f: (inputs: I, save: (tensors: tf.Tensor[]) => void) => { value: O; gradFunc: (dy: O, saved: tf.Tensor[]) => tf.Tensor | tf.Tensor[] },
): O =>
  tf.customGrad((...args) => f(args.slice(0, -1) as I, args.at(-1) as unknown as (tensors: tf.Tensor[]) => void))(...inputs) as O

/**
 * RMSNorm over the last axis: y = w ⊙ x̂, x̂ = x·r, r = (mean(x²) + ε)^−½.
 *   dw = Σ dy ⊙ x̂      dx = r (w ⊙ dy − x̂ · mean(w ⊙ dy ⊙ x̂))
 *
 * @param x [N, d]
 * @param weight [d]
 */
export const rmsNorm = (x: tf.Tensor2D, weight: tf.Tensor1D, epsilon: number): tf.Tensor2D =>
  withGradient([x, weight], ([x, weight], save) => {
    const r = tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), epsilon))
    const normal = tf.mul(x, r)
    save([normal, r, weight])
    return {
      value: tf.mul(normal, weight) as tf.Tensor2D,
      gradFunc: (dy, [normal, r, weight]: tf.Tensor[]) => {
        const both = tf.mul(dy, normal)
        const along = tf.matMul(both as tf.Tensor2D, tf.reshape(tf.div(weight, weight.size), [-1, 1]))
        return [tf.mul(r, tf.sub(tf.mul(dy, weight), tf.mul(normal, along))), tf.sum(both, 0)]
      },
    }
  })

/**
 * SwiGLU: y = silu(g) ⊙ u with [g | u] = x and silu(g) = g·σ(g).
 *   du = dy ⊙ silu(g)      dg = dy ⊙ u ⊙ (σ + silu(g)(1 − σ))
 *
 * @param x [N, 2f] → [N, f]
 */
export const swiglu = (x: tf.Tensor2D): tf.Tensor2D =>
  withGradient([x], ([x], save) => {
    const [gate, up] = tf.split(x, 2, 1)
    const sigma = tf.sigmoid(gate)
    const silu = tf.mul(gate, sigma)
    save([up, sigma, silu])
    return {
      value: tf.mul(silu, up) as tf.Tensor2D,
      gradFunc: (dy, [up, sigma, silu]: tf.Tensor[]) =>
        tf.concat([tf.mul(tf.mul(dy, up), tf.add(sigma, tf.sub(silu, tf.mul(silu, sigma)))), tf.mul(dy, silu)], 1),
    }
  })

/** GELU in its tanh form: ½x (1 + tanh(√(2/π)(x + 0.044715 x³))). */
export const gelu = (x: tf.Tensor2D): tf.Tensor2D =>
  tf.mul(tf.mul(x, 0.5), tf.add(tf.tanh(tf.mul(tf.add(x, tf.mul(tf.mul(tf.square(x), x), 0.044715)), Math.sqrt(2 / Math.PI))), 1))

/** What rotary positions multiply with: x ⊙ cos + (x·turn) ⊙ sin, where x·turn = (−x₂, x₁) swaps the halves of a head. */
export interface Rotation {
  /** [heads, T, headDim], or anything else that broadcasts with [B, heads, T, headDim]. */
  readonly cos: tf.Tensor
  readonly sin: tf.Tensor
  /** [headDim, headDim]. */
  readonly turn: tf.Tensor2D
}

/** x·turn, as one product of two matrices. */
const turned = (x: tf.Tensor, turn: tf.Tensor2D, back = false): tf.Tensor =>
  tf.reshape(tf.matMul(tf.reshape(x, [-1, turn.shape[0]]) as tf.Tensor2D, turn, false, back), x.shape)

/** @param x [B, heads, T, headDim] */
export const rotate = (x: tf.Tensor, { cos, sin, turn }: Rotation): tf.Tensor => tf.add(tf.mul(x, cos), tf.mul(turned(x, turn), sin))

/** The transpose of `rotate`: its derivative. */
const rotateBack = (dy: tf.Tensor, { cos, sin, turn }: Rotation): tf.Tensor => tf.add(tf.mul(dy, cos), turned(tf.mul(dy, sin), turn, true))

/**
 * Grouped-query attention: o = softmax(q kᵀ + mask) v.
 *   dv = pᵀ do      ds = p ⊙ (do vᵀ − Σ do ⊙ o)      dq = ds k      dk = dsᵀ q
 * The H/K query heads of a group are stacked along time, so a group is one matrix product.
 *
 * @param heads [B, H + 2K, T, headDim]: queries, keys and values, before rotation
 * @param rotation leaves the values as they are, and carries the scale 1/√headDim of the scores on the queries
 * @param mask [H/K · T, T], added to the scores
 * @returns [B, H, T, headDim]
 */
export const attention = (heads: tf.Tensor4D, kvHeads: number, rotation: Rotation, mask: tf.Tensor2D): tf.Tensor4D => {
  const [B, all, T, headDim] = heads.shape
  const K = kvHeads
  const H = all - 2 * K
  return withGradient([heads], ([heads], save) => {
    const [queries, k, v] = tf.split(rotate(heads, rotation), [H, K, K], 1)
    const q = grouped(queries as tf.Tensor4D, K)
    const p = tf.softmax(tf.add(tf.matMul(q, k, false, true), mask))
    const o = tf.matMul(p, v)
    save([q, k, v, p, o, rotation.cos, rotation.sin, rotation.turn])
    return {
      value: tf.reshape(o, [B, H, T, headDim]) as tf.Tensor4D,
      gradFunc: (dy, [q, k, v, p, o, cos, sin, turn]: tf.Tensor[]) => {
        const d = grouped(dy, K)
        const ds = tf.mul(p, tf.sub(tf.matMul(d, v, false, true), tf.sum(tf.mul(d, o), -1, true)))
        const dq = tf.reshape(tf.matMul(ds, k), [B, H, T, headDim])
        return rotateBack(tf.concat([dq, tf.matMul(ds, q, true), tf.matMul(p, d, true)], 1), { cos, sin, turn: turn as tf.Tensor2D })
      },
    }
  })
}

/** [B, H, T, headDim] → [B, K, H/K · T, headDim]: the query heads that read the same key-value head, one after the other. */
export const grouped = (q: tf.Tensor4D, K: number): tf.Tensor4D => {
  const [B, H, T, headDim] = q.shape
  return H === K ? q : tf.reshape(q, [B, K, (H / K) * T, headDim])
}

/**
 * Entry (m, picks[m]) of each row, without a one-hot matrix in the forward pass.
 *
 * @param x [M, V]
 * @param picks [M, 2] int32: (m, column)
 * @returns [M]
 */
export const markedLogProbs = (x: tf.Tensor2D, picks: tf.Tensor2D): tf.Tensor1D =>
  withGradient([x], ([x], save) => {
    save([picks])
    return { value: tf.gatherND(x, picks) as tf.Tensor1D, gradFunc: (dy, [picks]) => tf.scatterND(picks, dy, x.shape) }
  })

/**
 * Rows of a table; backward sums the rows' gradients.
 *
 * @param table [V, d]
 * @param rows [N] int32
 * @returns [N, d]
 */
export const lookUp = (table: tf.Tensor2D, rows: tf.Tensor1D): tf.Tensor2D =>
  withGradient([table], ([table], save) => {
    save([rows])
    return { value: tf.gather(table, rows), gradFunc: (dy, [rows]) => tf.unsortedSegmentSum(dy, rows as tf.Tensor1D, table.shape[0]) }
  })
