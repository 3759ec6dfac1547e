import { chainOf } from './chain.js'
import { factorise, solve, solveTransposed } from './elimination.js'
import { iterateOccupancy, iterateValues } from './iterate.js'
import { dot, maxNorm, sumNorm } from './norms.js'
import { pairs, requireLength, ROW_SUM_TOLERANCE, type TeamMdp, type TeamPolicy } from './mdp.js'
import { structureOf } from './structure.js'

/** Discounted occupancy and active masses. */
export interface Occupancy {
  /** d(s) = (1−γ) Σ_t γ^t Pr(s_t = s), over states; sums to 1 */
  readonly d: Float64Array
  /** active mass ρ_j = Σ_{s: j(s)=j} d(s), over agents */
  readonly rho: Float64Array
  /** proven bound on ‖d − exact‖₁, rounding included */
  readonly error: number
}

/** State values and return. */
export interface Values {
  /** V(s), over states */
  readonly V: Float64Array
  /** return J = Σ μ(s) V(s) */
  readonly J: number
  /** proven bound on ‖V − exact‖∞, rounding included; so |J − exact| is within it, and each Q and A within twice it */
  readonly error: number
}

/** Everything exact evaluation knows of a team. */
export interface Evaluation extends Occupancy, Values {
  /** Q(s, a), over pairs */
  readonly Q: Float64Array
  /** A(s, a) = Q(s, a) − V(s), over pairs, also of actions the policy never plays */
  readonly A: Float64Array
  /** A_max = max |A| over all states and actions, unvisited states and unplayed actions included */
  readonly aMax: number
  /** proven bound on ‖d − exact‖₁, rounding included */
  readonly dError: number
  /** proven bound on ‖V − exact‖∞, rounding included */
  readonly vError: number
  /** the larger of both */
  readonly error: number
}

export interface EvaluateOptions {
  /**
   * when iterating: wanted ‖d − exact‖₁ ≤ tolerance and ‖V − exact‖∞ ≤ tolerance · max(1, ‖V‖∞); default 1e-12. Where rounding does not
   * allow it, the result is as near as rounding allows, and its `error` says how near.
   */
  readonly tolerance?: number
}

const DEFAULT_TOLERANCE = 1e-12

/** Occupancy and active masses of a team alone. Method, cost, errors thrown: as `evaluate`. */
export const occupancy = (mdp: TeamMdp, policy: TeamPolicy, options: EvaluateOptions = {}): Occupancy => {
  const { d, residual } = solverOf(mdp, policy, options).occupancy()
  return { d, rho: activeMass(mdp, d), error: occupancyError(mdp, d, residual) }
}

/** Values and return of a team alone. Method, cost, errors thrown: as `evaluate`. */
export const values = (mdp: TeamMdp, policy: TeamPolicy, options: EvaluateOptions = {}): Values => {
  const V = solverOf(mdp, policy, options).values()
  return { V, J: dot(mdp.mu, V), error: valueError(mdp, policy, V, actionValues(mdp, V)) }
}

/**
 * Occupancy, values, Q, advantages, A_max and active masses of a team.
 *
 * Contexts that only grow (self-loops aside) take one pass; otherwise states are eliminated where that is cheap (`elimination.ts`), and
 * the system is iterated where it is not (`iterate.ts`), at a cost linear in the entries per sweep. Whatever the method, the error
 * returned is proven from the residuals of the result (`valueError`, `occupancyError`).
 *
 * @throws TheoryError `size` when the policy is not over the pairs of `mdp`
 */
export const evaluate = (mdp: TeamMdp, policy: TeamPolicy, options: EvaluateOptions = {}): Evaluation => {
  const solver = solverOf(mdp, policy, options)
  const { d, residual } = solver.occupancy()
  const V = solver.values()
  const Q = actionValues(mdp, V)
  const { A, aMax } = advantages(mdp, V, Q)
  const dError = occupancyError(mdp, d, residual)
  const vError = valueError(mdp, policy, V, Q)
  return { d, rho: activeMass(mdp, d), V, J: dot(mdp.mu, V), Q, A, aMax, dError, vError, error: Math.max(dError, vError) }
}

