import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf, type EngineName } from '../../src/train/backend.js'
import { InputError } from '../../src/util/errors.js'
import { random } from '../../src/util/random.js'
import { nativeEngine } from '../native.js'

const engines: EngineName[] = [...(nativeEngine ? ['tensorflow'] as const : []), 'wasm', 'cpu']

const webgpuInstalled = existsSync(fileURLToPath(new URL('../../node_modules/webgpu', import.meta.url)))

describe('initEngine', () => {
  test('takes the fastest that is set up, and says why', async () => {
    const engine = await initEngine()
    expect(engine.name).toBe(nativeEngine ? 'tensorflow' : 'wasm')
    expect(engine.why).toMatch(nativeEngine ? /fastest/ : /^tensorflow cannot run: .*npm run native/)
    expect(engine.tensorflowVersion).toEqual(nativeEngine ? expect.stringMatching(/^2\.\d+/) : null)
    expect(engine.threads).toBeGreaterThanOrEqual(1)
    expect(tf.getBackend()).toBe(engine.name)
  })

  test('takes the engine asked for: by the argument, else by TEAMTR_ENGINE', async () => {
    process.env.TEAMTR_ENGINE = 'cpu'
    try {
      expect(await initEngine()).toMatchObject({ name: 'cpu', why: 'asked for by TEAMTR_ENGINE' })
      expect(await initEngine('wasm')).toMatchObject({ name: 'wasm', why: 'asked for by --engine', threads: 1, gpu: false })
      expect(tf.getBackend()).toBe('wasm')
    } finally {
      delete process.env.TEAMTR_ENGINE
    }
  })

  test('an engine that is asked for and cannot run is an error, never another engine', async () => {
    await initEngine('wasm')
    if (!webgpuInstalled) {
      await expect(initEngine('webgpu')).rejects.toThrow(InputError)
      await expect(initEngine('webgpu')).rejects.toThrow(/^--engine: webgpu cannot run: webgpu is not installed \(npm i /)
    }
    await expect(initEngine('Wasm')).rejects.toThrow('--engine: holds "Wasm"; one of tensorflow, webgpu, wasm, cpu')
    expect(tf.getBackend()).toBe('wasm')
  })
})

/** [a's shape, b's shape, transpose a, transpose b]: plain, transposed, in batches, with one matrix on the right, too small for XNNPACK. */
const products: [number[], number[], boolean, boolean][] = [
  [[40, 30], [30, 50], false, false], [[40, 30], [50, 30], false, true],
  [[30, 40], [30, 50], true, false], [[30, 40], [50, 30], true, true],
  [[3, 2, 24, 20], [3, 2, 20, 28], false, false], [[3, 2, 24, 20], [3, 2, 28, 20], false, true], [[3, 2, 20, 24], [3, 2, 20, 28], true, false],
  [[5, 30, 20], [5, 40, 20], false, true], [[3, 4, 24, 20], [20, 20], false, false], [[3, 4, 20, 24], [20, 30], true, false],
  [[6, 1, 5], [6, 5, 4], false, false], [[2, 3], [4, 3], false, true],
]

const values = (shape: number[], seed: number): Float32Array => {
  const source = random(seed)
  return Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => source.normal())
}

/** The definition: c[batch, i, j] = Σ_k a[batch, i, k] b[batch, k, j], in float64. */
const product = (a: Float32Array, b: Float32Array, [shapeA, shapeB, ta, tb]: typeof products[number]): number[] => {
  const [m, k] = ta ? [shapeA.at(-1)!, shapeA.at(-2)!] : shapeA.slice(-2)
  const n = shapeB.at(tb ? -2 : -1)!
  const batches = a.length / (m * k)
  const stride = b.length > k * n ? k * n : 0
  const out: number[] = []
  for (let batch = 0; batch < batches; batch++) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0
        for (let l = 0; l < k; l++) sum += a[batch * m * k + (ta ? l * m + i : i * k + l)] * b[batch * stride + (tb ? j * k + l : l * n + j)]
        out.push(sum)
      }
    }
  }
  return out
}

const largestDifference = (x: ArrayLike<number>, y: ArrayLike<number>): number => {
  expect(x.length).toBe(y.length)
  return Array.from(x).reduce((most, value, i) => Math.max(most, Math.abs(value - y[i])), 0)
}

