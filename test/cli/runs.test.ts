import { Command } from 'commander'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, vi } from 'vitest'
import { addRuns } from '../../src/cli/runs.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-runs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const runs = async (...args: string[]): Promise<Record<string, unknown>[]> => {
  const write = vi.spyOn(process.stdout, 'write').mockImplementation(() => true)
  const program = new Command()
  addRuns(program)
  try {
    await program.parseAsync(['runs', ...args, '--json'], { from: 'user' })
    return JSON.parse(String(write.mock.calls[0][0])) as Record<string, unknown>[]
  } finally {
    write.mockRestore()
  }
}

it('lists a finished run and one of no updates, and refuses one that has not come to its end', async () => {
  const [first] = readFileSync('data/training/relay-3/evaluations.jsonl', 'utf8').split('\n')
  const config = JSON.parse(readFileSync('data/training/relay-3/config.json', 'utf8')) as object
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, stages: 0 }))
  writeFileSync(join(folder, 'evaluations.jsonl'), `${first}\n`)
  const [whole, none] = await runs('data/training/relay-3', folder)
  expect(none).toMatchObject({ updates: 0, before: whole.before, after: whole.before, gain: 0 })
  cpSync('data/training/relay-3/config.json', join(folder, 'config.json'))
  await expect(runs(folder)).rejects.toThrow(`${folder}: holds 1 evaluations; a finished run has one before training and one after`)
})
