import { chainOf } from './chain.js'
import { factorise, solve, solveTransposed } from './elimination.js'
import { iterateOccupancy, iterateValues } from './iterate.js'
import { occupancyError, occupancyResidual, policyReward, startMass, valueError } from './linear-system.js'
import { pairs, requireLength, type TeamMdp, type TeamPolicy } from './mdp.js'
import { dot } from './norms.js'
import { backwardPass, forwardPass } from './one-pass.js'
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
  const { d, residual } = solving(mdp, policy, options, (solver) => solver.occupancy())
  return { d, rho: activeMass(mdp, d), error: occupancyError(mdp, d, residual) }
}

/** Values and return of a team alone. Method, cost, errors thrown: as `evaluate`. */
export const values = (mdp: TeamMdp, policy: TeamPolicy, options: EvaluateOptions = {}): Values => {
  const V = solving(mdp, policy, options, (solver) => solver.values())
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
  const { d, residual, V } = solving(mdp, policy, options, (solver) => ({ ...solver.occupancy(), V: solver.values() }))
  const Q = actionValues(mdp, V)
  const { A, aMax } = advantages(mdp, V, Q)
  const dError = occupancyError(mdp, d, residual)
  const vError = valueError(mdp, policy, V, Q)
  return { d, rho: activeMass(mdp, d), V, J: dot(mdp.mu, V), Q, A, aMax, dError, vError, error: Math.max(dError, vError) }
}

const measured = (mdp: TeamMdp, policy: TeamPolicy, d: Float64Array): { d: Float64Array; residual: number } =>
  ({ d, residual: occupancyResidual(mdp, policy, d) })

interface Solver {
  /** d and ‖(1−γ)μ + γP_πᵀ d − d‖₁ */
  occupancy(): { d: Float64Array; residual: number }
  /** V */
  values(): Float64Array
}

/** `use` with the method that the MDP calls for; what the team's factors or chain cost is paid once. */
const solving = <T>(mdp: TeamMdp, policy: TeamPolicy, { tolerance = DEFAULT_TOLERANCE }: EvaluateOptions, use: (solver: Solver) => T): T => {
  requireLength('policy', policy, pairs(mdp))
  const { plan, topological } = structureOf(mdp)
  if (topological) {
    return use({
      occupancy: () => measured(mdp, policy, forwardPass(mdp, policy, topological)),
      values: () => backwardPass(mdp, policy, topological),
    })
  }
  if (plan) {
    const factors = factorise(mdp, policy, plan)
    return use({
      occupancy: () => measured(mdp, policy, solveTransposed(factors, startMass(mdp))),
      values: () => solve(factors, policyReward(mdp, policy)),
    })
  }
  const chain = chainOf(mdp, policy)
  const result = use({
    occupancy: () => iterateOccupancy(chain, mdp.gamma, startMass(mdp), tolerance),
    values: () => iterateValues(chain, mdp.gamma, policyReward(mdp, policy), tolerance),
  })
  chain.release()
  return result
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
