import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { proportionInterval } from '../../src/theory/intervals.js'
import { caseReport } from '../../src/theory/report.js'
import { teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 60_000 })

const folder = mkdtempSync(join(tmpdir(), 'export-'))
const at = (...names: string[]): string => join(folder, ...names)
const teamtr = (...args: string[]) => teamtrWith({ env: { ...process.env, TEAMTR_ENGINE: '' }, cwd: folder }, args)

writeFileSync(at('tiny.yaml'), `
task: {name: relay, modulus: 3}
team: {agents: 2}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 60, episodes: 64}
rollout: {prompts: 24, group: 4}
order: reversed
stages: 2
evaluation: {problems: 60}
checkpoint: {every: 2}
`)
beforeAll(async () => {
  expect(await teamtr('train', 'tiny.yaml', '--out', at('run'))).toMatchObject({ status: 0 })
}, 60_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('export', () => {
  it('writes the last stage as a theory case, and says what is exact beside what was sampled', async () => {
    const { stdout, stderr, status } = await teamtr('export', 'run')
    expect({ stderr, status }).toEqual({ stderr: 'run/exact.json holds the team; teamtr check reads it\n', status: 0 })
    const said = await teamtr('export', 'run', '--json', '--out', at('again.json'))
    const json = JSON.parse(said.stdout) as {
      states: number; problems: number; teams: { updates: number; return: number; reward: number; sampled: { estimate: number; low: number; high: number } }[]
      stage: { improvement: number; steps: { agent: number; lSeq: number; thm34: number; dTokEffects: number; divergence: { occupancy: number } }[]; bounds: Record<string, { tokens: number; effects: number }> }
    }
    const file = readFileSync(at('run', 'exact.json'), 'utf8')
    expect(readFileSync(at('again.json'), 'utf8')).toBe(file)

    // The file alone gives the same numbers back.
    const { theoryCase, report } = caseReport(JSON.parse(file), 'exact.json')
    expect(theoryCase.id).toBe('run-4')
    expect(theoryCase.input.mdp.states).toBe(json.states)
    expect(theoryCase.input.order).toEqual([1, 0])
    expect([report.teams[0].J, report.teams[2].J]).toEqual(json.teams.map((team) => team.return))
    expect(report.stage.improvement).toBe(json.stage.improvement)
    expect(report.stage.exact.thm36).toBe(json.stage.bounds.thm36.tokens)
    json.stage.steps.forEach((step, i) => {
      expect(report.steps[i]).toMatchObject({ agent: step.agent, dTok: step.dTokEffects, exact: { lSeq: step.lSeq, thm34: step.thm34 } })
      expect(theoryCase.input.radii[i]).toBe(step.divergence.occupancy)
      expect(theoryCase.input.radii[i]).toBeGreaterThan(0)
    })

    // The sampled return is what the run itself evaluated, of 60 problems.
    const evaluations = readFileSync(at('run', 'evaluations.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as { update: number; rewards: number[] })
    const { rewards } = evaluations.find(({ update }) => update === 4)!
    const { estimate, low, high } = proportionInterval(rewards.filter((reward) => reward === 1).length, 60)
    expect(json.teams[1].sampled).toEqual({ estimate, low, high })
    expect(json.problems).toBe(60)
    // Four standard errors of 60 games of 0 or 1: off by chance with probability 1e-4.
    for (const { reward, sampled } of json.teams) expect(Math.abs(reward - sampled.estimate)).toBeLessThan(4 * Math.sqrt(0.25 / 60))
    for (const text of ['2 agents after 2 and 4 updates, on 60 held-out problems', json.teams[1].reward.toFixed(4), 'Theorem 3.6', 'Δ_stale']) expect(stdout).toContain(text)
    expect(stdout).not.toContain('logged')
  })

  it('shows what the run logged beside the exact values of its own problems', async () => {
    const { stdout, status } = await teamtr('export', 'run', '--on', 'training', '--out', at('training.json'))
    expect(status).toBe(0)
    expect(stdout).toContain('on 24 training problems')
    expect(stdout).toContain('logged')
    const check = await teamtr('check', at('training.json'))
    expect(check).toMatchObject({ status: 0, stderr: '' })
    // ρ̂ of a relay is not left to chance.
    for (const line of stdout.split('\n').filter((line) => /^[01]  /.test(line))) {
      const [, exact, logged] = line.split(/ +/)
      expect(Number(logged)).toBeCloseTo(Number(exact), 3)
    }
  })

  it('exports one team alone where there is no checkpoint before', async () => {
    const { stdout, status } = await teamtr('export', 'run', '--checkpoint', '2', '--problems', '5', '--out', at('alone.json'))
    expect(status).toBe(0)
    expect(stdout).toContain('after 2 updates, on 5 held-out problems')
    const { report } = caseReport(JSON.parse(readFileSync(at('alone.json'), 'utf8')), 'alone.json')
    expect(report.stage.improvement).toBe(0)
    expect(report.steps.map(({ dTok }) => dTok)).toEqual([0, 0])
  })

  it('refuses what it cannot do in one line, and writes nothing', async () => {
    for (const [args, said] of [
      [['nowhere'], 'nowhere/config.json: no such file'],
      [['run', '--checkpoint', '3'], '--checkpoint: holds 3; the run has 000002 and 000004'],
      [['run', '--limit', '1000'], 'to play so far; at most 1,000, so take fewer problems or a smaller game'],
      [['run', '--problems', '61'], '--problems: holds 61; expected at most 60, those that the run is evaluated on'],
      [['run', '--problems', '25', '--on', 'training'], '--problems: holds 25; expected at most 24, those of a stage'],
      [['run', '--problems', '0'], "option '--problems <n>' argument '0' is invalid"],
      [['run', '--on', 'paper'], 'Allowed choices are held-out, training'],
    ] as const) {
      const { stdout, stderr, status } = await teamtr('export', ...args, '--out', at('none.json'))
      expect({ stdout, status }).toEqual({ stdout: '', status: 2 })
      expect(stderr).toContain(said)
      expect(stderr.replace(/\(add --help for the options\)\n/, '').trim().split('\n')).toHaveLength(1)
    }
    expect(existsSync(at('none.json'))).toBe(false)
  })
})
