/**
 * npm run bench:engines [-- ENGINE…]
 *
 * GFLOP/s of float32 matrix products, per engine: squares, and the shapes of the d = 128, 4-layer model of bench/model
 * with their transposes (the two products of a gradient) and attention's batches. Each engine in a process of its own;
 * the median of many runs, each the time of as many products as last a millisecond or more.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** [what, a's shape, b's shape, transpose a, transpose b]. */
const products = [
  ['64³', [64, 64], [64, 64], false, false],
  ['256³', [256, 256], [256, 256], false, false],
  ['1024³', [1024, 1024], [1024, 1024], false, false],
  ['1024×128 · 128×512', [1024, 128], [128, 512], false, false],
  ['its left gradient, · transposed', [1024, 512], [128, 512], false, true],
  ['its right gradient, transposed ·', [1024, 128], [1024, 512], true, false],
  ['scores, 32 of 128×32 · transposed', [8, 4, 128, 32], [8, 4, 128, 32], false, true],
  ['values, 32 of 128×128 · 128×32', [8, 4, 128, 128], [8, 4, 128, 32], false, false],
]

const measure = async (name) => {
  const { initEngine, tf } = await import('../dist/train/backend.js')
  const engine = await initEngine(name)
  const rates = []
  for (const [, shapeA, shapeB, ta, tb] of products) {
    const a = tf.randomUniform(shapeA, -1, 1, 'float32', 1)
    const b = tf.randomUniform(shapeB, -1, 1, 'float32', 2)
    // One entry of the last product is read: that waits for all.
    const seconds = async (times) => {
      const start = performance.now()
      for (let i = 1; i < times; i++) tf.matMul(a, b, ta, tb).dispose()
      const entry = tf.tidy(() => tf.slice(tf.reshape(tf.matMul(a, b, ta, tb), [-1]), 0, 1))
      await entry.data()
      entry.dispose()
      return (performance.now() - start) / 1000
    }
    await seconds(1)
    let times = 1
    let taken = await seconds(1)
    while (taken < 0.002) taken = await seconds(times *= 4)
    const runs = []
    for (let spent = 0; runs.length < 5 || (spent < 0.5 && runs.length < 101); spent += runs.at(-1)) runs.push(await seconds(times))
    const median = runs.sort((x, y) => x - y)[runs.length >> 1] / times
    const flop = 2 * shapeA.reduce((x, y) => x * y) * shapeB.at(tb ? -2 : -1)
    rates.push(flop / median / 1e9)
    tf.dispose([a, b])
  }
  console.log(JSON.stringify({ engine, rates }))
}

const [first, ...rest] = process.argv.slice(2)
if (first === '--measure') {
  await measure(rest[0])
} else {
  const { textTable } = await import('../dist/util/table.js')
  const names = first ? [first, ...rest] : ['tensorflow', 'wasm', 'cpu']
  const results = names.flatMap((name) => {
    process.stderr.write(`${name} …\n`)
    try {
      const args = [fileURLToPath(import.meta.url), '--measure', name]
      return [JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }))]
    } catch (error) {
      process.stderr.write(`  ${/Error: (.*)/.exec(String(error.stderr))?.[1] ?? error.message}\n`)
      return []
    }
  })
  if (results.length === 0) process.exit(1)
  for (const { engine } of results) {
    const threads = `${engine.threads} thread${engine.threads > 1 ? 's' : ''}`
    console.log(`${engine.name}: ${engine.tensorflowVersion ? `TensorFlow ${engine.tensorflowVersion}, ` : ''}${engine.device}, ${threads}`)
  }
  console.log()
  console.log(textTable(['GFLOP/s', ...results.map(({ engine }) => engine.name)], products.map(([what], i) =>
    [what, ...results.map(({ rates }) => (rates[i] >= 10 ? String(Math.round(rates[i])) : rates[i].toPrecision(2)))])))
}
