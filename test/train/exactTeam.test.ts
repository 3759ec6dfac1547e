import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseRelayProblem } from '../../src/tasks/relay.js'
import { guessingProblem } from '../../src/tasks/guessing.js'
import type { EpisodeState, Problem, Task } from '../../src/tasks/task.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { studentInterval } from '../../src/theory/intervals.js'
import { advantagesOf } from '../../src/train/advantage.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type Config } from '../../src/train/config.js'
import { contextSpace, type ContextSpace } from '../../src/train/contextSpace.js'
import { environment } from '../../src/train/environment.js'
import { exactStage } from '../../src/train/exactStage.js'
import { exactReturn, exactTeam, readings, tokenKl, visits, withAgentOf, type ExactTeam } from '../../src/train/exactTeam.js'
import { activeMass, divergence, surrogate, type TokenValues } from '../../src/train/measure.js'
import { countMessages, messageKl, messageProbabilities, messageTree } from '../../src/train/messageTree.js'
import { messagesOf } from '../../src/train/messages.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import { byProblem, rollout, type Rollouts } from '../../src/train/rollout.js'
import { stage, stageStart } from '../../src/train/stage.js'
import { cloneTeam, disposeTeam, promptTokens, speak, speaker, type Team } from '../../src/train/team.js'
import { warmUp } from '../../src/train/warmup.js'
import { random, type Random } from '../../src/util/random.js'

/** A game small enough to enumerate, a team for it, and the same team after one update of one agent (`agent`). */
interface Game {
  readonly config: Config
  readonly task: Task
  readonly all: readonly Problem[]
  readonly space: ContextSpace
  readonly agent: number
  readonly before: Team
  readonly after: Team
  readonly exact: { readonly before: ExactTeam; readonly after: ExactTeam }
}

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const model = { layers: 1, hidden: 16, heads: 2, intermediate: 16 }

/** All 108 problems of two operations modulo 3. */
const relayTexts = range(3).flatMap((a) => ['+', '-'].flatMap((o) => range(3).flatMap((b) => ['+', '-'].flatMap((p) => range(3).map((c) => `${a}${o}${b}${p}${c}=`)))))

const play = async (config: Config, all: readonly Problem[], agent: number): Promise<Game> => {
  const { task } = environment(config.task, config.team.agents)
  const before = await warmUp(config)
  const after = cloneTeam(before)
  // Any update will do; this one is large enough to be told from noise.
  const noise = random(1)
  const { theta } = after.agents[agent]
  after.agents[agent].theta = tf.add(theta, tf.tensor1d(Float32Array.from({ length: theta.size }, () => 0.05 * noise.normal())))
  theta.dispose()
  const space = contextSpace(task, before, all, { gamma: config.gamma, maxTokens: config.rollout.maxTokens })
  const of = (team: Team) => exactTeam(space, team, { temperature: config.rollout.temperature })
  return { config, task, all, space, agent, before, after, exact: { before: await of(before), after: await of(after) } }
}

let relay: Game
/** Episodes end when the code is found, so how often an agent speaks is a matter of chance. */
let guessing: Game
beforeAll(async () => {
  await initEngine()
  relay = await play(
    parseConfig({ model, task: { name: 'relay', modulus: 3 }, team: { agents: 2 }, warmup: { steps: 80, episodes: 64 }, rollout: { temperature: 1.3 } }),
    relayTexts.map((text) => parseRelayProblem(text, 3)), 1)
  guessing = await play(
    parseConfig({ model, task: { name: 'guessing', digits: 1, alphabet: 3, repeats: true, turns: 3 }, team: { agents: 2, shared: false }, warmup: { steps: 40, episodes: 32 } }),
    ['0', '1', '2'].map(guessingProblem), 0)
})
afterAll(() => [relay, guessing].forEach(({ before, after }) => [before, after].forEach(disposeTeam)))

const rolled = ({ task, config, all }: Game, team: Team, { seed, group, problems }: { seed: number; group: number; problems?: number }): Promise<Rollouts> => {
  const random_ = random(seed)
  const drawn = problems === undefined ? all : range(problems).map(() => all[random_.int(all.length)])
  return rollout(task, team, drawn, { ...config.rollout, group, gamma: config.gamma, random: random_ })
}

/**
 * The mean of 30 independent samples against an exact value: within 4.7 standard errors. Under the hypothesis that the expectation is the exact value,
 * |t| with 29 degrees of freedom is larger with probability 6e-5.
 */
