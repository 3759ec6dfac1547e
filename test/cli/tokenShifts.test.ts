import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { addTokenShifts } from '../../src/cli/tokenShifts.js'
import { parseCsv } from '../../src/figures/csv.js'

const home = mkdtempSync(join(tmpdir(), 'teamtr-token-shifts-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

const run = async (...args: string[]): Promise<string> => {
  let text = ''
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => (text += String(chunk), true))
  try {
    const program = new Command().exitOverride()
    addTokenShifts(program)
    await program.parseAsync(['token-shifts', ...args], { from: 'user' })
  } finally {
    spy.mockRestore()
  }
  return text
}

const config = join(home, 'small.yaml')
writeFileSync(config, `
team: {agents: 2}
task: {name: relay, rounds: 1}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 30, episodes: 64}
rollout: {prompts: 16, group: 8}
objective: {learningRate: 0.01}
trustRegion: {delta: 0.01}
`)

describe('teamtr token-shifts', () => {
  it('prints both updates, and writes two distributions that sum to 1, the kept one narrower', async () => {
    const text = await run(config, '--steps', '10', '--no-penalty', '--out', home)
    expect(text).toMatch(/^agent 0, \d+ tokens, δ = 0\.01\n/)
    expect(text).toMatch(/\nas proposed .*\nscaled back /)
    const rows = parseCsv(readFileSync(join(home, 'token-shifts.csv'), 'utf8'))
    const of = (region: string) => rows.filter((row) => row.region === region)
    const sum = (region: string, weigh: (shift: number) => number): number => of(region).reduce((total, { shift, share }) => total + weigh(Number(shift)) * Number(share), 0)
    for (const region of ['as proposed', 'scaled back']) expect(sum(region, () => 1)).toBeCloseTo(1, 3)
    expect(sum('scaled back', Math.abs)).toBeLessThan(sum('as proposed', Math.abs))
    expect(Number(of('scaled back')[0].kl)).toBeLessThanOrEqual(0.01)
    expect(Number(of('as proposed')[0].kl)).toBeGreaterThan(0.01)
  })

  it('refuses a wrong number of steps', async () => {
    await expect(run(config, '--steps', '0')).rejects.toThrow('--steps: holds "0"; a whole number, at least 1')
  })
})
