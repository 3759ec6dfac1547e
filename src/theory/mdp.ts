import { InputError } from '../util/errors.js'

/**
 * A team as a message-action MDP (theory.md, section 1).
 *
 * States, agents and actions count from 0. In state s only agent `activeAgent[s]` acts; it has the actions
 * `actionStart[s] … actionStart[s+1]−1`, each of them one *pair* (s, a). Everything that depends on (s, a) is an array over pairs.
 * The successors of pair k are `next[rowStart[k] … rowStart[k+1]−1]`, with probabilities `prob` (compressed sparse rows).
 *
 * Built by `teamMdp` alone, which checks every number; the arrays are never written afterwards.
 */
export interface TeamMdp {
  /** number of agents, n ≥ 1 */
  readonly n: number
  /** discount γ, 0 < γ < 1 */
  readonly gamma: number
  /** number of states, ≥ 1 */
  readonly states: number
  /** start distribution μ, over states; sums to 1 */
  readonly mu: Float64Array
  /** j(s), over states; 0 … n−1 */
  readonly activeAgent: Int32Array
  /** first pair of each state, states + 1 entries; every state has at least one action */
  readonly actionStart: Int32Array
  /** first entry of each pair in `next` and `prob`, pairs + 1 entries */
  readonly rowStart: Int32Array
  /** successor states; one that occurs twice in a row counts with the sum of its probabilities */
  readonly next: Int32Array
  /** transition probabilities, each row sums to 1 */
  readonly prob: Float64Array
  /** r(s, a), over pairs */
  readonly reward: Float64Array
}

/**
 * One row of action probabilities per state, over pairs: π(a|s) = policy[actionStart[s] + a]. The row of s is the row of its active
 * agent; the others' no-ops are not stored. Built by `teamPolicy`; never written afterwards.
 */
export type TeamPolicy = Float64Array

/** What can be wrong with an input (../shared/theory-cases, README). */
export type TheoryErrorKind =
  | 'row-sum' | 'negative-probability' | 'discount-range' | 'not-finite' | 'size' | 'agent-range' | 'order' | 'radius'
  | 'outside-radius' | 'infinite-kl'

/** An input that the theory refuses: what kind of fault, and where (a field name such as `policy[3]`). */
export class TheoryError extends InputError {
  override name = 'TheoryError'
  constructor(readonly kind: TheoryErrorKind, readonly place: string, readonly reason: string, where = '') {
    super(`${where && `${where}: `}${place}: ${reason} [${kind}]`)
  }
  /** The same error, its message opened by the file it came from. */
  in(where: string): TheoryError {
    return new TheoryError(this.kind, this.place, this.reason, where)
  }
}

/** How far a row may miss 1. */
export const ROW_SUM_TOLERANCE = 1e-9

/** Number of pairs (s, a). */
export const pairs = (mdp: TeamMdp): number => mdp.reward.length

/** Number of actions in state s. */
export const actions = (mdp: TeamMdp, s: number): number => mdp.actionStart[s + 1] - mdp.actionStart[s]

/**
 * The only way to make a `TeamMdp`: checks all of it and freezes the object. The arrays are taken over, not copied: the caller must not write to them again.
 *
 * @throws TheoryError `size`, `agent-range`, `discount-range`, `not-finite`, `negative-probability` or `row-sum`, with the place
 */
export const teamMdp = (parts: TeamMdp): TeamMdp => {
  const { n, gamma, states, mu, activeAgent, actionStart, rowStart, next, prob, reward } = parts
  if (!Number.isInteger(n) || n < 1) throw new TheoryError('size', 'n', `holds ${n}; a whole number, at least 1`)
  if (!Number.isInteger(states) || states < 1) throw new TheoryError('size', 'states', `holds ${states}; at least one state`)
  if (!(gamma > 0 && gamma < 1)) throw new TheoryError('discount-range', 'gamma', `holds ${gamma}; strictly between 0 and 1`)
  const count = reward.length
  requireLength('mu', mu, states)
  requireLength('activeAgent', activeAgent, states)
  requireOffsets('actionStart', actionStart, states, count, 1)
  requireOffsets('rowStart', rowStart, count, next.length, 0)
  requireLength('prob', prob, next.length)
  for (let s = 0; s < states; s++) {
    const j = activeAgent[s]
    if (j < 0 || j >= n) throw new TheoryError('agent-range', `activeAgent[${s}]`, `holds ${j}; an agent, 0 to ${n - 1}`)
  }
  requireDistribution(mu, 0, states, () => 'mu')
  const place = (pair: number): string => {
    const s = stateOf(actionStart, pair)
    return `s=${s},a=${pair - actionStart[s]}`
  }
  for (let pair = 0; pair < count; pair++) {
    if (!Number.isFinite(reward[pair])) throw new TheoryError('not-finite', rewardPlace(actionStart, pair), `holds ${reward[pair]}; a finite reward`)
    for (let k = rowStart[pair]; k < rowStart[pair + 1]; k++) {
      if (next[k] < 0 || next[k] >= states) {
        throw new TheoryError('size', `P[${place(pair)}]`, `leads to state ${next[k]}; a state, 0 to ${states - 1}`)
      }
    }
    requireDistribution(prob, rowStart[pair], rowStart[pair + 1], () => `P[${place(pair)}]`)
  }
  return Object.freeze({ n, gamma, states, mu, activeAgent, actionStart, rowStart, next, prob, reward })
}

