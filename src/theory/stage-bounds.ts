/**
 * Every bound of bounds.ts and certificates.ts on one measured stage. Names as in the `expected` object of ../shared/theory-cases.
 */
import {
  staleStageBound,
  staleStageBoundSplit,
  staleStageBoundUnderStaleError,
  staleSurrogateBound,
  stageImprovementBound,
  updateImprovementBound,
  type Bound,
} from './bounds.js'
import {
  activeMassBound,
  activeMassShift,
  activeMassStaleBound,
  maxKlBound,
  pinskerShift,
  shiftBound,
  tvBound,
  tvShift,
  tvStaleBound,
} from './certificates.js'
import { staleOwnStatesBound } from './stale-own-states.js'
import type { StageMeasure } from './stage.js'

/** With the true advantage (ζ = 0), or through the estimates and their errors. */
export type AdvantageKind = 'exact' | 'estimated'

/** What the bounds need beside the measurements. */
export interface StageBoundsInput {
  gamma: number
  /** δ_i of each step, occupancy radii, each at least the exact D_tok of its step */
  radii: readonly number[]
  kind: AdvantageKind
}

/** Lower bounds on J(π̄) − J(π_cur). */
export interface StageBounds {
  thm36: Bound
  thm37Paper: Bound
  thm37Exact: Bound
  activeMass: Bound
  activeMassStale: Bound
  tv: Bound
  tvStale: Bound
  maxKl: Bound
  rangePinsker: Bound
  rangeActiveMass: Bound
  rangeTv: Bound
  halfSpanPinsker: Bound
  halfSpanActiveMass: Bound
  halfSpanTv: Bound
  /** {@link tvBound} with every shift capped at 2 */
  tvCapped: Bound
  /** active mass with ρ^Δ, the mass of the states whose row changes, in place of ρ */
  activeMassChanged: Bound
  /** {@link staleOwnStatesBound} with Pinsker shifts and A_max; estimated: of the sums over own states */
  staleOwnStates: Bound
  /** estimated only: Theorem 3.7 with ĉ and c each in its place; with ζ⁰ and c alone */
  thm37Split?: Bound
  thm37ZetaStale?: Bound
}

/**
 * Bounds of one step: `prop33` on L_i^seq, the others on J(π̂^i) − J(π̂^{i−1}); `thm34` with the stage's A_max, `thm34Step` with the
 * step's own.
 */
export interface StepBounds {
  prop33: Bound
  thm34: Bound
  thm34Step: Bound
}

/** The bounds whose maximum is `best`. */
export const BEST_OF = [
  'thm36',
  'thm37Exact',
  'activeMass',
  'activeMassStale',
  'tv',
  'tvStale',
  'maxKl',
  'rangePinsker',
  'rangeActiveMass',
  'rangeTv',
] as const

