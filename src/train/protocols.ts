/**
 * Inference-time protocols over a frozen team: what one gets from a team without training it, at one budget of sampled tokens a problem. All are made of
 * whole episodes (rollout.ts) of a task, so they work wherever a task has a text context: the context says who said what in the task's own language.
 *
 *     once           one episode by the team as it is
 *     best-of-n      N episodes; the one with the highest mean log-probability per token under the team itself
 *     pass-at-n      the best of the same N by their reward: an oracle, what any selection could reach at most
 *     majority       the same N; of their final answers the one that most agree with, as the task compares them (or the same last message, but for blanks
 *                    around it), ties to the one given first
 *     debate         each agent plays an episode alone, in all turns; then each plays another one, in which all turns but its last are not sampled: at turn t
 *                    stands what another agent, the t-th in turn, said at turn t when it was alone. So it reads the others' messages in the shared context,
 *                    where the task's language has them, and says the last one anew. Majority over all agents' last messages, of M debates
 *     debate-judge   the same debates; of all last messages the one with the highest mean log-probability per token under the judge, one of the agents, which
 *                    reads every context that a last message of the problem was said on (mean over those)
 *     role-play      N episodes, each with the roles given to the agents by a permutation drawn anew; majority
 *
 * N and M are the budget over the mean number of tokens of the first episode or debate of each problem, to the nearest whole number, at least 1. Tokens that
 * are read, scored or repeated cost nothing; tokens that are sampled are counted and reported. Where the agent that is to be heard had ended its episode by then (a game
 * that was won), the debating agent speaks itself from there on.
 */
import type { EpisodeState, Problem } from '../tasks/task.js'
import { mean } from '../theory/intervals.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { tf } from './backend.js'
import { tokenBatch } from './model/batch.js'
import { rollout, type Episode, type Message, type Playable, type RolloutOptions } from './rollout.js'
import { bootstrapEstimate, type Estimate } from './estimate.js'
import type { Agent, Team } from './team.js'

export const protocolNames = ['once', 'best-of-n', 'pass-at-n', 'majority', 'debate', 'debate-judge', 'role-play'] as const
export type ProtocolName = (typeof protocolNames)[number]

/** `temperature` > 0, or all episodes of a problem are one; `random` drives the sampling. */
export interface ProtocolOptions extends Omit<RolloutOptions, 'group' | 'gamma'> {
  /** Sampled tokens a problem, ≥ 1. Default: those of eight episodes. */
  readonly budget?: number
  /** Which agent judges; default: the last. */
  readonly judge?: number
  /** Drives the bootstrap. */
  readonly bootstrap: Random
  /** Rounds of sampling done, of all. */
  readonly onProgress?: (done: number, total: number) => void
}

export interface ProtocolResult {
  readonly protocol: ProtocolName
  /** Whether it knows the rewards: not a protocol that one could run. */
  readonly oracle: boolean
  /** N, or M for debates. */
  readonly n: number
  /** Sampled, mean over problems. */
  readonly tokens: number
  /** Mean over problems, and its mean difference to `once`; 95 % bootstrap intervals over problems. */
  readonly reward: Estimate
  readonly gain: Estimate
  /** Of each problem. */
  readonly rewards: readonly number[]
}

/** One episode, as a protocol sees it. */
interface Candidate {
  readonly problem: number
  /** What was said last, without blanks around it. */
  readonly answer: string
  /** Σ r. */
  readonly reward: number
  /** Sampled. */
  readonly tokens: number
  /** Mean over the sampled tokens of log π, untempered; −∞ where nothing was sampled. */
  readonly logProb: number
  /** The last message and the context that it was said on; absent where nothing was sampled. */
  readonly last?: { readonly message: Message; readonly context: string }
  readonly episode: Episode
}

/**
 * Every protocol on the same problems.
 *
 * @throws InputError for a judge that is no agent, or that cannot write what it is to judge in its own tokens
 */
