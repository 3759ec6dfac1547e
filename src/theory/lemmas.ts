import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { pinskerShift, tvShift } from './certificates.js'
import { dTok, expectation, kl, klTerm, tvMean } from './divergence.js'
import { evaluate, type Evaluation } from './evaluate.js'
import { TheoryError, type TeamMdp, type TeamPolicy } from './mdp.js'

/**
 * Lemmas 3.1 and 3.2, the performance difference and the occupancy shift, checked on finite examples: each side is computed as it
 * is stated, by enumeration or by exact evaluation, and both are returned.
 */

/** Both sides of an equation. */
export interface Equality {
  readonly left: number
  readonly right: number
  /** −|left − right|; 0 when both are infinite */
  readonly slack: number
  /** what rounding may do to the two sides */
  readonly tolerance: number
  /** slack ≥ −tolerance */
  readonly holds: boolean
}

/** Both sides of left ≥ right. */
export interface Inequality extends Equality {
  /** left − right */
  readonly slack: number
}

const equality = (left: number, right: number, tolerance: number): Equality => {
  const slack = left === right ? 0 : -Math.abs(left - right)
  return { left, right, slack, tolerance, holds: slack >= -tolerance }
}

const inequality = (left: number, right: number, tolerance: number): Inequality => {
  const slack = left === Infinity ? Infinity : left - right
  return { left, right, slack, tolerance, holds: slack >= -tolerance }
}

const UNIT = Number.EPSILON / 2

/** Most joint actions or messages that are enumerated. */
const MOST_ENUMERATED = 2 ** 20

/** Lemma 3.1 at one state. */
export interface ActiveFactorReduction {
  readonly state: number
  /** size of Π_j A_j, no-ops included */
  readonly jointActions: number
  /** KL of the joint action against KL of the active agent's */
  readonly kl: Equality
  /** E f(a) of the joint action against the active agent's, for a function f of the active action alone */
  readonly mean: Equality
}

/**
 * **Lemma 3.1** (active-factor reduction) at state s, on the full joint action space: KL(π'(·|s)‖π(·|s)) = KL(π'⁽ʲ⁽ˢ⁾⁾(·|s)‖π⁽ʲ⁽ˢ⁾⁾(·|s)),
 * and expectations of functions of the active action are those under the active factor.
 *
 * A_j holds agent j's no-op and, numbered after it, as many actions as j has in any state. In state s the active agent draws from its
 * row, every other agent plays its no-op with probability 1. A joint action's probability is the product over all agents.
 *
 * @param first π', the law the expectations are under; both policies over the pairs of `mdp`
 * @param second π
 * @param f over pairs; default: 1 for the first action, 2 for the second, …
 * @throws InputError when Π_j A_j has more than 2²⁰ members
 */
export const activeFactorReduction = (
  mdp: TeamMdp, first: TeamPolicy, second: TeamPolicy, s: number, f?: Float64Array,
): ActiveFactorReduction => {
  const { n, actionStart, activeAgent } = mdp
  if (!(s >= 0 && s < mdp.states)) throw new TheoryError('size', 's', `holds ${s}; a state, 0 to ${mdp.states - 1}`)
  const begin = actionStart[s]
  const own = actionStart[s + 1] - begin
  const sizes = actionSetSizes(mdp)
  const jointActions = sizes.reduce((product, size) => product * size, 1)
  if (jointActions > MOST_ENUMERATED) throw new InputError(`joint action space: ${jointActions} members; at most ${MOST_ENUMERATED} are enumerated`)

  // factors[j][a]: probability of agent j's action a in state s, its no-op being a = 0
  const factors = (policy: TeamPolicy): Float64Array[] => sizes.map((size, j) => {
    const factor = new Float64Array(size)
    if (j === activeAgent[s]) factor.set(policy.subarray(begin, begin + own), 1)
    else factor[0] = 1
    return factor
  })
  const [p, q] = [factors(first), factors(second)]
  const value = (a: number): number => (f ? f[begin + a] : a + 1)

  let klJoint = 0
  let meanJoint = 0
  let size = 0
  const joint = new Int32Array(n)
  for (let index = 0; index < jointActions; index++) {
    for (let j = 0, rest = index; j < n; j++) {
      joint[j] = rest % sizes[j]
      rest = Math.floor(rest / sizes[j])
    }
    const probabilityOf = (factor: Float64Array[]): number => factor.reduce((product, row, j) => product * row[joint[j]], 1)
    const probability = probabilityOf(p)
    klJoint += klTerm(probability, probabilityOf(q))
    const active = joint[activeAgent[s]] - 1
    if (probability > 0) meanJoint += probability * value(active)
  }
  let meanActive = 0
  for (let a = 0; a < own; a++) {
    meanActive += first[begin + a] * value(a)
    size += first[begin + a] * Math.abs(value(a))
  }
  const klActive = kl(first.subarray(begin, begin + own), second.subarray(begin, begin + own))
  const rounding = 2 * UNIT * (own + n)
  return {
    state: s,
    jointActions,
    kl: equality(klJoint, klActive, klActive < Infinity ? rounding * (1 + klActive) : 0),
    mean: equality(meanJoint, meanActive, rounding * size),
  }
}