/** Occupancy and values of one team by the method that its MDP calls for; factors are made once, for both. */
const solverOf = (mdp: TeamMdp, policy: TeamPolicy, { tolerance = DEFAULT_TOLERANCE }: EvaluateOptions) => {
  requireLength('policy', policy, pairs(mdp))
  const { plan, topological } = structureOf(mdp)
  if (topological) {
    return {
      occupancy: () => measured(mdp, policy, forwardPass(mdp, policy, topological)),
      values: () => backwardPass(mdp, policy, topological),
    }
  }
  if (plan) {
    const factors = factorise(mdp, policy, plan)
    return {
      occupancy: () => measured(mdp, policy, solveTransposed(factors, startMass(mdp))),
      values: () => solve(factors, policyReward(mdp, policy)),
    }
  }
  let users = 2
  const chain = chainOf(mdp, policy)
  const last = <T>(result: T): T => {
    if (--users === 0) chain.release()
    return result
  }
  return {
    occupancy: () => last(iterateOccupancy(chain, mdp.gamma, startMass(mdp), tolerance)),
    values: () => last(iterateValues(chain, mdp.gamma, policyReward(mdp, policy), tolerance)),
  }
}

/** d of contexts that only grow: each state hands its mass on before its successors are visited. */
const forwardPass = (mdp: TeamMdp, policy: TeamPolicy, order: Int32Array): Float64Array => {
  const { gamma, actionStart, rowStart, next, prob } = mdp
  const d = startMass(mdp)
  for (let t = 0; t < order.length; t++) {
    const s = order[t]
    if (d[s] === 0) continue
    d[s] /= 1 - gamma * staying(mdp, policy, s)
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const mass = gamma * policy[k] * d[s]
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) if (next[e] !== s) d[next[e]] += mass * prob[e]
    }
  }
  return d
}

/** V of contexts that only grow: each state after all its successors. */
const backwardPass = (mdp: TeamMdp, policy: TeamPolicy, order: Int32Array): Float64Array => {
  const { gamma, actionStart, rowStart, next, prob } = mdp
  const V = policyReward(mdp, policy)
  for (let t = order.length - 1; t >= 0; t--) {
    const s = order[t]
    let value = V[s]
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) if (next[e] !== s) value += gamma * policy[k] * prob[e] * V[next[e]]
    }
    V[s] = value / (1 - gamma * staying(mdp, policy, s))
  }
  return V
}

/** P_π(s, s) */
const staying = ({ actionStart, rowStart, next, prob }: TeamMdp, policy: TeamPolicy, s: number): number => {
  let stay = 0
  for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
    for (let e = rowStart[k]; e < rowStart[k + 1]; e++) if (next[e] === s) stay += policy[k] * prob[e]
  }
  return stay
}

/** (1−γ) μ */
const startMass = ({ mu, gamma }: TeamMdp): Float64Array => {
  const b = new Float64Array(mu.length)
  for (let s = 0; s < b.length; s++) b[s] = (1 - gamma) * mu[s]
  return b
}

/**
 * 1/(1−γ) bounds ‖(I − γP_π)⁻¹‖∞ and ‖(I − γP_πᵀ)⁻¹‖₁; a little more, since rows may miss 1 by ROW_SUM_TOLERANCE, twice (policy, transitions).
 * Infinite when that makes γ reach 1.
 */
const inverseNorm = (gamma: number): number => 1 / Math.max(0, 1 - gamma * (1 + ROW_SUM_TOLERANCE) ** 2)

/** Largest relative error of one rounding. */
const UNIT = Number.EPSILON / 2

