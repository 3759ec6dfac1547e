import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig } from '../../src/train/config.js'
import { disposeTeam, type Team } from '../../src/train/team.js'
import { tokenShifts } from '../../src/train/tokenShifts.js'
import { warmUp } from '../../src/train/warmup.js'

const config = parseConfig({
  team: { agents: 2 },
  task: { name: 'relay', rounds: 1 },
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  warmup: { steps: 30, episodes: 64 },
  rollout: { prompts: 16, group: 8 },
  objective: { steps: 10, learningRate: 0.01 },
  trustRegion: { delta: 0.01 },
})
let team: Team
beforeAll(async () => {
  await initEngine()
  team = await warmUp(config)
})
afterAll(() => disposeTeam(team))

describe('tokenShifts', () => {
  it('the proposed update leaves its region, the kept one does not and moves tokens less; nothing else changes or stays behind', async () => {
    const before = { tensors: tf.memory().numTensors, theta: await team.agents[0].theta.data() }
    const { tokens, delta, proposedKl, keptKl, agent } = await tokenShifts(config, team)
    expect(tf.memory().numTensors).toBe(before.tensors)
    expect(await team.agents[0].theta.data()).toEqual(before.theta)
    expect([agent, delta]).toEqual([0, 0.01])
    expect(proposedKl).toBeGreaterThan(delta)
    expect(keptKl).toBeLessThanOrEqual(delta)
    expect(keptKl).toBeGreaterThan(0)
    const weight = (of: (token: (typeof tokens)[number]) => number): number => tokens.reduce((sum, token) => sum + token.count * of(token), 0)
    expect(weight(({ kept }) => Math.abs(kept))).toBeLessThan(weight(({ proposed }) => Math.abs(proposed)))
    // every token that the agent said is counted: at least one a message, 16 · 8 episodes of one message
    expect(weight(() => 1)).toBeGreaterThanOrEqual(128)
    expect(tokens.every(({ proposed, kept }) => Number.isFinite(proposed) && Number.isFinite(kept))).toBe(true)
  })
})
