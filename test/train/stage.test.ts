import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { activeMassBound } from '../../src/theory/certificates.js'
import { stageImprovementBound, staleStageBoundUnderStaleError, updateImprovementBound } from '../../src/theory/bounds.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { certify } from '../../src/train/certificate.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { environment } from '../../src/train/environment.js'
import { rollout, type Rollouts } from '../../src/train/rollout.js'
import { orderOf, stage, stageStart, type StageState, type UpdateRecord } from '../../src/train/stage.js'
import { cloneTeam, disposeTeam, type Team } from '../../src/train/team.js'
import { trainTeam, type EvaluationRecord } from '../../src/train/trainTeam.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'

const small = {
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  task: { name: 'relay' as const, modulus: 3 },
  warmup: { steps: 30, episodes: 32 },
  rollout: { prompts: 6, group: 4 },
  evaluation: { problems: 20, every: 2 },
  stages: 2,
}
const configWith = (more: ConfigInput) => parseConfig({ ...small, ...more })

let base: Team
beforeAll(async () => {
  await initEngine()
  base = await warmUp(configWith({}))
})

describe('orderOf', () => {
  const of = (order: ConfigInput['order'], at: number, agents = 5) => orderOf(configWith({ order, team: { agents } }), at)
  it('is fixed, reversed, given, or drawn for each stage', () => {
    expect(of('fixed', 3)).toEqual([0, 1, 2, 3, 4])
    expect(of('reversed', 3)).toEqual([4, 3, 2, 1, 0])
    expect(of([2, 0, 1, 4, 3], 3)).toEqual([2, 0, 1, 4, 3])
    const drawn = Array.from({ length: 20 }, (_, stage) => of('random', stage))
    for (const order of drawn) expect([...order].sort()).toEqual([0, 1, 2, 3, 4])
    expect(new Set(drawn.map(String)).size).toBeGreaterThan(10)
    expect(of('random', 7)).toEqual(drawn[7])
  })
})

