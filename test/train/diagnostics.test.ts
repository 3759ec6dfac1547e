import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EpisodeState, Problem, Task } from '../../src/tasks/task.js'
import { guessingProblem } from '../../src/tasks/guessing.js'
import { relayProblems, relayConfig, relayAnswer, type RelayProblem } from '../../src/tasks/relay.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { measureBehaviour } from '../../src/theory/stage.js'
import { rankCorrelation } from '../../src/theory/rank.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type Config, type ConfigInput } from '../../src/train/config.js'
import { contextSpace, type ContextSpace } from '../../src/train/contextSpace.js'
import { coordination } from '../../src/train/coordination.js'
import { newProbe, occupancyDrift, probeChange } from '../../src/train/diagnostics.js'
import { environment } from '../../src/train/environment.js'
import { stageBetween } from '../../src/train/exactStage.js'
import { exactTeam, withAgentOf, type ExactTeam } from '../../src/train/exactTeam.js'
import { messageProbabilities } from '../../src/train/messageTree.js'
import { rollout, type Rollouts } from '../../src/train/rollout.js'
import { runMetrics } from '../../src/train/runMetrics.js'
import { summarise } from '../../src/train/summary.js'
import type { UpdateRecord } from '../../src/train/stage.js'
import { cloneTeam, disposeTeam, type Agent, type Team } from '../../src/train/team.js'
import { trainTeam, type EvaluationRecord } from '../../src/train/trainTeam.js'
import { warmUp } from '../../src/train/warmup.js'
import { random } from '../../src/util/random.js'
import { logRatiosByHand } from './logRatios.js'

const model = { layers: 1, hidden: 16, heads: 2, intermediate: 16 }

/** `team` with an agent moved somewhere else. */
const moved = (team: Team, index: number, seed: number): Team => {
  const other = cloneTeam(team)
  const noise = random(seed)
  const { theta } = other.agents[index]
  other.agents[index].theta = tf.add(theta, tf.tensor1d(Float32Array.from({ length: theta.size }, () => 0.08 * noise.normal())))
  theta.dispose()
  return other
}

/** A game small enough to enumerate, and three teams: as it was, one agent moved, another moved too. */
interface Game {
  readonly config: Config
  readonly task: Task
  readonly all: readonly Problem[]
  readonly space: ContextSpace
  readonly teams: readonly Team[]
  readonly exact: readonly ExactTeam[]
}

const games: Game[] = []
const play = async (input: ConfigInput, all: readonly Problem[]): Promise<Game> => {
  const config = parseConfig({ model, ...input })
  const { task } = environment(config.task, config.team.agents)
  const first = await warmUp(config)
  const second = moved(first, 0, 1)
  const teams = [first, second, moved(second, 1, 2)]
  const space = contextSpace(task, first, all, { gamma: config.gamma, maxTokens: config.rollout.maxTokens })
  const exact: ExactTeam[] = []
  for (const team of teams) exact.push(await exactTeam(space, team, { temperature: 1 }))
  return { config, task, all, space, teams, exact }
}

beforeAll(async () => {
  await initEngine()
  const config = relayConfig.parse({ agents: 3, modulus: 2 })
  const some = new Map(relayProblems(config, 'train', 200, random(0)).map((problem) => [problem.id, problem as Problem]))
  games.push(
    await play({ task: { name: 'relay', modulus: 2 }, team: { agents: 3 }, warmup: { steps: 60, episodes: 64 } }, [...some.values()].slice(0, 12)),
    // Episodes end when the code is found: at other times after an update than before.
    await play({ task: { name: 'guessing', digits: 1, alphabet: 3, repeats: true, turns: 3 }, team: { agents: 2, shared: false }, warmup: { steps: 40, episodes: 32 } }, ['0', '1', '2'].map(guessingProblem)),
  )
})
afterAll(() => games.forEach(({ teams }) => teams.forEach(disposeTeam)))

const sampled = ({ task, all, config }: Game, team: Team, seed: number, group: number): Promise<Rollouts> =>
  rollout(task, team, all, { ...config.rollout, group, gamma: config.gamma, random: random(seed) })

