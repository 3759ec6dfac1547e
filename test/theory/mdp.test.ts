import { describe, expect, it } from 'vitest'
import { replaceAgent, stateOf, teamMdp, teamPolicy, TheoryError, uniformPolicy, type TeamMdp } from '../../src/theory/mdp.js'
import { InputError } from '../../src/util/errors.js'

/** Two agents, two states, two and one actions. */
const parts = (): TeamMdp => ({
  n: 2, gamma: 0.9, states: 2,
  mu: Float64Array.of(0.25, 0.75),
  activeAgent: Int32Array.of(0, 1),
  actionStart: Int32Array.of(0, 2, 3),
  rowStart: Int32Array.of(0, 1, 3, 4),
  next: Int32Array.of(1, 0, 1, 0),
  prob: Float64Array.of(1, 0.5, 0.5, 1),
  reward: Float64Array.of(1, 2, 3),
})

const refusal = (act: () => unknown): TheoryError => {
  try {
    act()
  } catch (error) {
    expect(error).toBeInstanceOf(InputError)
    return error as TheoryError
  }
  throw new Error('accepted')
}

describe('teamMdp', () => {
  it('takes a correct MDP and freezes it', () => {
    const mdp = teamMdp(parts())
    expect(mdp).toEqual(parts())
    expect(Object.isFrozen(mdp)).toBe(true)
  })

  it.each<[string, string, (mdp: { -readonly [K in keyof TeamMdp]: TeamMdp[K] }) => void]>([
    ['size', 'n', (m) => (m.n = 0)],
    ['size', 'n', (m) => (m.n = NaN)],
    ['size', 'states', (m) => (m.states = 1.5)],
    ['discount-range', 'gamma', (m) => (m.gamma = 1)],
    ['discount-range', 'gamma', (m) => (m.gamma = 0)],
    ['discount-range', 'gamma', (m) => (m.gamma = NaN)],
    ['size', 'mu', (m) => (m.mu = Float64Array.of(1))],
    ['row-sum', 'mu', (m) => (m.mu[0] = 0.25 + 2e-9)],
    ['negative-probability', 'mu', (m) => m.mu.set([-0.25, 1.25])],
    ['not-finite', 'mu', (m) => (m.mu[1] = NaN)],
    ['not-finite', 'mu', (m) => (m.mu[1] = Infinity)],
    ['agent-range', 'activeAgent[1]', (m) => (m.activeAgent[1] = 2)],
    ['agent-range', 'activeAgent[0]', (m) => (m.activeAgent[0] = -1)],
    ['size', 'activeAgent', (m) => (m.activeAgent = Int32Array.of(0))],
    ['size', 'actionStart[1]', (m) => (m.actionStart = Int32Array.of(0, 3, 3))],
    ['size', 'actionStart[0]', (m) => (m.actionStart[0] = 1)],
    ['size', 'actionStart[2]', (m) => (m.actionStart = Int32Array.of(0, 1, 2))],
    ['size', 'rowStart[1]', (m) => (m.rowStart = Int32Array.of(0, 3, 1, 4))],
    ['row-sum', 'P[s=0,a=1]', (m) => (m.rowStart = Int32Array.of(0, 3, 3, 4)) && m.prob.set([0.5, 0.25, 0.25])],
    ['row-sum', 'P[s=1,a=0]', (m) => (m.prob[3] = 0.9)],
    ['negative-probability', 'P[s=0,a=1]', (m) => m.prob.set([-0.5, 1.5], 1)],
    ['size', 'P[s=1,a=0]', (m) => (m.next[3] = 2)],
    ['size', 'prob', (m) => (m.prob = Float64Array.of(1))],
    ['not-finite', 'r[1][0]', (m) => (m.reward[2] = NaN)],
    ['not-finite', 'r[0][1]', (m) => (m.reward[1] = -Infinity)],
  ])('refuses %s at %s', (kind, place, spoil) => {
    const mdp = parts()
    spoil(mdp)
    const { kind: k, place: p, message } = refusal(() => teamMdp(mdp))
    expect([k, p]).toEqual([kind, place])
    expect(message.startsWith(`${place}: `)).toBe(true)
  })
})

describe('teamPolicy', () => {
  const mdp = teamMdp(parts())

  it('takes rows per state or one flat row, and copies', () => {
    const flat = Float64Array.of(0.25, 0.75, 1)
    const policy = teamPolicy(mdp, flat)
    expect(policy).toEqual(teamPolicy(mdp, [[0.25, 0.75], [1]]))
    flat[0] = 7
    expect(policy[0]).toBe(0.25)
    expect(uniformPolicy(mdp)).toEqual(Float64Array.of(0.5, 0.5, 1))
  })

  it.each<[string, string, number[][]]>([
    ['size', 'policy', [[0.5, 0.5]]],
    ['size', 'policy[1]', [[0.5, 0.5], [0.5, 0.5]]],
    ['row-sum', 'policy[0]', [[0.5, 0.6], [1]]],
    ['negative-probability', 'policy[0]', [[-0.5, 1.5], [1]]],
    ['not-finite', 'policy[1]', [[0.5, 0.5], [NaN]]],
  ])('refuses %s at %s', (kind, place, rows) => {
    expect(refusal(() => teamPolicy(mdp, rows))).toMatchObject({ kind, place })
  })

  it('replaces the rows of one agent alone', () => {
    const base = teamPolicy(mdp, [[0.25, 0.75], [1]])
    const target = Float64Array.of(0.5, 0.5, 0.9)
    expect(replaceAgent(mdp, base, 0, target)).toEqual(Float64Array.of(0.5, 0.5, 1))
    expect(replaceAgent(mdp, base, 1, target)).toEqual(Float64Array.of(0.25, 0.75, 0.9))
  })
})

it('stateOf finds the state of every pair', () => {
  expect([0, 1, 2, 3, 4, 5].map((pair) => stateOf(Int32Array.of(0, 1, 4, 5, 6), pair))).toEqual([0, 1, 1, 1, 2, 3])
})
