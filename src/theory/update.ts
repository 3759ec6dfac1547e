/**
 * Tabular updates of one agent: an exponential tilt to an exact trust-region radius, and the clipped-surrogate step that PPO's
 * objective asks for.
 *
 * Each looks at an occupancy d and an advantage A over pairs (whose they are is the stage's choice: intermediate, stale or joint
 * evaluation) and returns the whole team's policy with only the rows of `agent` changed. The radius is D_tok^d(before‖after) = E_{s~d} KL.
 */
import { InputError } from '../util/errors.js'
import { dTok } from './divergence.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'

/** What an update is made from. */
export interface UpdateInput {
  readonly mdp: TeamMdp
  /** the team before the update */
  readonly policy: TeamPolicy
  readonly agent: number
  /** the occupancy that the radius and the clipped surrogate average over, over states */
  readonly d: Float64Array
  /** the direction of improvement, over pairs; −A makes the team worse */
  readonly A: Float64Array
}

/** A step and what it achieved. */
export interface Update {
  readonly policy: TeamPolicy
  /** D_tok^d(before‖after), at most the radius asked for, up to rounding */
  readonly radius: number
  /** η of a tilt, or the share λ in [0, 1] of the way to the clipped target */
  readonly step: number
}

/** Largest |η·(A − E_π A)| of a tilt: beyond it probabilities underflow. */
const MAX_EXPONENT = 600

/** π(a|s)·exp(ηA(s,a)), normalised, in every state of `agent`. η any finite number; support is kept. */
export const tilt = ({ mdp, policy, agent, A }: Omit<UpdateInput, 'd'>, eta: number): TeamPolicy => {
  const { states, activeAgent, actionStart } = mdp
  const after = policy.slice()
  if (eta === 0) return after
  for (let s = 0; s < states; s++) {
    if (activeAgent[s] !== agent) continue
    const from = actionStart[s]
    const to = actionStart[s + 1]
    let highest = -Infinity
    for (let k = from; k < to; k++) if (policy[k] > 0) highest = Math.max(highest, eta * A[k])
    let sum = 0
    for (let k = from; k < to; k++) {
      after[k] = policy[k] > 0 ? policy[k] * Math.exp(eta * A[k] - highest) : 0
      sum += after[k]
    }
    for (let k = from; k < to; k++) after[k] /= sum
  }
  return after
}

/**
 * The tilt whose D_tok^d is exactly `radius`: D(η) grows strictly with η ≥ 0 unless A is constant on every visited row, so its root is
 * found by Newton's method on √D (nearly linear in η), kept inside a bracket.
 *
 * @param radius δ > 0 under the occupancy `d` (for a message radius δ pass ρδ); 0 leaves the team as it is
 * @returns η = 0 and D = 0 when no visited row of the agent can be tilted (never active, one action, constant A); the largest representable
 *   tilt when even that stays inside the radius
 * @throws InputError when the radius is negative or not finite
 */
export const tiltToRadius = (input: UpdateInput, radius: number): Update => {
  if (!(radius >= 0 && radius < Infinity)) throw new InputError(`radius: holds ${radius}; at least 0 and finite`)
  const { mdp, policy, d } = input
  const unchanged: Update = { policy: policy.slice(), radius: 0, step: 0 }
  if (radius === 0) return unchanged
  const rows = visitedRows(input)
  let spread = 0
  for (const { x } of rows) for (const value of x) spread = Math.max(spread, Math.abs(value))
  // constant, or so nearly that no finite η tells the actions apart
  if (!(MAX_EXPONENT / spread < Infinity)) return unchanged
  const scaled = rows.map(({ weight, p, x }) => ({ weight, p, x: x.map((value) => value / spread) }))
  let eta = rootOfTilt(scaled, radius, MAX_EXPONENT) / spread
  // what was rounded is measured, not what was meant: a tiny tilt may round to just outside, a huge one lose support (halve it); the last
  // factor makes an end of it
  for (let i = 0; ; i++) {
    const after = tilt(input, eta)
    const achieved = dTok(mdp, d, policy, after)
    if (achieved <= radius * (1 + 1e-12)) return { policy: after, radius: achieved, step: eta }
    eta *= Math.min(Math.sqrt(radius / achieved) || 0.5, 1 - 2 ** (i - 50))
  }
}

