import { expect, it } from 'vitest'
import { proportionInterval } from '../../src/theory/intervals.js'
import { differenceEstimate, rewardEstimate } from '../../src/train/estimate.js'

it('rewardEstimate has an interval also where all rewards are the same, and where they are parts of 1', () => {
  // Clopper and Pearson by hand: of 5 failures the upper end solves (1 − p)⁵ = 0.025.
  expect(rewardEstimate([0, 0, 0, 0, 0])).toEqual({ estimate: 0, low: 0, high: expect.closeTo(1 - 0.025 ** 0.2, 8) })
  const { estimate, low, high } = proportionInterval(2, 3)
  expect(rewardEstimate([0.1 + 0.2 + 0.7, 0, 1])).toEqual({ estimate, low, high })
  // Empirical Bernstein by hand: no variance, so 7 log(4/0.05) / (3 · 99).
  const radius = (7 * Math.log(80)) / (3 * 99)
  const partly = rewardEstimate(Array.from({ length: 100 }, () => 0.5))
  expect(partly.high).toBeCloseTo(0.5 + radius, 12)
  expect(partly.low).toBeCloseTo(0.5 - radius, 12)
  expect(() => rewardEstimate([1.5])).toThrow(RangeError)
})

it('differenceEstimate of the same values in another order is 0, and of others what it is', () => {
  const values = [0.1, 0.2, 0.3, 0.7, 0.6]
  const turned = [0.7, 0.1, 0.6, 0.3, 0.2]
  expect(values.reduce((sum, value, p) => sum + (value - turned[p]), 0)).not.toBe(0)
  expect(differenceEstimate(values, turned).estimate).toBe(0)
  const { estimate, low, high } = differenceEstimate([1, 0, 1], [0, 0, 1])
  expect(estimate).toBeCloseTo(1 / 3, 12)
  // t₂(0.975) · s/√3 with s = 1/√3
  expect([low, high]).toEqual([expect.closeTo(1 / 3 - 4.302652729749464 / 3, 8), expect.closeTo(1 / 3 + 4.302652729749464 / 3, 8)])
})
