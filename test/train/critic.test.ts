import { beforeAll, describe, expect, it } from 'vitest'
import { advantagesOf, generalisedAdvantages, returnsToGo } from '../../src/train/advantage.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { cloneCritic, disposeCritic, fitCritic, newCritic, targetsOf, valuesOf, type Critic } from '../../src/train/critic.js'
import type { Rollouts } from '../../src/train/rollout.js'
import { random } from '../../src/util/random.js'

const configWith = (critic: ConfigInput['critic'] = {}) => parseConfig({ method: 'ppo', gamma: 0.5, critic: { hidden: 16, intermediate: 16, ...critic } })

/** Episodes of contexts that grow, and the reward of each message. */
const rolloutsOf = (episodes: readonly (readonly [contexts: readonly string[], rewards: readonly number[]])[], group = 2): Rollouts => ({
  problems: Array.from({ length: episodes.length / group }, (_, p) => String(p)),
  group,
  episodes: episodes.map(([contexts, rewards], e) => ({
    problem: Math.floor(e / group),
    context: `${contexts.at(-1)}!`,
    messages: contexts.map((read, turn) => ({ agent: turn, turn, read: read.length, prompt: [1], tokens: [1], logProbs: [0], samplingLogProbs: [0], reward: rewards[turn] })),
    reward: rewards.reduce((a, b) => a + b),
    return: rewards.reduce((sum, r, t) => sum + 0.5 ** t * r, 0),
  })),
})

describe('generalisedAdvantages', () => {
  const [rewards, values] = [[0, 0, 1], [0.2, 0.5, 0.6]]
  // δ₂ = 1 − 0.6, δ₁ = 0.5 · 0.6 − 0.5, δ₀ = 0.5 · 0.5 − 0.2; γλ = 0.25.
  it('is δ_t and what comes after it times γλ, by hand', () => {
    const [a, b, c] = generalisedAdvantages(rewards, values, 0.5, 0.5)
    expect(c).toBeCloseTo(0.4, 12)
    expect(b).toBeCloseTo(-0.2 + 0.25 * 0.4, 12)
    expect(a).toBeCloseTo(0.05 + 0.25 * -0.1, 12)
  })

  it('is δ_t at λ = 0, and the return to go less the value at λ = 1', () => {
    const toGo = returnsToGo(rewards, 0.5)
    toGo.forEach((g, t) => expect(g).toBeCloseTo([0.25, 0.5, 1][t], 12))
    const whole = generalisedAdvantages(rewards, values, 0.5, 1)
    toGo.forEach((g, t) => expect(whole[t]).toBeCloseTo(g - values[t], 12))
    const steps = generalisedAdvantages(rewards, values, 0.5, 0)
    ;[0.05, -0.2, 0.4].forEach((delta, t) => expect(steps[t]).toBeCloseTo(delta, 12))
  })

  it('is whitened over all messages where advantages are normalised, and clipped', () => {
    const rollouts = rolloutsOf([[['a', 'ab'], [0, 1]], [['a', 'ac'], [0, 0]]])
    const options = { baseline: 'value' as const, lambda: 0.5, epsilon: 0, clip: null }
    const values = [0.3, 0.6, 0.3, 0.2]
    const raw = [...generalisedAdvantages([0, 1], [0.3, 0.6], 0.5, 0.5), ...generalisedAdvantages([0, 0], [0.3, 0.2], 0.5, 0.5)]
    expect([...advantagesOf(rollouts, { ...options, normalise: false }, { gamma: 0.5, values }).used]).toEqual(raw)
    const mean = raw.reduce((a, b) => a + b) / 4
    const deviation = Math.sqrt(raw.reduce((sum, x) => sum + (x - mean) ** 2, 0) / 4)
    const { used, unclipped, centred } = advantagesOf(rollouts, { ...options, normalise: true, clip: 1 }, { gamma: 0.5, values })
    raw.forEach((x, m) => {
      expect(unclipped[m]).toBeCloseTo((x - mean) / deviation, 12)
      expect(used[m]).toBeCloseTo(Math.max(-1, Math.min(1, (x - mean) / deviation)), 12)
    })
    // What the surrogate is estimated with stays the same: the return less the mean of the others'.
    expect([...centred]).toEqual([0.5, 0.5, -0.5, -0.5])
  })
})

