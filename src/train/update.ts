/**
 * One update: climb the objective from θ_cur, then accept, scale back or refuse what came out. It is of one agent; or, where a method updates the team
 * jointly, of all agents at once, on one ratio of the whole episode and with one acceptance.
 */
import type { Random } from '../util/random.js'
import type { Advantages } from './advantage.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { divergence, drawTokens, logRatiosOf, surrogate, type Divergence, type Surrogate, type TokenSample, type TokenValues } from './measure.js'
import { inOrder, messagesOf, microBatches, type AgentMessages, type MicroBatch } from './messages.js'
import { adamStep, type AdamState } from './model/adam.js'
import { acting, objective, tokenDivergence, tokenWeights, type Acting, type Weights } from './objective.js'
import type { Rollouts } from './rollout.js'
import type { Agent, Team } from './team.js'
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
  /** Where the divergence was measured on a part of the tokens: the same on all of them, as proposed. */
  readonly proposedOnAll: number | null
  /** At the θ that was kept, per estimator and reading; `exact` is null where the whole distributions were not computed. */
  readonly divergence: { readonly exact: Divergence | null; readonly lowVariance: Divergence; readonly plain: Divergence }
  readonly surrogate: Surrogate
  /** log Π π_new/π_cur over the agent's messages of each episode. */
  readonly logRatios: Float64Array
  readonly messages: number
  readonly distinctMessages: number
}

/**
 * @param indices which agents of the team are updated: one, or several jointly
 * @param rho ρ̂ of every agent under the rollouts
 * @param random draws the tokens that the divergence is measured on, where it is not on all, and the masks of dropout
 * @returns for each, its new θ and optimiser; the agents themselves are left alone, their tensors are the caller's to free
 */
export const updateAgents = async (
  { agents }: Pick<Team, 'agents'>, indices: readonly number[], rollouts: Rollouts, advantages: Advantages, rho: ArrayLike<number>, config: UpdateConfig,
  random: Random,
): Promise<UpdateResult[]> => {
  const { method: { acceptance }, trustRegion: { probes } } = config
  const climbers: Climber[] = []
  const all = indices.map((index) => ({ agent: agents[index], rho: rho[index], messages: messagesOf(rollouts, index) }))
  for (const each of all) {
    if (each.messages.occurrences.some(({ message }) => advantages.used[message] !== 0)) climbers.push(await start(each, random, config))
  }
  await climb(climbers, advantages, rollouts.episodes.length, config, random.fork(0))

  // With several agents δ holds for each of them: what counts is the largest part of a δ that is used.
  const measure = async (scale: number): Promise<number> => {
    let most = 0
    for (const climber of climbers) {
      const { delta } = climber.agent
      const value = await measureAt(climber, scale, advantages, config)
      const part = value <= delta ? Math.min(1, value / delta) : Number.isNaN(value) ? NaN : Math.max(1 + Number.EPSILON, value / delta)
      most = Number.isNaN(part) || Number.isNaN(most) ? NaN : Math.max(most, part)
    }
    return most
  }
  const step = climbers.length > 0 ? await accept(measure, acceptance, probes) : undefined
  return all.map(({ agent, messages }) => {
    const climber = climbers.find((each) => each.agent === agent)
    return climber ? finish(climber, step!, rollouts, advantages, config) : skipped(agent, messages, rollouts.episodes.length)
  })
}

/** An agent on its way. */
interface Climber {
  readonly agent: Agent
  readonly rho: number
  readonly messages: AgentMessages
  readonly batches: readonly MicroBatch[]
  /** π_cur per batch: log-probabilities, and whole distributions where they are wanted and small enough to be kept. */
  readonly behaviour: readonly Acting[]
  readonly logBehaviour: Float32Array
  readonly sample: TokenSample | undefined
  /** Where it is. */
  theta: tf.Tensor1D
  optimiser: AdamState
  /** What was measured on the line to the proposed θ, by scale. */
  readonly measured: Map<number, TokenValues>
}

