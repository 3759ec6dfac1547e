import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { stageInputToJson, type StageInput } from '../../src/theory/json.js'
import { randomCase } from '../../src/theory/random-cases.js'
import { stageReport } from '../../src/theory/report.js'
import { measureStage } from '../../src/theory/stage.js'

const program = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))
const check = (...args: string[]) => spawnSync(process.execPath, [program, 'check', ...args], { encoding: 'utf8' })

const folder = mkdtempSync(join(tmpdir(), 'teamtr-check-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const write = (name: string, value: unknown): string => {
  const file = join(folder, name)
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value))
  return file
}

const { stage, estimates } = randomCase(1, 17)
const input: StageInput = {
  mdp: stage.mdp,
  teams: stage.policies,
  order: stage.order,
  advantageEstimate: estimates,
  radii: measureStage(stage).steps.map(({ dTok }) => dTok * 1.01),
}
const moving = input.radii.findIndex((radius) => radius > 0)
const theoryCase = { format: 'teamtr-theory-case/1', id: 'mine', input: stageInputToJson(input) }

test('--json prints every quantity, the same numbers as the library', () => {
  const { status, stdout, stderr } = check(write('case.json', theoryCase), '--json')
  expect([status, stderr]).toEqual([0, ''])
  expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(stageReport(input))))
})

test('without --json: a table of the steps and one of the bounds with their slack', () => {
  const { status, stdout } = check(write('case.json', theoryCase))
  const report = stageReport(input)
  expect(status).toBe(0)
  expect(stdout).toContain(`mine: ${stage.mdp.n} agents, ${stage.mdp.states} states, γ = ${stage.mdp.gamma}`)
  const row = stdout
    .split('\n')
    .find((line) => line.startsWith('Theorem 3.6 '))!
    .split(/ {2,}/)
  const { thm36 } = report.stage.exact
  const close = (text: string, x: number): void => expect(Math.abs(Number(text) - x)).toBeLessThanOrEqual(1e-5 * Math.abs(x))
  close(row[1], report.stage.improvement)
  close(row[2], thm36)
  close(row[3], report.stage.improvement - thm36)
})

test.each([
  [
    'a row',
    (one: typeof theoryCase) => {
      one.input.policy[0][0] += 0.5
    },
    /policy\[0\]: sums to .* \[row-sum\]/,
  ],
  [
    'a radius',
    (one: typeof theoryCase) => {
      one.input.radii[0] = -1
    },
    /radii\[0\]: holds -1; at least 0 \[radius\]/,
  ],
  [
    'too small a radius',
    (one: typeof theoryCase) => {
      one.input.radii[moving] /= 4
    },
    /radii\[\d\]: holds .* \[outside-radius\]/,
  ],
  [
    'an unknown key',
    (one: typeof theoryCase) => {
      Object.assign(one.input, { gama: 1 })
    },
    /unknown key "gama" \(did you mean "gamma"\?\)/,
  ],
])('malformed (%s): one line on standard error that names file, field and kind; exit code 2', (_, spoil, message) => {
  const spoilt = structuredClone(theoryCase)
  spoil(spoilt)
  const file = write('bad.json', spoilt)
  const { status, stdout, stderr } = check(file)
  expect([status, stdout]).toEqual([2, ''])
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).toContain(`teamtr: ${file}: `)
  expect(stderr).toMatch(message)
})

test('what the file says cannot command the terminal', () => {
  const { status, stdout } = check(write('escape.json', { ...theoryCase, id: 'a\u001b[2Jb\nc' }))
  expect(status).toBe(0)
  expect(stdout.split('\n')[0]).toMatch(/^a\\u001b\[2Jb\\nc: /)
})

test('what cannot be computed is refused, not printed: overflow, a discount too near 1', () => {
  const spoilt = (change: (one: typeof theoryCase) => void): string => {
    const one = structuredClone(theoryCase)
    change(one)
    return check(write('bad.json', one)).stderr
  }
  expect(spoilt(({ input }) => (input.r[0][0] = 1.7e308))).toMatch(/bad\.json: (r|c): .* \[not-finite\]\n$/)
  expect(spoilt(({ input }) => Object.assign(input, { gamma: 1 - 2 ** -53 }))).toMatch(/bad\.json: gamma: holds 0\.99.* prove nothing .* \[discount-range\]\n$/)
})

test('no file, no JSON', () => {
  expect(check(join(folder, 'none.json'))).toMatchObject({ status: 2, stderr: expect.stringMatching(/none\.json: no such file\n$/) })
  expect(check(write('text.json', 'hello'))).toMatchObject({ status: 2, stderr: expect.stringMatching(/text\.json: is not valid JSON/) })
})
