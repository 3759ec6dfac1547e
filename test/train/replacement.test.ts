import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type Config, type ConfigInput } from '../../src/train/config.js'
import { readCheckpoint } from '../../src/train/checkpoints.js'
import { followRun } from '../../src/train/exactRun.js'
import { exactReplacementBound, exactTightening } from '../../src/train/exactReplacement.js'
import { readSwap, recovery } from '../../src/train/recovery.js'
import { replaceAgent } from '../../src/train/replacement.js'
import { runTraining } from '../../src/train/run.js'
import { readRun } from '../../src/train/runFolder.js'
import { swappedConfig, type SwapOptions } from '../../src/train/swapConfig.js'
import { disposeTeam } from '../../src/train/team.js'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const folder = mkdtempSync(join(tmpdir(), 'swap-'))
const at = (name: string): string => join(folder, name)
const small: ConfigInput = {
  task: { name: 'relay', modulus: 3, slip: 0.2 },
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  warmup: { steps: 150, episodes: 64, learningRate: 4e-3 },
  rollout: { prompts: 12, group: 4 },
  evaluation: { problems: 40, every: 1 },
  stages: 2,
}
/** A newcomer that has seen little. */
const novice = parseConfig({ ...small, seed: 9, warmup: { steps: 25, episodes: 16 } })
let own: Config

const train = async (name: string, config: Config | undefined, more: { resume?: boolean; signal?: AbortSignal } = {}) => {
  const result = await runTraining(config, { folder: at(name), engine: 'test', ...more })
  disposeTeam(result.team)
  return result
}
const begin = (name: string, config: Config) => train(name, config, { signal: AbortSignal.abort() })
const swapped = (more: Partial<SwapOptions> = {}): Config => {
  const config = swappedConfig(own, { run: at('before'), agent: 2, align: 300, like: novice, ...more })
  return { ...config, start: { ...config.start!, align: { ...config.start!.align, steps: 150, learningRate: 4e-3, batch: 64 } } }
}

