import { describe, expect, it } from 'vitest'
import { passAtK } from '../../src/tasks/passAtK.js'

/** By definition: of all ways to draw k of n samples, the share that hold one of the c correct ones. */
const byCounting = (n: number, c: number, k: number): number => {
  let hits = 0
  let all = 0
  for (let set = 0; set < 2 ** n; set++) {
    const drawn = [...set.toString(2)].filter((bit) => bit === '1').length
    if (drawn !== k) continue
    all++
    if (set & (2 ** c - 1)) hits++
  }
  return hits / all
}

describe('pass@k', () => {
  it('is the share of draws with a correct sample', () => {
    for (let n = 1; n <= 7; n++) for (let c = 0; c <= n; c++) for (let k = 1; k <= n; k++) expect(passAtK(n, c, k)).toBeCloseTo(byCounting(n, c, k), 12)
  })

  it('keeps its digits where binomials overflow or the value is tiny', () => {
    expect(passAtK(1e6, 1, 1)).toBeCloseTo(1e-6, 18)
    expect(passAtK(10_000, 5000, 5000)).toBe(1)
    expect(passAtK(10_000, 1, 5000)).toBeCloseTo(0.5, 12)
    expect(passAtK(200, 0, 100)).toBe(0)
  })

  it('refuses what is no count', () => {
    for (const [n, c, k] of [[5, 6, 1], [5, -1, 1], [5, 1, 0], [5, 1, 6], [5, 0.5, 1], [NaN, 1, 1]]) expect(() => passAtK(n, c, k)).toThrow(RangeError)
  })
})
