import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  against,
  penaltyConstant,
  replacementBound,
  stageImprovementBound,
  staleStageBound,
  staleStageBoundSplit,
  staleStageBoundUnderStaleError,
  staleSurrogateBound,
  tightening,
  updateImprovementBound,
} from '../../src/theory/bounds.js'
import {
  activeMassBound,
  activeMassStaleBound,
  maxKlBound,
  occupancyRadius,
  shiftBound,
  staleShiftBound,
  tvBound,
  tvStaleBound,
} from '../../src/theory/certificates.js'
import { InputError } from '../../src/util/errors.js'

// γ = ½ and A_max = 1 give c = 2√2, and √δ of δ = 0.02 and 0.08 are 0.1√2 and 0.2√2: penalties 0.4 and 0.8
const gamma = 0.5
const steps = [
  { surrogate: 0.3, radius: 0.02, zeta: 0.01 },
  { surrogate: 0.5, radius: 0.08, zeta: 0.02 },
]

test('c = √2·γ·A_max/(1−γ)², not √(2γ)', () => {
  expect(penaltyConstant({ gamma, aMax: 1 })).toBeCloseTo(2 * Math.SQRT2, 15)
  expect(penaltyConstant({ gamma: 0.9, aMax: 3 })).toBeCloseTo((Math.SQRT2 * 0.9 * 3) / 0.01, 10)
})

test('Theorems 3.4 and 3.6 by hand', () => {
  const update = updateImprovementBound({ gamma, aMax: 1, ...steps[0] })
  expect(update).toMatchObject({ surrogate: 0.3, error: 0.02 })
  expect(update.penalty).toBeCloseTo(0.4, 15)
  expect(update.bound).toBeCloseTo(0.3 - 0.4 - 0.02, 15)
  const stage = stageImprovementBound({ gamma, aMax: 1, steps })
  expect(stage.bound).toBeCloseTo(0.8 - 1.2 - 0.06, 15)
  expect(stage.terms.map(({ penalty }) => penalty)).toEqual([expect.closeTo(0.4, 15), expect.closeTo(0.8, 15)])
})

test('Proposition 3.3 and Theorem 3.7 by hand, in each form', () => {
  expect(staleSurrogateBound({ gamma, aHatMax: 2, surrogate: 0.5, earlierRadii: [0.02] }).bound).toBeCloseTo(0.5 - 2 * 0.4, 15)
  expect(staleSurrogateBound({ gamma, aHatMax: 2, surrogate: 0.5, earlierRadii: [] }).bound).toBe(0.5)
  const stale = { gamma, aMax: 1, aHatMax: 2, steps }
  // c̄ is twice c: step 0 pays 0.8, step 1 pays 0.8 + 1.6; the paper's form n·Σ pays 2·(0.8 + 1.6)
  expect(staleStageBound(stale).bound).toBeCloseTo(0.8 - 3.2 - 0.06, 14)
  expect(staleStageBound({ ...stale, form: 'paper' }).bound).toBeCloseTo(0.8 - 4.8 - 0.06, 14)
  // apart: c for a step's own shift (0.4, 0.8), ĉ for the earlier one (0.8)
  expect(staleStageBoundSplit(stale).bound).toBeCloseTo(0.8 - 2 - 0.06, 14)
  const zetaStale = staleStageBoundUnderStaleError({ gamma, aMax: 1, steps: steps.map((step) => ({ ...step, zetaStale: 0.1 })) })
  expect(zetaStale.bound).toBeCloseTo(0.8 - 1.6 - 0.4, 14)
})

test("equal radii: Theorem 3.7's exact sum is n(n+1)/2·√δ, the published one n²·√δ", () => {
  for (const n of [1, 2, 5, 8]) {
    const equal = { gamma, aMax: 1, aHatMax: 1, steps: Array.from({ length: n }, () => ({ surrogate: 0, radius: 0.02 })) }
    expect(staleStageBound(equal).penalty).toBeCloseTo((0.4 * n * (n + 1)) / 2, 12)
    expect(staleStageBound({ ...equal, form: 'paper' }).penalty).toBeCloseTo(0.4 * n * n, 12)
  }
})

