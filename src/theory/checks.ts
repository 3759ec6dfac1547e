/**
 * Every statement of theory.md on one stage, both sides computed exactly.
 *
 * **Rounding.** Every evaluation returns proven bounds e_d ≥ ‖d − exact‖₁ and e_V ≥ ‖V − exact‖∞ (evaluate.ts). From them, with u = 2⁻⁵³
 * and S states, follow the tolerances of the parts of a statement: 2e_V for an improvement; (2e_V + (2e_d + 4Su)·size of the
 * advantages)/(1−γ) for a surrogate or an error term; 2e_V·Σ shifts/(1−γ) for the advantage bounds inside a penalty; and 2η·penalty for its
 * shifts, where η = 8Su/(1−γ) bounds the relative error of every entry of d (elimination of I − γP multiplies and adds numbers of one sign,
 * apart from the diagonal, which stays ≥ 1 − γ). A statement is violated when its slack is below minus the sum of those of its parts.
 */
import { replacementBound, stageImprovementBound, tightening, type Bound } from './bounds.js'
import { activeMassBound, activeMassShift, pinskerShift, tvShift } from './certificates.js'
import { expectation } from './divergence.js'
import { activeFactorReduction, randomMessageLaw, tokenChainRule } from './lemmas.js'
import { pairs } from './mdp.js'
import type { RandomCase } from './random-cases.js'
import { stageBounds, stepBounds, type AdvantageKind, type StageBounds } from './stage-bounds.js'
import { staleGapBound, staleOwnStatesBound } from './stale-own-states.js'
import { expectedUnder, measureStage, type Stage, type StageMeasure } from './stage.js'

/**
 * A wrong reading of the statements, to show that the check would notice: `halfConstant` halves every constant; `horizonDropped` loses one
 * of the two discount factors 1/(1−γ); `klSwapped` takes KL(updated‖behaviour) where KL(behaviour‖updated) is meant.
 */
export type Mutation = 'halfConstant' | 'horizonDropped' | 'klSwapped'

/** Takes down that left ≥ right has to hold up to `tolerance`; `ratio` = loss/penalty where it means something. */
export type Recorder = (statement: string, left: number, right: number, tolerance: number, ratio?: number) => void

/** What rounding may do on this stage (see the head of this file). */
interface Rounding {
  /** η, relative error of the entries of an occupancy */
  eta: number
  /** e_V, absolute error of a value */
  value: number
  /** of one surrogate or error term, exact and estimated */
  surrogate: { [kind in AdvantageKind]: number }
  /** of the advantage bounds in the penalties of a stage */
  magnitude: number
}

const UNIT = 2 ** -53

const roundingOf = ({ mdp: { gamma, states }, order, teams }: Stage, { aMax, aHatMax, steps }: StageMeasure): Rounding => {
  const horizon = 1 - gamma
  let value = 0
  let occupancy = 4 * states * UNIT
  for (const { dError, vError } of teams) {
    if (vError > value) value = vError
    if (2 * dError + 4 * states * UNIT > occupancy) occupancy = 2 * dError + 4 * states * UNIT
  }
  let shifts = 0
  for (const { tvMean } of steps) shifts += tvShift({ gamma, tvMean })
  return {
    eta: (8 * states * UNIT) / horizon,
    value,
    surrogate: { exact: (2 * value + occupancy * aMax) / horizon, estimated: (2 * value + occupancy * (aMax + aHatMax)) / horizon },
    magnitude: (order.length * shifts * 2 * value) / horizon,
  }
}

/** Check one case; `record` is called once or more for every statement that applies to it. */
export const checkCase = (one: RandomCase, record: Recorder, mutation?: Mutation): void => {
  const { stage, estimates, slackOfRadius } = one
  const { gamma } = stage.mdp
  const exact = measureStage(stage, estimates)
  const rounding = roundingOf(stage, exact)
  const radii = exact.steps.map(({ dTok }) => dTok * (1 + slackOfRadius))
  const measure = mutated(exact, gamma, mutation)
  const shrink = constantFactor(gamma, mutation)
  checkLemmas(one, record, mutation)
  checkIdentities(stage, exact, rounding, record)
  checkShifts(stage, exact, rounding, shrink, record)
  for (const kind of ['exact', 'estimated'] as const) {
    checkSteps(measure, gamma, radii, kind, rounding, record)
    const bounds = stageBounds(measure, { gamma, radii, kind })
    checkStage(measure, bounds, kind, rounding, record)
    if (kind === 'exact' && !mutation) checkOrder(measure, bounds, rounding, record)
  }
  checkOwnSums(measure, gamma, radii, rounding, record)
  checkStaleOwnStates(measure, gamma, rounding, record)
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
    ...step,
    aMax: factor * step.aMax,
    advantageRange: factor * step.advantageRange,
    advantageSpan: factor * step.advantageSpan,
    advantageLow: factor * step.advantageLow,
    advantageHigh: factor * step.advantageHigh,
  }))
  return { ...measure, steps, aMax: factor * measure.aMax, aHatMax: factor * measure.aHatMax }
}

