import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { advantagesOf, type Advantages } from '../../src/train/advantage.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type Config, type ConfigInput } from '../../src/train/config.js'
import { environment } from '../../src/train/environment.js'
import { activeMass } from '../../src/train/measure.js'
import { messagesOf, microBatches } from '../../src/train/messages.js'
import { adamStep } from '../../src/train/model/adam.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import { acting, objective, type Weights } from '../../src/train/objective.js'
import { rollout, type Rollouts } from '../../src/train/rollout.js'
import { disposeTeam, type Agent, type Team } from '../../src/train/team.js'
import { messageWeights, updateAgents } from '../../src/train/update.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'
import { logRatiosByHand } from './logRatios.js'

const base = {
  team: { agents: 2 },
  task: { name: 'relay' as const, rounds: 2 },
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  warmup: { steps: 0 },
}
const configWith = (more: ConfigInput): Config => parseConfig({ ...base, ...more })
const config = configWith({})
const environmentOf = environment(config.task, 2)

let team: Team
let agent: Agent
let rollouts: Rollouts
let advantages: Advantages

beforeAll(async () => {
  await initEngine()
  team = await warmUp(config)
  agent = team.agents[1]
  const played = await rollout(environmentOf.task, team, environmentOf.problems('train', 6, random(1)),
    { group: 4, temperature: 1, maxTokens: 2, gamma: config.gamma, random: random(2) })
  // Random weights earn nothing; so that there is something to learn, returns are drawn.
  const r = random(3)
  rollouts = { ...played, episodes: played.episodes.map((episode) => ({ ...episode, return: r.next() })) }
  advantages = advantagesOf(rollouts, config.advantage)
})
afterAll(() => disposeTeam(team))

const rho = (): Float64Array => activeMass(rollouts, 2, config.gamma)
const update = async (config: Config, a = advantages) => {
  agent.delta = config.trustRegion.delta[1]
  return (await updateAgents(team, [1], rollouts, a, rho(), config, random(4)))[0]
}

/** KL(before‖after) of agent 1's messages, mean over messages, computed from the distributions one message at a time. */
const klByHand = async (after: tf.Tensor1D, exact: boolean, before = agent.theta): Promise<number> => {
  const own = rollouts.episodes.flatMap(({ messages }) => messages.filter(({ agent }) => agent === 1))
  let sum = 0
  for (const { prompt, tokens } of own) {
    const batch = tokenBatch([{ ids: [...prompt, ...tokens], marked: [[prompt.length, prompt.length + tokens.length]] }])
    const distributions = [before, after].map((theta) => tf.tidy(() => agent.policy.logDistributions(theta, batch)))
    const [p, q] = await Promise.all(distributions.map((x) => x.array()))
    tokens.forEach((token, u) => {
      if (exact) p[u].forEach((x, v) => { sum += Math.exp(x) * (x - q[u][v]) })
      else sum += Math.exp(q[u][token] - p[u][token]) - 1 - (q[u][token] - p[u][token])
    })
    tf.dispose([batch, distributions])
  }
  return sum / own.length
}

/** One step of Adam of an agent from where it is now, on the objective as it is defined: what it moves θ by. @param factor of an episode's advantages */
const stepByHand = (
  index: number, config: Config, { theta, optimiser }: Pick<Agent, 'theta' | 'optimiser'>, factor: (episode: number) => number,
): number[] => tf.tidy(() => {
  const { policy, theta: current, beta } = team.agents[index]
  const messages = messagesOf(rollouts, index)
  const [{ batch, holds }] = microBatches(messages, null)
  const { positive, negative, divergence } = messageWeights(messages, advantages, config, rollouts.episodes.length, factor)
  const own = (values: Float32Array): tf.Tensor1D => tf.tensor1d(holds.map((distinct) => values[distinct]))
  const weights: Weights = { positive: own(positive), negative: own(negative), divergence: own(divergence) }
  const law = (x: tf.Tensor1D) => acting(policy, x, batch.tokens, config.rollout.temperature, true)
  const gradient = tf.grad((x) => tf.neg(objective(law(current), law(x as tf.Tensor1D), batch, weights, beta, config.objective)))(theta)
  const next = adamStep(theta, gradient as tf.Tensor1D, optimiser, { learningRate: config.objective.learningRate, clipNorm: 1 })
  return [...tf.sub(next.theta, theta).dataSync()]
})

