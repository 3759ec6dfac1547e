import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseCsv, toCsv, type Row } from '../../src/figures/csv.js'
import { withTicks, wrap } from '../../src/figures/encode.js'
import { textWidth } from '../../src/figures/fonts.js'
import { waterfallRows } from '../../src/figures/teamCharts.js'
import { dashes, palette } from '../../src/figures/theme.js'

describe('parseCsv', () => {
  it('reads back what toCsv wrote', () => {
    const cell = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }).filter((x) => !Object.is(x, -0)), fc.stringMatching(/^[a-z",\n ]*[a-z]$/), fc.constant(null))
    const columns = ['a', 'b c', 'd,"e"']
    fc.assert(fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1 }), (table) => {
      const rows: Row[] = table.map((cells) => Object.fromEntries(cells.map((value, k) => [columns[k], value])))
      expect(parseCsv(toCsv(rows))).toEqual(rows)
    }))
  })

  it('has no rows for an empty text or a header alone', () => {
    expect(parseCsv('')).toEqual([])
    expect(parseCsv('a,b\n')).toEqual([])
  })
})

describe('wrap', () => {
  it('keeps every word, lines inside the width, and as few of them as possible', () => {
    const word = fc.stringMatching(/^[a-z]{1,9}$/)
    fc.assert(fc.property(fc.array(word, { minLength: 1, maxLength: 30 }), fc.integer({ min: 9, max: 40 }), (words, width) => {
      const lines = wrap(words.join(' '), width)
      expect(lines.join(' ')).toBe(words.join(' '))
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(width)
      expect(lines.length).toBeGreaterThanOrEqual(Math.ceil(words.join(' ').length / (width + 1)))
    }))
  })

  it('does not part δ = 0.05', () => {
    expect(wrap('a radius of δ = 0.05 nats', 14)).toEqual(['a radius of', 'δ = 0.05 nats'])
  })
})

describe('withTicks', () => {
  it('marks powers of ten over a long range, 1, 2, 5 over a short one, and leaves other axes alone', () => {
    expect(withTicks({ title: '', log: true }, [0.02, 300]).ticks).toEqual([0.01, 0.1, 1, 10, 100, 1000])
    expect(withTicks({ title: '', log: true }, [3, 30]).ticks).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500])
    expect(withTicks({ title: '' }, [1, 2])).toEqual({ title: '' })
  })
})

describe('textWidth', () => {
  it('is that of the shipped font: digits alike, bold wider, in proportion to the size', () => {
    expect(textWidth('1111', 10)).toBe(textWidth('8888', 10))
    expect(textWidth('message', 20)).toBeCloseTo(2 * textWidth('message', 10), 10)
    expect(textWidth('message', 10, true)).toBeGreaterThan(textWidth('message', 10))
    // DejaVu Sans: a digit is 1303 of 2048 units wide
    expect(textWidth('0', 2048)).toBe(1303)
  })
})

describe('waterfallRows', () => {
  it('begins each bar where the last one ended, and ends at the certificate', () => {
    const rows = waterfallRows([{ label: 'L', kind: 'surrogate', amount: 3 }, { label: 'p', kind: 'penalty', amount: 2 }, { label: 'e', kind: 'error', amount: 0.5 }], 2.5)
    expect(rows.map(({ from, to }) => [from, to])).toEqual([[0, 3], [3, 1], [1, 0.5], [0, 0.5], [0, 2.5]])
  })
})

describe('the palette', () => {
  /** Relative luminance, 0 to 1. */
  const luminance = (hex: string): number => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }

  it('stands out from the white ground, and never carries a series alone', () => {
    // 3:1 is WCAG's contrast of graphics; two of the light ones lie below, hence dashes and shapes
    expect(palette.slice(0, 3).every((color) => 1.05 / (luminance(color) + 0.05) >= 3)).toBe(true)
    expect(new Set(dashes.map(String)).size).toBe(palette.length)
  })
})
