/**
 * A stale bound whose penalty grows like the intermediate one: n where Theorem 3.7 has n² (ours, beyond the paper and theory.md).
 *
 * Let f_i(s) = E_{a~π̂^i} Â_{i−1}(s,a). Where σ(i) does not act, π̂^i is π̂^{i−1}, so f_i(s) = 0 as soon as Â is centred (E_{π̂^{i−1}}Â =
 * 0, which the true advantage is) or L_i sums over σ(i)'s own states S_i alone (which a rollout of its messages gives). Then
 *
 *     (1−γ)(L_i^seq − L_i^stale) = Σ_{s∈S_i} (d^{i−1} − d⁰)(s) f_i(s) = Σ_{k<i} Σ_{s∈S_i} (d^k − d^{k−1})(s) f_i(s).
 *
 * Sum over i and exchange the sums. Every agent moves once, so the S_i are disjoint, and g_k(s) = f_i(s) for s ∈ S_i with i > k, 0
 * elsewhere, is one function:
 *
 *     (1−γ) Σ_i (L_i^seq − L_i^stale) = Σ_k Σ_s (d^k − d^{k−1})(s) g_k(s) ≥ −Σ_k ½‖d^k − d^{k−1}‖₁ (max g_k − min g_k),
 *
 * since Σ_s (d^k − d^{k−1})(s) = 0. Each shift is paid **once**, however many agents come after it; Proposition 3.3, applied step by
 * step, pays it for each of them. In the same way Σ_i |L_i^seq − L_i^stale| ≤ (1−γ)^-1 Σ_k ‖d^k − d^{k−1}‖₁ max|g_k|. Random search
 * reaches equality.
 *
 * With |f_i| ≤ A_max and Pinsker, J(π̄) − J(π_cur) ≥ Σ L_i^stale − c Σ_i √δ_i − ĉ Σ_{k<n} √δ_k − Σζ_i/(1−γ): with ĉ = c at most
 * twice the penalty of Theorem 3.6, in any of its forms. It fails for sums over all states of an Â that is not centred: there Theorem 3.7 is needed.
 */
import { checkGamma, checkNonNegative, times, total, type Bound } from './bounds.js'

/** One step: its stale surrogate, a bound S_i on its occupancy shift, and where f_i lies. */
export interface OwnStatesStep {
  /** L_i^stale, of a centred Â or over the own states of σ(i) */
  readonly surrogate: number
  /** S_i ≥ ‖d^{π̂^i} − d^{π̂^{i−1}}‖₁, ≥ 0 */
  readonly shift: number
  /** bounds of f_i with the true advantage and with Â: −A_max and A_max (the larger with Â_max), or min f_i and max f_i over all states */
  readonly low: number
  readonly high: number
  /** ζ_i ≥ 0 under d^{π̂^{i−1}}, of the same kind of sum; 0 by default */
  readonly zeta?: number
}

/**
 * Σ L_i^stale − Σ_k S_k/(1−γ) · ½[(high_k − low_k) + (max_{i>k} high_i − min_{i>k} low_i)] − Σζ_i/(1−γ), the second bracket counting 0
 * among its values and absent at the last step. Any order, steps in the order of the stage.
 *
 * @throws InputError when γ, a shift or a ζ is out of range, or a high is below its low
 */
export const staleOwnStatesBound = ({ gamma, steps }: { readonly gamma: number; readonly steps: readonly OwnStatesStep[] }): Bound => {
  checkGamma(gamma)
  const later = laterRanges(steps)
  return total(
    steps.map(({ surrogate, shift, low, high, zeta = 0 }, k) => {
      checkNonNegative(`steps[${k}].shift`, shift)
      checkNonNegative(`steps[${k}].zeta`, zeta)
      checkNonNegative(`steps[${k}].high − low`, high - low)
      return { surrogate, penalty: times(shift, (high - low + later[k].high - later[k].low) / 2) / (1 - gamma), error: zeta / (1 - gamma) }
    }),
  )
}

/**
 * The bound on the gap itself: Σ_i |L_i^seq − L_i^stale| ≤ (1−γ)^-1 Σ_k S_k max_{i>k} max|f_i|, for centred Â or own-state sums.
 *
 * @throws InputError as {@link staleOwnStatesBound}
 */
export const staleGapBound = ({
  gamma,
  steps,
}: {
  readonly gamma: number
  readonly steps: readonly Omit<OwnStatesStep, 'surrogate'>[]
}): number => {
  checkGamma(gamma)
  const later = laterRanges(steps)
  return steps.reduce((sum, { shift }, k) => sum + times(shift, Math.max(later[k].high, -later[k].low)), 0) / (1 - gamma)
}

/** The range of g_k, for every k: of f_i over i > k, and 0. */
const laterRanges = (steps: readonly { readonly low: number; readonly high: number }[]): { low: number; high: number }[] => {
  const ranges = steps.map(() => ({ low: 0, high: 0 }))
  for (let k = steps.length - 2; k >= 0; k--) {
    ranges[k] = { low: Math.min(ranges[k + 1].low, steps[k + 1].low), high: Math.max(ranges[k + 1].high, steps[k + 1].high) }
  }
  return ranges
}
