import { mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { compiledByShape, compileGraph, compiles } from '../../src/train/graph.js'
import { random } from '../../src/util/random.js'
import { nativeEngine } from '../native.js'

const source = random(1)
const normals = (...shape: number[]): tf.Tensor => tf.tensor(Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => source.normal()), shape)

/** Several outputs, several outputs of one operation, constants of each type, a reshape, an input that is also an output. */
const f = ([x, w, rows]: tf.Tensor[]): tf.Tensor[] => {
  const [left, right] = tf.split(tf.matMul(x as tf.Tensor2D, w as tf.Tensor2D), 2, 1)
  const shaped = tf.transpose(tf.reshape(tf.add(tf.mul(left, 0.5), tf.tensor1d([1, 2, 3])), [x.shape[0], 3, 1]), [0, 2, 1])
  const kept = tf.where(tf.greater(right, 0), right, tf.zerosLike(right))
  return [tf.softmax(shaped), tf.gather(kept, rows as tf.Tensor1D), tf.concat([x, left], -1), rows]
}

describe.skipIf(!nativeEngine)('compileGraph', () => {
  beforeAll(async () => {
    await initEngine('tensorflow')
  })

  test('a graph computes what its function computes, also for other leading dimensions', async () => {
    expect(compiles()).toBe(true)
    const w = normals(4, 6)
    const rows = tf.tensor1d([1, 0, 1], 'int32')
    const graph = compileGraph(f, [normals(2, 4), w, rows])
    for (const [n, weights] of [[2, w], [5, w], [3, normals(4, 6)]] as const) {
      const inputs = [normals(n, 4), weights, rows]
      const [ours, plain] = [graph(inputs), f(inputs)]
      expect(ours.map(({ shape, dtype }) => [shape, dtype])).toEqual(plain.map(({ shape, dtype }) => [shape, dtype]))
      for (const [i, tensor] of ours.entries()) {
        const expected = await plain[i].data()
        ;(await tensor.data()).forEach((x, k) => expect(Math.abs(x - expected[k])).toBeLessThan(1e-6))
      }
    }
  })

  test('owns nothing but its outputs, and leaves no file', () => {
    const inputs = [normals(2, 4), normals(4, 6), tf.tensor1d([1, 0], 'int32')]
    const { numTensors } = tf.memory()
    process.env.TMPDIR = mkdtempSync(join(tmpdir(), 'teamtr-'))
    const graph = compileGraph(f, inputs)
    expect(readdirSync(process.env.TMPDIR)).toEqual([])
    expect(tf.memory().numTensors).toBe(numTensors)
    expect(tf.tidy(() => graph(inputs)).length).toBe(4)
    expect(tf.memory().numTensors).toBe(numTensors + 4)
  })

  test('a tensor from outside is read where it is, and missed when it is gone', async () => {
    const outside = tf.tensor1d([1, 2])
    const graph = compileGraph(([x]) => [tf.add(x, outside)], [tf.tensor1d([0, 0])])
    expect([...(await graph([tf.tensor1d([10, 20])])[0].data())]).toEqual([11, 22])
    outside.dispose()
    expect(() => graph([tf.tensor1d([10, 20])])).toThrow()
  })

  test('recording ends when the function throws', () => {
    expect(() => compileGraph(() => { throw new Error('no') }, [])).toThrow('no')
    expect(Object.hasOwn(tf.backend(), 'executeSingleOutput')).toBe(false)
  })

  test('compiledByShape compiles shapes that keep coming, and computes the same before and after', async () => {
    let runs = 0
    const run = compiledByShape(([x]) => {
      runs++
      return [tf.mul(tf.reshape(x, [-1]), 2), tf.sum(x)]
    })
    const { numTensors } = tf.memory()
    for (let i = 0; i < 15; i++) {
      for (const n of i < 3 ? [2, 3] : [2]) {
        const x = tf.tensor2d(Float32Array.from({ length: 2 * n }, (_, k) => k + i), [n, 2])
        const [double, sum] = run([x])
        expect([...(await double.data())]).toEqual([...(await x.data())].map((value) => 2 * value))
        expect((await sum.data())[0]).toBe([...(await x.data())].reduce((a, b) => a + b))
        tf.dispose([x, double, sum])
      }
    }
    // Nine plain runs and the recording for one shape, three plain runs for the other.
    expect(runs).toBe(13)
    expect(tf.memory().numTensors).toBe(numTensors)
    run.dispose()
  })
})

test('other engines make no graphs', async () => {
  await initEngine('cpu')
  expect(compiles()).toBe(false)
})
