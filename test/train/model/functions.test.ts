import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { attention, lookUp, markedLogProbs, pickedLogProbs, recomputed, rmsNorm, swiglu, type Rotation } from '../../../src/train/model/functions.js'
import { random } from '../../../src/util/random.js'
import { engines } from './models.js'

const source = random(11)
const normals = (...shape: number[]): tf.Tensor => tf.tensor(Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => source.normal()), shape)

/** Largest difference of two functions' values and of their derivatives along one random direction of the output, over the largest magnitude. */
const compare = async (ours: (...x: tf.Tensor[]) => tf.Tensor, theirs: (...x: tf.Tensor[]) => tf.Tensor, inputs: tf.Tensor[]): Promise<number> => {
  const dy = normals(...ours(...inputs).shape)
  const both = [ours, theirs].map((f) => [f(...inputs), ...tf.grads((...x) => tf.sum(tf.mul(f(...x), dy)))(inputs)])
  const errors = both[0].map((a, i) => tf.max(tf.abs(tf.sub(a, both[1][i]))).div(tf.max(tf.abs(both[1][i]))))
  return Math.max(...(await Promise.all(errors.map((error) => error.data()))).map(([error]) => error))
}

describe.each(engines)('functions with written-out derivatives, on %s', (name) => {
  beforeAll(async () => {
    await initEngine(name)
  })

  test('rmsNorm is what its parts compute, and so is its derivative', async () => {
    const parts = (x: tf.Tensor, w: tf.Tensor): tf.Tensor => tf.mul(tf.div(x, tf.sqrt(tf.add(tf.mean(tf.square(x), -1, true), 0.1))), w)
    expect(await compare((x, w) => rmsNorm(x as tf.Tensor2D, w as tf.Tensor1D, 0.1), parts, [normals(5, 8), normals(8)])).toBeLessThan(2e-6)
  })

  test('swiglu', async () => {
    const parts = (x: tf.Tensor): tf.Tensor => {
      const [gate, up] = tf.split(x, 2, 1)
      return tf.mul(tf.div(gate, tf.add(1, tf.exp(tf.neg(gate)))), up)
    }
    expect(await compare((x) => swiglu(x as tf.Tensor2D), parts, [normals(5, 8)])).toBeLessThan(2e-6)
  })

  test.each([[4, 4], [4, 2], [4, 1]])('attention of %i query and %i key-value heads', async (H, K) => {
    const [B, T, headDim] = [2, 5, 6]
    const all = H + 2 * K
    const rotation: Rotation = { cos: normals(all, T, headDim), sin: normals(all, T, headDim), turn: normals(headDim, headDim) as tf.Tensor2D }
    const mask = tf.tensor2d(Array.from({ length: (H / K) * T * T }, (_, i) => (i % T > Math.floor(i / T) % T ? -1e9 : 0)), [(H / K) * T, T])
    // Head by head, row by row, with each query head's key-value head looked up.
    const parts = (x: tf.Tensor): tf.Tensor => {
      const turned = tf.add(tf.mul(x, rotation.cos), tf.mul(tf.reshape(tf.matMul(tf.reshape(x, [-1, headDim]), rotation.turn), x.shape), rotation.sin))
      const head = (b: number, h: number): tf.Tensor2D => tf.reshape(tf.slice(turned, [b, h, 0, 0], [1, 1, T, headDim]), [T, headDim])
      const rows = Array.from({ length: B }, (_, b) => tf.stack(Array.from({ length: H }, (_, h) => {
        const group = Math.floor((h * K) / H)
        const scores = tf.add(tf.matMul(head(b, h), tf.transpose(head(b, H + group))), tf.slice(mask, [0, 0], [T, T]))
        return tf.matMul(tf.softmax(scores) as tf.Tensor2D, head(b, H + K + group))
      })))
      return tf.stack(rows)
    }
    expect(await compare((x) => attention(x as tf.Tensor4D, K, rotation, mask), parts, [normals(B, all, T, headDim)])).toBeLessThan(5e-6)
  })

  test('markedLogProbs and lookUp, with repeated rows', async () => {
    const picks = tf.tensor2d([0, 3, 1, 0, 2, 3], [3, 2], 'int32')
    const hot = tf.oneHot(tf.tensor1d([3, 0, 3], 'int32'), 4).toFloat()
    expect(await compare((x) => markedLogProbs(x as tf.Tensor2D, picks), (x) => tf.sum(tf.mul(x, hot), 1), [normals(3, 4)])).toBeLessThan(1e-6)
    const rows = tf.tensor1d([2, 0, 2, 2], 'int32')
    const select = tf.oneHot(rows, 3).toFloat() as tf.Tensor2D
    expect(await compare((x) => lookUp(x as tf.Tensor2D, rows), (x) => tf.matMul(select, x as tf.Tensor2D), [normals(3, 5)])).toBeLessThan(1e-6)
  })

  test.each([10 ** 6, 14, 7, 1])('pickedLogProbs, with room for %i logits at once', async (most) => {
    const [M, V, d] = [5, 7, 3]
    const tokens = [6, 0, 2, 2, 5]
    const picks = tf.tensor2d(tokens.flatMap((token, m) => [m, token]), [M, 2], 'int32')
    const hot = tf.oneHot(tf.tensor1d(tokens, 'int32'), V).toFloat()
    const parts = (h: tf.Tensor, head: tf.Tensor): tf.Tensor => {
      const z = tf.matMul(h as tf.Tensor2D, head as tf.Tensor2D, false, true)
      return tf.sub(tf.sum(tf.mul(z, hot), 1), tf.log(tf.sum(tf.exp(z), 1)))
    }
    const [h, head] = [normals(M, d), normals(V, d)]
    const ours = (h: tf.Tensor, head: tf.Tensor, trained: boolean): tf.Tensor => pickedLogProbs(h as tf.Tensor2D, head as tf.Tensor2D, picks, trained, most)
    expect(await compare((h, head) => ours(h, head, true), parts, [h, head])).toBeLessThan(2e-6)
    expect(await compare((h) => ours(h, head, false), (h) => parts(h, head), [h])).toBeLessThan(2e-6)
    // Everything but the result is freed, with a gradient and without.
    const { numTensors } = tf.memory()
    tf.dispose([ours(h, head, true), ...tf.grads((h, head) => tf.sum(ours(h, head, true)))([h, head])])
    expect(tf.memory().numTensors).toBe(numTensors)
  })

  test('recomputed changes neither a value nor a derivative, also one inside another', async () => {
    const inputs = [normals(3, 4), normals(4, 4)]
    const scale = normals(4)
    const f = ([x, w]: tf.Tensor[], [scale]: tf.Tensor[]): tf.Tensor => tf.mul(tf.tanh(tf.matMul(x as tf.Tensor2D, w as tf.Tensor2D)), scale)
    const twice = (each: typeof f) => (x: tf.Tensor, w: tf.Tensor): tf.Tensor => each([each([x, w], [scale]), w], [scale])
    expect(await compare(twice((inputs, constants) => recomputed(f, inputs, constants)), twice(f), inputs)).toBe(0)
    expect(await compare((x, w) => recomputed(([x, w], [scale]) => twice((inputs, constants) => recomputed(f, inputs, constants))(x, w).mul(scale), [x, w], [scale]),
      (x, w) => twice(f)(x, w).mul(scale), inputs)).toBe(0)
  })
})
