import type { TeamMdp, TeamPolicy } from './mdp.js'

/**
 * The Markov chain of a team, discounted: γP_π, entry by entry. An entry may repeat a successor (once per action); the sums are what counts.
 */
export interface Chain {
  /** first entry of each state, states + 1 entries */
  readonly start: Int32Array
  readonly next: Int32Array
  /** γ π(a|s) P(s'|s,a) */
  readonly weight: Float64Array
  /** 1 / (1 − γP_π(s, s)), over states */
  readonly stay: Float64Array
  /** order in which the occupancy passes visit the states (the value passes go backwards); undefined: as numbered */
  readonly order: Int32Array | undefined
}

export const chainOf = (mdp: TeamMdp, policy: TeamPolicy, order?: Int32Array): Chain => {
  const { states, gamma, actionStart, rowStart, next, prob } = mdp
  const start = new Int32Array(states + 1)
  const weight = new Float64Array(next.length)
  const stay = new Float64Array(states)
  for (let s = 0; s < states; s++) {
    let self = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const scale = gamma * policy[k]
      const end = rowStart[k + 1]
      for (let e = rowStart[k]; e < end; e++) {
        const w = scale * prob[e]
        weight[e] = w
        if (next[e] === s) self += w
      }
    }
    stay[s] = 1 / (1 - self)
    start[s + 1] = rowStart[actionStart[s + 1]]
  }
  return { start, next, weight, stay, order }
}

/**
 * One Gauss–Seidel pass over x = b + γP_π x, last state first, in place: each state takes its newest successors' values, so one pass
 * solves contexts that only grow, and carries values around a whole rotation of turns. `b` undefined is 0.
 *
 * @returns the largest change of an entry; afterwards ‖b + γP_π x − x‖∞ ≤ γ · change, since a state's equation held when it was last set
 */
export const sweepValues = ({ start, next, weight, stay, order }: Chain, x: Float64Array, b?: Float64Array): number => {
  let change = 0
  for (let t = x.length - 1; t >= 0; t--) {
    const s = order ? order[t] : t
    const end = start[s + 1]
    let e = start[s]
    let even = b ? b[s] : 0
    let odd = 0
    for (; e + 1 < end; e += 2) {
      even += weight[e] * x[next[e]]
      odd += weight[e + 1] * x[next[e + 1]]
    }
    if (e < end) even += weight[e] * x[next[e]]
    const step = (even + odd - x[s]) * stay[s]
    x[s] += step
    const size = step < 0 ? -step : step
    if (size > change) change = size
  }
  return change
}

/**
 * The same for occupancy, x = b + γP_πᵀ x, in terms of the residual r = b + γP_πᵀ x − x: each state in turn puts its residual into x
 * and passes it on to its successors. In place; x undefined: only the residual that remains is wanted.
 */
export const pushOccupancy = ({ start, next, weight, stay, order }: Chain, r: Float64Array, x?: Float64Array): void => {
  for (let t = 0; t < r.length; t++) {
    const s = order ? order[t] : t
    if (r[s] === 0) continue
    const step = r[s] * stay[s]
    if (x) x[s] += step
    r[s] -= step
    const end = start[s + 1]
    for (let e = start[s]; e < end; e++) r[next[e]] += weight[e] * step
    // what came back through the self-loop cancels r[s] up to rounding
    r[s] = 0
  }
}

/** out += γP_πᵀ x. */
export const addFlow = ({ start, next, weight }: Chain, x: Float64Array, out: Float64Array): void => {
  for (let s = 0; s < x.length; s++) {
    const mass = x[s]
    if (mass === 0) continue
    const end = start[s + 1]
    for (let e = start[s]; e < end; e++) out[next[e]] += weight[e] * mass
  }
}
