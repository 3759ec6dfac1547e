import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { expandGrid, parseGrid, type Cell } from '../../src/experiments/grid.js'
import { locateGrid } from '../../src/experiments/locateGrid.js'
import { folderOf, runGrid, type GridRunOptions } from '../../src/experiments/runGrid.js'
import { fileIn, workerOn } from '../../src/train/runFolder.js'
import { sharedPath } from '../shared.js'

vi.setConfig({ testTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'runner-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const cellsOf = (base: object, variants: object = { teamtr: {} }): Cell[] =>
  expandGrid(parseGrid({ about: 'x', seeds: 1, base, variants }, 'x'), { quick: false }, 'x')
const optionsFor = (name: string): GridRunOptions => ({ folder: at(name, 'x'), bases: at(name, 'bases'), jobs: 1, processors: 1 })

const models = sharedPath('models')

describe.skipIf(!models)('language models', () => {
  it('are trained without a base, and exported', async () => {
    const model = join(models!, 'tiny-qwen2')
    const [cell] = cellsOf({
      task: { name: 'relay', modulus: 3 }, team: { agents: [{ model }, { model, role: 'Add.' }] }, protocol: { taskRole: false }, lora: { rank: 2 },
      stages: 1, rollout: { prompts: 2, group: 2, maxTokens: 2 }, evaluation: { problems: 2, every: 0 },
    })
    const options = optionsFor('language')
    expect(await runGrid([cell], options)).toEqual({ failed: [], started: ['teamtr-0'], stopped: false })
    expect(existsSync(options.bases)).toBe(false)
    expect(existsSync(join(folderOf(options.folder, cell), 'team.json'))).toBe(true)
  })

  it('are found beside the grid that names them', async () => {
    symlinkSync(models!, at('models'))
    const model = 'models/tiny-qwen2'
    const file = at('models.json')
    const grid = parseGrid({ about: 'x', base: { team: { agents: [{ model }] } }, variants: [{ a: {}, b: { team: { agents: [{ model, adapter: `${model}/adapter` }] } } }, { c: {} }], quick: { base: { team: { agents: [{ model }] } } } }, file)
    const { base, variants, quick } = locateGrid(grid, file)
    const found = { team: { agents: [{ model: at(model) }] } }
    expect({ base, variants, quick }).toEqual({ base: found, quick: { base: found }, variants: [{ a: {}, b: { team: { agents: [{ model: at(model), adapter: at(`${model}/adapter`) }] } } }, { c: {} }] })
    writeFileSync(file, JSON.stringify({ ...grid, base: { team: { agents: [{ model: 'nowhere' }] } } }))
    expect(await experiment(file, '--out', at('nowhere'))).toEqual({ status: 2, stdout: '', stderr: expect.stringMatching(/^teamtr: .*models\.json: team\.agents\[0\]\.model: holds "nowhere"; no such folder.*\n$/) })
    expect(existsSync(at('nowhere'))).toBe(false)
  })
})

const tiny = {
  task: { name: 'relay', modulus: 3 }, team: { agents: 2 }, model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 }, warmup: { steps: 10, episodes: 16 },
  stages: 15, rollout: { prompts: 4, group: 4 }, evaluation: { problems: 5, every: 0 },
}
const file = at('tiny.json')
writeFileSync(file, JSON.stringify({ about: 'x', seeds: 1, base: tiny, variants: { a: {}, b: { method: 'stale' } } }))

const program = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))
const begin = (...args: string[]) => spawn(process.execPath, [program, 'experiment', ...args], { cwd: folder })
const experiment = async (...args: string[]): Promise<{ status: number | null; stdout: string; stderr: string }> => {
  const child = begin(...args)
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (text) => (stdout += text))
  child.stderr.on('data', (text) => (stderr += text))
  const [status] = await once(child, 'close') as [number | null]
  return { status, stdout, stderr }
}
const until = async <T>(value: () => T | undefined | false): Promise<T> => {
  for (let tries = 0; tries < 6000; tries++) {
    const found = value()
    if (found) return found
    await sleep(10)
  }
  throw new Error('it does not come')
}
const updates = (run: string): number => (existsSync(fileIn.log(run)) ? readFileSync(fileIn.log(run), 'utf8').split('\n').length - 1 : 0)

describe('processes', () => {
  it('end when the experiment is killed, after an update; two that go on with it at once both have the whole table', async () => {
    const run = at('killed', 'tiny', 'a-0')
    const first = begin(file, '--out', at('killed'), '--jobs', '1')
    await until(() => updates(run) > 0)
    first.kill('SIGKILL')
    await until(() => !existsSync(fileIn.lock(run)))
    expect(workerOn(run)).toBeUndefined()
    expect(updates(run)).toBeLessThan(30)
    const both = await Promise.all([1, 2].map(() => experiment(file, '--out', at('killed'), '--resume')))
    expect(both.map(({ status }) => status)).toEqual([0, 0])
    expect(both[0].stderr).not.toMatch(/failed/i)
    expect(both[0].stdout).toMatch(/^a +\d.*\nb +\d/m)
    expect(both[1].stdout).toBe(both[0].stdout)
  })

  it('that work on a run are waited for; one that is killed is reported as that; a damaged folder fails alone', async () => {
    const cells = cellsOf({ ...tiny, stages: 5 }, { a: {}, b: { method: 'stale' } })
    const options = optionsFor('held')
    const [a, b] = cells.map((cell) => folderOf(options.folder, cell))
    mkdirSync(a, { recursive: true })
    const stat = readFileSync('/proc/self/stat', 'utf8')
    writeFileSync(fileIn.lock(a), JSON.stringify({ pid: process.pid, host: hostname(), started: stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] }))
    const seen = new Set<string>()
    const both = runGrid(cells.slice(0, 1), { ...options, onProgress: (_, __, running) => running.forEach((one) => seen.add(one)) })
    const waited = `a-0 (process ${process.pid} works on it)`
    await until(() => seen.has(waited))
    rmSync(fileIn.lock(a))
    expect(await both).toMatchObject({ failed: [], stopped: false, started: [expect.stringMatching(/^base/), 'a-0'] })

    const third = runGrid(cells, options)
    process.kill((await until(() => workerOn(b))).pid, 'SIGKILL')
    expect((await third).failed).toEqual([{ id: 'b-0', reason: expect.stringMatching(/^killed by SIGKILL \(out of memory\?\) \(/) }])

    writeFileSync(fileIn.config(a), '{')
    expect(await runGrid(cells, options)).toEqual({ failed: [{ id: 'a-0', reason: expect.stringMatching(/a-0\/config\.json: is not valid JSON/) }], started: ['b-0'], stopped: false })
  })
})

it('an engine that cannot run, and too many jobs, are refused before there is a folder', async () => {
  const refused = async (text: RegExp, ...args: string[]) =>
    expect(await experiment(...args, '--out', at('never'))).toEqual({ status: 2, stdout: '', stderr: expect.stringMatching(text) })
  await refused(/^teamtr: --engine: holds "foo"; one of tensorflow, .*\n$/, file, '--engine', 'foo')
  await refused(/^teamtr: --jobs: holds 9999; expected at most \d+, 4 for each processor here\n$/, 'main', '--seeds', '900', '--jobs', '9999')
  expect(existsSync(at('never'))).toBe(false)
})