/** Floats of π_cur's distributions that are kept over an update; above, they are computed again when needed. */
const MOST_KEPT = 2 ** 26

const start = async ({ agent, rho, messages }: Pick<Climber, 'agent' | 'rho' | 'messages'>, random: Random, config: UpdateConfig): Promise<Climber> => {
  const { objective: { microTokens }, rollout: { temperature }, trustRegion: { estimator, fraction } } = config
  const batches = microBatches(messages, microTokens)
  const tokens = messages.spans.at(-1)?.[1] ?? 0
  const whole = estimator === 'exact' && tokens * agent.policy.vocabulary <= MOST_KEPT
  const behaviour = batches.map(({ batch }) => tf.tidy(() => acting(agent.policy, agent.theta, batch.tokens, temperature, whole)))
  const logBehaviour = inOrder(messages, batches, await Promise.all(behaviour.map(({ logProbs }) => logProbs.data())))
  const sample = fraction < 1 ? drawTokens(tokens, fraction, random) : undefined
  const unmoved: TokenValues = { logBehaviour, logUpdated: logBehaviour, exact: estimator === 'exact' ? new Float32Array(tokens) : null }
  const { theta, optimiser } = agent
  return { agent, rho, messages, batches, behaviour, logBehaviour, sample, theta, optimiser, measured: new Map([[0, unmoved]]) }
}

/** π_cur on a batch. @param whole whether its distributions are needed */
const behaviourOf = ({ agent, batches, behaviour }: Climber, b: number, whole: boolean, { rollout: { temperature } }: UpdateConfig): Acting =>
  !whole || behaviour[b].distributions ? behaviour[b] : acting(agent.policy, agent.theta, batches[b].batch.tokens, temperature, true)

/** `objective.steps` steps of Adam, of all agents in turn; where they are several, the ratio of an episode is that of all of them. */
const climb = async (climbers: readonly Climber[], advantages: Advantages, episodes: number, config: UpdateConfig, random: Random): Promise<void> => {
  const ratios: Float64Array[] = climbers.map(() => new Float64Array(episodes))
  for (let k = 0; k < config.objective.steps; k++) {
    for (const [i, climber] of climbers.entries()) {
      const others = ratios.filter((_, other) => other !== i)
      const weights = messageWeights(climber.messages, advantages, config, episodes, (e) => Math.exp(others.reduce((sum, logs) => sum + logs[e], 0)))
      climbOnce(climber, weights, config, random)
    }
    if (climbers.length === 1 || k + 1 === config.objective.steps) continue
    for (const [i, climber] of climbers.entries()) {
      ratios[i] = logRatiosOf(climber.messages, await valuesAt(climber, climber.theta, false, config), episodes)
    }
  }
}

/** One step of Adam along the gradient over all batches. @param random draws the masks of dropout */
const climbOnce = (climber: Climber, weights: MessageWeights, config: UpdateConfig, random: Random): void => {
  const { agent, batches, theta, optimiser } = climber
  const { objective: options, rollout: { temperature } } = config
  const whole = agent.beta > 0 && options.estimator === 'exact'
  const refers = agent.beta > 0 && options.reference === 'initial'
  const gradientOn = ({ batch, holds }: MicroBatch, b: number): tf.Tensor1D =>
    tf.tidy(() => {
      const behaviour = behaviourOf(climber, b, whole, config)
      const own = weightTensors(weights, holds)
      const seed = random.int(2 ** 31)
      const reference = refers ? acting(agent.policy, agent.initial ?? agent.theta, batch.tokens, temperature, whole) : undefined
      const descent = tf.grad((x) => {
        const updated = acting(agent.policy, x as tf.Tensor1D, batch.tokens, temperature, whole, seed)
        return tf.neg(objective(behaviour, updated, batch, own, agent.beta, options, reference))
      })
      return descent(theta) as tf.Tensor1D
    })
  const next = tf.tidy(() => {
    const gradient = batches.map((_, b) => b).reduce<tf.Tensor1D | undefined>((sum, b) => {
      const part = gradientOn(batches[b], b)
      if (!sum) return part
      const both: tf.Tensor1D = tf.add(sum, part)
      tf.dispose([sum, part])
      return both
    }, undefined)!
    return adamStep(theta, gradient, optimiser, { learningRate: options.learningRate, clipNorm: 1 })
  })
  release(climber)
  climber.theta = next.theta
  climber.optimiser = next.state
}

