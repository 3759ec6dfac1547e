import { describe, expect, it } from 'vitest'
import { randomPolicy, ring } from '../../src/theory/families.js'
import { essLimit } from '../../src/theory/importance.js'
import { measureScaling, scalingExponents, type ScalingSetup } from '../../src/theory/scaling.js'
import { runStage } from '../../src/theory/stage.js'
import { tiltToRadius } from '../../src/theory/update.js'
import { random } from '../../src/util/random.js'

const setup: ScalingSetup = {
  family: 'ring',
  sizes: [2, 4, 8, 16, 32],
  radius: 'occupancy',
  delta: 0.001,
  gamma: 0.95,
  levels: 4,
  actions: 3,
  seeds: 6,
  seed: 1,
}

it('a quantity that is 0 in some MDP has no exponent: with one level per turn nothing depends on the policy', () => {
  const exponents = scalingExponents(measureScaling({ ...setup, sizes: [2, 3], levels: 1, radius: 'message' }))
  expect(exponents.gap.fit).toBeUndefined()
  expect(exponents.gap.means[0].interval.estimate).toBeLessThan(1e-12)
  expect(exponents.thm36.fit!.alpha).toBeCloseTo(0.5, 10)
})

it('ESS/B is that of rollouts in which everybody speaks twice, at the last update of a team drawn from the seed', () => {
  const { ess } = measureScaling({ ...setup, sizes: [2, 3], seeds: 1 })
  const source = random(setup.seed).fork(3).fork(0)
  const mdp = ring({ agents: 3, levels: 4, actions: 3, gamma: 0.95, reach: 3 }, source)
  const { policies } = runStage(mdp, randomPolicy(mdp, source), { order: [0, 1, 2], update: (input) => tiltToRadius(input, 0.001).policy })
  expect(ess[1].samples[0]).toBe(essLimit(mdp, policies[0], policies[2], 6))
})

describe('scaling on the ring (4 levels per agent, γ = 0.95, n = 2 … 32)', () => {
  const occupancy = scalingExponents(measureScaling(setup))
  const message = scalingExponents(measureScaling({ ...setup, radius: 'message' }))
  const alpha = (of: typeof occupancy, name: keyof typeof occupancy): number => of[name].fit!.alpha
  const last = (of: typeof occupancy, name: keyof typeof occupancy): number => of[name].local[3].alpha

  it("√n: the active-mass penalty has α 0.50 and 0.00 where the paper's form has 1.00 and 0.50", () => {
    expect(Math.abs(alpha(occupancy, 'activeMass') - 0.5)).toBeLessThan(0.02)
    expect(Math.abs(alpha(message, 'activeMass'))).toBeLessThan(0.02)
    expect(Math.abs(alpha(occupancy, 'thm36') - 1)).toBeLessThan(0.02)
    expect(Math.abs(alpha(message, 'thm36') - 0.5)).toBeLessThan(0.02)
  })

  it('the stale penalties of theory.md, section 3, with their local slopes from 16 to 32', () => {
    const expected = [
      ['thm37Paper', 2, 2, 1.5, 1.5],
      ['thm37Exact', 1.87, 1.96, 1.37, 1.46],
      ['activeMassStale', 1.37, 1.46, 0.87, 0.96],
    ] as const
    for (const [name, all, local, allMessage, localMessage] of expected) {
      expect(Math.abs(alpha(occupancy, name) - all)).toBeLessThan(0.01)
      expect(Math.abs(last(occupancy, name) - local)).toBeLessThan(0.01)
      expect(Math.abs(alpha(message, name) - allMessage)).toBeLessThan(0.02)
      expect(Math.abs(last(message, name) - localMessage)).toBeLessThan(0.02)
    }
    // ours: each shift paid once
    expect(last(occupancy, 'ownStates')).toBeLessThan(1.03)
    expect(last(message, 'ownStatesActiveMass')).toBeLessThan(0.04)
  })

  it("the exact quantities are near theory.md's (another ring, other seeds)", () => {
    const near = (of: typeof occupancy, name: keyof typeof occupancy, value: number): void =>
      expect(Math.abs(alpha(of, name) - value)).toBeLessThan(0.25)
    near(occupancy, 'shifts', 0.56)
    near(occupancy, 'drift', 1.7)
    near(occupancy, 'gap', 1.39)
    near(message, 'shifts', 0.03)
    near(message, 'drift', 1.18)
    near(message, 'gap', 0.24)
    for (const { interval } of occupancy.mass.means) expect(interval.estimate).toBeCloseTo(1, 2)
  })

  it('other families, repeatable, and refuses what makes no sense', () => {
    const small = { ...setup, sizes: [2, 3], seeds: 2 }
    for (const family of ['routed', 'tree'] as const) {
      const table = measureScaling({ ...small, family })
      expect(table).toEqual(measureScaling({ ...small, family }))
      for (const { samples } of table.gap) for (const x of samples) expect(x).toBeGreaterThanOrEqual(0)
    }
    const refuse = (part: Partial<ScalingSetup>, message: string): void =>
      expect(() => measureScaling({ ...setup, ...part })).toThrow(message)
    refuse({ sizes: [2] }, 'n: holds 1 sizes')
    refuse({ sizes: [3, 2] }, 'n: holds 2 after 3')
    refuse({ sizes: [1, 2] }, 'n: holds 1; whole numbers, at least 2')
    refuse({ sizes: [2, 30], family: 'tree' }, 'n: holds 30, which makes about 9.27e+14 transitions')
    refuse({ levels: 5000 }, 'n: holds 2, which makes about 1.50e+8 transitions')
    refuse({ sizes: [2, 5000] }, 'n: holds 5000, which makes about 2.40e+5 transitions; n times that')
    refuse({ actions: 1e9 }, 'actions: holds 1000000000')
    refuse({ seeds: 1e12 }, 'seeds: holds 1000000000000; a whole number, 1 to 100000')
    refuse({ seed: 1.5 }, 'seed: holds 1.5')
    refuse({ gamma: 1 - 1e-12 }, 'gamma: holds')
    refuse({ delta: 0 }, 'delta: holds 0')
    refuse({ gamma: 1 }, 'gamma: holds 1')
    refuse({ actions: 1 }, 'actions: holds 1; a whole number, 2 to')
  })
})
