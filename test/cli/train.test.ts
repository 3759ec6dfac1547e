import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { random } from '../../src/util/random.js'
import { program, teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 120_000 })

const folder = mkdtempSync(join(tmpdir(), 'train-'))
const at = (...names: string[]): string => join(folder, ...names)
const options = { env: { ...process.env, TEAMTR_ENGINE: '' }, cwd: folder }
const train = (...args: string[]) => teamtrWith(options, ['train', ...args])
const start = (...args: string[]): ChildProcess => spawn(process.execPath, [program, 'train', ...args], { ...options, stdio: 'ignore' })

const config = at('small.yaml')
writeFileSync(config, `
task: {name: relay, modulus: 3}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 40, episodes: 32}
rollout: {prompts: 6, group: 4}
order: random
evaluation: {problems: 40, every: 5}
stages: 12
`)

/** All that a run leaves that must be the same when it is repeated. */
const left = (run: string) => ({
  log: readFileSync(at(run, 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, ''),
  evaluations: readFileSync(at(run, 'evaluations.jsonl'), 'utf8'),
  agents: [0, 1, 2].map((agent) => readFileSync(at(run, 'checkpoints', '000036', `agent-${agent}.safetensors`)).toString('base64')),
  state: readFileSync(at(run, 'checkpoints', '000036', 'state.json'), 'utf8').replace(/"log":\{[^}]*\}/, ''),
})
const lines = (run: string): number => {
  const log = at(run, 'log.jsonl')
  return existsSync(log) ? readFileSync(log, 'utf8').split('\n').length - 1 : 0
}
/** A copy of a run to be damaged. */
const copy = (name: string): string => {
  cpSync(at('whole'), at(name), { recursive: true })
  return at(name)
}

let whole: ReturnType<typeof left>
let said: Awaited<ReturnType<typeof train>>
beforeAll(async () => {
  said = await train(config, '--out', at('whole'))
  expect(said.stderr).not.toContain('Error')
  whole = left('whole')
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('train', () => {
  it('says what it did, and where it is', () => {
    expect(said.status).toBe(0)
    for (const word of ['untrained', 'after 36 updates (teamtr)', 'difference', 'largest KL / δ']) expect(said.stdout).toContain(word)
    expect(said.stderr).toContain(at('whole'))
    expect(readdirSync(at('whole')).sort()).toEqual(['checkpoints', 'config.json', 'evaluations.jsonl', 'log.jsonl'])
    expect(readdirSync(at('whole', 'checkpoints'))).toEqual(['000035', '000036'])
  })

  it('writes a line per update with everything in it, none above δ', () => {
    const log = readFileSync(at('whole', 'log.jsonl'), 'utf8').trim().split('\n')
    const records = log.map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(records.map(({ update }) => update)).toEqual(Array.from({ length: 36 }, (_, i) => i + 1))
    for (const record of records) {
      expect(record.kl).toBeLessThanOrEqual(record.delta as number)
      expect(Object.keys(record)).toEqual(expect.arrayContaining([
        'agent', 'position', 'surrogate', 'proposedKl', 'kl', 'beta', 'delta', 'rho', 'zeta', 'return', 'tokens', 'rollouts', 'certificate',
      ]))
      expect(Object.keys(record).at(-1)).toBe('seconds')
    }
    expect(records.some(({ outcome }) => outcome === 'accepted' || outcome === 'scaled')).toBe(true)
  })

  it('is the same run when config.json is trained again', async () => {
    expect((await train(at('whole', 'config.json'), '--out', at('again'))).status).toBe(0)
    expect(left('again')).toEqual(whole)
  })

  it('is the same run when it is killed again and again, at any moment', async () => {
    const r = random(5)
    for (const target of [1, 9, 20, 33]) {
      const child = start(...(existsSync(at('killed', 'config.json')) ? ['--resume'] : [config]), '--out', at('killed'))
      const exit = once(child, 'exit')
      while (lines('killed') < target && child.exitCode === null) await sleep(2)
      await sleep(25 * r.next())
      child.kill('SIGKILL')
      await exit
      expect(child.signalCode).toBe('SIGKILL')
      expect(lines('killed')).toBeLessThan(36)
    }
    const { status, stderr } = await train('--resume', '--out', at('killed'))
    expect(stderr).not.toContain('Error')
    expect(status).toBe(0)
    expect(left('killed')).toEqual(whole)
  })

  it('stops at Ctrl-C between two updates with code 130, and a longer run goes on from a finished one', async () => {
    const child = start(config, '--stages', '5', '--out', at('longer'))
    const exit = once(child, 'exit')
    while (lines('longer') < 3 && child.exitCode === null) await sleep(2)
    child.kill('SIGINT')
    expect((await exit)[0]).toBe(130)
    expect(existsSync(at('longer', 'lock'))).toBe(false)
    expect(lines('longer')).toBeLessThan(15)
    expect((await train('--resume', '--out', at('longer'))).status).toBe(0)
    expect(lines('longer')).toBe(15)
    const { status, stdout } = await train(config, '--resume', '--out', at('longer'), '--json')
    expect(status).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ finished: true, updates: 36, planned: 36, method: 'teamtr' })
    expect(left('longer')).toEqual(whole)
  })
})

