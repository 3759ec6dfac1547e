import { tf } from './backend.js'

export interface MatmulRate {
  /** Rows and columns of the square matrices. */
  readonly size: number
  /** 10⁹ floating-point operations (2 size³ a product) per second: the median run. */
  readonly gflops: number
  readonly runs: number
}

/**
 * How fast the current engine multiplies float32 matrices. Takes about a second, whatever the engine: the
 * matrices are doubled from 256 until one product takes 20 ms, then products are timed for `seconds`.
 */
export const matmulRate = async (seconds = 0.7): Promise<MatmulRate> => {
  let size = 256
  let time = await timed(size, 2)
  while (time[1] < 0.02 && size < 8192) time = await timed(size *= 2, 2)
  const runs = Math.max(3, Math.min(50, Math.ceil(seconds / time[1])))
  const sorted = (await timed(size, runs)).sort((a, b) => a - b)
  return { size, gflops: (2 * size ** 3) / sorted[Math.floor(runs / 2)] / 1e9, runs }
}

/** Seconds of each of `runs` products; the first pays for what is set up at first use. */
const timed = async (size: number, runs: number): Promise<number[]> => {
  const a = tf.randomUniform([size, size], -1, 1, 'float32', 1)
  const b = tf.randomUniform([size, size], -1, 1, 'float32', 2)
  const times: number[] = []
  for (let run = 0; run < runs; run++) {
    const start = performance.now()
    // One entry is read back: that waits for the product, and copies next to nothing.
    const entry = tf.tidy(() => tf.slice(tf.matMul(a as tf.Tensor2D, b as tf.Tensor2D), [0, 0], [1, 1]))
    await entry.data()
    times.push((performance.now() - start) / 1000)
    entry.dispose()
  }
  tf.dispose([a, b])
  return times
}
