import { biCgStab } from './krylov.js'
import { dot, maxNorm, sumNorm } from './norms.js'
import type { Chain } from './chain.js'

/**
 * Values and occupancies of chains too large to eliminate.
 *
 * Gauss–Seidel sweeps, corrected after each by the multiple of one vector that makes the residuals sum to 0: without it the error along
 * the chain's stationary mode shrinks by γ a sweep; with it what counts is the second eigenvalue, which is small when routing mixes.
 * Where it mixes slowly, BiCGSTAB on the swept system (each product costs one sweep) takes over, and if that does not bring the residual
 * down, sweeps go on: they always converge.
 */

/** Sweeps that are forecast to need more than this many more give way to BiCGSTAB. */
const PATIENCE = 24
const MOST_PRODUCTS = 1000
const SWEEPS_PER_LOOK = 50

/** No residual is pressed below this, relative to the solution. */
const ROUNDING = 8 * Number.EPSILON

/** V with V = r + γP V: ‖r + γP V − V‖∞ ≤ (1−γ) · tolerance · max(1, ‖V‖∞), or as near as rounding lets it. */
export const iterateValues = (chain: Chain, gamma: number, reward: Float64Array, tolerance: number): Float64Array => {
  const { u, v, w } = chain
  const n = v.length
  // columns = 1ᵀ(I − γP): the residuals of V sum to Σr − ⟨columns, V⟩
  u.fill(0)
  v.fill(-1)
  chain.flow()
  const columns = u.slice()
  for (let s = 0; s < n; s++) columns[s] += 1
  const total = sum(reward)
  const centre = (): void => {
    const shift = (total - dot(columns, v)) / (n * (1 - gamma))
    for (let s = 0; s < n; s++) v[s] += shift
  }

  u.set(reward)
  v.fill(0)
  w.fill(0)
  const progress: Progress = { residual: Infinity, target: 0 }
  const aim = (): void => {
    const size = maxNorm(v)
    progress.target = Math.max((1 - gamma) * tolerance * Math.max(1, size), ROUNDING * size)
  }
  const sweep = (): boolean => {
    progress.residual = gamma * chain.sweep('u')
    if (progress.residual <= progress.target) aim()
    return progress.residual <= progress.target
  }
  // left preconditioned: y with (I − G) y = G(V) − V, G the sweep; G without reward is a sweep with w = 0
  const apply = (x: Float64Array, out: Float64Array): void => {
    v.set(x)
    chain.sweep('w')
    for (let s = 0; s < n; s++) out[s] = x[s] - v[s]
  }
  const leap = (): boolean => {
    aim()
    const { residual, target } = progress
    const before = v.slice()
    chain.sweep('u')
    const rest = v.slice()
    for (let s = 0; s < n; s++) rest[s] -= before[s]
    const y = biCgStab(apply, rest, (x) => gamma * maxNorm(x) <= target / 2, MOST_PRODUCTS)
    for (let s = 0; s < n; s++) v[s] = before[s] + y[s]
    if (sweep()) return true
    if (!(progress.residual < residual)) {
      v.set(before)
      progress.residual = residual
    }
    return false
  }
  centre()
  chain.sweep('u')
  aim()
  sweepOrLeap(gamma, sweep, centre, leap, progress)
  return v.slice()
}

/**
 * d ≥ 0 with d = b + γPᵀ d for b ≥ 0 of mass 1 − γ: ‖b + γPᵀ d − d‖₁ ≤ (1−γ) · tolerance, or as near as rounding lets it.
 * States that b does not lead to are exactly 0.
 *
 * @returns d and the 1-norm of its residual, computed from d
 */
export const iterateOccupancy = (
  chain: Chain, gamma: number, b: Float64Array, tolerance: number,
): { d: Float64Array; residual: number } => {
  const { u: r, v: d, w } = chain
  const n = d.length
  const progress: Progress = { residual: Infinity, target: Math.max((1 - gamma) * tolerance, ROUNDING) }
  const measure = (): void => {
    for (let s = 0; s < n; s++) r[s] = b[s] - d[s]
    chain.flow()
    progress.residual = sumNorm(r)
  }
  // d ← (1 + c) d with Σr = 0 afterwards
  const scale = (): void => {
    const off = sum(r)
    const c = off / (1 - gamma - off)
    if (!(Math.abs(c) < 0.5)) return
    for (let s = 0; s < n; s++) {
      d[s] *= 1 + c
      r[s] += c * (r[s] - b[s])
    }
  }
  const sweep = (): boolean => {
    chain.push('v')
    progress.residual = sumNorm(r)
    return progress.residual <= progress.target
  }
  // right preconditioned: y with (I − H) y = r, H what a push leaves of a residual; pushing y then takes d to the solution
  const apply = (x: Float64Array, out: Float64Array): void => {
    r.set(x)
    chain.push('w')
    for (let s = 0; s < n; s++) out[s] = x[s] - r[s]
  }
  const leap = (): boolean => {
    const { residual, target } = progress
    const before = d.slice()
    const y = biCgStab(apply, r.slice(), (rest) => sumNorm(rest) <= target / 2, MOST_PRODUCTS)
    r.set(y)
    chain.push('v')
    measure()
    if (progress.residual <= target) return true
    if (!(progress.residual < residual)) {
      d.set(before)
      measure()
    }
    return false
  }
  w.fill(0)
  for (let s = 0; s < n; s++) d[s] = b[s] / (1 - gamma)
  measure()
  sweepOrLeap(gamma, sweep, scale, leap, progress)
  for (let s = 0; s < n; s++) if (d[s] < 0) d[s] = 0
  measure()
  return { d: d.slice(), residual: progress.residual }
}

interface Progress {
  residual: number
  target: number
}

/**
 * Sweeps, each corrected, as long as they are fast; then leaps, as long as each does more than sweeps that cost as much are sure to do; then
 * plain sweeps, until the residual has stopped falling and rounding is all that is left. A step returns true when the target is reached.
 */
const sweepOrLeap = (gamma: number, sweep: () => boolean, correct: () => void, leap: () => boolean, progress: Progress): void => {
  for (const past: number[] = []; forecast(past, progress.target) <= PATIENCE; correct()) {
    if (sweep()) return
    past.push(progress.residual)
  }
  for (let before = Infinity; progress.residual < before * gamma ** MOST_PRODUCTS; ) {
    before = progress.residual
    if (leap()) return
  }
  for (let before = Infinity; progress.residual < before; ) {
    // exactly, a sweep divides the error by at least 1/γ
    before = progress.residual * gamma ** (SWEEPS_PER_LOOK / 2)
    for (let i = 0; i < SWEEPS_PER_LOOK; i++) if (sweep()) return
  }
}

/** How many more sweeps it will take, judging by the last four; 0 until there are four. */
const forecast = (past: readonly number[], target: number): number => {
  if (past.length < 5) return 0
  const residual = past[past.length - 1]
  const perSweep = (residual / past[past.length - 5]) ** (1 / 4)
  return perSweep < 1 ? Math.log(target / residual) / Math.log(perSweep) : Infinity
}

const sum = (x: Float64Array): number => {
  let total = 0
  for (let i = 0; i < x.length; i++) total += x[i]
  return total
}
