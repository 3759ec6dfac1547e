/**
 * Certificates of our own (theory.md, section 3): the same improvement as in Theorems 3.4, 3.6 and 3.7, a smaller penalty.
 *
 * Two facts give them all. With f_i(s) = E_{a~π̂^i} A^{π̂^{i−1}}(s,a) and any S_i ≥ ‖d^{π̂^i} − d^{π̂^{i−1}}‖₁ and M_i ≥ max|f_i|,
 *
 *     J(π̂^i) − J(π̂^{i−1}) = E_{d^{π̂^i}} f_i/(1−γ) ≥ L_i^seq − S_i·M_i/(1−γ),
 *
 * and since Σ_s (d' − d)(s) = 0, ½(max f − min f) may stand for max|f|. A stale surrogate pays M_i·Σ_{k≤i} S_k: the range belongs to the
 * row i, the shifts to all steps up to it. The certificates differ in S (Pinsker, active mass, total variation) and in M (A_max, range,
 * half-span).
 *
 * All are lower bounds on J(π̄) − J(π_cur), and the error term is Σζ_i/(1−γ) as in bounds.ts.
 */
import { InputError } from '../util/errors.js'
import { checkGamma, checkNonNegative, times, total, type Bound, type BoundStep } from './bounds.js'

/** How a radius δ is read: as an average over all states, or over the states (messages) of the agent that moves: D_tok ≤ ρδ. */
export type RadiusReading = 'occupancy' | 'message'

/** Bound on D_tok (occupancy radius) from a radius under either reading. At ρ = 0 the message radius is undefined (null) and D_tok is 0. */
export const occupancyRadius = ({ radius, rho, reading }: { radius: number | null; rho: number; reading: RadiusReading }): number => {
  if (reading === 'occupancy') return radius ?? 0
  return times(rho, radius ?? 0)
}

/** ‖d' − d‖₁ ≤ (√2γ/(1−γ))·√δ (Pinsker, then Jensen). Not capped at 2. */
export const pinskerShift = ({ gamma, radius }: { gamma: number; radius: number }): number =>
  ((Math.SQRT2 * gamma) / (1 - gamma)) * Math.sqrt(radius)

/**
 * ‖d' − d‖₁ ≤ (√2γ/(1−γ))·√(ρδ) when one agent changes, of active mass ρ (or ρ^Δ, the mass of the states whose row changes). Not capped
 * at 2.
 */
export const activeMassShift = ({ gamma, rho, radius }: { gamma: number; rho: number; radius: number }): number =>
  ((Math.SQRT2 * gamma) / (1 - gamma)) * Math.sqrt(times(rho, radius))

/** ‖d' − d‖₁ ≤ (2γ/(1−γ))·E_{s~d} TV. Not capped at 2. */
export const tvShift = ({ gamma, tvMean }: { gamma: number; tvMean: number }): number => ((2 * gamma) / (1 - gamma)) * tvMean

/**
 * One step of a certificate: its surrogate, a bound S_i on its occupancy shift, a bound M_i on |f_i| (see the head of this file), its
 * ζ_i.
 */
export interface ShiftStep {
  surrogate: number
  /** S_i ≥ 0 */
  shift: number
  /** M_i ≥ 0: A_max, max|f_i| or ½(max f_i − min f_i); possibly infinite */
  magnitude: number
  zeta?: number
}

const checkShiftStep = (step: ShiftStep, i: number): void => {
  checkNonNegative(`steps[${i}].shift`, step.shift)
  checkNonNegative(`steps[${i}].magnitude`, step.magnitude)
  checkNonNegative(`steps[${i}].zeta`, step.zeta ?? 0)
}

/**
 * Σ L_i^seq − Σ S_i·M_i/(1−γ) − Σζ_i/(1−γ): the certificate from which the named ones follow.
 * @param cap use min(S_i, 2), since no two distributions are further apart than 2
 * @throws InputError when γ, a shift, a magnitude or a ζ is out of range
 */
export const shiftBound = ({ gamma, steps, cap = false }: { gamma: number; steps: readonly ShiftStep[]; cap?: boolean }): Bound => {
  checkGamma(gamma)
  return total(
    steps.map((step, i) => {
      checkShiftStep(step, i)
      const shift = cap ? Math.min(step.shift, 2) : step.shift
      return { surrogate: step.surrogate, penalty: times(shift, step.magnitude) / (1 - gamma), error: (step.zeta ?? 0) / (1 - gamma) }
    }),
  )
}

/**
 * Σ L_i^stale − Σ_i M_i Σ_{k≤i} S_k/(1−γ) − Σζ_i/(1−γ), the stale counterpart of {@link shiftBound}. With an estimated advantage, M_i
 * must bound
 * |Â_{i−1}| as well as the true one (or zeta must be ζ⁰_i, the error under d^{π̂⁰}).
 * @param cap use min(Σ_{k≤i} S_k, 2): both sides of a step are means of numbers within ±M_i, so 2M_i/(1−γ) is always enough, whatever ζ
 */
