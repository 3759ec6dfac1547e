/**
 * All quantities of one stage as plain data: the `expected` object of ../shared/theory-cases, same names, same nesting, and a few more: the
 * proven errors of every team's d and V, and bounds (half-span, capped total variation, active mass of the changed rows, stale own states).
 */
import { penaltyConstant, type Bound } from './bounds.js'
import { activeMassShift, pinskerShift, tvShift } from './certificates.js'
import { requireWithinRadius } from './divergence.js'
import { parseTheoryCase, rowsOf, type StageInput, type TheoryCase } from './json.js'
import { TheoryError } from './mdp.js'
import { bestBound, stageBounds, stepBounds, type AdvantageKind } from './stage-bounds.js'
import { measureStage, stageOfPolicies, type StageMeasure } from './stage.js'

/**
 * Evaluate a stage exactly and compute every bound.
 * @throws TheoryError `infinite-kl` or `outside-radius` when a step leaves its declared radius, before any bound is computed; `not-finite`
 *   or `discount-range` when numbers overflow or γ is too near 1 for any proof
 */
export const stageReport = ({ mdp, teams: policies, order, radii, advantageEstimate }: StageInput) => {
  const { gamma } = mdp
  const stage = stageOfPolicies(mdp, policies, order)
  const measure = measureStage(stage, advantageEstimate)
  order.forEach((_, i) => requireWithinRadius(mdp, stage.teams[i].d, policies[i], policies[i + 1], radii[i], i))
  const cBar = penaltyConstant({ gamma, aMax: Math.max(measure.aMax, measure.aHatMax) })
  if (cBar === Infinity) throw new TheoryError('not-finite', 'c', 'overflows: advantages are too large for this gamma')
  const exactSteps = stepBounds(measure, { gamma, radii, kind: 'exact' })
  const estimatedSteps = stepBounds(measure, { gamma, radii, kind: 'estimated' })
  return {
    teams: stage.teams.map(({ d, V, J, A, aMax, rho, dError, vError }) =>
      ({ d: [...d], V: [...V], J, A: rowsOf(mdp, A), aMax, rho: [...rho], dError, vError })),
    steps: measure.steps.map((step, i) => ({
      agent: step.agent,
      rho: step.rho,
      rhoChanged: step.rhoChanged,
      dTok: step.dTok,
      dTokMessage: step.dTokMessage,
      tvMean: step.tvMean,
      klMax: step.klMax,
      tvMax: step.tvMax,
      shift: step.shift,
      shiftBoundPinsker: pinskerShift({ gamma, radius: step.dTok }),
      shiftBoundActiveMass: activeMassShift({ gamma, rho: step.rho, radius: step.dTok }),
      shiftBoundTv: tvShift({ gamma, tvMean: step.tvMean }),
      cumulativeShift: step.cumulativeShift,
      aMax: step.aMax,
      advantageRange: step.advantageRange,
      advantageSpan: step.advantageSpan,
      improvement: step.improvement,
      exact: { lSeq: step.lSeq, lStale: step.lStale, ...rightSides(exactSteps[i]) },
      estimated: { ...measure.estimates[i], ...rightSides({ prop33: estimatedSteps[i].prop33, thm34: estimatedSteps[i].thm34 }) },
    })),
    stage: {
      aMax: measure.aMax,
      aHatMax: measure.aHatMax,
      c: penaltyConstant({ gamma, aMax: measure.aMax }),
      cHat: penaltyConstant({ gamma, aMax: measure.aHatMax }),
      cBar,
      improvement: measure.improvement,
      exact: stageSide(measure, gamma, radii, 'exact'),
      estimated: stageSide(measure, gamma, radii, 'estimated'),
    },
  }
}

export type StageReport = ReturnType<typeof stageReport>

/**
 * Read a theory case (parsed JSON) and report on its stage.
 * @param where the file's name: it opens every message
 * @throws InputError or TheoryError as parseTheoryCase and {@link stageReport} do
 */
export const caseReport = (value: unknown, where: string): { theoryCase: TheoryCase; report: StageReport } => {
  const theoryCase = parseTheoryCase(value, where)
  try {
    return { theoryCase, report: stageReport(theoryCase.input) }
  } catch (error) {
    throw error instanceof TheoryError ? error.in(where) : error
  }
}

const stageSide = (measure: StageMeasure, gamma: number, radii: readonly number[], kind: AdvantageKind) => {
  const bounds = stageBounds(measure, { gamma, radii, kind })
  return { sumLSeq: bounds.thm36.surrogate, sumLStale: bounds.thm37Exact.surrogate, ...rightSides(bounds), best: bestBound(bounds) }
}

const rightSides = <K extends string>(bounds: { [name in K]?: Bound }): { [name in K]: number } =>
  Object.fromEntries(Object.entries<Bound | undefined>(bounds).map(([name, bound]) => [name, bound!.bound])) as { [name in K]: number }
