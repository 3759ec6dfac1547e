import { describe, expect, it } from 'vitest'
import { advantagesOf } from '../../src/train/advantage.js'
import { parseConfig } from '../../src/train/config.js'
import { environment, limitsOf } from '../../src/train/environment.js'
import { refilled } from '../../src/train/refill.js'
import { returnsOf, rewardsOf, sampledEpisodes, sampledTokens, type Message, type Rollouts } from '../../src/train/rollout.js'
import { random } from '../../src/util/random.js'

/** Two episodes a problem, of one message of three tokens each. */
const rollouts = (name: string, returns: readonly (readonly [number, number])[]): Rollouts => ({
  problems: returns.map((_, p) => `${name}${p}`),
  group: 2,
  episodes: returns.flatMap((pair, problem) => pair.map((value) =>
    ({ problem, messages: [{ tokens: [1, 2, 3] } as unknown as Message], context: '', reward: 2 * value, return: value }))),
})

describe('refilled', () => {
  const first = rollouts('a', [[0, 1], [1, 1], [0, 0], [1, 0]])

  it('keeps the groups that teach something, and fills up with further ones, round after round', async () => {
    const asked: [number, number][] = []
    const full = await refilled(first, 5, (count, round) => {
      asked.push([count, round])
      return Promise.resolve(rollouts(`r${round}-`, round === 1 ? [[1, 1], [0.5, 1]] : [[0, 1]]))
    })
    expect(asked).toEqual([[2, 1], [1, 2]])
    expect(full.problems).toEqual(['a0', 'a3', 'r1-1', 'r2-0'])
    expect(full.episodes.map(({ problem }) => problem)).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
    expect(full.episodes.map((episode) => episode.return)).toEqual([0, 1, 1, 0, 0.5, 1, 0, 1])
    expect(advantagesOf(full, { normalise: true, epsilon: 0, clip: null }).used.every((a) => a !== 0)).toBe(true)
  })

  it('estimates from the problems that were drawn at first, dropped ones too, and counts all tokens', async () => {
    const full = await refilled(first, 1, (count) => Promise.resolve(rollouts('b', Array.from({ length: count }, () => [0, 1] as const))))
    expect(returnsOf(full)).toEqual([0.5, 1, 0, 0.5])
    expect(rewardsOf(full)).toEqual([1, 2, 0, 1])
    expect(sampledEpisodes(full)).toBe(12)
    expect(sampledTokens(full)).toBe(36)
    expect(returnsOf(first)).toEqual([0.5, 1, 0, 0.5])
  })

  it('asks no more often than it may, and makes do with fewer problems', async () => {
    let rounds = 0
    const full = await refilled(first, 3, (count) => (rounds++, Promise.resolve(rollouts('b', Array.from({ length: count }, () => [1, 1] as const)))))
    expect(rounds).toBe(3)
    expect(full.problems).toEqual(['a0', 'a3'])
    expect(sampledTokens(full)).toBe(6 * (4 + 2 + 2 + 2))
  })

  it('leaves rollouts alone that teach nothing anywhere', async () => {
    const equal = rollouts('a', [[1, 1], [0, 0]])
    const full = await refilled(equal, 2, () => Promise.resolve(rollouts('b', [[0, 0], [0, 0]])))
    expect(full.episodes).toBe(equal.episodes)
    expect(sampledEpisodes(full)).toBe(12)
  })

  // 4000 problems, solved with probability 0.3 by each of two episodes; the improvement of nothing is 0. Kept groups alone would say 0.5.
  it('is unbiased for J where what is kept is not', async () => {
    const r = random(5)
    const draw = (count: number) => rollouts('p', Array.from({ length: count }, () => [Number(r.next() < 0.3), Number(r.next() < 0.3)] as const))
    const full = await refilled(draw(4000), 2, (count) => Promise.resolve(draw(count)))
    const mean = (values: readonly number[]) => values.reduce((a, b) => a + b) / values.length
    expect(mean(full.episodes.map((episode) => episode.return))).toBe(0.5)
    // Five standard errors: √(0.3 · 0.7 / 8000) = 0.0051.
    expect(Math.abs(mean(returnsOf(full)) - 0.3)).toBeLessThan(0.026)
  })
})

describe('overlong', () => {
  const lengths = [4, 6, 7, 8, 10, 10]
  const played: Rollouts = {
    problems: ['p'], group: 6,
    episodes: lengths.map((length, e) => ({
      problem: 0, context: '', reward: e % 2, return: e % 2, messages: [{ tokens: new Array<number>(length).fill(1), reward: e % 2, turn: 0 } as unknown as Message],
    })),
  }
  // Longest 10, buffer 4: nothing up to 6 tokens, then a quarter of the penalty each.
  const lost = [0, 0, 0.25, 0.5, 1, 1].map((part) => 0.8 * part)
  const inputs = { gamma: 0.5, maxTokens: 10 }
  const options = { normalise: false, epsilon: 0, clip: null, overlong: { buffer: 4, penalty: 0.8 } }

  it('is taken from the returns that advantages are made of, and from no other', () => {
    const { used, centred } = advantagesOf(played, options, inputs)
    const shaped = lengths.map((_, e) => (e % 2) - lost[e])
    const mean = shaped.reduce((a, b) => a + b) / 6
    shaped.forEach((value, e) => expect(used[e]).toBeCloseTo(value - mean, 12))
    expect(centred).toEqual(advantagesOf(played, { ...options, overlong: null }, inputs).centred)
  })

  it('is taken from each message’s reward where there is a critic, later ones discounted', () => {
    const [late, longest] = [played.episodes[2].messages[0], played.episodes[4].messages[0]]
    const episode = { ...played.episodes[1], messages: [{ ...late, reward: 0 }, { ...longest, reward: 1 }] }
    const two: Rollouts = { problems: ['p'], group: 2, episodes: [episode, episode] }
    const { used } = advantagesOf(two, { ...options, baseline: 'value', lambda: 1 }, inputs)
    expect(used[1]).toBeCloseTo(1 - 0.8, 12)
    expect(used[0]).toBeCloseTo(-0.2 + 0.5 * (1 - 0.8), 12)
  })
})

it('a single agent in every role plays the same problems for as many turns: relay with one agent and n rounds', () => {
  const [team, single] = [parseConfig({ team: { agents: 3 } }), parseConfig({ team: { agents: 1 }, task: { name: 'relay', rounds: 3 } })]
  const [a, b] = [team, single].map((config) => environment(config.task, config.team.agents))
  expect(a.problems('train', 50, random(1))).toEqual(b.problems('train', 50, random(1)))
  expect(limitsOf(single.task, 1)).toEqual(limitsOf(team.task, 3))
  expect([single.gamma, single.team.router]).toEqual([team.gamma, [0]])
})
