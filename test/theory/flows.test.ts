import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evaluate } from '../../src/theory/evaluate.js'
import { randomPolicy, routed } from '../../src/theory/families.js'
import { rowOf, transitionFlows } from '../../src/theory/flows.js'
import { random } from '../../src/util/random.js'

describe('transitionFlows', () => {
  it('sum to 1 and satisfy the balance d = (1−γ)μ + γ·inflow at every state', () => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 1000 }), (seed) => {
      const mdp = routed({ agents: 3, states: 9, actions: [1, 3], successors: 3, gamma: 0.9 }, random(seed))
      const policy = randomPolicy(mdp, random(seed + 1))
      const { d } = evaluate(mdp, policy)
      const flows = transitionFlows(mdp, policy, d)
      expect(flows.reduce((sum, { flow }) => sum + flow, 0)).toBeCloseTo(1, 12)
      const inflow = new Float64Array(mdp.states)
      for (const { to, flow } of flows) inflow[to] += flow
      for (let s = 0; s < mdp.states; s++) expect((1 - mdp.gamma) * mdp.mu[s] + mdp.gamma * inflow[s]).toBeCloseTo(d[s], 12)
    }), { numRuns: 20 })
  })
})

describe('rowOf', () => {
  it('is the row of one state, as a copy', () => {
    const mdp = routed({ agents: 2, states: 5, actions: [1, 3], successors: 2, gamma: 0.9 }, random(1))
    const policy = randomPolicy(mdp, random(2))
    const row = rowOf(mdp, policy, 3)
    expect([...row]).toEqual([...policy.subarray(mdp.actionStart[3], mdp.actionStart[4])])
    row[0] = 7
    expect(policy.includes(7)).toBe(false)
  })
})