/** 4.7 standard errors of the mean of 20: |t| with 19 degrees of freedom is larger with probability 2e-4; and the samples are the same whenever this runs. */
const expectMean = (samples: readonly number[], exact: number): void => {
  const mean = samples.reduce((sum, x) => sum + x, 0) / samples.length
  const variance = samples.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (samples.length - 1)
  expect(Math.abs(mean - exact), `mean ${mean}, exact ${exact}`).toBeLessThanOrEqual(4.7 * Math.sqrt(variance / samples.length) + 1e-6)
}
const repeats = 20

/** ‖d' − d‖₁ over message histories, token by token, and the end state: by going through all of them. */
const historyDistance = ({ space }: Game, before: ExactTeam, after: ExactTeam): number => {
  const { mdp, contexts, agents } = space
  const laws = (team: ExactTeam): Float64Array[] => contexts.map(({ agent, prompt }) => {
    const { tree } = agents[agent]
    const size = tree.prefixes.length * tree.vocabulary
    return messageProbabilities(tree, team.laws[agent].subarray(prompt * size, (prompt + 1) * size))
  })
  const [p, q] = [laws(before), laws(after)]
  const last = contexts.at(-1)!.turn // whatever is said there ends the episode
  let [distance, lost] = [0, 0]
  const walk = (s: number, atP: number, atQ: number, weight: number): void => {
    if (s === contexts.length) return
    distance += (1 - mdp.gamma) * weight * Math.abs(atP - atQ)
    lost += (1 - mdp.gamma) * weight * (atP - atQ)
    if (contexts[s].turn === last) return
    contexts[s].actionOf.forEach((action, m) => {
      walk(mdp.next[mdp.rowStart[mdp.actionStart[s] + action]], atP * p[s][m], atQ * q[s][m], weight * mdp.gamma)
    })
  }
  mdp.mu.forEach((start, s) => start > 0 && walk(s, start, start, 1))
  return distance + Math.abs(lost)
}

