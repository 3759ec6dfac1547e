/**
 * Every objective against exact gradients: a game of two agents with all of its 49 episodes, each weighted by its probability, so that the mean over
 * episodes is the expectation. Policies are tables of logits (next token given the last one); reference values are float64 sums and finite differences.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { advantagesOf, type AdvantageInputs, type AdvantageOptions, type Advantages } from '../../src/train/advantage.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type Config, type ConfigInput } from '../../src/train/config.js'
import { messagesOf, microBatches } from '../../src/train/messages.js'
import { markedLogProbs } from '../../src/train/model/functions.js'
import { acting, objective } from '../../src/train/objective.js'
import type { Policy } from '../../src/train/policy.js'
import type { Episode, Rollouts } from '../../src/train/rollout.js'
import { messageWeights } from '../../src/train/update.js'

const V = 3
const END = 2
const MESSAGES = [[END], [0, 0], [0, 1], [0, END], [1, 0], [1, 1], [1, END]]
const policy: Policy = {
  layout: [{ name: 'table', shape: [V, V], offset: 0, initial: { mean: 0, deviation: 1 } }],
  vocabulary: V,
  logDistributions: (theta, { ids, places }) => tf.tidy(() => {
    const last = tf.gather(tf.reshape(ids, [-1]), places)
    return tf.logSoftmax(tf.matMul<tf.Tensor2D>(tf.oneHot(last, V).toFloat(), tf.reshape(theta, [V, V])))
  }),
  logProbs: (theta, batch) => tf.tidy(() => markedLogProbs(policy.logDistributions(theta, batch), batch.picks)),
  sample: () => { throw new Error('not needed') },
}

type Table = readonly number[]
const row = (theta: Table, last: number): number[] => {
  const own = theta.slice(last * V, (last + 1) * V)
  const logSum = Math.log(own.reduce((sum, x) => sum + Math.exp(x), 0))
  return own.map((x) => x - logSum)
}
/** log π of each token of a message after a prompt. */
const logs = (theta: Table, prompt: readonly number[], message: readonly number[]): number[] =>
  message.map((token, u) => row(theta, u === 0 ? prompt.at(-1)! : message[u - 1])[token])
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)
const probability = (theta: Table, prompt: readonly number[], message: readonly number[]): number => Math.exp(sum(logs(theta, prompt, message)))

// Agent 0 speaks after [0]; agent 1 after that and what agent 0 said. Each message earns something.
const GAMMA = 0.6
const game = MESSAGES.flatMap((first, a) => MESSAGES.map((second, b) => ({
  messages: [{ prompt: [0], tokens: first, reward: 0.1 * (a % 3) }, { prompt: [0, ...first], tokens: second, reward: ((a * 5 + b * 3) % 7) / 6 }],
})))
type Team = readonly [Table, Table]
const current: Team = [[0.3, -0.2, 0.5, 1.0, 0.1, -0.7, 0, 0.2, 0.1], [-0.4, 0.3, 0.1, 0.2, -0.6, 0.4, 0.5, -0.1, 0.3]]
const moved: Team = [[0.6, -0.5, 0.2, 0.4, 0.6, -0.3, 0.1, 0, 0], [0.1, 0.2, -0.2, 0.4, -0.3, 0.1, 0.2, 0.2, 0.5]]
const lawOf = (team: Team): number[] => game.map(({ messages }) => messages.reduce((p, { prompt, tokens }, j) => p * probability(team[j], prompt, tokens), 1))
const returnOf = ({ messages: [a, b] }: (typeof game)[number]): number => a.reward + GAMMA * b.reward
const J = (team: Team): number => sum(lawOf(team).map((p, e) => p * returnOf(game[e])))

const gradient = (f: (theta: Table) => number, theta: Table): number[] =>
  theta.map((_, i) => {
    const at = (h: number): number => f(theta.map((x, k) => (k === i ? x + h : x)))
    return (at(1e-5) - at(-1e-5)) / 2e-5
  })
