import type { EpisodeState, Problem, Task } from '../tasks/task.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import type { SampledMessage } from './policy.js'
import { promptTokens, speaker, type Agent, type Team } from './team.js'

/** One message as it was sampled. */
export interface Message {
  readonly agent: number
  /** From 0, within its episode. */
  readonly turn: number
  /** Characters of the shared context that it answers to. */
  readonly read: number
  /** All that the agent had read, in its own tokens. */
  readonly prompt: readonly number[]
  /** The end of message included, unless the message was cut at maxTokens. */
  readonly tokens: readonly number[]
  /** log π of each token, untempered. */
  readonly logProbs: readonly number[]
  /** log of the probability each token was drawn with: that of the policy that acts. */
  readonly samplingLogProbs: readonly number[]
  /** r_t. */
  readonly reward: number
}

/** One playthrough of a problem. */
export interface Episode {
  /** The problem's place in `Rollouts.problems`. */
  readonly problem: number
  /** Turn by turn. */
  readonly messages: readonly Message[]
  /** The shared context at the end: the message at turn t has read the first `messages[t].read` characters of it. */
  readonly context: string
  /** Σ_t r_t. */
  readonly reward: number
  /** Σ_t γ^t r_t, the return J is the mean of. */
  readonly return: number
}

/** G episodes of each of P problems: plain data. */
export interface Rollouts {
  /** Ids, in order. */
  readonly problems: readonly string[]
  /** G. Episodes p·G … p·G + G − 1 are those of problem p. */
  readonly group: number
  readonly episodes: readonly Episode[]
  /** Where groups were refilled (refill.ts): what was sampled, where `episodes` are what was kept. */
  readonly sampled?: Sampled
}

/** Of the problems that were drawn first, kept or not, in order, and counts of all that was sampled. */
export interface Sampled {
  /** Mean return of each problem. */
  readonly returns: readonly number[]
  /** Mean Σ r of each problem. */
  readonly rewards: readonly number[]
  readonly episodes: number
  readonly tokens: number
}

export interface RolloutOptions {
  /** G. */
  readonly group: number
  readonly temperature: number
  /** As a policy's (policy.ts); default: nothing is left out. */
  readonly topP?: number
  readonly topK?: number | null
  /** Longest message, its end included. */
  readonly maxTokens: number
  /** Messages that are sampled at once, at most; default: all of a turn. */
  readonly batch?: number | null
  readonly gamma: number
  readonly random: Random
}

/** A task as it is played: the environment may take its time, where a step waits for a model's answer. */
export type Playable = Pick<Task, 'name' | 'start' | 'rolePrompt' | 'agree'> & { step(state: EpisodeState, message: string): EpisodeState | Promise<EpisodeState> }

/**
 * Let the team play G episodes of each problem. All episodes advance together, one turn at a time: the agent whose turn it is
 * samples its message in all of them as one batch, or as few.
 */
export const rollout = async (task: Playable, team: Team, problems: readonly Problem[], options: RolloutOptions): Promise<Rollouts> => {
  const { group, gamma, batch } = options
  const states: EpisodeState[] = problems.flatMap((problem) => Array.from({ length: group }, () => task.start(problem)))
  const messages: Message[][] = states.map(() => [])
  const rewards = states.map(() => 0)
  const returns = states.map(() => 0)

  for (let turn = 0; ; turn++) {
    const live = states.flatMap((state, e) => (state.done ? [] : [e]))
    if (live.length === 0) break
    const index = speaker(team, turn)
    const agent = team.agents[index]
    const prompts = live.map((e) => promptTokens(team, index, task, problems[Math.floor(e / group)], states[e]))
    const sampled: SampledMessage[] = []
    for (let from = 0; from < live.length; from += batch ?? live.length) {
      sampled.push(...await say(agent, prompts.slice(from, from + (batch ?? live.length)), options))
    }
    await Promise.all(live.map(async (e, i) => {
      const read = states[e].context.length
      const { reward } = (states[e] = await task.step(states[e], agent.voice.text(sampled[i].tokens)))
      messages[e].push({ agent: index, turn, read, prompt: prompts[i], ...sampled[i], reward })
      rewards[e] += reward
      returns[e] += gamma ** turn * reward
    }))
  }
  return {
    problems: problems.map(({ id }) => id),
    group,
    episodes: messages.map((said, e) => ({ problem: Math.floor(e / group), messages: said, context: states[e].context, reward: rewards[e], return: returns[e] })),
  }
}

/** @throws InputError when what an agent must read and may write exceeds its model's positions */
const say = (
  { policy, theta, voice: { endToken, stopTokens, stop }, pretrained }: Agent, prompts: readonly (readonly number[])[],
  { temperature, topP, topK, maxTokens, random }: RolloutOptions,
): Promise<SampledMessage[]> => {
  const longest = prompts.reduce((most, { length }) => Math.max(most, length), 0)
  const positions = pretrained?.source.config.maxPositions ?? Infinity
  if (longest + maxTokens > positions) {
    const { path } = pretrained!.source
    throw new InputError(`${path}: has ${positions} positions; the shared context has grown to ${longest} tokens, and rollout.maxTokens is ${maxTokens}`)
  }
  return policy.sample(theta, prompts, { maxTokens, temperature, topP, topK: topK ?? undefined, endToken, stopTokens, stop, random })
}

/** Tokens that were sampled. */
export const sampledTokens = ({ episodes, sampled }: Rollouts): number =>
  sampled?.tokens ?? episodes.reduce((sum, { messages }) => messages.reduce((all, { tokens }) => all + tokens.length, sum), 0)

/** Mean of a value of the episodes of each problem: P independent samples, which the G episodes of one problem are not. */
export const byProblem = ({ problems, group, episodes }: Rollouts, value: (episode: Episode) => number): Float64Array => {
  const means = new Float64Array(problems.length)
  for (const episode of episodes) means[episode.problem] += value(episode) / group
  return means
}

/** Episodes that were sampled. */
export const sampledEpisodes = ({ episodes, sampled }: Rollouts): number => sampled?.episodes ?? episodes.length

/** J of each problem that was drawn at first, whatever was kept: independent samples of J. */
export const returnsOf = (rollouts: Rollouts): number[] => [...(rollouts.sampled?.returns ?? byProblem(rollouts, (episode) => episode.return))]

/** Σ r of an episode, in the same way. */
export const rewardsOf = (rollouts: Rollouts): number[] => [...(rollouts.sampled?.rewards ?? byProblem(rollouts, (episode) => episode.reward))]