/** Free where a climber is, unless that is where it started. */
const release = ({ agent, theta, optimiser }: Climber): void => {
  if (theta !== agent.theta) tf.dispose([theta, optimiser.first, optimiser.second])
}

/** θ_cur + s·(θ_proposed − θ_cur). */
const pointOn = ({ agent, theta }: Climber, scale: number): tf.Tensor1D =>
  scale === 1 ? tf.clone(theta) : tf.tidy(() => tf.add(agent.theta, tf.mul(tf.sub(theta, agent.theta), scale)))

const valuesAt = async (climber: Climber, theta: tf.Tensor1D, whole: boolean, config: UpdateConfig): Promise<TokenValues> => {
  const { agent, messages, batches, logBehaviour } = climber
  const logUpdated: ArrayLike<number>[] = []
  const exact: ArrayLike<number>[] = []
  for (const [b, { batch }] of batches.entries()) {
    const values = tf.tidy(() => {
      const updated = acting(agent.policy, theta, batch.tokens, config.rollout.temperature, whole)
      return { logProbs: updated.logProbs, exact: whole ? tokenDivergence('exact', behaviourOf(climber, b, true, config), updated) : undefined }
    })
    logUpdated.push(await values.logProbs.data())
    if (values.exact) exact.push(await values.exact.data())
    tf.dispose(values)
  }
  return { logBehaviour, logUpdated: inOrder(messages, batches, logUpdated), exact: whole ? inOrder(messages, batches, exact) : null }
}

/** The divergence that δ bounds, at a scale. */
const measureAt = async (climber: Climber, scale: number, { weights }: Advantages, config: UpdateConfig): Promise<number> => {
  const { gamma, trustRegion: { estimator, reading } } = config
  const theta = pointOn(climber, scale)
  climber.measured.set(scale, await valuesAt(climber, theta, estimator === 'exact', config))
  theta.dispose()
  const { messages, measured, rho, sample } = climber
  return divergence(messages, measured.get(scale)!, { estimator, gamma, rho, weights, sample })[reading]
}

/** @param measure the part of δ that is used, at a scale */
const accept = async (measure: (scale: number) => Promise<number>, acceptance: Config['method']['acceptance'], probes: number): Promise<Step> => {
  if (acceptance === 'scale') return scaleBack(measure, 1, probes)
  const proposed = await measure(1)
  const takes = proposed <= (acceptance === 'none' ? Number.MAX_VALUE : 1) // parameters that are not finite are never taken
  return { scale: takes ? 1 : 0, divergence: takes ? proposed : 0, proposed, measurements: 1 }
}