test('active mass by hand: √(ρδ) under an occupancy radius, ρ√δ under a message radius; null only where ρ = 0', () => {
  const masses = steps.map((step) => ({ ...step, rho: 0.25 }))
  expect(activeMassBound({ gamma, aMax: 1, steps: masses }).penalty).toBeCloseTo(0.6, 15)
  expect(activeMassBound({ gamma, aMax: 1, steps: masses, reading: 'message' }).penalty).toBeCloseTo(0.3, 15)
  expect(activeMassStaleBound({ gamma, aMax: 1, aHatMax: 2, steps: masses }).penalty).toBeCloseTo(2 * (0.2 * 2 + 0.4), 14)
  expect(activeMassBound({ gamma, aMax: 1, reading: 'message', steps: [{ surrogate: 1, radius: null, rho: 0 }] }).penalty).toBe(0)
  expect(() => activeMassBound({ gamma, aMax: 1, reading: 'message', steps: [{ surrogate: 1, radius: null, rho: 0.1 }] })).toThrow(
    /steps\[0\]\.radius: holds null/,
  )
  expect(() => activeMassBound({ gamma, aMax: 1, steps: [{ surrogate: 1, radius: 0.1, rho: 1.1 }] })).toThrow(
    /steps\[0\]\.rho: holds 1\.1; between 0 and 1/,
  )
  expect(occupancyRadius({ radius: Infinity, rho: 0, reading: 'message' })).toBe(0)
})

test('total variation and max KL by hand; shifts capped at 2', () => {
  const tv = [
    { surrogate: 0.3, tvMean: 0.1 },
    { surrogate: 0.5, tvMean: 1 },
  ]
  // shifts 2γ/(1−γ)·TV = 0.2 and 2, over 1−γ
  expect(tvBound({ gamma, aMax: 1, steps: tv }).penalty).toBeCloseTo(0.4 + 4, 14)
  expect(tvStaleBound({ gamma, aMax: 1, aHatMax: 1, steps: tv }).penalty).toBeCloseTo(0.4 + 4.4, 14)
  expect(tvBound({ gamma: 0.9, aMax: 1, steps: tv, cap: true }).penalty).toBeCloseTo((1.8 + 2) / 0.1, 10)
  expect(tvStaleBound({ gamma: 0.9, aMax: 1, aHatMax: 1, steps: tv, cap: true }).penalty).toBeCloseTo((1.8 + 2) / 0.1, 10)
  // 2A√(δ_max/2): half of A at δ_max = 1/8, A itself at ½, twice A at 2
  const klMax = (value: number): number => maxKlBound({ gamma, aMax: 1, steps: [{ surrogate: 0, tvMean: 0.1, klMax: value }] }).penalty
  expect([klMax(1 / 8), klMax(0.5), klMax(2)]).toEqual([expect.closeTo(0.2, 14), expect.closeTo(0.4, 14), expect.closeTo(0.8, 14)])
})

test('in a stale bound the magnitude belongs to the row: Σ_i M_i Σ_{k≤i} S_k', () => {
  const rows = [
    { surrogate: 0, shift: 1, magnitude: 10 },
    { surrogate: 0, shift: 2, magnitude: 100 },
  ]
  expect(staleShiftBound({ gamma, steps: rows }).penalty).toBe((10 * 1 + 100 * 3) / 0.5)
  expect(shiftBound({ gamma, steps: rows }).penalty).toBe((10 * 1 + 100 * 2) / 0.5)
})

test('lost support: an infinite penalty, a bound of −∞, and 0·∞ = 0', () => {
  const lost = stageImprovementBound({ gamma, aMax: 1, steps: [{ surrogate: 1, radius: Infinity }] })
  expect([lost.penalty, lost.bound]).toEqual([Infinity, -Infinity])
  expect(against(lost, 3)).toMatchObject({ left: 3, right: -Infinity, slack: Infinity, holds: true })
  expect(stageImprovementBound({ gamma, aMax: 0, steps: [{ surrogate: 1, radius: Infinity }] }).bound).toBe(1)
  expect(activeMassBound({ gamma, aMax: 1, steps: [{ surrogate: 1, radius: Infinity, rho: 0 }] }).bound).toBe(1)
  expect(maxKlBound({ gamma, aMax: 1, steps: [{ surrogate: 1, tvMean: 0, klMax: Infinity }] }).bound).toBe(1)
  expect(maxKlBound({ gamma, aMax: 0, steps: [{ surrogate: 1, tvMean: 0.1, klMax: Infinity }] }).bound).toBe(1)
  expect(maxKlBound({ gamma, aMax: 1, steps: [{ surrogate: 1, tvMean: 0.1, klMax: Infinity }] }).bound).toBe(-Infinity)
})

