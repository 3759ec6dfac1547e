import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readSwap } from '../../src/train/recovery.js'
import { withoutProgress } from '../progress.js'
import { program, teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const folder = mkdtempSync(join(tmpdir(), 'swap-cli-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const teamtr = (...args: string[]) => teamtrWith({ cwd: folder }, args)

beforeAll(async () => {
  writeFileSync(at('small.yaml'), `
task: {name: relay, modulus: 3}
team: {agents: 2}
model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
warmup: {steps: 20, episodes: 16}
rollout: {prompts: 4, group: 4}
evaluation: {problems: 20, every: 1}
stages: 1
`)
  writeFileSync(at('bigger.yaml'), `
seed: 5
task: {name: relay, modulus: 3}
team: {agents: 2}
model: {layers: 2, hidden: 24, heads: 2, intermediate: 24}
warmup: {steps: 10, episodes: 16}
`)
  mkdirSync(at('model'))
  writeFileSync(at('language.yaml'), 'task: {name: relay, modulus: 3}\nteam: {agents: [{model: model}, {model: model}]}\n')
  writeFileSync(at('guessing.yaml'), 'task: {name: guessing}\n')
  await teamtr('train', 'small.yaml', '--out', 'before')
})

describe('teamtr swap', () => {
  it('begins a run that training goes on with, and says what the swap cost; trained anew, its configuration swaps again', async () => {
    const { status, stdout, stderr } = await teamtr('swap', 'before', '--agent', '1', '--with', 'bigger.yaml', '--align', '20', '--out', 'after', '--stages', '1')
    expect([status, withoutProgress(stderr)]).toEqual([0, 'after holds the new team; it learns on with: teamtr train --resume --out after\n'])
    expect(stdout).toMatch(/^agent 1 replaced in .*before after 2 updates: a new one, warmed up\n/)
    for (const row of ['as it was', 'swapped', 'aligned on 20 contexts']) expect(stdout).toMatch(new RegExp(`^${row} +-?\\d\\.\\d{3} \\[`, 'm'))
    const config = JSON.parse(readFileSync(at('after', 'config.json'), 'utf8'))
    expect(config).toMatchObject({ seed: 1, stages: 1, start: { run: at('before'), agent: 1, seed: 5, align: { contexts: 20 } }, warmup: { steps: 10 } })
    expect(config.team.models[1]).toMatchObject({ hidden: 24, layers: 2 })

    expect((await teamtr('train', '--resume', '--out', 'after')).status).toBe(0)
    const shown = await teamtr('swap', 'after', '--json')
    expect(JSON.parse(shown.stdout)).toMatchObject({ folder: 'after', recovery: { stages: 1 }, swap: { agent: 1, contexts: 20 } })
    expect((await teamtr('swap', 'after')).stdout).toMatch(/^after 1 stages /m)

    expect((await teamtr('train', 'after/config.json', '--out', 'again')).status).toBe(0)
    const log = (run: string): string => readFileSync(at(run, 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')
    expect(log('again')).toBe(log('after'))
    expect({ ...readSwap(at('again')), seconds: 0 }).toEqual({ ...readSwap(at('after')), seconds: 0 })
  })

  it('adds an agent; takes one of another run, as it is', async () => {
    expect((await teamtr('swap', 'before', '--add', '--out', 'three', '--freeze', '0')).status).toBe(0)
    expect(JSON.parse(readFileSync(at('three', 'config.json'), 'utf8'))).toMatchObject({ team: { agents: 3, router: [0, 1, 2], frozen: [0] }, start: { agent: 2, align: { contexts: 0 } } })
    expect((await teamtr('swap', 'before', '--agent', '0', '--with', 'before:0', '--align', '0', '--out', 'same')).stdout).toMatch(/^swapped +\S+ \[.*\] +0\.000 \[0\.000, 0\.000\] +0\.000 \[/m)
  })

  it('stopped by Ctrl-C, is begun again by the same command, and by no other', async () => {
    const args = ['swap', 'before', '--agent', '1', '--align', '5000', '--out', 'stopped']
    const child = execFile(process.execPath, [program, ...args], { cwd: folder })
    let said = ''
    child.stderr!.on('data', (text: string) => (said += text))
    const ended = once(child, 'exit')
    while (!existsSync(at('stopped', 'config.json'))) await sleep(5)
    child.kill('SIGINT')
    expect((await ended)[0]).toBe(130)
    expect(withoutProgress(said)).toBe('stopped; the same command begins the swap in stopped again\n')
    expect(existsSync(at('stopped', 'checkpoints'))).toBe(false)
    expect((await teamtr('swap', 'before', '--agent', '1', '--align', '0', '--out', 'stopped')).stderr)
      .toBe('teamtr: --with: start.align.contexts: holds 0; the run in stopped has 5000: choose another --out\n')
    expect((await teamtr(...args)).status).toBe(0)
    expect((await teamtr(...args)).stderr).toBe('teamtr: stopped: holds a run already; choose another --out\n')
    await teamtr(...args.slice(0, -1), 'whole')
    expect({ ...readSwap(at('stopped')), seconds: 0 }).toEqual({ ...readSwap(at('whole')), seconds: 0 })
  })

  it('refuses in one line, and writes nothing', async () => {
    const refusals: [string[], string][] = [
      [['before'], '--agent: missing; whose place is taken, 0 to 1, or --add'],
      [['before', '--agent', '2'], '--agent: holds 2; before has 2 agents, 0 to 1 (--add adds one)'],
      [['before', '--agent', '1', '--add'], '--add: an agent is added or, with --agent, replaced; not both'],
      [['none', '--agent', '1'], 'none/config.json: no such file'],
      [['before', '--agent', '1', '--with', 'guessing.yaml'], '--with: is a configuration of guessing, whose agents have another vocabulary; one of relay is needed'],
      [['before', '--agent', '1', '--with', 'language.yaml'], '--with: is a configuration of language models, and the agents of the run are decoders that are trained from scratch'],
      [['before', '--agent', '1', '--with', 'before:4'], `start.with.agent: holds 4; ${at('before')} has 2, 0 to 1`],
      [['before', '--agent', '1', '--with', 'missing.yaml'], 'missing.yaml: no such file'],
      [['before', '--agent', '1', '--freeze', '0,1'], 'swap: team.frozen: holds [0,1]; at least one agent must be left to update'],
    ]
    for (const [args, message] of refusals) {
      expect(await teamtr('swap', ...args, '--out', 'x')).toEqual({ stdout: '', stderr: `teamtr: ${message}\n`, status: 2 })
    }
    expect(existsSync(at('x'))).toBe(false)
    expect((await teamtr('swap', 'before', '--agent', '1', '--out', 'before')).stderr).toBe('teamtr: before: holds a run already; choose another --out\n')
  })
})
