import { InputError } from '../util/errors.js'
import { kl } from './divergence.js'

/**
 * The boundary of the trust region {q : KL(p‖q) ≤ δ} among the distributions over three actions: `points` + 1 of them, the last one the
 * first again. KL grows along every ray from p, to ∞ at the edge of the simplex, so each ray meets it once.
 *
 * @param p three probabilities, all above 0
 * @param delta δ > 0
 * @throws InputError when p has not three positive entries, or δ is not above 0
 */
export const klBoundary = (p: ArrayLike<number>, delta: number, points = 90): Float64Array[] => {
  if (p.length !== 3 || !Array.from(p).every((x) => x > 0)) throw new InputError(`p: holds [${Array.from(p).join(', ')}]; three positive probabilities`)
  if (!(delta > 0)) throw new InputError(`delta: holds ${delta}; above 0`)
  return Array.from({ length: points + 1 }, (_, k) => {
    const angle = (2 * Math.PI * k) / points
    const [c, s] = [Math.cos(angle) / Math.SQRT2, Math.sin(angle) / Math.sqrt(6)]
    const ray = [c + s, s - c, -2 * s]
    const at = (length: number): Float64Array => Float64Array.from(ray, (u, a) => Math.max(0, p[a] + length * u))
    let inside = 0
    let outside = Math.min(...ray.map((u, a) => (u < 0 ? -p[a] / u : Infinity)))
    for (let i = 0; i < 60; i++) {
      const middle = (inside + outside) / 2
      if (kl(p, at(middle)) <= delta) inside = middle
      else outside = middle
    }
    return at(inside)
  })
}
