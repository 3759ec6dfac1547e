import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { align, probeContexts, reverseKl, reverseKlGradient, type ProbeContext } from '../../src/train/align.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { contextSpace, type ContextSpace } from '../../src/train/contextSpace.js'
import { environment } from '../../src/train/environment.js'
import { exactReturn, exactTeam, tokenKl } from '../../src/train/exactTeam.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import { disposeTeam, type Agent, type Team } from '../../src/train/team.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const configWith = (more: ConfigInput = {}) => parseConfig({
  task: { name: 'relay', modulus: 3, slip: 0.1 }, team: { agents: 2 }, model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  warmup: { steps: 150, episodes: 64, learningRate: 1e-2 }, ...more,
})
const config = configWith()
const { gamma, rollout: { maxTokens, temperature } } = config
const AGENT = 1
const options = (seed: number) => ({ temperature, maxTokens, random: random(seed) })

let team: Team
let other: Team
let old: Agent
let newcomer: Agent
let space: ContextSpace
/** All contexts of the agent, weighed with the occupancy of the team as it was; and of each the exact KL. */
let contexts: ProbeContext[]
let places: number[]
beforeAll(async () => {
  await initEngine()
  team = await warmUp(config)
  other = await warmUp(configWith({ seed: 5, model: { layers: 2, hidden: 12, heads: 2, intermediate: 20 }, warmup: { steps: 8, episodes: 16 } }))
  old = team.agents[AGENT]
  newcomer = other.agents[AGENT]
  const { task, problems } = environment(config.task, 2)
  space = contextSpace(task, team, problems('test', 12, random(3)), { gamma, maxTokens })
  const { d } = evaluate(space.mdp, (await exactTeam(space, team, { temperature })).policy)
  places = space.contexts.flatMap(({ agent }, s) => (agent === AGENT ? [s] : []))
  contexts = places.map((s) => ({ prompt: space.agents[AGENT].prompts[space.contexts[s].prompt], weight: d[s] }))
})
afterAll(() => {
  disposeTeam(team)
  disposeTeam(other)
})

/** E_{s~d | the agent acts} KL(new‖old), by enumeration. */
const exactKl = async (theta: tf.Tensor1D): Promise<number> => {
  const before = await exactTeam(space, team, { temperature })
  const after = await exactTeam(space, { ...team, agents: team.agents.map((agent, i) => (i === AGENT ? { ...newcomer, theta } : agent)) }, { temperature })
  const kl = tokenKl(space, after, before)
  const total = contexts.reduce((sum, { weight }) => sum + weight, 0)
  return contexts.reduce((sum, { weight }, i) => sum + weight * kl[places[i]], 0) / total
}

describe('reverseKl', () => {
  it('estimates what enumeration gives, within its interval as often as it says', async () => {
    const exact = await exactKl(newcomer.theta)
    expect(exact).toBeGreaterThan(0.1)
    let covered = 0
    // Contexts drawn from the occupancy, each try anew. At a rate of 0.95, fewer than 17 of 20 has probability 0.016 (fixed seeds).
    const total = contexts.reduce((sum, { weight }) => sum + weight, 0)
    const chance = random(11)
    const draw = (): ProbeContext => {
      let at = chance.next() * total
      return { ...contexts.find(({ weight }) => (at -= weight) < 0) ?? contexts[0], weight: 1 }
    }
    for (let k = 0; k < 20; k++) {
      const { low, high } = await reverseKl(newcomer, old, Array.from({ length: 200 }, draw), options(k))
      if (low <= exact && exact <= high) covered++
    }
    expect(covered).toBeGreaterThanOrEqual(17)
  })

  it('weighs contexts: only those of positive weight count', async () => {
    const some = contexts.slice(0, 5)
    const none = contexts.slice(5).map((context) => ({ ...context, weight: 0 }))
    const alone = await reverseKl(newcomer, old, some, options(1))
    expect((await reverseKl(newcomer, old, [...some, ...none], options(1))).estimate).toBeCloseTo(alone.estimate, 1)
    expect((await reverseKl(old, old, some, options(1))).estimate).toBe(0)
  })
})

