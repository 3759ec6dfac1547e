import { policyReward, startMass } from './linear-system.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'

// Contexts that only grow: each state is finished before (V) or after (d) all it leads to. Self-loops are allowed: an absorbing end.

/** d, states in topological order: each hands its mass on before its successors are visited. */
export const forwardPass = (mdp: TeamMdp, policy: TeamPolicy, order: Int32Array): Float64Array => {
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

/** V, states in the opposite order: each after all its successors. */
export const backwardPass = (mdp: TeamMdp, policy: TeamPolicy, order: Int32Array): Float64Array => {
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
