import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { dropped } from '../../../src/train/model/dropout.js'
import { engines } from './models.js'

describe.each(engines)('dropout on %s', (name) => {
  beforeAll(async () => {
    await initEngine(name)
  })

  test('each element is dropped with its probability, and else divided by the rest (16000 elements, false alarm 1e-4)', async () => {
    const x = tf.fill([4000, 4], 3) as tf.Tensor2D
    const values = [...(await dropped(x, { rate: 0.25, seed: 5 }, 'up').data())]
    expect(new Set(values)).toEqual(new Set([0, 4]))
    const counts = [0, 1, 2, 3].map((column) => values.filter((value, i) => i % 4 === column && value === 0).length)
    // 99.99 % quantile of chi-squared with 4 degrees of freedom.
    expect(counts.reduce((sum, count) => sum + (count - 1000) ** 2 / 750, 0)).toBeLessThan(23.6)
  })

  test('a linear layer of it is, in the mean over seeds, the layer without (every output within 5 standard errors: false alarm 4e-6)', async () => {
    const rate = 0.4
    const x = tf.tensor2d([1, -2, 3, 0.5, 0.25, -1], [2, 3])
    const w = tf.tensor2d([2, 1, -1, 3, 0.5, 1], [3, 2])
    const n = 2000
    const sums = new Float64Array(4)
    for (let seed = 0; seed < n; seed++) {
      const out = tf.tidy(() => tf.matMul(dropped(x, { rate, seed }, 'up'), w))
      ;(await out.data()).forEach((value, i) => (sums[i] += value))
      out.dispose()
    }
    const plain = await tf.matMul(x, w).data()
    // Var Σ x m w / (1 − p) = Σ (x w)² p / (1 − p), m Bernoulli(1 − p).
    const variance = await tf.matMul(tf.square(x), tf.square(w)).mul(rate / (1 - rate)).data()
    sums.forEach((sum, i) => expect(Math.abs(sum / n - plain[i])).toBeLessThan(5 * Math.sqrt(variance[i] / n)))
  })

  test('layers have masks of their own, and a seed gives one mask on every engine', async () => {
    const x = tf.ones([8, 4])
    const bits = async (seed: number, layer: string): Promise<string> =>
      [...(await dropped(x, { rate: 0.5, seed }, layer).data())].map((value) => (value > 0 ? 1 : 0)).join('')
    const first = await bits(1, 'blocks.0.mlp.up')
    expect(first).toBe(FIRST)
    expect(new Set([first, await bits(1, 'blocks.1.mlp.up'), await bits(2, 'blocks.0.mlp.up'), await bits(1, 'blocks.0.mlp.down')]).size).toBe(4)
    expect(dropped(x, undefined, 'up')).toBe(x)
    expect(dropped(x, { rate: 0, seed: 1 }, 'up')).toBe(x)
  })
})

/** A run that is resumed on another machine goes on with these. */
const FIRST = '00110001110010001100100101010110'
