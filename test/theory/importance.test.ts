import { describe, expect, it } from 'vitest'
import { evaluate } from '../../src/theory/evaluate.js'
import { randomPolicy, ring } from '../../src/theory/families.js'
import { essLimit, importanceCollapse, logImportanceWeights, summariseWeights } from '../../src/theory/importance.js'
import type { TeamMdp, TeamPolicy } from '../../src/theory/mdp.js'
import { simulate } from '../../src/theory/simulate.js'
import { tiltToRadius } from '../../src/theory/update.js'
import { random } from '../../src/util/random.js'

const stagePolicies = (mdp: TeamMdp, radius: number): TeamPolicy[] => {
  const policies = [randomPolicy(mdp, random(1), 0.5)]
  for (let agent = 0; agent < mdp.n; agent++) {
    const policy = policies[agent]
    const { d, A, rho } = evaluate(mdp, policy)
    policies.push(tiltToRadius({ mdp, policy, agent, d, A }, radius * rho[agent]).policy)
  }
  return policies
}
const team = (agents: number): TeamMdp => ring({ agents, levels: 3, actions: 3, gamma: 0.95 }, random(agents))

describe('importance weights', () => {
  it('summaries are their definitions', () => {
    const { essPerRollout, max, median, topShare } = summariseWeights([0, 0, 0, Math.log(5)])
    expect(essPerRollout).toBeCloseTo(64 / 28 / 4, 12)
    expect(max).toBeCloseTo(2.5, 12)
    expect(median).toBeCloseTo(0.5, 12)
    expect(topShare).toBeCloseTo(5 / 8, 12)
    // any common factor cancels, also one that no double could hold
    expect(summariseWeights([900, 900, 900, 900 + Math.log(5)]).essPerRollout).toBeCloseTo(64 / 28 / 4, 12)
  })

  it('no weight above 0 is refused', () => {
    expect(() => summariseWeights([-Infinity, -Infinity])).toThrow('weights: hold 2 of 0')
    expect(() => summariseWeights([])).toThrow('weights: hold 0')
    expect(summariseWeights([-Infinity, 0]).essPerRollout).toBe(0.5)
  })

  it('E w = 1, and the limit of ESS/B is 1/E w², by enumerating every rollout', () => {
    const mdp = team(2)
    const policies = stagePolicies(mdp, 0.05)
    const walk = (s: number, turns: number, power: number): number => {
      if (turns === 0) return 1
      let sum = 0
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        for (let e = mdp.rowStart[k]; e < mdp.rowStart[k + 1]; e++) {
          sum += policies[0][k] * (policies[2][k] / policies[0][k]) ** power * mdp.prob[e] * walk(mdp.next[e], turns - 1, power)
        }
      }
      return sum
    }
    const moment = (power: number): number => mdp.mu.reduce((sum, p, s) => sum + p * walk(s, 4, power), 0)
    expect(moment(1)).toBeCloseTo(1, 12)
    expect(essLimit(mdp, policies[0], policies[2], 4)).toBeCloseTo(1 / moment(2), 12)
  })

  it('sampled ESS/B is near its limit and falls at every update', () => {
    const mdp = team(5)
    const policies = stagePolicies(mdp, 0.05)
    const rows = importanceCollapse({ mdp, policies, rollouts: 20_000, turns: 20, random: random(2) })
    expect(rows.map(({ update }) => update)).toEqual([2, 3, 4, 5])
    // update 2 needs the weights of π̂¹
    expect(rows[0].essLimit).toBe(essLimit(mdp, policies[0], policies[1], 20))
    rows.forEach((row, k) => {
      expect(Math.abs(row.essPerRollout / row.essLimit - 1)).toBeLessThan(0.25)
      if (k > 0) expect(row.essPerRollout).toBeLessThan(rows[k - 1].essPerRollout)
    })
    expect(rows[3].topShare).toBeGreaterThan(rows[0].topShare)
  })

  it('collapses with the team size, at equal message radius and rounds', () => {
    const last = [2, 4, 8].map((n) => {
      const mdp = team(n)
      const policies = stagePolicies(mdp, 0.05)
      return essLimit(mdp, policies[0], policies[n - 1], 4 * n)
    })
    expect(last[1]).toBeLessThan(0.6 * last[0])
    expect(last[2]).toBeLessThan(0.4 * last[1])
  })

  it('an unchanged team weighs 1 everywhere', () => {
    const mdp = team(3)
    const policy = randomPolicy(mdp, random(3))
    const rollouts = simulate(mdp, policy, { rollouts: 50, horizon: 10, random: random(4) })
    expect([...logImportanceWeights(mdp, rollouts, policy, policy)].every((l) => l === 0)).toBe(true)
    expect(essLimit(mdp, policy, policy, 10)).toBeCloseTo(1, 12)
  })
})