/** Lemma 3.1 in a state of one step on the joint action space, and Lemma 3.2 on a token tree. */
const checkLemmas = ({ stage: { mdp, policies }, random }: RandomCase, record: Recorder, mutation?: Mutation): void => {
  const swapped = mutation === 'klSwapped'
  const i = random.int(policies.length - 1)
  const s = random.int(mdp.states)
  const f = Float64Array.from({ length: pairs(mdp) }, () => random.normal())
  const joint = activeFactorReduction(mdp, policies[i + 1], policies[i], s, f)
  const active = swapped ? activeFactorReduction(mdp, policies[i], policies[i + 1], s, f) : joint
  equality('lemma31', joint.kl.left, active.kl.right, joint.kl.tolerance, record)
  equality('lemma31Expectation', joint.mean.left, active.mean.right, joint.mean.tolerance, record)
  const space = { tokens: 1 + random.int(3), length: 1 + random.int(4) }
  const zeros = random.next() < 0.3 ? 0.2 : 0
  const [before, after] = [randomMessageLaw(space, random, zeros), randomMessageLaw(space, random, zeros && random.int(2) * zeros)]
  const messages = tokenChainRule(space, before, after)
  const tokens = swapped ? tokenChainRule(space, after, before) : messages
  equality('lemma32', messages.left, tokens.right, messages.tolerance, record)
}

/** Both sides infinite are equal. */
const equality = (statement: string, left: number, right: number, tolerance: number, record: Recorder): void =>
  record(statement, left === right ? 0 : -Math.abs(left - right), 0, tolerance)

/** Performance difference, A_max ≤ 2R_max/(1−γ), and |Σρ_i − 1| ≤ ½Σ‖d^{i−1} − d⁰‖₁. */
const checkIdentities = ({ mdp, policies, teams }: Stage, { steps }: StageMeasure, rounding: Rounding, record: Recorder): void => {
  const horizon = 1 - mdp.gamma
  let masses = 0
  let drift = 0
  steps.forEach((step, i) => {
    const f = expectedUnder(mdp, policies[i + 1], teams[i].A)
    const difference = expectation(teams[i + 1].d, f) / horizon
    equality('performanceDifference', step.improvement, difference, 2 * rounding.value + rounding.surrogate.exact, record)
    record('advantageBound', (2 * largestSize(mdp.reward)) / horizon, step.aMax, 2 * rounding.value)
    masses += step.rho
    drift += step.cumulativeShift
  })
  record('activeMassSum', drift / 2, Math.abs(masses - 1), 4 * steps.length * rounding.eta)
}