describe('on games that can be enumerated', () => {
  it('the surrogates of a change, on the team that it was made from and on the one just before it, and their gap, whichever agent moves first', async () => {
    for (const [game, group, order] of [[games[0], 4, [0, 1]], [games[0], 4, [1, 0]], [games[1], 40, [0, 1]]] as const) {
      const { space, exact, teams, config } = game
      const { mdp } = space
      const [mover, second] = order
      const between = cloneTeam(teams[0])
      between.agents[mover].theta.dispose()
      between.agents[mover].theta = tf.clone(teams[2].agents[mover].theta)
      const exactBetween = withAgentOf(space, exact[0], mover, exact[2])
      /** (1−γ)^-1 Σ_s d(s) Σ_a π'(a|s) A(s, a) of the second agent's change, seen from a team. */
      const surrogate = (from: ExactTeam): number => {
        const { d, A } = evaluate(mdp, from.policy)
        let sum = 0
        for (let s = 0; s < mdp.states; s++) {
          for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) sum += d[s] * (exact[2].policy[k] - exactBetween.policy[k]) * A[k]
        }
        return sum / (1 - config.gamma)
      }
      const [stale, now] = [surrogate(exact[0]), surrogate(exactBetween)]
      const [, { surrogate: measured, gap }] = measureBehaviour(stageBetween(space, exact[0], exact[2], order).stage, exact.map(() => 0).slice(0, mdp.n))
      expect([measured, gap]).toEqual([expect.closeTo(stale, 12), expect.closeTo(stale - now, 12)])
      expect(Math.abs(stale - now)).toBeGreaterThan(1e-4)
      const { policy, theta: from } = between.agents[second] as Agent
      const change = { index: second, policy, from, to: teams[2].agents[second].theta }
      const tensors = tf.memory().numTensors
      const runs = []
      for (let seed = 0; seed < repeats; seed++) {
        const probe = newProbe(await sampled(game, teams[0], seed, group), await sampled(game, between, 100 + seed, group))
        runs.push(await probeChange(probe, change, config))
      }
      expect(tf.memory().numTensors).toBe(tensors)
      expectMean(runs.map(({ behaviour }) => behaviour.estimate), stale)
      expectMean(runs.map(({ current }) => current.estimate), now)
      expectMean(runs.map(({ gap }) => gap.estimate), stale - now)
      disposeTeam(between)
    }
  })

  it.each(['compound', 'importance'] as const)('with %s, the older team’s surrogate has the weights W = Π π_now/π_then of those who have moved, and the current one none', async (correction) => {
    const { config, teams } = games[0]
    const corrected = { ...config, method: { ...config.method, correction } }
    const group = 4
    const [behaviour, current] = [await sampled(games[0], teams[0], 1, group), await sampled(games[0], teams[1], 2, group)]
    const change = (index: number) => ({ index, policy: teams[0].agents[index].policy, from: teams[index].agents[index].theta, to: teams[index + 1].agents[index].theta })
    const first = newProbe(behaviour, current)
    const second = { ...first, logRatios: (await probeChange(first, change(0), corrected)).logRatios }
    const probed = await probeChange(second, change(1), corrected)

    /** Each agent speaks once, so an episode's ratio is that of its one message. */
    const ratios = async (rollouts: Rollouts, index: number): Promise<number[]> => {
      const { from, to } = change(index)
      return (await logRatiosByHand(teams[0].agents[index], index, rollouts, [from, to])).map(Math.exp)
    }
    /** (1/E) Σ_e W_e (w_e − 1)(R_e − mean of the others' R); under importance weights W has mean 1, and is in the mean of the others too. */
    const byHand = ({ episodes }: Rollouts, W: readonly number[], w: readonly number[]): number => {
      const unit = correction === 'compound' ? 1 : W.reduce((sum, x) => sum + x, 0) / W.length
      const terms = episodes.map(({ problem, return: R }, e) => {
        const others = episodes.flatMap((other, o) => (other.problem === problem && o !== e ? [{ R: other.return, weight: correction === 'compound' ? 1 : W[o] }] : []))
        const mean = others.reduce((sum, { R, weight }) => sum + weight * R, 0) / others.reduce((sum, { weight }) => sum + weight, 0)
        return ((W[e] / unit) * (w[e] - 1) * (R - mean)) / episodes.length
      })
      return terms.reduce((sum, term) => sum + term, 0)
    }
    const [W, w] = [await ratios(behaviour, 0), await ratios(behaviour, 1)]
    const then = byHand(behaviour, W, w)
    expect(probed.behaviour.estimate).toBeCloseTo(then, 5)
    for (const wrong of [W.map((x) => 1 / x), W.map(() => 1)]) expect(Math.abs(byHand(behaviour, wrong, w) - then)).toBeGreaterThan(1e-3)
    const now = byHand(current, current.episodes.map(() => 1), await ratios(current, 1))
    expect(probed.current.estimate).toBeCloseTo(now, 5)
    expect(probed.gap.estimate).toBeCloseTo(then - now, 5)
  })

  it('the occupancy drift, of one change and of two', async () => {
    for (const [game, group] of [[games[0], 4], [games[1], 40]] as const) {
      const { space: { mdp }, exact, teams, config } = game
      const d = exact.map(({ policy }) => evaluate(mdp, policy).d)
      const contexts = (i: number): number => d[0].reduce((sum, x, s) => sum + Math.abs(x - d[i][s]), 0)
      const distances = exact.map((team) => historyDistance(game, exact[0], team))
      const distance = (i: number): number => distances[i]
      for (const i of [1, 2]) expect(contexts(i)).toBeLessThanOrEqual(distance(i) + 1e-9)
      expect(distance(2)).not.toBeCloseTo(distance(1), 2)
      for (const upTo of [1, 2]) {
        const runs: number[] = []
        for (let seed = 0; seed < repeats; seed++) {
          const behaviour = await sampled(game, teams[0], seed, group)
          let probe = newProbe(behaviour, behaviour)
          for (let index = 0; index < upTo; index++) {
            const { policy, theta: from } = teams[index].agents[index] as Agent
            const { logRatios } = await probeChange(probe, { index, policy, from, to: teams[index + 1].agents[index].theta }, config)
            probe = { ...probe, logRatios }
          }
          // For the mass of those still playing: a large sample, so that the positive part takes little noise for a shift.
          const after = await sampled(game, teams[upTo], 1000 + seed, group * 5)
          runs.push(occupancyDrift(behaviour, probe.logRatios, after, config.gamma).estimate)
        }
        expectMean(runs, distance(upTo))
      }
    }
  })
})

