import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  activeMassOfRollouts, discountedMean, groupNormalisedAdvantages, lowVarianceMessageKl, lowVarianceTerm, plainMean, plainMessageKl,
} from '../../src/theory/messages.js'
import { random } from '../../src/util/random.js'

describe('token KL from messages', () => {
  it('two messages: the plain mean reads 0.0200 where D_tok/ρ_j is 0.0267', () => {
    // γ = 0.5; the agent speaks at turns 0 and 1; the first message carries a KL of 0.04, the second none.
    const kl = [0.04, 0]
    expect(plainMean(kl)).toBeCloseTo(0.02, 12)
    expect(discountedMean(kl, [0, 1], 0.5)).toBeCloseTo(0.04 / 1.5, 12)
    expect(discountedMean(kl, [0, 1], 0.5).toFixed(4)).toBe('0.0267')
  })

  it('(w − 1) − log w is never negative and accurate at every scale', () => {
    expect(lowVarianceTerm(0)).toBe(0)
    expect(lowVarianceTerm(-Infinity)).toBe(Infinity)
    expect(lowVarianceTerm(Infinity)).toBe(Infinity)
    // leading terms ℓ²/2 + ℓ³/6 for tiny ℓ, where e^ℓ − 1 − ℓ is pure rounding noise
    for (const l of [1e-12, -1e-12, 3e-9, -2e-8]) expect(lowVarianceTerm(l) / ((l * l) / 2 + l ** 3 / 6)).toBeCloseTo(1, 13)
    // both sides of the switch between series and expm1 agree
    for (const l of [0.3, -0.3]) expect(Math.abs(lowVarianceTerm(l) / (Math.expm1(l) - l) - 1)).toBeLessThan(1e-14)
    fc.assert(fc.property(fc.double({ min: -30, max: 30, noNaN: true }), (l) => {
      const value = lowVarianceTerm(l)
      expect(value).toBeGreaterThanOrEqual(0)
      expect(Math.abs(value - (Math.exp(l) - 1 - l))).toBeLessThanOrEqual(4e-16 * (Math.exp(l) + 1 + Math.abs(l)))
    }))
  })

  it('both estimators have the KL of the two laws as their mean when tokens come from the behaviour law', () => {
    // Exact expectations over a four-letter alphabet, no sampling.
    const p = [0.5, 0.3, 0.15, 0.05]
    const q = [0.4, 0.25, 0.2, 0.15]
    const kl = p.reduce((sum, x, k) => sum + x * Math.log(x / q[k]), 0)
    const expectation = (estimate: (a: number[], b: number[]) => number): number =>
      p.reduce((sum, x, k) => sum + x * estimate([Math.log(x)], [Math.log(q[k])]), 0)
    expect(expectation(plainMessageKl)).toBeCloseTo(kl, 14)
    expect(expectation(lowVarianceMessageKl)).toBeCloseTo(kl, 14)
  })

  it('the low-variance one is biased when the sampler cut the tail (top-p) and the update did not', () => {
    const p = [0.6, 0.35, 0.05]
    const q = [0.55, 0.35, 0.1]
    const top = [0.6 / 0.95, 0.35 / 0.95, 0]
    const kl = p.reduce((sum, x, k) => sum + x * Math.log(x / q[k]), 0)
    const read = top.reduce((sum, x, k) => sum + x * lowVarianceMessageKl([Math.log(p[k])], [Math.log(q[k])]), 0)
    expect(read).toBeLessThan(kl / 3)
  })

  it('refuses lists that do not match', () => {
    expect(() => plainMessageKl([1], [1, 2])).toThrow('1 values against 2')
    expect(() => discountedMean([1], [], 0.9)).toThrow(RangeError)
    expect(discountedMean([], [], 0.9)).toBeNaN()
  })
})

describe('active mass of rollouts', () => {
  it('weighs a turn by γ^t, not by its share of messages', () => {
    const rho = activeMassOfRollouts([[0, 1, 0], [0, 1, 1]], 2, 0.5)
    expect(rho[0]).toBeCloseTo(0.5 * (1 + 0.25 / 2), 14)
    expect(rho[1]).toBeCloseTo(0.5 * (0.5 + 0.25 / 2), 14)
    expect(rho[0] + rho[1]).toBeCloseTo(1 - 0.5 ** 3, 14)
  })
})

describe('group-normalised advantages', () => {
  it('centre, scale, clip', () => {
    const { advantages, clipped } = groupNormalisedAdvantages([1, 0, 0, 1], { epsilon: 0 })
    expect([...advantages]).toEqual([1, -1, -1, 1])
    expect(clipped).toBe(0)
    const cut = groupNormalisedAdvantages([1, 0, 0, 0, 0, 0, 0, 0], { epsilon: 0, clip: 1.5 })
    expect(cut.advantages[0]).toBe(1.5)
    expect(cut.clipped).toBe(1)
  })

  it('a group whose returns are all equal gives exact zeros, whatever rounding does to its mean', () => {
    for (const r of [0.1, 1 / 3, -7, 0]) expect([...groupNormalisedAdvantages([r, r, r], { epsilon: 0 }).advantages]).toEqual([0, 0, 0])
    expect([...groupNormalisedAdvantages([5]).advantages]).toEqual([0])
    expect([...groupNormalisedAdvantages([]).advantages]).toEqual([])
  })

  it('mean 0, variance var/(var + ε), invariant under shifts of the returns', () => {
    const draw = random(7)
    for (let k = 0; k < 50; k++) {
      const returns = Array.from({ length: 2 + draw.int(8) }, () => draw.normal())
      const { advantages } = groupNormalisedAdvantages(returns, { epsilon: 0.01 })
      const centre = plainMean(returns)
      const variance = plainMean(returns.map((r) => (r - centre) ** 2))
      expect(Math.abs(plainMean(advantages))).toBeLessThan(1e-12)
      expect(plainMean(advantages.map((a) => a * a))).toBeCloseTo(variance / (variance + 0.01), 10)
      const shifted = groupNormalisedAdvantages(returns.map((r) => r + 3), { epsilon: 0.01 }).advantages
      advantages.forEach((a, g) => expect(shifted[g]).toBeCloseTo(a, 10))
    }
  })
})