const gradientOfJ = (team: Team, agent: 0 | 1): number[] => gradient((theta) => J(agent === 0 ? [theta, team[1]] : [team[0], theta]), team[agent])

const rollouts: Rollouts = {
  problems: ['the game'],
  group: game.length,
  episodes: game.map((episode): Episode => ({
    problem: 0,
    messages: episode.messages.map(({ prompt, tokens, reward }, turn) => ({ agent: turn, turn, read: 1 + turn, prompt, tokens, logProbs: [], samplingLogProbs: [], reward })),
    context: '...',
    reward: sum(episode.messages.map(({ reward }) => reward)),
    return: returnOf(episode),
  })),
}
const E = game.length

const plain: AdvantageOptions = { normalise: false, epsilon: 0, clip: null }
/** Advantages whose means over episodes are expectations under the team that sampled: each episode stands for 49 times its probability. */
const exactly = (options: AdvantageOptions, inputs: AdvantageInputs = {}, law = lawOf(current)): Advantages =>
  ({ ...advantagesOf(rollouts, options, inputs), weights: Float64Array.from(law, (p) => E * p) })

const configWith = (more: ConfigInput = {}): Config => parseConfig({ team: { agents: 2 }, gamma: GAMMA, ...more })

/** What an update of an agent climbs, and its gradient, at θ: through the code that updates use. */
const climbed = (
  agent: 0 | 1, advantages: Advantages, config: Config, { at = current[agent], beta = 0, factor, reference }: {
    at?: Table; beta?: number; factor?: (e: number) => number; reference?: Table
  } = {},
): { value: number; gradient: number[] } =>
  tf.tidy(() => {
    const messages = messagesOf(rollouts, agent)
    const [{ batch, holds }] = microBatches(messages, null)
    const weights = messageWeights(messages, advantages, config, E, factor)
    const own = Object.fromEntries(Object.entries(weights).map(([name, values]) => [name, tf.tensor1d(Float32Array.from(holds, (d) => values[d]))]))
    const law = (theta: tf.Tensor1D) => acting(policy, theta, batch.tokens, 1, true)
    const { value, grad } = tf.valueAndGrad((theta) => objective(
      law(tf.tensor1d([...current[agent]])), law(theta as tf.Tensor1D), batch, own as unknown as Parameters<typeof objective>[3], beta, config.objective,
      reference && law(tf.tensor1d([...reference])),
    ))(tf.tensor1d([...at]))
    return { value: value.dataSync()[0], gradient: [...grad.dataSync()] }
  })

const closeTo = (actual: readonly number[], expected: readonly number[], digits = 5): void => {
  expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(1e-3)
  actual.forEach((x, i) => expect(x).toBeCloseTo(expected[i], digits))
}

beforeAll(async () => { await initEngine() })

it('the episodes are all there are', () => {
  expect(sum(lawOf(current))).toBeCloseTo(1, 12)
  expect(sum(lawOf([moved[0], current[1]]))).toBeCloseTo(1, 12)
})

