import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig } from '../../src/train/config.js'
import { methodNames } from '../../src/train/methods.js'
import { runTraining, type RunOptions } from '../../src/train/run.js'
import type { UpdateRecord } from '../../src/train/stage.js'
import { disposeTeam, type Team } from '../../src/train/team.js'
import { nextDelta } from '../../src/train/trustRegion.js'
import { warmUp } from '../../src/train/warmup.js'
import { sharedPath } from '../shared.js'

const folder = mkdtempSync(join(tmpdir(), 'methods-'))
const configOf = (method: string) => parseConfig({
  method,
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  critic: { hidden: 16, intermediate: 16, steps: 3 },
  task: { name: 'relay', modulus: 3 },
  warmup: { steps: 30, episodes: 32 },
  rollout: { prompts: 6, group: 4 },
  evaluation: { problems: 10, every: 1 },
  stages: 2,
})

let base: Team
beforeAll(async () => {
  await initEngine()
  base = await warmUp(configOf('teamtr'))
})
afterAll(() => {
  disposeTeam(base)
  rmSync(folder, { recursive: true, force: true })
})

const run = async (name: string, method: string | undefined, options: Partial<RunOptions> = {}) => {
  const result = await runTraining(method === undefined ? undefined : configOf(method), { folder: join(folder, name), engine: 'test', base, ...options })
  disposeTeam(result.team)
  return result
}

/** Log, and every vector at the end. */
const left = (name: string, files: readonly string[]) => ({
  log: readFileSync(join(folder, name, 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, ''),
  vectors: files.map((file) => readFileSync(join(folder, name, 'checkpoints', '000006', file)).toString('base64')),
})

describe('every method', () => {
  it.each(methodNames)('%s: two stages, tensors flat, the same numbers when it was stopped and continued', async (method) => {
    const files = ['agent-0.safetensors', 'agent-2.safetensors', ...(method === 'ppo' ? ['critic.safetensors'] : [])]
    const before = tf.memory().numTensors
    const counts: number[] = []
    const records: UpdateRecord[] = []
    await run(method, method, { onUpdate: (record) => { records.push(record); counts.push(tf.memory().numTensors) } })
    expect(new Set(counts).size).toBe(1)
    expect(tf.memory().numTensors).toBe(before)
    expect(records).toHaveLength(6)
    expect(records.some(({ scale }) => scale > 0)).toBe(true)

    const stop = new AbortController()
    const { finished } = await run(`${method}-stopped`, method, { signal: stop.signal, onUpdate: ({ update }) => { if (update === 2) stop.abort() } })
    expect(finished).toBe(false)
    await run(`${method}-stopped`, undefined, { resume: true })
    expect(left(`${method}-stopped`, files)).toEqual(left(method, files))
    expect(tf.memory().numTensors).toBe(before)
  })

  it.each(['ppo', 'grpo'])('%s: a run that starts from a trained team has a critic and a reference of its own', async (method) => {
    const before = tf.memory().numTensors
    const first = await runTraining(configOf(method), { folder: join(folder, `${method}-first`), engine: 'test', base })
    const kept = (first.team.critic?.theta ?? first.team.agents[0].initial!).dataSync().slice()
    const second = await runTraining(configOf(method), { folder: join(folder, `${method}-second`), engine: 'test', base: first.team })
    const own = second.team.critic?.theta ?? second.team.agents[0].initial!
    expect([...own.dataSync()]).not.toEqual([...kept])
    // The reference is where this run began, the end of the first.
    if (method === 'grpo') expect([...own.dataSync()]).toEqual([...first.team.agents[0].theta.dataSync()])
    expect([...(first.team.critic?.theta ?? first.team.agents[0].initial!).dataSync()]).toEqual([...kept])
    disposeTeam(first.team)
    disposeTeam(second.team)
    expect(tf.memory().numTensors).toBe(before)
  })
})

it('adaptive-delta: δ of the next update follows the measured improvement of this one', async () => {
  const { updates, config } = await run('delta', 'adaptive-delta')
  for (const { delta, nextDelta: next, improvement } of updates) {
    expect(next).toBe(improvement ? nextDelta(delta, improvement, config.trustRegion.adaptive!) : delta)
  }
  for (const agent of [0, 1, 2]) {
    const [first, second] = updates.filter((update) => update.agent === agent)
    expect(second.delta).toBe(first.nextDelta)
  }
})

const models = sharedPath('models')
it.skipIf(!models).each(['ppo', 'grpo', 'dapo'])('%s trains language models, and goes on where it was stopped', async (method) => {
  const config = parseConfig({
    method,
    task: { name: 'relay', modulus: 3 },
    team: { agents: [{ model: join(models!, 'tiny-llama') }, { model: join(models!, 'tiny-qwen3') }] },
    lora: { rank: 4, alpha: 8, targets: 'all-linear' },
    critic: { hidden: 16, intermediate: 16, steps: 2 },
    rollout: { prompts: 2, group: 4, maxTokens: 2 },
    evaluation: { problems: 2 },
    stages: 2,
  })
  const log = (name: string): string => readFileSync(join(folder, name, 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')
  const train = async (name: string, options: Partial<RunOptions> = {}) => {
    const { team, updates } = await runTraining(options.resume ? undefined : config, { folder: join(folder, name), engine: 'test', ...options })
    disposeTeam(team)
    return updates
  }
  expect(await train(`lm-${method}`)).toHaveLength(4)
  const stop = new AbortController()
  await train(`lm-${method}-stopped`, { signal: stop.signal, onUpdate: () => stop.abort() })
  await train(`lm-${method}-stopped`, { resume: true })
  expect(log(`lm-${method}-stopped`)).toBe(log(`lm-${method}`))
}, 60_000)
