import { biCgStab } from './krylov.js'
import { dot, maxNorm, sumNorm } from './norms.js'
import { addFlow, pushOccupancy, sweepValues, type Chain } from './sweep.js'

/**
 * Values and occupancies of chains too large to eliminate.
 *
 * Gauss–Seidel sweeps, corrected after each by the multiple of one fixed vector that makes the residuals sum to 0: without it the
 * error along the chain's stationary mode shrinks by γ a sweep, with it by γ times the second eigenvalue, which is small when routing
 * mixes. Where it mixes slowly, BiCGSTAB on the swept system (each product costs one sweep) takes over, and if that does not bring the
 * residual down, sweeps go on: they always converge.
 */

/** Sweeps that are forecast to need more than this many more give way to BiCGSTAB. */
const PATIENCE = 24
const MOST_PRODUCTS = 1000
const SWEEPS_PER_LOOK = 50

/** No residual is pressed below this, relative to the solution. */
const ROUNDING = 8 * Number.EPSILON

/** x with x = b + γP x: ‖b + γP x − x‖∞ ≤ (1−γ) · tolerance · max(1, ‖x‖∞), or as near as rounding lets it. */
export const iterateValues = (chain: Chain, gamma: number, b: Float64Array, tolerance: number): Float64Array => {
  const n = b.length
  // 1ᵀ(I − γP): then Σ(b − x + γP x) = Σb − ⟨columns, x⟩
  const columns = new Float64Array(n)
  addFlow(chain, new Float64Array(n).fill(-1), columns)
  for (let s = 0; s < n; s++) columns[s] += 1
  const total = b.reduce((sum, x) => sum + x, 0)
  const centre = (x: Float64Array): void => {
    const shift = (total - dot(columns, x)) / (n * (1 - gamma))
    for (let s = 0; s < n; s++) x[s] += shift
  }

  const x = new Float64Array(n)
  centre(x)
  const sweepsLeft = forecast()
  let residual = Infinity
  let target = 0
  const sweep = (): boolean => {
    residual = gamma * sweepValues(chain, x, b)
    const size = maxNorm(x)
    target = Math.max((1 - gamma) * tolerance * Math.max(1, size), ROUNDING * size)
    return residual <= target
  }
  for (;;) {
    if (sweep()) return x
    if (sweepsLeft(residual, target) > PATIENCE) break
    centre(x)
  }

  // left preconditioned: y with (I − G) y = G(x) − x, G the sweep
  const apply = (u: Float64Array, out: Float64Array): void => {
    out.set(u)
    sweepValues(chain, out)
    for (let s = 0; s < n; s++) out[s] = u[s] - out[s]
  }
  const leap = (): boolean => {
    const r = x.slice()
    sweepValues(chain, r, b)
    for (let s = 0; s < n; s++) r[s] -= x[s]
    const y = biCgStab(apply, r, (rest) => gamma * maxNorm(rest) <= target / 2, MOST_PRODUCTS)
    const moved = x.map((value, s) => value + y[s])
    const after = gamma * sweepValues(chain, moved, b)
    if (after < residual) {
      x.set(moved)
      residual = after
    }
    return residual <= target
  }
  finish(gamma, leap, sweep, () => residual)
  return x
}

/**
 * x ≥ 0 with x = b + γPᵀ x for b ≥ 0 of mass 1 − γ: ‖b + γPᵀ x − x‖₁ ≤ (1−γ) · tolerance, or as near as rounding lets it.
 * States that b does not lead to stay exactly 0.
 */
export const iterateOccupancy = (chain: Chain, gamma: number, b: Float64Array, tolerance: number): Float64Array => {
  const n = b.length
  const target = Math.max((1 - gamma) * tolerance, ROUNDING)
  const x = b.map((mass) => mass / (1 - gamma))
  const r = new Float64Array(n)
  const measure = (): void => {
    for (let s = 0; s < n; s++) r[s] = b[s] - x[s]
    addFlow(chain, x, r)
  }
  // x ← (1 + c) x with Σr = 0 afterwards
  const scale = (): void => {
    const sum = r.reduce((all, one) => all + one, 0)
    const c = sum / (1 - gamma - sum)
    if (!Number.isFinite(c) || Math.abs(c) > 0.5) return
    for (let s = 0; s < n; s++) {
      x[s] *= 1 + c
      r[s] += c * (r[s] - b[s])
    }
  }

  measure()
  const sweepsLeft = forecast()
  let residual = Infinity
  const sweep = (): boolean => {
    pushOccupancy(chain, r, x)
    residual = sumNorm(r)
    return residual <= target
  }
  // right preconditioned: y with (I − H) y = r, H the push of residuals; pushing y then takes x to the solution
  const apply = (u: Float64Array, out: Float64Array): void => {
    out.set(u)
    pushOccupancy(chain, out)
    for (let s = 0; s < n; s++) out[s] = u[s] - out[s]
  }
  const leap = (): boolean => {
    const y = biCgStab(apply, r, (rest) => sumNorm(rest) <= target / 2, MOST_PRODUCTS)
    const start = x.slice()
    pushOccupancy(chain, y, x)
    measure()
    const after = sumNorm(r)
    if (after < residual) {
      residual = after
    } else {
      x.set(start)
      measure()
    }
    return residual <= target
  }
  for (;;) {
    if (sweep()) break
    if (sweepsLeft(residual, target) > PATIENCE) {
      finish(gamma, leap, sweep, () => residual)
      break
    }
    scale()
  }
  for (let s = 0; s < n; s++) if (x[s] < 0) x[s] = 0
  return x
}

/** Leaps as long as each divides the residual by ten; then sweeps until done or until it has stopped falling: rounding is all that is left. */
const finish = (gamma: number, leap: () => boolean, sweep: () => boolean, residual: () => number): void => {
  for (let before = Infinity; residual() < before / 10; ) {
    before = residual()
    if (leap()) return
  }
  for (let before = Infinity; residual() < before; ) {
    // a sweep divides the error by at least 1/γ
    before = residual() * gamma ** (SWEEPS_PER_LOOK / 2)
    for (let i = 0; i < SWEEPS_PER_LOOK; i++) if (sweep()) return
  }
}

/** How many more sweeps it will take, judging by the last four; 0 until there are four. */
const forecast = (): ((residual: number, target: number) => number) => {
  const past: number[] = []
  return (residual, target) => {
    past.push(residual)
    if (past.length < 5) return 0
    const perSweep = (residual / past[past.length - 5]) ** (1 / 4)
    return perSweep < 1 ? Math.log(target / residual) / Math.log(perSweep) : Infinity
  }
}
