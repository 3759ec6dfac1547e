import { describe, expect, it } from 'vitest'
import { randomPolicy, ring } from '../../src/theory/families.js'
import { COMPARED, penaltyShares } from '../../src/theory/tightness.js'
import { random } from '../../src/util/random.js'

describe('penaltyShares', () => {
  const mdp = ring({ agents: 4, levels: 4, actions: 3, gamma: 0.9, reach: 3 }, random(1))
  const shares = penaltyShares(mdp, randomPolicy(mdp, random(2)), { order: [2, 0, 3, 1], radii: [1e-3, 0.1, 10] })
  const share = (id: (typeof COMPARED)[number], delta: number): number => shares.find((row) => row.id === id && row.delta === delta)!.share

  it('keep the order that theory.md proves, at every radius', () => {
    for (const delta of [1e-3, 0.1, 10]) {
      expect(share('thm36', delta)).toBe(1)
      expect(share('halfSpanTv', delta)).toBeLessThanOrEqual(share('rangeTv', delta))
      expect(share('rangeTv', delta)).toBeLessThanOrEqual(share('tv', delta))
      expect(share('tv', delta)).toBeLessThanOrEqual(share('activeMass', delta))
      expect(share('activeMass', delta)).toBeLessThanOrEqual(1)
    }
  })

  it('are ½ by active mass where four agents are active alike', () => {
    expect(share('activeMass', 1e-3)).toBeCloseTo(0.5, 3)
  })

  it('put max-KL before total variation for small updates, and after it for large ones', () => {
    expect(share('maxKl', 1e-3)).toBeLessThan(share('tv', 1e-3))
    expect(share('maxKl', 10)).toBeGreaterThan(share('tv', 10))
  })
})