test('evidence: left, right, slack, and the verdict with a tolerance', () => {
  const bound = stageImprovementBound({ gamma, aMax: 1, steps })
  expect(against(bound, bound.bound + 1)).toMatchObject({ slack: 1, holds: true })
  expect(against(bound, bound.bound - 1e-6)).toMatchObject({ holds: false })
  expect(against(bound, bound.bound - 1e-6, 1e-5)).toMatchObject({ holds: true })
})

test('Propositions 3.8 and 3.9', () => {
  expect(replacementBound({ gamma, alignedReturn: 5, aMax: 1, steps }).bound).toBeCloseTo(5 + 0.8 - 1.2 - 0.06, 14)
  const before = stageImprovementBound({ gamma, aMax: 1, steps })
  const after = stageImprovementBound({
    gamma,
    aMax: 1,
    steps: [
      { ...steps[0], surrogate: 0.4 },
      { ...steps[1], radius: 0.02 },
    ],
  })
  expect(tightening(before, after)).toEqual({
    total: expect.closeTo(0.5, 14),
    surrogate: expect.closeTo(0.1, 14),
    penalty: expect.closeTo(0.4, 14),
    error: 0,
  })
})

test('for any numbers: bound = surrogate − penalty − error, sums over terms, and each form no larger than the one that tightens it', () => {
  const step = fc.record({
    surrogate: fc.double({ min: -10, max: 10, noNaN: true }),
    radius: fc.double({ min: 0, max: 5, noNaN: true }),
    zeta: fc.double({ min: 0, max: 1, noNaN: true }),
    rho: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  const input = fc.record({
    gamma: fc.double({ min: 0.001, max: 0.999, noNaN: true }),
    aMax: fc.double({ min: 0, max: 10, noNaN: true }),
    aHatMax: fc.double({ min: 0, max: 10, noNaN: true }),
    steps: fc.array(step, { minLength: 1, maxLength: 6 }),
  })
  fc.assert(
    fc.property(input, (given) => {
      const stage = stageImprovementBound(given)
      const paper = staleStageBound({ ...given, form: 'paper' })
      const exact = staleStageBound(given)
      const split = staleStageBoundSplit(given)
      const mass = activeMassBound(given)
      for (const bound of [stage, paper, exact, split, mass]) {
        const sum = (part: 'surrogate' | 'penalty' | 'error'): number => bound.terms.reduce((all, term) => all + term[part], 0)
        expect(bound.bound).toBe(bound.surrogate - bound.penalty - bound.error)
        expect([sum('surrogate'), sum('penalty'), sum('error')]).toEqual([bound.surrogate, bound.penalty, bound.error])
      }
      const rounding = 1e-12 * paper.penalty + 1e-300
      expect(paper.penalty + rounding).toBeGreaterThanOrEqual(exact.penalty)
      expect(exact.penalty + rounding).toBeGreaterThanOrEqual(split.penalty)
      expect(split.penalty + rounding).toBeGreaterThanOrEqual(stage.penalty)
      expect(stage.penalty + rounding).toBeGreaterThanOrEqual(mass.penalty)
    }),
  )
})

test.each([
  [() => penaltyConstant({ gamma: 1, aMax: 1 }), /gamma: holds 1; strictly between 0 and 1/],
  [() => penaltyConstant({ gamma: NaN, aMax: 1 }), /gamma: holds NaN/],
  [() => penaltyConstant({ gamma, aMax: -1 }), /aMax: holds -1; at least 0/],
  [
    () => stageImprovementBound({ gamma, aMax: 1, steps: [steps[0], { surrogate: 0, radius: -0.1 }] }),
    /steps\[1\]\.radius: holds -0\.1; at least 0/,
  ],
  [() => stageImprovementBound({ gamma, aMax: 1, steps: [{ surrogate: 0, radius: NaN }] }), /steps\[0\]\.radius: holds NaN/],
  [() => staleStageBound({ gamma, aMax: 1, aHatMax: 1, steps: [{ surrogate: 0, radius: 0, zeta: -1 }] }), /steps\[0\]\.zeta: holds -1/],
  [() => staleStageBound({ gamma, aMax: 1, aHatMax: NaN, steps }), /aHatMax: holds NaN/],
  [() => tvBound({ gamma, aMax: 1, steps: [{ surrogate: 0, tvMean: -1 }] }), /steps\[0\]\.shift: holds -2/],
])('out of range: %#', (call, message) => {
  expect(call).toThrow(InputError)
  expect(call).toThrow(message)
})