describe.each(engines)('%s', (name) => {
  beforeAll(async () => { await initEngine(name) })

  test.each(products)('multiplies %j by %j (transposed: %s, %s)', async (...shapes) => {
    const [shapeA, shapeB, ta, tb] = shapes
    const [a, b] = [values(shapeA, 1), values(shapeB, 2)]
    const c = tf.tidy(() => tf.matMul(tf.tensor(a, shapeA), tf.tensor(b, shapeB), ta, tb))
    expect(c.shape.slice(0, -2)).toEqual(shapeA.slice(0, -2))
    expect(largestDifference(await c.data(), product(a, b, shapes))).toBeLessThan(2e-5)
    c.dispose()
  })

  test('gather and products have the gradients of their definition', async () => {
    const rows = [2, 0, 2, 5, 2]
    const [table, weight] = [values([6, 4], 3), values([4, 3], 4)]
    // f = Σ (table[rows] · weight)²: by finite differences of the definition in float64.
    const f = (t: ArrayLike<number>, w: ArrayLike<number>): number => {
      let sum = 0
      for (const row of rows) {
        for (let j = 0; j < 3; j++) sum += [0, 1, 2, 3].reduce((s, k) => s + t[row * 4 + k] * w[k * 3 + j], 0) ** 2
      }
      return sum
    }
    const slope = (x: Float32Array, at: (moved: number[]) => number): number[] => Array.from(x, (_, i) => {
      const moved = (by: number): number => at(Array.from(x, (v, j) => (j === i ? v + by : v)))
      return (moved(1e-4) - moved(-1e-4)) / 2e-4
    })
    const gradients = tf.tidy(() => tf.grads((t, w) => {
      const picked = tf.gather(t, tf.tensor1d(rows, 'int32'))
      return tf.sum(tf.square(tf.matMul(picked as tf.Tensor2D, w as tf.Tensor2D)))
    })([tf.tensor(table, [6, 4]), tf.tensor(weight, [4, 3])]))
    expect(largestDifference(await gradients[0].data(), slope(table, (t) => f(t, weight)))).toBeLessThan(1e-4)
    expect(largestDifference(await gradients[1].data(), slope(weight, (w) => f(table, w)))).toBeLessThan(1e-4)
    tf.dispose(gradients)
  })

  test('splits along any axis, and gathers rows', async () => {
    const x = values([3, 5, 4], 7)
    for (const [axis, sizes] of [[0, [2, 1]], [1, [1, 3, 1]], [-1, [3, 1]]] as const) {
      const parts = tf.tidy(() => tf.split(tf.tensor(x, [3, 5, 4]), [...sizes], axis))
      let start = 0
      for (const [p, part] of parts.entries()) {
        const shape = [3, 5, 4].map((n, i) => (i === (axis + 3) % 3 ? sizes[p] : n))
        const [, b, c] = shape
        const expected = Array.from({ length: shape[0] * b * c }, (_, i) => {
          const at = [Math.floor(i / (b * c)), Math.floor(i / c) % b, i % c]
          at[(axis + 3) % 3] += start
          return x[(at[0] * 5 + at[1]) * 4 + at[2]]
        })
        expect(part.shape).toEqual(shape)
        expect(Array.from(await part.data())).toEqual(expected)
        start += sizes[p]
      }
      tf.dispose(parts)
    }
    const rows = tf.tidy(() => tf.gather(tf.tensor2d([[1, 2], [3, 4], [5, 6]], [3, 2], 'int32'), tf.tensor2d([[2, 0], [2, 1]], [2, 2], 'int32')))
    expect([rows.shape, rows.dtype, Array.from(await rows.data())]).toEqual([[2, 2, 2], 'int32', [5, 6, 1, 2, 5, 6, 3, 4]])
    rows.dispose()
  })

  test('sums rows by segment, empty segments are 0, rows of no segment are dropped', async () => {
    const sums = tf.tidy(() => tf.unsortedSegmentSum(tf.tensor([1, 2, 3, 4, 5, 6, 7, 8], [4, 2]), tf.tensor1d([2, 0, 2, -1], 'int32'), 4))
    expect(Array.from(await sums.data())).toEqual([3, 4, 0, 0, 6, 8, 0, 0])
    expect(sums.shape).toEqual([4, 2])
    const whole = tf.tidy(() => tf.unsortedSegmentSum(tf.tensor1d([3, 4, 5], 'int32'), tf.tensor1d([1, 1, 0], 'int32'), 2))
    expect(Array.from(await whole.data())).toEqual([5, 7])
    tf.dispose([sums, whole])
  })

  test('the same computation gives the same bits, and leaves no tensor behind', async () => {
    const a = tf.tensor(values([60, 40], 5), [60, 40])
    const rows = tf.tensor1d(Array.from(values([100], 6), (x) => Math.floor(Math.abs(x) * 99) % 60), 'int32')
    const compute = (): tf.Tensor => tf.tidy(() => {
      const [dw] = tf.grads((t) => tf.sum(tf.softmax(tf.matMul(tf.gather(t, rows) as tf.Tensor2D, a as tf.Tensor2D, false, true)).square()))([a])
      return dw
    })
    const bits = async (): Promise<string> => {
      const result = compute()
      const data = await result.data()
      result.dispose()
      return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')
    }
    const first = await bits()
    const held = (): number[] => [tf.memory().numTensors, tf.memory().numDataBuffers, tf.backend().numDataIds()]
    const before = held()
    for (let i = 0; i < 5; i++) expect(await bits() === first).toBe(true)
    expect(held()).toEqual(before)
    tf.dispose([a, rows])
  })
})
