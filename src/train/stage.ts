/**
 * Algorithm 1: one stage updates every agent once, in the stage's order, each inside its trust region.
 *
 *     for i = 1 … n:
 *       Â       ← group-normalised advantages of the rollouts
 *       π^σ(i)  ← climb the clipped surrogate, then accept, scale back or refuse (update.ts)
 *       rollouts ← resample with the team as it now is                      (intermediate occupancy)
 *                  or keep those of the start of the stage                  (stale)
 *
 * The methods are settings of this one function; a joint one updates all agents in its first step.
 */
import { setImmediate } from 'node:timers/promises'
import { summariseWeights, type WeightSummary } from '../theory/importance.js'
import { advantagesOf } from './advantage.js'
import { certify, type Certificate, type CertificateStep } from './certificate.js'
import type { Config } from './config.js'
import { differenceEstimate, studentEstimate, type Estimate } from './estimate.js'
import { newProbe, occupancyDrift, probeChange, probeCost, type Probe, type UpdateDiagnostics } from './diagnostics.js'
import { activeMass, type Surrogate } from './measure.js'
import { fitCritic, targetsOf, valuesOf } from './critic.js'
import { returnsOf, rewardsOf, sampledEpisodes, sampledTokens, type Rollouts } from './rollout.js'
import { stream } from './streams.js'
import type { Agent, Team } from './team.js'
import { tf } from './backend.js'
import { nextDelta } from './trustRegion.js'
import { updateAgents, type Outcome, type UpdateResult } from './update.js'

/** Where a run stands: what the next update needs besides the team. Plain data, kept in a checkpoint. */
export interface StageState {
  /** From 0. */
  readonly stage: number
  /** Updates done in this stage, 0 … n − 1. */
  readonly position: number
  /** σ: which agent at which position. */
  readonly order: readonly number[]
  /** What the next update learns from. */
  readonly rollouts: Rollouts
  /** The position before which they were sampled. */
  readonly sampledAt: number
  /** Of each of their episodes: log of its probability ratio under the updates done since, Π π_now/π_then. */
  readonly logRatios: readonly number[]
  /** J of each problem of the stage's first rollouts. */
  readonly startReturns: readonly number[]
  /** Of the updates done in this stage. */
  readonly steps: readonly CertificateStep[]
  /** In a stage that is diagnosed: rollouts that nothing is trained on. */
  readonly probe: Probe | null
}

/** One line of log.jsonl: all there is to say of one update. Numbers that are not finite stand as null in JSON. */
export interface UpdateRecord {
  /** From 1, over the whole run. */
  readonly update: number
  readonly stage: number
  readonly position: number
  readonly agent: number
  readonly outcome: Outcome
  /** s: the part of the proposed update that was taken. */
  readonly scale: number
  readonly delta: number
  /** δ of the agent's next update. */
  readonly nextDelta: number
  /** The divergence that δ bounds, before acceptance and at what was kept. */
  readonly proposedKl: number
  readonly kl: number
  /** Where it was measured on a part of the tokens: `proposedKl` on all of them. */
  readonly proposedKlOnAll: number | null
  /** At what was kept, by estimator and reading. */
  readonly divergence: UpdateResult['divergence']
  /** β of this update, and of the agent's next. */
  readonly beta: number
  readonly nextBeta: number
  readonly surrogate: Omit<Surrogate, 'zeta'>
  readonly zeta: Surrogate['zeta']
  /** ρ̂ of the agent. */
  readonly rho: number
  /** Where agents that have moved are corrected for: the episodes' importance weights. */
  readonly weights: WeightSummary | null
  readonly messages: number
  readonly distinctMessages: number
  /** With a critic: its mean squared error on these rollouts, from which it had not learned. */
  readonly criticError: number | null
  /** Σ r of an episode, in the rollouts that the update learned from (where groups were refilled: of the problems drawn at first). */
  readonly return: Estimate
  /** J after − J before, on fresh rollouts; null where there were none (stale, within a stage). */
  readonly improvement: Estimate | null
  readonly certificate: Certificate
  /** At the last update of a stage: its certificate and measured improvement. */
  readonly stageCertificate: (Certificate & { readonly improvement: Estimate }) | null
  /** In a stage that is diagnosed: how far off the rollouts that it learned from were. */
  readonly diagnostics: UpdateDiagnostics | null
  /** Sampled after this update, for the next one or the next stage. */
  readonly tokens: number
  readonly rollouts: number
  /** How often the divergence was measured. */
  readonly measurements: number
  /** Wall time. The only part of a line that is not the same when a run is repeated: it comes last. */
  readonly seconds: { readonly update: number; readonly rollouts: number; readonly diagnostics: number }
}

