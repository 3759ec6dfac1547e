import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseCsv } from '../../src/figures/csv.js'
import { withoutProgress } from '../progress.js'
import { teamtrWith } from '../teamtr.js'

const folder = mkdtempSync(join(tmpdir(), 'exact-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const exact = (...args: string[]) => teamtrWith({ env: { ...process.env, TEAMTR_ENGINE: '' }, cwd: folder }, ['exact', ...args])
writeFileSync(join(folder, 'tiny.yaml'), `
task: {name: relay, modulus: 3}
team: {agents: 2}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 40, episodes: 64}
rollout: {prompts: 12, group: 4}
diagnostics: {every: 2, prompts: 6, group: 2}
stages: 4
`)

writeFileSync(join(folder, 'cut.yaml'), 'task: {name: relay, modulus: 3}\nteam: {agents: 2}\nrollout: {topP: 0.9}\n')

describe('exact', () => {
  it('prints and writes what is exact beside what was logged', async () => {
    const { stdout, stderr, status } = await exact('tiny.yaml', '--stages', '2', '--out', 'data')
    expect({ stderr: withoutProgress(stderr), status }).toEqual({ stderr: '', status: 0 })
    for (const text of ['logged − exact', 'intervals that hold it', 'Theorem 3.7', 'half-span, total variation', 'mean over 2 stages', 'exact KL above δ: ', ' of 4 updates; the largest is', 'gap: L on what']) expect(stdout).toContain(text)
    const read = (name: string) => parseCsv(readFileSync(join(folder, 'data', `exact-tiny-teamtr-${name}.csv`), 'utf8'))
    const [updates, stages] = [read('updates'), read('stages')]
    expect(updates.map(({ stage, agent }) => [stage, agent])).toEqual([[0, 0], [0, 1], [1, 0], [1, 1]])
    for (const row of updates) {
      expect(row.rho).toBeCloseTo(row.rho_logged as number, 5)
      expect(row.thm34).toBeLessThanOrEqual(row.improvement as number)
    }
    stages.forEach((row, stage) => {
      const own = updates.filter((update) => update.stage === stage)
      expect(row.improvement).toBeCloseTo(own.reduce((sum, { improvement }) => sum + (improvement as number), 0), 6)
      expect(row.half_span_tv).toBeGreaterThanOrEqual(row.thm36 as number)
      const sum = (column: string) => own.reduce((total, update) => total + Math.abs(update[column] as number), 0)
      expect(row.behaviour_shift).toBeCloseTo(sum('behaviour_shift'), 6)
      expect(row.behaviour_gap).toBe(0)
      // What the last agent says nobody reads: two agents, fresh rollouts.
      expect(row.unseen_drift).toBeCloseTo(sum('shift'), 6)
    })
    const probed = updates.map((row) => Object.keys(row).filter((column) => column.startsWith('probe_') && row[column] !== null).length)
    expect(probed).toEqual([12, 12, 0, 0])
  })

  it('tells the drift that stale rollouts do not see from the shift of what they are learned from: two agents, exactly half of it', async () => {
    const { status } = await exact('tiny.yaml', '--stages', '1', '--method', 'stale', '--out', 'data')
    expect(status).toBe(0)
    const [stage] = parseCsv(readFileSync(join(folder, 'data', 'exact-tiny-stale-stages.csv'), 'utf8'))
    expect(stage.unseen_drift).toBeGreaterThan(1e-3)
    expect(stage.behaviour_shift).toBeCloseTo(2 * (stage.unseen_drift as number), 6)
    expect(stage.behaviour_gap).toBe(stage.stale_gap)
  })

  it('refuses a game that is too large, or a configuration that is wrong, in one line', async () => {
    for (const [args, said] of [
      [['tiny.yaml', '--limit', '100'], 'to play so far; at most 100'],
      [['tiny.yaml', '--method', 'paper'], 'tiny.yaml: method'],
      [['nowhere.yaml'], 'nowhere.yaml: no such file'],
      [['cut.yaml'], 'cut.yaml: rollout.topP: holds 0.9; expected 1, since exact values are those of whole policies'],
      [['tiny.yaml', '--stages', '0'], '--stages: holds 0; expected at least 1'],
    ] as const) {
      const { stdout, stderr, status } = await exact(...args, '--out', 'none')
      expect({ stdout, status }).toEqual({ stdout: '', status: 2 })
      expect(stderr).toContain(said)
      expect(stderr.trim().split('\n')).toHaveLength(1)
    }
    expect(readdirSync(join(folder, 'none'))).toEqual([])
  })
})
