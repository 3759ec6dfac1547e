// Our decoder beside the same decoder in PyTorch, on this machine, in alternation: train step and generation.
//
//   npm run build && node bench/model/compare.mjs [--engine NAME] [--rounds N] [--threads N] [--python FILE]
//
// Needs a Python with torch 2.13.0; README.md says how to make one. Prints one JSON line with the medians and their ratios.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { availableParallelism, homedir } from 'node:os'
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

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'teamtr', 'venv-bench', 'bin', 'python')
const { values: options } = parseArgs({
  options: {
    engine: { type: 'string' },
    rounds: { type: 'string', default: '15' },
    python: { type: 'string', default: cache },
    threads: { type: 'string', default: String(availableParallelism()) },
  },
})
process.env.TF_NUM_INTRAOP_THREADS = options.threads
const shape = { batch: 8, length: 128 }
const generation = { rows: 32, prompt: 64, tokens: 64 }
const config = decoderSchema.parse({ vocabulary: 512, hidden: 128, layers: 4, heads: 4, intermediate: 352, maxPositions: 2048 })

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
const jobs = { train: [2], trainGraph: [2], generate: [rows, prompt, tokens] }
const result = { engine: engine.name, threads: Number(options.threads), torch: peer && JSON.parse(await peer.ask('info')).torch }
for (const [job, sizes] of Object.entries(jobs)) {
  const training = job !== 'generate'
  const request = [training ? 'train' : job, ...sizes].join(' ')
  const times = { ours: [], torch: [] }
  if (job === 'trainGraph') await ours.trainGraph(10)
  for (let round = -1; round < Number(options.rounds); round++) {
    const own = await seconds(() => ours[job](...sizes))
    const its = peer && JSON.parse(await peer.ask(request))
    // The first round warms both up.
    if (round < 0) continue
    times.ours.push(own)
    if (its) times.torch.push(its)
  }
  const per = (key, who, pick) => {
    const t = pick(times[who].map((time) => time[key]))
    return training ? (t / sizes[0]) * 1000 : (rows * tokens) / t
  }
  const ratio = (key) => median(times.ours.map((time, i) => time[key] / times.torch[i][key]))
  result[job] = {
    unit: training ? 'ms per step' : 'tokens per second',
    clock: { ours: per('clock', 'ours', median), torch: peer && per('clock', 'torch', median) },
    best: { ours: per('clock', 'ours', (t) => Math.min(...t)), torch: peer && per('clock', 'torch', (t) => Math.min(...t)) },
    // Our time over PyTorch's, round by round: above 1, ours is slower.
    ratio: peer && { clock: ratio('clock'), cpu: ratio('cpu') },
  }
}
peer?.end()
console.log(JSON.stringify(result, (_, value) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value), 2))