/** |A_j| over agents: the no-op and the most actions that j has in a state. */
const actionSetSizes = ({ n, states, activeAgent, actionStart }: TeamMdp): number[] => {
  const sizes = new Array<number>(n).fill(1)
  for (let s = 0; s < states; s++) sizes[activeAgent[s]] = Math.max(sizes[activeAgent[s]], 1 + actionStart[s + 1] - actionStart[s])
  return sizes
}

/**
 * Messages over `tokens` tokens with at most `length` of them: after each prefix shorter than that, the next symbol is the end of the message
 * (symbol 0) or a token (1 … tokens); a message of full length ends by itself.
 */
export interface MessageSpace {
  readonly tokens: number
  readonly length: number
}

/**
 * A law over messages: for every prefix shorter than `length` one row of 1 + tokens probabilities, flat. The prefixes are numbered as the
 * nodes of a complete tree: the empty one is 0, prefix c followed by token x is c·tokens + x.
 */
export type MessageLaw = Float64Array

/** Number of prefixes that have a row. */
export const prefixes = ({ tokens, length }: MessageSpace): number => {
  let count = 0
  for (let level = 0, width = 1; level < length; level++, width *= tokens) count += width
  return count
}

/**
 * A random law: rows uniform on the simplex; with probability `zeros` each, symbols that never come (an early end that is impossible, a
 * token that is ruled out), and rows that are certain.
 */
export const randomMessageLaw = (space: MessageSpace, random: Random, zeros = 0): MessageLaw => {
  requireEnumerable(space)
  const width = space.tokens + 1
  const law = new Float64Array(prefixes(space) * width)
  for (let at = 0; at < law.length; at += width) {
    const row = law.subarray(at, at + width)
    let sum = 0
    for (let x = 0; x < width; x++) sum += row[x] = random.next() < zeros ? 0 : -Math.log(1 - random.next())
    if (sum > 0) for (let x = 0; x < width; x++) row[x] /= sum
    else row[random.int(width)] = 1
  }
  return law
}

/** Lemma 3.2 on one pair of laws. */
export interface TokenChainRule extends Equality {
  /** messages enumerated */
  readonly messages: number
  /** E T under the first law, the end symbol counted where it is drawn */
  readonly meanLength: number
}

/**
 * **Lemma 3.2** (token chain rule): KL(π(·|s)‖π'(·|s)) of whole messages (left) equals E_{m~π} Σ_{u≤T} KL(π_u‖π'_u) (right), end of message included.
 * Every message is enumerated. On the left a message's probability is the product over its symbols; on the right every message adds the
 * divergences along its prefixes.
 *
 * @param first π, the behaviour
 * @param second π'
 * @throws TheoryError `size` when a law has the wrong length; InputError when there are more than 2²⁰ messages
 */
