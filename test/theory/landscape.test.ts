import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dTok } from '../../src/theory/divergence.js'
import { evaluate, values } from '../../src/theory/evaluate.js'
import { landscapeGrid, LARGEST_LOGIT, outcomes, parameterStep, pathOf, policyAt, twoAgentGame } from '../../src/theory/landscape.js'
import { expectedUnder } from '../../src/theory/stage.js'

const gamma = 0.8
const differ = twoAgentGame({ payoff: [[0, 1], [1, 0]], gamma })
// never 0: at the saddle there is no way up
const logit = fc.integer({ min: -300, max: 300 }).map((x) => x / 100 + 0.005)
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))

describe('twoAgentGame', () => {
  it('has the return of its definition: each message is paid with the one before, the first with an even draw', () => {
    fc.assert(fc.property(logit, logit, fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 }), (theta0, theta1, [a, b, c, d]) => {
      const mdp = twoAgentGame({ payoff: [[a, b], [c, d]], gamma })
      const [p, q] = [sigmoid(theta0), sigmoid(theta1)]
      const pay = (p: number, q: number): number => (1 - p) * ((1 - q) * a + q * b) + p * ((1 - q) * c + q * d)
      expect(values(mdp, policyAt({ theta0, theta1 })).J).toBeCloseTo(pay(p, 0.5) + (gamma / (1 - gamma)) * pay(p, q), 10)
    }))
  })
})

describe('parameterStep', () => {
  it('uses its radius up or stops at the largest logit, raises the surrogate, and moves one agent alone', () => {
    fc.assert(fc.property(logit, logit, fc.constantFrom(0, 1), fc.double({ min: 1e-4, max: 0.5, noNaN: true }), (theta0, theta1, agent, delta) => {
      const policy = policyAt({ theta0, theta1 })
      const { d, A } = evaluate(differ, policy)
      const after = parameterStep(delta)({ mdp: differ, policy, agent, d, A, step: 0 })
      const moved = Math.log(after[4 * agent + 1] / after[4 * agent])
      const distance = dTok(differ, d, policy, after)
      if (Math.abs(moved) < LARGEST_LOGIT - 1e-9) expect(distance).toBeCloseTo(delta, 10)
      else expect(distance).toBeLessThanOrEqual(delta * (1 + 1e-9))
      const surrogate = expectedUnder(differ, after, A).reduce((sum, f, s) => sum + d[s] * f, 0)
      expect(surrogate).toBeGreaterThanOrEqual(-1e-12)
      for (let k = 0; k < 8; k++) if (k >> 2 !== agent) expect(after[k]).toBe(policy[k])
    }))
  })

  it('stays where nothing is to be gained', () => {
    const policy = policyAt({ theta0: 1, theta1: 0 })
    const { d, A } = evaluate(differ, policy)
    expect(parameterStep(0.1)({ mdp: differ, policy, agent: 0, d, A: new Float64Array(A.length), step: 0 })).toEqual(policy)
  })
})

describe('paths', () => {
  const end = (evaluation: 'joint' | 'stale' | 'intermediate') => pathOf(differ, { theta0: 1.6, theta1: 2 }, { evaluation, delta: 0.05, stages: 12 })

  it('differ as the figure says: joint stays near the saddle, stale and TeamTR arrive, TeamTR first', () => {
    const best = Math.max(...landscapeGrid(differ, 3).map(({ J }) => J))
    const arrival = (path: ReturnType<typeof end>): number => path.findIndex(({ J }) => J > 0.9 * best)
    expect(arrival(end('joint'))).toBe(-1)
    expect(arrival(end('intermediate'))).toBeGreaterThan(0)
    expect(arrival(end('intermediate'))).toBeLessThan(arrival(end('stale')))
  })

  it('take the same first update by every method, since nobody has moved before it', () => {
    expect(end('joint')[1]).toEqual(end('intermediate')[1])
    expect(end('stale')[1]).toEqual(end('intermediate')[1])
  })

  it('never go down with intermediate occupancies in this game, from any of 49 starts', () => {
    const settings = { delta: 0.05, stages: 8, size: 7, within: 2 }
    expect(outcomes(differ, { evaluation: 'intermediate', ...settings })).toMatchObject({ worse: 0, starts: 49 })
    expect(outcomes(differ, { evaluation: 'joint', ...settings }).worse).toBeGreaterThan(0)
  })
})
