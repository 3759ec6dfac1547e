import { Command } from 'commander'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { addReport } from '../../src/cli/report.js'
import { InputError } from '../../src/util/errors.js'

let folder: string
beforeEach(() => { folder = mkdtempSync(join(tmpdir(), 'teamtr-report-')) })
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const run = async (...args: string[]): Promise<string> => {
  const written: string[] = []
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => { written.push(String(text)); return true })
  const program = new Command()
  addReport(program)
  try {
    await program.parseAsync(['report', ...args], { from: 'user' })
  } finally {
    write.mockRestore()
  }
  return written.join('')
}

it('draws recorded runs on one page that loads nothing, with the numbers of their logs', async () => {
  const out = join(folder, 'report')
  const text = await run('data/training/relay-3', 'data/training/relay-3-adaptive-kl-only', '--out', out)
  const evaluations = readFileSync('data/training/relay-3/evaluations.jsonl', 'utf8').trim().split('\n').map((line) => JSON.parse(line))
  expect(text).toContain(`${(100 * evaluations.at(-1).reward.estimate).toFixed(1)} %`)
  expect(readdirSync(out).sort()).toEqual(['index.html', ...['certificate', 'kl', 'learning'].flatMap((name) => ['csv', 'png', 'svg'].map((kind) => `${name}.${kind}`))].sort())
  const page = readFileSync(join(out, 'index.html'), 'utf8')
  expect(page).not.toMatch(/https?:/)
  // The second run has no acceptance, and the page does not claim that it stayed inside.
  expect(page).toContain('Not every update stays inside its trust region')
})

it('reports a run of no updates, and refuses one whose log was lost, before anything is written', async () => {
  const none = join(folder, 'none')
  mkdirSync(none)
  cpSync('data/training/relay-3/config.json', join(none, 'config.json'))
  const lines = readFileSync('data/training/relay-3/evaluations.jsonl', 'utf8')
  writeFileSync(join(none, 'evaluations.jsonl'), `${lines.split('\n')[0]}\n`)
  expect(await run(none)).toContain('untrained')
  expect(readdirSync(join(none, 'report')).sort()).toEqual(['index.html', 'learning.csv', 'learning.png', 'learning.svg'])
  expect(readFileSync(join(none, 'report', 'index.html'), 'utf8')).toContain('No stage is done yet.')
  rmSync(join(none, 'report'), { recursive: true })
  writeFileSync(join(none, 'evaluations.jsonl'), lines)
  await expect(run(none)).rejects.toThrow(/evaluations\.jsonl: line 2: update: holds \d+; .*log\.jsonl ends after 0, so lines are missing there/)
  expect(existsSync(join(none, 'report'))).toBe(false)
})

it('refuses what holds no run, and a folder that cannot be written, in one line', async () => {
  await expect(run(folder)).rejects.toThrow(InputError)
  const file = join(folder, 'file')
  writeFileSync(file, '')
  await expect(run('data/training/relay-3', '--out', join(file, 'x'))).rejects.toThrow(/file/)
  expect(existsSync(join(folder, 'report'))).toBe(false)
})