/** A visited row on its support: d(s), π(·|s) and the centred advantage. */
interface Row {
  weight: number
  p: number[]
  x: number[]
}

const visitedRows = ({ mdp, policy, agent, d, A }: UpdateInput): Row[] => {
  const { states, activeAgent, actionStart } = mdp
  const rows: Row[] = []
  for (let s = 0; s < states; s++) {
    if (activeAgent[s] !== agent || d[s] === 0) continue
    const p: number[] = []
    const x: number[] = []
    let mean = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      if (policy[k] === 0) continue
      p.push(policy[k])
      x.push(A[k])
      mean += policy[k] * A[k]
    }
    if (p.length > 1) rows.push({ weight: d[s], p, x: x.map((value) => value - mean) })
  }
  return rows
}

/**
 * D(η) = Σ d(s)·log E_π exp(ηx) and its derivative Σ d(s)·E_{π_η}x, x centred. The logarithm by expm1(t) − t, so that nothing cancels
 * for a small η.
 */
const tiltDivergence = (rows: readonly Row[], eta: number): { value: number; slope: number } => {
  let value = 0
  let slope = 0
  for (const { weight, p, x } of rows) {
    const top = eta * Math.max(...x)
    let excess = 0
    let mass = 0
    let moment = 0
    for (let a = 0; a < p.length; a++) {
      const t = eta * x[a]
      excess += p[a] * expMinusLinear(t)
      const w = p[a] * Math.exp(t - top)
      mass += w
      moment += w * x[a]
    }
    value += weight * (top < 1 ? Math.log1p(excess) : top + Math.log(mass))
    slope += (weight * moment) / mass
  }
  return { value, slope }
}

/** e^t − 1 − t. */
const expMinusLinear = (t: number): number => {
  if (Math.abs(t) > 0.1) return Math.expm1(t) - t
  let term = (t * t) / 2
  let sum = term
  for (let k = 3; k <= 11; k++) {
    term *= t / k
    sum += term
  }
  return sum
}

const rootOfTilt = (rows: readonly Row[], radius: number, largest: number): number => {
  const goal = Math.sqrt(radius)
  if (tiltDivergence(rows, largest).value <= radius) return largest
  let variance = 0
  for (const { weight, p, x } of rows) for (let a = 0; a < p.length; a++) variance += weight * p[a] * x[a] * x[a]
  let low = 0
  let high = largest
  let eta = Math.min(Math.sqrt((2 * radius) / variance), largest / 2)
  for (let i = 0; i < 200; i++) {
    const { value, slope } = tiltDivergence(rows, eta)
    const root = Math.sqrt(value)
    if (Math.abs(root - goal) <= 4e-16 * goal) return eta
    if (root > goal) high = eta
    else low = eta
    const newton = eta - (root - goal) / (slope / (2 * root))
    const next = newton > low && newton < high ? newton : low > 0 && high > 4 * low ? Math.sqrt(low * high) : (low + high) / 2
    if (next === eta || high - low <= 2e-16 * high) return eta
    eta = next
  }
  return eta
}

/**
 * The clipped-surrogate step: a maximiser of E_{s~d, a~π} min(wA, clip(w, 1−ε, 1+ε)A), w = π'(a|s)/π(a|s), solved exactly state by state,
 * then drawn back towards π until D_tok^d ≤ radius (D is convex along that line, so the share is found by bisection). Without a radius
 * nothing holds it: where good actions are rare their ratio exceeds 1+ε by far, which is how clipping leaves a trust region.
 *
 * @param epsilon ε in (0, 1)
 * @param radius δ ≥ 0 under the occupancy `d`; Infinity (the default) leaves the maximiser as it is, whose `radius` may be infinite
 * @throws InputError when ε or the radius is out of range
 */
