import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { proportionInterval } from '../../src/theory/intervals.js'
import { measureBehaviour } from '../../src/theory/stage.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig } from '../../src/train/config.js'
import { compareEstimates, excessOf, followRun, type FollowedStage } from '../../src/train/exactRun.js'
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

describe('what updates learned from', () => {
  const three = (more: object) => configWith({ task: { name: 'relay', modulus: 2 }, team: { agents: 3 }, warmup: { steps: 20, episodes: 32 }, order: 'fixed', stages: 2, diagnostics: { every: 2, prompts: 6, group: 4 }, ...more })

  it('is the team just before them, that at the start of the stage, or one between, as the method has it; on problems of its own for probes', async () => {
    for (const [method, behaviour] of [['teamtr', [0, 1, 2]], ['resample-every-2', [0, 0, 2]], ['stale', [0, 0, 0]], ['joint', [0, 0, 0]]] as const) {
      const [first, second] = await followRun(three({ method }))
      expect(second.probed).toBeNull()
      for (const { exact, behaviour: measured } of [first, first.probed!]) {
        expect(measured).toEqual(measureBehaviour(exact.stage, behaviour))
        expect(measured[0].shift).toBe(exact.steps[0].shift)
        // In the order of the relay the advantage of older rollouts is the right one.
        measured.forEach(({ gap }, i) => expect(gap).toBeCloseTo(behaviour[i] === i ? 0 : exact.steps[i].lStale - exact.steps[i].lSeq, 12))
      }
      expect(first.probed!.exact.returns[0].J).not.toBe(first.exact.returns[0].J)
      expect(Math.max(...first.behaviour.map(({ shift }) => shift))).toBeGreaterThan(1e-4)
    }
  })

  it('is compared where something is estimated: in stages that are diagnosed, shifts of updates that shift, gaps without weights', async () => {
    const stages = await followRun(three({ method: 'stale' }))
    const checks = new Map(compareEstimates(stages).map((check) => [check.name, check]))
    const [{ records, probed }] = stages
    const [gap, shift] = ['gap: L on what was learned from − L_seq', 'shift: ‖dⁱ − d of what was learned from‖₁'].map((name) => checks.get(name)!)
    expect([gap.updates, shift.updates, checks.get('L_seq, on a probe')!.updates]).toEqual([3, 2, 3])
    const errors = records.map(({ diagnostics }, i) => diagnostics!.gap.estimate - probed!.behaviour[i].gap)
    expect(gap.bias.estimate).toBeCloseTo(errors.reduce((sum, x) => sum + x / 3, 0), 14)
    expect(shift.exact).toBeCloseTo((probed!.behaviour[0].shift + probed!.behaviour[1].shift) / 2, 14)
    const held = records.filter(({ diagnostics }, i) => diagnostics!.gap.low <= probed!.behaviour[i].gap && probed!.behaviour[i].gap <= diagnostics!.gap.high).length
    expect([gap.covered, gap.coverage!.estimate]).toEqual([held, held / 3])
    expect(gap.coverage).toMatchObject({ low: proportionInterval(held, 3).low, high: proportionInterval(held, 3).high })
    const weighted = await followRun(three({ method: 'importance', stages: 1 }))
    const names = compareEstimates(weighted).map(({ name }) => name)
    expect(names).toContain('shift: ‖dⁱ − d of what was learned from‖₁')
    expect(names).not.toContain('gap: L on what was learned from − L_seq')
  })

  it('is where δ holds: how often an update is outside by its exact KL, and by how much', () => {
    const inDelta = followed.flatMap(({ records, exact }) => records.map(({ delta }, i) => exact.steps[i].divergence.message / delta))
    expect(excessOf(followed, 'message')).toEqual({ updates: 6, outside: inDelta.filter((x) => x > 1).length, largest: Math.max(...inDelta) })
    const narrow = followed.map((stage) => ({ ...stage, records: stage.records.map((record) => ({ ...record, delta: 1e-9 })) }))
    expect(excessOf(narrow, 'message').outside).toBe(6)
    expect(excessOf(narrow, 'message').largest).toBeCloseTo(1e9 * Math.max(...inDelta.map((x, i) => x * followed.flatMap(({ records }) => records)[i].delta)), 0)
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
