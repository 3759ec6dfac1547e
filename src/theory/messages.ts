/**
 * From messages to numbers (theory.md, section 4): what a rollout gives, as plain functions on arrays.
 * A message is its tokens' log-probabilities, log π(x_u | s, x_<u), natural logarithms, the end of
 * message included.
 */

/**
 * (w − 1) − log w for a ratio w = e^ℓ, from ℓ: never negative, exactly 0 at ℓ = 0, accurate to a few
 * units in the last place for any ℓ (a series where e^ℓ − 1 − ℓ would cancel). +∞ at ℓ = ±∞.
 */
export const lowVarianceTerm = (logRatio: number): number => {
  if (Math.abs(logRatio) === Infinity) return Infinity
  if (Math.abs(logRatio) > 0.3) return Math.expm1(logRatio) - logRatio
  // e^ℓ − 1 − ℓ = ℓ²/2 · (1 + ℓ/3 · (1 + ℓ/4 · (1 + ℓ/5 · (…))))
  let series = 1
  for (let k = 14; k >= 3; k--) series = 1 + (logRatio / k) * series
  return (logRatio * logRatio * series) / 2
}

/** Σ_u log(π_cur(x_u)/π_new(x_u)) of one message: unbiased for KL(π_cur‖π_new), of either sign (theory.md section 4, Lemma 3.2). */
export const plainMessageKl = (logBehaviour: ArrayLike<number>, logUpdated: ArrayLike<number>): number => {
  checkLengths(logBehaviour, logUpdated)
  let sum = 0
  for (let u = 0; u < logBehaviour.length; u++) sum += logBehaviour[u] - logUpdated[u]
  return sum
}

/**
 * Σ_u (w_u − 1) − log w_u, w_u = π_new(x_u)/π_cur(x_u), of one message: never negative. Unbiased for the same KL as
 * {@link plainMessageKl} only if the tokens were drawn from the very π_cur given here (temperature, top-p) and π_cur covers π_new.
 */
export const lowVarianceMessageKl = (logBehaviour: ArrayLike<number>, logUpdated: ArrayLike<number>): number => {
  checkLengths(logBehaviour, logUpdated)
  let sum = 0
  for (let u = 0; u < logBehaviour.length; u++) sum += lowVarianceTerm(logUpdated[u] - logBehaviour[u])
  return sum
}

/** The plain mean of per-message values: each message counts once, early or late. Not D_tok/ρ_j, unless all turns are equal. */
export const plainMean = (values: ArrayLike<number>): number => {
  let sum = 0
  for (let m = 0; m < values.length; m++) sum += values[m]
  return sum / values.length
}

/** Σ_m w_m x_m / Σ_m w_m. NaN for no messages. */
export const weightedMean = (values: ArrayLike<number>, weights: ArrayLike<number>): number => {
  checkLengths(values, weights)
  let [sum, total] = [0, 0]
  for (let m = 0; m < values.length; m++) {
    sum += weights[m] * values[m]
    total += weights[m]
  }
  return sum / total
}

/**
 * Σ_m γ^{t_m} x_m / Σ_m γ^{t_m}: a message at turn t weighs γ^t, as in the discounted occupancy. With x the messages' KL
 * this estimates D_tok/ρ_j, the message radius, consistently. NaN for no messages.
 *
 * @param turns t_m: which turn of its rollout message m was, from 0
 */
export const discountedMean = (values: ArrayLike<number>, turns: ArrayLike<number>, gamma: number): number => {
  checkLengths(values, turns)
  let sum = 0
  let weights = 0
  for (let m = 0; m < values.length; m++) {
    const weight = gamma ** turns[m]
    sum += weight * values[m]
    weights += weight
  }
  return sum / weights
}

/**
 * ρ̂_j = (1 − γ) · mean over rollouts of Σ_t γ^t 1[j active at t]: the active mass of every agent, not its share of the messages.
 * With rollouts cut at a turn T the ρ̂_j sum to 1 − γ^T, not to 1.
 *
 * @param rollouts per rollout, the agent that was active at turn 0, 1, …
 * @param agents n
 * @param weights of each rollout, with mean 1; default: all 1
 */
export const activeMassOfRollouts = (
  rollouts: readonly ArrayLike<number>[], agents: number, gamma: number, weights?: ArrayLike<number>,
): Float64Array => {
  const rho = new Float64Array(agents)
  for (const [r, active] of rollouts.entries()) {
    let weight = ((1 - gamma) / rollouts.length) * (weights?.[r] ?? 1)
    for (let t = 0; t < active.length; t++, weight *= gamma) rho[active[t]] += weight
  }
  return rho
}

/**
 * Group-normalised, clipped advantages over the G rollouts of one prompt:
 * Ã_g = clip((R_g − mean)/√(var + ε_norm), −A_clip, A_clip), with the population variance (Σ(R − mean)²/G).
 * A group whose returns are all equal gives zeros.
 *
 * @param returns R_g of the rollouts of one prompt
 * @param epsilon ε_norm ≥ 0
 * @param clip A_clip > 0; Infinity for none
 * @param weights what each rollout stands for in mean and variance; default: all the same
 * @returns Ã_g, and how many were cut
 */
export const groupNormalisedAdvantages = (
  returns: ArrayLike<number>,
  { epsilon = 1e-6, clip = Infinity, weights }: { readonly epsilon?: number; readonly clip?: number; readonly weights?: ArrayLike<number> } = {},
): { readonly advantages: Float64Array; readonly clipped: number } => {
  const advantages = new Float64Array(returns.length)
  let equal = true
  for (let g = 1; g < returns.length; g++) equal &&= returns[g] === returns[0]
  if (equal) return { advantages, clipped: 0 }

  const mean = (values: ArrayLike<number>): number => (weights ? weightedMean(values, weights) : plainMean(values))
  const centre = mean(returns)
  const variance = mean(Float64Array.from(returns, (value) => (value - centre) ** 2))
  const scale = Math.sqrt(variance + epsilon)
  let clipped = 0
  for (let g = 0; g < returns.length; g++) {
    const advantage = (returns[g] - centre) / scale
    advantages[g] = Math.min(Math.max(advantage, -clip), clip)
    if (Math.abs(advantage) > clip) clipped++
  }
  return { advantages, clipped }
}

const checkLengths = (a: ArrayLike<number>, b: ArrayLike<number>): void => {
  if (a.length !== b.length) throw new RangeError(`${a.length} values against ${b.length}; one for one is needed`)
}