/** All bounds of a stage. @throws InputError when a number is out of range */
export const stageBounds = (measure: StageMeasure, { gamma, radii, kind }: StageBoundsInput): StageBounds => {
  const { aMax } = measure
  const aHatMax = kind === 'exact' ? aMax : measure.aHatMax
  const aBar = Math.max(aMax, aHatMax)
  const steps = stepInputs(measure, radii, kind)
  const stale = steps.map((step) => ({ ...step, surrogate: step.stale }))
  const f = (shift: (step: StepInput) => number, magnitude: (step: StepInput) => number): Bound =>
    shiftBound({
      gamma,
      steps: steps.map((step) => ({ surrogate: step.surrogate, zeta: step.zeta, shift: shift(step), magnitude: magnitude(step) })),
    })
  const pinsker = (step: StepInput): number => pinskerShift({ gamma, radius: step.radius })
  const mass = (step: StepInput): number => activeMassShift({ gamma, rho: step.rho, radius: step.radius })
  const variation = (step: StepInput): number => tvShift({ gamma, tvMean: step.tvMean })
  const range = (step: StepInput): number => step.range
  const halfSpan = (step: StepInput): number => step.span / 2
  const bounds: StageBounds = {
    thm36: stageImprovementBound({ gamma, aMax, steps }),
    thm37Paper: staleStageBound({ gamma, aMax, aHatMax, steps: stale, form: 'paper' }),
    thm37Exact: staleStageBound({ gamma, aMax, aHatMax, steps: stale }),
    activeMass: activeMassBound({ gamma, aMax, steps }),
    activeMassStale: activeMassStaleBound({ gamma, aMax, aHatMax, steps: stale }),
    tv: tvBound({ gamma, aMax, steps }),
    tvStale: tvStaleBound({ gamma, aMax, aHatMax, steps: stale }),
    maxKl: maxKlBound({ gamma, aMax, steps }),
    rangePinsker: f(pinsker, range),
    rangeActiveMass: f(mass, range),
    rangeTv: f(variation, range),
    halfSpanPinsker: f(pinsker, halfSpan),
    halfSpanActiveMass: f(mass, halfSpan),
    halfSpanTv: f(variation, halfSpan),
    tvCapped: tvBound({ gamma, aMax, steps, cap: true }),
    activeMassChanged: activeMassBound({ gamma, aMax, steps: steps.map((step) => ({ ...step, rho: step.rhoChanged })) }),
    staleOwnStates: staleOwnStatesBound({
      gamma,
      steps: steps.map((step) => ({ surrogate: step.staleOwn, zeta: step.zetaOwn, shift: pinsker(step), low: -aBar, high: aBar })),
    }),
  }
  if (kind === 'estimated') {
    bounds.thm37Split = staleStageBoundSplit({ gamma, aMax, aHatMax, steps: stale })
    bounds.thm37ZetaStale = staleStageBoundUnderStaleError({ gamma, aMax, steps: stale })
  }
  return bounds
}

/** Bounds of every step. @throws InputError when a number is out of range */
export const stepBounds = (measure: StageMeasure, { gamma, radii, kind }: StageBoundsInput): StepBounds[] => {
  const { aMax } = measure
  const aHatMax = kind === 'exact' ? aMax : measure.aHatMax
  return stepInputs(measure, radii, kind).map(({ surrogate, stale, radius, zeta }, i) => ({
    prop33: staleSurrogateBound({ gamma, aHatMax, surrogate: stale, earlierRadii: radii.slice(0, i) }),
    thm34: updateImprovementBound({ gamma, aMax, surrogate, radius, zeta }),
    thm34Step: updateImprovementBound({ gamma, aMax: measure.steps[i].aMax, surrogate, radius, zeta }),
  }))
}

/** The largest of the bounds on the improvement that `BEST_OF` names. */
export const bestBound = (bounds: StageBounds): number => Math.max(...BEST_OF.map((name) => bounds[name].bound))

interface StepInput {
  surrogate: number
  stale: number
  staleOwn: number
  radius: number
  zeta: number
  zetaStale: number
  zetaOwn: number
  rho: number
  rhoChanged: number
  tvMean: number
  klMax: number
  range: number
  span: number
}

const stepInputs = ({ steps, estimates }: StageMeasure, radii: readonly number[], kind: AdvantageKind): StepInput[] =>
  steps.map((step, i) => {
    // the true advantage is centred: its sums over all states and over own ones agree
    const exact = { lSeq: step.lSeq, lStale: step.lStale, lStaleOwn: step.lStale, zeta: 0, zetaStale: 0, zetaOwn: 0 }
    const source = kind === 'exact' ? exact : estimates[i]
    return {
      surrogate: source.lSeq,
      stale: source.lStale,
      staleOwn: source.lStaleOwn,
      radius: radii[i],
      zeta: source.zeta,
      zetaStale: source.zetaStale,
      zetaOwn: source.zetaOwn,
      rho: step.rho,
      rhoChanged: step.rhoChanged,
      tvMean: step.tvMean,
      klMax: step.klMax,
      range: step.advantageRange,
      span: step.advantageSpan,
    }
  })