describe('stage', () => {
  let team: Team
  afterEach(() => disposeTeam(team))

  /** One stage, with every call for fresh rollouts noted. */
  const run = async (more: ConfigInput) => {
    const config = configWith(more)
    const { task, problems } = environment(config.task, config.team.agents)
    team = cloneTeam(base)
    const calls: [number, number][] = []
    const sampled: Rollouts[] = []
    const sample = async (at: number, position: number) => {
      calls.push([at, position])
      const options = { ...config.rollout, gamma: config.gamma, random: random(100 * at + position) }
      sampled.push(await rollout(task, team, problems('train', 6, random(at)), options))
      return sampled.at(-1)!
    }
    const records: UpdateRecord[] = []
    const states: StageState[] = []
    const end = await stage(stageStart(config, 0, await sample(0, 0)), {
      config, team, sample, onUpdate: async (done, next) => { records.push(...done); states.push(next) },
    })
    return { config, calls, sampled, records, states, end }
  }

  it('resamples after every single update with intermediate occupancy', async () => {
    const { calls, records, states, sampled, end } = await run({ order: [2, 0, 1] })
    expect(calls).toEqual([[0, 0], [0, 1], [0, 2], [1, 0]])
    expect(records.map(({ agent, position, update }) => [agent, position, update])).toEqual([[2, 0, 1], [0, 1, 2], [1, 2, 3]])
    expect(states.map(({ rollouts }) => sampled.indexOf(rollouts))).toEqual([1, 2, 3])
    expect(end).toBe(states[2])
    expect(end).toMatchObject({ stage: 1, position: 0, steps: [] })
    expect(records.every(({ improvement }) => improvement !== null)).toBe(true)
    expect(records.map(({ stageCertificate }) => stageCertificate === null)).toEqual([true, true, false])
    // Within a stage the problems stay; the next stage has others.
    expect(sampled[1].problems).toEqual(sampled[0].problems)
    expect(sampled[3].problems).not.toEqual(sampled[0].problems)
  })

  it('keeps the rollouts of the start with stale occupancy', async () => {
    const { calls, records, states, sampled } = await run({ method: 'stale' })
    expect(calls).toEqual([[0, 0], [1, 0]])
    expect(states.map(({ rollouts }) => sampled.indexOf(rollouts))).toEqual([0, 0, 1])
    expect(records.map(({ improvement }) => improvement)).toEqual([null, null, null])
    expect(records.map(({ tokens, rollouts }) => [tokens > 0, rollouts])).toEqual([[false, 0], [false, 0], [true, 24]])
    expect(records[2].stageCertificate!.improvement.estimate).toEqual(expect.any(Number))
  })

  it('resamples before every second update where asked to, and its certificate knows which rollouts are shared', async () => {
    const { calls, states, sampled, records } = await run({ method: { resampleEvery: 2 } })
    expect(calls).toEqual([[0, 0], [0, 2], [1, 0]])
    expect(states.map(({ rollouts }) => sampled.indexOf(rollouts))).toEqual([0, 1, 2])
    expect(records.map(({ improvement }) => improvement === null)).toEqual([true, true, false])
    expect(states[1].steps.map(({ fresh }) => fresh)).toEqual([true, false])
  })

  it('updates all agents at once where the method is joint', async () => {
    const { calls, records, states, end } = await run({ method: 'joint' })
    expect(calls).toEqual([[0, 0], [1, 0]])
    expect(records.map(({ agent, update }) => [agent, update])).toEqual([[0, 1], [1, 2], [2, 3]])
    expect(states).toHaveLength(1)
    expect(end).toMatchObject({ stage: 1, position: 0 })
    expect(records.map(({ stageCertificate }) => stageCertificate === null)).toEqual([true, true, false])
  })

  it.each(['happo', 'importance'])('%s: keeps the ratio of what has moved, and corrects for it', async (method) => {
    const { records, states } = await run({ method })
    expect(records[0].weights).toMatchObject({ essPerRollout: 1, max: 1 })
    expect(records[1].weights!.essPerRollout).toBeLessThan(1)
    const [first, second] = states
    expect(first.logRatios.some((log) => log !== 0)).toBe(true)
    expect(second.logRatios).not.toEqual(first.logRatios)
    expect(states[2].logRatios.every((log) => log === 0)).toBe(true)
  })

  it('leaves frozen agents alone', async () => {
    const { records, end } = await run({ team: { frozen: [1] } })
    expect(records.map(({ agent }) => agent)).toEqual([0, 2])
    expect([...team.agents[1].theta.dataSync()]).toEqual([...base.agents[1].theta.dataSync()])
    expect(end.stage).toBe(1)
  })

  it('changes the agent whose turn it is, and no other', async () => {
    const before = base.agents.map(({ theta }) => [...theta.dataSync()])
    const { records } = await run({})
    team.agents.forEach(({ theta, beta }, i) => {
      const record = records.find(({ agent }) => agent === i)!
      expect([...theta.dataSync()].join() === before[i].join()).toBe(record.scale === 0)
      expect(beta).toBe(record.nextBeta)
    })
    expect(records.some(({ scale }) => scale > 0)).toBe(true)
  })

  it('measures improvements as differences of the returns before and after', async () => {
    const { records, sampled } = await run({})
    const mean = ({ episodes }: Rollouts) => episodes.reduce((sum, episode) => sum + episode.return / episodes.length, 0)
    records.forEach(({ improvement }, i) => expect(improvement!.estimate).toBeCloseTo(mean(sampled[i + 1]) - mean(sampled[i]), 12))
    expect(records[2].stageCertificate!.improvement.estimate).toBeCloseTo(mean(sampled[3]) - mean(sampled[0]), 12)
  })
})

