import { teamMdp, teamPolicy, type TeamMdp, type TeamPolicy } from '../../src/theory/mdp.js'
import type { Random } from '../../src/util/random.js'

/** x with M x = b by Gaussian elimination with row exchanges: plain, dense, independent of src. M as rows; both are overwritten. */
export const solveDense = (M: number[][], b: number[]): number[] => {
  const n = b.length
  for (let p = 0; p < n; p++) {
    let best = p
    for (let i = p + 1; i < n; i++) if (Math.abs(M[i][p]) > Math.abs(M[best][p])) best = i
    ;[M[p], M[best]] = [M[best], M[p]]
    ;[b[p], b[best]] = [b[best], b[p]]
    for (let i = p + 1; i < n; i++) {
      const factor = M[i][p] / M[p][p]
      for (let j = p; j < n; j++) M[i][j] -= factor * M[p][j]
      b[i] -= factor * b[p]
    }
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let j = i + 1; j < n; j++) b[i] -= M[i][j] * b[j]
    b[i] /= M[i][i]
  }
  return b
}

/** Everything `evaluate` returns, from dense matrices. */
export const denseEvaluation = (mdp: TeamMdp, policy: TeamPolicy) => {
  const { n, states, gamma, mu, activeAgent, actionStart, rowStart, next, prob, reward } = mdp
  const P = Array.from({ length: states }, () => new Array<number>(states).fill(0))
  const r = new Array<number>(states).fill(0)
  for (let s = 0; s < states; s++) {
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      r[s] += policy[k] * reward[k]
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) P[s][next[e]] += policy[k] * prob[e]
    }
  }
  const identityMinus = (at: (i: number, j: number) => number) =>
    P.map((_, i) => P.map((__, j) => (i === j ? 1 : 0) - gamma * at(i, j)))
  const V = solveDense(identityMinus((i, j) => P[i][j]), r)
  const d = solveDense(identityMinus((i, j) => P[j][i]), [...mu].map((m) => (1 - gamma) * m))
  const Q = [...reward].map((x, k) => {
    let mean = 0
    for (let e = rowStart[k]; e < rowStart[k + 1]; e++) mean += prob[e] * V[next[e]]
    return x + gamma * mean
  })
  const A: number[] = []
  for (let s = 0; s < states; s++) for (let k = actionStart[s]; k < actionStart[s + 1]; k++) A[k] = Q[k] - V[s]
  const rho = new Array<number>(n).fill(0)
  d.forEach((mass, s) => (rho[activeAgent[s]] += mass))
  return { d, V, Q, A, rho, J: V.reduce((sum, v, s) => sum + mu[s] * v, 0), aMax: Math.max(...A.map(Math.abs)) }
}

/** How a random MDP may be degenerate. */
export const SHAPES = ['dense', 'sparse', 'periodic', 'absorbing', 'acyclic', 'unvisited', 'singleAction', 'zeroReward', 'repeated'] as const
export type Shape = (typeof SHAPES)[number]

/** A small random MDP with a policy, of a shape; agents that never act, and policies with zeros, occur in all of them. */
export const smallCase = (shape: Shape, gamma: number, random: Random): { mdp: TeamMdp; policy: TeamPolicy } => {
  const states = 1 + random.int(14)
  const n = 1 + random.int(4)
  const actionStart = [0]
  const rowStart = [0]
  const next: number[] = []
  const prob: number[] = []
  const successors = (s: number): number[] => {
    const any = () => random.int(states)
    switch (shape) {
      case 'dense': return Array.from({ length: states }, (_, i) => i)
      case 'periodic': return [(s + 1) % states]
      case 'absorbing': return random.next() < 0.3 ? [s] : [any(), s]
      case 'acyclic': return s === states - 1 ? [s] : [s + 1 + random.int(states - s - 1), s + 1 + random.int(states - s - 1)]
      case 'repeated': return [any(), s, s, any(), any()]
      default: return Array.from({ length: 1 + random.int(3) }, any)
    }
  }
  for (let s = 0; s < states; s++) {
    const actions = shape === 'singleAction' ? 1 : 1 + random.int(4)
    for (let a = 0; a < actions; a++) {
      const to = shape === 'repeated' ? successors(s) : [...new Set(successors(s))]
      const weights = to.map(() => random.next() + 1e-3)
      const sum = weights.reduce((x, y) => x + y, 0)
      next.push(...to)
      prob.push(...weights.map((w) => w / sum))
      rowStart.push(next.length)
    }
    actionStart.push(actionStart[s] + actions)
  }
  const mu = new Float64Array(states)
  if (shape === 'unvisited') mu[random.int(states)] = 1
  else mu.fill(1 / states)
  const mdp = teamMdp({
    n, gamma, states, mu,
    activeAgent: Int32Array.from({ length: states }, () => random.int(Math.max(1, n - 1))),
    actionStart: Int32Array.from(actionStart),
    rowStart: Int32Array.from(rowStart),
    next: Int32Array.from(next),
    prob: Float64Array.from(prob),
    reward: Float64Array.from(rowStart.slice(1), () => (shape === 'zeroReward' ? 0 : random.normal())),
  })
  const policy = new Float64Array(mdp.reward.length)
  for (let s = 0; s < states; s++) {
    const row = policy.subarray(actionStart[s], actionStart[s + 1])
    for (let a = 0; a < row.length; a++) row[a] = a > 0 && random.next() < 0.2 ? 0 : random.next() + 1e-9
    const sum = row.reduce((x, y) => x + y, 0)
    for (let a = 0; a < row.length; a++) row[a] /= sum
  }
  return { mdp, policy: teamPolicy(mdp, policy) }
}
