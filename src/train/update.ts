/** One update of one agent: climb the objective from θ_cur, then accept, scale back or refuse what came out. */
import type { Advantages } from './advantage.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { divergence, surrogate, type Divergence, type Surrogate, type TokenValues } from './measure.js'
import { messageBatch, messagesOf, type AgentMessages, type MessageBatch } from './messages.js'
import { adamStep, type AdamState } from './model/adam.js'
import { acting, objective, tokenDivergence, type Acting, type Weights } from './objective.js'
import type { Rollouts } from './rollout.js'
import type { Agent } from './team.js'
import { nextBeta, scaleBack, type Step } from './trustRegion.js'

/** The parts of a configuration that an update reads. */
export type UpdateConfig = Pick<Config, 'gamma' | 'objective' | 'trustRegion' | 'method' | 'rollout'>

/** What became of an update. `skipped`: nothing to learn from (no message of this agent, or every advantage is 0), so nothing was tried. */
export type Outcome = 'accepted' | 'scaled' | 'refused' | 'skipped'

export interface UpdateResult {
  readonly outcome: Outcome
  /** What the agent has after the update: new tensors, or its own where nothing was taken. */
  readonly theta: tf.Tensor1D
  readonly optimiser: AdamState
  readonly beta: number
  /** Where on the line from θ_cur to the proposed θ the update ended, by the divergence that δ bounds. */
  readonly step: Step
  /** At the θ that was kept, per estimator and reading; `exact` is null where the whole distributions were not computed. */
  readonly divergence: { readonly exact: Divergence | null; readonly lowVariance: Divergence; readonly plain: Divergence }
  readonly surrogate: Surrogate
  readonly messages: number
  readonly distinctMessages: number
}

/**
 * @param index which agent of the rollouts this is
 * @param rho ρ̂ of the agent under the rollouts
 * @returns the new θ and optimiser; the agent itself is left alone, its tensors are the caller's to free
 */
export const updateAgent = async (
  agent: Agent, index: number, rollouts: Rollouts, advantages: Advantages, rho: number, config: UpdateConfig,
): Promise<UpdateResult> => {
  const { gamma, rollout: { temperature }, trustRegion: { delta, estimator, reading, beta: rule, probes }, method } = config
  const messages = messagesOf(rollouts, index)
  const { occurrences } = messages
  if (occurrences.every(({ episode }) => advantages.used[episode] === 0)) return skipped(agent, messages)

  const whole = estimator === 'exact'
  const batch = messageBatch(messages)
  const behaviour = tf.tidy(() => acting(agent.policy, agent.theta, batch.tokens, temperature, whole))
  const logBehaviour = await behaviour.logProbs.data()
  const weights = messageWeights(messages, advantages, config, rollouts.episodes.length)

  const proposed = climb(agent, batch, behaviour, weights, config)
  const direction: tf.Tensor1D = tf.sub(proposed.theta, agent.theta)
  const pointOn = (scale: number): tf.Tensor1D =>
    scale === 1 ? tf.clone(proposed.theta) : tf.tidy(() => tf.add(agent.theta, tf.mul(direction, scale)))

  const unmoved: TokenValues = { logBehaviour, logUpdated: logBehaviour, exact: whole ? new Float32Array(logBehaviour.length) : null }
  const measured = new Map([[0, unmoved]])
  const measure = async (scale: number): Promise<number> => {
    const { logProbs, exact } = tf.tidy(() => {
      const updated = acting(agent.policy, pointOn(scale), batch.tokens, temperature, whole)
      return { logProbs: updated.logProbs, exact: whole ? tokenDivergence('exact', behaviour, updated) : undefined }
    })
    measured.set(scale, { logBehaviour, logUpdated: await logProbs.data(), exact: exact ? await exact.data() : null })
    tf.dispose({ logProbs, exact })
    return divergence(messages, measured.get(scale)!, estimator, gamma, rho)[reading]
  }
  const step = await accept(measure, delta[index], method.acceptance, probes)
  const kept = measured.get(step.scale)!
  const of = (which: typeof estimator): Divergence => divergence(messages, kept, which, gamma, rho)

  const taken = step.scale > 0
  const theta = taken ? pointOn(step.scale) : agent.theta
  tf.dispose({ batch, behaviour, weights, direction, theta: proposed.theta })
  if (!taken) tf.dispose([proposed.optimiser.first, proposed.optimiser.second])
  return {
    outcome: step.scale === 1 ? 'accepted' : taken ? 'scaled' : 'refused',
    theta,
    // A refused direction is forgotten: its moments would only propose it again, and they may not be finite.
    optimiser: taken ? proposed.optimiser : agent.optimiser,
    beta: nextBeta(agent.beta, step.proposed, delta[index], rule),
    step,
    divergence: { exact: whole ? of('exact') : null, lowVariance: of('lowVariance'), plain: of('plain') },
    surrogate: surrogate(rollouts, messages, kept, advantages, { gamma, ...config.objective }),
    messages: occurrences.length,
    distinctMessages: messages.spans.length,
  }
}