export const clippedStep = (input: UpdateInput, { epsilon, radius = Infinity }: { epsilon: number; radius?: number }): Update => {
  if (!(epsilon > 0 && epsilon < 1)) throw new InputError(`epsilon: holds ${epsilon}; strictly between 0 and 1`)
  if (!(radius >= 0)) throw new InputError(`radius: holds ${radius}; at least 0`)
  const { mdp, policy, d } = input
  const target = clippedTarget(input, epsilon)
  const along = (share: number): TeamPolicy => policy.map((p, k) => p + share * (target[k] - p))
  const distance = (share: number): number => dTok(mdp, d, policy, along(share))
  const whole = dTok(mdp, d, policy, target)
  if (whole <= radius) return { policy: target, radius: whole, step: 1 }
  let low = 0
  let high = 1
  for (let i = 0; i < 100 && high - low > 1e-16 * high; i++) {
    const middle = (low + high) / 2
    if (distance(middle) <= radius) low = middle
    else high = middle
  }
  return { policy: along(low), radius: distance(low), step: low }
}

/** A maximiser of the clipped surrogate in every state of the agent. Actions that π never plays stay so. */
const clippedTarget = ({ mdp, policy, agent, A }: UpdateInput, epsilon: number): TeamPolicy => {
  const target = policy.slice()
  for (let s = 0; s < mdp.states; s++) {
    if (mdp.activeAgent[s] === agent) clipRow(policy, A, target, mdp.actionStart[s], mdp.actionStart[s + 1], epsilon)
  }
  return target
}

const clipRow = (policy: Float64Array, A: Float64Array, target: Float64Array, from: number, to: number, epsilon: number): void => {
  let good = 0
  let bad = 0
  let neutral = 0
  for (let k = from; k < to; k++) {
    if (A[k] > 0) good += policy[k]
    else if (A[k] < 0) bad += policy[k]
    else neutral += policy[k]
  }
  if (good + neutral === 0) return fillLeastBad(policy, A, target, from, to, epsilon)
  if ((1 + epsilon) * good > 1) return fillBest(policy, A, target, from, to, epsilon)
  // every good action reaches 1+ε, bad ones fall to 1−ε or below, and what is then left over goes to the good ones (to neutral ones if
  // there is none)
  const badMass = Math.min((1 - epsilon) * bad, Math.max(0, 1 - (1 + epsilon) * good - neutral))
  const neutralMass = good > 0 ? Math.min(neutral, 1 - (1 + epsilon) * good - badMass) : 1 - badMass
  const goodMass = 1 - badMass - neutralMass
  for (let k = from; k < to; k++) {
    if (A[k] > 0) target[k] = good > 0 ? policy[k] * (goodMass / good) : 0
    else if (A[k] < 0) target[k] = policy[k] * (badMass / bad)
    else target[k] = policy[k] * (neutralMass / neutral)
    if (policy[k] === 0) target[k] = 0
  }
}

/** Nothing is good (an estimate need not be centred): all fall to 1−ε, but the least bad one, which takes what that leaves. */
const fillLeastBad = (policy: Float64Array, A: Float64Array, target: Float64Array, from: number, to: number, epsilon: number): void => {
  let best = from
  for (let k = from; k < to; k++) if (policy[best] === 0 || (policy[k] > 0 && A[k] > A[best])) best = k
  for (let k = from; k < to; k++) {
    if (k === best) continue
    target[k] = (1 - epsilon) * policy[k]
    target[best] += policy[k] - target[k]
  }
}

/** Not all good actions can reach 1+ε: give it to the best ones first, until the mass is used up. */
const fillBest = (policy: Float64Array, A: Float64Array, target: Float64Array, from: number, to: number, epsilon: number): void => {
  const best = Array.from({ length: to - from }, (_, a) => from + a).sort((a, b) => A[b] - A[a])
  let left = 1
  for (const k of best) {
    target[k] = Math.min(left, (1 + epsilon) * policy[k])
    left -= target[k]
  }
}
