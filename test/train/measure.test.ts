import { describe, expect, it } from 'vitest'
import type { Advantages } from '../../src/train/advantage.js'
import { activeMass, divergence, drawTokens, surrogate } from '../../src/train/measure.js'
import { messagesOf, sequencesOf } from '../../src/train/messages.js'
import type { Rollouts } from '../../src/train/rollout.js'
import { random } from '../../src/util/random.js'

const say = (agent: number, turn: number, prompt: number[], tokens: number[]) =>
  ({ agent, turn, prompt, tokens, read: 0, reward: 0, logProbs: tokens.map(() => 0), samplingLogProbs: tokens.map(() => 0) })

/** Two problems, two episodes each. Agent 0 speaks at turns 0 and 2, agent 1 at turn 1. The first two episodes are alike. */
const rollouts: Rollouts = {
  problems: ['a', 'b'],
  group: 2,
  episodes: [
    { problem: 0, context: '', reward: 1, return: 1, messages: [say(0, 0, [5], [1, 9]), say(1, 1, [5, 1, 9], [2, 9]), say(0, 2, [5, 1, 9, 2, 9], [3])] },
    { problem: 0, context: '', reward: 0, return: 0, messages: [say(0, 0, [5], [1, 9]), say(1, 1, [5, 1, 9], [2, 9]), say(0, 2, [5, 1, 9, 2, 9], [3])] },
    { problem: 1, context: '', reward: 0, return: 0, messages: [say(0, 0, [6], [1, 9])] },
    // Its first message was replaced in the context: the later prompt does not go on from it.
    { problem: 1, context: '', reward: 1, return: 1, messages: [say(0, 0, [6], [7]), say(1, 1, [6, 8], [2, 9]), say(0, 2, [6, 8, 2, 9], [3])] },
  ],
}

describe('messagesOf', () => {
  it('puts an episode on one sequence where its messages follow each other, and equal sequences once', () => {
    const { sequences, spans, occurrences } = messagesOf(rollouts, 0)
    expect(sequences).toEqual([
      { ids: [5, 1, 9, 2, 9, 3], marked: [[1, 3], [5, 6]] },
      { ids: [6, 1, 9], marked: [[1, 3]] },
      { ids: [6, 7], marked: [[1, 2]] },
      { ids: [6, 8, 2, 9, 3], marked: [[4, 5]] },
    ])
    expect(spans).toEqual([[0, 2], [2, 3], [3, 5], [5, 6], [6, 7]])
    expect(occurrences).toEqual([
      { episode: 0, turn: 0, message: 0, distinct: 0 }, { episode: 0, turn: 2, message: 2, distinct: 1 },
      { episode: 1, turn: 0, message: 3, distinct: 0 }, { episode: 1, turn: 2, message: 5, distinct: 1 },
      { episode: 2, turn: 0, message: 6, distinct: 2 },
      { episode: 3, turn: 0, message: 7, distinct: 3 }, { episode: 3, turn: 2, message: 9, distinct: 4 },
    ])
  })

  it('every occurrence has the tokens of its message, after its prompt', () => {
    for (const agent of [0, 1]) {
      const { sequences, spans, occurrences } = messagesOf(rollouts, agent)
      const texts = sequences.flatMap(({ ids, marked }) =>
        marked.map(([from, to]) => ({ prompt: ids.slice(0, from), tokens: ids.slice(from, to) })))
      expect(texts.map(({ tokens }) => tokens.length)).toEqual(spans.map(([from, to]) => to - from))
      for (const { episode, turn, distinct } of occurrences) {
        const { prompt, tokens } = rollouts.episodes[episode].messages[turn]
        expect(texts[distinct]).toEqual({ prompt, tokens })
      }
    }
  })

  it('gives nothing for an agent that never spoke', () => {
    expect(messagesOf(rollouts, 2)).toEqual({ sequences: [], spans: [], occurrences: [] })
    expect(sequencesOf([])).toEqual([])
  })
})

describe('divergence', () => {
  // Messages of agent 0: KL 0.04 at turn 0 of episodes 0 and 1, 0.01 at their turn 2; 0 for the rest.
  const messages = messagesOf(rollouts, 0)
  const values = {
    logBehaviour: [-1, -1, -1, -1, -1, -1, -1],
    logUpdated: [-1.5, -0.5, -1, -1, -1, -1, -1],
    exact: [0.03, 0.01, 0.01, 0, 0, 0, 0],
  }
  const rho = activeMass(rollouts, 2, 0.5)[0]

  it('reads it as a mean of messages, a discounted one, and D_tok', () => {
    const d = divergence(messages, values, { estimator: 'exact', gamma: 0.5, rho })
    expect(d.message).toBeCloseTo((0.04 + 0.01 + 0.04 + 0.01) / 7, 12)
    const weights = 4 * 1 + 3 * 0.25
    expect(d.discounted).toBeCloseTo((2 * 0.04 + 2 * 0.25 * 0.01) / weights, 12)
    // (1 − γ)/E · Σ_m γ^t KL_m, over the four episodes.
    expect(d.occupancy).toBeCloseTo((0.5 / 4) * (2 * 0.04 + 2 * 0.25 * 0.01), 12)
  })

  it('plain cancels what low-variance does not', () => {
    expect(divergence(messages, values, { estimator: 'plain', gamma: 0.5, rho }).message).toBeCloseTo(0, 12)
    expect(divergence(messages, values, { estimator: 'lowVariance', gamma: 0.5, rho }).message).toBeCloseTo((2 * (Math.exp(0.5) + Math.exp(-0.5) - 2)) / 7, 12)
  })

  it('has ρ̂ as the discounted share of the turns', () => {
    expect([...activeMass(rollouts, 2, 0.5)]).toEqual([0.5 * (4 + 3 * 0.25) / 4, 0.5 * (3 * 0.5) / 4].map((x) => expect.closeTo(x, 12)))
  })
})