describe('certify', () => {
  const steps = [
    { surrogate: 0.3, zeta: 0.01, radius: 0.02, rho: 0.4, fresh: true }, { surrogate: 0.1, zeta: 0, radius: 0.005, rho: 0.2, fresh: true },
  ]
  const constants = { gamma: 0.5, aMax: 1 }

  it('is Theorem 3.4 for the update, 3.6 for the stage, and the active-mass certificate beside them', () => {
    const { update, stage } = certify(steps, constants)
    expect(update.bound).toBeCloseTo(updateImprovementBound({ ...constants, ...steps[1] }).bound, 12)
    expect(update.activeMass).toBeCloseTo(activeMassBound({ ...constants, steps: [steps[1]] }).bound, 12)
    expect(stage.bound).toBeCloseTo(stageImprovementBound({ ...constants, steps }).bound, 12)
    // c = √2 · 0.5 / 0.25; by hand once.
    expect(stage.bound).toBeCloseTo(0.4 - 2 * Math.SQRT2 * (Math.sqrt(0.02) + Math.sqrt(0.005)) - 0.02, 12)
    expect(stage.activeMass).toBeGreaterThan(stage.bound)
  })

  const stale = steps.map((step, i) => ({ ...step, fresh: i === 0 }))

  it('is Theorem 3.7 with stale occupancy: the second update pays for the first one’s shift too', () => {
    const { update, stage } = certify(stale, constants)
    expect(stage.bound).toBeCloseTo(staleStageBoundUnderStaleError({
      ...constants, steps: steps.map(({ zeta, ...step }) => ({ ...step, zetaStale: zeta })),
    }).bound, 12)
    expect(update.bound).toBeCloseTo(0.1 - 2 * Math.SQRT2 * (Math.sqrt(0.02) + Math.sqrt(0.005)), 12)
  })
})

describe('trainTeam', () => {
  const withoutSeconds = (record: UpdateRecord): unknown => ({ ...record, seconds: undefined })
  const train = async (more: ConfigInput = {}, signal?: AbortSignal) => {
    const team = cloneTeam(base)
    const records: unknown[] = []
    const evaluations: EvaluationRecord[] = []
    const states: StageState[] = []
    const end = await trainTeam(configWith(more), team, {
      signal,
      onUpdate: (record) => void records.push(withoutSeconds(record)),
      onEvaluation: (record) => void evaluations.push(record),
      onState: (state) => void states.push(state),
    })
    const theta = team.agents.map(({ theta }) => [...theta.dataSync()])
    disposeTeam(team)
    return { records, evaluations, states, end, theta }
  }

  it('gives the same log and the same parameters for the same seed, others for another', async () => {
    const first = await train()
    expect(await train()).toEqual(first)
    expect((await train({ seed: 1 })).records).not.toEqual(first.records)
  })

  it('evaluates before, on the way and after, always on the same problems', async () => {
    const { evaluations } = await train({ stages: 3 })
    expect(evaluations.map(({ stage, update }) => [stage, update])).toEqual([[0, 0], [2, 6], [3, 9]])
    expect((await train({ stages: 0 })).evaluations).toHaveLength(1)
  })

  it('goes on from any state as if it had not stopped', async () => {
    const whole = await train({ method: 'stale' })
    const config = configWith({ method: 'stale' })
    const team = cloneTeam(base)
    const parts: unknown[] = []
    // Stop and go on after every single update.
    let state: StageState | undefined
    while (!state || state.stage < 2) {
      const stop = new AbortController()
      state = await trainTeam(config, team, {
        from: state && JSON.parse(JSON.stringify(state)) as StageState,
        signal: stop.signal,
        onUpdate: (record) => { parts.push(withoutSeconds(record)); stop.abort() },
      })
    }
    disposeTeam(team)
    expect(parts).toEqual(whole.records)
  })

  it('keeps the number of tensors flat', async () => {
    const team = cloneTeam(base)
    const counts: number[] = []
    await trainTeam(configWith({ stages: 3 }), team, { onUpdate: () => void counts.push(tf.memory().numTensors) })
    expect(new Set(counts).size).toBe(1)
    disposeTeam(team)
  })
})
