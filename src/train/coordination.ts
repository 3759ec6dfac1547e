/**
 * Coordination: how much it matters to a team what its own members said. Half-way through an episode (at a turn h drawn uniformly from 1 … its length − 1)
 * the episode is played on twice:
 *
 *     own        from the context as it is
 *     foreign    from the same problem with the messages of *another* problem's episode up to h in its place
 *
 * and with R the reward from h on, cut to [0, 1],
 *
 *     coordination = 1 − (1 − E R_own) / (1 − E R_foreign),   cut to [0, 1]:
 *
 * the share of what the team would miss after somebody else's messages that its own messages save it. 0: it does as well whatever was said before (or
 * earns no more by it); 1: nothing is missed any more. In a relay `foreign` is the team's *repair*: how often the answer is right although what
 * was said before is (mostly) wrong. Where nothing is missed either way it is 1.
 */
import { bootstrapInterval, mean } from '../theory/intervals.js'
import type { EpisodeState, Problem } from '../tasks/task.js'
import type { EvaluateOptions } from './evaluateTeam.js'
import { rollout, sampledTokens, type Playable, type Rollouts } from './rollout.js'
import type { Estimate } from './estimate.js'
import { speaker, type Team } from './team.js'

export interface Coordination extends Estimate {
  /** E R_own and E R_foreign. */
  readonly own: number
  readonly foreign: number
  /** Episodes: those of two messages or more. */
  readonly episodes: number
  readonly tokens: number
}

/** The interval (95 %, bootstrap) is over episodes. NaN where no episode has two messages. */
export const coordination = async (task: Playable, team: Team, problems: readonly Problem[], options: EvaluateOptions): Promise<Coordination> => {
  const { random, bootstrap } = options
  const play = (problems: readonly Problem[], team: Team, task: Playable): Promise<Rollouts> => rollout(task, team, problems, { ...options, group: 1, gamma: 1 })
  const first = await play(problems, team, task)
  const handOver = first.episodes.map(({ messages }) => (messages.length > 1 ? 1 + random.int(messages.length - 1) : 0))

  /** The state of problem p after the first h messages of episode e. */
  const after = async (p: number, e: number, h: number): Promise<EpisodeState> => {
    let state = task.start(problems[p])
    for (const { agent, tokens } of first.episodes[e].messages.slice(0, h)) state = await task.step(state, team.agents[agent].voice.text(tokens))
    return state
  }
  /** The next problem's episode that is long enough; its own where there is no other. */
  const other = (p: number): number => {
    const at = problems.map((_, k) => (p + 1 + k) % problems.length).find((e) => first.episodes[e].messages.length >= handOver[p] && problems[e].id !== problems[p].id)
    return at ?? p
  }

  let tokens = sampledTokens(first)
  const rewards = { own: [] as number[], foreign: [] as number[] }
  for (const kind of ['own', 'foreign'] as const) {
    for (const h of new Set(handOver.filter((h) => h > 0).sort((a, b) => a - b))) {
      const chosen = problems.flatMap((_, p) => (handOver[p] === h ? [p] : []))
      const states = new Map<Problem, EpisodeState>()
      for (const p of chosen) states.set({ ...problems[p] }, await after(p, kind === 'own' ? p : other(p), h))
      const turned = { agents: team.agents, router: team.router.map((_, t) => speaker(team, t + h)) }
      const played = await play([...states.keys()], turned, { ...task, start: (problem) => states.get(problem)! })
      tokens += sampledTokens(played)
      // What somebody else said may even have ended it.
      const ended = [...states.values()].map(({ done, reward }) => (done ? reward : 0))
      rewards[kind].push(...played.episodes.map(({ reward }, e) => Math.min(1, Math.max(0, reward + ended[e]))))
    }
  }
  const episodes = rewards.own.length
  const score = (own: number, foreign: number): number => (own >= 1 ? 1 : foreign >= 1 ? 0 : Math.min(1, Math.max(0, 1 - (1 - own) / (1 - foreign))))
  const statistic = (chosen: Float64Array): number => score(mean(chosen.map((k) => rewards.own[k])), mean(chosen.map((k) => rewards.foreign[k])))
  const { estimate, low, high } = episodes > 0
    ? bootstrapInterval(Float64Array.from({ length: episodes }, (_, k) => k), { random: bootstrap, statistic, replicates: 1000 })
    : { estimate: NaN, low: NaN, high: NaN }
  return { estimate, low, high, own: mean(rewards.own), foreign: mean(rewards.foreign), episodes, tokens }
}
