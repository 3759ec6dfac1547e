import { describe, expect, it } from 'vitest'
import {
  bootstrapInterval,
  empiricalBernsteinInterval,
  hoeffdingInterval,
  mean,
  normalQuantile,
  proportionInterval,
  quantileSorted,
  studentInterval,
  studentQuantile,
  variance,
  type Interval,
} from '../../src/theory/intervals.js'
import { random } from '../../src/util/random.js'

/** How often `interval` of m samples misses `truth`, over `repetitions` seeded repetitions. */
const misses = (truth: number, repetitions: number, interval: () => Interval): number => {
  let count = 0
  for (let k = 0; k < repetitions; k++) {
    const { low, high } = interval()
    if (truth < low || truth > high) count++
  }
  return count
}

/**
 * An interval of the miss rate that is itself wrong with probability 1e-6: the error probability of the tests below (seeds are fixed, so
 * they pass always or never).
 */
const rate = (count: number, trials: number): Interval => proportionInterval(count, trials, { confidence: 1 - 1e-6 })

describe('intervals', () => {
  it('are the formulas of their authors, on worked numbers', () => {
    const samples = [0, 1, 1, 0, 1, 1, 1, 0, 1, 1]
    const h = hoeffdingInterval(samples, { confidence: 0.9, range: [0, 2] })
    expect(h.estimate).toBe(0.7)
    expect(h.high - 0.7).toBeCloseTo(2 * Math.sqrt(Math.log(20) / 20), 12)
    expect(h.low).toBe(0)
    const long = Array.from({ length: 1000 }, (_, k) => (k % 10 === 0 ? 1 : 0))
    const v = (1000 * 0.1 * 0.9) / 999
    const e = empiricalBernsteinInterval(long, { confidence: 0.95, range: [0, 1] })
    const radius = Math.sqrt((2 * v * Math.log(80)) / 1000) + (7 * Math.log(80)) / (3 * 999)
    expect(e.high).toBeCloseTo(0.1 + radius, 12)
    expect(e.low).toBeCloseTo(0.1 - radius, 12)
    expect(e.high).toBeLessThan(hoeffdingInterval(long, { range: [0, 1] }).high + 0.01)
    // Student's t, Fisher's tables; Clopper–Pearson 0 of n is 1 − (α/2)^(1/n)
    expect(studentQuantile(0.975, 4)).toBeCloseTo(2.7764451052, 6)
    expect(normalQuantile(0.975)).toBeCloseTo(1.9599639845, 8)
    expect(proportionInterval(0, 20).high).toBeCloseTo(1 - 0.025 ** (1 / 20), 8)
    expect(proportionInterval(20, 20).low).toBeCloseTo(0.025 ** (1 / 20), 8)
    const s = studentInterval([1, 2, 3, 4, 5])
    expect(s.high - 3).toBeCloseTo(2.7764451052 * Math.sqrt(2.5 / 5), 6)
  })

  it('Hoeffding and empirical Bernstein miss a bounded mean no more often than they say', () => {
    const draw = random(1)
    for (const [p, m] of [
      [0.5, 20],
      [0.05, 60],
      [0.9, 5],
    ] as const) {
      for (const interval of [hoeffdingInterval, empiricalBernsteinInterval]) {
        const count = misses(p, 1000, () =>
          interval(
            Array.from({ length: m }, () => (draw.next() < p ? 1 : 0)),
            { confidence: 0.7, range: [0, 1] },
          ),
        )
        expect(rate(count, 1000).low).toBeLessThanOrEqual(0.3)
      }
    }
  })

  it('Student misses a normal mean exactly as often as it says', () => {
    const draw = random(2)
    const count = misses(3, 4000, () =>
      studentInterval(
        Array.from({ length: 4 }, () => 3 + 2 * draw.normal()),
        { confidence: 0.9 },
      ),
    )
    expect(rate(count, 4000).low).toBeLessThan(0.1)
    expect(rate(count, 4000).high).toBeGreaterThan(0.1)
  })

  it('the bootstrap covers a symmetric mean nearly as it says; BCa moves towards the long tail of a skewed one', () => {
    const draw = random(3)
    const symmetric = misses(0, 500, () =>
      bootstrapInterval(
        Array.from({ length: 30 }, () => draw.normal()),
        { confidence: 0.9, random: draw, replicates: 400 },
      ),
    )
    expect(rate(symmetric, 500).low).toBeLessThan(0.12)
    expect(rate(symmetric, 500).high).toBeGreaterThan(0.1)

    let tooLow = { percentile: 0, bca: 0 }
    for (let k = 0; k < 500; k++) {
      const skewed = Array.from({ length: 25 }, () => Math.exp(draw.normal()))
      const percentile = bootstrapInterval(skewed, { confidence: 0.9, random: random(k), replicates: 300 })
      const bca = bootstrapInterval(skewed, { confidence: 0.9, random: random(k), replicates: 300, method: 'bca' })
      const truth = Math.exp(0.5)
      tooLow = { percentile: tooLow.percentile + Number(percentile.high < truth), bca: tooLow.bca + Number(bca.high < truth) }
    }
    expect(tooLow.bca).toBeLessThan(tooLow.percentile)
    expect(tooLow.bca / 500).toBeLessThan(0.2)
  })

  it('the same seed gives the same bootstrap, and any statistic will do', () => {
    const samples = [3, 1, 4, 1, 5, 9, 2, 6]
    const median = (x: Float64Array): number => quantileSorted(x.slice().sort(), 0.5)
    const once = bootstrapInterval(samples, { random: random(5), statistic: median })
    expect(once).toEqual(bootstrapInterval(samples, { random: random(5), statistic: median }))
    expect(once.estimate).toBe(3.5)
    expect(once.low).toBeGreaterThanOrEqual(1)
    expect(once.high).toBeLessThanOrEqual(9)
  })

  it('refuses what would make an interval false', () => {
    expect(() => hoeffdingInterval([0.5, 1.1], { range: [0, 1] })).toThrow('sample 1 is 1.1, outside its range [0, 1]')
    expect(() => hoeffdingInterval([NaN], { range: [0, 1] })).toThrow(RangeError)
    expect(() => empiricalBernsteinInterval([], { range: [0, 1] })).toThrow('at least one sample')
    expect(() => studentInterval([1, 2], { confidence: 1 })).toThrow('confidence is 1')
    expect(() => proportionInterval(3, 2)).toThrow('3 successes in 2 trials')
    // one sample: nothing but the range follows
    expect(empiricalBernsteinInterval([0.3], { range: [0, 1] })).toMatchObject({ low: 0, high: 1 })
    expect(studentInterval([0.3])).toMatchObject({ low: -Infinity, high: Infinity })
  })

  it('mean and variance are the textbook ones', () => {
    expect(mean([1, 2, 4])).toBeCloseTo(7 / 3, 14)
    expect(variance([1, 2, 4])).toBeCloseTo(7 / 3, 14)
    expect(variance([5])).toBe(0)
  })
})