describe('gradients of J', () => {
  it.each([0, 1] as const)('group baseline, at θ_cur: agent %d', (agent) => {
    closeTo(climbed(agent, exactly(plain), configWith()).gradient, gradientOfJ(current, agent))
  })

  const logW = game.map(({ messages: [{ prompt, tokens }] }) => sum(logs(moved[0], prompt, tokens)) - sum(logs(current[0], prompt, tokens)))

  it('HAPPO: after agent 0 has moved, the compounded gradient of agent 1 is that of J at the partly updated team, from the old rollouts', () => {
    const advantages = exactly(plain, { correction: 'compound', logRatios: logW })
    closeTo(climbed(1, advantages, configWith()).gradient, gradientOfJ([moved[0], current[1]], 1))
    // Stale without the correction is another direction.
    const stale = climbed(1, exactly(plain), configWith()).gradient
    expect(Math.max(...gradientOfJ([moved[0], current[1]], 1).map((x, i) => Math.abs(x - stale[i])))).toBeGreaterThan(1e-3)
  })

  it('importance weights: the same gradient, by weighted means', () => {
    const advantages = advantagesOf(rollouts, plain, { correction: 'importance', logRatios: lawOf(current).map((p, e) => Math.log(E * p) + logW[e]) })
    closeTo(climbed(1, advantages, configWith()).gradient, gradientOfJ([moved[0], current[1]], 1))
  })

  it.each([0, 1] as const)('joint: with the other agent’s ratio as a factor, the gradient at the team as both have moved; agent %d', (agent) => {
    const other = agent === 0 ? 1 : 0
    const ratio = game.map(({ messages }) => {
      const { prompt, tokens } = messages[other]
      return Math.exp(sum(logs(moved[other], prompt, tokens)) - sum(logs(current[other], prompt, tokens)))
    })
    const wide = configWith({ objective: { clip: 1e6 } })
    const { gradient: actual } = climbed(agent, exactly(plain), wide, { at: moved[agent], factor: (e) => ratio[e] })
    closeTo(actual, gradientOfJ(moved, agent))
  })

  // Agent j speaks at turn j alone, so its Â is the advantage in units of what is to come: γ^j times it is that of J.
  it.each([[0, 0], [0, 0.7], [0, 1], [1, 0], [1, 1]] as const)('PPO: agent %d, GAE with the exact values, λ = %d', (agent, lambda) => {
    const law = lawOf(current)
    const valueOf = (turn: number, prompt: readonly number[]): number => {
      const here = game.flatMap((episode, e) => (episode.messages[turn].prompt.join() === prompt.join() ? [{ episode, p: law[e] }] : []))
      const toGo = ({ messages }: (typeof game)[number]): number => (turn === 0 ? returnOf({ messages }) : messages[1].reward)
      return sum(here.map(({ episode, p }) => p * toGo(episode))) / sum(here.map(({ p }) => p))
    }
    const values = game.flatMap(({ messages }) => messages.map(({ prompt }, turn) => valueOf(turn, prompt)))
    const advantages = exactly({ ...plain, baseline: 'value', lambda }, { gamma: GAMMA, values })
    const { gradient: actual } = climbed(agent, advantages, configWith())
    closeTo(actual.map((x) => x * GAMMA ** agent), gradientOfJ(current, agent))
  })

  it('PPO: with values that are wrong, λ = 1 is still the gradient, λ = 0 is not', () => {
    const values = game.flatMap((_, e) => [0.3, 0.2 + 0.3 * Number(MESSAGES[Math.floor(e / 7)].at(-1) === 1)])
    const at = (lambda: number) => climbed(0, exactly({ ...plain, baseline: 'value', lambda }, { gamma: GAMMA, values }), configWith()).gradient
    closeTo(at(1), gradientOfJ(current, 0))
    expect(Math.max(...at(0).map((x, i) => Math.abs(x - gradientOfJ(current, 0)[i])))).toBeGreaterThan(1e-3)
  })
})

