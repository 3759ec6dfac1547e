import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  bootstrapResiduals,
  bootstrapSamples,
  fitPowerLaw,
  fitPowerLawWithOffset,
  localExponents,
  roundingRange,
} from '../../src/theory/growth.js'
import { proportionInterval } from '../../src/theory/intervals.js'
import { random } from '../../src/util/random.js'

const sizes = [2, 3, 4, 5, 6, 8, 12, 16]
const exact = (c: number, alpha: number, a = 0): { n: number; y: number }[] => sizes.map((n) => ({ n, y: a + c * n ** alpha }))

describe('growth exponents', () => {
  it('an exact power law gives its exponent back, with or without weights, with error 0', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.01, max: 100, noNaN: true }), fc.double({ min: -3, max: 4, noNaN: true }), (c, alpha) => {
        const fit = fitPowerLaw(exact(c, alpha))
        expect(fit.alpha).toBeCloseTo(alpha, 10)
        expect(fit.coefficient / c).toBeCloseTo(1, 9)
        expect(fit.standardError).toBeLessThan(1e-9)
        expect(fitPowerLaw(exact(c, alpha).map((row, k) => ({ ...row, weight: 1 + k }))).alpha).toBeCloseTo(alpha, 10)
        for (const step of localExponents(exact(c, alpha))) expect(step.alpha).toBeCloseTo(alpha, 9)
      }),
    )
  })

  it('a power law over an offset gives all three parameters back', () => {
    for (const [c, alpha, a] of [
      [0.3, 2, 5],
      [2, 0.5, -1],
      [1, 1, 0],
      [-3, -1, 4],
      [0.01, 3.7, 100],
    ]) {
      const fit = fitPowerLawWithOffset(exact(c, alpha, a))
      expect(fit.alpha).toBeCloseTo(alpha, 5)
      expect(fit.coefficient).toBeCloseTo(c, 4)
      expect(fit.offset).toBeCloseTo(a, 3)
      expect(fit.high - fit.low).toBeLessThan(1e-3)
    }
    // α → 0 is a logarithm, not a failure
    const fit = fitPowerLawWithOffset(sizes.map((n) => ({ n, y: 3 + 2 * Math.log(n) })))
    expect(Math.abs(fit.alpha)).toBeLessThan(1e-4)
  })

  it('matches a least-squares fit done by hand', () => {
    // log₂: (0,0), (1,1), (2,3): slope 3/2, residuals 1/6, −1/3, 1/6
    const fit = fitPowerLaw([
      { n: 1, y: 1 },
      { n: 2, y: 2 },
      { n: 4, y: 8 },
    ])
    expect(fit.alpha).toBeCloseTo(1.5, 12)
    expect(fit.standardError).toBeCloseTo(Math.sqrt(1 / 6 / 2), 12)
    expect(fit.high - 1.5).toBeCloseTo(12.7062047362 * Math.sqrt(1 / 12), 6)
    // weight 2 is the row twice, for the line
    const rows = [
      { n: 1, y: 1.1 },
      { n: 2, y: 2 },
      { n: 4, y: 8 },
      { n: 5, y: 7 },
    ]
    const twice = fitPowerLaw([...rows, rows[2]])
    const weighted = fitPowerLaw(rows.map((row, k) => ({ ...row, weight: k === 2 ? 2 : 1 })))
    expect(weighted.alpha).toBeCloseTo(twice.alpha, 12)
  })

  it('the interval of a noisy power law misses α as often as it says (error probability of this test 1e-6 each)', () => {
    const draw = random(11)
    let logMisses = 0
    let offsetMisses = 0
    const trials = 1500
    for (let k = 0; k < trials; k++) {
      const log = fitPowerLaw(
        sizes.map((n) => ({ n, y: 2 * n ** 1.3 * Math.exp(0.2 * draw.normal()) })),
        { confidence: 0.9 },
      )
      if (log.low > 1.3 || log.high < 1.3) logMisses++
      if (k >= 400) continue
      const offset = fitPowerLawWithOffset(
        sizes.map((n) => ({ n, y: 5 + 0.5 * n ** 1.3 + 0.3 * draw.normal() })),
        { confidence: 0.9 },
      )
      if (offset.low > 1.3 || offset.high < 1.3) offsetMisses++
    }
    const log = proportionInterval(logMisses, trials, { confidence: 1 - 1e-6 })
    expect(log.low).toBeLessThan(0.1)
    expect(log.high).toBeGreaterThan(0.1)
    // the profile is exact for a linear model only: nearly so here
    const offset = proportionInterval(offsetMisses, 400, { confidence: 1 - 1e-6 })
    expect(offset.low).toBeLessThan(0.12)
    expect(offset.high).toBeGreaterThan(0.08)
  })

  it('bootstraps: over seeds and over residuals; both near the classical interval, both seeded', () => {
    const draw = random(12)
    const table = sizes.map((n) => ({ n, samples: Array.from({ length: 12 }, () => n ** 0.5 * Math.exp(0.1 * draw.normal())) }))
    const seeds = bootstrapSamples(table, fitPowerLaw, { random: random(1) })
    expect(seeds.low).toBeLessThan(0.5)
    expect(seeds.high).toBeGreaterThan(0.5)
    expect(seeds.high - seeds.low).toBeLessThan(0.2)
    expect(bootstrapSamples(table, fitPowerLaw, { random: random(1) })).toEqual(seeds)

    const rows = sizes.map((n) => ({ n, y: n ** 2 * Math.exp(0.1 * draw.normal()) }))
    const residual = bootstrapResiduals(rows, fitPowerLaw, { random: random(2) })
    const fit = fitPowerLaw(rows)
    expect((residual.high - residual.low) / (fit.high - fit.low)).toBeGreaterThan(0.5)
    expect((residual.high - residual.low) / (fit.high - fit.low)).toBeLessThan(1.3)
    const offset = bootstrapResiduals(rows, fitPowerLawWithOffset, { random: random(2), replicates: 100 })
    expect(offset.low).toBeLessThan(offset.estimate)
    expect(offset.high).toBeGreaterThan(offset.estimate)
  })

  it('weighted fit with an offset: parameters, standard error and profile limits as scipy gives them (curve_fit, brentq)', () => {
    const weights = [1, 2, 1, 1, 3, 1, 0.5]
    const rows = [[2, 3.1], [3, 4.4], [4, 6.3], [5, 8.1], [6, 11.2], [8, 16.9], [12, 33.5]].map(([n, y], k) => ({ n, y, weight: weights[k] }))
    const fit = fitPowerLawWithOffset(rows)
    expect(fit.alpha).toBeCloseTo(1.77337662, 6)
    expect(fit.offset).toBeCloseTo(1.7341128, 5)
    expect(fit.coefficient).toBeCloseTo(0.3865331, 5)
    expect(fit.standardError).toBeCloseTo(0.05130545, 6)
    expect(fit.low).toBeCloseTo(1.632953, 5)
    expect(fit.high).toBeCloseTo(1.9187187, 5)
    expect(fit.degreesOfFreedom).toBe(4)
  })

  it('residual bootstrap of three rows: the limits are the extremes of all 27 resamples, enumerated', () => {
    const rows = [{ n: 1, y: 1, weight: 1 }, { n: 2, y: 3, weight: 9 }, { n: 4, y: 5, weight: 0.25 }]
    const { alpha, coefficient } = fitPowerLaw(rows)
    const fitted = rows.map(({ n }) => Math.log(coefficient * n ** alpha))
    // three rows, two parameters: residuals grow by √3 for the one degree of freedom; weight w means variance 1/w
    const residuals = rows.map(({ y, weight }, k) => Math.sqrt(3 * weight) * (Math.log(y) - fitted[k]))
    const all = residuals.flatMap((a) => residuals.flatMap((b) => residuals.map((c) =>
      fitPowerLaw(rows.map((row, k) => ({ ...row, y: Math.exp(fitted[k] + [a, b, c][k] / Math.sqrt(row.weight)) }))).alpha)))
    // each extreme is missed by 2000 draws with probability (26/27)^2000 < 1e-32
    const { low, high } = bootstrapResiduals(rows, fitPowerLaw, { random: random(3), replicates: 2000, confidence: 1 - 1e-12 })
    expect(low).toBeCloseTo(Math.min(...all), 6)
    expect(high).toBeCloseTo(Math.max(...all), 6)
  })

  it('the rounding range holds every fit of a table that rounds to the same numbers', () => {
    const rows = [
      { n: 2, y: 0.08 },
      { n: 3, y: 0.21 },
      { n: 8, y: 1.89 },
    ]
    const [low, high] = roundingRange(rows, 0.005)
    const draw = random(13)
    for (let k = 0; k < 200; k++) {
      const { alpha } = fitPowerLaw(rows.map(({ n, y }) => ({ n, y: y + 0.005 * (2 * draw.next() - 1) })))
      expect(alpha).toBeGreaterThanOrEqual(low)
      expect(alpha).toBeLessThanOrEqual(high)
    }
    expect(high - low).toBeLessThan(0.2)
  })

  it('refuses tables that have no exponent', () => {
    expect(() =>
      fitPowerLaw([
        { n: 2, y: 1 },
        { n: 2, y: 3 },
      ]),
    ).toThrow('1 different n; 2 at least are needed')
    expect(() =>
      fitPowerLaw([
        { n: 2, y: 1 },
        { n: 3, y: 0 },
      ]),
    ).toThrow('y is 0')
    expect(() =>
      fitPowerLaw([
        { n: 0, y: 1 },
        { n: 3, y: 1 },
      ]),
    ).toThrow('n is 0')
    expect(() =>
      fitPowerLaw([
        { n: 1, y: NaN },
        { n: 3, y: 1 },
      ]),
    ).toThrow('y is NaN at n = 1')
    expect(() =>
      fitPowerLaw([
        { n: 1, y: 1, weight: 0 },
        { n: 3, y: 1 },
      ]),
    ).toThrow('weight is 0')
    expect(() =>
      fitPowerLawWithOffset([
        { n: 2, y: 1 },
        { n: 3, y: 2 },
      ]),
    ).toThrow('2 different n; 3 at least')
    // two rows: a line, and nothing known of its error
    expect(
      fitPowerLaw([
        { n: 2, y: 1 },
        { n: 4, y: 4 },
      ]),
    ).toMatchObject({ alpha: 2, low: -Infinity, high: Infinity })
  })
})
