import type { TeamMdp, TeamPolicy } from './mdp.js'

/**
 * Direct solution of (I − γP_π) x = b and of its transpose by eliminating one state at a time.
 *
 * I − γP_π is strictly diagonally dominant by rows, so any order of elimination is stable without pivoting. The order is chosen once per
 * MDP, on the pattern that all policies share: always the state with the fewest (predecessors · successors), which is what its
 * elimination costs (Markowitz). A state without predecessors or without successors costs nothing, so contexts that only grow are
 * eliminated in topological order without any fill.
 */
export interface EliminationPlan {
  /** all states, first eliminated first */
  readonly order: Int32Array
  /** of each state: where its row of `lower` starts; states + 1 entries */
  readonly lowerStart: Int32Array
  /** row of L: the states eliminated before this one whose elimination touches its row, in that order */
  readonly lower: Int32Array
  readonly upperStart: Int32Array
  /** row of U beside the diagonal: the states eliminated later that this row reaches */
  readonly upper: Int32Array
  /** multiplications of one factorisation */
  readonly cost: number
}

/**
 * @param budget most multiplications that one factorisation may cost
 * @returns undefined when it would cost more
 */
export const planElimination = (mdp: TeamMdp, budget: number): EliminationPlan | undefined => {
  const { states } = mdp
  const words = (states + 31) >>> 5
  const successors = new Int32Array(states * words)
  const predecessors = new Int32Array(states * words)
  markTransitions(mdp, words, successors, predecessors)

  const reach = new Int32Array(states)
  const from = new Int32Array(states)
  for (let s = 0; s < states; s++) {
    reach[s] = bitCount(successors, s * words, words)
    from[s] = bitCount(predecessors, s * words, words)
  }

  const order = new Int32Array(states)
  const remaining = Int32Array.from({ length: states }, (_, s) => s)
  const lowerStart = new Int32Array(states + 1)
  const upperStart = new Int32Array(states + 1)
  const columns: Int32Array[] = []
  const rows: Int32Array[] = []
  let cost = 0
  for (let t = 0; t < states; t++) {
    const at = cheapest(remaining, states - t, from, reach)
    const pivot = remaining[at]
    remaining[at] = remaining[states - t - 1]
    order[t] = pivot
    cost += from[pivot] * (reach[pivot] + 1)
    if (cost > budget) return undefined
    const column = members(predecessors, pivot * words, words, from[pivot])
    const row = members(successors, pivot * words, words, reach[pivot])
    columns.push(column)
    rows.push(row)
    for (let i = 0; i < column.length; i++) {
      const s = column[i]
      lowerStart[s + 1]++
      reach[s] = merge(successors, s, pivot, words)
    }
    for (let i = 0; i < row.length; i++) from[row[i]] = merge(predecessors, row[i], pivot, words)
    upperStart[pivot + 1] = row.length
  }

  for (let s = 0; s < states; s++) {
    lowerStart[s + 1] += lowerStart[s]
    upperStart[s + 1] += upperStart[s]
  }
  const lower = new Int32Array(lowerStart[states])
  const upper = new Int32Array(upperStart[states])
  const at = lowerStart.slice()
  for (let t = 0; t < states; t++) {
    const pivot = order[t]
    for (let i = 0; i < columns[t].length; i++) lower[at[columns[t][i]]++] = pivot
    upper.set(rows[t], upperStart[pivot])
  }
  return { order, lowerStart, lower, upperStart, upper, cost }
}

/** I − γP_π = L·U with a unit diagonal in L; values lie beside the plan's indices. */
export interface Factors {
  readonly plan: EliminationPlan
  readonly lower: Float64Array
  readonly upper: Float64Array
  /** 1 / U(s, s), over states */
  readonly inverse: Float64Array
}

export const factorise = (mdp: TeamMdp, policy: TeamPolicy, plan: EliminationPlan): Factors => {
  const { states, gamma, actionStart, rowStart, next, prob } = mdp
  const { order, lowerStart, upperStart } = plan
  const lower = new Float64Array(plan.lower.length)
  const upper = new Float64Array(plan.upper.length)
  const inverse = new Float64Array(states)
  const row = new Float64Array(states)
  for (let t = 0; t < states; t++) {
    const s = order[t]
    const lowerEnd = lowerStart[s + 1]
    const upperEnd = upperStart[s + 1]
    for (let e = lowerStart[s]; e < lowerEnd; e++) row[plan.lower[e]] = 0
    for (let e = upperStart[s]; e < upperEnd; e++) row[plan.upper[e]] = 0
    row[s] = 1
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const weight = gamma * policy[k]
      if (weight === 0) continue
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) row[next[e]] -= weight * prob[e]
    }
    for (let e = lowerStart[s]; e < lowerEnd; e++) {
      const pivot = plan.lower[e]
      if (row[pivot] === 0) continue
      const factor = row[pivot] * inverse[pivot]
      lower[e] = factor
      for (let u = upperStart[pivot]; u < upperStart[pivot + 1]; u++) row[plan.upper[u]] -= factor * upper[u]
    }
    for (let e = upperStart[s]; e < upperEnd; e++) upper[e] = row[plan.upper[e]]
    inverse[s] = 1 / row[s]
  }
  return { plan, lower, upper, inverse }
}