describe('what is sampled of an update, exactly', () => {
  /** Every episode of a team: what its states are, with its probability, and its return. */
  const episodes = ({ space: { mdp, contexts } }: Game, policy: Float64Array): { probability: number; pairs: number[]; return: number }[] => {
    const all: { probability: number; pairs: number[]; return: number }[] = []
    const walk = (s: number, probability: number, pairs: number[], earned: number): void => {
      if (s === contexts.length) return void all.push({ probability, pairs, return: earned })
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        walk(mdp.next[mdp.rowStart[k]], probability * policy[k], [...pairs, k], earned + mdp.gamma ** pairs.length * mdp.reward[k])
      }
    }
    mdp.mu.forEach((start, s) => start > 0 && walk(s, start, [], 0))
    return all
  }

  it('by going through every episode, whatever the order of updates and whichever team they learned from', () => {
    const gaps = new Map<string, number>()
    for (const game of games) {
      const { space, exact } = game
      const { mdp } = space
      const stateOf = (k: number): number => mdp.actionStart.findIndex((from, s) => from <= k && k < mdp.actionStart[s + 1])
      const states = Array.from(mdp.reward, (_, k) => stateOf(k))
      for (const order of mdp.n === 3 ? [[0, 1, 2], [2, 1, 0]] : [[0, 1], [1, 0]]) {
        const { stage, steps } = stageBetween(space, exact[0], exact[2], order)
        const played = stage.policies.map((policy) => episodes(game, policy))
        const visited = played.map((all) => {
          const d = new Float64Array(mdp.states)
          for (const { probability, pairs } of all) {
            pairs.forEach((k, t) => (d[states[k]] += (1 - mdp.gamma) * mdp.gamma ** t * probability))
            d[mdp.states - 1] += mdp.gamma ** pairs.length * probability
          }
          return d
        })
        /** E Σ_m (w_m − 1) R over episodes of the team b: what rollouts of b say of update i. */
        const worth = (b: number, i: number): number => played[b].reduce((sum, { probability, pairs, return: earned }) =>
          sum + probability * earned * pairs.reduce((all, k) => all + stage.policies[i + 1][k] / stage.policies[i][k] - 1, 0), 0)
        for (const behaviour of [order.map((_, i) => i), order.map(() => 0), order.map((_, i) => i - (i % 2))]) {
          measureBehaviour(stage, behaviour).forEach(({ shift, surrogate, gap }, i) => {
            const b = behaviour[i]
            expect(shift).toBeCloseTo(visited[i + 1].reduce((sum, x, s) => sum + Math.abs(x - visited[b][s]), 0), 10)
            expect(surrogate).toBeCloseTo(worth(b, i), 10)
            expect(gap).toBeCloseTo(worth(b, i) - worth(i, i), 10)
            if (mdp.n === 3 && b === 0) gaps.set(`${order} ${i}`, surrogate - steps[i].lStale)
          })
        }
      }
    }
    // In a relay in its own order an agent's advantage hangs on later agents alone, and they have not moved: A^b is A^{π̂^{i−1}}. Not in the reverse order.
    expect(Math.abs(gaps.get('0,1,2 1')!)).toBeLessThan(1e-12)
    expect(Math.abs(gaps.get('2,1,0 2')!)).toBeGreaterThan(1e-4)
  })

  it('its 95 % intervals hold it as often as they say, on problems drawn anew', async () => {
    const [game] = games
    const { config, task, all, space, exact, teams } = game
    const [, { gap: exactGap }] = measureBehaviour(stageBetween(space, exact[0], exact[2], [0, 1, 2]).stage, [0, 0, 0])
    const draw = random(17)
    const [shifts, gaps]: { estimate: number; low: number; high: number; standardError: number }[][] = [[], []]
    for (let run = 0; run < 40; run++) {
      const problems = Array.from({ length: 40 }, () => all[draw.int(all.length)])
      const play = (team: Team): Promise<Rollouts> => rollout(task, team, problems, { ...config.rollout, group: 2, gamma: config.gamma, random: draw })
      let probe = newProbe(await play(teams[0]), await play(teams[0]))
      for (const index of [0, 1]) {
        const { policy, theta: from } = teams[index].agents[index] as Agent
        const { gap, logRatios } = await probeChange(probe, { index, policy, from, to: teams[index + 1].agents[index].theta }, config)
        if (index === 1) gaps.push(gap)
        probe = { ...probe, logRatios, current: await play(teams[index + 1]) }
      }
      shifts.push(occupancyDrift(probe.behaviour, probe.logRatios, probe.current, config.gamma))
    }
    for (const [intervals, value] of [[shifts, historyDistance(game, exact[0], exact[2])], [gaps, exactGap]] as const) {
      // 40 intervals of 95 %: 8 or more miss with probability 5e-4.
      expect(intervals.filter(({ low, high }) => value < low || value > high).length).toBeLessThanOrEqual(7)
      // Nor are they too wide: the mean of 40 squares of errors, each in its standard error, is 1 ± 0.22 (a normal one's: below 0.4 with probability 3e-4, above 2.2 with 2e-5).
      const square = intervals.reduce((sum, { estimate, standardError }) => sum + ((estimate - value) / standardError) ** 2 / 40, 0)
      expect(square).toBeGreaterThan(0.4)
      expect(square).toBeLessThan(2.2)
    }
  })
})

