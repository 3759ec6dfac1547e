/**
 * Every statement of theory.md on one stage, both sides computed exactly.
 *
 * **Rounding.** Let u = 2⁻⁵³, S the number of states. Elimination of I − γP multiplies and adds numbers of one sign, apart from the diagonal,
 * which stays ≥ 1 − γ; so every entry of d has a relative error below η = 8·S·u/(1−γ), and V an absolute one below e_V = η·max|V|, where
 * max|V| is replaced by max|r|/(1−γ), its bound. From these follow the tolerances: 2e_V for an improvement; (4e_V + 4η·A_max)/(1−γ) for a surrogate;
 * 2η·penalty + 2e_V·(penalty per unit of A) for a penalty. A statement is violated when its slack is below minus the sum of those of its parts.
 */
import { replacementBound, stageImprovementBound, tightening, type Bound } from './bounds.js'
import { activeMassBound, activeMassShift, pinskerShift, tvShift } from './certificates.js'
import { expectation } from './divergence.js'
import type { RandomCase } from './random-cases.js'
import { stageBounds, stepBounds, type AdvantageKind, type StageBounds } from './stage-bounds.js'
import { expectedUnder, measureStage, type Stage, type StageMeasure } from './stage.js'
import { staleOwnStatesBound } from './stale-own-states.js'

/**
 * A wrong reading of the statements, to show that the check would notice: `halfConstant` halves every constant; `horizonDropped` loses one of the two
 * discount factors 1/(1−γ); `klSwapped` takes KL(updated‖behaviour) where KL(behaviour‖updated) is meant.
 */
export type Mutation = 'halfConstant' | 'horizonDropped' | 'klSwapped'

/** Takes down that left ≥ right has to hold up to `tolerance`; `ratio` = loss/penalty where it means something. */
export type Record = (statement: string, left: number, right: number, tolerance: number, ratio?: number) => void

/** What rounding may do on this stage (see the head of this file). */
interface Rounding {
  /** η, relative error of an occupancy */
  eta: number
  /** e_V, absolute error of a value */
  value: number
  /** of one surrogate or error term, exact and estimated */
  surrogate: { [kind in AdvantageKind]: number }
  /** of the advantage bounds in the penalties of a stage */
  magnitude: number
}

const UNIT = 2 ** -53

const roundingOf = ({ mdp, order }: Stage, { aMax, aHatMax, steps }: StageMeasure): Rounding => {
  const { gamma, states, reward } = mdp
  const horizon = 1 - gamma
  const eta = (8 * states * UNIT) / horizon
  const value = (eta * largestSize(reward)) / horizon
  let shifts = 0
  for (const { tvMean } of steps) shifts += tvShift({ gamma, tvMean })
  return {
    eta,
    value,
    surrogate: { exact: (4 * value + 4 * eta * aMax) / horizon, estimated: (4 * value + 4 * eta * (aMax + aHatMax)) / horizon },
    magnitude: (order.length * shifts * 2 * value) / horizon,
  }
}

/** Check one case; `record` is called once or more for every statement that applies to it. */
export const checkCase = (one: RandomCase, record: Record, mutation?: Mutation): void => {
  const { stage, estimates, slackOfRadius } = one
  const { gamma } = stage.mdp
  const exact = measureStage(stage, estimates)
  const rounding = roundingOf(stage, exact)
  const radii = exact.steps.map(({ dTok }) => dTok * (1 + slackOfRadius))
  const measure = mutated(exact, gamma, mutation)
  const shrink = constantFactor(gamma, mutation)
  checkIdentities(stage, exact, rounding, record)
  checkShifts(stage, exact, rounding, shrink, record)
  for (const kind of ['exact', 'estimated'] as const) {
    checkSteps(measure, gamma, radii, kind, rounding, record)
    const bounds = stageBounds(measure, { gamma, radii, kind })
    checkStage(measure, bounds, kind, rounding, record)
    if (kind === 'exact' && !mutation) checkOrder(measure, bounds, rounding, record)
  }
  checkOwnSums(measure, gamma, radii, rounding, record)
  checkMessageRadius(measure, gamma, rounding, record)
  checkReplacement(one, measure, radii, rounding, record)
}

const constantFactor = (gamma: number, mutation?: Mutation): number =>
  mutation === 'halfConstant' ? 0.5 : mutation === 'horizonDropped' ? 1 - gamma : 1

/** All bounds are linear in the sizes of the advantages, so a wrong constant is a wrong size. */
const mutated = (measure: StageMeasure, gamma: number, mutation?: Mutation): StageMeasure => {
  const factor = constantFactor(gamma, mutation)
  if (factor === 1) return measure
  const steps = measure.steps.map((step) => ({
    ...step, aMax: factor * step.aMax, advantageRange: factor * step.advantageRange, advantageSpan: factor * step.advantageSpan,
  }))
  return { ...measure, steps, aMax: factor * measure.aMax, aHatMax: factor * measure.aHatMax }
}

