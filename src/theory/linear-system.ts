import { ROW_SUM_TOLERANCE, type TeamMdp, type TeamPolicy } from './mdp.js'
import { maxNorm, sumNorm } from './norms.js'
import { structureOf } from './structure.js'

/**
 * The two systems of exact evaluation, V = r_π + γP_π V and d = (1−γ)μ + γP_πᵀ d: their right sides, and what the residual of an approximate
 * solution proves about its error.
 */

/** (1−γ) μ */
export const startMass = ({ mu, gamma }: TeamMdp): Float64Array => {
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
export const valueError = (mdp: TeamMdp, policy: TeamPolicy, V: Float64Array, Q: Float64Array): number => {
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
export const occupancyError = (mdp: TeamMdp, d: Float64Array, residual: number): number => {
  const rounding = 1.01 * UNIT * (structureOf(mdp).fanIn + 6) * (1 + 2 * sumNorm(d))
  return (residual + rounding) * inverseNorm(mdp.gamma)
}

/** ‖(1−γ)μ + γP_πᵀ d − d‖₁ */
export const occupancyResidual = (mdp: TeamMdp, policy: TeamPolicy, d: Float64Array): number => {
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
  return sumNorm(residual)
}

/** r_π(s) = Σ_a π(a|s) r(s, a) */
export const policyReward = ({ states, actionStart, reward }: TeamMdp, policy: TeamPolicy): Float64Array => {
  const r = new Float64Array(states)
  for (let s = 0; s < states; s++) {
    let mean = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) mean += policy[k] * reward[k]
    r[s] = mean
  }
  return r
}
