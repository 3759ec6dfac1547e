import type { Problem } from '../tasks/task.js'
import type { Random } from '../util/random.js'
import { rollout, sampledTokens, type Playable, type RolloutOptions } from './rollout.js'
import { bootstrapEstimate, type Estimate } from './estimate.js'
import type { Team } from './team.js'

/** How a team does on problems, one episode each. */
export interface Evaluation {
  readonly problems: number
  /** Mean reward of an episode (the share answered correctly, where rewards are 0 or 1), with its 95 % bootstrap interval. */
  readonly reward: Estimate
  /** Mean number of messages. */
  readonly turns: number
  readonly tokens: number
  /** Reward of each problem, in order: for comparisons problem by problem. */
  readonly rewards: readonly number[]
}

export interface EvaluateOptions extends Omit<RolloutOptions, 'group' | 'gamma'> {
  /** Drives the bootstrap; `random` drives the sampling: give each team that is compared a stream of the same seed. */
  readonly bootstrap: Random
}

export const evaluateTeam = async (task: Playable, team: Team, problems: readonly Problem[], options: EvaluateOptions): Promise<Evaluation> => {
  const { bootstrap, ...sampling } = options
  const played = await rollout(task, team, problems, { ...sampling, group: 1, gamma: 1 })
  const rewards = played.episodes.map(({ reward }) => reward)
  return {
    problems: problems.length,
    reward: bootstrapEstimate(rewards, bootstrap),
    turns: played.episodes.reduce((sum, { messages }) => sum + messages.length, 0) / problems.length,
    tokens: sampledTokens(played),
    rewards,
  }
}

/** Mean reward of `after` minus that of `before` on the same problems, with the 95 % bootstrap interval of the paired differences. */
export const compareEvaluations = (before: Pick<Evaluation, 'rewards'>, after: Pick<Evaluation, 'rewards'>, bootstrap: Random): Estimate =>
  bootstrapEstimate(after.rewards.map((reward, p) => reward - before.rewards[p]), bootstrap)
