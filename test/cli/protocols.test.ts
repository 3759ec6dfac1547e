import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseCsv } from '../../src/figures/csv.js'

const program = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'protocols-'))
const at = (name: string): string => join(folder, name)
const teamtr = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', cwd: folder })

writeFileSync(at('small.yaml'), `
task: {name: relay, modulus: 3}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 30, episodes: 32}
rollout: {prompts: 6, group: 4}
evaluation: {problems: 20}
stages: 1
`)
beforeAll(() => void execFileSync(process.execPath, [program, 'train', 'small.yaml', '--out', 'run'], { cwd: folder, stdio: 'ignore' }), 60_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Printed {
  problems: number
  results: { protocol: string; n: number; tokens: number; oracle: boolean; rewards: number[]; reward: { estimate: number; low: number; high: number } }[]
}

describe('teamtr protocols', () => {
  it('prints a table, JSON and CSV of the same numbers, of a run and of a configuration', () => {
    for (const source of ['run', 'small.yaml']) {
      const { stdout, status } = teamtr('protocols', source, '--problems', '10', '--budget', '30', '--json', '--out', 'table.csv')
      expect(status).toBe(0)
      const { problems, results } = JSON.parse(stdout) as Printed
      expect([problems, results.length]).toEqual([10, 7])
      const rows = parseCsv(readFileSync(at('table.csv'), 'utf8'))
      results.forEach(({ protocol, n, tokens, rewards, reward: { estimate, low, high } }, i) => {
        expect(rows[i]).toMatchObject({ protocol, n, tokens, reward: estimate, reward_low: low, reward_high: high })
        expect(estimate).toBeCloseTo(rewards.reduce((a, b) => a + b) / 10, 12)
      })
      const N = Math.round(30 / results[0].tokens)
      expect(N).toBeGreaterThan(3)
      expect(results.map(({ n }) => n)).toEqual([1, N, N, N, 1, 1, N])
      const table = teamtr('protocols', source, '--problems', '10', '--budget', '30').stdout
      expect(table).toContain('pass-at-n (oracle)')
      expect(table.trim().split('\n')).toHaveLength(9)
    }
  })

  it.each([
    [['nothing'], /^teamtr: nothing: .*\n$/],
    [['.'], /^teamtr: \.: holds no run \(no config\.json\)\n$/],
    [['run', '--judge', '3'], /^teamtr: --judge: holds 3; expected an agent, 0 to 2\n$/],
    [['run', '--budget', '0'], /^teamtr: .*--budget.*a whole number, 1 to 999999999.*\n$/],
    [['run', '--problems', '21'], /^teamtr: --problems: holds 21; expected at most 20, those that it is evaluated on \(evaluation\.problems\)\n$/],
    [['run', '--temperature', '0'], /^teamtr: .*--temperature.*above 0.*\n$/],
  ])('refuses %j in one line', (args, message) => {
    const { stderr, status } = teamtr('protocols', ...args, '--out', 'refused.csv')
    expect([status, stderr]).toEqual([2, expect.stringMatching(message)])
    expect(existsSync(at('refused.csv'))).toBe(false)
  })
})
