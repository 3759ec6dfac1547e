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
    rmSync(join(at('early'), 'log.jsonl'))
    await run('early', {}, { resume: true })
    expect(log('early')).toBe(log('whole'))
  })

  it('says when it goes on on another engine than it was begun on, and nothing where nothing is left to do', async () => {
    cpSync(at('whole'), at('engines'), { recursive: true })
    const notices: string[] = []
    const options = { resume: true, engine: 'other', onNotice: (text: string) => notices.push(text) }
    await run('engines', undefined, options)
    expect(notices).toEqual([])
    for (const stages of [4, 5]) await run('engines', { stages }, options)
    expect(notices).toEqual(Array(2).fill(expect.stringContaining('begun on test and goes on on other')))
  })
})

describe('a run that cannot be continued is left as it is, and unlocked', () => {
  const names = ['checkpoints', 'config.json', 'evaluations.jsonl', 'log.jsonl']
  /** Every file of a run. */
  const content = (name: string) => Object.fromEntries(readdirSync(at(name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile()).map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name)).toString('base64')]))
  const refused = async (name: string, message: RegExp, config?: ConfigInput) => {
    const before = content(name)
    await expect(run(name, config, { resume: true })).rejects.toThrow(message)
    expect(content(name)).toEqual(before)
    expect(readdirSync(at(name)).sort()).toEqual(expect.arrayContaining(names.filter((file) => file !== 'checkpoints')))
    expect(readdirSync(at(name))).not.toContain('lock')
  }
  const damaged = (name: string, ...damages: [file: string, f: (bytes: Buffer) => Buffer | string][]) => {
    cpSync(at('whole'), at(name), { recursive: true })
    for (const [file, f] of damages) writeFileSync(join(at(name), file), f(readFileSync(join(at(name), file))))
  }
  const flip = (bytes: Buffer): Buffer => {
    const other = Buffer.from(bytes)
    other[Math.floor(bytes.length * 0.7)] ^= 1
    return other
  }
  const nextDigit = (key: string) => (bytes: Buffer): string =>
    bytes.toString().replace(new RegExp(`("${key}":\\D*)(\\d)`), (_, before: string, digit: string) => `${before}${(Number(digit) + 1) % 10}`)

  it('updates without a checkpoint', async () => {
    damaged('lost')
    rmSync(join(at('lost'), 'checkpoints'), { recursive: true })
    await refused('lost', /lost: log\.jsonl holds updates, but no checkpoint is there to continue from: put .*checkpoints back, or begin anew/)
  })

  it.each(['agent-1.safetensors', 'state.json', 'config.json', 'sha256'])('a bit that flipped in %s is found, and what to do works', async (file) => {
    const name = `flipped-${file}`
    damaged(name, [`checkpoints/000009/${file}`, flip])
    await refused(name, /000009\/.*; delete .*000009 to continue from checkpoint 000008/)
    rmSync(join(at(name), 'checkpoints', '000009'), { recursive: true })
    await run(name, undefined, { resume: true })
    expect(log(name)).toBe(log('whole'))
  })

  it('an edited digit, and a list of sums that was cut short', async () => {
    damaged('edited', ['checkpoints/000009/state.json', nextDigit('beta')])
    await refused('edited', /000009\/state\.json: is damaged.*; delete .*000009 to continue from checkpoint 000008/)
    damaged('cut', ['checkpoints/000009/sha256', (bytes) => bytes.subarray(0, -5)])
    await refused('cut', /000009\/sha256: is damaged: it does not list state\.json; delete /)
  })

  it('names no checkpoint that is damaged too', async () => {
    damaged('both', ['checkpoints/000008/agent-0.safetensors', flip], ['checkpoints/000009/agent-0.safetensors', flip])
    await refused('both', /000009\/agent-0\.safetensors: is damaged.*; there is no whole checkpoint before it: begin anew in another folder$/)
    damaged('old')
    for (const checkpoint of ['000008', '000009']) rmSync(join(at('old'), 'checkpoints', checkpoint, 'sha256'))
    await refused('old', /000009\/sha256: missing; the checkpoint is damaged, or of an earlier version of teamtr; there is no whole/)
  })

  it('a line of the log or of the evaluations that was altered', async () => {
    damaged('log', ['log.jsonl', nextDigit('surrogate')])
    await refused('log', /log\/log\.jsonl: is not what it was when the latest checkpoint was made/)
    damaged('evaluations', ['evaluations.jsonl', nextDigit('reward')])
    await refused('evaluations', /evaluations\.jsonl: is not what it was when the latest checkpoint was made/)
  })

  it('a config.json that is not that of the checkpoint: the checkpoint is not blamed, and what to do works', async () => {
    damaged('emptied', ['config.json', () => '{}'])
    await refused('emptied', /^.*emptied\/config\.json: task\.modulus: holds \d+; the run has 3, as .*000009\/config\.json says: copy that here$/)
    await refused('emptied', /emptied\/config\.json: task\.modulus: .*copy that here$/, {})
    cpSync(join(at('emptied'), 'checkpoints', '000009', 'config.json'), join(at('emptied'), 'config.json'))
    await run('emptied', undefined, { resume: true })
    expect(log('emptied')).toBe(log('whole'))
  })

  it('fewer stages than are done', async () => {
    await refused('whole', /stages: holds 2; the run in .*whole has done 9 updates: expected at least 3/, { stages: 2 })
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
    const record = JSON.parse(text[1]) as object
    for (const [change, said] of [
      [{ update: 3 }, /log\.jsonl: line 2: update: holds 3; expected 2, so lines are missing/],
      [{ certificate: { bound: 0, activeMass: 'x' } }, /log\.jsonl: line 2: certificate\.activeMass: holds "x"/],
      [{ improvement: { estimate: 'x', low: 0, high: 0 } }, /log\.jsonl: line 2: improvement\.estimate: holds "x"/],
      [{ outcome: 'taken' }, /log\.jsonl: line 2: outcome: holds "taken"/],
    ] as const) {
      writeFileSync(join(damaged, 'log.jsonl'), [text[0], JSON.stringify({ ...record, ...change }), ...text.slice(2)].join('\n'))
      expect(() => readRun(damaged)).toThrow(said)
    }
    writeFileSync(join(damaged, 'log.jsonl'), '')
    expect(() => readRun(damaged)).toThrow(/evaluations\.jsonl: line 2: update: holds \d+; .*log\.jsonl ends after 0, so lines are missing there/)
    writeFileSync(join(damaged, 'log.jsonl'), text.join('\n'))
    const evaluations = readFileSync(join(damaged, 'evaluations.jsonl'), 'utf8').split('\n')
    const first = JSON.parse(evaluations[0]) as { problems: number }
    for (const [change, said] of [
      [{ rewards: [1, 0] }, /evaluations\.jsonl: line 2: rewards: holds 2; expected one for each of \d+ problems/],
      [{ problems: 2, rewards: [1, 0] }, new RegExp(`line 2: problems: holds 2; expected ${first.problems} as in line 1`)],
      [{ reward: { estimate: 'x', low: 0, high: 0 } }, /line 2: reward\.estimate: holds "x"/],
    ] as const) {
      writeFileSync(join(damaged, 'evaluations.jsonl'), [evaluations[0], JSON.stringify({ ...JSON.parse(evaluations[1]) as object, ...change }), ''].join('\n'))
      expect(() => readRun(damaged)).toThrow(said)
    }
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