const expectMean = (samples: readonly number[], exact: number): void => {
  const mean = samples.reduce((sum, x) => sum + x, 0) / samples.length
  const variance = samples.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (samples.length - 1)
  expect(Math.abs(mean - exact), `mean ${mean}, exact ${exact}`).toBeLessThanOrEqual(4.7 * Math.sqrt(variance / samples.length) + 1e-6)
}

describe('messageTree', () => {
  const row = (V: number) => fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { minLength: V, maxLength: V })
    .map((weights) => weights.map((w) => w / weights.reduce((sum, x) => sum + x, 0)))

  it('holds every message once, as many as are counted', () => {
    for (const [vocabulary, maxTokens] of [[1, 1], [2, 3], [3, 1], [3, 4], [5, 3]]) {
      const { messages } = messageTree({ vocabulary, maxTokens }, (tokens) => tokens.at(-1) === 0)
      expect(messages).toHaveLength(countMessages({ vocabulary, maxTokens }))
      expect(new Set(messages.map(String)).size).toBe(messages.length)
      for (const tokens of messages) {
        expect(tokens.length).toBeLessThanOrEqual(maxTokens)
        expect(tokens.indexOf(0) === tokens.length - 1 || (!tokens.includes(0) && tokens.length === maxTokens)).toBe(true)
      }
    }
    expect(countMessages({ vocabulary: 18, maxTokens: 2 })).toBe(1 + 17 * 18)
  })

  it('multiplies probabilities, and its KL is that of the messages (Lemma 3.2)', () => {
    const tree = messageTree({ vocabulary: 3, maxTokens: 3 }, (tokens) => tokens.at(-1) === 1)
    const rows = fc.array(row(3), { minLength: tree.prefixes.length, maxLength: tree.prefixes.length }).map((list) => Float64Array.from(list.flat()))
    fc.assert(fc.property(rows, rows, (before, after) => {
      const direct = (law: Float64Array) => tree.messages.map((tokens) =>
        tokens.reduce((p, token, u) => p * law[3 * tree.prefixes.findIndex((prefix) => prefix.join() === tokens.slice(0, u).join()) + token], 1))
      const [p, q] = [direct(before), direct(after)]
      messageProbabilities(tree, before).forEach((x, m) => expect(x).toBeCloseTo(p[m], 14))
      expect(p.reduce((sum, x) => sum + x, 0)).toBeCloseTo(1, 12)
      expect(messageKl(tree, before, after)).toBeCloseTo(p.reduce((sum, x, m) => sum + x * Math.log(x / q[m]), 0), 10)
    }), { numRuns: 50 })
  })
})

describe('contextSpace', () => {
  it('finds every context of the relay: what is said is one of m numbers, or invalid', () => {
    const { space: { mdp, contexts, effects } } = relay
    expect(contexts).toHaveLength(108 * (1 + 4))
    expect(mdp.states).toBe(contexts.length + 1)
    expect(mdp.reward).toHaveLength(4 * contexts.length + 1)
    expect(contexts.filter(({ problem }) => problem === '0+1-2=').map(({ text, turn, agent }) => [text, turn, agent]).sort()).toEqual([
      ['0+1-2=', 0, 0], ['0+1-2=0;', 1, 1], ['0+1-2=1;', 1, 1], ['0+1-2=2;', 1, 1], ['0+1-2=?;', 1, 1],
    ])
    const s = contexts.findIndex(({ text }) => text === '0+1-2=0;')
    const actions = range(4).map((a) => mdp.actionStart[s] + a)
    expect(actions.map((k) => [effects[k], mdp.reward[k], mdp.next[k]]).sort()).toEqual(
      ['0', '1', '2', '?'].map((said) => [`0+1-2=0;${said};`, said === '2' ? 1 : 0, mdp.states - 1]))
  })

  it('counts a problem as often as it is given, and reads an equal context once', () => {
    const { task, before, config, all } = guessing
    const space = contextSpace(task, before, [all[0], all[1], all[0], all[0]], { gamma: config.gamma, maxTokens: config.rollout.maxTokens })
    expect([...space.mdp.mu].filter((p) => p > 0)).toEqual([0.75, 0.25])
    // Both games begin alike. An agent reads what was answered, so few contexts are shared later.
    expect(space.contexts.filter(({ turn, prompt }) => turn === 0 && prompt === 0)).toHaveLength(2)
    expect(space.agents[0].prompts.length).toBeLessThan(space.contexts.filter(({ agent }) => agent === 0).length)
  })

  it('refuses more than its limit before it plays, and says how much there is', () => {
    const { task, before, all } = relay
    const make = (maxTokens: number, limit?: number) => () => contextSpace(task, before, all, { gamma: 0.5, maxTokens, limit })
    expect(make(2, 108 * 307 - 1)).toThrow('contexts: 108 at turn 0, 307 messages of up to 2 tokens in each: 33,156 to play so far; at most 33,155')
    expect(make(2, 108 * 307)).toThrow('432 at turn 1')
    expect(make(2, 540 * 307)).not.toThrow()
    expect(make(1000)).toThrow('at most 4,194,304')
    expect(() => contextSpace(task, before, [], { gamma: 0.5, maxTokens: 2 })).toThrow('problems: holds none')
  })
})

