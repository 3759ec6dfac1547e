import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'

/**
 * Rollouts of a team on its MDP, for when the MDP is only seen through samples.
 *
 * Two ways to deal with the infinite discounted sum, and both are used:
 * - `geometric`: after every step the rollout goes on with probability γ. Its last pair (s, a) is then an exact draw from d^π × π,
 *   so samples are independent and nothing is biased.
 * - a number T: every rollout has T steps and step t weighs (1−γ)γ^t. Each rollout averages over its steps; what lies
 *   beyond T has weight γ^T and is the stated bias.
 */
export type Horizon = 'geometric' | number

export interface Rollouts {
  readonly horizon: Horizon
  /** First step of each rollout, rollouts + 1 entries; every rollout has at least one step. */
  readonly start: Int32Array
  /** The pair (s, a) of every step. */
  readonly pair: Int32Array
  /** The state of every step. */
  readonly state: Int32Array
}

/**
 * Independent rollouts from μ.
 *
 * @param horizon `geometric`, or T ≥ 1 steps each
 * @throws InputError for fewer than one rollout or step
 */
export const simulate = (
  mdp: TeamMdp,
  policy: TeamPolicy,
  { rollouts, horizon, random }: { readonly rollouts: number; readonly horizon: Horizon; readonly random: Random },
): Rollouts => {
  if (!(Number.isInteger(rollouts) && rollouts >= 1)) throw new InputError(`rollouts: holds ${rollouts}; a whole number, at least 1`)
  if (horizon !== 'geometric' && !(Number.isInteger(horizon) && horizon >= 1)) {
    throw new InputError(`horizon: holds ${horizon}; "geometric" or a whole number of steps, at least 1`)
  }
  const start = new Int32Array(rollouts + 1)
  const pair: number[] = []
  const state: number[] = []
  for (let m = 0; m < rollouts; m++) {
    let s = draw(mdp.mu, 0, mdp.states, random)
    for (let t = 1; ; t++) {
      const k = sampleAction(mdp, policy, s, random)
      state.push(s)
      pair.push(k)
      if (horizon === 'geometric' ? random.next() >= mdp.gamma : t === horizon) break
      s = sampleNext(mdp, k, random)
    }
    start[m + 1] = pair.length
  }
  return { horizon, start, pair: Int32Array.from(pair), state: Int32Array.from(state) }
}

/** A pair (s, a), a ~ π(·|s). */
export const sampleAction = (mdp: TeamMdp, policy: TeamPolicy, s: number, random: Random): number =>
  draw(policy, mdp.actionStart[s], mdp.actionStart[s + 1], random)

/** A state s' ~ P(·|s, a). */
export const sampleNext = (mdp: TeamMdp, pair: number, random: Random): number =>
  mdp.next[draw(mdp.prob, mdp.rowStart[pair], mdp.rowStart[pair + 1], random)]

/** Σ_{t<T} γ^t (r_t − centre) from a pair on: with `centre` 0, Q(s, a) but for at most γ^T max|r|/(1−γ). */
export const sampleReturn = (
  mdp: TeamMdp,
  policy: TeamPolicy,
  from: number,
  { steps, centre = 0, random }: { readonly steps: number; readonly centre?: number; readonly random: Random },
): number => {
  let sum = 0
  for (let t = 0, k = from, weight = 1; t < steps; t++, weight *= mdp.gamma) {
    sum += weight * (mdp.reward[k] - centre)
    if (t + 1 < steps) k = sampleAction(mdp, policy, sampleNext(mdp, k, random), random)
  }
  return sum
}

/** An index of values[from … to−1], each with its probability; never one of probability 0. */
const draw = (values: Float64Array, from: number, to: number, random: Random): number => {
  let left = random.next()
  let last = from
  for (let k = from; k < to; k++) {
    if (values[k] === 0) continue
    left -= values[k]
    if (left < 0) return k
    last = k
  }
  return last
}