export interface StageOptions {
  readonly config: Config
  readonly team: Team
  /** Fresh rollouts by the team as it now is, on the problems of a stage. */
  readonly sample: (stage: number, position: number) => Promise<Rollouts>
  /** The same for measuring alone: independent samples, on problems of their own. Asked in stages that are diagnosed; absent: none is. */
  readonly probe?: (stage: number, position: number, samples: 1 | 2) => Promise<Rollouts[]>
  /** Called when an update is finished, its successor's rollouts included: with one record, or with one of each agent of a joint update. */
  readonly onUpdate: (records: readonly UpdateRecord[], next: StageState) => Promise<void>
  /** Stops the stage between two updates. */
  readonly signal?: AbortSignal
}

/** b: how many updates of the stage were done when the rollouts were sampled that the update at a position learns from. */
export const sampledBefore = ({ occupancy, resampleEvery, update }: Config['method'], position: number): number =>
  occupancy === 'stale' || update === 'joint' ? 0 : position - (position % resampleEvery)

/** σ of a stage: the agents that are not frozen, in the order of their updates. */
export const orderOf = (config: Pick<Config, 'order' | 'seed' | 'team'>, stage: number): number[] =>
  permutation(config, stage).filter((agent) => !config.team.frozen.includes(agent))

const permutation = ({ order, seed, team: { agents } }: Pick<Config, 'order' | 'seed' | 'team'>, stage: number): number[] => {
  if (typeof order !== 'string') return [...order]
  if (order === 'random') return stream(seed, 'order', stage).permutation(agents)
  const all = Array.from({ length: agents }, (_, agent) => agent)
  return order === 'fixed' ? all : all.reverse()
}

/** The state at the start of a stage. @param probes two samples for measuring, where the stage is diagnosed */
export const stageStart = (config: Config, stage: number, rollouts: Rollouts, probes: readonly Rollouts[] = []): StageState =>
  ({
    stage, position: 0, order: orderOf(config, stage), rollouts, sampledAt: 0, logRatios: unmoved(rollouts), startReturns: returnsOf(rollouts), steps: [],
    probe: probes.length === 2 ? newProbe(probes[0], probes[1]) : null,
  })

/** Whether a stage is diagnosed. */
export const isDiagnosed = ({ diagnostics: { every }, stages }: Pick<Config, 'diagnostics' | 'stages'>, stage: number): boolean =>
  every > 0 && stage < stages && stage % every === 0

const unmoved = ({ episodes }: Rollouts): number[] => episodes.map(() => 0)

/** Its probes, where it is diagnosed. */
export const probesAtStart = async (config: Pick<Config, 'diagnostics' | 'stages'>, stage: number, probe: StageOptions['probe']): Promise<Rollouts[]> =>
  probe && isDiagnosed(config, stage) ? probe(stage, 0, 2) : []

