// Our decoder beside the same decoder in PyTorch and transformers, on this machine, in alternation: train step and generation.
//
//   npm run build && node bench/model/compare.mjs [--size small|smollm2] [--engine NAME] [--rounds N] [--threads N] [--python FILE]
//
// Needs a Python with torch and transformers: node scripts/peers.mjs hf. Prints one JSON line with the medians and their ratios.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { initEngine, tf } from '../../dist/train/backend.js'
import { compiledByShape } from '../../dist/train/graph.js'
import { adamRates, adamStart, adamStep } from '../../dist/train/model/adam.js'
import { tokenBatch } from '../../dist/train/model/batch.js'
import { decoderSchema } from '../../dist/train/model/config.js'
import { decoderPolicy } from '../../dist/train/model/decoderPolicy.js'
import { initialTheta, layoutSize } from '../../dist/train/model/layout.js'
import { random } from '../../dist/util/random.js'
import { peerFolder } from '../../scripts/peers.mjs'

const sizes = {
  small: {
    decoder: { vocabulary: 512, hidden: 128, layers: 4, heads: 4, intermediate: 352, maxPositions: 2048 },
    training: { batch: 8, length: 128, steps: 2 },
    generation: { rows: 32, prompt: 64, tokens: 64 },
    rounds: 15,
  },
  smollm2: {
    decoder: { vocabulary: 49152, hidden: 576, layers: 30, heads: 9, kvHeads: 3, intermediate: 1536, maxPositions: 8192 },
    training: { batch: 2, length: 128, steps: 1 },
    generation: { rows: 8, prompt: 64, tokens: 32 },
    rounds: 3,
  },
}
const { values: options } = parseArgs({
  options: {
    engine: { type: 'string' },
    size: { type: 'string', default: 'small' },
    rounds: { type: 'string' },
    python: { type: 'string', default: join(peerFolder('hf') ?? '', 'bin', 'python') },
    threads: { type: 'string', default: String(availableParallelism()) },
  },
})
process.env.TF_NUM_INTRAOP_THREADS = options.threads
if (!Object.hasOwn(sizes, options.size)) {
  console.error(`--size: holds ${JSON.stringify(options.size)}; one of ${Object.keys(sizes).join(', ')}`)
  process.exit(2)
}
const { decoder, training: shape, generation, rounds } = sizes[options.size]
const config = decoderSchema.parse(decoder)

const engine = await initEngine(options.engine)
const policy = decoderPolicy(config)
const source = random(1)
const sequence = (length) => Array.from({ length }, () => source.int(config.vocabulary))

let theta = initialTheta(policy, source)
let state = adamStart(layoutSize(policy.layout))
const { ids, places, picks } = tokenBatch(Array.from({ length: shape.batch }, () => ({ ids: sequence(shape.length), marked: [[1, shape.length]] })))
/** Forward, backward and Adam, as a function of tensors: as it is, or compiled to a graph. */
const step = ([theta, first, second, rate, floor, ids, places, picks]) => {
  const { value, grad } = tf.valueAndGrad((t) => tf.neg(tf.mean(policy.logProbs(t, { ids, places, picks }))))(theta)
  const next = adamStep(theta, grad, { steps: 0, first, second }, { learningRate: 1 }, { rate, floor })
  return [next.theta, next.state.first, next.state.second, value]
}
const train = (run) => async (steps) => {
  for (let s = 0; s < steps; s++) {
    const before = { theta, state }
    const loss = tf.tidy(() => {
      const { rate, floor } = adamRates(state.steps + 1, { learningRate: 1e-3 })
      const [next, first, second, loss] = run([theta, state.first, state.second, tf.scalar(rate), tf.scalar(floor), ids, places, picks])
      theta = tf.keep(next)
      state = { steps: state.steps + 1, first: tf.keep(first), second: tf.keep(second) }
      return loss
    })
    tf.dispose(before)
    await loss.data()
    loss.dispose()
  }
}
const ours = {
  train: train(step),
  // Compiled when the same shapes have come ten times.
  trainGraph: train(compiledByShape(step)),
  generate: async (rows, prompt, tokens) => {
    const prompts = Array.from({ length: rows }, () => sequence(prompt))
    await policy.sample(theta, prompts, { maxTokens: tokens, temperature: 1, endToken: -1, random: source })
  },
}

/** Seconds on the clock and of the CPU. The second says more on a busy machine, with one thread each. */
const seconds = async (f) => {
  const [start, cpu] = [performance.now(), process.cpuUsage()]
  await f()
  const { user, system } = process.cpuUsage(cpu)
  return { clock: (performance.now() - start) / 1000, cpu: (user + system) / 1e6 }
}

/** The peer as a function: one request, one answer. */
const startPeer = async () => {
  if (!existsSync(options.python)) return null
  const child = spawn(options.python, [
    join(dirname(fileURLToPath(import.meta.url)), 'peer.py'),
    JSON.stringify({ ...config, ...shape, threads: Number(options.threads) }),
  ], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ask = async (request) => {
    if (request) child.stdin.write(`${request}\n`)
    const { value, done } = await lines.next()
    if (done) throw new Error('the PyTorch peer ended')
    return value
  }
  await ask('')
  return { ask, end: () => child.stdin.end() }
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

const peer = await startPeer()
const { rows, prompt, tokens } = generation
// A graph copies its constants and this model is θ itself, 540 MB: no use compiling ten steps of it.
const jobs = {
  train: [shape.steps],
  ...(options.size === 'small' ? { trainGraph: [shape.steps] } : {}),
  generate: [rows, prompt, tokens],
}
const peers = { train: ['train'], trainGraph: ['train'], generate: ['generate', 'transformers'] }
const result = { engine: engine.name, size: options.size, threads: Number(options.threads), ...(peer ? JSON.parse(await peer.ask('info')) : {}) }
for (const [job, numbers] of Object.entries(jobs)) {
  const training = job !== 'generate'
  const times = Object.fromEntries(['ours', ...(peer ? peers[job] : [])].map((who) => [who, []]))
  if (job === 'trainGraph') await ours.trainGraph(10)
  for (let round = -1; round < Number(options.rounds ?? rounds); round++) {
    for (const who of Object.keys(times)) {
      const time = who === 'ours' ? await seconds(() => ours[job](...numbers)) : JSON.parse(await peer.ask([who, ...numbers].join(' ')))
      // The first round warms all up.
      if (round >= 0) times[who].push(time)
    }
  }
  const per = (t) => (training ? (t / shape.steps) * 1000 : (rows * tokens) / t)
  result[job] = {
    unit: training ? 'ms per step' : 'tokens per second',
    ...Object.fromEntries(Object.entries(times).map(([who, all]) => [who, {
      clock: per(median(all.map(({ clock }) => clock))),
      best: per(Math.min(...all.map(({ clock }) => clock))),
      cpu: per(median(all.map(({ cpu }) => cpu))),
      // Our time over the peer's, round by round: above 1, ours is slower.
      ...(who === 'ours' ? {} : {
        ratio: Object.fromEntries(['clock', 'cpu'].map((key) => [key, median(all.map((time, i) => times.ours[i][key] / time[key]))])),
      }),
    }])),
  }
}
peer?.end()
console.log(JSON.stringify(result, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value), 2))