describe('objectives away from θ_cur, in value and gradient', () => {
  const law = lawOf(current)
  const mean = sum(rollouts.episodes.map((episode) => episode.return)) / E
  const A = rollouts.episodes.map((episode) => episode.return - mean)
  const lengths = (agent: 0 | 1) => game.map(({ messages }) => messages[agent].tokens.length)
  const clipped = (w: number, a: number, low: number, high: number): number => Math.min(w * a, Math.min(1 + high, Math.max(1 - low, w)) * a)

  /** Σ_e P(e) Σ_u weight(e) (clipped term of each token − β KL term), from the definitions. */
  const definition = (
    theta: Table, agent: 0 | 1, weight: (e: number) => number, [low, high]: readonly [number, number], beta: number, k: (p: number, q: number) => number, to: Table,
  ): number => sum(game.map(({ messages }, e) => {
    const { prompt, tokens } = messages[agent]
    const [before, after, reference] = [current[agent], theta, to].map((table) => logs(table, prompt, tokens))
    return law[e] * weight(e) * sum(tokens.map((_, u) => clipped(Math.exp(after[u] - before[u]), A[e], low, high) - beta * k(after[u], reference[u])))
  }))

  const k3 = (p: number, q: number): number => Math.exp(q - p) - 1 - (q - p)
  const reference: Team = [moved[1], moved[0]]

  it('GRPO: mean over a message’s tokens, KL to a fixed reference by k3', () => {
    const config = configWith({ method: 'grpo' })
    for (const agent of [0, 1] as const) {
      const f = (theta: Table) => definition(theta, agent, (e) => 1 / lengths(agent)[e], [0.2, 0.2], 0.5, k3, reference[agent])
      const { value, gradient: actual } = climbed(agent, exactly(plain), config, { at: moved[agent], beta: 0.5, reference: reference[agent] })
      expect(value).toBeCloseTo(f(moved[agent]), 5)
      closeTo(actual, gradient(f, moved[agent]))
    }
  })

  it('DAPO: clip {0.2, 0.28}, every token of the batch counts the same', () => {
    const config = configWith({ method: 'dapo' })
    for (const agent of [0, 1] as const) {
      // The batch has each episode once, whatever it weighs.
      const average = E / sum(lengths(agent))
      const f = (theta: Table) => definition(theta, agent, () => average, [0.2, 0.28], 0, k3, theta)
      const { value, gradient: actual } = climbed(agent, exactly(plain), config, { at: moved[agent] })
      expect(value).toBeCloseTo(f(moved[agent]), 5)
      closeTo(actual, gradient(f, moved[agent]))
    }
  })

  const none = { ...exactly(plain), used: new Float64Array(2 * E) }

  it('the exact KL to a reference is the expectation of k3, where tokens are drawn from the policy itself', () => {
    const values = (['exact', 'lowVariance'] as const).map((estimator) =>
      climbed(0, none, configWith({ objective: { estimator, reference: 'initial' } }), { beta: 1, reference: moved[0] }).value)
    const kl = sum(MESSAGES.map((message) => {
      const [p, q] = [current[0], moved[0]].map((theta) => sum(logs(theta, [0], message)))
      return Math.exp(p) * (p - q)
    }))
    for (const value of values) expect(value).toBeCloseTo(-kl, 6)
  })

  it('the exact KL to a reference has the gradient of its definition', () => {
    const config = configWith({ objective: { estimator: 'exact', reference: 'initial' } })
    const f = (theta: Table): number => -sum(game.map(({ messages: [{ prompt, tokens }] }, e) => law[e] * sum(tokens.map((_, u) => {
      const [p, q] = [theta, reference[0]].map((table) => row(table, u === 0 ? prompt.at(-1)! : tokens[u - 1]))
      return sum(p.map((x, v) => Math.exp(x) * (x - q[v])))
    }))))
    const { gradient: actual } = climbed(0, none, config, { at: moved[0], beta: 1, reference: reference[0] })
    closeTo(actual, gradient(f, moved[0]))
  })

  it('k3 to a reference has at θ_cur the gradient of the KL the other way round, KL(reference‖policy) of each next token', () => {
    const f = (theta: Table): number => -sum(game.map(({ messages: [{ prompt, tokens }] }, e) => law[e] * sum(tokens.map((_, u) => {
      const [p, q] = [reference[0], theta].map((table) => row(table, u === 0 ? prompt.at(-1)! : tokens[u - 1]))
      return sum(p.map((x, v) => Math.exp(x) * (x - q[v])))
    }))))
    const { gradient: actual } = climbed(0, none, configWith({ objective: { estimator: 'lowVariance', reference: 'initial' } }), { beta: 1, reference: reference[0] })
    closeTo(actual, gradient(f, current[0]))
  })
})
