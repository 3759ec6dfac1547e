/**
 * The decoder's functions with their derivatives written out: a small model's step costs its number of tensor operations,
 * and a derivative by hand takes about half as many as one composed of those of its parts.
 * Each is checked against finite differences in test/train/model/functions.test.ts.
 */
import { tf } from '../backend.js'

/**
 * `tf.customGrad`, applied and typed: f gives the value of its inputs, and from the value's gradient those of the inputs. `save` keeps tensors for
 * that. What the derivative computes on its way is freed at once: tfjs would keep it until all of the backward pass is through.
 */
const withGradient = <I extends tf.Tensor[], O extends tf.Tensor>(
  inputs: [...I],
  f: (inputs: I, save: (tensors: tf.Tensor[]) => void) => { value: O; gradFunc: (dy: O, saved: tf.Tensor[]) => tf.Tensor | tf.Tensor[] },
): O =>
  tf.customGrad((...args) => {
    const { value, gradFunc } = f(args.slice(0, -1) as I, args.at(-1) as unknown as (tensors: tf.Tensor[]) => void)
    return { value, gradFunc: (dy: O, saved: tf.Tensor[]) => tf.tidy(() => gradFunc(dy, saved)) }
  })(...inputs) as O

/**
 * f without what it computes on its way: of f only the inputs are kept, and the backward pass computes f again before it differentiates it.
 *
 * @param f must give the same value both times
 * @param inputs what is differentiated
 * @param constants what else f reads and the caller may dispose meanwhile
 */
export const recomputed = <O extends tf.Tensor>(
  f: (inputs: tf.Tensor[], constants: tf.Tensor[]) => O, inputs: tf.Tensor[], constants: tf.Tensor[],
): O =>
  withGradient(inputs, (inputs, save) => {
    save([...inputs, ...constants])
    return {
      value: f(inputs, constants),
      gradFunc: (dy, saved) =>
        onTapeOfItsOwn(() => tf.grads((...inputs) => f(inputs, saved.slice(inputs.length)))(saved.slice(0, inputs.length), dy)),
    }
  })

/** A gradient inside of a backward pass: tfjs has one tape at a time, and would end with that of the inner one the outer one's too. */
const onTapeOfItsOwn = <T>(run: () => T): T => {
  const { state } = tf.engine() as unknown as { state: { activeTape: unknown } }
  const outer = state.activeTape
  try {
    return run()
  } finally {
    state.activeTape = outer
  }
}

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

/** Logits that `pickedLogProbs` holds at once. */
const MOST_LOGITS = 2 ** 22

/**
 * log softmax(h Wᵀ) at one place of each row, without all rows' logits in memory: a few rows at a time, and none is kept.
 *   dz = (onehot − softmax(z)) ⊙ dy,   z = h Wᵀ      dh = dz W      dW = dzᵀ h
 *
 * @param h [M, d]
 * @param head W, [V, d]
 * @param picks [M, 2] int32: (m, column)
 * @param trained whether W has a gradient
 * @returns [M]
 */
export const pickedLogProbs = (h: tf.Tensor2D, head: tf.Tensor2D, picks: tf.Tensor2D, trained: boolean, most = MOST_LOGITS): tf.Tensor1D => {
  const [M, V] = [h.shape[0], head.shape[0]]
  const rows = Math.max(1, Math.floor(most / V))
  const whole = M <= rows
  const sizes = Array.from({ length: Math.ceil(M / rows) }, (_, i) => Math.min(rows, M - i * rows))
  /** h and picks of a few rows each; the picks count these rows from 0. */
  const chunks = (h: tf.Tensor2D, picks: tf.Tensor2D): [tf.Tensor2D, tf.Tensor2D][] => {
    if (whole) return [[h, picks]]
    const parts = tf.split<tf.Tensor2D>(picks, sizes)
    return tf.split<tf.Tensor2D>(h, sizes).map((part, i) => [part, tf.sub(parts[i], tf.tensor1d([i * rows, 0], 'int32')) as tf.Tensor2D])
  }
  return withGradient<tf.Tensor[], tf.Tensor1D>(trained ? [h, head] : [h], (_, save) => {
    // Where one chunk is all, its result is small enough to be kept.
    const kept: tf.Tensor2D[] = []
    const values = chunks(h, picks).map(([h, picks]) =>
      tf.tidy(() => {
        const logP = tf.logSoftmax(tf.matMul<tf.Tensor2D>(h, head, false, true))
        if (whole) kept.push(tf.keep(logP))
        return tf.gatherND(logP, picks) as tf.Tensor1D
      }))
    save([h, head, picks, ...kept])
    tf.dispose(kept)
    return {
      value: whole ? values[0] : tf.concat(values),
      gradFunc: (dy, [h, head, picks, logP]: tf.Tensor[]) => {
        const dys = whole ? [dy] : tf.split(dy, sizes)
        let dHead: tf.Tensor | undefined
        const dh = chunks(h as tf.Tensor2D, picks as tf.Tensor2D).map(([h, picks], i) => {
          const [part, sum] = tf.tidy(() => {
            const p = logP ? tf.exp(logP) : tf.softmax(tf.matMul(h, head as tf.Tensor2D, false, true))
            const dz: tf.Tensor2D = tf.sub(tf.scatterND(picks, dys[i], [h.shape[0], V]), tf.mul(p, tf.reshape(dys[i], [-1, 1])))
            const part = tf.matMul(dz, head as tf.Tensor2D)
            if (!trained) return [part]
            const own = tf.matMul(dz, h, true)
            return [part, dHead ? tf.add(dHead, own) : own]
          })
          dHead?.dispose()
          dHead = sum
          return part
        })
        return [whole ? dh[0] : tf.concat(dh), ...(dHead ? [dHead] : [])]
      },
    }
  })
}