/** Do what is left of a stage. @returns the state at the start of the next stage, or where the signal stopped it */
export const stage = async (state: StageState, { config, team, sample, probe: sampleProbe, onUpdate, signal }: StageOptions): Promise<StageState> => {
  const { gamma, seed, method, certificate: { aMax }, trustRegion: { adaptive }, rollout: { maxTokens } } = config

  for (;;) {
    // Tensor reads may not turn the event loop; signals and timers need it to turn.
    await setImmediate()
    if (signal?.aborted) return state
    const { stage, position, order, rollouts, startReturns, logRatios } = state
    const n = order.length
    const indices = method.update === 'joint' ? order : order.slice(position, position + 1)
    const end = position + indices.length
    const before = indices.map((index) => ({ beta: team.agents[index].beta, delta: team.agents[index].delta }))

    const started = performance.now()
    const values = team.critic && await valuesOf(team.critic, rollouts, config)
    const advantages = advantagesOf(rollouts, config.advantage, { correction: method.correction, logRatios, gamma, maxTokens, values })
    const rho = activeMass(rollouts, team.agents.length, gamma, advantages.weights)
    const results = await updateAgents(team, indices, rollouts, advantages, rho, config, stream(seed, 'monitor', stage, position))
    const updated = performance.now()

    // The rollouts after the last update of a stage are the first of the next one, on its problems.
    const isLast = end === n
    const resamples = sampledBefore(method, end) === end
    let probe = state.probe
    const diagnostics: (UpdateDiagnostics | null)[] = []
    for (const [i, index] of indices.entries()) {
      const agent = team.agents[index]
      const change = { index, policy: agent.policy, from: agent.theta, to: results[i].theta }
      const probed = probe && sampleProbe && await probeChange(probe, change, config)
      install(agent, results[i])
      if (!probe || !probed || !sampleProbe) continue
      const { logRatios, ...surrogates } = probed
      const renews = resamples && i === indices.length - 1
      const after = await sampleProbe(stage, position + i + 1, renews ? 2 : 1)
      const drift = occupancyDrift(probe.behaviour, logRatios, after[0], gamma)
      diagnostics.push({ ...surrogates, drift, ...probeCost(after) })
      probe = renews ? newProbe(after[0], after[1]) : { ...probe, logRatios, current: after[0] }
    }
    const diagnosed = performance.now()

    const fresh = isLast ? await sample(stage + 1, 0) : resamples ? await sample(stage, end) : null
    // The critic learns from rollouts when no update needs them any more.
    if (fresh && team.critic) fitCritic(team.critic, rollouts, config)
    const sampled = performance.now()

    // Under importance weights what is estimated on old rollouts is estimated for the team as it was just before.
    const isFresh = state.sampledAt === position || method.correction === 'importance'
    const isMeasured = fresh && state.sampledAt === position && indices.length === 1
    const improvement = isMeasured ? differenceEstimate(returnsOf(fresh), returnsOf(rollouts)) : null
    if (improvement && adaptive) team.agents[indices[0]].delta = nextDelta(before[0].delta, improvement, adaptive)
    const steps = [...state.steps]
    const records = results.map((result, i): UpdateRecord => {
      const { surrogate: { zeta, ...surrogate }, step, divergence, proposedOnAll } = result
      const radius = (divergence.exact ?? divergence.lowVariance).occupancy
      steps.push({ surrogate: surrogate.value, zeta: zeta.total, radius, rho: rho[indices[i]], fresh: isFresh && i === 0 })
      const certificates = certify(steps, { gamma, aMax })
      const ends = isLast && i === indices.length - 1
      const carries = fresh && i === indices.length - 1 ? fresh : null
      return {
        update: stage * n + position + i + 1,
        stage,
        position: position + i,
        agent: indices[i],
        outcome: result.outcome,
        scale: step.scale,
        delta: before[i].delta,
        nextDelta: team.agents[indices[i]].delta,
        proposedKl: step.proposed,
        kl: step.divergence,
        proposedKlOnAll: proposedOnAll,
        divergence,
        beta: before[i].beta,
        nextBeta: result.beta,
        surrogate,
        zeta,
        rho: rho[indices[i]],
        weights: method.correction === 'none' ? null : summariseWeights(logRatios),
        messages: result.messages,
        distinctMessages: result.distinctMessages,
        criticError: values ? meanSquare(targetsOf(rollouts, config).map((target, m) => target - values[m])) : null,
        return: studentEstimate(rewardsOf(rollouts)),
        improvement,
        certificate: certificates.update,
        stageCertificate: ends ? { ...certificates.stage, improvement: differenceEstimate(returnsOf(fresh!), startReturns) } : null,
        diagnostics: diagnostics[i] ?? null,
        tokens: carries ? sampledTokens(carries) : 0,
        rollouts: carries ? sampledEpisodes(carries) : 0,
        measurements: step.measurements,
        seconds: i === 0 ? { update: (updated - started) / 1000, rollouts: (sampled - diagnosed) / 1000, diagnostics: (diagnosed - updated) / 1000 } : { update: 0, rollouts: 0, diagnostics: 0 },
      }
    })
    const moved = results.reduce((all, result) => all.map((log, e) => log + result.logRatios[e]), logRatios)
    const next = isLast ? stageStart(config, stage + 1, fresh!, await probesAtStart(config, stage + 1, sampleProbe))
      : fresh ? { ...state, position: end, sampledAt: end, rollouts: fresh, logRatios: unmoved(fresh), steps, probe }
        : { ...state, position: end, logRatios: moved, steps, probe }
    await onUpdate(records, next)
    if (isLast) return next
    state = next
  }
}

/** Give an agent what its update left, and free what that replaces. */
const install = (agent: Agent, { theta, optimiser, beta }: UpdateResult): void => {
  if (theta !== agent.theta) tf.dispose([agent.theta, agent.optimiser.first, agent.optimiser.second])
  agent.theta = theta
  agent.optimiser = optimiser
  agent.beta = beta
}

const meanSquare = (errors: readonly number[]): number => errors.reduce((sum, error) => sum + error ** 2, 0) / errors.length
