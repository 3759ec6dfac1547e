import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { empiricalBernsteinInterval, hoeffdingInterval, mean, type Interval, type Range } from './intervals.js'
import { pairs, type TeamMdp, type TeamPolicy } from './mdp.js'
import { lowVarianceTerm } from './messages.js'
import { sampleReturn, type Rollouts } from './simulate.js'

/**
 * Monte-Carlo estimates, each with a confidence interval that holds for every sample size.
 *
 * All of them are E_{s~d^π, a~π} f(s,a) for some *integrand* f over pairs: 1[j acts] gives ρ_j, w·Â gives a surrogate,
 * log 1/w or (w − 1) − log w the token KL, with w = π_new/π the probability ratio. `estimate` does the rest.
 */
export interface Estimate extends Interval {
  /** By how much rollouts of T steps may be wrong in the mean, γ^T max|f|; already inside [low, high]. 0 for geometric rollouts. */
  readonly bias: number
}

export interface EstimateOptions {
  /** 1 − α; 0.95 by default. */
  readonly confidence?: number
  /** `empirical-bernstein` by default. */
  readonly method?: 'hoeffding' | 'empirical-bernstein'
}

/**
 * E_{s~d^π, a~π} f(s,a) from rollouts of π, with an interval at level 1 − α for every sample size. The estimate is the plain discounted
 * sum; what rollouts of T steps did not see lies in γ^T · `range` and widens the interval.
 *
 * @param range where f lies on every pair that π can play; with an infinite end the interval is the range itself
 */
export const estimate = (
  mdp: TeamMdp,
  rollouts: Rollouts,
  f: Float64Array,
  range: Range,
  { confidence = 0.95, method = 'empirical-bernstein' }: EstimateOptions = {},
): Estimate => {
  const samples = integrandSamples(mdp, rollouts, f)
  const beyond = rollouts.horizon === 'geometric' ? 0 : mdp.gamma ** rollouts.horizon
  const [low, high] = range
  if (low === -Infinity || high === Infinity)
    return { estimate: mean(samples), low, high, confidence, method, bias: beyond > 0 ? Infinity : 0 }
  const seen: Range = beyond === 0 ? range : widened([(1 - beyond) * low, (1 - beyond) * high])
  const interval = (method === 'hoeffding' ? hoeffdingInterval : empiricalBernsteinInterval)(samples, { confidence, range: seen })
  return {
    ...interval,
    low: Math.max(low, interval.low + beyond * low),
    high: Math.min(high, interval.high + beyond * high),
    bias: beyond * Math.max(Math.abs(low), Math.abs(high)),
  }
}

/**
 * One sample a rollout: f at the last pair of a geometric one, (1−γ) Σ_{t<T} γ^t f of one of T steps. What `estimate` averages; with
 * `bootstrapInterval` they give an interval where no range is known.
 */
export const integrandSamples = (mdp: TeamMdp, rollouts: Rollouts, f: Float64Array): Float64Array => {
  const { start, pair, horizon } = rollouts
  return Float64Array.from({ length: start.length - 1 }, (_, m) => {
    if (horizon === 'geometric') return f[lastPair(rollouts, m)]
    let sum = 0
    for (let at = start[m], weight = 1 - mdp.gamma; at < start[m + 1]; at++, weight *= mdp.gamma) sum += weight * f[pair[at]]
    return sum
  })
}

/** A range with room for the rounding of a sum. */
const widened = ([low, high]: Range): Range => {
  const slack = 1e-12 * Math.max(Math.abs(low), Math.abs(high))
  return [low - slack, high + slack]
}

/** d^π(s) of every state. With probability 1 − α all intervals hold at once (union bound over the states). */
export const estimateOccupancy = (mdp: TeamMdp, rollouts: Rollouts, { confidence = 0.95, method }: EstimateOptions = {}): Estimate[] =>
  Array.from({ length: mdp.states }, (_, s) => {
    const f = new Float64Array(pairs(mdp)).fill(1, mdp.actionStart[s], mdp.actionStart[s + 1])
    return estimate(mdp, rollouts, f, [0, 1], { confidence: 1 - (1 - confidence) / mdp.states, method })
  })

/** ρ_j of every agent. With probability 1 − α all intervals hold at once. */
export const estimateActiveMass = (mdp: TeamMdp, rollouts: Rollouts, { confidence = 0.95, method }: EstimateOptions = {}): Estimate[] =>
  Array.from({ length: mdp.n }, (_, j) =>
    estimate(mdp, rollouts, activeIntegrand(mdp, j), [0, 1], { confidence: 1 - (1 - confidence) / mdp.n, method }),
  )

