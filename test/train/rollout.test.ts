import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig } from '../../src/train/config.js'
import { environment } from '../../src/train/environment.js'
import { evaluateTeam } from '../../src/train/evaluateTeam.js'
import { messagesOf, microBatches } from '../../src/train/messages.js'
import { acting } from '../../src/train/objective.js'
import { byProblem, rollout, sampledTokens, type RolloutOptions } from '../../src/train/rollout.js'
import { disposeTeam, type Team } from '../../src/train/team.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'

const config = parseConfig({
  team: { agents: 3, router: [2, 0, 1], shared: false },
  model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 },
  warmup: { steps: 0 },
})
const { task, problems } = environment(config.task, 3)
const options = (seed: number, more: Partial<RolloutOptions> = {}): RolloutOptions =>
  ({ group: 4, temperature: 1, maxTokens: 2, gamma: 0.5, random: random(seed), ...more })

let team: Team
beforeAll(async () => {
  await initEngine()
  team = await warmUp(config)
})
afterAll(() => disposeTeam(team))

describe('rollout', () => {
  it('plays G episodes of each problem, the router’s agent at each turn, each on the whole context so far', async () => {
    const posed = problems('train', 5, random(1))
    const played = await rollout(task, team, posed, options(2))
    expect(played.problems).toEqual(posed.map(({ id }) => id))
    expect(played.episodes.map(({ problem }) => problem)).toEqual([0, 1, 2, 3, 4].flatMap((p) => [p, p, p, p]))
    for (const { messages, problem, context, reward, return: discounted } of played.episodes) {
      expect(messages.map(({ agent }) => agent)).toEqual([2, 0, 1])
      expect(messages.map(({ turn }) => turn)).toEqual([0, 1, 2])
      let state = task.start(posed[problem])
      for (const { agent, prompt, read, tokens, logProbs, samplingLogProbs, reward } of messages) {
        const { voice } = team.agents[agent]
        expect(voice.text(prompt)).toBe(state.context.replace(/;$/, ''))
        expect(context.slice(0, read)).toBe(state.context)
        expect([logProbs.length, samplingLogProbs.length]).toEqual([tokens.length, tokens.length])
        state = task.step(state, voice.text(tokens))
        expect(reward).toBe(state.reward)
      }
      expect(reward).toBe(state.reward)
      expect(discounted).toBeCloseTo(0.25 * reward, 12)
    }
    expect(sampledTokens(played)).toBe(played.episodes.flatMap(({ messages }) => messages.flatMap(({ tokens }) => tokens)).length)
  })

  it('is the same for the same seed, and another for another', async () => {
    const posed = problems('train', 3, random(1))
    const first = await rollout(task, team, posed, options(2))
    expect(await rollout(task, team, posed, options(2))).toEqual(first)
    expect(await rollout(task, team, posed, options(3))).not.toEqual(first)
  })

  it.each([1, 0.6])('at temperature %d the sampling log-probabilities are those of the acting policy', async (temperature) => {
    const played = await rollout(task, team, problems('train', 4, random(1)), options(2, { temperature }))
    for (let agent = 0; agent < 3; agent++) {
      const messages = messagesOf(played, agent)
      const [{ batch }] = microBatches(messages, null)
      const { policy, theta } = team.agents[agent]
      const computed = await tf.tidy(() => acting(policy, theta, batch.tokens, temperature, false).logProbs).data()
      for (const { episode, turn, distinct } of messages.occurrences) {
        const [from] = messages.spans[distinct]
        played.episodes[episode].messages[turn].samplingLogProbs.forEach((logProb, u) => expect(computed[from + u]).toBeCloseTo(logProb, 4))
      }
      tf.dispose(batch)
    }
  })

  it('leaves no tensor behind', async () => {
    const before = tf.memory().numTensors
    await rollout(task, team, problems('train', 3, random(1)), options(5))
    expect(tf.memory().numTensors).toBe(before)
  })
})

it('byProblem averages over the group', async () => {
  const played = await rollout(task, team, problems('train', 2, random(1)), options(2))
  const means = byProblem(played, ({ messages }) => messages[0].tokens.length)
  expect(means[1]).toBe(played.episodes.slice(4).reduce((sum, { messages }) => sum + messages[0].tokens.length, 0) / 4)
})

it('evaluateTeam plays each problem once and knows its interval', async () => {
  const posed = problems('test', 50, random(4))
  const evaluate = () => evaluateTeam(task, team, posed, { temperature: 1, maxTokens: 2, random: random(1), bootstrap: random(2) })
  const { rewards, reward, turns, problems: count } = await evaluate()
  expect([count, rewards.length, turns]).toEqual([50, 50, 3])
  expect(reward.estimate).toBeCloseTo(rewards.reduce((a, b) => a + b) / 50, 12)
  expect(reward.low).toBeLessThanOrEqual(reward.estimate)
  expect(reward.high).toBeGreaterThanOrEqual(reward.estimate)
  expect(await evaluate()).toEqual({ rewards, reward, turns, problems: count, tokens: expect.any(Number) })
})
