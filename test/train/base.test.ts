import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { initEngine } from '../../src/train/backend.js'
import { readBase } from '../../src/train/base.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { runTraining, type RunOptions } from '../../src/train/run.js'
import { disposeTeam } from '../../src/train/team.js'

const folder = mkdtempSync(join(tmpdir(), 'base-'))
const at = (name: string): string => join(folder, name)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const configWith = (more: ConfigInput = {}) => parseConfig({
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 }, task: { name: 'relay', modulus: 3 }, warmup: { steps: 20, episodes: 16 },
  rollout: { prompts: 4, group: 4 }, evaluation: { problems: 10, every: 0 }, stages: 1, ...more,
})
const train = async (name: string, more: ConfigInput, options: Partial<RunOptions> = {}) => {
  const { team } = await runTraining(configWith(more), { folder: at(name), engine: 'test', ...options })
  disposeTeam(team)
  return readFileSync(join(at(name), 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')
}
beforeAll(async () => {
  await initEngine()
  await runTraining(configWith({ stages: 0 }), { folder: at('base'), engine: 'test' }).then(({ team }) => disposeTeam(team))
})

it('a run from a base is the run that warms up its own team, whatever the method', async () => {
  for (const method of ['teamtr', 'grpo']) {
    const base = readBase(at('base'), configWith({ method }))
    const from = await train(`from-${method}`, { method }, { base })
    disposeTeam(base)
    expect(from.length).toBeGreaterThan(0)
    expect(from).toBe(await train(`own-${method}`, { method }))
  }
})

it('a base that the run would not warm up is refused, by field; so is a trained team', async () => {
  expect(() => readBase(at('base'), configWith({ seed: 1 }))).toThrow(/base: seed: holds 0; the run that should start from it has 1$/)
  expect(() => readBase(at('base'), configWith({ warmup: { steps: 21, episodes: 16 } }))).toThrow(/base: warmup\.steps: holds 20; .* has 21$/)
  await train('trained', {})
  expect(() => readBase(at('trained'), configWith())).toThrow(/trained: holds a team after 3 updates; a base has none/)
  rmSync(join(at('trained'), 'checkpoints'), { recursive: true })
  expect(() => readBase(at('trained'), configWith())).toThrow(/not warmed up yet \(no checkpoint\)/)
})

it('language models have no base', async () => {
  const team = { agents: [{ model: 'tiny' }, { model: 'tiny' }, { model: 'tiny' }] }
  expect(() => readBase(at('base'), configWith({ team, warmup: {} }))).toThrow(/base: cannot be the base of language models \(team\.agents\): they are not warmed up$/)
})