/**
 * A checked policy of `mdp`, from one row per state or from one flat row over pairs (copied).
 *
 * @throws TheoryError `size`, `not-finite`, `negative-probability` or `row-sum`, at `policy[s]`
 */
export const teamPolicy = (mdp: TeamMdp, rows: ArrayLike<ArrayLike<number>> | Float64Array): TeamPolicy => {
  const { actionStart, states } = mdp
  let policy: Float64Array
  if (rows instanceof Float64Array) {
    requireLength('policy', rows, pairs(mdp))
    policy = rows.slice()
  } else {
    requireLength('policy', rows, states)
    policy = new Float64Array(pairs(mdp))
    for (let s = 0; s < states; s++) {
      requireLength(`policy[${s}]`, rows[s], actions(mdp, s))
      policy.set(rows[s], actionStart[s])
    }
  }
  for (let s = 0; s < states; s++) requireDistribution(policy, actionStart[s], actionStart[s + 1], () => `policy[${s}]`)
  return policy
}

/** The policy that plays every action of a state with the same probability. */
export const uniformPolicy = (mdp: TeamMdp): TeamPolicy => {
  const policy = new Float64Array(pairs(mdp))
  for (let s = 0; s < mdp.states; s++) policy.fill(1 / actions(mdp, s), mdp.actionStart[s], mdp.actionStart[s + 1])
  return policy
}

/** `base` with the rows of `agent`'s states taken from `target`: one step of a stage. Both over the pairs of `mdp`. */
export const replaceAgent = (mdp: TeamMdp, base: TeamPolicy, agent: number, target: TeamPolicy): TeamPolicy => {
  const policy = base.slice()
  for (let s = 0; s < mdp.states; s++) {
    if (mdp.activeAgent[s] !== agent) continue
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) policy[k] = target[k]
  }
  return policy
}

/**
 * `values[from … to−1]` is a probability distribution.
 * @throws TheoryError `not-finite`, `negative-probability` or `row-sum`
 */
export const requireDistribution = (values: ArrayLike<number>, from: number, to: number, place: () => string): void => {
  let sum = 0
  for (let k = from; k < to; k++) {
    const p = values[k]
    if (!(p >= 0 && p <= Number.MAX_VALUE)) {
      throw p < 0 && p !== -Infinity
        ? new TheoryError('negative-probability', place(), `holds ${p}; no probability is negative`)
        : new TheoryError('not-finite', place(), `holds ${p}; probabilities are finite`)
    }
    sum += p
  }
  if (!(Math.abs(sum - 1) <= ROW_SUM_TOLERANCE)) {
    throw new TheoryError('row-sum', place(), `sums to ${sum}; 1 within ${ROW_SUM_TOLERANCE}`)
  }
}

/** @throws TheoryError `size` */
export const requireLength = (place: string, array: ArrayLike<unknown>, length: number): void => {
  if (array.length !== length) throw new TheoryError('size', place, `has ${array.length} entries; ${length} are needed`)
}

const requireOffsets = (place: string, offsets: Int32Array, rows: number, end: number, least: number): void => {
  requireLength(place, offsets, rows + 1)
  if (offsets[0] !== 0) throw new TheoryError('size', `${place}[0]`, `holds ${offsets[0]}; the first row starts at 0`)
  for (let i = 0; i < rows; i++) {
    if (offsets[i + 1] - offsets[i] < least) throw new TheoryError('size', `${place}[${i}]`, `ends before it starts; at least ${least} entries a row`)
  }
  if (offsets[rows] !== end) throw new TheoryError('size', `${place}[${rows}]`, `holds ${offsets[rows]}; the rows end at ${end}`)
}

const rewardPlace = (actionStart: Int32Array, pair: number): string => {
  const s = stateOf(actionStart, pair)
  return `r[${s}][${pair - actionStart[s]}]`
}

/** The state of a pair: bisection on `actionStart`. */
export const stateOf = (actionStart: Int32Array, pair: number): number => {
  let low = 0
  let high = actionStart.length - 1
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (actionStart[middle] <= pair) low = middle
    else high = middle
  }
  return low
}
