import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { kl } from '../../src/theory/divergence.js'
import { klBoundary } from '../../src/theory/simplex.js'

describe('klBoundary', () => {
  it('lies on the simplex at KL = δ, closed', () => {
    const positive = fc.double({ min: 0.1, max: 1, noNaN: true })
    fc.assert(fc.property(positive, positive, positive, fc.double({ min: 1e-4, max: 0.5, noNaN: true }), (a, b, c, delta) => {
      const p = [a, b, c].map((x) => x / (a + b + c))
      const boundary = klBoundary(p, delta, 12)
      expect(boundary).toHaveLength(13)
      for (const q of boundary) {
        expect(q[0] + q[1] + q[2]).toBeCloseTo(1, 12)
        expect(Math.abs(kl(p, q) / delta - 1)).toBeLessThan(1e-6)
      }
      boundary[12].forEach((x, k) => expect(x).toBeCloseTo(boundary[0][k], 9))
    }), { numRuns: 50 })
  })

  it('refuses what is no inner point, and no radius', () => {
    expect(() => klBoundary([0.5, 0.5, 0], 0.1)).toThrow(/three positive probabilities/)
    expect(() => klBoundary([0.5, 0.3, 0.2], 0)).toThrow(/above 0/)
  })
})
