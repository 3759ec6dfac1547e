import { describe, expect, it } from 'vitest'
import { learningCurves } from '../../src/figures/charts.js'
import { toCsv } from '../../src/figures/csv.js'
import { htmlPage } from '../../src/figures/page.js'
import { growth } from '../../src/figures/plots.js'
import { toPng, toSvg } from '../../src/figures/render.js'

const powers = [2, 4, 8].flatMap((n) => [{ n, series: 'n', value: n }, { n, series: 'n²', value: n * n }])
const spec = growth(powers, { title: 'Powers', y: 'value' })

describe('toSvg', () => {
  it('draws every mark, and the same bytes a second time', async () => {
    const svg = await toSvg(spec)
    expect(svg.match(/aria-roledescription="point"/g)).toHaveLength(6)
    expect(svg).toContain('Powers')
    expect(await toSvg(spec)).toBe(svg)
  })

  it('draws a power law as a straight line of its slope', async () => {
    const svg = await toSvg(spec)
    const lines = [...svg.matchAll(/aria-roledescription="line mark"[^>]* d="M([\d.,\-L]+)"/g)]
      .map(([, path]) => path.split('L').map((point) => point.split(',').map(Number)))
    expect(lines).toHaveLength(2)
    for (const [a, b, c] of lines) expect((b[1] - a[1]) / (b[0] - a[0])).toBeCloseTo((c[1] - b[1]) / (c[0] - b[0]), 2)
    const slope = ([a, , c]: number[][]): number => (c[1] - a[1]) / (c[0] - a[0])
    expect(slope(lines[1]) / slope(lines[0])).toBeCloseTo(2, 2)
  })
})

describe('toPng', () => {
  it('is a PNG at twice the size, with the shipped font', async () => {
    const svg = await toSvg(learningCurves([{ stage: 0, method: 'a', value: 0.2, low: 0.1, high: 0.3 }, { stage: 1, method: 'a', value: 0.4, low: 0.3, high: 0.5 }], { title: 'T' }))
    const png = Buffer.from(await toPng(svg))
    expect(png.subarray(1, 4).toString()).toBe('PNG')
    expect(png.readUInt32BE(16)).toBe(2 * Number(/width="(\d+)"/.exec(svg)?.[1]))
  })
})

describe('toCsv', () => {
  it('quotes what needs it and keeps numbers whole', () => {
    expect(toCsv([{ name: 'a,"b"', x: 0.1 + 0.2, none: null }])).toBe('name,x,none\n"a,""b""",0.30000000000000004,\n')
  })
})

describe('htmlPage', () => {
  it('escapes text and loads nothing from outside', () => {
    const html = htmlPage('A <b>', [{ heading: 'h & i', text: ['1 < 2'], table: { header: ['x'], rows: [['<script>']] }, figures: [{ svg: '<svg/>', alt: '"' }] }])
    expect(html).not.toMatch(/<script|<b>|(src|href)="http/)
    expect(html).toContain('1 &lt; 2')
  })
})
