import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig } from '../../src/train/config.js'
import { compareEstimates, followRun, type FollowedStage } from '../../src/train/exactRun.js'
import { startTeam } from '../../src/train/startTeam.js'
import type { UpdateRecord } from '../../src/train/stage.js'
import { disposeTeam } from '../../src/train/team.js'
import { trainTeam } from '../../src/train/trainTeam.js'
import { warmUp } from '../../src/train/warmup.js'
import { sharedPath } from '../shared.js'

const models = sharedPath('models')

const configWith = (more: object) => parseConfig({
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  task: { name: 'relay', modulus: 2, rounds: 2 },
  team: { agents: 2 },
  warmup: { steps: 60, episodes: 64 },
  rollout: { prompts: 8, group: 8 },
  evaluation: { problems: 20 },
  stages: 3,
  order: 'random',
  ...more,
})
const withoutSeconds = (record: UpdateRecord): unknown => ({ ...record, seconds: undefined })

let tensors: number
let followed: FollowedStage[]
beforeAll(async () => {
  await initEngine()
  await followRun(configWith({ stages: 1, rollout: { prompts: 1, group: 2 } }))
  tensors = tf.memory().numTensors
  followed = await followRun(configWith({}))
})
afterAll(() => expect(tf.memory().numTensors).toBe(tensors))

describe('followRun', () => {
  it('trains as the run alone, with all estimates it logs', async () => {
    const config = configWith({})
    const team = await warmUp(config)
    const records: UpdateRecord[] = []
    await trainTeam(config, team, { onUpdate: (record) => void records.push(record) })
    disposeTeam(team)
    expect(followed.flatMap((stage) => stage.records).map(withoutSeconds)).toEqual(records.map(withoutSeconds))
    expect(followed.map(({ stage }) => stage)).toEqual([0, 1, 2])
  })

  it('has the steps of each stage in the order of its updates, all of its bounds below the improvement', () => {
    for (const { records, exact } of followed) {
      expect(exact.steps.map(({ agent }) => agent)).toEqual(records.map(({ agent }) => agent))
      expect(exact.measure.improvement).toBeCloseTo(exact.returns[2].J - exact.returns[0].J, 12)
      for (const certificates of [exact.tokens, exact.effects]) {
        for (const bound of Object.values(certificates.stage)) expect(bound!.bound).toBeLessThanOrEqual(exact.measure.improvement + 1e-12)
      }
    }
    // With two rounds an agent's second message reads what came of its first: L_seq is not all of the improvement.
    expect(Math.max(...followed.flatMap(({ exact }) => exact.steps.map(({ lSeq, improvement }) => Math.abs(lSeq - improvement))))).toBeGreaterThan(1e-6)
  })

  it('moves and freezes whom the configuration says, jointly or one by one', async () => {
    for (const more of [{ team: { agents: 2, frozen: [1] } }, { method: 'joint' }]) {
      const [stage] = await followRun(configWith({ ...more, stages: 1 }))
      const moved = stage.exact.steps.filter(({ divergence }) => divergence.occupancy > 0).map(({ agent }) => agent)
      expect([...moved].sort()).toEqual(stage.records.filter(({ scale }) => scale > 0).map(({ agent }) => agent).sort())
      expect(stage.exact.steps).toHaveLength(2)
    }
  })

  it('refuses a game that is too large', async () => {
    await expect(followRun(configWith({}), { limit: 1000 })).rejects.toThrow('so take fewer problems or a smaller game')
  })
})

describe('compareEstimates', () => {
  it('puts logged values beside exact ones', () => {
    const checks = new Map(compareEstimates(followed).map((check) => [check.name, check]))
    expect(checks.get('ρ')!.rootMeanSquare).toBeLessThan(1e-12)
    const errors = followed.flatMap(({ records, exact }) => records.map(({ surrogate }, i) => surrogate.unbiased - exact.steps[i].lSeq))
    const surrogate = checks.get('L_seq, by plain ratios')!
    expect(surrogate.updates).toBe(6)
    expect(surrogate.bias.estimate).toBeCloseTo(errors.reduce((sum, x) => sum + x / 6, 0), 14)
    expect(surrogate.rootMeanSquare).toBeCloseTo(Math.sqrt(errors.reduce((sum, x) => sum + (x * x) / 6, 0)), 14)
    const covered = followed.flatMap(({ records, exact }) => records.filter(({ improvement }, i) =>
      improvement!.low <= exact.steps[i].improvement && exact.steps[i].improvement <= improvement!.high)).length
    expect(checks.get('improvement')).toMatchObject({ updates: 6, covered })
  })

  it.skipIf(!models)('follows language models, which are read as trainTeam reads them', async () => {
    const model = join(models!, 'tiny-llama')
    const config = configWith({
      model: undefined, warmup: undefined, team: { agents: [{ model, adapter: join(model, 'adapter') }, { model }] }, protocol: { taskRole: false, chatTemplate: false },
      task: { name: 'relay', modulus: 2 }, rollout: { prompts: 2, group: 4, maxTokens: 1 }, stages: 1,
    })
    const team = await startTeam(config)
    const records: UpdateRecord[] = []
    await trainTeam(config, team, { onUpdate: (record) => void records.push(record) })
    const { vocabulary } = team.agents[0].policy
    disposeTeam(team)
    const [stage] = await followRun(config)
    expect(stage.records.map(withoutSeconds)).toEqual(records.map(withoutSeconds))
    await expect(followRun(config, { limit: vocabulary })).rejects.toThrow(`${vocabulary} messages of up to 1 tokens in each`)
  })

  it('leaves out what was not logged: the improvement of stale updates', async () => {
    const stale = await followRun(configWith({ method: 'stale', stages: 1 }))
    expect(compareEstimates(stale).map(({ name }) => name)).not.toContain('improvement')
  })
})
