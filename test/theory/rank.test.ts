import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rankCorrelation, rankCorrelationInterval, ranks } from '../../src/theory/rank.js'
import { random } from '../../src/util/random.js'

describe('ranks', () => {
  it('share the mean among equals', () => {
    expect([...ranks([3, 1, 2, 2, 5])]).toEqual([4, 1, 2.5, 2.5, 5])
  })
})

describe('rankCorrelation', () => {
  it('is 1 under any increasing map, −1 under a decreasing one', () => {
    fc.assert(fc.property(fc.uniqueArray(fc.integer({ min: -1000, max: 1000 }), { minLength: 2 }), (x) => {
      expect(rankCorrelation(x, x.map((v) => v ** 3))).toBeCloseTo(1, 12)
      expect(rankCorrelation(x, x.map((v) => -v))).toBeCloseTo(-1, 12)
    }))
  })

  it('agrees with 1 − 6Σd²/(n(n²−1)) where no values are equal', () => {
    const x = [10, 20, 30, 40, 50]
    const y = [2, 1, 4, 3, 5]
    expect(rankCorrelation(x, y)).toBeCloseTo(1 - (6 * 4) / (5 * 24), 12)
  })

  it('refuses what are no pairs', () => {
    expect(() => rankCorrelation([1], [1])).toThrow(/at least two/)
    expect(() => rankCorrelation([1, 2], [1, 2, 3])).toThrow(/2 and 3 values/)
  })

  it('has an interval around it that narrows with the pairs', () => {
    const draw = random(1)
    const pairs = Array.from({ length: 400 }, () => { const x = draw.normal(); return [x, x + draw.normal()] })
    const width = (n: number): number => {
      const { estimate, low, high } = rankCorrelationInterval(pairs.slice(0, n).map(([x]) => x), pairs.slice(0, n).map(([, y]) => y), { random: random(2) })
      expect(low).toBeLessThanOrEqual(estimate)
      expect(high).toBeGreaterThanOrEqual(estimate)
      return high - low
    }
    expect(width(400)).toBeLessThan(width(40))
  })
})
