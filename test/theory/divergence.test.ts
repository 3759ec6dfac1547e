import fc from 'fast-check'
import { all, create, type BigNumber } from 'mathjs'
import { describe, expect, it } from 'vitest'
import { dTok, expectation, kl, klTerm, requireWithinRadius, tv } from '../../src/theory/divergence.js'
import { ring, randomPolicy } from '../../src/theory/families.js'
import { replaceAgent, TheoryError, uniformPolicy } from '../../src/theory/mdp.js'
import { occupancy } from '../../src/theory/evaluate.js'
import { random } from '../../src/util/random.js'

const math = create(all, { number: 'BigNumber', precision: 60 })

/** The double itself, not its shortest decimal name. */
const big = (x: number): BigNumber => {
  let halvings = 0
  for (; !Number.isInteger(x); x *= 2) halvings++
  return math.bignumber(BigInt(x).toString()).div(math.bignumber(2).pow(halvings))
}

/** p·φ(q/p) = q − p − p·log(q/p) at 60 digits, the doubles taken as exact. */
const exactTerm = (p: number, q: number): number =>
  Number(big(q).minus(big(p)).minus(big(p).times(big(q).div(big(p)).ln())).toString())

describe('klTerm', () => {
  it('has full relative precision however near the two probabilities are', () => {
    const exponents = [0, -1, -2, -3, -5, -8, -10, -12, -15]
    fc.assert(fc.property(fc.double({ min: 1e-12, max: 1, noNaN: true }), fc.constantFrom(...exponents), fc.double({ min: -1, max: 1, noNaN: true }), (p, exponent, x) => {
      const q = Math.max(p * 1e-9, p * (1 + x * 10 ** exponent))
      const exact = exactTerm(p, q)
      expect(Math.abs(klTerm(p, q) - exact)).toBeLessThanOrEqual(1e-14 * exact)
    }), { seed: 1, numRuns: 600 })
  })

  it('is 0 only when equal, q where p is 0, infinite where q is 0, finite at the ends of the range', () => {
    expect(klTerm(0.3, 0.3)).toBe(0)
    expect(klTerm(0, 0)).toBe(0)
    expect(klTerm(0, 0.25)).toBe(0.25)
    expect(klTerm(0.25, 0)).toBe(Infinity)
    expect(klTerm(0.5, 0.5 + 2 ** -53)).toBeGreaterThan(0)
    expect(klTerm(Number.MIN_VALUE, 1)).toBeCloseTo(1, 12)
    expect(klTerm(1, Number.MIN_VALUE)).toBeCloseTo(-Math.log(Number.MIN_VALUE) - 1, 10)
  })
})

describe('kl and tv', () => {
  const rows = fc.integer({ min: 1, max: 6 }).chain((length) => fc.tuple(row(length), row(length)))

  it('obey Pinsker, and are 0 together', () => {
    fc.assert(fc.property(rows, ([p, q]) => {
      const [divergence, distance] = [kl(p, q), tv(p, q)]
      expect(divergence).toBeGreaterThanOrEqual(0)
      expect(distance).toBeLessThanOrEqual(1 + 1e-12)
      expect(distance).toBeLessThanOrEqual(Math.sqrt(divergence / 2) + 1e-12)
      expect(kl(p, p)).toBe(0)
      expect(tv(p, q)).toBe(tv(q, p))
    }), { seed: 2, numRuns: 500 })
  })

  it('on rows computed by hand', () => {
    expect(kl([0.5, 0.5], [0.25, 0.75])).toBeCloseTo(0.5 * Math.log(2) + 0.5 * Math.log(2 / 3), 15)
    expect(kl([0.25, 0.75], [0.5, 0.5])).toBeCloseTo(0.25 * Math.log(0.5) + 0.75 * Math.log(1.5), 15)
    expect(tv([0.5, 0.5, 0], [0.25, 0.25, 0.5])).toBe(0.5)
    expect(kl([1, 0], [0.5, 0.5])).toBeCloseTo(Math.log(2), 15)
    expect(kl([0.5, 0.5], [1, 0])).toBe(Infinity)
  })
})

describe('under an occupancy', () => {
  it('0·∞ = 0: lost support where nobody goes adds nothing', () => {
    expect(expectation(Float64Array.of(0.5, 0.5, 0), Float64Array.of(1, 3, Infinity))).toBe(2)
    expect(expectation(Float64Array.of(0.5, 0.5), Float64Array.of(1, Infinity))).toBe(Infinity)
  })

  it('refuses a step outside its radius, and lost support before that', () => {
    const mdp = ring({ agents: 2, levels: 3, actions: 2, gamma: 0.9 }, random(1))
    const { d } = occupancy(mdp, uniformPolicy(mdp))
    const [before, after] = [uniformPolicy(mdp), replaceAgent(mdp, uniformPolicy(mdp), 1, randomPolicy(mdp, random(2)))]
    const exact = dTok(mdp, d, before, after)
    expect(requireWithinRadius(mdp, d, before, after, exact, 0)).toBe(exact)
    expect(requireWithinRadius(mdp, d, before, after, exact * (1 - 1e-10), 0)).toBe(exact)
    expect(error(() => requireWithinRadius(mdp, d, before, after, exact * (1 - 1e-8), 1))).toMatchObject({ kind: 'outside-radius', place: 'radii[1]' })
    after.set([1, 0], mdp.actionStart[4])
    expect(error(() => requireWithinRadius(mdp, d, before, after, exact * 0.999, 1))).toMatchObject({ kind: 'infinite-kl', place: 'targets[1].probs[1]' })
    const elsewhere = d.slice()
    elsewhere[4] = 0
    expect(requireWithinRadius(mdp, elsewhere, before, after, 1, 1)).toBeLessThan(exact)
  })
})

const row = (length: number) => fc.array(fc.oneof(fc.constant(0), fc.double({ min: 1e-6, max: 1, noNaN: true })), { minLength: length, maxLength: length })
  .filter((weights) => weights.some((w) => w > 0))
  .map((weights) => weights.map((w) => w / weights.reduce((a, b) => a + b, 0)))

const error = (act: () => unknown): TheoryError => {
  try {
    act()
  } catch (thrown) {
    if (thrown instanceof TheoryError) return thrown
    throw thrown
  }
  throw new Error('nothing was thrown')
}
