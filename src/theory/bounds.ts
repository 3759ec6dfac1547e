/**
 * The lower bounds on the improvement of a stage: Proposition 3.3, Theorems 3.4, 3.6 and 3.7, Propositions 3.8 and 3.9.
 * The tighter certificates of our own are in certificates.ts; both have the shape
 *
 *     Σ_i L_i − Σ_i penalty_i − Σ_i ζ_i/(1−γ),
 *
 * where penalty_i bounds what the shift of the occupancy can cost. Everything is plain float64 arithmetic on numbers that
 * the caller measured (exactly, by evaluate, or from samples); no function here looks at an MDP.
 *
 * Notation: δ_i the radius of step i, D_tok^{π̂^{i−1}}(π̂^{i−1}‖π̂^i) ≤ δ_i, an average over all states under the occupancy
 * *before the step*; ζ_i the estimation error under the same occupancy (0 for the true advantage); A_max a bound on the true
 * |A| over all states and actions, for a stage over all of π̂⁰ … π̂^{n−1}; Â_max a bound on the estimate |Â|.
 */
import { InputError } from '../util/errors.js'

/** What one step contributes to a bound. */
export interface BoundTerm {
  /** L_i */
  surrogate: number
  /** what is subtracted for the shift of the occupancy, ≥ 0, possibly infinite */
  penalty: number
  /** ζ_i/(1−γ), ≥ 0 */
  error: number
}

/** A lower bound and what it is made of: bound = surrogate − penalty − error, each the sum over `terms`. */
export interface Bound extends BoundTerm {
  /** the right side of the statement; −Infinity where a penalty is infinite */
  bound: number
  /** one entry a step, in the order of the stage */
  terms: BoundTerm[]
}

/** A bound together with the left side that it must not exceed. */
export interface Evidence extends Bound {
  left: number
  right: number
  /** left − right */
  slack: number
  /** slack ≥ −tolerance */
  holds: boolean
}

/** One step of a stage, as Theorems 3.4 and 3.6 see it. */
export interface BoundStep {
  /** L_i^seq (or L_i^stale in a stale bound), any finite number */
  surrogate: number
  /** δ_i ≥ 0, the occupancy radius */
  radius: number
  /** ζ_i ≥ 0; 0 (the default) when the surrogate uses the true advantage */
  zeta?: number
}

/** Put the known left side (an exact or sampled improvement) beside a bound. `tolerance` ≥ 0 is the rounding of both sides. */
export const against = (bound: Bound, left: number, tolerance = 0): Evidence => {
  const right = bound.bound
  const slack = right === -Infinity ? Infinity : left - right
  return { ...bound, left, right, slack, holds: slack >= -tolerance }
}

/** a·b with 0·∞ = 0: a step that changes nothing costs nothing, whatever its other factor. */
export const times = (a: number, b: number): number => (a === 0 || b === 0 ? 0 : a * b)

/** @throws InputError unless 0 < γ < 1 */
export const checkGamma = (gamma: number): void => {
  if (!(gamma > 0 && gamma < 1)) throw new InputError(`gamma: holds ${gamma}; strictly between 0 and 1`)
}

/** @throws InputError unless value ≥ 0 (Infinity is allowed) */
export const checkNonNegative = (name: string, value: number): void => {
  if (!(value >= 0)) throw new InputError(`${name}: holds ${value}; at least 0`)
}

/** Sum the terms of all steps. */
export const total = (terms: BoundTerm[]): Bound => {
  let surrogate = 0
  let penalty = 0
  let error = 0
  for (const term of terms) {
    surrogate += term.surrogate
    penalty += term.penalty
    error += term.error
  }
  return { bound: surrogate - penalty - error, surrogate, penalty, error, terms }
}

/** c = √2·γ·A_max/(1−γ)² (√2 times γ, not √(2γ)). With Â_max it is ĉ. */
export const penaltyConstant = ({ gamma, aMax }: { gamma: number; aMax: number }): number => {
  checkGamma(gamma)
  checkNonNegative('aMax', aMax)
  return (Math.SQRT2 * gamma * aMax) / (1 - gamma) ** 2
}

