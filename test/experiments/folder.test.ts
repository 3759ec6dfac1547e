import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { dataFolders } from '../../src/cli/experiment.js'
import { claimFolder, readManifest, sameGrid, type Manifest } from '../../src/experiments/folder.js'
import { parseGrid } from '../../src/experiments/grid.js'
import { parseCsv } from '../../src/figures/csv.js'
import { teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'folder-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const experiment = (...args: string[]) => teamtrWith({ cwd: folder }, ['experiment', ...args])
const refused = (line: RegExp | string) => ({ status: 2, stdout: '', stderr: expect.stringMatching(line instanceof RegExp ? new RegExp(`^teamtr: ${line.source}\\n$`) : line) })

// Called like an experiment that is recorded.
const file = 'delta.yaml'
writeFileSync(at(file), `
about: one warmed-up team
seeds: 1
base:
  task: {name: relay, modulus: 3}
  team: {agents: 2}
  model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
  warmup: {steps: 5, episodes: 16}
  stages: 0
  evaluation: {problems: 5}
variants: {a: {}}
`)
const manifest = (seeds: number, more: object = {}, version = '1'): Manifest =>
  ({ experiment: 'x', version, quick: false, seeds, grid: parseGrid({ about: 'x', variants: { a: {} }, ...more }, 'x') })

describe('the folder of an experiment', () => {
  it('takes more seeds of the same grid, not fewer and not another grid', () => {
    claimFolder(at('claimed'), manifest(2))
    claimFolder(at('claimed'), manifest(3, { seeds: 4, quick: { seeds: 2 } }))
    expect(readManifest(at('claimed'))).toMatchObject({ seeds: 3, grid: { seeds: 4 } })
    expect(() => claimFolder(at('claimed'), manifest(2))).toThrow(/grid\.json: seeds: holds 3; 2 asked for: they can be added, not taken away/)
    expect(() => claimFolder(at('claimed'), manifest(5, { base: { stages: 7 } }))).toThrow(/grid\.json: grid\.base\.stages: /)
    expect(() => claimFolder(at('claimed'), manifest(5, {}, '2'))).toThrow(/grid\.json: version: holds "1"; this experiment has "2"/)
    expect(readManifest(at('claimed')).seeds).toBe(3)
  })

  it('is merged with those of as many seeds, whatever the grid declares', () => {
    expect(() => sameGrid(manifest(3), 'a', manifest(2), 'b')).toThrow('b/grid.json: seeds: holds 2; a has 3')
    expect(() => sameGrid(manifest(3, { seeds: 2 }), 'a', manifest(3, { seeds: 3 }), 'b')).not.toThrow()
  })

  it('leads nowhere else, and asks for no endless grid', () => {
    claimFolder(at('damaged'), manifest(1))
    const text = readFileSync(at('damaged', 'grid.json'), 'utf8')
    for (const [from, to, said] of [
      ['"experiment": "x"', '"experiment": "../../x"', /experiment: holds "\.\.\/\.\.\/x"; expected lower-case letters/],
      ['"experiment": "x"', '"experiment": "bases"', /experiment: holds "bases"; expected another name/],
      ['"seeds": 1', '"seeds": 1000000000', /seeds: holds 1000000000/],
      ['"quick": false', '"quick": 1', /quick: holds 1/],
    ] as const) {
      writeFileSync(at('damaged', 'grid.json'), text.replace(from, to))
      expect(() => readManifest(at('damaged'))).toThrow(said)
    }
  })
})

it('recorded tables are replaced only by what is declared', () => {
  const run = { isDeclared: true, quick: false, seeds: 3 }
  const recorded = [join('data', 'experiments')]
  expect(dataFolders(undefined, run, { seeds: 3 })).toEqual(recorded)
  for (const other of [{ isDeclared: false }, { quick: true }, { seeds: 4 }, { seeds: 2 }]) {
    expect(dataFolders(undefined, { ...run, ...other }, { seeds: 3 })).toEqual([])
    expect(dataFolders(true, { ...run, ...other }, { seeds: 3 })).toEqual(recorded)
    expect(dataFolders('there', { ...run, ...other }, { seeds: 3 })).toEqual(['there'])
  }
  expect(dataFolders(false, run, { seeds: 3 })).toEqual([])
})

describe('teamtr experiment', () => {
  it.each([['...yaml', '".."'], ['.yaml', '""'], ['bases.yaml', '"bases"'], ['Big.yaml', '"Big"']])('refuses a file called %s', async (name, holds) => {
    cpSync(at(file), at(name))
    expect(await experiment(name, '--out', 'named')).toMatchObject({ status: 2, stderr: expect.stringContaining(`${name}: the file's name: holds ${holds}; expected `) })
    expect(existsSync(at('named'))).toBe(false)
  })

  it('says the most seeds; sees before the runs that tables can be written', async () => {
    expect(await experiment(file, '--seeds', '1001')).toMatchObject(refused(/.*expected a whole number, 1 to 1000; .*/))
    expect(await experiment(file, '--out', 'early', '--data', file)).toMatchObject(refused(/delta\.yaml: cannot be written: .*/))
    expect(existsSync(at('early', 'delta', 'a-0'))).toBe(false)
  })
})

describe('teamtr experiment, and merge', () => {
  beforeAll(async () => {
    expect(await experiment(file, '--out', 'out')).toMatchObject({ status: 0 })
    cpSync(at('out'), at('one-seed'), { recursive: true })
  })

  it('a file is not recorded, whatever its name', () => expect(existsSync(at('data'))).toBe(false))

  it('adds seeds, and runs only those', async () => {
    const made = statSync(at('out', 'delta', 'a-0', 'evaluations.jsonl')).mtimeMs
    const { status, stderr } = await experiment(file, '--out', 'out', '--seeds', '2', '--resume', '--data', 'there')
    expect([status, stderr]).toEqual([0, expect.stringMatching(/^delta: 2 runs, 1 to do/)])
    expect(parseCsv(readFileSync(at('there', 'delta-runs.csv'), 'utf8')).map(({ seed }) => seed)).toEqual([0, 1])
    expect(statSync(at('out', 'delta', 'a-0', 'evaluations.jsonl')).mtimeMs).toBe(made)
    expect(await experiment('merge', 'out', 'one-seed', '--out', 'merged')).toMatchObject(refused(/one-seed\/delta\/grid\.json: seeds: holds 1; out\/delta has 2/))
  })

  it('checks everything before it writes anything; one JSON document', async () => {
    cpSync(at('one-seed', 'delta'), at('two', 'delta'), { recursive: true })
    cpSync(at('one-seed', 'delta'), at('two', 'other'), { recursive: true })
    const other = at('two', 'other', 'grid.json')
    const text = readFileSync(other, 'utf8').replace('"experiment": "delta"', '"experiment": "other"')
    writeFileSync(other, text)
    const { status, stdout } = await experiment('merge', 'two', '--out', 'both', '--json')
    expect([status, Object.keys(JSON.parse(stdout))]).toEqual([0, ['delta', 'other']])
    expect(readdirSync(at('both'))).toEqual(['delta-runs.csv', 'delta-summary.csv', 'other-runs.csv', 'other-summary.csv'])
    writeFileSync(other, text.replace('"variants": [', '"variants": [{}, '))
    expect(await experiment('merge', 'two', '--out', 'none')).toMatchObject(refused(/two\/other\/grid\.json: grid: variants\[0\]: holds \{\}; expected at least one variant/))
    expect(await experiment('merge', 'one-seed', '--out', 'none', '--jobs', '4')).toMatchObject(refused(/--jobs: is no option of merge, .*/))
    expect(await experiment('merge', file, '--out', 'none')).toMatchObject(refused(/delta\.yaml: is a file; .*/))
    expect(existsSync(at('none'))).toBe(false)
  })

  it('says of tables only where there are some', async () => {
    rmSync(at('one-seed', 'delta', 'a-0'), { recursive: true })
    const { status, stdout, stderr } = await experiment('merge', 'one-seed', '--out', 'none')
    expect([status, stdout, stderr]).toEqual([1, 'no run is finished\n', 'missing: delta: a-0\n'])
    expect(existsSync(at('none'))).toBe(false)
  })
})
