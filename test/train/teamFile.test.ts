import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readTeamFile, writeTeamFile } from '../../src/train/teamFile.js'
import { InputError } from '../../src/util/errors.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-team-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = join(folder, 'team.json')
for (const name of ['base', 'adapters/solver', 'adapters/checker']) {
  mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, name, name === 'base' ? 'config.json' : 'adapter_config.json'), '{}')
}
const write = (content: object): string => (writeFileSync(file, JSON.stringify(content)), file)

const team = {
  agents: [
    { name: 'solver', model: 'base', adapter: 'adapters/solver', role: 'You solve.' },
    { model: './base', adapter: 'adapters/checker' },
    { model: 'base' },
  ],
}

test('paths are resolved against the file, and the router is complete', () => {
  const read = readTeamFile(write(team))
  expect(read.router).toEqual([0, 1, 2])
  expect(read.agents[0]).toEqual({
    name: 'solver',
    model: join(folder, 'base'),
    adapter: join(folder, 'adapters/solver'),
    role: 'You solve.',
  })
  expect(new Set(read.agents.map(({ model }) => model)).size).toBe(1)
  expect(readTeamFile(write({ ...team, router: [0, 1, 0, 2] })).router).toEqual([0, 1, 0, 2])
})

test('what is written is read back, also after the folder moved', () => {
  const read = readTeamFile(write(team))
  writeTeamFile(file, read)
  expect(readTeamFile(file)).toEqual(read)
  expect(readFileSync(file, 'utf8')).not.toContain(folder)
  const moved = mkdtempSync(join(tmpdir(), 'teamtr-team-'))
  cpSync(folder, moved, { recursive: true })
  expect(readTeamFile(join(moved, 'team.json')).agents[1].adapter).toBe(join(moved, 'adapters/checker'))
  rmSync(moved, { recursive: true })
})

test.each<[object, string]>([
  [{}, 'team.json: agents: missing'],
  [{ agents: [] }, 'team.json: agents: holds []'],
  [{ agents: [{ model: 'base', adaptor: 'x' }] }, 'team.json: agents[0]: unknown key "adaptor" (did you mean "adapter"?)'],
  [
    { agents: [{ model: 'base' }, { model: 'elsewhere' }] },
    'team.json: agents[1].model: holds "elsewhere"; no such folder or GGUF file, and no pulled model',
  ],
  [
    { agents: [{ model: 'base', adapter: 'base' }] },
    'team.json: agents[0].adapter: holds "base"; a folder with adapter_config.json is needed',
  ],
  [{ agents: [{ model: 'base' }], router: [0, 1] }, 'team.json: router[1]: holds 1; expected an agent, 0 to 0'],
])('%j is refused in one line', (content, message) => {
  write(content)
  expect(() => readTeamFile(file)).toThrow(InputError)
  expect(() => readTeamFile(file)).toThrow(message)
})