export const protocols = async (task: Playable, team: Team, problems: readonly Problem[], options: ProtocolOptions): Promise<ProtocolResult[]> => {
  const { budget, judge = team.agents.length - 1, random, bootstrap, onProgress } = options
  if (!team.agents[judge]) throw new InputError(`judge: holds ${judge}; expected an agent, 0 to ${team.agents.length - 1}`)
  const STEPS = 6
  const step = (done: number): void => onProgress?.(done, STEPS)

  const once = await episodesOf(task, team, problems, 1, random.fork(0), options)
  const cost = meanTokens(once, problems)
  const tokens = budget ?? 8 * cost
  const N = Math.max(1, Math.round(tokens / Math.max(1, cost)))
  step(1)
  const pool = perProblem([...once, ...await episodesOf(task, team, problems, N - 1, random.fork(1), options)], problems)
  step(2)

  const first = await debate(task, team, problems, random.fork(2), options)
  const M = Math.max(1, Math.round(tokens / Math.max(1, first.tokens / problems.length)))
  step(3)
  const debates = [first]
  while (debates.length < M) debates.push(await debate(task, team, problems, random.fork(2 + debates.length), options))
  const debated = perProblem(debates.flatMap(({ last }) => last), problems)
  const debateTokens = debates.reduce((sum, { tokens }) => sum + tokens, 0) / problems.length
  step(4)
  const scores = await judged(task, team, judge, problems, debated)
  step(5)

  const cast = random.fork(-1)
  const roles: Candidate[] = []
  for (let k = 0; k < N; k++) {
    const agents = cast.permutation(team.agents.length).map((agent) => team.agents[agent])
    roles.push(...await episodesOf(task, { ...team, agents }, problems, 1, cast.fork(k), options))
  }
  step(6)

  const base = once.map(({ reward }) => reward)
  const result = (protocol: ProtocolName, n: number, tokens: number, rewards: readonly number[]): ProtocolResult => ({
    protocol, oracle: protocol === 'pass-at-n', n, tokens, rewards,
    reward: bootstrapEstimate(rewards, bootstrap.fork(0)), gain: bootstrapEstimate(rewards.map((reward, p) => reward - base[p]), bootstrap.fork(0)),
  })
  const voted = (all: readonly (readonly Candidate[])[]): number[] =>
    all.map((own, p) => own[majority(own.map(({ answer }) => answer), task.agree && ((a, b) => task.agree!(problems[p], a, b)))].reward)
  const best = (all: readonly (readonly Candidate[])[], score: (candidate: Candidate) => number): number[] => all.map((own) => own[highest(own.map(score))].reward)
  const inPool = meanTokens(pool.flat(), problems)
  return [
    result('once', 1, cost, base),
    result('best-of-n', N, inPool, best(pool, ({ logProb }) => logProb)),
    result('pass-at-n', N, inPool, best(pool, ({ reward }) => reward)),
    result('majority', N, inPool, voted(pool)),
    result('debate', M, debateTokens, voted(debated)),
    result('debate-judge', M, debateTokens, best(debated, (candidate) => scores.get(candidate)!)),
    result('role-play', N, meanTokens(roles, problems), voted(perProblem(roles, problems))),
  ]
}

/** The place of the answer that most of them agree with; of equal ones, that of the first. */
export const majority = (answers: readonly string[], agree = (a: string, b: string): boolean => a === b): number =>
  highest(answers.map((answer) => answers.filter((other) => agree(answer, other)).length))

/** Place of the highest score, the first of equal ones. */
const highest = (scores: readonly number[]): number => scores.reduce((best, score, i) => (score > scores[best] ? i : best), 0)

const meanTokens = (candidates: readonly Candidate[], { length }: readonly Problem[]): number => candidates.reduce((sum, { tokens }) => sum + tokens, 0) / length

const perProblem = (candidates: readonly Candidate[], problems: readonly Problem[]): Candidate[][] =>
  problems.map((_, p) => candidates.filter(({ problem }) => problem === p))

const episodesOf = async (task: Playable, team: Team, problems: readonly Problem[], group: number, random: Random, options: ProtocolOptions): Promise<Candidate[]> => {
  if (group === 0) return []
  const { episodes } = await rollout(task, team, problems, { ...options, group, gamma: 1, random })
  return episodes.map((episode) => candidate(team, episode))
}

const textOf = ({ agents }: Pick<Team, 'agents'>, { agent, tokens }: Message): string => agents[agent].voice.text(tokens)

/** @param before what was said and earned before the episode's first message */
const candidate = (team: Team, episode: Episode, before = { said: '', reward: 0 }): Candidate => {
  const { messages, problem, context } = episode
  const last = messages.at(-1)
  const logProbs = messages.flatMap(({ logProbs }) => logProbs)
  return {
    problem,
    answer: (last ? textOf(team, last) : before.said).trim(),
    reward: before.reward + episode.reward,
    tokens: logProbs.length,
    logProb: logProbs.length > 0 ? mean(logProbs) : -Infinity,
    last: last && { message: last, context: context.slice(0, last.read) },
    episode,
  }
}