/** x with (I − γP_π) x = b; b is overwritten by x. */
export const solve = ({ plan, lower, upper, inverse }: Factors, b: Float64Array): Float64Array => {
  const { order, lowerStart, upperStart } = plan
  for (let t = 0; t < order.length; t++) {
    const s = order[t]
    let sum = b[s]
    for (let e = lowerStart[s]; e < lowerStart[s + 1]; e++) sum -= lower[e] * b[plan.lower[e]]
    b[s] = sum
  }
  for (let t = order.length - 1; t >= 0; t--) {
    const s = order[t]
    let sum = b[s]
    for (let e = upperStart[s]; e < upperStart[s + 1]; e++) sum -= upper[e] * b[plan.upper[e]]
    b[s] = sum * inverse[s]
  }
  return b
}

/** x with (I − γP_π)ᵀ x = b; b is overwritten by x. */
export const solveTransposed = ({ plan, lower, upper, inverse }: Factors, b: Float64Array): Float64Array => {
  const { order, lowerStart, upperStart } = plan
  for (let t = 0; t < order.length; t++) {
    const s = order[t]
    const x = b[s] * inverse[s]
    b[s] = x
    if (x === 0) continue
    for (let e = upperStart[s]; e < upperStart[s + 1]; e++) b[plan.upper[e]] -= upper[e] * x
  }
  for (let t = order.length - 1; t >= 0; t--) {
    const s = order[t]
    const x = b[s]
    if (x === 0) continue
    for (let e = lowerStart[s]; e < lowerStart[s + 1]; e++) b[plan.lower[e]] -= lower[e] * x
  }
  return b
}

// Sets of states as rows of bits, `words` 32-bit words each.

const markTransitions = (mdp: TeamMdp, words: number, successors: Int32Array, predecessors: Int32Array): void => {
  const { states, actionStart, rowStart, next } = mdp
  for (let s = 0; s < states; s++) {
    for (let e = rowStart[actionStart[s]]; e < rowStart[actionStart[s + 1]]; e++) {
      const to = next[e]
      if (to === s) continue
      successors[s * words + (to >>> 5)] |= 1 << (to & 31)
      predecessors[to * words + (s >>> 5)] |= 1 << (s & 31)
    }
  }
}

const cheapest = (remaining: Int32Array, count: number, from: Int32Array, reach: Int32Array): number => {
  let best = 0
  let least = Infinity
  for (let i = 0; i < count && least > 0; i++) {
    const cost = from[remaining[i]] * reach[remaining[i]]
    if (cost < least) {
      least = cost
      best = i
    }
  }
  return best
}

/** sets[s] ∪= sets[pivot], without pivot and s; the size of the result. */
const merge = (sets: Int32Array, s: number, pivot: number, words: number): number => {
  const into = s * words
  const of = pivot * words
  for (let w = 0; w < words; w++) sets[into + w] |= sets[of + w]
  sets[into + (pivot >>> 5)] &= ~(1 << (pivot & 31))
  sets[into + (s >>> 5)] &= ~(1 << (s & 31))
  return bitCount(sets, into, words)
}

const bitCount = (sets: Int32Array, at: number, words: number): number => {
  let count = 0
  for (let w = at; w < at + words; w++) {
    let x = sets[w]
    if (x === 0) continue
    x -= (x >>> 1) & 0x55555555
    x = (x & 0x33333333) + ((x >>> 2) & 0x33333333)
    count += Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
  }
  return count
}

const members = (sets: Int32Array, at: number, words: number, count: number): Int32Array => {
  const out = new Int32Array(count)
  for (let w = 0, i = 0; i < count; w++) {
    for (let x = sets[at + w]; x !== 0; x &= x - 1) out[i++] = w * 32 + 31 - Math.clz32(x & -x)
  }
  return out
}
