import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { withoutProgress } from '../progress.js'

const program = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))
const verify = (...args: string[]) => spawnSync(process.execPath, [program, 'verify', ...args], { encoding: 'utf8' })

test('verify prints one row a statement, no violation, and exits with 0', () => {
  const { status, stdout, stderr } = verify('--cases', '340', '--jobs', '2')
  expect([status, withoutProgress(stderr)]).toEqual([0, ''])
  const rows = stdout.split('\n').filter((line) => / {2}340 +0 /.test(line))
  for (const name of [
    'Lemma 3.1, active factor',
    'Lemma 3.2, token chain rule',
    'performance difference',
    'Proposition 3.3',
    'Theorem 3.4',
    'Theorem 3.6',
    'Theorem 3.7, exact sum',
    'active mass',
    'half-span, total variation',
    'order of the certificates',
  ]) {
    expect(
      rows.filter((row) => row.startsWith(`${name}  `)),
      name,
    ).toHaveLength(1)
  }
  expect(stdout).toMatch(/340 cases in .* a second, 2 jobs\)\n$/)
  expect(stdout).not.toContain('violation:')
})

test('the result does not depend on the number of jobs', () => {
  const [one, two] = ['1', '2'].map((jobs) => verify('--cases', '600', '--seed', '7', '--first', '50', '--jobs', jobs, '--json'))
  expect(one.status).toBe(0)
  expect(two.stdout).toBe(one.stdout)
  expect(JSON.parse(one.stdout)).toMatchObject({ seed: 7, cases: 600, violations: [] })
})

test('a violation: exit code 1, and the seed and case to see it again', () => {
  const { status, stdout } = verify('--cases', '340', '--broken', 'halfConstant')
  expect(status).toBe(1)
  const again = /violation: .*again: teamtr verify (--seed \d+ --first \d+ --cases 1)/.exec(stdout)
  expect(again).not.toBeNull()
  const alone = verify(...again![1].split(' '), '--broken', 'halfConstant')
  expect(alone.status).toBe(1)
  expect(verify(...again![1].split(' ')).status).toBe(0)
})

test('wrong options: exit code 2', () => {
  expect(verify('--cases', '0')).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('A whole number, 1 to') })
})