/** ‖d' − d‖₁ against its three bounds, and ‖d^{i} − d⁰‖₁ against their sums. */
const checkShifts = ({ mdp: { gamma } }: Stage, { steps }: StageMeasure, { eta }: Rounding, shrink: number, record: Recorder): void => {
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
const checkSteps = (
  measure: StageMeasure,
  gamma: number,
  radii: readonly number[],
  kind: AdvantageKind,
  rounding: Rounding,
  record: Recorder,
): void => {
  stepBounds(measure, { gamma, radii, kind }).forEach(({ thm34, thm34Step, prop33 }, i) => {
    const { improvement } = measure.steps[i]
    const lSeq = (kind === 'exact' ? measure.steps : measure.estimates)[i].lSeq
    recordBound(named('thm34', kind), thm34, improvement, kind, rounding, record)
    recordBound(named('thm34Step', kind), thm34Step, improvement, kind, rounding, record)
    recordBound(named('prop33', kind), prop33, lSeq, kind, rounding, record)
  })
}

/** Every bound on the improvement of the stage. */
const checkStage = (measure: StageMeasure, bounds: StageBounds, kind: AdvantageKind, rounding: Rounding, record: Recorder): void => {
  for (const [name, bound] of Object.entries(bounds) as [string, Bound][]) {
    recordBound(named(name, kind), bound, measure.improvement, kind, rounding, record)
  }
}

/** Theorem 3.6 with the sums that a rollout gives: over the moving agent's own states, in L and in ζ alike. */
const checkOwnSums = (measure: StageMeasure, gamma: number, radii: readonly number[], rounding: Rounding, record: Recorder): void => {
  const steps = measure.estimates.map(({ lSeqOwn, zetaOwn }, i) => ({ surrogate: lSeqOwn, radius: radii[i], zeta: zetaOwn }))
  recordBound('thm36Own', stageImprovementBound({ gamma, aMax: measure.aMax, steps }), measure.improvement, 'estimated', rounding, record)
}

/** The bounds of stale-own-states.ts with the exact total variation and the range of every f_i: on the improvement and on the gap itself. */
const checkStaleOwnStates = (measure: StageMeasure, gamma: number, rounding: Rounding, record: Recorder): void => {
  const steps = measure.steps.map(({ lStale, tvMean, advantageLow, advantageHigh }) => ({
    surrogate: lStale,
    shift: tvShift({ gamma, tvMean }),
    low: advantageLow,
    high: advantageHigh,
  }))
  recordBound('staleOwnStatesTv', staleOwnStatesBound({ gamma, steps }), measure.improvement, 'exact', rounding, record)
  const gap = steps.reduce((sum, _, i) => sum + Math.abs(measure.steps[i].lSeq - measure.steps[i].lStale), 0)
  const bound = staleGapBound({ gamma, steps })
  const tolerance = 2 * steps.length * rounding.surrogate.exact + 2 * rounding.eta * bound + rounding.magnitude
  record('staleGap', bound, gap, tolerance, bound > 1e6 * tolerance ? gap / bound : undefined)
}

/** The active-mass certificate read with message radii: c Σ ρ_i√δ_i. */
const checkMessageRadius = (measure: StageMeasure, gamma: number, rounding: Rounding, record: Recorder): void => {
  const steps = measure.steps.map(({ lSeq, rho, dTokMessage }) => ({ surrogate: lSeq, rho, radius: dTokMessage }))
  recordBound(
    'activeMassMessage',
    activeMassBound({ gamma, aMax: measure.aMax, steps, reading: 'message' }),
    measure.improvement,
    'exact',
    rounding,
    record,
  )
}

/** With exact quantities the order of the certificates is fixed (theory.md, section 3, item 5). */
const checkOrder = (measure: StageMeasure, bounds: StageBounds, rounding: Rounding, record: Recorder): void => {
  const smallKl = measure.steps.every(({ klMax }) => klMax < 0.5)
  for (const [larger, smaller] of smallKl ? [...ORDER, ['maxKl', 'tv'] as const] : ORDER) {
    const [left, right] = [bounds[larger]!, bounds[smaller]!]
    record('order', left.bound, right.bound, toleranceOf(left, 'exact', rounding) + toleranceOf(right, 'exact', rounding))
  }
}

const ORDER: readonly (readonly [keyof StageBounds, keyof StageBounds])[] = [
  ['halfSpanTv', 'rangeTv'],
  ['rangeTv', 'tv'],
  ['rangeTv', 'maxKl'],
  ['tvCapped', 'tv'],
  ['tv', 'activeMassChanged'],
  ['activeMassChanged', 'activeMass'],
  ['activeMass', 'thm36'],
  ['thm36', 'staleOwnStates'],
  ['staleOwnStates', 'thm37Exact'],
  ['thm37Exact', 'thm37Paper'],
  ['tv', 'tvStale'],
  ['tvStale', 'activeMassStale'],
  ['activeMass', 'activeMassStale'],
  ['activeMassStale', 'thm37Exact'],
  ['halfSpanPinsker', 'rangePinsker'],
  ['rangePinsker', 'thm36'],
  ['halfSpanActiveMass', 'rangeActiveMass'],
  ['rangeActiveMass', 'activeMass'],
]

/** Proposition 3.8 where the stage starts from a swapped and aligned team; Proposition 3.9 by a smaller radius and a larger surrogate. */
const checkReplacement = (
  { stage, replaced, random }: RandomCase,
  measure: StageMeasure,
  radii: readonly number[],
  rounding: Rounding,
  record: Recorder,
): void => {
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
    gamma,
    aMax,
    steps: steps.map(({ surrogate, radius }) => ({
      surrogate: surrogate + random.next() * Math.abs(surrogate),
      radius: radius * random.next(),
    })),
  })
  const gain = tightening(before, after)
  record('prop39', Math.min(gain.surrogate, gain.penalty, gain.error, gain.total), 0, 16 * UNIT * (Math.abs(before.bound) + before.penalty))
}

const named = (name: string, kind: AdvantageKind): string => (kind === 'exact' ? name : `${name}, estimated`)

const toleranceOf = ({ penalty, terms }: Bound, kind: AdvantageKind, { eta, value, surrogate, magnitude }: Rounding): number =>
  2 * value + terms.length * surrogate[kind] + (penalty < Infinity ? 2 * eta * penalty : 0) + magnitude

const recordBound = (statement: string, bound: Bound, left: number, kind: AdvantageKind, rounding: Rounding, record: Recorder): void => {
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
