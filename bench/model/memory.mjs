// Memory of a training step of a team on one pretrained base: N agents, each a LoRA adapter on all linear layers, one step each on
// one sequence (micro-batch 1), forward, backward and Adam.
//
//   npm run build && node bench/model/memory.mjs [--model smollm2] [--agents 3] [--length 256] [--rank 16] [--steps 2] [--recompute false] [--engine NAME]
//
// Prints one JSON line: resident size after loading and after each agent's steps, and its peak (VmHWM on Linux; elsewhere what
// process.resourceUsage says). Needs the model in the cache: teamtr pull smollm2.
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { initEngine, tf } from '../../dist/train/backend.js'
import { adamStart, adamStep } from '../../dist/train/model/adam.js'
import { tokenBatch } from '../../dist/train/model/batch.js'
import { adapterPolicy } from '../../dist/train/model/decoderPolicy.js'
import { initialTheta, layoutSize } from '../../dist/train/model/layout.js'
import { projections } from '../../dist/train/model/projections.js'
import { loadWeights, openModel } from '../../dist/train/model/source.js'
import { random } from '../../dist/util/random.js'

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm2' },
    agents: { type: 'string', default: '3' },
    length: { type: 'string', default: '256' },
    rank: { type: 'string', default: '16' },
    steps: { type: 'string', default: '2' },
    recompute: { type: 'string', default: 'true' },
    engine: { type: 'string' },
  },
})
const [agents, length, rank, steps] = ['agents', 'length', 'rank', 'steps'].map((name) => Number(options[name]))

const mib = (bytes) => Math.round(bytes / 2 ** 20)
const resident = () => mib(process.memoryUsage().rss)
/** Largest resident size so far. */
const peak = () => {
  try {
    return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024)
  } catch {
    return Math.round(process.resourceUsage().maxRSS / 1024)
  }
}

const engine = await initEngine(options.engine)
const started = resident()
const source = openModel(options.model)
const base = loadWeights(source)
const loaded = { resident: resident(), peak: peak() }
const lora = { rank, alpha: 2 * rank, targets: projections }
const policy = adapterPolicy(source.config, base, lora, { recompute: options.recompute === 'true' })
const chance = random(1)
const team = Array.from({ length: agents }, () => ({ theta: initialTheta(policy, chance), optimiser: adamStart(layoutSize(policy.layout)) }))
const ids = Array.from({ length }, () => chance.int(source.config.vocabulary))
const batch = tokenBatch([{ ids, marked: [[1, length]] }])

const after = []
const losses = []
let [clock, cpu] = [performance.now(), process.cpuUsage()]
for (let s = 0; s < steps; s++) {
  for (const agent of team) {
    const { theta, optimiser } = agent
    const next = tf.tidy(() => {
      const { value, grads: [gradient] } = tf.valueAndGrads((theta) => tf.neg(tf.mean(policy.logProbs(theta, batch))))([theta])
      return { ...adamStep(theta, gradient, optimiser, { learningRate: 1e-3, clipNorm: 1 }), loss: value }
    })
    Object.assign(agent, { theta: next.theta, optimiser: next.state })
    losses.push((await next.loss.data())[0])
    tf.dispose([theta, optimiser.first, optimiser.second, next.loss])
    after.push(resident())
  }
}
const { user, system } = process.cpuUsage(cpu)
console.log(JSON.stringify({
  engine: engine.name,
  model: options.model,
  agents, length, rank,
  recompute: options.recompute === 'true',
  adapterParameters: layoutSize(policy.layout),
  tensors: { count: tf.memory().numTensors, mib: mib(tf.memory().numBytes) },
  mib: { started, loaded, after, peak: peak() },
  secondsPerStep: { clock: Number(((performance.now() - clock) / 1000 / steps / agents).toFixed(2)), cpu: Number(((user + system) / 1e6 / steps / agents).toFixed(2)) },
  losses: losses.map((loss) => Number(loss.toFixed(4))),
}))
