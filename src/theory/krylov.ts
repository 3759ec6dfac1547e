import { dot } from './norms.js'

/** out = K u; `u` must not be kept or changed. */
export type Operator = (u: Float64Array, out: Float64Array) => void

/**
 * BiCGSTAB (van der Vorst 1992): solves K y = r for an operator that is known by its products only.
 *
 * @param r the right side; overwritten by the residual r − K y, kept by recursion
 * @param reached tells from that residual when to stop
 * @param products most applications of K
 * @returns y; not certain to be any good: the caller must check the true residual
 */
export const biCgStab = (apply: Operator, r: Float64Array, reached: (r: Float64Array) => boolean, products: number): Float64Array => {
  const n = r.length
  const y = new Float64Array(n)
  const shadow = r.slice()
  const p = r.slice()
  const Kp = new Float64Array(n)
  const Kr = new Float64Array(n)
  let rho = dot(shadow, r)
  for (let used = 0; used < products && rho !== 0; used += 2) {
    apply(p, Kp)
    const alpha = rho / dot(shadow, Kp)
    if (!Number.isFinite(alpha)) break
    for (let i = 0; i < n; i++) {
      y[i] += alpha * p[i]
      r[i] -= alpha * Kp[i]
    }
    if (reached(r)) break
    apply(r, Kr)
    const omega = dot(Kr, r) / dot(Kr, Kr)
    if (!Number.isFinite(omega) || omega === 0) break
    for (let i = 0; i < n; i++) {
      y[i] += omega * r[i]
      r[i] -= omega * Kr[i]
    }
    if (reached(r)) break
    const next = dot(shadow, r)
    const beta = (next / rho) * (alpha / omega)
    rho = next
    for (let i = 0; i < n; i++) p[i] = r[i] + beta * (p[i] - omega * Kp[i])
  }
  return y
}
