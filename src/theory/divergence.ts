import { TheoryError, type TeamMdp, type TeamPolicy } from './mdp.js'

/**
 * p·φ(q/p) with φ(w) = w − 1 − log w: one term of KL(p‖q) = Σ p·φ(q/p), never negative, with full relative precision however near p and q are.
 * p = 0 counts q; q = 0 < p is infinite.
 *
 * Near w = 1, with u = w − 1 and z = u/(2+u): log(1+u) = 2(z + z³/3 + z⁵/5 + …) and u − 2z = u·z, hence φ = u·z − 2(z³/3 + z⁵/5 + …), where nothing cancels.
 */
export const klTerm = (p: number, q: number): number => {
  if (p === q) return 0
  if (p === 0) return q
  if (q === 0) return Infinity
  const u = (q - p) / p
  if (u > -0.25 && u < 0.25) {
    const z = u / (2 + u)
    const z2 = z * z
    // |z| < 1/7, so the first term left out, z¹⁸/19, is below 1e-16 of the whole
    const tail = 1 / 3 + z2 * (1 / 5 + z2 * (1 / 7 + z2 * (1 / 9 + z2 * (1 / 11 + z2 * (1 / 13 + z2 * (1 / 15 + z2 / 17))))))
    return p * z * (u - 2 * z2 * tail)
  }
  const logRatio = u < 1e300 ? Math.log(q / p) : Math.log(q) - Math.log(p)
  return q - p - p * logRatio
}

/** KL(p‖q) of two rows of the same length, behaviour first: 0 when equal, Infinity when q lost support that p has, never NaN, never negative. */
export const kl = (p: ArrayLike<number>, q: ArrayLike<number>): number => klBetween(p, q, 0, p.length)

/** TV(p, q) = ½ Σ |p − q| of two rows of the same length; 0 … 1. */
export const tv = (p: ArrayLike<number>, q: ArrayLike<number>): number => tvBetween(p, q, 0, p.length)

const klBetween = (p: ArrayLike<number>, q: ArrayLike<number>, from: number, to: number): number => {
  let sum = 0
  for (let k = from; k < to; k++) sum += klTerm(p[k], q[k])
  return sum
}

const tvBetween = (p: ArrayLike<number>, q: ArrayLike<number>, from: number, to: number): number => {
  let sum = 0
  for (let k = from; k < to; k++) sum += Math.abs(p[k] - q[k])
  return sum / 2
}

/** KL(before(·|s) ‖ after(·|s)), over states. */
export const klByState = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy): Float64Array => byState(mdp, before, after, klBetween)

/** TV(before(·|s), after(·|s)), over states. */
export const tvByState = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy): Float64Array => byState(mdp, before, after, tvBetween)

const byState = (mdp: TeamMdp, before: TeamPolicy, after: TeamPolicy, between: typeof klBetween): Float64Array => {
  const { states, actionStart } = mdp
  const out = new Float64Array(states)
  for (let s = 0; s < states; s++) out[s] = between(before, after, actionStart[s], actionStart[s + 1])
  return out
}

/** E_{s~d} f(s) with 0·∞ = 0: a state that d does not visit adds nothing, whatever f is there. */
export const expectation = (d: Float64Array, f: Float64Array): number => {
  let sum = 0
  for (let s = 0; s < d.length; s++) if (d[s] > 0 && f[s] !== 0) sum += d[s] * f[s]
  return sum
}

/**
 * Token-decomposed KL (theory.md, section 1): D_tok^d(before‖after) = E_{s~d} KL(before(·|s)‖after(·|s)), under any reference occupancy d.
 * Infinite when support is lost at a state with d > 0; such a state with d = 0 adds nothing.
 */
export const dTok = (mdp: TeamMdp, d: Float64Array, before: TeamPolicy, after: TeamPolicy): number =>
  expectation(d, klByState(mdp, before, after))

/** E_{s~d} TV(before(·|s), after(·|s)). */
export const tvMean = (mdp: TeamMdp, d: Float64Array, before: TeamPolicy, after: TeamPolicy): number =>
  expectation(d, tvByState(mdp, before, after))

/** Largest entry; the maximum of a divergence over **all** states, unvisited ones too. */
export const largest = (x: Float64Array): number => {
  let max = -Infinity
  for (let i = 0; i < x.length; i++) if (x[i] > max) max = x[i]
  return max
}

/** How far an exact D_tok may exceed its declared radius, relative: rounding only. */
export const RADIUS_TOLERANCE = 1e-9

/**
 * D_tok of step i under its own reference d, refused unless it lies within the declared radius.
 *
 * @param radius δ_i (occupancy radius)
 * @param step i, for the message
 * @throws TheoryError `infinite-kl` when support is lost at a visited state (said first: it exceeds any radius), `outside-radius` when D_tok > δ_i
 */
export const requireWithinRadius = (mdp: TeamMdp, d: Float64Array, before: TeamPolicy, after: TeamPolicy, radius: number, step: number): number => {
  const byState = klByState(mdp, before, after)
  const distance = expectation(d, byState)
  if (distance === Infinity) {
    const s = byState.findIndex((x, at) => x === Infinity && d[at] > 0)
    const row = rankAmongOwn(mdp, s)
    throw new TheoryError('infinite-kl', `targets[${step}].probs[${row}]`, `has no mass where the behaviour has some, at state ${s}, which is visited; KL is infinite`)
  }
  if (distance > radius * (1 + RADIUS_TOLERANCE)) {
    throw new TheoryError('outside-radius', `radii[${step}]`, `holds ${radius}, but the target's D_tok is ${distance}; at least that`)
  }
  return distance
}

/** Position of s among the states of its agent. */
const rankAmongOwn = (mdp: TeamMdp, s: number): number => {
  let rank = 0
  for (let i = 0; i < s; i++) if (mdp.activeAgent[i] === mdp.activeAgent[s]) rank++
  return rank
}