/**
 * The surrogate (1−γ)^-1 E_{s~d^π, a~π'} Â(s,a) from rollouts of π = `before`, by the ratio w = π'/π of the sampled actions. Rollouts of
 * π̂^{i−1} give L_i^seq; rollouts of another team would need the weights of importance.ts, which degenerate.
 *
 * @param own sum over the states of this agent alone (what a rollout of its messages gives); all states by default
 * @throws InputError where π' plays an action that π never plays: no rollout of π can tell
 */
export const estimateSurrogate = (
  {
    mdp,
    rollouts,
    before,
    after,
    advantage,
    own,
  }: {
    readonly mdp: TeamMdp
    readonly rollouts: Rollouts
    readonly before: TeamPolicy
    readonly after: TeamPolicy
    /** Â, over pairs. */
    readonly advantage: Float64Array
    readonly own?: number
  },
  options: EstimateOptions = {},
): Estimate => {
  const active = own === undefined ? undefined : activeIntegrand(mdp, own)
  const f = ratios(mdp, before, after).map((w, k) => (active && !active[k] ? 0 : (w * advantage[k]) / (1 - mdp.gamma)))
  return estimate(mdp, rollouts, f, rangeOf(before, f), options)
}

/**
 * D_tok^π(π‖π') = E_{s~d^π} KL(π(·|s)‖π'(·|s)) from rollouts of π: the occupancy radius of an update, averaged over all states.
 *
 * @param estimator `plain` averages log(π/π'), `low-variance` (w − 1) − log w: the same mean, never negative
 */
export const estimateTokenKl = (
  {
    mdp,
    rollouts,
    before,
    after,
    estimator = 'low-variance',
  }: {
    readonly mdp: TeamMdp
    readonly rollouts: Rollouts
    readonly before: TeamPolicy
    readonly after: TeamPolicy
    readonly estimator?: 'plain' | 'low-variance'
  },
  options: EstimateOptions = {},
): Estimate => {
  const f = klIntegrand(mdp, before, after, estimator)
  return estimate(mdp, rollouts, f, rangeOf(before, f), options)
}

/**
 * D_tok/ρ_j, the message radius: both parts estimated (α/2 each), the interval their worst quotient. `estimate` is the discounted mean
 * over the agent's messages. Undefined where the agent never acts: then the interval is [0, ∞) and the estimate NaN.
 */
export const estimateMessageKl = (
  input: Parameters<typeof estimateTokenKl>[0] & { readonly agent: number },
  { confidence = 0.95, method }: EstimateOptions = {},
): Estimate => {
  const half = { confidence: (1 + confidence) / 2, method }
  const kl = estimateTokenKl(input, half)
  const rho = estimate(input.mdp, input.rollouts, activeIntegrand(input.mdp, input.agent), [0, 1], half)
  return {
    ...kl,
    estimate: rho.estimate > 0 ? kl.estimate / rho.estimate : NaN,
    low: rho.high > 0 ? kl.low / rho.high : 0,
    high: rho.low > 0 ? kl.high / rho.low : Infinity,
    confidence,
    bias: Math.max(kl.bias, rho.bias),
  }
}

/**
 * E_{s~d^π, a~π'}[Â − A^π], whose absolute value ζ bounds. With E_{a~π}A^π(s,a) = 0 it is E_{s~d^π, a~π}[w Â − (w − 1) Q^π], and Q^π is
 * sampled by going on from the last pair of a geometric rollout for `steps` more. No true advantage is needed.
 *
 * @returns the interval of the signed error; max(|low|, |high|) is a ζ that holds with probability 1 − α
 */
export const estimateAdvantageError = (
  {
    mdp,
    rollouts,
    before,
    after,
    advantage,
    steps,
    random,
  }: {
    readonly mdp: TeamMdp
    /** Geometric. */
    readonly rollouts: Rollouts
    readonly before: TeamPolicy
    readonly after: TeamPolicy
    readonly advantage: Float64Array
    readonly steps: number
    readonly random: Random
  },
  { confidence = 0.95, method = 'empirical-bernstein' }: EstimateOptions = {},
): Estimate => {
  const w = ratios(mdp, before, after)
  const gain = sampledAdvantage({ mdp, rollouts, policy: before, ratio: w, steps, random })
  const estimated = w.map((x, k) => x * advantage[k])
  const range = rangeOf(before, estimated)
  const samples = gain.samples.map((x, m) => estimated[lastPair(rollouts, m)] - x)
  const wide: Range = [range[0] - gain.range[1], range[1] - gain.range[0]]
  const interval = (method === 'hoeffding' ? hoeffdingInterval : empiricalBernsteinInterval)(samples, { confidence, range: wide })
  return { ...interval, low: interval.low - gain.bias, high: interval.high + gain.bias, bias: gain.bias }
}