/** Take a climber to where the acceptance put it, and free the rest. */
const finish = (climber: Climber, { scale, measurements }: Step, rollouts: Rollouts, advantages: Advantages, config: UpdateConfig): UpdateResult => {
  const { agent, rho, messages, batches, behaviour, sample, measured, optimiser } = climber
  const { gamma, trustRegion: { beta: rule, estimator, reading } } = config
  const { weights } = advantages
  const whole = estimator === 'exact'
  const at = (scale: number, which = estimator, only?: TokenSample): Divergence =>
    divergence(messages, measured.get(scale)!, { estimator: which, gamma, rho, weights, sample: only })
  const taken = scale > 0
  const theta = taken ? pointOn(climber, scale) : agent.theta
  if (taken) tf.dispose(climber.theta)
  else release(climber)
  tf.dispose([batches.map(({ batch }) => batch), [...behaviour]])
  const proposed = at(1, estimator, sample)[reading]
  return {
    outcome: scale === 1 ? 'accepted' : taken ? 'scaled' : 'refused',
    theta,
    // A refused direction is forgotten: its moments would only propose it again, and they may not be finite.
    optimiser: taken ? optimiser : agent.optimiser,
    beta: nextBeta(agent.beta, proposed, agent.delta, rule),
    step: { scale, divergence: at(scale, estimator, sample)[reading], proposed, measurements },
    proposedOnAll: sample ? at(1)[reading] : null,
    divergence: { exact: whole ? at(scale, 'exact') : null, lowVariance: at(scale, 'lowVariance'), plain: at(scale, 'plain') },
    surrogate: surrogate(rollouts, messages, measured.get(scale)!, advantages, { gamma, ...config.objective }),
    logRatios: logRatiosOf(messages, measured.get(scale)!, rollouts.episodes.length),
    messages: messages.occurrences.length,
    distinctMessages: messages.spans.length,
  }
}

/** Per distinct message; `Weights` before they are tensors. */
export type MessageWeights = Readonly<Record<keyof Weights, Float32Array>>

/**
 * Advantages and the weights of the divergence's reading, summed over the occurrences of each distinct message.
 *
 * @param factor what the advantages of an episode are multiplied by
 */
export const messageWeights = (
  messages: AgentMessages, { used, weights }: Advantages, { gamma, objective, trustRegion: { reading } }: Pick<UpdateConfig, 'gamma' | 'objective' | 'trustRegion'>,
  episodes: number, factor: (episode: number) => number = () => 1,
): MessageWeights => {
  const { occurrences, spans } = messages
  const [positive, negative, divergence] = [0, 0, 0].map(() => new Float32Array(spans.length))
  const perToken = tokenWeights(messages, objective)
  const weigh = (episode: number, turn: number): number => weights[episode] * (reading === 'message' ? 1 : gamma ** turn)
  const total = reading === 'occupancy' ? episodes / (1 - gamma) : occurrences.reduce((sum, { episode, turn }) => sum + weigh(episode, turn), 0)
  for (const { episode, turn, message, distinct } of occurrences) {
    const advantage = (weights[episode] * factor(episode) * perToken[distinct] * used[message]) / occurrences.length
    positive[distinct] += Math.max(0, advantage)
    negative[distinct] += Math.max(0, -advantage)
    divergence[distinct] += (perToken[distinct] * weigh(episode, turn)) / total
  }
  return { positive, negative, divergence }
}

/** Those of a batch. */
const weightTensors = ({ positive, negative, divergence }: MessageWeights, holds: readonly number[]): Weights => {
  const tensor = (values: Float32Array): tf.Tensor1D => tf.tensor1d(Float32Array.from(holds, (distinct) => values[distinct]))
  return { positive: tensor(positive), negative: tensor(negative), divergence: tensor(divergence) }
}

const skipped = ({ theta, optimiser, beta }: Agent, { occurrences, spans }: AgentMessages, episodes: number): UpdateResult => {
  const none = { message: 0, discounted: 0, occupancy: 0 }
  return {
    outcome: 'skipped',
    theta,
    optimiser,
    beta,
    step: { scale: 0, divergence: 0, proposed: 0, measurements: 0 },
    proposedOnAll: null,
    divergence: { exact: none, lowVariance: none, plain: none },
    surrogate: { value: 0, unbiased: 0, low: 0, high: 0, scale: 0, zeta: { clip: 0, ratio: 0, normalisation: 0, total: 0 } },
    logRatios: new Float64Array(episodes),
    messages: occurrences.length,
    distinctMessages: spans.length,
  }
}
