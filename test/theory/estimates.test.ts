import { beforeAll, describe, expect, it } from 'vitest'
import { dTok } from '../../src/theory/divergence.js'
import {
  estimate,
  estimateActiveMass,
  estimateAdvantageError,
  estimateMessageKl,
  estimateOccupancy,
  estimateSurrogate,
  estimateTokenKl,
  integrandSamples,
  sampledAdvantage,
} from '../../src/theory/estimates.js'
import { evaluate, type Evaluation } from '../../src/theory/evaluate.js'
import { randomPolicy, ring, routed } from '../../src/theory/families.js'
import { bootstrapInterval, proportionInterval } from '../../src/theory/intervals.js'
import { pairs, replaceAgent, stateOf, teamMdp, teamPolicy, type TeamMdp, type TeamPolicy } from '../../src/theory/mdp.js'
import { simulate } from '../../src/theory/simulate.js'
import { random } from '../../src/util/random.js'

/** Σ_s d(s) Σ_a policy(a|s) f(s,a), by hand. */
const exactly = (mdp: TeamMdp, d: Float64Array, policy: TeamPolicy, f: ArrayLike<number>, only?: number): number => {
  let sum = 0
  for (let s = 0; s < mdp.states; s++) {
    if (only !== undefined && mdp.activeAgent[s] !== only) continue
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) sum += d[s] * policy[k] * f[k]
  }
  return sum
}

// Intervals below have level 1 − 1e-6, seeds are fixed: the error probability of a test is 1e-6 per interval it looks at.
const sure = { confidence: 1 - 1e-6 }
const holds = (interval: { low: number; high: number }, truth: number): void => {
  expect(interval.low).toBeLessThanOrEqual(truth)
  expect(interval.high).toBeGreaterThanOrEqual(truth)
}

describe.each(['geometric', 30] as const)('estimates from rollouts, horizon %s', (horizon) => {
  let mdp: TeamMdp
  let before: TeamPolicy
  let after: TeamPolicy
  let exact: Evaluation
  let rollouts: ReturnType<typeof simulate>
  beforeAll(() => {
    mdp = routed({ agents: 3, states: 12, actions: [1, 3], successors: 4, gamma: 0.8 }, random(1))
    before = randomPolicy(mdp, random(2))
    after = replaceAgent(mdp, before, 1, randomPolicy(mdp, random(3)))
    exact = evaluate(mdp, before)
    rollouts = simulate(mdp, before, { rollouts: 20_000, horizon, random: random(4) })
  })

  it('occupancy and active mass, all at once', () => {
    const d = estimateOccupancy(mdp, rollouts, sure)
    d.forEach((interval, s) => holds(interval, exact.d[s]))
    expect(Math.max(...d.map(({ low, high }) => high - low))).toBeLessThan(0.05)
    estimateActiveMass(mdp, rollouts, sure).forEach((interval, j) => holds(interval, exact.rho[j]))
    estimateActiveMass(mdp, rollouts, { ...sure, method: 'hoeffding' }).forEach((interval, j) => holds(interval, exact.rho[j]))
  })

  it('surrogates of any advantage, over all states or the own ones', () => {
    const draw = random(5)
    const advantage = exact.A.map((x) => x + 0.3 * draw.normal())
    holds(estimateSurrogate({ mdp, rollouts, before, after, advantage }, sure), exactly(mdp, exact.d, after, advantage) / 0.2)
    holds(estimateSurrogate({ mdp, rollouts, before, after, advantage, own: 1 }, sure), exactly(mdp, exact.d, after, advantage, 1) / 0.2)
  })

  it('token KL, both estimators, as occupancy and as message radius', () => {
    const truth = dTok(mdp, exact.d, before, after)
    for (const estimator of ['plain', 'low-variance'] as const) {
      const kl = estimateTokenKl({ mdp, rollouts, before, after, estimator }, sure)
      holds(kl, truth)
      // log w has variance about 2·KL: five standard errors
      expect(Math.abs(kl.estimate - truth)).toBeLessThan(5 * Math.sqrt((2 * truth) / 20_000))
      const message = estimateMessageKl({ mdp, rollouts, before, after, estimator, agent: 1 }, sure)
      holds(message, truth / exact.rho[1])
      expect(message.estimate).toBeGreaterThan(kl.estimate)
    }
  })
})

