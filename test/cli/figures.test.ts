import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { addFigures } from '../../src/cli/figures.js'
import { addTables } from '../../src/cli/tables.js'
import { parseCsv } from '../../src/figures/csv.js'

const run = async (...args: string[]): Promise<{ out: string; err: string }> => {
  const written = { out: '', err: '' }
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation((text) => (written.out += String(text), true)),
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => (written.err += String(text), true)),
  ]
  try {
    const program = new Command().exitOverride()
    addFigures(program)
    addTables(program)
    await program.parseAsync(args, { from: 'user' })
  } finally {
    spies.forEach((spy) => spy.mockRestore())
  }
  return written
}

const home = mkdtempSync(join(tmpdir(), 'teamtr-figures-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))
const committed = join(process.cwd(), 'data')

describe('teamtr figures', () => {
  it('writes four files a figure and a gallery that links them; a second run gives the same bytes', async () => {
    const folder = join(home, 'twice')
    const once = async (): Promise<Record<string, string>> => {
      const { out } = await run('figures', '--only', 'figure-1-starts', 'paper-fits', '--out', folder)
      expect(out).toBe(`2 figures: ${join(folder, 'index.html')}\n`)
      return Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'base64')]))
    }
    const first = await once()
    expect(Object.keys(first).sort()).toEqual(['figure-1-starts', 'paper-fits'].flatMap((name) => ['csv', 'png', 'svg', 'vl.json'].map((end) => `${name}.${end}`)).concat('index.html').sort())
    expect(await once()).toEqual(first)
    const page = readFileSync(join(folder, 'index.html'), 'utf8')
    for (const file of Object.keys(first)) if (file !== 'index.html') expect(page).toContain(`href="${file}"`)
    expect(JSON.parse(readFileSync(join(folder, 'paper-fits.vl.json'), 'utf8')).$schema).toContain('vega-lite/v5')
    expect(parseCsv(readFileSync(join(folder, 'paper-fits.csv'), 'utf8'))[0]).toMatchObject({ series: 'published α' })
  })

  it('refuses tables that lack a column, a cell or a number, by file, line and column, before anything is written', async () => {
    const data = join(home, 'damaged')
    mkdirSync(data)
    const file = join(data, 'landscape-starts.csv')
    const text = readFileSync(join(committed, 'landscape-starts.csv'), 'utf8')
    const lines = text.split('\n')
    const third = lines[2].split(',')
    const at = lines[0].split(',').indexOf('arrived')
    for (const [content, said] of [
      [text.replace('arrived', 'arived'), 'line 1: has no column "arrived" (did you mean "arived"?)'],
      [[...lines.slice(0, 2), third.with(at, 'abc').join(','), ...lines.slice(3)].join('\n'), 'line 3: arrived: holds "abc"; expected a number'],
      [[...lines.slice(0, 2), third.with(at, '1e999').join(','), ...lines.slice(3)].join('\n'), 'line 3: arrived: holds Infinity; expected a finite number'],
      ['', 'holds no rows'],
      [`${lines[0]}\n`, 'holds no rows'],
      [[...lines.slice(0, 2), third.slice(1).join(','), ...lines.slice(3)].join('\n'), `line 3: holds ${third.length - 1} cells; the header has ${third.length}`],
    ]) {
      writeFileSync(file, content)
      await expect(run('figures', '--only', 'figure-1-starts', '--data', data, '--out', join(home, 'none'))).rejects.toThrow(`${file}: ${said}`)
    }
    const nowhere = join(home, 'nowhere')
    await expect(run('figures', '--data', nowhere, '--out', join(home, 'none'))).rejects.toThrow(`--data: ${nowhere}: no such folder`)
    await expect(run('figures', '--data', home, '--out', join(home, 'none'))).rejects.toThrow('ring-team.csv: no such file')
    expect(existsSync(join(home, 'none'))).toBe(false)
  })

  it('refuses a figure that it does not know', async () => {
    await expect(run('figures', '--only', 'figure-9', '--out', join(home, 'none'))).rejects.toThrow(/--only: no figure "figure-9"; there are ring-team, /)
    expect(existsSync(join(home, 'none'))).toBe(false)
  })

  it('leaves a figure out when its table is missing, and refuses it when it was asked for', async () => {
    const data = join(home, 'data')
    mkdirSync(data)
    copyFileSync(join(committed, 'landscape-starts.csv'), join(data, 'landscape-starts.csv'))
    const { out, err } = await run('figures', '--data', data, '--out', join(home, 'some'))
    expect(out).toMatch(/^1 figures: /)
    expect(err).toContain('figure worst-case: ')
    expect(err).toContain(`figure methods-reward: ${join(data, 'experiments', 'main-summary.csv')}: no such file; "teamtr experiment main --resume --data ${data}/experiments" writes it (left out)\n`)
    expect(err).toMatch(/paper\/team-size-scaling\.csv: no such file; it comes with teamtr/)
    await expect(run('figures', '--data', data, '--only', 'worst-case', '--out', join(home, 'some'))).rejects
      .toThrow(`figure worst-case: ${join(data, 'worst-case.csv')}: no such file; "teamtr worst-case --evaluations 40000 --out ${data}" writes it`)
  })

  it('--recompute runs the command that writes the table', async () => {
    const data = join(home, 'fresh')
    const { out } = await run('figures', '--data', data, '--only', 'stage-waterfall', '--recompute', '--out', join(home, 'recomputed'))
    expect(out).toContain('teamtr tables → ring-team.csv')
    expect(existsSync(join(home, 'recomputed', 'stage-waterfall.svg'))).toBe(true)
    // the committed tables are what the command gives now
    for (const file of readdirSync(data)) {
      const [fresh, old] = [data, committed].map((folder) => parseCsv(readFileSync(join(folder, file), 'utf8')))
      expect(fresh.length, file).toBe(old.length)
      fresh.forEach((row, k) => Object.entries(row).forEach(([name, cell]) => {
        if (typeof cell === 'number') expect(Math.abs(cell - Number(old[k][name])), `${file}:${k + 2}: ${name}`).toBeLessThanOrEqual(1e-4 * Math.abs(cell) + 1e-9)
        else expect(cell, `${file}:${k + 2}: ${name}`).toBe(old[k][name])
      }))
    }
  })
})

describe('teamtr tables', () => {
  it('refuses a table that it does not know', async () => {
    await expect(run('tables', 'nothing', '--out', home)).rejects.toThrow(/tables: "nothing"; one of ring-team, /)
  })
})
