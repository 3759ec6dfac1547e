import { tf } from '../../src/train/backend.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import type { Rollouts } from '../../src/train/rollout.js'
import type { Agent } from '../../src/train/team.js'

/** Σ log π_after − log π_before over the messages of the agent in place `index`, of each episode: straight from two forward passes over all of them. */
export const logRatiosByHand = async (
  { policy }: Pick<Agent, 'policy'>, index: number, { episodes }: Rollouts, [before, after]: readonly [tf.Tensor1D, tf.Tensor1D], temperature = 1,
): Promise<number[]> => {
  const own = episodes.flatMap(({ messages }, e) => messages.filter(({ agent }) => agent === index).map((message) => ({ ...message, e })))
  const batch = tokenBatch(own.map(({ prompt, tokens }) => ({ ids: [...prompt, ...tokens], marked: [[prompt.length, prompt.length + tokens.length]] })))
  const logs = tf.tidy(() => [before, after].map((theta) => policy.logProbs(theta, batch, { temperature })))
  const [old, now] = await Promise.all(logs.map((values) => values.data()))
  tf.dispose([batch, logs])
  const ratios = episodes.map(() => 0)
  let at = 0
  for (const { e, tokens } of own) tokens.forEach(() => { ratios[e] += now[at] - old[at++] })
  return ratios
}