/** Performance difference, A_max ≤ 2R_max/(1−γ), and |Σρ_i − 1| ≤ ½Σ‖d^{i−1} − d⁰‖₁. */
const checkIdentities = ({ mdp, policies, teams }: Stage, { steps }: StageMeasure, rounding: Rounding, record: Record): void => {
  const horizon = 1 - mdp.gamma
  let masses = 0
  let drift = 0
  steps.forEach((step, i) => {
    const f = expectedUnder(mdp, policies[i + 1], teams[i].A)
    const difference = expectation(teams[i + 1].d, f) / horizon
    record('performanceDifference', -Math.abs(step.improvement - difference), 0, 2 * rounding.value + rounding.surrogate.exact)
    record('advantageBound', (2 * largestSize(mdp.reward)) / horizon, step.aMax, 2 * rounding.value)
    masses += step.rho
    drift += step.cumulativeShift
  })
  record('activeMassSum', drift / 2, Math.abs(masses - 1), 4 * steps.length * rounding.eta)
}

/** ‖d' − d‖₁ against its three bounds, and ‖d^{i} − d⁰‖₁ against their sums. */
const checkShifts = ({ mdp: { gamma } }: Stage, { steps }: StageMeasure, { eta }: Rounding, shrink: number, record: Record): void => {
  const against = (statement: string, shift: number, bound: number): void => {
    const tolerance = 2 * eta * (2 + (bound < Infinity ? bound : 0))
    record(statement, bound, shift, tolerance, bound < Infinity && bound > 1e6 * tolerance ? shift / bound : undefined)
  }
  let summed = 0
  for (const { shift, cumulativeShift, tvMean, dTok, rho, rhoChanged } of steps) {
    const variation = shrink * tvShift({ gamma, tvMean })
    against('shiftTv', shift, variation)
    against('shiftActiveMassChanged', shift, shrink * activeMassShift({ gamma, rho: rhoChanged, radius: dTok }))
    against('shiftActiveMass', shift, shrink * activeMassShift({ gamma, rho, radius: dTok }))
    against('shiftPinsker', shift, shrink * pinskerShift({ gamma, radius: dTok }))
    against('cumulativeShift', cumulativeShift, summed)
    summed += variation
  }
}

/** Theorem 3.4 with the stage's and with the step's own A_max, and Proposition 3.3. */
const checkSteps = (measure: StageMeasure, gamma: number, radii: readonly number[], kind: AdvantageKind, rounding: Rounding, record: Record): void => {
  stepBounds(measure, { gamma, radii, kind }).forEach(({ thm34, thm34Step, prop33 }, i) => {
    const { improvement } = measure.steps[i]
    const lSeq = (kind === 'exact' ? measure.steps : measure.estimates)[i].lSeq
    recordBound(named('thm34', kind), thm34, improvement, kind, rounding, record)
    recordBound(named('thm34Step', kind), thm34Step, improvement, kind, rounding, record)
    recordBound(named('prop33', kind), prop33, lSeq, kind, rounding, record)
  })
}

/** Every bound on the improvement of the stage. */
const checkStage = (measure: StageMeasure, bounds: StageBounds, kind: AdvantageKind, rounding: Rounding, record: Record): void => {
  for (const [name, bound] of Object.entries(bounds) as [string, Bound][]) {
    recordBound(named(name, kind), bound, measure.improvement, kind, rounding, record)
  }
}

/** Theorems 3.4 and 3.6, and the stale bound over own states, with the sums that a rollout gives: over the moving agent's own states, in L and in ζ alike. */
const checkOwnSums = (measure: StageMeasure, gamma: number, radii: readonly number[], rounding: Rounding, record: Record): void => {
  const steps = measure.estimates.map(({ lSeqOwn, zetaOwn }, i) => ({ surrogate: lSeqOwn, radius: radii[i], zeta: zetaOwn }))
  recordBound('thm36Own', stageImprovementBound({ gamma, aMax: measure.aMax, steps }), measure.improvement, 'estimated', rounding, record)
  const stale = (sums: readonly { surrogate: number; zeta?: number }[], size: number): Bound =>
    staleOwnStatesBound({ gamma, steps: sums.map((sum, i) => ({ ...sum, shift: pinskerShift({ gamma, radius: radii[i] }), low: -size, high: size })) })
  const exact = stale(measure.steps.map(({ lStale }) => ({ surrogate: lStale })), measure.aMax)
  const estimated = stale(measure.estimates.map(({ lStaleOwn, zetaOwn }) => ({ surrogate: lStaleOwn, zeta: zetaOwn })), Math.max(measure.aMax, measure.aHatMax))
  recordBound('staleOwnStates', exact, measure.improvement, 'exact', rounding, record)
  recordBound(named('staleOwnStates', 'estimated'), estimated, measure.improvement, 'estimated', rounding, record)
}

