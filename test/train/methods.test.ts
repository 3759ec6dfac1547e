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
import { warmUp } from '../../src/train/warmup.js'

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
})
