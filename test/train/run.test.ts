import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { runTraining, type RunOptions } from '../../src/train/run.js'
import { appendLine, cutTo, lengthOf, lock, readRun } from '../../src/train/runFolder.js'
import { summarise } from '../../src/train/summary.js'
import { disposeTeam, type Team } from '../../src/train/team.js'
import { warmUp } from '../../src/train/warmup.js'

const folder = mkdtempSync(join(tmpdir(), 'run-'))
const at = (name: string): string => join(folder, name)
const configWith = (more: ConfigInput = {}) => parseConfig({
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  task: { name: 'relay', modulus: 3 },
  warmup: { steps: 30, episodes: 32 },
  rollout: { prompts: 6, group: 4 },
  evaluation: { problems: 20, every: 1 },
  diagnostics: { every: 2 },
  stages: 3,
  ...more,
})
const log = (name: string): string => readFileSync(join(at(name), 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')

let base: Team
beforeAll(async () => {
  await initEngine()
  base = await warmUp(configWith())
})
afterAll(() => {
  disposeTeam(base)
  rmSync(folder, { recursive: true, force: true })
})

const run = async (name: string, config: ConfigInput | undefined, options: Partial<RunOptions> = {}) => {
  const result = await runTraining(config && configWith(config), { folder: at(name), engine: 'test', base, ...options })
  disposeTeam(result.team)
  return result
}

describe('runTraining', () => {
  it('is what its folder says', async () => {
    const { updates, evaluations, finished, config } = await run('whole', {})
    expect(finished).toBe(true)
    expect(updates.map(({ update }) => update)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(evaluations.map(({ update }) => update)).toEqual([0, 3, 6, 9])
    expect(readRun(at('whole'))).toEqual({ config, updates, evaluations })
  })

  it('is the same with rarer checkpoints, stopped in between and continued', async () => {
    for (const stopAfter of [1, 5]) {
      const name = `stopped-${stopAfter}`
      const stop = new AbortController()
      const first = await run(name, { checkpoint: { every: 4 } }, {
        signal: stop.signal, onUpdate: ({ update }) => { if (update === stopAfter) stop.abort() },
      })
      expect(first.finished).toBe(false)
      expect(first.updates).toHaveLength(stopAfter)
      const second = await run(name, undefined, { resume: true })
      expect(second.finished).toBe(true)
      expect(log(name)).toBe(log('whole'))
      expect(second.evaluations).toEqual(readRun(at('whole')).evaluations)
    }
  })

  it('starts from a copy of a team that is given, and leaves that alone', async () => {
    const before = [...base.agents[0].theta.dataSync()]
    const tensors = tf.memory().numTensors
    await run('copy', {})
    expect(tf.memory().numTensors).toBe(tensors)
    expect([...base.agents[0].theta.dataSync()]).toEqual(before)
    // The base is what warming up gives.
    await run('own', {}, { base: undefined })
    expect(log('own')).toBe(log('copy'))
  })

  it('throws away what a kill left half-done: a torn line, lines after the checkpoint, an unfinished checkpoint', async () => {
    cpSync(at('whole'), at('torn'), { recursive: true })
    const checkpoints = join(at('torn'), 'checkpoints')
    rmSync(join(checkpoints, '000009'), { recursive: true })
    mkdirSync(join(checkpoints, '000009.tmp'))
    writeFileSync(join(checkpoints, '000009.tmp', 'state.json'), '{')
    appendFileSync(join(at('torn'), 'log.jsonl'), '{"update":10,"sta')
    appendFileSync(join(at('torn'), 'evaluations.jsonl'), '{"problems"')
    const { evaluations } = await run('torn', undefined, { resume: true })
    expect(log('torn')).toBe(log('whole'))
    expect(evaluations).toEqual(readRun(at('whole')).evaluations)
    expect(readdirSync(checkpoints)).toEqual(['000008', '000009'])
  })

  it('starts over where it was killed before the first checkpoint', async () => {
    cpSync(at('whole'), at('early'), { recursive: true })
    rmSync(join(at('early'), 'checkpoints'), { recursive: true })
    await run('early', {}, { resume: true })
    expect(log('early')).toBe(log('whole'))
  })

  it('says when it goes on on another engine', async () => {
    const notices: string[] = []
    await run('whole', undefined, { resume: true, engine: 'other', onNotice: (text) => notices.push(text) })
    expect(notices).toEqual([expect.stringContaining('begun on test and goes on on other')])
  })

  it('writes nothing, and unlocks, where the checkpoint is not of this configuration', async () => {
    await run('wrong', {})
    const config = JSON.parse(readFileSync(join(at('wrong'), 'config.json'), 'utf8')) as { model: { hidden: number } }
    writeFileSync(join(at('wrong'), 'config.json'), JSON.stringify({ ...config, model: { ...config.model, hidden: 32 } }))
    await expect(run('wrong', undefined, { resume: true }))
      .rejects.toThrow(/agent-0\.safetensors: tensor .* of shape .*delete .*000009 to continue from checkpoint 000008/)
    expect(readdirSync(at('wrong')).sort()).toEqual(['checkpoints', 'config.json', 'evaluations.jsonl', 'log.jsonl'])
  })
})

it('summarise counts what the log holds', async () => {
  const recorded = readRun(at('whole'))
  const summary = summarise(recorded)
  expect(summary).toMatchObject({ method: 'teamtr', updates: 9, planned: 9, stages: 3, problems: 20 })
  expect(Object.values(summary.outcomes).reduce((a, b) => a + b)).toBe(9)
  expect(summary.gain!.estimate).toBeCloseTo(summary.trained!.estimate - summary.untrained!.estimate, 12)
  expect(summary.largestKl).toBeLessThanOrEqual(1)
  expect(summary.rollouts).toBe(9 * 24)
})

describe('the folder', () => {
  it('lines are cut to what a checkpoint knows, and missing ones found', () => {
    const file = at('lines')
    appendLine(file, { a: 1 })
    const length = lengthOf(file)
    appendLine(file, { a: 2 })
    cutTo(file, length)
    expect(readFileSync(file, 'utf8')).toBe('{"a":1}\n')
    expect(() => cutTo(file, 100)).toThrow(/has 8 bytes; .* at 100, so lines are missing/)
    expect(lengthOf(at('nothing'))).toBe(0)
    cutTo(at('nothing'), 0)
  })

  it('a damaged log is named by line', () => {
    const damaged = at('copy')
    const text = readFileSync(join(damaged, 'log.jsonl'), 'utf8').split('\n')
    writeFileSync(join(damaged, 'log.jsonl'), [text[0], '{"update":', ...text.slice(2)].join('\n'))
    expect(() => readRun(damaged)).toThrow(/log\.jsonl: line 2: is not valid JSON/)
    writeFileSync(join(damaged, 'log.jsonl'), [text[0], '{"update":"two"}', ...text.slice(2)].join('\n'))
    expect(() => readRun(damaged)).toThrow(/log\.jsonl: line 2: update: holds "two"/)
  })

  it('is locked once at a time; a lock that tells nothing, or of a process that is gone, is taken over', () => {
    const unlock = lock(folder)
    expect(() => lock(folder)).toThrow(/works on this run/)
    unlock()
    for (const left of ['', '{"pid":', JSON.stringify({ pid: 2 ** 22 + 1, host: hostname(), started: '5' })]) {
      writeFileSync(at('lock'), left)
      lock(folder)()
    }
    writeFileSync(at('lock'), JSON.stringify({ pid: 1, host: 'elsewhere', started: '5' }))
    expect(() => lock(folder)).toThrow(/process 1 on elsewhere works on this run \(if it does not, delete .*lock\)/)
  })
})