/** The active-mass certificate read with message radii: c Σ ρ_i√δ_i. */
const checkMessageRadius = (measure: StageMeasure, gamma: number, rounding: Rounding, record: Record): void => {
  const steps = measure.steps.map(({ lSeq, rho, dTokMessage }) => ({ surrogate: lSeq, rho, radius: dTokMessage }))
  recordBound('activeMassMessage', activeMassBound({ gamma, aMax: measure.aMax, steps, reading: 'message' }), measure.improvement, 'exact', rounding, record)
}

/** With exact quantities the order of the certificates is fixed (theory.md, section 3, item 5). */
const checkOrder = (measure: StageMeasure, bounds: StageBounds, rounding: Rounding, record: Record): void => {
  const smallKl = measure.steps.every(({ klMax }) => klMax < 0.5)
  for (const [larger, smaller] of smallKl ? [...ORDER, ['maxKl', 'tv'] as const] : ORDER) {
    const [left, right] = [bounds[larger]!, bounds[smaller]!]
    record('order', left.bound, right.bound, toleranceOf(left, 'exact', rounding) + toleranceOf(right, 'exact', rounding))
  }
}

const ORDER: readonly (readonly [keyof StageBounds, keyof StageBounds])[] = [
  ['halfSpanTv', 'rangeTv'], ['rangeTv', 'tv'], ['rangeTv', 'maxKl'], ['tvCapped', 'tv'], ['tv', 'activeMassChanged'], ['activeMassChanged', 'activeMass'],
  ['activeMass', 'thm36'], ['thm36', 'thm37Exact'], ['thm37Exact', 'thm37Paper'], ['tv', 'tvStale'], ['tvStale', 'activeMassStale'],
  ['activeMass', 'activeMassStale'], ['activeMassStale', 'thm37Exact'], ['halfSpanPinsker', 'rangePinsker'], ['rangePinsker', 'thm36'],
  ['halfSpanActiveMass', 'rangeActiveMass'], ['rangeActiveMass', 'activeMass'],
]

/** Proposition 3.8 where the stage starts from a swapped and aligned team; Proposition 3.9 by a smaller radius and a larger surrogate. */
const checkReplacement = ({ stage, replaced, random }: RandomCase, measure: StageMeasure, radii: readonly number[], rounding: Rounding, record: Record): void => {
  const { gamma } = stage.mdp
  const { aMax } = measure
  const steps = measure.steps.map(({ lSeq }, i) => ({ surrogate: lSeq, radius: radii[i] }))
  if (replaced) {
    const bound = replacementBound({ gamma, alignedReturn: stage.teams[0].J, aMax, steps })
    recordBound('prop38', bound, stage.teams[measure.steps.length].J, 'exact', rounding, record)
  }
  const before = stageImprovementBound({ gamma, aMax, steps })
  if (before.bound === -Infinity) return
  const after = stageImprovementBound({
    gamma, aMax, steps: steps.map(({ surrogate, radius }) => ({ surrogate: surrogate + random.next() * Math.abs(surrogate), radius: radius * random.next() })),
  })
  const gain = tightening(before, after)
  record('prop39', Math.min(gain.surrogate, gain.penalty, gain.error, gain.total), 0, 16 * UNIT * (Math.abs(before.bound) + before.penalty))
}

const named = (name: string, kind: AdvantageKind): string => (kind === 'exact' ? name : `${name}, estimated`)

const toleranceOf = ({ penalty, terms }: Bound, kind: AdvantageKind, { eta, value, surrogate, magnitude }: Rounding): number =>
  2 * value + terms.length * surrogate[kind] + (penalty < Infinity ? 2 * eta * penalty : 0) + magnitude

const recordBound = (statement: string, bound: Bound, left: number, kind: AdvantageKind, rounding: Rounding, record: Record): void => {
  const tolerance = toleranceOf(bound, kind, rounding)
  const { penalty } = bound
  const ratio = penalty < Infinity && penalty > 1e6 * tolerance ? (bound.bound + penalty - left) / penalty : undefined
  record(statement, left, bound.bound, tolerance, ratio)
}

const largestSize = (values: Float64Array): number => {
  let largest = 0
  for (let k = 0; k < values.length; k++) if (Math.abs(values[k]) > largest) largest = Math.abs(values[k])
  return largest
}
