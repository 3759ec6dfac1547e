import type { Random } from '../util/random.js'
import { stageImprovementBound } from './bounds.js'
import { activeMassBound, shiftBound, tvShift } from './certificates.js'
import { klByState, largest, tvByState } from './divergence.js'
import { estimate, ratios, rewardRange, sampledAdvantage } from './estimates.js'
import { empiricalBernsteinRadius, mean, variance } from './intervals.js'
import { pairs, type TeamMdp, type TeamPolicy } from './mdp.js'
import { simulate } from './simulate.js'

/**
 * A certificate from samples: lower bounds on the improvement of a stage that hold with probability ≥ 1 − α, for every sample size.
 *
 * Known beforehand: the policies π̂⁰ … π̂ⁿ, γ, and the range of the rewards. The transitions are only sampled. Per step i, from rollouts of
 * π̂^{i−1}, four one-sided bounds are estimated, each allowed to fail with probability α/(4n), so that all hold at once (union bound):
 *
 * - L_i^seq from below: with the true advantage, E_{d,π̂^i} A = E_{d,π̂^{i−1}} (w − 1) Q, Q sampled by going on. No critic, hence ζ = 0.
 * - D_tok, E TV and ρ_i from above: KL and TV of two known rows at sampled states.
 *
 * A_max ≤ (max r − min r)/(1−γ), and |f_i(s)| ≤ TV(s) · (max r − min r)/(1−γ), f_i(s) = E_{a~π̂^i} A^{π̂^{i−1}}(s,a).
 * Since all parts hold at once, so does the largest of the bounds made of them.
 */
export interface SampledStep {
  readonly agent: number
  /** Lower bound of L_i^seq. */
  readonly surrogate: Part
  /** Upper bound of D_tok^{π̂^{i−1}}. */
  readonly dTok: Part
  /** Upper bound of E_{d^{i−1}} TV. */
  readonly tvMean: Part
  /** Upper bound of ρ_i. */
  readonly rho: Part
}

export interface Part {
  readonly estimate: number
  /** On the safe side of the truth with probability ≥ 1 − α/(4n). */
  readonly bound: number
}

export interface SampledCertificate {
  /** 1 − α: the probability, over the sampling, with which every figure below holds. */
  readonly confidence: number
  readonly steps: readonly SampledStep[]
  readonly aMax: number
  /**
   * Lower bounds on J(π̄) − J(π_cur): Theorem 3.6, the active-mass certificate, total variation with |f_i| from TV, and the largest of
   * them.
   */
  readonly thm36: number
  readonly activeMass: number
  readonly tvRange: number
  readonly best: number
  readonly rollouts: number
}

/**
 * @param policies π̂⁰ … π̂ⁿ; step i changes the rows of agent `order[i]` alone
 * @param rollouts per step
 * @throws InputError where a step plays what the team before it never plays
 */
export const sampledCertificate = ({
  mdp,
  policies,
  order,
  rollouts,
  confidence = 0.95,
  random,
}: {
  readonly mdp: TeamMdp
  readonly policies: readonly TeamPolicy[]
  readonly order: readonly number[]
  readonly rollouts: number
  readonly confidence?: number
  readonly random: Random
}): SampledCertificate => {
  const { gamma } = mdp
  const [least, most] = rewardRange(mdp)
  const span = (most - least) / (1 - gamma)
  const failure = (1 - confidence) / (4 * order.length)
  const measured = order.map((agent, i) => {
    const after = policies[i + 1]
    return {
      ...sampleStep(mdp, policies[i], after, { agent, rollouts, failure, random }),
      tvMax: largest(tvByState(mdp, policies[i], after)),
    }
  })

  const surrogates = measured.map(({ surrogate }) => surrogate.bound)
  const thm36 = stageImprovementBound({
    gamma,
    aMax: span,
    steps: measured.map(({ dTok }, i) => ({ surrogate: surrogates[i], radius: dTok.bound })),
  }).bound
  const activeMass = activeMassBound({
    gamma,
    aMax: span,
    steps: measured.map(({ dTok, rho }, i) => ({ surrogate: surrogates[i], radius: dTok.bound, rho: rho.bound })),
  }).bound
  const tvRange = shiftBound({
    gamma,
    cap: true,
    steps: measured.map(({ tvMean, tvMax }, i) => ({
      surrogate: surrogates[i],
      shift: tvShift({ gamma, tvMean: tvMean.bound }),
      magnitude: tvMax * span,
    })),
  }).bound
  return {
    confidence,
    steps: measured.map(({ agent, surrogate, dTok, tvMean, rho }) => ({ agent, surrogate, dTok, tvMean, rho })),
    aMax: span,
    thm36,
    activeMass,
    tvRange,
    best: Math.max(thm36, activeMass, tvRange),
    rollouts: rollouts * order.length,
  }
}

const sampleStep = (
  mdp: TeamMdp,
  before: TeamPolicy,
  after: TeamPolicy,
  {
    agent,
    rollouts: count,
    failure,
    random,
  }: { readonly agent: number; readonly rollouts: number; readonly failure: number; readonly random: Random },
): SampledStep => {
  const rollouts = simulate(mdp, before, { rollouts: count, horizon: 'geometric', random })
  // the continuation is long enough for its bias to be far below the sampling error
  const steps = Math.ceil(Math.log(1e-6) / Math.log(mdp.gamma))
  const gain = sampledAdvantage({ mdp, rollouts, policy: before, ratio: ratios(mdp, before, after), steps, random })
  const gainMean = mean(gain.samples)
  const gainLow = gainMean - empiricalBernsteinRadius(count, variance(gain.samples), failure, gain.range) - gain.bias
  const above = (byState: Float64Array): Part => {
    const f = new Float64Array(pairs(mdp))
    for (let s = 0; s < mdp.states; s++) f.fill(byState[s], mdp.actionStart[s], mdp.actionStart[s + 1])
    // each tail of a two-sided interval fails with half of 1 − confidence
    const { estimate: value, high } = estimate(mdp, rollouts, f, [0, largest(byState)], { confidence: 1 - 2 * failure })
    return { estimate: value, bound: high }
  }
  return {
    agent,
    surrogate: { estimate: gainMean / (1 - mdp.gamma), bound: Math.max(gainLow, gain.range[0]) / (1 - mdp.gamma) },
    dTok: above(klByState(mdp, before, after)),
    tvMean: above(tvByState(mdp, before, after)),
    rho: above(Float64Array.from(mdp.activeAgent, (j) => (j === agent ? 1 : 0))),
  }
}