export const staleShiftBound = ({ gamma, steps, cap = false }: { gamma: number; steps: readonly ShiftStep[]; cap?: boolean }): Bound => {
  checkGamma(gamma)
  let shifts = 0
  return total(
    steps.map((step, i) => {
      checkShiftStep(step, i)
      shifts += step.shift
      const shift = cap ? Math.min(shifts, 2) : shifts
      return { surrogate: step.surrogate, penalty: times(shift, step.magnitude) / (1 - gamma), error: (step.zeta ?? 0) / (1 - gamma) }
    }),
  )
}

/** A step whose agent has active mass ρ before the step. Under the message reading `radius` may be null where ρ = 0. */
export interface ActiveMassStep extends Omit<BoundStep, 'radius'> {
  radius: number | null
  /** ρ_i (or ρ^Δ_i) in [0, 1], under d^{π̂^{i−1}} */
  rho: number
}

const activeMassSteps = (gamma: number, magnitude: number, steps: readonly ActiveMassStep[], reading: RadiusReading): ShiftStep[] =>
  steps.map(({ surrogate, radius, rho, zeta }, i) => {
    if (!(rho >= 0 && rho <= 1 + 1e-9)) throw new InputError(`steps[${i}].rho: holds ${rho}; between 0 and 1`)
    if (radius === null ? rho > 0 : !(radius >= 0)) {
      throw new InputError(`steps[${i}].radius: holds ${radius}; at least 0 (null only for a message radius at rho = 0)`)
    }
    return { surrogate, shift: activeMassShift({ gamma, rho, radius: occupancyRadius({ radius, rho, reading }) }), magnitude, zeta }
  })

/**
 * **Active-mass certificate**: Theorem 3.6 with penalty c Σ√(ρ_i δ_i) (occupancy radius) or c Σ ρ_i√δ_i (message radius).
 * @param aMax as in Theorem 3.6
 * @param reading what `radius` is an average over; default 'occupancy'
 */
export const activeMassBound = ({
  gamma,
  aMax,
  steps,
  reading = 'occupancy',
}: {
  gamma: number
  aMax: number
  steps: readonly ActiveMassStep[]
  reading?: RadiusReading
}): Bound => shiftBound({ gamma, steps: activeMassSteps(gamma, aMax, steps, reading) })

/** The active-mass certificate of stale surrogates: Theorem 3.7's exact sum with √(ρ_k δ_k) for √δ_k. Parameters as in staleStageBound. */
export const activeMassStaleBound = ({
  gamma,
  aMax,
  aHatMax,
  steps,
  reading = 'occupancy',
}: {
  gamma: number
  aMax: number
  aHatMax: number
  steps: readonly ActiveMassStep[]
  reading?: RadiusReading
}): Bound => staleShiftBound({ gamma, steps: activeMassSteps(gamma, Math.max(aMax, aHatMax), steps, reading) })

/** A step whose mean total variation E_{s~d^{π̂^{i−1}}} TV(π̂^{i−1}, π̂^i) is known exactly. */
export interface TvStep {
  surrogate: number
  /** in [0, 1] */
  tvMean: number
  zeta?: number
}

const tvSteps = (gamma: number, magnitude: number, steps: readonly TvStep[]): ShiftStep[] =>
  steps.map(({ surrogate, tvMean, zeta }) => ({ surrogate, shift: tvShift({ gamma, tvMean }), magnitude, zeta }))

/** **Total-variation certificate**: no Pinsker loss; finite also where support is lost. `cap` limits each shift to 2. */
export const tvBound = ({
  gamma,
  aMax,
  steps,
  cap = false,
}: {
  gamma: number
  aMax: number
  steps: readonly TvStep[]
  cap?: boolean
}): Bound => shiftBound({ gamma, steps: tvSteps(gamma, aMax, steps), cap })

/** The total-variation certificate of stale surrogates. Parameters as in staleStageBound. */
export const tvStaleBound = ({
  gamma,
  aMax,
  aHatMax,
  steps,
  cap = false,
}: {
  gamma: number
  aMax: number
  aHatMax: number
  steps: readonly TvStep[]
  cap?: boolean
}): Bound => staleShiftBound({ gamma, steps: tvSteps(gamma, Math.max(aMax, aHatMax), steps), cap })

/**
 * **Max-KL certificate** (TRPO's form): penalty (1−γ)^-1 Σ (2γ/(1−γ))E TV · 2A_max√(δ_max/2), since a centred advantage gives
 * |f(s)| ≤ 2 A_max TV(s). Better than {@link tvBound} exactly when δ_max < ½.
 * @param steps klMax is the maximum of KL(before‖after) over *all* states where the agent acts, unvisited ones too; Infinity voids the
 *   bound unless tvMean is 0
 */
export const maxKlBound = ({
  gamma,
  aMax,
  steps,
}: {
  gamma: number
  aMax: number
  steps: readonly (TvStep & { klMax: number })[]
}): Bound =>
  shiftBound({
    gamma,
    steps: steps.map(({ surrogate, tvMean, klMax, zeta }) => ({
      surrogate,
      shift: tvShift({ gamma, tvMean }),
      magnitude: times(2 * aMax, Math.sqrt(klMax / 2)),
      zeta,
    })),
  })