describe('reverseKlGradient', () => {
  it('is the gradient of the enumerated divergence, the prefixes’ law included', async () => {
    // A newcomer that says nothing yet: its second tokens differ from the old agent's by what the first was.
    const { policy } = newcomer
    const { prompt } = contexts[2]
    const { tree: { prefixes, vocabulary: V } } = space.agents[AGENT]
    const exact = tf.tidy(() => {
      const batch = tokenBatch(prefixes.map((prefix) => ({ ids: [...prompt, ...prefix, 0], marked: [[prompt.length + prefix.length, prompt.length + prefix.length + 1]] as [number, number][] })))
      const target = old.policy.logDistributions(old.theta, batch)
      return tf.grad((theta) => {
        const now = policy.logDistributions(theta as tf.Tensor1D, batch)
        const kl = tf.sum(tf.mul(tf.exp(now), tf.sub(now, target)), 1)
        const first = tf.reshape(tf.slice(tf.exp(now), [0, 0], [1, V]), [V])
        const reach = tf.concat([tf.ones([1]), ...prefixes.slice(1).map(([token]) => tf.slice(first, [token], [1]))])
        return tf.sum(tf.mul(reach, kl))
      })(newcomer.theta)
    })
    const sum = { all: 0, square: 0 }
    const size = newcomer.theta.size
    const mean = new Float64Array(size)
    const wanted = await exact.data() as Float32Array
    const length = Math.hypot(...wanted)
    const batches = 40
    for (let k = 0; k < batches; k++) {
      const { gradient } = await reverseKlGradient(newcomer, old, Array.from({ length: 250 }, () => ({ prompt, weight: 1 })), options(100 + k))
      const values = await gradient.data() as Float32Array
      gradient.dispose()
      const along = values.reduce((total, x, i) => total + (x * wanted[i]) / length, 0)
      sum.all += along
      sum.square += along * along
      values.forEach((x, i) => (mean[i] += x / batches))
    }
    exact.dispose()
    const along = sum.all / batches
    const error = Math.sqrt((sum.square / batches - along ** 2) / (batches - 1))
    // Along the exact gradient the mean is its length, within 4 standard errors; and little is left across.
    expect(Math.abs(along - length)).toBeLessThan(4 * error)
    expect(error).toBeLessThan(0.02 * length)
    const across = Math.hypot(...mean.map((x, i) => x - (along * wanted[i]) / length))
    expect(across).toBeLessThan(0.1 * length)
  })
})

describe('align', () => {
  it('lowers the exact divergence, leaves both agents alone and keeps no tensors', async () => {
    const before = await exactKl(newcomer.theta)
    const [mine, theirs] = [[...await newcomer.theta.data()], [...await old.theta.data()]]
    const { numTensors } = tf.memory()
    const seen: number[] = []
    const theta = await align(newcomer, old, contexts, { steps: 120, batch: 64, learningRate: 1e-2, ...options(7), onStep: (_, kl) => void seen.push(kl) })
    expect(tf.memory().numTensors).toBe(numTensors + 1)
    const after = await exactKl(theta)
    theta.dispose()
    expect(after).toBeLessThan(0.2 * before)
    expect(seen).toHaveLength(120)
    expect([...await newcomer.theta.data()]).toEqual(mine)
    expect([...await old.theta.data()]).toEqual(theirs)
  })

  it('gives the same for the same seed, and the agent itself without steps', async () => {
    const run = async (steps: number, seed: number): Promise<number[]> => {
      const theta = await align(newcomer, old, contexts, { steps, batch: 16, learningRate: 1e-2, ...options(seed) })
      const values = [...await theta.data()]
      theta.dispose()
      return values
    }
    expect(await run(3, 1)).toEqual(await run(3, 1))
    expect(await run(3, 1)).not.toEqual(await run(3, 2))
    expect(await run(0, 1)).toEqual([...await newcomer.theta.data()])
  })
})

describe('probeContexts', () => {
  it('has what an agent read, weighed with γ^t', () => {
    const message = (agent: number, turn: number) => ({ agent, turn, read: 1, prompt: [agent, turn], tokens: [1], logProbs: [0], samplingLogProbs: [0], reward: 0 })
    const episode = { problem: 0, messages: [message(0, 0), message(1, 1), message(0, 2)], context: '', reward: 0, return: 0 }
    expect(probeContexts({ problems: ['p'], group: 1, episodes: [episode] }, 0, 0.5)).toEqual([{ prompt: [0, 0], weight: 1 }, { prompt: [0, 2], weight: 0.25 }])
    expect(probeContexts({ problems: ['p'], group: 1, episodes: [episode] }, 2, 0.5)).toEqual([])
  })
})

it('an agent that is drawn to the old one brings the team’s exact return back', async () => {
  const J = async (agent: Agent): Promise<number> =>
    exactReturn(space, await exactTeam(space, { ...team, agents: [team.agents[0], agent] }, { temperature })).J
  const theta = await align(newcomer, old, contexts, { steps: 120, batch: 64, learningRate: 1e-2, ...options(7) })
  const [was, direct, aligned] = [await J(old), await J(newcomer), await J({ ...newcomer, theta })]
  theta.dispose()
  expect(was - direct).toBeGreaterThan(0.05)
  expect(Math.abs(was - aligned)).toBeLessThan(0.3 * Math.abs(was - direct))
})