describe('updateAgent', () => {
  // From timid to violent; the last ones end in parameters that are not even finite unless they are held back.
  const draws = Array.from({ length: 16 }, (_, k) => {
    const r = random(k)
    const pick = <T>(of: readonly T[]): T => of[r.int(of.length)]
    return {
      learningRate: 10 ** (-3 + 4 * r.next()), steps: 1 + r.int(4), delta: 10 ** (-4 + 3 * r.next()),
      estimator: pick(['exact', 'lowVariance'] as const),
      acceptance: pick(['scale', 'scale', 'refuse'] as const),
      ratio: pick(['message', 'token'] as const),
    }
  })
  it.each(draws)('keeps nothing whose divergence is above δ: %o', async ({ learningRate, steps, delta, estimator, acceptance, ratio }) => {
    const { theta, optimiser, outcome, step } = await update(configWith({
      objective: { learningRate, steps, ratio }, trustRegion: { delta, estimator }, method: { acceptance },
    }))
    expect(step.divergence).toBeLessThanOrEqual(delta)
    const kl = await klByHand(theta, estimator === 'exact')
    expect(kl).toBeCloseTo(step.divergence, 5)
    expect(kl).toBeLessThanOrEqual(delta + 1e-5)
    expect(outcome).toBe(step.scale === 1 ? 'accepted' : step.scale > 0 ? 'scaled' : 'refused')
    if (outcome === 'refused') {
      expect(theta).toBe(agent.theta)
      expect(optimiser).toBe(agent.optimiser)
    } else {
      tf.dispose([theta, optimiser.first, optimiser.second])
    }
  })

  it('lies on the line to what was proposed', async () => {
    const objective = { learningRate: 0.05, steps: 2 }
    const whole = await update(configWith({ objective, method: { acceptance: 'none' } }))
    const scaled = await update(configWith({ objective }))
    expect(whole).toMatchObject({ outcome: 'accepted', step: { scale: 1 } })
    expect(whole.step.divergence).toBeGreaterThan(0.02)
    expect(scaled).toMatchObject({ outcome: 'scaled', step: { proposed: whole.step.proposed } })
    const [from, to, kept] = await Promise.all([agent.theta, whole.theta, scaled.theta].map((theta) => theta.data()))
    kept.forEach((x, i) => expect(x).toBeCloseTo(from[i] + scaled.step.scale * (to[i] - from[i]), 5))
    expect(scaled.beta).toBe(2 * agent.beta)
    for (const { theta, optimiser } of [whole, scaled]) tf.dispose([theta, optimiser.first, optimiser.second])
  })

  it('climbs: the surrogate of a small step is positive', async () => {
    const { surrogate, theta, optimiser } = await update(configWith({ objective: { learningRate: 1e-3, steps: 3 } }))
    expect(surrogate.unbiased).toBeGreaterThan(0)
    expect(surrogate.value).toBeGreaterThan(0)
    tf.dispose([theta, optimiser.first, optimiser.second])
  })

  it('leaves everything alone where there is nothing to learn from', async () => {
    const zero = new Float64Array(advantages.used.length)
    const result = await update(config, { ...advantages, used: zero, unclipped: zero, centred: zero })
    expect(result).toMatchObject({ outcome: 'skipped', step: { scale: 0, divergence: 0 } })
    expect(result.theta).toBe(agent.theta)
  })

  it('refuses a step into parameters that are not finite, and forgets its moments', async () => {
    const wild = await update(configWith({ objective: { learningRate: 1e30, steps: 3 } }))
    expect(wild.outcome).toBe('refused')
    expect(wild.theta).toBe(agent.theta)
    expect(wild.optimiser).toBe(agent.optimiser)
    expect(wild.beta).toBe(2)
  })

  it('is the same in micro-batches, but for rounding', async () => {
    const objective = { learningRate: 0.01, steps: 2 }
    const [whole, parts] = [await update(configWith({ objective })), await update(configWith({ objective: { ...objective, microTokens: 40 } }))]
    const [a, b, from] = (await Promise.all([whole.theta, parts.theta, agent.theta].map((theta) => theta.data()))) as Float32Array[]
    const step = a.map((x, i) => x - from[i])
    const size = Math.sqrt(step.reduce((sum, x) => sum + x * x, 0))
    expect(Math.sqrt(a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0))).toBeLessThan(1e-3 * size)
    expect(parts.step.divergence).toBeCloseTo(whole.step.divergence, 5)
    parts.logRatios.forEach((x, e) => expect(x).toBeCloseTo(whole.logRatios[e], 4))
    for (const { theta, optimiser } of [whole, parts]) tf.dispose([theta, optimiser.first, optimiser.second])
  })

  it('jointly: each agent inside its own δ, all at one scale; the first step of the first one is that of a single update', async () => {
    const config = configWith({ objective: { learningRate: 0.05, steps: 2 }, trustRegion: { delta: [0.01, 0.03] }, method: { update: 'joint' } })
    team.agents.forEach((each, i) => (each.delta = config.trustRegion.delta[i]))
    const both = await updateAgents(team, [0, 1], rollouts, advantages, rho(), config, random(4))
    expect(both[0].step.scale).toBe(both[1].step.scale)
    const parts = both.map(({ step }, i) => step.divergence / config.trustRegion.delta[i])
    expect(Math.max(...parts)).toBeLessThanOrEqual(1)
    expect(Math.max(...parts)).toBeGreaterThan(0.5)
    for (const { theta, optimiser } of both) tf.dispose([theta, optimiser.first, optimiser.second])

    const once = configWith({ objective: { learningRate: 1e-3, steps: 1 }, method: { acceptance: 'none' } })
    const joint = await updateAgents(team, [0, 1], rollouts, advantages, rho(), once, random(4))
    for (const index of [0, 1]) {
      const [alone] = await updateAgents(team, [index], rollouts, advantages, rho(), once, random(4))
      expect([...(await alone.theta.data())]).toEqual([...(await joint[index].theta.data())])
      tf.dispose([alone.theta, alone.optimiser.first, alone.optimiser.second])
    }
    for (const { theta, optimiser } of joint) tf.dispose([theta, optimiser.first, optimiser.second])
  })

  it('jointly: the second step of each agent has the other’s ratio of the episode as its factor', async () => {
    const joint = (steps: number) => configWith({ objective: { learningRate: 0.03, steps }, method: 'joint' })
    const [first, second] = [await updateAgents(team, [0, 1], rollouts, advantages, rho(), joint(1), random(4)), await updateAgents(team, [0, 1], rollouts, advantages, rho(), joint(2), random(4))]
    const moved: number[][] = []
    for (const index of [0, 1]) moved.push(await logRatiosByHand(team.agents[index], index, rollouts, [team.agents[index].theta, first[index].theta]))
    for (const index of [0, 1]) {
      const taken = [...tf.tidy(() => tf.sub(second[index].theta, first[index].theta).dataSync())]
      /** How far another step is from that, as a part of it. */
      const off = (factor: (e: number) => number): number => {
        const step = stepByHand(index, joint(1), first[index], factor)
        return Math.hypot(...step.map((x, i) => x - taken[i])) / Math.hypot(...taken)
      }
      expect(off((e) => Math.exp(moved[1 - index][e]))).toBeLessThan(1e-3)
      for (const wrong of [() => 1, (e: number) => Math.exp(moved[index][e]), (e: number) => Math.exp(moved[0][e] + moved[1][e])]) {
        expect(off(wrong)).toBeGreaterThan(0.03)
      }
    }
    for (const { theta, optimiser } of [...first, ...second]) tf.dispose([theta, optimiser.first, optimiser.second])
  })

  it.each(['exact', 'lowVariance'] as const)('with `reference: initial` a large β brings θ back to where the run began (%s)', async (estimator) => {
    const config = configWith({ objective: { reference: 'initial', estimator, learningRate: 3e-3, steps: 12 }, method: { acceptance: 'none' } })
    const noise = random(6)
    const initial = tf.tidy(() => tf.add<tf.Tensor1D>(agent.theta, tf.tensor1d(Float32Array.from({ length: agent.theta.size }, () => 0.05 * noise.normal()))))
    const [{ theta, optimiser }] = await updateAgents({ agents: [team.agents[0], { ...agent, initial, beta: 1e4 }] }, [1], rollouts, advantages, rho(), config, random(4))
    expect(await klByHand(initial, true, theta)).toBeLessThan(0.5 * await klByHand(initial, true, agent.theta))
    tf.dispose([initial, theta, optimiser.first, optimiser.second])
  })

  it('measured on a part of the tokens: unbiased, and all of them are on record beside it', async () => {
    const config = (fraction: number) => configWith({ objective: { learningRate: 0.01 }, trustRegion: { fraction, delta: 1 } })
    const whole = await update(config(1))
    expect(whole.proposedOnAll).toBeNull()
    const read: number[] = []
    for (let k = 0; k < 60; k++) {
      const [part] = await updateAgents(team, [1], rollouts, advantages, rho(), config(0.5), random(k))
      expect(part.proposedOnAll).toBeCloseTo(whole.step.proposed, 6)
      read.push(part.step.proposed)
      tf.dispose([part.theta, part.optimiser.first, part.optimiser.second])
    }
    // Student's interval at 1e-6 (4.9 standard errors and a margin): the seeds are fixed.
    const mean = read.reduce((a, b) => a + b) / read.length
    const deviation = Math.sqrt(read.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (read.length - 1))
    expect(deviation).toBeGreaterThan(0)
    expect(Math.abs(mean - whole.step.proposed)).toBeLessThan((5.5 * deviation) / Math.sqrt(read.length))
    tf.dispose([whole.theta, whole.optimiser.first, whole.optimiser.second])
  })

  it('makes no tensors but those it returns', async () => {
    const before = tf.memory().numTensors
    for (const objective of [{ learningRate: 1e-3 }, { learningRate: 0.1, microTokens: 40 }, { learningRate: 1e30 }]) {
      const { theta, optimiser } = await update(configWith({ objective }))
      if (theta !== agent.theta) tf.dispose([theta, optimiser.first, optimiser.second])
    }
    expect(tf.memory().numTensors).toBe(before)
  })
})

