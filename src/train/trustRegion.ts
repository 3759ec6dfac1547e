/**
 * The trust region of one update, D̂(π_cur‖π_new) ≤ δ, kept in two ways:
 *
 * 1. softly, while the objective is climbed: a penalty −β·D̂, and β adapts from update to update (`nextBeta`);
 * 2. strictly, afterwards: an update that still ends outside is scaled back along the straight line
 *    θ_cur + s·(θ_new − θ_cur) until the measured divergence holds, or refused (`scaleBack`).
 *
 * So δ is a constraint, not a wish: what is accepted was measured, at exactly the parameters that are kept.
 */

/** How β adapts. */
export interface BetaRule {
  /** β is multiplied or divided by this, > 1. */
  readonly factor: number
  readonly min: number
  readonly max: number
}

/** The divergence may be off δ by this factor before β moves. */
const SLACK = 1.5

/**
 * β for the agent's next update: raised when the divergence an update reached on its own (before any scaling back) was above 1.5 δ,
 * lowered when it was below δ/1.5. A divergence that is no number counts as too large.
 */
export const nextBeta = (beta: number, divergence: number, delta: number, { factor, min, max }: BetaRule): number => {
  const next = !(divergence <= delta * SLACK) ? beta * factor : divergence < delta / SLACK ? beta / factor : beta
  return Math.min(max, Math.max(min, next))
}

/** How δ adapts. */
export interface DeltaRule {
  /** δ is multiplied or divided by this, > 1. */
  readonly factor: number
  readonly min: number
  readonly max: number
}

/** δ for the agent's next update: raised when the interval of the measured improvement lies above 0, lowered when it lies below. */
export const nextDelta = (delta: number, { low, high }: { readonly low: number; readonly high: number }, { factor, min, max }: DeltaRule): number =>
  Math.min(max, Math.max(min, low > 0 ? delta * factor : high < 0 ? delta / factor : delta))

/** Where on the line an update ended. */
export interface Step {
  /** s in [0, 1]: 1 takes the update whole, 0 refuses it. */
  readonly scale: number
  /** The divergence measured there, ≤ δ; 0 at s = 0. */
  readonly divergence: number
  /** The divergence at s = 1, before acceptance. */
  readonly proposed: number
  /** How often the divergence was measured. */
  readonly measurements: number
}

/** Close enough below δ that nothing is gained by looking further. */
const FULL = 0.95

/**
 * The largest scale found whose measured divergence holds: s = 1 if it does, else a bracketing search on (0, 1). The divergence grows
 * about as s², so √D̂ is interpolated linearly, in turn with plain bisection. Nothing is assumed for correctness: D̂ may be non-monotone
 * along the line, noisy, infinite or NaN; the scale that is returned is one that was measured, inside δ, or 0.
 *
 * @param measure D̂ at θ_cur + s·(θ_new − θ_cur), for s in (0, 1]
 * @param delta δ > 0
 * @param probes measurements inside the line, at most
 */
export const scaleBack = async (measure: (scale: number) => Promise<number>, delta: number, probes = 8): Promise<Step> => {
  const proposed = await measure(1)
  if (proposed <= delta) return { scale: 1, divergence: proposed, proposed, measurements: 1 }
  let inside = { scale: 0, divergence: 0 }
  let outside = { scale: 1, divergence: proposed }
  let measurements = 1
  while (measurements <= probes && inside.divergence < FULL * delta) {
    const scale = probe(inside, outside, delta, measurements % 2 === 1)
    const divergence = await measure(scale)
    measurements++
    if (divergence <= delta) inside = { scale, divergence }
    else outside = { scale, divergence }
  }
  return { ...inside, proposed, measurements }
}

type Point = { readonly scale: number; readonly divergence: number }

/** Next scale strictly between both points. The interpolation aims a little below δ, so that one probe is usually enough. */
const probe = (inside: Point, outside: Point, delta: number, interpolate: boolean): number => {
  const width = outside.scale - inside.scale
  const low = Math.sqrt(Math.max(0, inside.divergence))
  const part = (Math.sqrt(0.98 * delta) - low) / (Math.sqrt(outside.divergence) - low)
  return inside.scale + width * (interpolate && part > 0.01 && part < 0.99 ? part : 0.5)
}