const checkStep = (step: BoundStep, i: number): void => {
  if (!(step.radius >= 0)) throw new InputError(`steps[${i}].radius: holds ${step.radius}; at least 0`)
  if (step.zeta !== undefined && !(step.zeta >= 0)) throw new InputError(`steps[${i}].zeta: holds ${step.zeta}; at least 0`)
}

/**
 * **Theorem 3.4** (one update): J(π̂^i) − J(π̂^{i−1}) ≥ L_i^seq − c√δ_i − ζ_i/(1−γ).
 * @param aMax bounds |A^{π̂^{i−1}}| over all states and actions, unvisited states and zero-probability actions included
 * @throws InputError when γ, A_max, δ or ζ is out of range
 */
export const updateImprovementBound = ({ gamma, aMax, surrogate, radius, zeta = 0 }: BoundStep & { gamma: number; aMax: number }): Bound =>
  stageImprovementBound({ gamma, aMax, steps: [{ surrogate, radius, zeta }] })

/**
 * **Theorem 3.6** (one stage, any order): J(π̄) − J(π_cur) ≥ Σ L_i^seq − c Σ√δ_i − Σζ_i/(1−γ).
 * @param aMax bounds |A| of every one of π̂⁰ … π̂^{n−1}, not of π_cur alone
 * @throws InputError when γ, A_max, a δ or a ζ is out of range
 */
export const stageImprovementBound = ({ gamma, aMax, steps }: { gamma: number; aMax: number; steps: readonly BoundStep[] }): Bound => {
  const c = penaltyConstant({ gamma, aMax })
  return total(
    steps.map((step, i) => {
      checkStep(step, i)
      return { surrogate: step.surrogate, penalty: times(c, Math.sqrt(step.radius)), error: (step.zeta ?? 0) / (1 - gamma) }
    }),
  )
}

/**
 * **Proposition 3.3**: L_i^seq ≥ L_i^stale − ĉ Σ_{k<i}√δ_k. A bound on L_i^seq, not on an improvement.
 * @param aHatMax bounds |Â_{i−1}| everywhere (A_max when the advantage is the true one)
 * @param earlierRadii δ_k of the steps before step i; empty for the first one
 * @throws InputError when γ, Â_max or a δ is out of range
 */
export const staleSurrogateBound = ({
  gamma,
  aHatMax,
  surrogate,
  earlierRadii,
}: {
  gamma: number
  aHatMax: number
  surrogate: number
  earlierRadii: readonly number[]
}): Bound => {
  const cHat = penaltyConstant({ gamma, aMax: aHatMax })
  let roots = 0
  earlierRadii.forEach((radius, k) => {
    checkNonNegative(`earlierRadii[${k}]`, radius)
    roots += Math.sqrt(radius)
  })
  return total([{ surrogate, penalty: times(cHat, roots), error: 0 }])
}

/**
 * **Theorem 3.7** (stale): J(π̄) − J(π_cur) ≥ Σ L_i^stale − c̄ Σ_i Σ_{k≤i}√δ_k − Σζ_i/(1−γ), c̄ = max(c, ĉ): the penalty of step i
 * counts its own shift and every one before it. `form: 'paper'` gives the published, weaker c̄·n·Σ√δ_i.
 *
 * @param aMax bounds |A| of every one of π̂⁰ … π̂^{n−1}
 * @param aHatMax bounds |Â_{i−1}| everywhere and is needed: ζ_i says nothing about states that only d^{π̂⁰} visits. Pass A_max when
 *   the advantage is the true one
 * @param steps surrogate is L_i^stale; zeta is ζ_i, under d^{π̂^{i−1}}
 * @throws InputError when γ, A_max, Â_max, a δ or a ζ is out of range
 */
