import { beforeAll, describe, expect, it } from 'vitest'
import { parseRelayProblem, relay, relayConfig } from '../../src/tasks/relay.js'
import type { Task } from '../../src/tasks/task.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { charTokenizer } from '../../src/train/charTokenizer.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { environment } from '../../src/train/environment.js'
import type { Policy, TokenBatch } from '../../src/train/policy.js'
import { majority, protocols, type ProtocolOptions, type ProtocolResult } from '../../src/train/protocols.js'
import { disposeTeam, type Agent, type Team } from '../../src/train/team.js'
import { plainVoice } from '../../src/train/voice.js'
import { startTeam } from '../../src/train/startTeam.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'
import { sharedPath } from '../shared.js'

const tokenizer = charTokenizer('0123456789+-*=;?')
const end = tokenizer.encode(';')[0]
const voice = plainVoice({ ...tokenizer, endToken: end })
const problems = ['1+1+1+0=', '4+4+4+0='].map((text) => parseRelayProblem(text, 10)) // 3 and 2
const task = relay(relayConfig.parse({ agents: 3 })) as unknown as Task

/** What an agent says on a context, in order, again and again; and log π of a digit on a context, that of the end being 0. */
interface Script {
  readonly says: (context: string, time: number) => string
  readonly logProb?: (context: string, digit: string) => number
}
/** @returns the team, and who was asked to speak on which context */
const scripted = (scripts: readonly Script[]): { team: Team; asked: [agent: number, context: string][] } => {
  const asked: [number, string][] = []
  const agents = scripts.map(({ says, logProb = () => -1 }, agent): Agent => {
    const times = new Map<string, number>()
    const policy = {
      layout: [], vocabulary: tokenizer.vocabulary,
      sample: (_: unknown, prompts: readonly number[][]) => Promise.resolve(prompts.map((prompt) => {
        const context = tokenizer.decode(prompt)
        asked.push([agent, context])
        const time = times.get(context) ?? 0
        times.set(context, time + 1)
        const digit = says(context, time)
        const logProbs = [logProb(context, digit), 0]
        return { tokens: [...tokenizer.encode(digit), end], logProbs, samplingLogProbs: logProbs }
      })),
      logProbs: (_: unknown, { ids, places, picks }: TokenBatch) => {
        const [rows, at, chosen] = [ids.arraySync(), places.arraySync(), picks.arraySync()]
        const length = ids.shape[1]
        return tf.tensor1d(at.map((place, m) => {
          const token = chosen[m][1]
          return token === end ? 0 : logProb(tokenizer.decode(rows[Math.floor(place / length)].slice(0, (place % length) + 1)), tokenizer.decode([token]))
        }))
      },
    } as unknown as Policy
    return { policy, voice, theta: tf.tensor1d([0]), optimiser: { steps: 0, first: tf.tensor1d([0]), second: tf.tensor1d([0]) }, beta: 0, delta: 1 }
  })
  return { team: { agents, router: [0, 1, 2] }, asked }
}
const always = (digit: string): Script => ({ says: () => digit })
const run = async (team: Team, options: Partial<ProtocolOptions> = {}): Promise<Record<string, ProtocolResult>> => {
  const all = await protocols(task, team, problems, { temperature: 1, maxTokens: 2, random: random(1), bootstrap: random(2), ...options })
  return Object.fromEntries(all.map((each) => [each.protocol, each]))
}

beforeAll(async () => { await initEngine() })

it('majority: the most frequent answer, of equal ones the first', () => {
  expect(majority(['a', 'b', 'b'])).toBe(1)
  expect(majority(['b', 'a', 'a', 'b'])).toBe(0)
  expect(majority(['x'])).toBe(0)
})

it('majority: as the task compares answers; one without an answer agrees with none', () => {
  const agree = (a: string, b: string): boolean => a !== '' && b !== '' && Number(a) === Number(b)
  expect(majority(['', '', '', '7', '0.5', '1/2', '.50'], agree)).toBe(4)
  expect(majority(['', ''], agree)).toBe(0)
})

describe('budget', () => {
  it('is met by as many episodes and debates as come nearest to it', async () => {
    const { team } = scripted([always('1'), always('2'), always('3')])
    // An episode has 3 messages of 2 tokens; a debate 3 agents with 3 messages alone and one after reading.
    for (const [budget, N, M] of [[undefined, 8, 2], [68, 11, 3], [59, 10, 2], [5, 1, 1]] as const) {
      const { once, majority, 'role-play': roles, debate } = await run(team, { budget })
      expect([once, majority, roles, debate].map(({ n, tokens }) => [n, tokens])).toEqual([[1, 6], [N, 6 * N], [N, 6 * N], [M, 24 * M]])
    }
    disposeTeam(team)
  })
})

describe('selection among N', () => {
  // The last agent says in turn 2, 2, 3, 5, with rising confidence; 3 is right of the first problem, 2 of the second.
  const last: Script = { says: (_, time) => ['2', '2', '3', '5'][time % 4], logProb: (_, digit) => -1 / (Number(digit) + 1) }
  const quiet: Script = { says: () => '0', logProb: () => -1 }
  it('best-of-n by the team’s own log-probability, majority by answers, the oracle by rewards', async () => {
    const { team } = scripted([quiet, quiet, last])
    const { once, 'best-of-n': best, 'pass-at-n': oracle, majority } = await run(team, { budget: 24 })
    expect(once.rewards).toEqual([0, 1])
    expect(best.rewards).toEqual([0, 0]) // 5
    expect(majority.rewards).toEqual([0, 1]) // 2
    expect([oracle.rewards, oracle.oracle]).toEqual([[1, 1], true])
    expect(oracle.gain.estimate).toBe(0.5)
    disposeTeam(team)
  })
})