describe('drawTokens', () => {
  // 20 000 draws; the standard errors of the frequencies are at most 0.0036, and 4.5 of them are left: 4·10⁻⁵ in all that something fails by chance.
  it.each([[3, 0.001], [3, 0.2], [4, 0.6]])('of %i tokens with q = %d draws one at least, each with the probability that it states', (tokens, q) => {
    const source = random(1)
    const draws = Array.from({ length: 20_000 }, () => drawTokens(tokens, q, source))
    const some = 1 - (1 - q) ** tokens
    const counts = new Map<string, number>()
    for (const { drawn, fraction } of draws) {
      if (!drawn.includes(true) || Math.abs(fraction - q / some) > 1e-12) expect.fail(`${drawn.join()} with ${fraction}`)
      const key = drawn.map(Number).join('')
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    // Every set as often as independent draws make it, given that one is drawn.
    for (let set = 1; set < 2 ** tokens; set++) {
      const key = set.toString(2).padStart(tokens, '0')
      const size = [...key].filter((bit) => bit === '1').length
      expect(Math.abs((counts.get(key) ?? 0) / 20_000 - (q ** size * (1 - q) ** (tokens - size)) / some)).toBeLessThan(4.5 * 0.0036)
    }
  })

  it('is the plain draw where that is not empty', () => {
    const [source, same] = [random(2), random(2)]
    expect(drawTokens(200, 0.5, source)).toEqual({ fraction: 0.5, drawn: Array.from({ length: 200 }, () => same.next() < 0.5) })
    expect(drawTokens(1, 1e-12, source)).toEqual({ fraction: 1, drawn: [true] })
  })
})

describe('surrogate', () => {
  const advantages = (used: number[], unclipped = used, centred = used): Advantages =>
    ({ used: Float64Array.from(used), unclipped: Float64Array.from(unclipped), centred: Float64Array.from(centred), weights: new Float64Array(2).fill(1) })
  const pair: Rollouts = {
    problems: ['a'],
    group: 2,
    episodes: [
      { problem: 0, context: '', reward: 1, return: 1, messages: [say(0, 0, [5], [1])] },
      { problem: 0, context: '', reward: 0, return: 0, messages: [say(0, 0, [5], [2])] },
    ],
  }
  const of = (ratios: number[], a: Advantages, options = {}) =>
    surrogate(pair, messagesOf(pair, 0), { logBehaviour: [-1, -1], logUpdated: ratios.map((w) => Math.log(w) - 1), exact: null }, a,
      { gamma: 0.5, clip: { low: 0.2, high: 0.2 }, ratio: 'message', average: 'sum', ...options })

  it('is ½[(1.1 − 1)·1 + (0.8 − 1)·(−1)] = 0.15 where nothing is cut, and ζ̂ is 0', () => {
    const s = of([1.1, 0.8], advantages([1, -1]))
    expect(s).toMatchObject({ value: expect.closeTo(0.15, 12), unbiased: expect.closeTo(0.15, 12), scale: 1 })
    expect(s.zeta.total).toBeCloseTo(0, 12)
  })

  it('counts a clipped ratio: 1.5 counts as 1.2', () => {
    const s = of([1.5, 0.8], advantages([1, -1]))
    expect(s.value).toBeCloseTo(0.2, 12)
    expect(s.unbiased).toBeCloseTo(0.35, 12)
    expect(s.zeta.ratio).toBeCloseTo(0.5 * 0.15, 12)
    expect(s.zeta).toMatchObject({ clip: 0, normalisation: 0 })
  })

  it('counts a clipped advantage, per unit of σ', () => {
    // z = (2, −2) cut to (1, −1); returns are worth σ = 2 per unit of Ã.
    const s = of([1.1, 0.8], advantages([1, -1], [2, -2], [2, -2]))
    expect(s.scale).toBe(2)
    expect(s.zeta.clip).toBeCloseTo(0.5 * 2 * Math.abs(((0.1) * (1 - 2) + (-0.2) * (-1 + 2)) / 2), 12)
  })

  it('the parts of ζ̂ bound what separates the Â used from the true one', () => {
    for (const ratios of [[1.7, 0.6], [0.5, 1.9], [1.05, 1.3]]) {
      const s = of(ratios, advantages([1, -0.5], [1.4, -0.5], [3, -2]))
      expect(0.5 * Math.abs(s.value - s.unbiased)).toBeLessThanOrEqual(s.zeta.total + 1e-12)
    }
  })

  it('token by token it adds up the tokens’ terms', () => {
    const two: Rollouts = { ...pair, episodes: pair.episodes.map((episode, e) => ({ ...episode, messages: [say(0, 0, [5], [1 + e, 3])] })) }
    const values = { logBehaviour: [0, 0, 0, 0], logUpdated: [0.1, 0.1, -0.1, 0], exact: null }
    const s = surrogate(two, messagesOf(two, 0), values, advantages([1, -1]), { gamma: 0.5, clip: { low: 0.2, high: 0.2 }, ratio: 'token', average: 'sum' })
    expect(s.value).toBeCloseTo((2 * Math.expm1(0.1) - Math.expm1(-0.1)) / 2, 12)
    expect(s.unbiased).toBeCloseTo((Math.expm1(0.2) - Math.expm1(-0.1)) / 2, 12)
  })
})
