import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { occupancy } from '../../src/theory/evaluate.js'
import { randomPolicy, ring, routed, tree } from '../../src/theory/families.js'
import { actions, pairs, type TeamMdp } from '../../src/theory/mdp.js'
import { random } from '../../src/util/random.js'

const successors = ({ actionStart, rowStart, next }: TeamMdp, s: number): number[] =>
  [...new Set(next.subarray(rowStart[actionStart[s]], rowStart[actionStart[s + 1]]))].sort((a, b) => a - b)

describe('ring', () => {
  it('hands every level on to the near levels of the next turn', () => {
    const mdp = ring({ agents: 3, levels: 5, actions: 2, gamma: 0.9 }, random(1))
    expect(mdp.states).toBe(15)
    expect([...mdp.activeAgent]).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    expect(successors(mdp, 0)).toEqual([5, 6])
    expect(successors(mdp, 7)).toEqual([11, 12, 13])
    expect(successors(mdp, 14)).toEqual([3, 4])
  })

  it('gives every agent the mass 1/n when all states are equally likely at the start', () => {
    for (const agents of [1, 2, 8]) {
      const mdp = ring({ agents, levels: 4, actions: 3, gamma: 0.95 }, random(2))
      for (const mass of occupancy(mdp, randomPolicy(mdp, random(3))).rho) expect(mass).toBeCloseTo(1 / agents, 12)
    }
  })

  it('can start in the first turn', () => {
    const size = { agents: 3, levels: 2, actions: 1, gamma: 0.9 }
    expect([...ring({ ...size, start: 'first' }, random(1)).mu]).toEqual([0.5, 0.5, 0, 0, 0, 0])
    const { mu } = ring({ ...size, start: 'random' }, random(1))
    expect(mu[0] + mu[1]).toBeCloseTo(1, 15)
    expect(mu[0]).not.toBe(0.5)
  })
})

describe('routed', () => {
  it('has distinct successors, in range, and numbers of actions as asked', () => {
    fc.assert(fc.property(fc.integer(), fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 12 }), (seed, states, width) => {
      const mdp = routed({ agents: 3, states, actions: [1, 4], successors: width, gamma: 0.9 }, random(seed))
      for (let k = 0; k < pairs(mdp); k++) {
        const row = mdp.next.subarray(mdp.rowStart[k], mdp.rowStart[k + 1])
        expect(row.length).toBe(Math.min(width, states))
        expect(new Set(row).size).toBe(row.length)
      }
      for (let s = 0; s < states; s++) expect(actions(mdp, s)).toBeGreaterThanOrEqual(1)
      for (let s = 0; s < states; s++) expect(actions(mdp, s)).toBeLessThanOrEqual(4)
    }), { seed: 1, numRuns: 50 })
  })

  it('draws each successor equally often', () => {
    // 20,000 rows of 2 out of 5: each state 8000 times on average, standard deviation √(20,000 · 0.4 · 0.6) = 69; beyond five of them with probability 3e-6
    const mdp = routed({ agents: 1, states: 5, actions: 4000, successors: 2, gamma: 0.9 }, random(1))
    const counts = new Array<number>(5).fill(0)
    for (const to of mdp.next) counts[to]++
    for (const count of counts) expect(Math.abs(count - 8000)).toBeLessThan(350)
  })
})

describe('tree', () => {
  it('grows by one message per action and ends in an absorbing state', () => {
    const mdp = tree({ agents: 2, actions: 3, depth: 2, gamma: 0.9 }, random(1))
    expect(mdp.states).toBe(1 + 3 + 9 + 1)
    expect([...mdp.activeAgent]).toEqual([0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    expect(successors(mdp, 0)).toEqual([1, 2, 3])
    expect(successors(mdp, 2)).toEqual([7, 8, 9])
    expect(successors(mdp, 12)).toEqual([13])
    expect(successors(mdp, 13)).toEqual([13])
    expect([...mdp.reward.subarray(0, 12), ...mdp.reward.subarray(39)]).toEqual(new Array(15).fill(0))
    expect(new Set(mdp.reward)).toEqual(new Set([0, 1]))
  })

  it('refuses what does not fit', () => {
    expect(() => tree({ agents: 2, actions: 10, depth: 12, gamma: 0.9 }, random(1))).toThrow(/depth: 10\^12/)
  })
})

describe('all families', () => {
  it('are functions of their seed', () => {
    const make = (seed: number) => [
      ring({ agents: 3, levels: 4, actions: 2, gamma: 0.9 }, random(seed)),
      routed({ agents: 3, states: 9, actions: [1, 3], successors: 4, gamma: 0.9, start: 'random' }, random(seed)),
      tree({ agents: 3, actions: 2, depth: 3, gamma: 0.9, router: 'random' }, random(seed)),
    ]
    expect(make(5)).toEqual(make(5))
    make(5).forEach((mdp, i) => expect(mdp).not.toEqual(make(6)[i]))
  })

  it('refuse sizes that are not whole and positive', () => {
    expect(() => ring({ agents: 0, levels: 4, actions: 2, gamma: 0.9 }, random(1))).toThrow(/agents: holds 0/)
    expect(() => routed({ agents: 2, states: 1.5, actions: 2, successors: 1, gamma: 0.9 }, random(1))).toThrow(/states: holds 1.5/)
    expect(() => routed({ agents: 2, states: 3, actions: [2, 1], successors: 1, gamma: 0.9 }, random(1))).toThrow(/actions: holds \[2, 1\]/)
  })

  it('randomPolicy is uniform at sharpness 0 and nearly deterministic when it is large', () => {
    const mdp = ring({ agents: 2, levels: 3, actions: 4, gamma: 0.9 }, random(1))
    expect(new Set(randomPolicy(mdp, random(1), 0))).toEqual(new Set([0.25]))
    expect(randomPolicy(mdp, random(1), 200).filter((p) => p > 0.99).length).toBeGreaterThanOrEqual(5)
  })
})