/**
 * Proven bound on ‖V − exact‖∞: the residual r_π + γP_π V − V, here Σ_a π(a|s) Q(s,a) − V(s), times the norm of the inverse. The second
 * term allows for the rounding of the residual itself: at most fanOut + 6 roundings stand between an entry of V and its residual.
 */
const valueError = (mdp: TeamMdp, policy: TeamPolicy, V: Float64Array, Q: Float64Array): number => {
  const { states, actionStart } = mdp
  let residual = 0
  for (let s = 0; s < states; s++) {
    let mean = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) mean += policy[k] * Q[k]
    const size = Math.abs(mean - V[s])
    if (!(size <= residual)) residual = size
  }
  const rounding = 1.01 * UNIT * (structureOf(mdp).fanOut + 6) * (maxNorm(mdp.reward) + 2 * maxNorm(V))
  return (residual + rounding) * inverseNorm(mdp.gamma)
}

/** Proven bound on ‖d − exact‖₁, from ‖(1−γ)μ + γP_πᵀ d − d‖₁ in the same way; at most fanIn + 6 roundings. */
const occupancyError = (mdp: TeamMdp, d: Float64Array, residual: number): number => {
  const rounding = 1.01 * UNIT * (structureOf(mdp).fanIn + 6) * (1 + 2 * sumNorm(d))
  return (residual + rounding) * inverseNorm(mdp.gamma)
}

/** d with ‖(1−γ)μ + γP_πᵀ d − d‖₁ */
const measured = (mdp: TeamMdp, policy: TeamPolicy, d: Float64Array): { d: Float64Array; residual: number } => {
  const { states, gamma, actionStart, rowStart, next, prob } = mdp
  const residual = startMass(mdp)
  for (let s = 0; s < states; s++) {
    residual[s] -= d[s]
    if (d[s] === 0) continue
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const mass = gamma * policy[k] * d[s]
      const end = rowStart[k + 1]
      for (let e = rowStart[k]; e < end; e++) residual[next[e]] += mass * prob[e]
    }
  }
  return { d, residual: sumNorm(residual) }
}

/** ρ_j of an occupancy: its mass on the states where j acts. */
export const activeMass = (mdp: TeamMdp, d: Float64Array): Float64Array => {
  const rho = new Float64Array(mdp.n)
  for (let s = 0; s < mdp.states; s++) rho[mdp.activeAgent[s]] += d[s]
  return rho
}

/** Q(s, a) = r(s, a) + γ Σ P(s'|s, a) V(s'), over pairs. */
export const actionValues = (mdp: TeamMdp, V: Float64Array): Float64Array => {
  const { gamma, rowStart, next, prob, reward } = mdp
  const Q = new Float64Array(pairs(mdp))
  for (let k = 0; k < Q.length; k++) {
    // two sums: additions overlap
    const end = rowStart[k + 1]
    let e = rowStart[k]
    let even = 0
    let odd = 0
    for (; e + 1 < end; e += 2) {
      even += prob[e] * V[next[e]]
      odd += prob[e + 1] * V[next[e + 1]]
    }
    if (e < end) even += prob[e] * V[next[e]]
    Q[k] = reward[k] + gamma * (even + odd)
  }
  return Q
}

const advantages = (mdp: TeamMdp, V: Float64Array, Q: Float64Array): { A: Float64Array; aMax: number } => {
  const A = new Float64Array(Q.length)
  let aMax = 0
  for (let s = 0; s < mdp.states; s++) {
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
      A[k] = Q[k] - V[s]
      const size = Math.abs(A[k])
      if (size > aMax) aMax = size
    }
  }
  return { A, aMax }
}

/** r_π(s) = Σ_a π(a|s) r(s, a) */
const policyReward = ({ states, actionStart, reward }: TeamMdp, policy: TeamPolicy): Float64Array => {
  const r = new Float64Array(states)
  for (let s = 0; s < states; s++) {
    let mean = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) mean += policy[k] * reward[k]
    r[s] = mean
  }
  return r
}
