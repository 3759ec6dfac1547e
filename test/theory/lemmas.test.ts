import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomPolicy, ring } from '../../src/theory/families.js'
import {
  activeFactorReduction, occupancyShift, performanceDifference, prefixes, randomMessageLaw, tokenChainRule,
} from '../../src/theory/lemmas.js'
import { random } from '../../src/util/random.js'
import { SHAPES, smallCase } from './oracle.js'

const cases = fc.record({ seed: fc.integer(), shape: fc.constantFrom(...SHAPES), gamma: fc.constantFrom(0.2, 0.9, 0.999) })

/** A second policy on the MDP of a case: `loose` moves every row, otherwise it may lose support. */
const pairOf = ({ seed, shape, gamma }: { seed: number; shape: (typeof SHAPES)[number]; gamma: number }) => {
  const { mdp, policy } = smallCase(shape, gamma, random(seed))
  const other = randomPolicy(mdp, random(seed).fork(1), seed % 3)
  return seed % 2 === 0 ? { mdp, first: policy, second: other } : { mdp, first: other, second: policy }
}

describe('Lemma 3.1', () => {
  it('holds in every state, on the whole joint action space', () => {
    fc.assert(fc.property(cases, (one) => {
      const { mdp, first, second } = pairOf(one)
      for (let s = 0; s < mdp.states; s++) {
        const { kl, mean, jointActions } = activeFactorReduction(mdp, first, second, s)
        expect(kl.holds, `kl ${kl.left} ${kl.right}`).toBe(true)
        expect(mean.holds, `mean ${mean.left} ${mean.right}`).toBe(true)
        expect(jointActions).toBeGreaterThanOrEqual(2)
      }
    }), { seed: 1, numRuns: 150 })
  })

  it('enumerates actions and no-ops of all agents', () => {
    const mdp = ring({ agents: 3, levels: 2, actions: 4, gamma: 0.9 }, random(1))
    const { jointActions, kl, mean } = activeFactorReduction(mdp, randomPolicy(mdp, random(2)), randomPolicy(mdp, random(3)), 3)
    expect(jointActions).toBe(5 ** 3)
    expect(kl.left).toBeGreaterThan(0)
    expect(mean.left).toBeGreaterThan(1)
  })

  it('refuses a joint action space too large to enumerate', () => {
    const mdp = ring({ agents: 12, levels: 1, actions: 5, gamma: 0.9 }, random(1))
    expect(() => activeFactorReduction(mdp, randomPolicy(mdp, random(2)), randomPolicy(mdp, random(3)), 0)).toThrow(/joint action space: 2176782336/)
  })
})

describe('Lemma 3.2', () => {
  it('holds on random token trees with random length, impossible and certain symbols', () => {
    fc.assert(fc.property(fc.integer(), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 5 }), fc.constantFrom(0, 0.2, 0.6), (seed, tokens, length, zeros) => {
      const space = { tokens, length }
      const [p, q] = [randomMessageLaw(space, random(seed), zeros), randomMessageLaw(space, random(seed + 1), zeros / 2)]
      const { holds, left, right, messages, meanLength } = tokenChainRule(space, p, q)
      expect(holds, `${left} ${right}`).toBe(true)
      expect(messages).toBe(prefixes(space) + tokens ** length)
      expect(meanLength).toBeGreaterThan(1 - 1e-12)
      expect(meanLength).toBeLessThan(length + 1e-12)
    }), { seed: 2, numRuns: 300 })
  })

  it('on one message computed by hand', () => {
    // after nothing: end ½, token ½; after the token: end ¼, token ¾. Messages: "" ½, "x" ⅛, "xx" ⅜
    const p = Float64Array.of(1 / 2, 1 / 2, 1 / 4, 3 / 4)
    const q = Float64Array.of(1 / 4, 3 / 4, 1 / 2, 1 / 2)
    const byHand = 0.5 * Math.log(2) + 0.125 * Math.log(1 / 8 / (3 / 8)) + 0.375 * Math.log(3 / 8 / (3 / 8))
    const { left, right, meanLength } = tokenChainRule({ tokens: 1, length: 2 }, p, q)
    expect(left).toBeCloseTo(byHand, 14)
    expect(right).toBeCloseTo(byHand, 14)
    expect(meanLength).toBe(1.5)
  })

  it('both sides are infinite when a reachable symbol lost its mass, and finite when it cannot be reached', () => {
    const space = { tokens: 1, length: 2 }
    const q = Float64Array.of(1 / 2, 1 / 2, 0, 1)
    expect(tokenChainRule(space, Float64Array.of(1 / 2, 1 / 2, 1 / 2, 1 / 2), q)).toMatchObject({ left: Infinity, right: Infinity, holds: true })
    expect(tokenChainRule(space, Float64Array.of(1, 0, 1 / 2, 1 / 2), q)).toMatchObject({ holds: true, right: Math.log(2) })
  })

  it('needs the end of the message: without its divergence the sides differ', () => {
    const space = { tokens: 2, length: 3 }
    const [p, q] = [randomMessageLaw(space, random(1)), randomMessageLaw(space, random(2))]
    const blind = q.slice()
    // the same odds among tokens, the end as likely as under p
    for (let at = 0; at < q.length; at += 3) {
      const scale = (1 - p[at]) / (1 - q[at])
      blind[at] = p[at]
      blind[at + 1] = q[at + 1] * scale
      blind[at + 2] = q[at + 2] * scale
    }
    expect(tokenChainRule(space, p, q).left - tokenChainRule(space, p, blind).right).toBeGreaterThan(1e-3)
  })
})

describe('performance difference and occupancy shift', () => {
  it('hold on random and degenerate MDPs', () => {
    fc.assert(fc.property(cases, (one) => {
      const { mdp, first, second } = pairOf(one)
      const difference = performanceDifference(mdp, first, second)
      expect(difference.holds, JSON.stringify(difference)).toBe(true)
      expect(difference.tolerance).toBeLessThan((1e-8 * Math.max(1, Math.abs(difference.left))) / (1 - one.gamma))
      const { shift, tv, pinsker } = occupancyShift(mdp, first, second)
      expect(tv.holds, JSON.stringify(tv)).toBe(true)
      expect(pinsker.holds, JSON.stringify(pinsker)).toBe(true)
      expect(shift).toBeLessThanOrEqual(2 + 1e-9)
    }), { seed: 3, numRuns: 300 })
  })

  it('the shift bound is tight in its order: half of it is exceeded', () => {
    const ratios = Array.from({ length: 300 }, (_, seed) => {
      const { mdp, first, second } = pairOf({ seed, shape: 'sparse', gamma: 0.2 })
      const { shift, tv } = occupancyShift(mdp, first, second)
      return tv.left > 0 ? shift / tv.left : 0
    })
    expect(Math.max(...ratios)).toBeGreaterThan(0.5)
    expect(Math.max(...ratios)).toBeLessThanOrEqual(1)
  })
})