/** What a team says in a state: every token sequence and its probability, from a forward pass over each whole message. */
const everyMessage = async ({ config: { rollout: { maxTokens, temperature } } }: Game, { policy, theta, voice: { endToken } }: Team['agents'][number], prompt: number[]) => {
  const messages: number[][] = []
  const grow = (tokens: number[]): void => {
    if (tokens.at(-1) === endToken || tokens.length === maxTokens) messages.push(tokens)
    else for (let token = 0; token < policy.vocabulary; token++) grow([...tokens, token])
  }
  grow([])
  const batch = tokenBatch(messages.map((tokens) => ({ ids: [...prompt, ...tokens], marked: [[prompt.length, prompt.length + tokens.length]] })))
  const logs = tf.tidy(() => tf.logSoftmax(tf.div(policy.logDistributions(theta, batch), temperature)))
  const rows = await logs.array() as number[][]
  tf.dispose({ batch, logs })
  let at = 0
  return messages.map((tokens) => ({ tokens, probability: Math.exp(tokens.reduce((sum, token) => sum + rows[at++][token], 0)) }))
}

/** E Σ_t factor^t r_t from a state on, over all sequences of messages. */
const bruteForce = async (game: Game, team: Team, problem: Problem, state: EpisodeState, factor: number): Promise<number> => {
  const index = speaker(team, state.turn)
  const agent = team.agents[index]
  let sum = 0
  const later = new Map<string, number>()
  for (const { tokens, probability } of await everyMessage(game, agent, promptTokens(team, index, game.task, problem, state))) {
    const after = speak(game.task, state, agent, tokens)
    if (!after.done && !later.has(after.context)) later.set(after.context, await bruteForce(game, team, problem, after, factor))
    sum += probability * (after.reward + (after.done ? 0 : factor * later.get(after.context)!))
  }
  return sum
}

describe('exactTeam', () => {
  it('has the return that all message sequences give, discounted and not', async () => {
    for (const [game, problems] of [[relay, [relay.all[7], relay.all[50]]], [guessing, guessing.all]] as const) {
      const { task, config: { gamma, rollout: { maxTokens, temperature } }, after } = game
      const space = contextSpace(task, after, problems, { gamma, maxTokens })
      const exact = exactReturn(space, await exactTeam(space, after, { temperature }))
      for (const [value, factor] of [[exact.J, gamma], [exact.reward, 1]]) {
        const expected = await Promise.all(problems.map((problem) => bruteForce(game, after, problem, task.start(problem), factor)))
        expect(value).toBeCloseTo(expected.reduce((sum, x) => sum + x / problems.length, 0), 6)
      }
    }
  })

  it('visits every context with the probability that an episode comes by it', () => {
    for (const { space, exact } of [relay, guessing]) {
      const all = visits(space, evaluate(space.mdp, exact.before.policy).d)
      const byTurn = range(3).map((turn) => space.contexts.reduce((sum, context, s) => (context.turn === turn ? sum + all[s] : sum), 0))
      expect(byTurn[0]).toBeCloseTo(1, 12)
      if (space === relay.space) expect(byTurn[1]).toBeCloseTo(1, 12)
      // Found at turn 0 with the probability that all three codes together are guessed, over three.
      else expect(byTurn[1]).toBeGreaterThan(0.5)
    }
  })

  it('keeps no tensors', async () => {
    const before = tf.memory().numTensors
    await exactTeam(relay.space, relay.before, { temperature: 1 })
    expect(tf.memory().numTensors).toBe(before)
  })

  it('reports its way', async () => {
    const seen: number[][] = []
    await exactTeam(guessing.space, guessing.before, { temperature: 1, onProgress: (...at) => seen.push(at) })
    const total = guessing.space.agents.reduce((sum, { prompts, tree }) => sum + prompts.length * tree.prefixes.length, 0)
    expect(seen.at(-1)).toEqual([total, total])
  })
})