export const tokenChainRule = (space: MessageSpace, first: MessageLaw, second: MessageLaw): TokenChainRule => {
  requireEnumerable(space)
  const { tokens, length } = space
  const width = tokens + 1
  for (const law of [first, second]) {
    if (law.length !== prefixes(space) * width) throw new TheoryError('size', 'law', `has ${law.length} entries; ${prefixes(space) * width} are needed`)
  }
  let left = 0
  let right = 0
  let messages = 0
  let meanLength = 0
  const end = (p: number, q: number, divergence: number, drawn: number): void => {
    left += klTerm(p, q)
    if (p > 0) right += p * divergence
    meanLength += p * drawn
    messages++
  }
  // p, q: probabilities of the prefix; divergence: Σ KL(π_u‖π'_u) along it
  const extend = (prefix: number, depth: number, p: number, q: number, divergence: number): void => {
    if (depth === length) return end(p, q, divergence, depth)
    const row = prefix * width
    const here = divergence + kl(first.subarray(row, row + width), second.subarray(row, row + width))
    end(p * first[row], q * second[row], here, depth + 1)
    for (let x = 1; x < width; x++) extend(prefix * tokens + x, depth + 1, p * first[row + x], q * second[row + x], here)
  }
  extend(0, 0, 1, 1, 0)
  const rounding = 4 * UNIT * (messages + length)
  return { ...equality(left, right, left < Infinity ? rounding * (1 + left) : 0), messages, meanLength }
}

const requireEnumerable = (space: MessageSpace): void => {
  const { tokens, length } = space
  if (!Number.isInteger(tokens) || tokens < 1) throw new InputError(`tokens: holds ${tokens}; a whole number, at least 1`)
  if (!Number.isInteger(length) || length < 1) throw new InputError(`length: holds ${length}; a whole number, at least 1`)
  const messages = prefixes(space) + tokens ** length
  if (!(messages <= MOST_ENUMERATED)) throw new InputError(`length: ${messages} messages; at most ${MOST_ENUMERATED} are enumerated`)
}

/**
 * **Performance difference**: J(π') − J(π) (left) = (1−γ)⁻¹ E_{s~d^{π'}, a~π'} A^π(s,a) (right). The tolerance follows from the proven errors of both evaluations.
 */
export const performanceDifference = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy): Equality => {
  const [old, now] = [evaluate(mdp, before), evaluate(mdp, after)]
  const horizon = 1 - mdp.gamma
  const f = new Float64Array(mdp.states)
  for (let s = 0; s < mdp.states; s++) {
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) f[s] += after[k] * old.A[k]
  }
  const tolerance = old.vError + now.vError + (now.dError * old.aMax + 2 * old.vError) / horizon + roundingOfSums(mdp, old)
  return equality(now.J - old.J, expectation(now.d, f) / horizon, tolerance)
}

const roundingOfSums = ({ states, gamma, mu }: TeamMdp, { V, aMax }: Evaluation): number => {
  let size = 0
  for (let s = 0; s < states; s++) size += mu[s] * Math.abs(V[s])
  return (4 * UNIT * states * (size + aMax)) / (1 - gamma)
}

/** The occupancy shift against both its bounds. */
export interface OccupancyShift {
  /** ‖d^{π'} − d^π‖₁ */
  readonly shift: number
  /** (2γ/(1−γ)) E_{s~d^π} TV (left) ≥ shift */
  readonly tv: Inequality
  /** (√2 γ/(1−γ)) √D_tok (left) ≥ (2γ/(1−γ)) E TV (right): Pinsker, then Jensen */
  readonly pinsker: Inequality
}

/** **Occupancy shift**: ‖d^{π'} − d^π‖₁ ≤ (2γ/(1−γ)) E_{s~d^π} TV ≤ (√2 γ/(1−γ)) √D, D = D_tok^π(π‖π'). */
export const occupancyShift = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy): OccupancyShift => {
  const { gamma, states } = mdp
  const [old, now] = [evaluate(mdp, before), evaluate(mdp, after)]
  let shift = 0
  for (let s = 0; s < states; s++) shift += Math.abs(now.d[s] - old.d[s])
  const tv = tvShift({ gamma, tvMean: tvMean(mdp, old.d, before, after) })
  const pinsker = pinskerShift({ gamma, radius: dTok(mdp, old.d, before, after) })
  const rounding = 8 * UNIT * states
  const errorOfTv = (2 * gamma * old.dError) / (1 - gamma)
  return {
    shift,
    tv: inequality(tv, shift, old.dError + now.dError + errorOfTv + rounding),
    // both sides under the same d, whatever its error
    pinsker: inequality(pinsker, tv, rounding * (1 + tv)),
  }
}