describe('critic', () => {
  beforeAll(async () => { await initEngine() })
  const used = (run: (critic: Critic) => Promise<void>, config = configWith()) => async () => {
    const before = tf.memory().numTensors
    const critic = newCritic(config, random(1))
    await run(critic)
    disposeCritic(critic)
    expect(tf.memory().numTensors).toBe(before)
  }
  const texts = rolloutsOf([
    [['3+4=', '3+4=1;'], [0, 1]], [['3+4=', '3+4=2;'], [0, 0]],
    [['x', 'x: ein Größerer Satz, 漢字'], [0, 0.5]], [['x', 'x: ein Größerer Satz, 漢字'], [0.25, 0]],
  ])

  it('says 0 before it has learned', used(async (critic) => {
    expect([...await valuesOf(critic, texts, configWith())]).toEqual(new Array(8).fill(0))
  }))

  it('reads each context up to the message, whatever lies beside it in the batch and comes after', used(async (critic) => {
    fitCritic(critic, texts, configWith())
    const together = await valuesOf(critic, texts, configWith())
    expect(new Set(together).size).toBe(5) // of 8 contexts
    for (const [e, { messages, context }] of texts.episodes.entries()) {
      for (const [turn, { read }] of messages.entries()) {
        const alone = await valuesOf(critic, rolloutsOf([[[context.slice(0, read)], [0]]], 1), configWith())
        expect(together[2 * e + turn]).toBeCloseTo(alone[0], 5)
      }
    }
  }))

  it('reads the last bytes of a long context', used(async (critic) => {
    const config = configWith({ bytes: 8 })
    const contexts = ['abc', 'abcdefgh', 'abcdefghijkl', '????efghijkl', 'efghijkl']
    for (let k = 0; k < 5; k++) fitCritic(critic, texts, config)
    const values = await valuesOf(critic, rolloutsOf([[contexts.slice(0, 3), [0, 0, 0]], [[contexts[3]], [0]], [[contexts[4]], [0]]], 1), config)
    expect(values[3]).toBeCloseTo(values[2], 5)
    expect(values[4]).toBeCloseTo(values[2], 5)
    expect(Math.abs(values[1] - values[2])).toBeGreaterThan(1e-4)
  }, configWith({ bytes: 8 })))

  it('learns returns to go: what differs in the context, and the mean of what does not', used(async (critic) => {
    const config = configWith({ steps: 200 })
    expect(targetsOf(texts, config)).toEqual([0.5, 1, 0, 0, 0.25, 0.5, 0.25, 0])
    fitCritic(critic, texts, config)
    const values = await valuesOf(critic, texts, config)
    ;[0.25, 1, 0.25, 0, 0.25, 0.25, 0.25, 0.25].forEach((value, m) => expect(values[m]).toBeCloseTo(value, 1))
    expect(critic.optimiser.steps).toBe(200)
  }))

  it('takes the steps of least squares over messages, whatever occurs twice', used(async (critic) => {
    // Twice the same rollouts: the same mean squared error, so the same step, and in a batch of the same distinct contexts.
    const other = cloneCritic(critic)
    const twice = rolloutsOf([0, 1].flatMap(() => texts.episodes.map(({ messages, context }) =>
      [messages.map(({ read }) => context.slice(0, read)), messages.map(({ reward }) => reward)] as const)))
    for (const [each, rollouts] of [[critic, texts], [other, twice]] as const) fitCritic(each, rollouts, configWith({ steps: 4 }))
    const [a, b] = [critic, other].map(({ theta }) => theta.dataSync())
    a.forEach((x, i) => expect(b[i]).toBeCloseTo(x, 5))
    disposeCritic(other)
  }))
})