describe('what rollouts estimate', () => {
  const seeds = range(40)

  it('the return: the exact one lies in the 95 % interval as often as it says', async () => {
    for (const game of [relay, guessing]) {
      const exact = exactReturn(game.space, game.exact.before)
      const runs: Rollouts[] = []
      for (const seed of seeds) runs.push(await rolled(game, game.before, { seed: 100 + seed, group: 2, problems: 80 }))
      for (const [value, of] of [[exact.J, 'return'], [exact.reward, 'reward']] as const) {
        const intervals = runs.map((rollouts) => studentInterval(byProblem(rollouts, (episode) => episode[of])))
        // 40 intervals of 95 %, the problems drawn anew each time: 8 or more miss with probability 5e-4.
        expect(intervals.filter(({ low, high }) => value < low || value > high).length).toBeLessThanOrEqual(7)
        expectMean(intervals.slice(0, 30).map(({ estimate }) => estimate), value)
      }
    }
  })

  it('active masses, the end state left out', async () => {
    const { acting, over } = exactReturn(relay.space, relay.exact.before)
    const sampled = activeMass(await rolled(relay, relay.before, { seed: 0, group: 1 }), 2, relay.config.gamma)
    // All relays have two turns: nothing is left to chance.
    sampled.forEach((rho, j) => expect(acting[j]).toBeCloseTo(rho, 12))
    expect(acting[0] + acting[1] + over).toBeCloseTo(1, 12)

    const exact = exactReturn(guessing.space, guessing.exact.before)
    const runs: Float64Array[] = []
    for (const seed of seeds.slice(0, 30)) runs.push(activeMass(await rolled(guessing, guessing.before, { seed, group: 20 }), 2, guessing.config.gamma))
    exact.acting.forEach((rho, j) => expectMean(runs.map((masses) => masses[j]), rho))
    expect(exact.acting[1]).not.toBeCloseTo(guessing.config.gamma * exact.acting[0], 2)
  })

  it('the divergence, by all estimators and readings; the surrogate; the improvement', async () => {
    for (const [game, group] of [[relay, 2], [guessing, 40]] as const) {
      const { space, exact, agent, config: { gamma } } = game
      const kl = tokenKl(space, exact.before, exact.after)
      const before = evaluate(space.mdp, exact.before.policy)
      const expected = readings(space, agent, kl, before.d)
      const stages = exactStage(space, [exact.before, withAgentOf(space, exact.before, agent, exact.after), exact.after], [agent, 1 - agent])
      expect(stages.steps[0].divergence).toEqual(expected)
      expect(stages.steps[1].divergence.occupancy).toBe(0)
      expect(expected.message).toBeGreaterThan(0.003)

      const runs = []
      for (const seed of seeds.slice(0, 30)) {
        const rollouts = await rolled(game, game.before, { seed: 1000 + seed, group })
        const messages = messagesOf(rollouts, agent)
        const values = await tokenValues(game, messages)
        const rho = activeMass(rollouts, 2, gamma)[agent]
        const measured = (['exact', 'plain', 'lowVariance'] as const).map((estimator) => divergence(messages, values, { estimator, gamma, rho }))
        const advantages = advantagesOf(rollouts, { normalise: true, epsilon: 1e-6, clip: 5 })
        const { unbiased } = surrogate(rollouts, messages, values, advantages, { gamma, ...game.config.objective })
        runs.push({ measured, unbiased })
      }
      for (const estimator of range(3)) {
        for (const reading of ['message', 'discounted', 'occupancy'] as const) expectMean(runs.map(({ measured }) => measured[estimator][reading]), expected[reading])
      }
      expectMean(runs.map(({ unbiased }) => unbiased), stages.steps[0].lSeq)
      expect(Math.abs(stages.steps[0].lSeq)).toBeGreaterThan(1e-3)
    }
  })
})

/** What an update measures on an agent's messages, between `before` and `after`. */
const tokenValues = async ({ before, after, agent, config: { rollout: { temperature } } }: Game, messages: ReturnType<typeof messagesOf>): Promise<TokenValues> => {
  const batch = tokenBatch(messages.sequences)
  const read = async (team: Team): Promise<number[][]> => {
    const { policy, theta } = team.agents[agent]
    const logs = tf.tidy(() => tf.logSoftmax(tf.div(policy.logDistributions(theta, batch), temperature)))
    const rows = await logs.array() as number[][]
    logs.dispose()
    return rows
  }
  const [p, q] = [await read(before), await read(after)]
  const tokens = messages.sequences.flatMap(({ ids, marked }) => marked.flatMap(([from, to]) => ids.slice(from, to)))
  tf.dispose(batch)
  return {
    logBehaviour: tokens.map((token, m) => p[m][token]),
    logUpdated: tokens.map((token, m) => q[m][token]),
    exact: tokens.map((_, m) => p[m].reduce((sum, log, v) => sum + Math.exp(log) * (log - q[m][v]), 0)),
  }
}

