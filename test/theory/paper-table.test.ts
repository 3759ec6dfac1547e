import { describe, expect, it } from 'vitest'
import { auditPaperTable, paperTable } from '../../src/theory/paper-table.js'

describe("the audit of the paper's team-size table", () => {
  const { rows, pairsAlpha } = auditPaperTable()

  it('least squares on logarithms gives 2.285, 2.360, 1.159, 1.200 where the paper states 1.94, 1.91, 1.07, 1.05', () => {
    expect(rows.map(({ publishedAlpha }) => publishedAlpha)).toEqual([1.94, 1.91, 1.07, 1.05])
    // numpy.polyfit(log n, log y, 1) on the same numbers
    const numpy = [2.2853279512699465, 2.3603001087901125, 1.159244560449854, 1.1995294685622528]
    rows.forEach(({ fits }, k) => expect(fits[0].fit.alpha).toBeCloseTo(numpy[k], 12))
    // the same with w = y (numpy squares it): weight y²
    const weighted = [2.192273472667317, 2.2042997808365583, 1.120664261782822, 1.090230755509933]
    rows.forEach(({ fits }, k) => expect(fits[1].fit.alpha).toBeCloseTo(weighted[k], 12))
    for (const { fits } of rows) {
      expect(fits.map(({ name }) => name)).toHaveLength(3)
      for (const { fit, bootstrap } of fits) {
        expect(fit.low).toBeLessThan(fit.alpha)
        expect(fit.high).toBeGreaterThan(fit.alpha)
        expect(bootstrap.low).toBeLessThanOrEqual(bootstrap.high)
      }
    }
  })

  it('n(n−1) itself fits as 2.40, and 0.034·n(n−1) is the naive row but for 15 % at n = 2', () => {
    expect(pairsAlpha.toFixed(2)).toBe('2.40')
    const { coefficient, relative } = rows[0].pairs
    expect(coefficient).toBeCloseTo(0.034, 3)
    expect(Math.abs(relative[0])).toBeCloseTo(0.15, 2)
    for (const r of relative.slice(1)) expect(Math.abs(r)).toBeLessThan(0.04)
  })

  it('no numbers that round to the naive rows give the published exponents', () => {
    expect(rows[0].rounding[0]).toBeGreaterThan(1.94)
    expect(rows[1].rounding[0]).toBeGreaterThan(1.91)
  })

  it('is repeatable and reads all of the table', () => {
    expect(auditPaperTable()).toEqual({ rows, pairsAlpha })
    for (const { rows: table } of paperTable()) expect(table.map(({ n }) => n)).toEqual([2, 3, 4, 5, 6, 8])
  })
})