describe('debate', () => {
  it('each agent alone; then on what the others said, in their places, it says the last message', async () => {
    const { team, asked } = scripted([always('1'), always('3'), always('3')])
    const { debate, once } = await run(team, { budget: 24 })
    expect(once.rewards).toEqual([1, 0])
    expect(debate.rewards).toEqual([1, 0])
    const first = asked.map(([agent, context]) => `${agent}|${context.split('=')[1]}`).filter((_, k) => asked[k][1].startsWith('1+1+1+0='))
    for (const alone of ['0|', '0|1;', '0|1;1;', '1|3;', '1|3;3;', '2|3;', '2|3;3;']) expect(first).toContain(alone)
    // Agent 0 hears agent 1 at turn 0 and agent 2 at turn 1, and so on, round about.
    for (const heard of ['0|3;3;', '1|3;1;', '2|1;3;']) expect(first).toContain(heard)
    disposeTeam(team)
  })

  it('the judge reads all contexts of the debate, and a message that suits one of them alone does not win', async () => {
    // Agent 0 says 9, the others 3. The judge is sure of 9 on the context that agent 0 spoke on, and of 3 on the two others.
    const scripts = (sure: number): Script[] => {
      const judge: Script = { says: () => '3', logProb: (context, digit) => (digit === '9' ? (context.endsWith('=3;3;') ? 0 : -4) : context.endsWith('=3;3;') ? sure : -1) }
      return [always('9'), always('3'), judge]
    }
    // Mean per token over contexts: 9 has (0 − 4 − 4)/6, 3 has (sure − 1 − 1)/6.
    for (const [sure, reward] of [[-5, 1], [-7, 0]] as const) {
      const { team } = scripted(scripts(sure))
      expect((await run(team, { budget: 24 }))['debate-judge'].rewards[0]).toBe(reward)
      disposeTeam(team)
    }
  })

  it('refuses a judge that is no agent, or has other tokens', async () => {
    const { team } = scripted([always('1'), always('3'), always('3')])
    await expect(run(team, { judge: 3 })).rejects.toThrow('judge: holds 3; expected an agent, 0 to 2')
    const other = { ...team, agents: team.agents.map((agent, i) => (i === 1 ? { ...agent, voice: { ...voice, text: () => 'x' } } : agent)) }
    await expect(run(other, { judge: 1 })).rejects.toThrow('agent 1 cannot write what agent 0 says')
    disposeTeam(team)
  })
})

it('role-play: every agent in one role each, another one in other episodes', async () => {
  const { team, asked } = scripted([always('1'), always('2'), always('3')])
  await run(team, { budget: 120 })
  // Contexts of episodes by the team as it is, alone and in debates hold 1;2; or one digit twice, or what `others` above says; the rest are role-plays.
  const contexts = new Set(asked.filter(([, context]) => /=\d;\d;$/.test(context)).map(([agent, context]) => context.split('=')[1] + (agent + 1)))
  for (const roles of ['1;2;3', '1;3;2', '2;1;3', '2;3;1', '3;1;2', '3;2;1']) expect(contexts).toContain(roles)
  disposeTeam(team)
})

describe('trained decoders', () => {
  const small: ConfigInput = { model: { layers: 1, hidden: 16, heads: 2, intermediate: 16 }, warmup: { steps: 30, episodes: 32 } }
  it.each([
    ['relay', { ...small, task: { name: 'relay', modulus: 3 }, team: { agents: 2 } }],
    // Games that end when the code is found.
    ['guessing', { ...small, task: { name: 'guessing', digits: 2, alphabet: 4, turns: 6 }, team: { agents: 2 } }],
    ['one agent', { ...small, task: { name: 'relay', modulus: 3, rounds: 2 }, team: { agents: 1 } }],
  ] satisfies [string, ConfigInput][])('%s: the same results for the same seed, no tensor left, selections within the oracle', async (_, input) => {
    const config = parseConfig(input)
    const { task, problems } = environment(config.task, config.team.agents)
    const team = await warmUp(config)
    const before = tf.memory().numTensors
    const drawn = problems('test', 6, random(3))
    const play = () => protocols(task, team, drawn, { temperature: 1, maxTokens: config.rollout.maxTokens, random: random(1), bootstrap: random(2) })
    const results = await play()
    expect(await play()).toEqual(results)
    expect(tf.memory().numTensors).toBe(before)
    const [once, best, oracle, vote] = results
    for (const chosen of [once, best, vote]) chosen.rewards.forEach((reward, p) => expect(reward).toBeLessThanOrEqual(oracle.rewards[p]))
    for (const { rewards } of results) for (const reward of rewards) expect([0, 1]).toContain(reward)
    disposeTeam(team)
  })
})

const models = sharedPath('models')
describe.skipIf(!models)('language models', () => {
  it('of two families: the judge reads what the other says in its own tokens', async () => {
    const config = parseConfig({
      task: { name: 'relay', modulus: 3 }, team: { agents: [{ model: `${models}/tiny-llama`, role: 'Add.' }, { model: `${models}/tiny-qwen3` }] }, rollout: { maxTokens: 3 },
    })
    const { task, problems } = environment(config.task, config.team.agents)
    const team = await startTeam(config)
    const results = await protocols(task, team, problems('test', 2, random(3)), { temperature: 1, maxTokens: 3, batch: 4, budget: 20, random: random(1), bootstrap: random(2) })
    expect(results.map(({ protocol }) => protocol)).toContain('debate-judge')
    disposeTeam(team)
  })
})