export const staleStageBound = ({
  gamma,
  aMax,
  aHatMax,
  steps,
  form = 'exact',
}: {
  gamma: number
  aMax: number
  aHatMax: number
  steps: readonly BoundStep[]
  form?: 'exact' | 'paper'
}): Bound => {
  checkNonNegative('aHatMax', aHatMax)
  const cBar = penaltyConstant({ gamma, aMax: Math.max(aMax, aHatMax) })
  let roots = 0
  return total(
    steps.map((step, i) => {
      checkStep(step, i)
      const root = Math.sqrt(step.radius)
      roots += root
      const penalty = times(cBar, form === 'paper' ? steps.length * root : roots)
      return { surrogate: step.surrogate, penalty, error: (step.zeta ?? 0) / (1 - gamma) }
    }),
  )
}

/**
 * Theorem 3.7 with each constant where its proof needs it: Σ L_i^stale − Σ_i (ĉ Σ_{k<i}√δ_k + c√δ_i) − Σζ_i/(1−γ). Proposition 3.3 and
 * Theorem 3.4 of every step, added. Parameters as in {@link staleStageBound}.
 */
export const staleStageBoundSplit = ({
  gamma,
  aMax,
  aHatMax,
  steps,
}: {
  gamma: number
  aMax: number
  aHatMax: number
  steps: readonly BoundStep[]
}): Bound => {
  const c = penaltyConstant({ gamma, aMax })
  const cHat = penaltyConstant({ gamma, aMax: aHatMax })
  let earlier = 0
  return total(
    steps.map((step, i) => {
      checkStep(step, i)
      const root = Math.sqrt(step.radius)
      const penalty = times(cHat, earlier) + times(c, root)
      earlier += root
      return { surrogate: step.surrogate, penalty, error: (step.zeta ?? 0) / (1 - gamma) }
    }),
  )
}

/**
 * Theorem 3.7 under the stale error: with ζ⁰_i, measured under d^{π̂⁰}, in place of ζ_i the constant c alone suffices, and no bound on
 * |Â| is needed: Σ L_i^stale − c Σ_i Σ_{k≤i}√δ_k − Σζ⁰_i/(1−γ).
 * @param steps surrogate is L_i^stale; zetaStale is ζ⁰_i ≥ 0
 */
export const staleStageBoundUnderStaleError = ({
  gamma,
  aMax,
  steps,
}: {
  gamma: number
  aMax: number
  steps: readonly { surrogate: number; radius: number; zetaStale: number }[]
}): Bound =>
  staleStageBound({
    gamma,
    aMax,
    aHatMax: 0,
    steps: steps.map(({ surrogate, radius, zetaStale }) => ({ surrogate, radius, zeta: zetaStale })),
  })

/**
 * **Proposition 3.8** (replacement): once a swapped-in agent is aligned (stage 0), the stage that follows has Theorem 3.6's guarantee over
 * the aligned team, with the new team's own bookkeeping. The result bounds J(π̄): the return of the aligned team plus Theorem 3.6.
 *
 * @param alignedReturn J of the new team after stage 0; what the swap itself cost is in it, no bound carries over from the old team
 * @param aMax, steps measured on the new team: its advantages, occupancies, radii and errors
 */
export const replacementBound = ({
  gamma,
  alignedReturn,
  aMax,
  steps,
}: {
  gamma: number
  alignedReturn: number
  aMax: number
  steps: readonly BoundStep[]
}): Bound & { alignedReturn: number } => {
  const stage = stageImprovementBound({ gamma, aMax, steps })
  return { ...stage, bound: alignedReturn + stage.bound, alignedReturn }
}

/**
 * **Proposition 3.9** (what tightens a bound): the difference of two bounds of the same statement, split by cause. With the same c, a
 * larger surrogate, a smaller δ or a smaller ζ each gives a part ≥ 0, and so a bound that is no smaller.
 */
export const tightening = (before: Bound, after: Bound): { total: number; surrogate: number; penalty: number; error: number } => ({
  total: after.bound - before.bound,
  surrogate: after.surrogate - before.surrogate,
  penalty: before.penalty - after.penalty,
  error: before.error - after.error,
})