describe('a mistake', () => {
  const wrong = (name: string, text: string): string => {
    writeFileSync(at(name), text)
    return at(name)
  }
  /** One line on stderr, code 2, and nothing on stdout. */
  const refused = async (args: string[], expected: RegExp): Promise<void> => {
    const { status, stdout, stderr } = await train(...args)
    expect(stderr).toMatch(expected)
    expect(stderr.trimEnd()).not.toContain('\n')
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  }

  it.each([
    ['a misspelled key', 'stagse: 3', /^teamtr: .*\.yaml: unknown key "stagse" \(did you mean "stages"\?\)/],
    ['a wrong type', 'stages: many', /^teamtr: .*\.yaml: stages: holds "many"; expected number/],
    ['δ = 0', 'trustRegion: {delta: 0}', /^teamtr: .*\.yaml: trustRegion\.delta: holds 0; /],
    ['γ = 1', 'gamma: 1', /^teamtr: .*\.yaml: gamma: holds 1; /],
    ['an order that is no permutation', 'order: [0, 2, 2]', /^teamtr: .*\.yaml: order: holds \[0,2,2\]; expected a permutation/],
    ['no YAML', 'stages: [', /^teamtr: .*\.yaml: is not valid YAML/],
    ['a list', '- 1', /^teamtr: .*\.yaml: holds \[1\]; expected object/],
  ])('%s is one line with code 2, and makes no folder', async (_, text, expected) => {
    await refused([wrong('wrong.yaml', text), '--out', at('never')], expected)
    expect(existsSync(at('never'))).toBe(false)
  })

  it('an unknown method, a missing file, and a folder that cannot be made', async () => {
    await refused([config, '--method', 'trpo', '--out', at('never')], /^teamtr: option '--method <name>' argument 'trpo' is invalid\. expected one of teamtr, stale/)
    await refused([at('nowhere.yaml'), '--out', at('never')], /nowhere\.yaml: no such file/)
    await refused([config, '--out', join(config, 'below')], /small\.yaml\/below: cannot be made/)
    expect(existsSync(at('never'))).toBe(false)
  })

  it('a run folder without --resume, a folder of other things, --resume without a run, or with another configuration', async () => {
    await refused([config, '--out', at('whole')], /whole: holds a run already; add --resume/)
    mkdirSync(at('other'))
    writeFileSync(at('other', 'thesis.tex'), '')
    await refused([config, '--out', at('other')], /other: is not empty and holds no run/)
    await refused([config, '--resume', '--out', at('none')], /none: holds no run to resume/)
    await refused(['--resume', '--out', at('whole'), '--seed', '4'], /seed: holds 4; the run in .* has 0/)
    expect(left('whole')).toEqual(whole)
  })

  it('a truncated checkpoint says how to go on from the one before, which works', async () => {
    const run = copy('truncated')
    const newest = join(run, 'checkpoints', '000036')
    const log = readFileSync(join(run, 'log.jsonl'), 'utf8')
    for (const file of ['agent-1.safetensors', 'state.json']) {
      const whole = readFileSync(join(newest, file))
      truncateSync(join(newest, file), Math.floor(whole.length / 2))
      await refused(['--resume', '--out', run], /000036\/.*; delete .*000036 to continue from checkpoint 000035/)
      if (file !== 'state.json') writeFileSync(join(newest, file), whole)
    }
    expect(readFileSync(join(run, 'log.jsonl'), 'utf8')).toBe(log)
    rmSync(newest, { recursive: true })
    expect((await train('--resume', '--out', run)).status).toBe(0)
    expect(left('truncated')).toEqual(whole)
  })

  it('a log that lost lines, and a run that another process works on', async () => {
    const run = copy('short')
    truncateSync(join(run, 'log.jsonl'), 100)
    await refused(['--resume', '--out', run], /log\.jsonl: has 100 bytes; the latest checkpoint was made at \d+, so lines are missing/)
    writeFileSync(join(run, 'lock'), JSON.stringify({ pid: process.pid, host: hostname(), started: startOf(process.pid) }))
    await refused(['--resume', '--out', run], new RegExp(`process ${process.pid} on .* works on this run`))
  })
})

const startOf = (pid: number): string => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}