/** One debate about each problem. @returns every agent's last message, and the tokens sampled in all */
const debate = async (task: Playable, team: Team, problems: readonly Problem[], random: Random, options: ProtocolOptions): Promise<{ last: Candidate[]; tokens: number }> => {
  const speakers = team.agents.map((_, agent) => agent)
  const alone = (agent: number): Team => ({ ...team, router: [agent] })
  const opening: Candidate[][] = []
  for (const agent of speakers) opening.push(await episodesOf(task, alone(agent), problems, 1, random.fork(2 * agent), options))

  const last: Candidate[] = []
  for (const agent of speakers) {
    const others = speakers.length === 1 ? speakers : [...speakers.slice(agent + 1), ...speakers.slice(0, agent)]
    const begin = async (problem: Problem, p: number): Promise<Begun> => {
      const heard = others.map((other) => opening[other][p].episode.messages)
      let [state, said, reward] = [task.start(problem), '', 0]
      for (let turn = 0; turn + 1 < opening[agent][p].episode.messages.length && !state.done; turn++) {
        const message = heard[turn % others.length][turn]
        if (!message) break
        said = textOf(team, message)
        state = await task.step(state, said)
        reward += state.reward
      }
      return { id: problem.id, problem, state, said, reward }
    }
    const begun = await Promise.all(problems.map(begin))
    const { episodes } = await rollout(goingOn(task), alone(agent), begun, { ...options, group: 1, gamma: 1, random: random.fork(2 * agent + 1) })
    last.push(...episodes.map((episode, p) => candidate(team, episode, begun[p])))
  }
  return { last, tokens: [...opening.flat(), ...last].reduce((sum, { tokens }) => sum + tokens, 0) }
}

/** A problem of which a part has been played. */
interface Begun extends Problem {
  readonly problem: Problem
  readonly state: EpisodeState
  /** The message before, and what was earned so far. */
  readonly said: string
  readonly reward: number
}

/** The task from where each problem stands. */
const goingOn = (task: Playable): Playable => ({
  name: task.name,
  start: (problem) => (problem as Begun).state,
  step: (state, message) => task.step(state, message),
  rolePrompt: task.rolePrompt && ((problem, agent, agents) => task.rolePrompt!((problem as Begun).problem, agent, agents)),
})

/** Tokens in one pass, about. */
const PASS = 2 ** 14

/**
 * Of each candidate: the mean log-probability per token of its last message under the judge, mean over the contexts that the candidates' last messages of its
 * problem were said on. So all are judged on the same contexts: on its own alone, a message that goes on from a mistake would look as good as a right one.
 */
const judged = async (task: Playable, { agents }: Team, judge: number, problems: readonly Problem[], debated: readonly (readonly Candidate[])[]): Promise<Map<Candidate, number>> => {
  const { policy, theta, voice } = agents[judge]
  const items = new Map<string, { ids: number[]; from: number; score: number }>()
  const seen = debated.map((candidates, p) => {
    const said = candidates.flatMap(({ last }) => (last ? [last] : []))
    const prompts = said.map(({ context }) => voice.prompt(context, task.rolePrompt?.(problems[p], judge, agents.length)))
    return candidates.map(({ last }) => {
      if (!last) return []
      const tokens = inTokensOf(agents[judge], agents[last.message.agent], last.message.tokens)
      if (!tokens) throw new InputError(`judge: agent ${judge} cannot write what agent ${last.message.agent} says in its own tokens; choose agents of one model`)
      return prompts.map((prompt) => {
        const ids = [...prompt, ...tokens]
        const key = `${prompt.length}|${ids.join()}`
        if (!items.has(key)) items.set(key, { ids, from: prompt.length, score: 0 })
        return items.get(key)!
      })
    })
  })
  const all = [...items.values()]
  for (let at = 0; at < all.length;) {
    let to = at
    for (let tokens = 0; to < all.length && (to === at || tokens + all[to].ids.length <= PASS); to++) tokens += all[to].ids.length
    const part = all.slice(at, to)
    const batch = tokenBatch(part.map(({ ids, from }) => ({ ids, marked: [[from, ids.length]] })))
    const logProbs = policy.logProbs(theta, batch)
    const values = Array.from(await logProbs.data())
    tf.dispose([logProbs, batch])
    let done = 0
    for (const item of part) item.score = mean(values.slice(done, (done += item.ids.length - item.from)))
    at = to
  }
  return new Map(debated.flatMap((candidates, p) => candidates.map((candidate, c): [Candidate, number] =>
    [candidate, seen[p][c].length > 0 ? mean(seen[p][c].map(({ score }) => score)) : -Infinity])))
}

/** What one agent said, as another would write it: its own tokens where they say the same, else the text, and what ends a message. */
const inTokensOf = ({ policy, voice, pretrained }: Agent, speaker: Agent, tokens: readonly number[]): readonly number[] | undefined => {
  const text = speaker.voice.text(tokens)
  if (tokens.every((token) => token < policy.vocabulary) && voice.text(tokens) === text) return tokens
  return pretrained && [...pretrained.source.tokenizer().encode(text), voice.endToken]
}
