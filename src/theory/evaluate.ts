import { actions, pairs, type TeamMdp, type TeamPolicy } from './mdp.js'

/** Discounted occupancy and active masses. */
export interface Occupancy {
  /** d(s) = (1−γ) Σ_t γ^t Pr(s_t = s), over states; sums to 1 */
  readonly d: Float64Array
  /** active mass ρ_j = Σ_{s: j(s)=j} d(s), over agents */
  readonly rho: Float64Array
  /** proven bound on ‖d − exact‖₁ */
  readonly error: number
}

/** State values and return. */
export interface Values {
  /** V(s), over states */
  readonly V: Float64Array
  /** return J = Σ μ(s) V(s) */
  readonly J: number
  /** proven bound on ‖V − exact‖∞ (so |J − exact| is within it, and each Q and A within twice it) */
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
  /** the larger of both proven bounds: ‖d − exact‖₁ and ‖V − exact‖∞ */
  readonly error: number
}

export interface EvaluateOptions {
  /** wanted error: ‖d − exact‖₁ ≤ tolerance and ‖V − exact‖∞ ≤ tolerance · max(1, ‖V‖∞); default 1e-12 */
  readonly tolerance?: number
}

/** Occupancy and active masses of a team alone. */
export const occupancy = (mdp: TeamMdp, policy: TeamPolicy, _options: EvaluateOptions = {}): Occupancy => {
  const { states, gamma, mu } = mdp
  const M = denseSystem(mdp, policy)
  const T = new Float64Array(states * states)
  for (let i = 0; i < states; i++) for (let j = 0; j < states; j++) T[j * states + i] = M[i * states + j]
  const d = solveDense(T, mu.map((x) => (1 - gamma) * x))
  return { d, rho: activeMass(mdp, d), error: 0 }
}

/** Values and return of a team alone. */
export const values = (mdp: TeamMdp, policy: TeamPolicy, _options: EvaluateOptions = {}): Values => {
  const V = solveDense(denseSystem(mdp, policy), policyReward(mdp, policy))
  return { V, J: dot(mdp.mu, V), error: 0 }
}

/** Occupancy, values, Q, advantages, A_max and active masses of a team. */
export const evaluate = (mdp: TeamMdp, policy: TeamPolicy, options: EvaluateOptions = {}): Evaluation => {
  const { d, rho, error: dError } = occupancy(mdp, policy, options)
  const { V, J, error: vError } = values(mdp, policy, options)
  const Q = actionValues(mdp, V)
  const { A, aMax } = advantages(mdp, V, Q)
  return { d, rho, V, J, Q, A, aMax, error: Math.max(dError, vError) }
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
    let sum = 0
    for (let e = rowStart[k]; e < rowStart[k + 1]; e++) sum += prob[e] * V[next[e]]
    Q[k] = reward[k] + gamma * sum
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

const policyReward = (mdp: TeamMdp, policy: TeamPolicy): Float64Array => {
  const r = new Float64Array(mdp.states)
  for (let s = 0; s < mdp.states; s++) {
    for (let a = 0, k = mdp.actionStart[s]; a < actions(mdp, s); a++, k++) r[s] += policy[k] * mdp.reward[k]
  }
  return r
}

const denseSystem = (mdp: TeamMdp, policy: TeamPolicy): Float64Array => {
  const { states, gamma, actionStart, rowStart, next, prob } = mdp
  const M = new Float64Array(states * states)
  for (let s = 0; s < states; s++) {
    M[s * states + s] += 1
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) M[s * states + next[e]] -= gamma * policy[k] * prob[e]
    }
  }
  return M
}

const solveDense = (M: Float64Array, b: Float64Array): Float64Array => {
  const n = b.length
  const x = b.slice()
  for (let p = 0; p < n; p++) {
    for (let i = p + 1; i < n; i++) {
      const f = M[i * n + p] / M[p * n + p]
      if (f === 0) continue
      for (let j = p; j < n; j++) M[i * n + j] -= f * M[p * n + j]
      x[i] -= f * x[p]
    }
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let j = i + 1; j < n; j++) x[i] -= M[i * n + j] * x[j]
    x[i] /= M[i * n + i]
  }
  return x
}

const dot = (x: Float64Array, y: Float64Array): number => {
  let sum = 0
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i]
  return sum
}