it('messageWeights: GRPO means over a message’s tokens, DAPO over all tokens', () => {
  const messages = messagesOf(rollouts, 1)
  const length = (distinct: number) => messages.spans[distinct][1] - messages.spans[distinct][0]
  const tokens = messages.occurrences.reduce((sum, { distinct }) => sum + length(distinct), 0)
  for (const [average, part] of [['message', (d: number) => 1 / length(d) / messages.occurrences.length], ['token', () => 1 / tokens]] as const) {
    const { positive, negative } = messageWeights(messages, advantages, configWith({ objective: { ratio: 'token', average } }), rollouts.episodes.length)
    const expected = new Float64Array(messages.spans.length)
    for (const { distinct, message } of messages.occurrences) expected[distinct] += part(distinct) * advantages.used[message]
    expected.forEach((x, d) => expect(positive[d] - negative[d]).toBeCloseTo(x, 6))
  }
})

it('messageWeights add up to the means over messages, whatever occurs twice', async () => {
  const messages = messagesOf(rollouts, 1)
  // Every episode has four messages.
  const of = (e: number) => 4 * e
  const own = rollouts.episodes.flatMap(({ messages }, e) => messages.filter(({ agent }) => agent === 1).map(({ turn }) => ({ e, turn })))
  for (const reading of ['message', 'discounted', 'occupancy'] as const) {
    const config = configWith({ trustRegion: { reading } })
    const { positive, negative, divergence } = messageWeights(messages, advantages, config, rollouts.episodes.length)
    const sum = (x: Float32Array) => x.reduce((a, b) => a + b)
    const mean = (f: (a: number) => number) => own.reduce((total, { e }) => total + f(advantages.used[of(e)]), 0) / own.length
    expect(sum(positive)).toBeCloseTo(mean((a) => Math.max(0, a)), 5)
    expect(sum(negative)).toBeCloseTo(mean((a) => Math.max(0, -a)), 5)
    expect(sum(divergence)).toBeCloseTo(reading === 'occupancy' ? rho()[1] : 1, 5)
  }
})