describe('a run that is diagnosed', () => {
  const config = (more: ConfigInput) => parseConfig({
    model, task: { name: 'relay', modulus: 3 }, warmup: { steps: 30, episodes: 32 }, rollout: { prompts: 6, group: 4 }, evaluation: { problems: 20, every: 0 }, stages: 3, ...more,
  })
  const train = async (more: ConfigInput): Promise<{ config: Config; updates: UpdateRecord[]; evaluations: EvaluationRecord[] }> => {
    const settings = config(more)
    const team = await warmUp(settings)
    const [updates, evaluations]: [UpdateRecord[], EvaluationRecord[]] = [[], []]
    await trainTeam(settings, team, { onUpdate: (update) => updates.push(update), onEvaluation: (evaluation) => evaluations.push(evaluation) })
    disposeTeam(team)
    return { config: settings, updates, evaluations }
  }

  it('trains as one that is not, counts its tokens apart, and drifts as stale ones and fresh ones do', async () => {
    const diagnostics = { every: 2, coordination: true }
    for (const method of ['teamtr', 'stale', 'joint']) {
      const [plain, diagnosed] = [await train({ method }), await train({ method, diagnostics })]
      const without = (update: UpdateRecord) => ({ ...update, seconds: null, diagnostics: null })
      expect(diagnosed.updates.map(without)).toEqual(plain.updates.map(without))
      expect(diagnosed.updates.map((update) => update.diagnostics !== null)).toEqual([true, true, true, false, false, false, true, true, true])
      // Probes after each update: two where the rollouts are new as well.
      expect(diagnosed.updates[0].diagnostics!.rollouts).toBe(method === 'teamtr' ? 48 : 24)
      expect(plain.evaluations.every((evaluation) => evaluation.coordination === undefined)).toBe(true)
      expect(diagnosed.evaluations.map((evaluation) => evaluation.coordination!.episodes)).toEqual([20, 20])
      const drift = diagnosed.updates.slice(0, 3).map((update) => update.diagnostics!.drift.estimate)
      if (method === 'teamtr') expect(drift[2]).toBe(0) // nobody speaks after the last agent
      else expect(drift[2]).toBeCloseTo(drift[1], 12)
      expect(drift[0]).toBeGreaterThan(0)
    }
  })

  it('in numbers: sums over stages, the noise taken out, shares, ranks', async () => {
    const run = await train({ method: 'stale', diagnostics: { every: 1 }, trustRegion: { delta: 0.001 } })
    const metrics = runMetrics(run)
    const stages = [0, 1, 2].map((at) => run.updates.filter(({ stage }) => stage === at))
    const mean = (values: number[]): number => values.reduce((a, b) => a + b, 0) / values.length
    expect(metrics.drift!.estimate).toBeCloseTo(mean(stages.map((stage) => stage.reduce((sum, { diagnostics }) => sum + diagnostics!.drift.estimate, 0))), 12)
    expect(metrics.staleGap!.raw.estimate).toBeCloseTo(
      mean(stages.map((stage) => stage.reduce((sum, { diagnostics, surrogate }) => sum + Math.abs(surrogate.unbiased - diagnostics!.current.estimate), 0))), 12)
    const squares = mean(stages.map((stage) => 3 * stage.reduce((sum, { diagnostics }) => sum + diagnostics!.gap.estimate ** 2 - diagnostics!.gap.standardError ** 2, 0)))
    expect(metrics.staleGap!.corrected).toBeCloseTo(Math.sign(squares) * Math.sqrt(Math.abs(squares)), 12)
    expect(metrics.outOfRegion.kept).toBe(0)
    expect(metrics.outOfRegion.proposed).toBeCloseTo(run.updates.filter(({ proposedKl }) => proposedKl > 0.001).length / 9, 12)
    expect(metrics.outOfRegion.proposed).toBeGreaterThan(0)
    const certified = stages.map((stage) => stage[2].stageCertificate!)
    expect(metrics.rankCorrelation).toBe(rankCorrelation(certified.map(({ activeMass }) => activeMass), certified.map(({ improvement }) => improvement.estimate)))
    // What differs by rounding alone has one rank.
    const levels = [0.3, 0.1 + 0.2, 0.1]
    const noisy = { ...run, updates: run.updates.map((update) => update.stageCertificate ? { ...update, stageCertificate: { ...update.stageCertificate, activeMass: -update.stage, improvement: { estimate: levels[update.stage], low: 0, high: 1 } } } : update) }
    expect(runMetrics(noisy).rankCorrelation).toBe(rankCorrelation([0, -1, -2], [0.3, 0.3, 0.1]))
    expect(metrics.violationRate!.estimate).toBe(certified.filter(({ activeMass, improvement }) => activeMass > improvement.high).length / 3)
    expect(metrics.tokens).toBe(run.updates.reduce((sum, { diagnostics }) => sum + diagnostics!.tokens, 0))
    expect(metrics.coordination).toBeNull()
  })

  it('what is outside δ is so on all tokens, also where acceptance saw a part of them; and what is not finite is outside', async () => {
    const run = await train({ method: 'quarter-monitor', trustRegion: { delta: 0.001 } })
    const outside = run.updates.filter(({ divergence }) => divergence.exact!.message > 0.001)
    expect(run.updates.every(({ kl }) => kl <= 0.001)).toBe(true)
    expect(outside.length).toBeGreaterThan(0)
    expect(runMetrics(run).outOfRegion.kept).toBeCloseTo(outside.length / run.updates.length, 12)
    expect(summarise(run).largestKl).toBe(Math.max(...outside.map(({ divergence }) => divergence.exact!.message / 0.001)))
    const logged = run.updates.map((update) => ({ ...update, proposedKl: null as unknown as number }))
    expect(runMetrics({ ...run, updates: logged }).outOfRegion.proposed).toBe(1)
  })
})