describe('estimates', () => {
  const mdp = ring({ agents: 2, levels: 3, actions: 2, gamma: 0.7 }, random(6))
  const before = randomPolicy(mdp, random(7))
  const after = replaceAgent(mdp, before, 0, randomPolicy(mdp, random(8)))
  const exact = evaluate(mdp, before)

  it('truncation is accounted for: with two steps the truth is far off the sum, and still inside', () => {
    const rollouts = simulate(mdp, before, { rollouts: 5000, horizon: 2, random: random(9) })
    const ones = new Float64Array(pairs(mdp)).fill(1)
    const one = estimate(mdp, rollouts, ones, [0, 1], sure)
    expect(one.estimate).toBeCloseTo(1 - 0.7 ** 2, 10)
    holds(one, 1)
    holds(estimate(mdp, rollouts, ones.map(() => -1), [-1, 0], sure), -1)
    expect(one.bias).toBeCloseTo(0.49, 12)
    estimateOccupancy(mdp, rollouts, sure).forEach((interval, s) => holds(interval, exact.d[s]))
  })

  it('the error of an advantage estimate, without the true advantage', () => {
    const draw = random(10)
    const advantage = exact.A.map((x) => x + 0.5 + 0.2 * draw.normal())
    const rollouts = simulate(mdp, before, { rollouts: 30_000, horizon: 'geometric', random: random(11) })
    const error = estimateAdvantageError({ mdp, rollouts, before, after, advantage, steps: 60, random: random(12) }, sure)
    const truth = exactly(
      mdp,
      exact.d,
      after,
      advantage.map((x, k) => x - exact.A[k]),
    )
    holds(error, truth)
    expect(error.high - error.low).toBeLessThan(0.3)
    expect(error.low).toBeGreaterThan(0.2)
  })

  it('samples of (w − 1)Q reach the ends of their range, but for the truncated rest, which is the bias', () => {
    // every reward that is met is the largest; a state that nothing leads to has the smallest
    const constant = teamMdp({
      n: 1, gamma: 0.5, states: 2, mu: Float64Array.of(1, 0), activeAgent: Int32Array.of(0, 0), actionStart: Int32Array.of(0, 2, 3),
      rowStart: Int32Array.of(0, 1, 2, 3), next: Int32Array.of(0, 0, 1), prob: Float64Array.of(1, 1, 1), reward: Float64Array.of(3, 3, -1),
    })
    const policy = teamPolicy(constant, [[0.5, 0.5], [1]])
    for (const [ratio, largest] of [[[0.2, 1.8, 1], 0.8], [[0, 2, 1], 1], [[0.9, 1.1, 1], 0.1]] as const) {
      const rollouts = simulate(constant, policy, { rollouts: 50, horizon: 'geometric', random: random(14) })
      const draws = sampledAdvantage({ mdp: constant, rollouts, policy, ratio: Float64Array.from(ratio), steps: 3, random: random(15) })
      // half the range of the rewards, 2, over 1 − γ
      const end = largest * 4
      expect(draws.range[1]).toBeCloseTo(end, 10)
      expect(draws.range[0]).toBeCloseTo(-end, 10)
      expect(draws.bias).toBeCloseTo(end / 8, 12)
      expect(Math.max(...draws.samples)).toBeCloseTo(end - draws.bias, 12)
      expect(Math.min(...draws.samples)).toBeCloseTo(draws.bias - end, 12)
    }
  })

  it('several intervals at once share α: one a state, one an agent, two of a quotient', () => {
    const rollouts = simulate(mdp, before, { rollouts: 3000, horizon: 'geometric', random: random(18) })
    const active = (j: number) => Float64Array.from({ length: pairs(mdp) }, (_, k) => Number(mdp.activeAgent[stateOf(mdp.actionStart, k)] === j))
    const [state] = estimateOccupancy(mdp, rollouts, { confidence: 0.9 })
    const first = new Float64Array(pairs(mdp)).fill(1, 0, mdp.actionStart[1])
    expect(state).toEqual(estimate(mdp, rollouts, first, [0, 1], { confidence: 1 - (1 - 0.9) / 6 }))
    const [agent] = estimateActiveMass(mdp, rollouts, { confidence: 0.9 })
    expect(agent).toEqual(estimate(mdp, rollouts, active(0), [0, 1], { confidence: 1 - (1 - 0.9) / 2 }))
    const input = { mdp, rollouts, before, after, agent: 0 }
    const kl = estimateTokenKl(input, { confidence: 0.95 })
    const rho = estimate(mdp, rollouts, active(0), [0, 1], { confidence: 0.95 })
    const quotient = { low: kl.low / rho.high, high: kl.high / rho.low, estimate: kl.estimate / rho.estimate, confidence: 0.9 }
    expect(estimateMessageKl(input, { confidence: 0.9 })).toMatchObject(quotient)
  })

  it('bootstrap of the samples behind an estimate', () => {
    const rollouts = simulate(mdp, before, { rollouts: 4000, horizon: 'geometric', random: random(16) })
    const active = Float64Array.from({ length: pairs(mdp) }, (_, k) => (mdp.activeAgent[stateOf(mdp.actionStart, k)] === 0 ? 1 : 0))
    const samples = integrandSamples(mdp, rollouts, active)
    const interval = bootstrapInterval(samples, { ...sure, random: random(17), replicates: 3000 })
    expect(interval.estimate).toBe(estimate(mdp, rollouts, active, [0, 1]).estimate)
    holds(interval, exact.rho[0])
  })

  it('intervals miss no more often than they say', () => {
    const draw = random(13)
    let count = 0
    const trials = 800
    for (let k = 0; k < trials; k++) {
      const rollouts = simulate(mdp, before, { rollouts: 60, horizon: k % 2 ? 'geometric' : 8, random: draw })
      if (estimateActiveMass(mdp, rollouts, { confidence: 0.7 }).some(({ low, high }, j) => exact.rho[j] < low || exact.rho[j] > high))
        count++
    }
    // error probability 1e-6
    expect(proportionInterval(count, trials, { confidence: 1 - 2e-6 }).low).toBeLessThanOrEqual(0.3)
  })

  it('lost support: an infinite KL has an infinite interval, and gained support is refused', () => {
    const one = teamMdp({
      n: 1,
      gamma: 0.5,
      states: 1,
      mu: Float64Array.of(1),
      activeAgent: Int32Array.of(0),
      actionStart: Int32Array.of(0, 2),
      rowStart: Int32Array.of(0, 1, 2),
      next: Int32Array.of(0, 0),
      prob: Float64Array.of(1, 1),
      reward: Float64Array.of(0, 1),
    })
    const mixed = teamPolicy(one, [[0.5, 0.5]])
    const pure = teamPolicy(one, [[1, 0]])
    const rollouts = simulate(one, mixed, { rollouts: 50, horizon: 'geometric', random: random(1) })
    expect(estimateTokenKl({ mdp: one, rollouts, before: mixed, after: pure, estimator: 'plain' })).toMatchObject({
      estimate: Infinity,
      high: Infinity,
    })
    const narrow = simulate(one, pure, { rollouts: 50, horizon: 'geometric', random: random(1) })
    expect(() => estimateTokenKl({ mdp: one, rollouts: narrow, before: pure, after: mixed })).toThrow(
      'after[0][1]: holds 0.5 where the team before never plays',
    )
    expect(() => simulate(one, mixed, { rollouts: 0, horizon: 3, random: random(1) })).toThrow('rollouts: holds 0')
    expect(() => simulate(one, mixed, { rollouts: 2, horizon: 0.5, random: random(1) })).toThrow('horizon: holds 0.5')
  })
})

