import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { figures, recipes } from '../../src/figures/catalogue.js'
import { parseCsv } from '../../src/figures/csv.js'
import { toSvg } from '../../src/figures/render.js'
import { readTable } from '../../src/figures/table.js'

const data = join(process.cwd(), 'data')
// Recorded experiments come when they are recorded; test/figures/experimentFigures.test.ts draws those figures from small tables.
const isCommitted = (table: string): boolean => existsSync(join(data, table))
const drawable = figures.filter(({ tables }) => tables.every(isCommitted))
const drawn = new Map<string, string>()
const specOf = (name: string) => {
  const figure = figures.find((one) => one.name === name)!
  const rows = figure.rows(...figure.tables.map((table) => readTable(join(data, table), table)))
  return { rows, spec: figure.draw(rows, { title: figure.title, subtitle: figure.subtitle }) }
}

describe('every figure', () => {
  it.each(drawable.map(({ name }) => name))('%s: draws its committed tables, without a warning, the same way twice', async (name) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const { rows, spec } = specOf(name)
    const svg = await toSvg(spec)
    expect(warn.mock.calls).toEqual([])
    warn.mockRestore()
    expect(rows.length).toBeGreaterThan(0)
    expect(svg).not.toMatch(/NaN|Infinity|undefined/)
    expect(svg.match(/aria-roledescription="(point|circle|rule|rect mark|line mark|bar|text mark)/g)!.length).toBeGreaterThan(2)
    expect(svg.replaceAll(/<[^>]+>/g, '')).toContain(figures.find((figure) => figure.name === name)!.title.split(' ')[0])
    expect(await toSvg(spec)).toBe(svg)
    drawn.set(name, svg)
  })

  it('fits the column: no wider than 700 pixels', () => {
    for (const [name, svg] of drawn) expect(Number(/width="(\d+)"/.exec(svg)![1]), name).toBeLessThan(700)
  })

  it('has a name of its own, and tables that a command or the paper gave', () => {
    expect(new Set(figures.map(({ name }) => name)).size).toBe(figures.length)
    const made = recipes.flatMap(({ tables }) => tables)
    expect(new Set(made).size).toBe(made.length)
    for (const table of figures.flatMap(({ tables }) => tables)) {
      expect(isCommitted(table) || table.startsWith('experiments/'), table).toBe(true)
      expect(table.startsWith('paper/') || made.includes(table), table).toBe(true)
    }
  })

  it('stands in data/README.md with its tables', () => {
    const readme = readFileSync(join(data, 'README.md'), 'utf8')
    // `experiments/main-summary.csv` as `experiments/NAME-summary.csv`
    const named = figures.flatMap(({ tables }) => tables).map((table) => table.replace(/^(experiments\/).*(-\w+\.csv)$/, '$1NAME$2'))
    for (const table of new Set(named)) expect(readme.includes(`\`${table}\``), table).toBe(true)
  })
})

describe('what is drawn', () => {
  it('puts the path of TeamTR where its table says', () => {
    const { rows } = specOf('figure-1')
    const last = rows.filter(({ series }) => series === 'TeamTR').at(-1)!
    expect([last.x, last.y]).toEqual([-4, 4])
    expect(rows.filter(({ kind }) => kind === 'surface')).toHaveLength(31 * 31)
  })

  it('names the α of its own table in every series of the scaling figures', () => {
    const exponents = parseCsv(readFileSync(join(data, 'scaling-ring-exponents.csv'), 'utf8'))
    const alpha = exponents.find(({ radius, quantity }) => radius === 'occupancy' && quantity === 'thm37Exact')!.alpha
    const { rows } = specOf('penalties-occupancy-radius')
    expect(rows.some(({ series }) => String(series).includes(`exact sum: α = ${Number(alpha).toFixed(2)}`))).toBe(true)
  })
})