/**
 * Samples of E_{s~d^π, a~π'} A^π(s,a) = E_{s~d^π, a~π} (w − 1) Q^π(s,a), one a geometric rollout. Rewards are centred on the middle of
 * their range, which changes nothing in the mean (E_{a~π}(w − 1) = 0) and halves the range.
 */
export const sampledAdvantage = ({
  mdp,
  rollouts,
  policy,
  ratio,
  steps,
  random,
}: {
  readonly mdp: TeamMdp
  readonly rollouts: Rollouts
  /** π, which drew the rollouts. */
  readonly policy: TeamPolicy
  /** w, over pairs. */
  readonly ratio: Float64Array
  /** Length of the continuation that samples Q. */
  readonly steps: number
  readonly random: Random
}): { readonly samples: Float64Array; readonly range: Range; readonly bias: number } => {
  if (rollouts.horizon !== 'geometric')
    throw new InputError(`rollouts.horizon: holds ${rollouts.horizon}; "geometric" is needed, whose last pair is a draw from d`)
  const [low, high] = rewardRange(mdp)
  const centre = (low + high) / 2
  const samples = Float64Array.from({ length: rollouts.start.length - 1 }, (_, m) => {
    const k = lastPair(rollouts, m)
    return ratio[k] === 1 ? 0 : (ratio[k] - 1) * sampleReturn(mdp, policy, k, { steps, centre, random })
  })
  const [least, most] = rangeOf(policy, ratio)
  const largest = Math.max(1 - least, most - 1)
  const half = (high - low) / 2 / (1 - mdp.gamma)
  return { samples, range: widened([-largest * half, largest * half]), bias: largest * half * mdp.gamma ** steps }
}

/** [min r, max r] over all pairs: what is known of an MDP beforehand. */
export const rewardRange = (mdp: TeamMdp): Range => [smallest(mdp.reward), -smallest(mdp.reward.map((r) => -r))]

/** 1[j(s) = agent], over pairs. */
const activeIntegrand = (mdp: TeamMdp, agent: number): Float64Array => {
  const f = new Float64Array(pairs(mdp))
  for (let s = 0; s < mdp.states; s++) if (mdp.activeAgent[s] === agent) f.fill(1, mdp.actionStart[s], mdp.actionStart[s + 1])
  return f
}

/**
 * w = π'(a|s)/π(a|s), over pairs; 1 where both are 0.
 * @throws InputError where π' plays what π never plays
 */
export const ratios = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy): Float64Array => {
  const w = new Float64Array(pairs(mdp))
  for (let s = 0; s < mdp.states; s++) {
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
      if (before[k] === 0 && after[k] > 0) {
        throw new InputError(
          `after[${s}][${k - mdp.actionStart[s]}]: holds ${after[k]} where the team before never plays; its rollouts cannot tell`,
        )
      }
      w[k] = before[k] === after[k] ? 1 : after[k] / before[k]
    }
  }
  return w
}

const klIntegrand = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy, estimator: 'plain' | 'low-variance'): Float64Array =>
  // the low-variance form needs E_{a~π} w = 1, hence the check inside `ratios`
  estimator === 'low-variance'
    ? ratios(mdp, before, after).map((w) => lowVarianceTerm(Math.log(w)))
    : before.map((p, k) => (p === 0 ? 0 : Math.log(p / after[k])))

/** The range of f over the pairs that π plays. */
const rangeOf = (policy: TeamPolicy, f: Float64Array): Range => {
  let low = Infinity
  let high = -Infinity
  for (let k = 0; k < f.length; k++) {
    if (policy[k] === 0) continue
    if (f[k] < low) low = f[k]
    if (f[k] > high) high = f[k]
  }
  return [low, high]
}

const lastPair = ({ start, pair }: Rollouts, m: number): number => pair[start[m + 1] - 1]

const smallest = (x: Float64Array): number => x.reduce((least, value) => Math.min(least, value), Infinity)