describe('simulation', () => {
  it('draws every pair and successor as often as it should (chi-square, error probability 1e-6)', () => {
    const mdp = routed({ agents: 2, states: 5, actions: 3, successors: 3, gamma: 0.9 }, random(21))
    const policy = randomPolicy(mdp, random(22))
    const { pair, state, start } = simulate(mdp, policy, { rollouts: 20, horizon: 2000, random: random(23) })
    let chi = 0
    let freedom = 0
    for (let s = 0; s < mdp.states; s++) {
      const visits = state.filter((x) => x === s).length
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        const seen = pair.filter((x) => x === k).length
        chi += (seen - visits * policy[k]) ** 2 / (visits * policy[k])
      }
      freedom += mdp.actionStart[s + 1] - mdp.actionStart[s] - 1
    }
    for (let k = 0; k < pairs(mdp); k++) {
      const after = new Map<number, number>()
      let taken = 0
      for (let at = 0; at + 1 < pair.length; at++) {
        if (pair[at] !== k || start.includes(at + 1)) continue
        taken++
        after.set(state[at + 1], (after.get(state[at + 1]) ?? 0) + 1)
      }
      for (let e = mdp.rowStart[k]; e < mdp.rowStart[k + 1]; e++) {
        chi += ((after.get(mdp.next[e]) ?? 0) - taken * mdp.prob[e]) ** 2 / (taken * mdp.prob[e])
      }
      freedom += mdp.rowStart[k + 1] - mdp.rowStart[k] - 1
    }
    // Wilson–Hilferty: the normal quantile of 1 − 1e-6 is 4.75
    expect(chi).toBeLessThan(freedom * (1 - 2 / (9 * freedom) + 4.75 * Math.sqrt(2 / (9 * freedom))) ** 3)
  })

  it('geometric rollouts are as long as γ says, and the same seed gives the same rollouts', () => {
    const mdp = ring({ agents: 2, levels: 2, actions: 2, gamma: 0.9 }, random(31))
    const policy = randomPolicy(mdp, random(32))
    const run = () => simulate(mdp, policy, { rollouts: 4000, horizon: 'geometric', random: random(33) })
    const { pair } = run()
    // mean length 10, standard deviation √90 per rollout: 5 standard errors
    expect(Math.abs(pair.length / 4000 - 10)).toBeLessThan((5 * Math.sqrt(90)) / Math.sqrt(4000))
    expect(run()).toEqual(run())
  })
})