describe('exactStage', () => {
  /** One stage of Algorithm 1, with a copy of the team after every update. */
  const realStage = async (game: Game, method: 'teamtr' | 'stale', order: number[]) => {
    const config: Config = parseConfig({ ...game.config, method, order, trustRegion: { delta: 0.05 }, rollout: { ...game.config.rollout, prompts: 48, group: 4 } })
    const team = cloneTeam(game.before)
    const teams = [await exactTeam(game.space, team, config.rollout)]
    const random_: Random = random(5)
    const sample = () => rollout(game.task, team, range(48).map(() => game.all[random_.int(game.all.length)]), { ...config.rollout, gamma: config.gamma, random: random_ })
    const kept: number[] = []
    await stage(stageStart(config, 0, await sample()), {
      config, team, sample, onUpdate: async ([{ kl }]) => {
        kept.push(kl)
        teams.push(await exactTeam(game.space, team, config.rollout))
      },
    })
    disposeTeam(team)
    return { exact: exactStage(game.space, teams, order), kept, teams }
  }

  it('certifies real updates: every bound holds, in its order', async () => {
    for (const [game, method, order] of [[relay, 'teamtr', [0, 1]], [relay, 'stale', [1, 0]], [guessing, 'teamtr', [1, 0]]] as const) {
      const { exact, kept } = await realStage(game, method, [...order])
      const { measure: { improvement }, tokens, effects, steps } = exact
      expect(exact.returns[2].J - exact.returns[0].J).toBeCloseTo(improvement, 12)
      for (const certificates of [tokens, effects]) {
        for (const bound of Object.values(certificates.stage)) expect(bound!.bound).toBeLessThanOrEqual(improvement + 1e-12)
        certificates.steps.forEach(({ thm34, thm34Step, prop33 }, i) => {
          expect(thm34.bound).toBeLessThanOrEqual(steps[i].improvement)
          expect(thm34Step.bound).toBeLessThanOrEqual(steps[i].improvement)
          expect(prop33.bound).toBeLessThanOrEqual(steps[i].lSeq)
        })
        const { halfSpanTv, rangeTv, tv, activeMassChanged, activeMass, thm36, thm37Exact } = certificates.stage
        const bounds = [halfSpanTv, rangeTv, tv, activeMassChanged, activeMass, thm36].map(({ bound }) => bound)
        bounds.slice(1).forEach((bound, i) => expect(bound).toBeLessThanOrEqual(bounds[i] + 1e-12))
        expect(thm37Exact.penalty).toBeGreaterThanOrEqual(thm36.penalty)
      }
      steps.forEach((step, i) => {
        expect(step.agent).toBe(order[i])
        // An agent did move, about as far as its rollouts said.
        expect(step.divergence.message).toBeGreaterThan(0.2 * kept[i])
        expect(step.divergence.message).toBeLessThan(3 * kept[i])
        // Data processing: effects tell less than messages. (D_tok of effects, as the theory has it.)
        expect(step.dTok).toBeLessThanOrEqual(step.divergence.occupancy)
        expect(step.rhoChanged).toBeCloseTo(step.acting, 12)
        expect(tokens.stage.thm36.penalty).toBeGreaterThanOrEqual(effects.stage.thm36.penalty)
      })
      expect(steps[0].lSeq).toBe(steps[0].lStale)
      expect(exact.staleGap).toBeCloseTo(Math.abs(steps[1].lSeq - steps[1].lStale), 12)
      expect(exact.unseenDrift).toBe(steps[0].shift)
      // Of a relay's last message nobody reads anything: only agent 0 moves occupancies, and what comes after it can be stale.
      if (game === relay && order[0] === 1) expect(exact.staleGap + steps[0].shift).toBeLessThan(1e-12)
      else expect(Math.min(1e3 * exact.staleGap, steps[0].shift)).toBeGreaterThan(1e-4)
    }
  })

  it('moves one agent at a time, the others’ rows stay', async () => {
    const { teams } = await realStage(relay, 'teamtr', [1, 0])
    const { space } = relay
    const moved = (from: ExactTeam, to: ExactTeam) => new Set(space.contexts.flatMap(({ agent }, s) =>
      range(4).some((a) => from.policy[space.mdp.actionStart[s] + a] !== to.policy[space.mdp.actionStart[s] + a]) ? [agent] : []))
    expect([...moved(teams[0], teams[1])]).toEqual([1])
    expect([...moved(teams[1], teams[2])]).toEqual([0])
    expect(withAgentOf(space, teams[0], 1, teams[1]).policy).toEqual(teams[1].policy)
  })
})
