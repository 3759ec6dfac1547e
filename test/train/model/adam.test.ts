import { beforeAll, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { adamStart, adamStep } from '../../../src/train/model/adam.js'
import { random } from '../../../src/util/random.js'
import { fastest } from './models.js'

beforeAll(async () => {
  await initEngine(fastest)
})

/** Kingma and Ba, algorithm 1, as printed, in float64. */
const reference = (theta: number[], gradients: number[][], eta: number): number[] => {
  const [m, v] = [theta.map(() => 0), theta.map(() => 0)]
  return gradients.reduce((now, g, t) => now.map((x, i) => {
    m[i] = 0.9 * m[i] + 0.1 * g[i]
    v[i] = 0.999 * v[i] + 0.001 * g[i] ** 2
    return x - (eta * (m[i] / (1 - 0.9 ** (t + 1)))) / (Math.sqrt(v[i] / (1 - 0.999 ** (t + 1))) + 1e-8)
  }), theta)
}

test('thirty steps of Adam are those of the paper', async () => {
  const source = random(1)
  const vector = (scale: number): number[] => Array.from({ length: 20 }, () => scale * source.normal())
  const start = vector(1)
  // Scales from 1e-6 up: where ε matters and where it does not. One coordinate never moves.
  const gradients = Array.from({ length: 30 }, () => vector(1).map((x, i) => (i === 0 ? 0 : x * 10 ** (i / 3 - 6))))
  let theta: tf.Tensor1D = tf.tensor1d(start)
  let state = adamStart(20)
  for (const gradient of gradients) ({ theta, state } = adamStep(theta, tf.tensor1d(gradient), state, { learningRate: 0.01 }))
  const expected = reference(start, gradients, 0.01)
  ;(await theta.data()).forEach((x, i) => expect(Math.abs(x - expected[i])).toBeLessThan(2e-6))
  expect(state.steps).toBe(30)
})

test('clipNorm scales a long gradient down, and leaves a short one', async () => {
  const step = async (gradient: number[], clipNorm?: number): Promise<tf.TypedArray> =>
    adamStep(tf.tensor1d([0, 0]), tf.tensor1d(gradient), adamStart(2), { learningRate: 1, clipNorm }).state.first.data()
  ;[...(await step([30, 40], 5))].forEach((x, i) => expect(x).toBeCloseTo([3, 4][i], 5))
  expect([...(await step([3, 4], 5.1))]).toEqual([3, 4])
})

test('owns its tensors: a step makes a θ and two moments, nothing else', () => {
  const [theta, gradient, state] = [tf.tensor1d([1, 2]), tf.tensor1d([1, 2]), adamStart(2)]
  const { numTensors } = tf.memory()
  const next = adamStep(theta, gradient, state, { learningRate: 1, clipNorm: 1 })
  expect(tf.memory().numTensors).toBe(numTensors + 3)
  tf.dispose(next)
  expect(tf.memory().numTensors).toBe(numTensors)
})
