import { describe, expect, test } from 'vitest'
import { dTok } from '../../src/theory/divergence.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { randomPolicy, ring, routed } from '../../src/theory/families.js'
import { uniformPolicy } from '../../src/theory/mdp.js'
import { clippedStep, tilt, tiltToRadius, type UpdateInput } from '../../src/theory/update.js'
import { random } from '../../src/util/random.js'

const setting = (seed: number, sharpness = 1): UpdateInput => {
  const source = random(seed)
  const mdp = routed({ agents: 2, states: 6, actions: [2, 4], successors: 3, gamma: 0.9 }, source)
  const policy = randomPolicy(mdp, source, sharpness)
  const { d, A } = evaluate(mdp, policy)
  return { mdp, policy, agent: 0, d, A }
}

describe('tilt', () => {
  test('π·exp(ηA), normalised; other agents keep their rows bit for bit; lost support stays lost', () => {
    const input = setting(1)
    const { mdp, A } = input
    const policy = input.policy.slice()
    const own = [...mdp.activeAgent].findIndex((agent, s) => agent === 0 && mdp.actionStart[s + 1] - mdp.actionStart[s] > 2)
    const k = mdp.actionStart[own]
    policy[k + 1] += policy[k]
    policy[k] = 0
    const after = tilt({ ...input, policy }, 0.7)
    expect(after[k]).toBe(0)
    expect(after[k + 1] / after[k + 2]).toBeCloseTo((policy[k + 1] / policy[k + 2]) * Math.exp(0.7 * (A[k + 1] - A[k + 2])), 12)
    for (let s = 0; s < mdp.states; s++) {
      if (mdp.activeAgent[s] !== 0)
        expect(after.subarray(mdp.actionStart[s], mdp.actionStart[s + 1])).toEqual(
          policy.subarray(mdp.actionStart[s], mdp.actionStart[s + 1]),
        )
    }
  })

  test('a huge η does not overflow', () => {
    const input = setting(2)
    const after = tilt(input, 1e6)
    expect([...after].every((p) => p >= 0 && p <= 1)).toBe(true)
  })
})

describe('tilt to an exact radius', () => {
  test.each([1e-18, 1e-12, 1e-6, 1e-3, 0.01, 0.1, 1, 5])('D_tok = %f, by the divergence code', (radius) => {
    for (const seed of [1, 2, 3, 4]) {
      for (const sign of [1, -1]) {
        const input = setting(seed)
        const { policy, radius: achieved, step } = tiltToRadius({ ...input, A: input.A.map((x) => sign * x) }, radius)
        const exact = dTok(input.mdp, input.d, input.policy, policy)
        expect(achieved).toBe(exact)
        // the rounding of a probability moves a KL of 1e-18 by about 1e-16/√1e-18 of itself
        const relative = 1e-11 + 1e-15 / Math.sqrt(radius)
        expect(Math.abs(exact - radius)).toBeLessThanOrEqual(relative * radius)
        expect(exact).toBeLessThanOrEqual(radius * (1 + 1e-11))
        expect(step).toBeGreaterThan(0)
      }
    }
  })

  test('two equally likely actions, one state: KL(½‖p) = −½log(4p(1−p)), p = σ(ηΔ)', () => {
    const source = random(5)
    const mdp = ring({ agents: 1, levels: 1, actions: 2, gamma: 0.5 }, source)
    const policy = uniformPolicy(mdp)
    const { d, A } = evaluate(mdp, policy)
    const { step } = tiltToRadius({ mdp, policy, agent: 0, d, A }, 0.02)
    const p = 1 / (1 + Math.exp(-step * Math.abs(A[0] - A[1])))
    expect(-0.5 * Math.log(4 * p * (1 - p))).toBeCloseTo(0.02, 13)
  })

  test('nothing to tilt: radius 0, an agent that never acts, a constant advantage, an unvisited agent', () => {
    const input = setting(6)
    expect(tiltToRadius(input, 0)).toMatchObject({ radius: 0, step: 0, policy: input.policy })
    expect(tiltToRadius({ ...input, agent: 5 }, 0.1)).toMatchObject({ radius: 0, step: 0, policy: input.policy })
    expect(tiltToRadius({ ...input, A: input.A.map(() => 3) }, 0.1)).toMatchObject({ radius: 0, step: 0 })
    expect(tiltToRadius({ ...input, d: new Float64Array(input.mdp.states) }, 0.1)).toMatchObject({ radius: 0, step: 0 })
  })

  test('the size of the advantage does not matter: only η does', () => {
    const input = setting(8)
    const { policy } = tiltToRadius(input, 0.02)
    for (const size of [1e-290, 1e-200, 1e-100, 1e100, 1e200, 1e290]) {
      const scaled = tiltToRadius({ ...input, A: input.A.map((x) => size * x) }, 0.02)
      expect(scaled.radius).toBeCloseTo(0.02, 12)
      scaled.policy.forEach((p, k) => expect(p).toBeCloseTo(policy[k], 10))
    }
    expect(tiltToRadius({ ...input, A: input.A.map((x) => 1e-310 * x) }, 0.02)).toMatchObject({ step: 0, policy: input.policy })
  })

  test('a radius that no representable tilt reaches gives a large tilt inside it, which keeps its support', () => {
    for (const sharpness of [1, 20, 60]) {
      const input = setting(7, sharpness)
      const { policy, radius, step } = tiltToRadius(input, 1e6)
      expect(radius).toBeGreaterThan(10)
      expect(radius).toBeLessThan(1e6)
      expect(step).toBeGreaterThan(0)
      policy.forEach((p, k) => expect(p > 0).toBe(input.policy[k] > 0))
    }
  })

  test('a wrong radius is refused', () => {
    expect(() => tiltToRadius(setting(1), -1)).toThrow(/radius: holds -1; at least 0 and finite/)
    expect(() => tiltToRadius(setting(1), Infinity)).toThrow(/radius: holds Infinity/)
  })
})