describe('coordination', () => {
  const settings = relayConfig.parse({ agents: 3, modulus: 7 })
  const problems = relayProblems(settings, 'test', 60, random(1)) as readonly RelayProblem[]
  const { task } = environment({ name: 'relay', ...settings }, 3)
  const value = (text: string, answer: number | null): string => (answer === null ? '?' : text.length >= 0 ? String(answer) : '')

  /** A team whose agents say what a function of the context says; one token a character. */
  const scripted = (say: (context: string) => string): Team => {
    const voice = {
      endToken: 0, stopTokens: [], prompt: (context: string) => [...context].map((c) => c.charCodeAt(0)),
      text: (tokens: readonly number[]) => String.fromCharCode(...tokens.filter((t) => t > 0)),
    }
    const policy = {
      sample: async (_: unknown, prompts: readonly number[][]) => prompts.map((prompt) => {
        const tokens = [...say(String.fromCharCode(...prompt))].map((c) => c.charCodeAt(0))
        return { tokens: [...tokens, 0], logProbs: [], samplingLogProbs: [] }
      }),
    }
    return { router: [0, 1, 2], agents: [0, 1, 2].map(() => ({ policy, voice, theta: null }) as unknown as Agent) }
  }
  const steps = (context: string): { text: string; said: string[] } => {
    const [text, said] = context.split('=')
    return { text: `${text}=`, said: said.split(';').slice(0, -1) }
  }
  const apply = (x: number, { operation, operand }: RelayProblem['steps'][number]): number => (((operation === '+' ? x + operand : x - operand) % 7) + 7) % 7
  const byText = new Map(problems.map((problem) => [problem.id, problem]))
  const options = () => ({ temperature: 1, maxTokens: 3, random: random(2), bootstrap: random(3) })
  const of = (say: (context: string) => string) => coordination(task, scripted(say), problems, options())

  it('is 1 for a team that believes what is right, with little repair', async () => {
    const score = await of((context) => {
      const { text, said } = steps(context)
      const problem = byText.get(text)!
      return value(text, apply(said.length > 0 ? Number(said.at(-1)) : problem.start, problem.steps[said.length]))
    })
    expect(score).toMatchObject({ estimate: 1, own: 1, episodes: 60 })
    // Somebody else's result is right once in seven times.
    expect(score.foreign).toBeLessThan(0.35)
  })

  it('is 1 where all is right in any case: nothing is missed; and 0 where what was said does not matter to what is missed', async () => {
    const alone = await of((context) => {
      const { text, said } = steps(context)
      const problem = byText.get(text)!
      return String(said.length === 2 ? relayAnswer(problem) : 0)
    })
    expect(alone).toMatchObject({ estimate: 1, own: 1, foreign: 1 })
    const half = await of((context) => {
      const { text, said } = steps(context)
      const problem = byText.get(text)!
      return String(said.length === 2 && problem.start % 2 === 0 ? relayAnswer(problem) : 7)
    })
    expect(half.own).toBe(half.foreign)
    expect(half.estimate).toBe(0)
  })

  it('takes the part of the failures that the team\'s own messages save', async () => {
    // Believes what it reads where the start is even, else works alone: right after anybody's messages.
    const score = await of((context) => {
      const { text, said } = steps(context)
      const problem = byText.get(text)!
      if (problem.start === 0) return '7'
      if (problem.start % 2 === 1) return String(relayAnswer(problem))
      return String(apply(said.length > 0 ? Number(said.at(-1)) : problem.start, problem.steps[said.length]))
    })
    expect(score.estimate).toBeCloseTo(1 - (1 - score.own) / (1 - score.foreign), 12)
    expect(score.estimate).toBeGreaterThan(0.2)
    expect(score.estimate).toBeLessThan(1)
    expect(score.low).toBeLessThanOrEqual(score.estimate)
    expect(score.high).toBeGreaterThanOrEqual(score.estimate)
  })
})

/** So that a test cannot pass on a task that never shows what was said. */
it('the relay shows every message in its context', () => {
  const { task } = environment({ name: 'relay', ...relayConfig.parse({ modulus: 7 }) }, 3)
  const [problem] = relayProblems(relayConfig.parse({ modulus: 7 }), 'test', 1, random(1))
  const state: EpisodeState = task.step(task.step(task.start(problem as Problem), '3'), 'x')
  expect(state.context).toBe(`${problem.id}3;?;`)
})
