import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { parseCsv, type Row } from '../../src/figures/csv.js'
import { baseOf, expandGrid, parseGrid } from '../../src/experiments/grid.js'
import { fixed, growthRows, readableResults, summaryRows } from '../../src/experiments/results.js'
import { folderOf, runGrid, type GridRunOptions } from '../../src/experiments/runGrid.js'
import { readConfig } from '../../src/util/files.js'
import { teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'experiment-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const experiment = (...args: string[]) => teamtrWith({ cwd: folder }, ['experiment', ...args])

const file = at('tiny.yaml')
writeFileSync(file, `
about: two methods, and one that cannot run
seeds: 1
reference: teamtr
base:
  task: {name: relay, modulus: 3}
  team: {agents: 2}
  model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
  warmup: {steps: 10, episodes: 16}
  stages: 2
  rollout: {prompts: 4, group: 4}
  evaluation: {problems: 10, every: 0}
  diagnostics: {every: 1}
variants:
  teamtr: {method: teamtr}
  stale: {method: stale}
  # No problem of so small a game falls on the held-out side.
  impossible: {task: {modulus: 2, operations: ['+'], rounds: 1}, team: {agents: 1}, method: teamtr}
`)
const table = (...path: string[]): Row[] => parseCsv(readFileSync(at(...path), 'utf8'))
const lines = (...path: string[]) => readFileSync(at(...path), 'utf8').trim().split('\n').map((line) => JSON.parse(line))

describe('teamtr experiment', () => {
  let first: Awaited<ReturnType<typeof experiment>>
  beforeAll(async () => {
    first = await experiment(file, '--out', at('out'))
  })

  it('runs every cell; one that fails does not stop the others and is named', () => {
    expect(first.status).toBe(1)
    expect(first.stderr).toMatch(/teamtr-0: \d+ s/)
    expect(first.stderr).toMatch(/^failed: impossible-0: relay: no (test|train) problem/m)
    expect(first.stderr).toMatch(/2 of 3 runs of the grid are here/)
    expect(table('out', 'tiny', 'tiny-runs.csv').map(({ variant, seed }) => [variant, seed])).toEqual([['teamtr', 0], ['stale', 0]])
    expect(first.stdout).toMatch(/^teamtr +\d/m)
    expect(existsSync(at('data'))).toBe(false)
  })

  it('its tables are what the run folders say', () => {
    const rows = table('out', 'tiny', 'tiny-runs.csv')
    for (const row of rows) {
      const log = lines('out', 'tiny', `${row.variant}-0`, 'log.jsonl')
      const evaluations = lines('out', 'tiny', `${row.variant}-0`, 'evaluations.jsonl')
      const mean = (values: number[]): number => values.reduce((a, b) => a + b, 0) / values.length
      expect(row.updates).toBe(4)
      expect(row.reward_after).toBeCloseTo(mean(evaluations.at(-1).rewards), 5)
      expect(row.gain).toBeCloseTo(mean(evaluations.at(-1).rewards) - mean(evaluations[0].rewards), 5)
      expect(row.tokens).toBe(log.reduce((sum, { tokens }) => sum + tokens, 0))
      expect(row.drift).toBeCloseTo(log.reduce((sum, { diagnostics }) => sum + diagnostics.drift.estimate, 0) / 2, 5)
      expect(row.out_of_region).toBe(log.filter(({ proposedKl, delta }) => proposedKl > delta).length / 4)
      expect(row.diagnostic_tokens).toBe(log.reduce((sum, { diagnostics }) => sum + diagnostics.tokens, 0))
    }
    const [teamtr, stale] = rows as Record<string, number>[]
    expect(teamtr.tokens_over_stale).toBeCloseTo(teamtr.tokens / stale.tokens - 1, 5)
    expect(stale.rollouts_over_stale).toBe(0)
    const summary = table('out', 'tiny', 'tiny-summary.csv')
    const of = (variant: string, measure: string) => summary.find((row) => row.variant === variant && row.measure === measure)!
    expect(of('stale', 'reward_after')).toMatchObject({ seeds: 1, mean: stale.reward_after })
    expect(of('stale', 'reward_after').difference).toBeCloseTo(stale.reward_after - teamtr.reward_after, 5)
    expect(of('teamtr', 'reward_after').difference).toBeNull()
  })

  it('starts from one warmed-up team', () => {
    const untrained = (variant: string) => lines('out', 'tiny', `${variant}-0`, 'evaluations.jsonl')[0].rewards
    expect(untrained('stale')).toEqual(untrained('teamtr'))
    // One for both, one for the game that cannot be played.
    const bases = readdirSync(at('out', 'bases')).filter((name) => existsSync(at('out', 'bases', name, 'evaluations.jsonl')))
    expect(bases).toHaveLength(1)
  })

  it('does nothing twice', async () => {
    const made = (name: string) => [statSync(at('out', 'tiny', name, 'log.jsonl')).mtimeMs, readFileSync(at('out', 'tiny', name, 'log.jsonl'), 'utf8')]
    const before = ['teamtr-0', 'stale-0'].map(made)
    expect((await experiment(file, '--out', at('out'))).stderr).toMatch(/holds runs already; add --resume/)
    const again = await experiment(file, '--out', at('out'), '--resume')
    expect(again.stderr).toMatch(/3 runs, 1 to do/)
    expect(['teamtr-0', 'stale-0'].map(made)).toEqual(before)
    expect(again.stdout).toBe(first.stdout)
  })

  it('refuses the folder of another grid, by field', async () => {
    const other = at('other', 'tiny.yaml')
    cpSync(file, other, { recursive: true })
    writeFileSync(other, readFileSync(file, 'utf8').replace('prompts: 4', 'prompts: 5'))
    const { status, stderr } = await experiment(other, '--out', at('out'), '--resume')
    expect(status).toBe(2)
    expect(stderr).toBe(`teamtr: ${at('out', 'tiny', 'grid.json')}: grid.base.rollout.prompts: holds 4; this experiment has 5\n`)
  })

  it('in shards, merged; a missing run is named; parts of differing grids are refused by field', async () => {
    // What the shards would have run is here already: each gets its part.
    for (const [part, cell] of [['part-1', 'teamtr-0'], ['part-2', 'stale-0']]) {
      cpSync(at('out', 'tiny', 'grid.json'), at(part, 'tiny', 'grid.json'), { recursive: true })
      cpSync(at('out', 'tiny', cell), at(part, 'tiny', cell), { recursive: true })
    }
    const shard = await experiment(file, '--out', at('part-1'), '--resume', '--shard', '1/3')
    expect(shard.status).toBe(0)
    expect(shard.stderr).toMatch(/1 runs of 3, 0 to do/)
    expect(shard.stderr).toMatch(/1 of 3 runs of the grid are here; gather the shards with: teamtr experiment merge/)
    const merged = await experiment('merge', at('part-1'), at('part-2'), '--out', at('merged'))
    expect(merged.status).toBe(1)
    expect(merged.stderr).toMatch(/^missing: tiny: impossible-0$/m)
    expect(readFileSync(at('merged', 'tiny-runs.csv'), 'utf8')).toBe(readFileSync(at('out', 'tiny', 'tiny-runs.csv'), 'utf8'))

    const manifest = at('part-2', 'tiny', 'grid.json')
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace(/"version": "[^"]*"/, '"version": "9.9.9"'))
    const refused = await experiment('merge', at('part-1'), at('part-2'), '--out', at('refused'))
    expect(refused.status).toBe(2)
    expect(refused.stderr).toMatch(/part-2\/tiny\/grid\.json: version: holds "9\.9\.9"; .*part-1\/tiny has "\d/)
    expect(existsSync(at('refused'))).toBe(false)
  })

  it('lists the experiments; says what is wrong in one line', async () => {
    const all = await experiment()
    for (const name of ['main', 'team-size', 'ablations', 'order', 'delta', 'importance-weights', 'overhead']) expect(all.stdout).toMatch(new RegExp(`^${name} +\\S.* \\(\\d+ runs; quick: \\d+\\)$`, 'm'))
    const wrong = await experiment('team-sise')
    expect(wrong).toMatchObject({ status: 2, stderr: expect.stringMatching(/^teamtr: experiment: holds "team-sise"; expected one of .*\(did you mean "team-size"\?\)\n$/) })
    expect(await experiment('main', '--shard', '3/2')).toMatchObject({ status: 2, stderr: expect.stringMatching(/expected i\/k with 1 ≤ i ≤ k/) })
  })
})

describe('runGrid', () => {
  it('stopped in between, goes on with what is missing: no run and no base twice', async () => {
    const grid = parseGrid({ ...await readConfig(file) as object, seeds: 1, variants: { teamtr: {}, stale: { method: 'stale' } } }, file)
    const cells = expandGrid(grid, { quick: false }, file)
    const options: GridRunOptions = { folder: at('stopped', 'tiny'), bases: at('stopped', 'bases'), jobs: 1, processors: 1 }
    const stop = new AbortController()
    const first = await runGrid(cells, { ...options, signal: stop.signal, onCell: () => stop.abort() })
    expect(first.stopped).toBe(true)
    expect(first.started).toEqual([`base ${baseOf(cells[0]).name}`, 'teamtr-0'])
    const second = await runGrid(cells, options)
    expect(second.started).toEqual(['stale-0'])
    expect((await runGrid(cells, options)).started).toEqual([])
    // Cut off after its first update, and its base gone: its own checkpoint is enough.
    const run = folderOf(options.folder, cells[1])
    const checkpoints = readdirSync(join(run, 'checkpoints'))
    rmSync(join(run, 'checkpoints', checkpoints.at(-1)!), { recursive: true })
    rmSync(join(run, 'evaluations.jsonl'))
    writeFileSync(join(run, 'evaluations.jsonl'), readFileSync(at('out', 'tiny', 'stale-0', 'evaluations.jsonl'), 'utf8').split('\n')[0] + '\n')
    rmSync(options.bases, { recursive: true })
    expect((await runGrid(cells, options)).started).toEqual(['stale-0'])
    const log = (path: string): string => readFileSync(path, 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')
    expect(log(join(run, 'log.jsonl'))).toBe(log(at('out', 'tiny', 'stale-0', 'log.jsonl')))
    expect(readFileSync(join(run, 'evaluations.jsonl'), 'utf8')).toBe(readFileSync(at('out', 'tiny', 'stale-0', 'evaluations.jsonl'), 'utf8'))
  })
})

describe('tables', () => {
  const cells = expandGrid(parseGrid({ about: 'x', seeds: 3, reference: 'a', variants: [{ a: {}, b: {} }, { '2': { team: { agents: 2 } }, '4': { team: { agents: 4 } }, '8': { team: { agents: 8 } } }] }, 'x'), { quick: false }, 'x')
  // y = n^1.9, n² and n^2.1 for a, by seed; 3 n for b.
  const t = 4.302653 // Student's 97.5 % point, two degrees of freedom
  const rows = cells.map(({ levels, variant, seed, config: { team: { agents } } }): Row =>
    ({ variant, level: levels[0], seed, method: 'm', agents, drift: levels[0] === 'a' ? agents ** (1.9 + seed / 10) : 3 * agents, stability: levels[0] === 'a' ? 0 : 1 }))

  it('growth: exponents by variant, with slopes; none where a mean has no logarithm', () => {
    const growth = growthRows(rows, { reference: 'a' })
    const of = (level: string, measure: string, fit: string) => growth.filter((row) => row.level === level && row.measure === measure && row.fit === fit)
    expect(of('a', 'drift', 'log-log')[0].alpha).toBeCloseTo(2, 1)
    expect(of('b', 'drift', 'log-log')[0].alpha).toBeCloseTo(1, 5)
    expect(of('b', 'drift', 'slope').map(({ from, to, alpha }) => [from, to, alpha])).toEqual([[2, 4, 1], [4, 8, 1]])
    expect(of('a', 'stability', 'log-log')[0].alpha).toBeNull()
    expect(of('a', 'drift', 'log-log')[0]).toMatchObject({ seeds_low: expect.closeTo(2 - t * 0.1 / Math.sqrt(3), 4), seeds_high: expect.closeTo(2 + t * 0.1 / Math.sqrt(3), 4), difference: null })
    expect(of('b', 'drift', 'log-log')[0]).toMatchObject({
      seeds_low: 1, seeds_high: 1, difference: -1, difference_low: expect.closeTo(-1 - t * 0.1 / Math.sqrt(3), 4), difference_high: expect.closeTo(-1 + t * 0.1 / Math.sqrt(3), 4),
    })
  })

  it('what rounds to 0 has no sign; stages until back are counted, and in how many seeds', () => {
    expect([fixed(-0.0004, 3), fixed(-0.4, 0), fixed(-0.0006, 3), fixed(-10, 0), fixed(0, 1)]).toEqual(['0.000', '0', '-0.001', '-10', '0.0'])
    const swaps = [0, 1, 2].map((seed): Row => ({ variant: 'a-2', level: 'a', seed, method: 'm', agents: 2, shock: -0.0001, recovered_after: seed === 2 ? null : seed }))
    const summary = summaryRows(swaps, cells, {})
    const text = readableResults({ runs: [], summary, growth: [], weights: [], swaps }, {})
    expect(text).toMatch(/ stages until back\n/)
    expect(text).toMatch(/^a-2 .* 0\.000 ±0\.000 .* 0\.5 ±0\.7 \(2 of 3\)$/m)
  })

  it('summary: over seeds, and against the reference of the same other levels, seed by seed', () => {
    const summary = summaryRows(rows, cells, { reference: 'a' })
    const row = summary.find(({ variant, measure }) => variant === 'b-4' && measure === 'drift')!
    expect(row).toMatchObject({ seeds: 3, mean: 12, deviation: 0 })
    const differences = [1.9, 2, 2.1].map((alpha) => 12 - 4 ** alpha)
    const mean = (differences[0] + differences[1] + differences[2]) / 3
    const radius = t * Math.sqrt(differences.reduce((sum, x) => sum + (x - mean) ** 2, 0) / 2 / 3)
    expect(row).toMatchObject({ difference: expect.closeTo(mean, 4), difference_low: expect.closeTo(mean - radius, 4), difference_high: expect.closeTo(mean + radius, 4) })
    const reference = summary.find(({ variant, measure }) => variant === 'a-4' && measure === 'drift')!
    // of three seeds the bootstrap's interval is the range
    expect(reference).toMatchObject({ bootstrap_low: expect.closeTo(4 ** 1.9, 4), bootstrap_high: expect.closeTo(4 ** 2.1, 4) })
    expect(reference.low).toBeLessThan(4 ** 1.9)
    const alone = summaryRows(rows.filter(({ seed }) => seed === 0), cells, { reference: 'a' }).find(({ variant, measure }) => variant === 'b-4' && measure === 'drift')!
    expect(alone).toMatchObject({ seeds: 1, low: null, high: null, bootstrap_low: null, difference_low: null, difference_high: null })
    expect(summary.find(({ variant, measure }) => variant === 'a-4' && measure === 'drift')).toMatchObject({ difference: null })
  })
})