describe('clipped-surrogate step', () => {
  const objective = ({ mdp, policy, agent, A }: UpdateInput, after: Float64Array, s: number, epsilon: number): number => {
    if (mdp.activeAgent[s] !== agent) return 0
    let sum = 0
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
      const w = after[k] / policy[k]
      sum += policy[k] * Math.min(w * A[k], Math.max(1 - epsilon, Math.min(1 + epsilon, w)) * A[k])
    }
    return sum
  }

  test('no other policy has a larger clipped surrogate in any state (20 settings, 400 others each, near and far)', () => {
    for (let seed = 0; seed < 20; seed++) {
      const base = setting(seed, 1 + (seed % 3))
      // an estimate need not be centred: all signs, and exact zeros
      const shift = [0, 0.3, 0.6, -100][seed % 4]
      const A = seed % 2 ? base.A.map((x) => x + shift) : base.A.map((x, k) => (k % 5 === 0 ? 0 : x + shift))
      const input = { ...base, A }
      const epsilon = [0.1, 0.3, 0.8][seed % 3]
      const { policy: best, step } = clippedStep(input, { epsilon })
      expect(step).toBe(1)
      const source = random(1000 + seed)
      for (let trial = 0; trial < 400; trial++) {
        const share = source.next() ** 4
        const toward = randomPolicy(input.mdp, source, 1 + 3 * source.next())
        const from = trial % 2 ? best : input.policy
        const other = from.map((p, k) => (1 - share) * p + share * toward[k])
        for (let s = 0; s < input.mdp.states; s++) {
          expect(objective(input, other, s, epsilon)).toBeLessThanOrEqual(objective(input, best, s, epsilon) + 1e-12)
        }
      }
      for (let s = 0; s < input.mdp.states; s++) {
        let sum = 0
        for (let k = input.mdp.actionStart[s]; k < input.mdp.actionStart[s + 1]; k++) sum += best[k]
        expect(sum).toBeCloseTo(1, 13)
      }
    }
  })

  test('where good actions are rare their ratio leaves 1+ε: clipping is no trust region', () => {
    const source = random(3)
    const mdp = ring({ agents: 1, levels: 1, actions: 2, gamma: 0.5 }, source)
    const policy = Float64Array.of(0.01, 0.99)
    const A = Float64Array.of(0.99, -0.01)
    const { policy: after } = clippedStep({ mdp, policy, agent: 0, d: Float64Array.of(1), A }, { epsilon: 0.2 })
    expect(after[1]).toBeCloseTo(0.8 * 0.99, 12)
    expect(after[0] / 0.01).toBeGreaterThan(20)
  })

  test('drawn back to a radius, it uses all of it and does not exceed it', () => {
    const input = setting(9)
    const free = clippedStep(input, { epsilon: 0.3 })
    for (const share of [1e-6, 0.01, 0.5]) {
      const radius = share * free.radius
      const step = clippedStep(input, { epsilon: 0.3, radius })
      expect(step.radius).toBeLessThanOrEqual(radius)
      expect(step.radius).toBeGreaterThan(radius * (1 - 1e-9))
      expect(step.radius).toBe(dTok(input.mdp, input.d, input.policy, step.policy))
    }
    expect(clippedStep(input, { epsilon: 0.3, radius: 0 }).radius).toBe(0)
  })

  test('options out of range are refused', () => {
    expect(() => clippedStep(setting(1), { epsilon: 1 })).toThrow(/epsilon: holds 1; strictly between 0 and 1/)
    expect(() => clippedStep(setting(1), { epsilon: 0.1, radius: NaN })).toThrow(/radius: holds NaN/)
  })
})