beforeAll(async () => {
  await initEngine()
  own = (await train('before', parseConfig(small))).config
  await begin('aligned', swapped())
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a swap', () => {
  it('is nearer to the team as it was after stage 0, exactly: in return and divergence', () => {
    const { agent, added, before, direct, aligned, exact } = readSwap(at('aligned'))
    expect([agent, added, before.rewards.length]).toEqual([2, false, 40])
    expect(exact!.before.J - exact!.direct.J).toBeGreaterThan(0.05)
    expect(Math.abs(exact!.before.J - exact!.aligned!.J)).toBeLessThan(0.5 * (exact!.before.J - exact!.direct.J))
    expect(exact!.aligned!.kl.message).toBeLessThan(0.2 * exact!.direct.kl.message)
    // What is sampled estimates what is exact: of one team each with one episode of 40 problems, within 4 standard errors.
    for (const [sampled, { reward }] of [[before, exact!.before], [direct, exact!.direct], [aligned!, exact!.aligned!]] as const) {
      expect(Math.abs(sampled.reward.estimate - reward)).toBeLessThan(4 * Math.sqrt((reward * (1 - reward)) / 40) + 0.02)
    }
    expect(direct.shock.estimate).toBeCloseTo(before.reward.estimate - direct.reward.estimate, 12)
    expect(direct.kl.low).toBeGreaterThan(aligned!.kl.high)
    // 4 standard errors of 500 contexts on the same problems. After alignment much of the divergence is in contexts too rare for them.
    const { estimate, low, high } = direct.kl
    expect(Math.abs(estimate - exact!.direct.kl.discounted)).toBeLessThan((4 * (high - low)) / 2 / 1.965)
  })

  it('begins a run: its first evaluation is that of the aligned team, the other agents are as they were', () => {
    const { evaluations, updates, config } = readRun(at('aligned'))
    expect(updates).toEqual([])
    expect(evaluations.map(({ update }) => update)).toEqual([0])
    expect(evaluations[0].rewards).toEqual(readSwap(at('aligned')).aligned!.rewards)
    const [old, now] = [readCheckpoint(at('before'), own)!.team, readCheckpoint(at('aligned'), config)!.team]
    const same = old.agents.map(({ theta }, i) => tf.tidy(() => tf.all(tf.equal(theta, now.agents[i].theta)).dataSync()[0] === 1))
    expect(same).toEqual([true, true, false])
    expect(now.agents.map(({ optimiser }) => optimiser.steps)).toEqual([old.agents[0].optimiser.steps, old.agents[1].optimiser.steps, 0])
    disposeTeam(old)
    disposeTeam(now)
  })

  it('goes on after it was begun, or killed before that, as if in one go', async () => {
    const log = (name: string): string => readFileSync(join(at(name), 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')
    await train('whole', swapped())
    cpSync(at('aligned'), at('resumed'), { recursive: true })
    expect((await train('resumed', undefined, { resume: true })).finished).toBe(true)
    expect(log('resumed')).toBe(log('whole'))
    cpSync(at('aligned'), at('killed'), { recursive: true })
    rmSync(join(at('killed'), 'checkpoints'), { recursive: true })
    await train('killed', undefined, { resume: true })
    expect(log('killed')).toBe(log('whole'))
    const after = recovery(readRun(at('whole')), readSwap(at('whole')))
    expect(after.stages).toBe(2)
    expect(after.left.estimate).toBeCloseTo(readSwap(at('whole')).before.reward.estimate - after.latest.estimate, 12)
    // Proposition 3.8 from logs is the return that the stage began with plus the certificate that the run logged.
    const { certificates, bound } = after
    expect(bound!.bound - bound!.alignedReturn).toBeCloseTo(readRun(at('whole')).updates[2].stageCertificate!.bound, 9)
    const { change, before, after: now } = certificates!
    expect(change.total).toBeCloseTo(now.bound - before.bound, 9)
    expect(change.surrogate + change.penalty + change.error).toBeCloseTo(change.total, 9)
  })

  it('by an identical copy changes nothing at all', async () => {
    await begin('copy', swapped({ agent: 2, align: 0, like: undefined, with: { run: at('before'), agent: 2, config: own } }))
    const { before, direct, aligned, exact } = readSwap(at('copy'))
    expect(direct.rewards).toEqual(before.rewards)
    expect([direct.shock, direct.kl, aligned]).toEqual([{ estimate: 0, low: 0, high: 0 }, { estimate: 0, low: 0, high: 0 }, null])
    expect([exact!.direct.J, exact!.direct.kl.message, exact!.direct.shift]).toEqual([exact!.before.J, 0, 0])
    for (const file of ['agent-0', 'agent-1', 'agent-2']) {
      const [old, now] = [['before', '000006'], ['copy', '000000']].map(([run, name]) => readFileSync(join(at(run), 'checkpoints', name, `${file}.safetensors`)))
      expect(now.equals(old)).toBe(true)
    }
  })

  it('takes decoders of another size, and adds agents', async () => {
    await begin('bigger', swapped({ like: parseConfig({ ...small, seed: 3, model: { layers: 2, hidden: 24, heads: 2, intermediate: 32 } }) }))
    expect(readRun(at('bigger')).config.team.models!.map(({ hidden }) => hidden)).toEqual([16, 16, 24])
    const added = swapped({ agent: 3, align: 0 })
    expect(added.team).toMatchObject({ agents: 4, router: [0, 1, 2, 3] })
    expect(added.gamma).toBe(0.75)
    await begin('added', { ...added, stages: 1 })
    const report = readSwap(at('added'))
    expect([report.added, report.agent, report.exact?.states === undefined]).toEqual([true, 3, report.exact === null])
    expect((await train('added', undefined, { resume: true })).updates.map(({ agent }) => agent)).toEqual([0, 1, 2, 3])
    // A run of a team of two sizes goes on, too.
    expect((await train('bigger', undefined, { resume: true })).finished).toBe(true)
  })

  it('keeps no tensors', async () => {
    const config = swapped()
    const { numTensors } = tf.memory()
    disposeTeam((await replaceAgent(config, config.start!)).team)
    expect(tf.memory().numTensors).toBe(numTensors)
  })
})

describe('the bookkeeping', () => {
  it('holds exactly: Proposition 3.8 on each stage of the new team, 3.9 between them', async () => {
    const config = { ...swapped(), stages: 2 }
    const followed = await followRun(config)
    const stages = followed.map(({ exact }) => exact)
    expect(stages).toHaveLength(2)
    for (const stage of stages) {
      const { holds, bound, left, alignedReturn, penalty } = exactReplacementBound(stage, config.gamma)
      expect([holds, penalty > 0, alignedReturn]).toEqual([true, true, stage.returns[0].J])
      expect(left).toBe(stage.returns[3].J)
      expect(bound).toBeCloseTo(alignedReturn + stage.tokens.stage.thm36.bound, 12)
    }
    const { total, surrogate, penalty, error } = exactTightening(stages[0], stages[1])
    expect(total).toBeCloseTo(surrogate + penalty + error, 12)
    expect(error).toBe(0)
  })
})

describe('what cannot be swapped', () => {
  const refused = async (config: Config): Promise<string> => {
    const message = await train('refused', config).then(() => 'done', (error: Error) => error.message)
    expect(existsSync(at('refused'))).toBe(false)
    return message
  }
  it('is refused in one line before anything is written', async () => {
    const config = swapped()
    const start = config.start!
    expect(() => parseConfig({ ...config, start: { ...start, agent: 3 } })).toThrow('config: start.agent: holds 3; expected an agent, 0 to 2')
    expect(() => parseConfig({ ...config, team: { ...config.team, models: [null] } })).toThrow('config: team.models: holds [null]; expected 3, one for each agent, or null')
    expect(await refused({ ...config, start: { ...start, run: at('none') } })).toMatch(/none\/config\.json: no such file/)
    expect(await refused({ ...config, start: { ...start, with: { run: at('before'), agent: 5 } } })).toBe(`start.with.agent: holds 5; ${at('before')} has 3, 0 to 2`)
    expect(await refused({ ...config, task: { ...config.task, modulus: 5 } as Config['task'] })).toBe(`task.modulus: holds 5; ${at('before')} has 3`)
    expect(parseConfig({ ...small, team: { models: [{ hidden: 32 }, null, { heads: 4, layers: 3 }] } }).team.models).toEqual([
      { layers: 1, hidden: 32, heads: 2, kvHeads: 2, intermediate: 16 }, { layers: 1, hidden: 16, heads: 2, kvHeads: 2, intermediate: 16 },
      { layers: 3, hidden: 16, heads: 4, kvHeads: 4, intermediate: 16 },
    ])
    const larger = parseConfig({ ...config, team: { ...config.team, models: [{ hidden: 32 }, null, null] } })
    expect(await refused(larger)).toBe(`team.models[0].hidden: holds 32; agent 0 of ${at('before')} has 16`)
    expect(await refused(parseConfig({ ...config, team: { agents: 5 }, order: 'fixed', trustRegion: {}, start: { ...start, agent: 4 } })))
      .toBe(`team.agents: holds 5; the team in ${at('before')} has 3: expected 3, or 4 with start.agent: 3`)
    expect(() => swapped({ like: parseConfig({ task: { name: 'guessing' } }) })).toThrow('--with: is a configuration of guessing, whose agents have another vocabulary; one of relay is needed')
  })

  it('such as an agent of another game', async () => {
    await train('guessing', parseConfig({ ...small, task: { name: 'guessing', digits: 2, turns: 2 }, team: { agents: 2 }, warmup: { steps: 2, episodes: 4 }, stages: 0, evaluation: { problems: 4 } }))
    const other = readRun(at('guessing')).config
    expect(await refused(swapped({ with: { run: at('guessing'), agent: 0, config: other } })))
      .toBe(`start.with.run: holds ${JSON.stringify(at('guessing'))}, whose agents have another vocabulary (guessing); agents of relay are needed`)
  })
})