/** `objective.steps` steps of Adam. */
const climb = (
  agent: Agent, batch: MessageBatch, behaviour: Acting, weights: Weights,
  { objective: options, trustRegion: { estimator }, rollout: { temperature } }: UpdateConfig,
): { theta: tf.Tensor1D; optimiser: AdamState } => {
  let theta = agent.theta
  let optimiser = agent.optimiser
  for (let k = 0; k < options.steps; k++) {
    const next = tf.tidy(() => {
      const descent = tf.grad((x) => {
        const updated = acting(agent.policy, x as tf.Tensor1D, batch.tokens, temperature, estimator === 'exact')
        return tf.neg(objective(behaviour, updated, batch, weights, agent.beta, { ...options, estimator }))
      })
      return adamStep(theta, descent(theta) as tf.Tensor1D, optimiser, { learningRate: options.learningRate, clipNorm: 1 })
    })
    if (k > 0) tf.dispose([theta, optimiser.first, optimiser.second])
    theta = next.theta
    optimiser = next.state
  }
  return { theta, optimiser }
}

const accept = async (
  measure: (scale: number) => Promise<number>, delta: number, acceptance: Config['method']['acceptance'], probes: number,
): Promise<Step> => {
  if (acceptance === 'scale') return scaleBack(measure, delta, probes)
  const proposed = await measure(1)
  const takes = proposed <= (acceptance === 'none' ? Number.MAX_VALUE : delta) // parameters that are not finite are never taken
  return { scale: takes ? 1 : 0, divergence: takes ? proposed : 0, proposed, measurements: 1 }
}

/** Advantages and the weights of the divergence's reading, summed over the occurrences of each distinct message. */
export const messageWeights = (
  { occurrences, spans }: AgentMessages, { used }: Advantages, { gamma, trustRegion: { reading } }: UpdateConfig, episodes: number,
): Weights => {
  const [positive, negative, divergence] = [0, 0, 0].map(() => new Float32Array(spans.length))
  const weigh = (turn: number): number => (reading === 'message' ? 1 : gamma ** turn)
  const total = reading === 'occupancy' ? episodes / (1 - gamma) : occurrences.reduce((sum, { turn }) => sum + weigh(turn), 0)
  for (const { episode, turn, distinct } of occurrences) {
    positive[distinct] += Math.max(0, used[episode]) / occurrences.length
    negative[distinct] += Math.max(0, -used[episode]) / occurrences.length
    divergence[distinct] += weigh(turn) / total
  }
  return { positive: tf.tensor1d(positive), negative: tf.tensor1d(negative), divergence: tf.tensor1d(divergence) }
}

const skipped = ({ theta, optimiser, beta }: Agent, { occurrences, spans }: AgentMessages): UpdateResult => {
  const none = { message: 0, discounted: 0, occupancy: 0 }
  return {
    outcome: 'skipped',
    theta,
    optimiser,
    beta,
    step: { scale: 0, divergence: 0, proposed: 0, measurements: 0 },
    divergence: { exact: none, lowVariance: none, plain: none },
    surrogate: { value: 0, unbiased: 0, low: 0, high: 0, scale: 0, zeta: { clip: 0, ratio: 0, normalisation: 0, total: 0 } },
    messages: occurrences.length,
    distinctMessages: spans.length,
  }
}
