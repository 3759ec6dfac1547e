/**
 * What a trust region keeps an update from doing, token by token (the paper's Figure 5): one update of one agent, as the optimiser proposed
 * it and as it was scaled back into its radius, and by how much each moves log π of every token of the rollouts that it learned from.
 */
import { advantagesOf } from './advantage.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { activeMass } from './measure.js'
import { messagesOf, microBatches } from './messages.js'
import { actingLogProbs } from './objective.js'
import { openEnvironment } from './openEnvironment.js'
import { rollout } from './rollout.js'
import { orderOf } from './stage.js'
import { stream } from './streams.js'
import type { Team } from './team.js'
import { updateAgents } from './update.js'

export interface TokenShifts {
  readonly agent: number
  readonly delta: number
  /** Divergence of the update as proposed, and as it was kept; in the reading that δ bounds. */
  readonly proposedKl: number
  readonly keptKl: number
  /** Per distinct token: how often it stands in the rollouts, and log π'(x_u|x_<u) − log π(x_u|x_<u) at both. */
  readonly tokens: readonly { readonly count: number; readonly proposed: number; readonly kept: number }[]
}

/**
 * The first update of a run.
 *
 * @param team is left as it is
 */
export const tokenShifts = async (config: Config, team: Team): Promise<TokenShifts> => {
  const { gamma, seed, method, rollout: { prompts, ...sampling }, objective: { microTokens } } = config
  const { task, problems } = await openEnvironment(config)
  const index = orderOf(config, 0)[0]
  const agent = team.agents[index]
  const options = { ...sampling, gamma, random: stream(seed, 'rollouts', 0, 0) }
  const rollouts = await rollout(task, team, problems('train', prompts, stream(seed, 'problems', 0)), options)
  const advantages = advantagesOf(rollouts, config.advantage, { gamma, maxTokens: sampling.maxTokens })
  const rho = activeMass(rollouts, team.agents.length, gamma)
  const update = async (acceptance: 'none' | 'scale') =>
    (await updateAgents(team, [index], rollouts, advantages, rho, { ...config, method: { ...method, acceptance } }, stream(seed, 'monitor', 0, 0)))[0]
  const [proposed, kept] = [await update('none'), await update('scale')]

  const messages = messagesOf(rollouts, index)
  const batches = microBatches(messages, microTokens)
  const logProbs = (theta: tf.Tensor1D): Promise<Float32Array> => actingLogProbs(agent.policy, theta, messages, batches, 1)
  const [before, outside, inside] = [await logProbs(agent.theta), await logProbs(proposed.theta), await logProbs(kept.theta)]
  tf.dispose(batches.map(({ batch }) => batch))
  for (const { theta, optimiser } of [proposed, kept]) {
    if (theta !== agent.theta) tf.dispose([theta, optimiser.first, optimiser.second])
  }
  const counts = messages.spans.map(() => 0)
  for (const { distinct } of messages.occurrences) counts[distinct]++
  return {
    agent: index,
    delta: config.trustRegion.delta[index],
    proposedKl: proposed.step.divergence,
    keptKl: kept.step.divergence,
    tokens: messages.spans.flatMap(([from, to], distinct) => Array.from({ length: to - from }, (_, k) => {
      const u = from + k
      return { count: counts[distinct], proposed: outside[u] - before[u], kept: inside[u] - before[u] }
    })),
  }
}
