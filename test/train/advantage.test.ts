import { describe, expect, it } from 'vitest'
import { advantagesOf } from '../../src/train/advantage.js'
import type { Rollouts } from '../../src/train/rollout.js'

const rollouts = (group: number, returns: readonly number[]): Rollouts => ({
  problems: Array.from({ length: returns.length / group }, (_, p) => String(p)),
  group,
  episodes: returns.map((value, e) => ({ problem: Math.floor(e / group), messages: [], reward: value, return: value })),
})
const plain = { normalise: true, epsilon: 0, clip: null }

describe('advantagesOf', () => {
  // Mean 1/4, population deviation √(3)/4: 3/√3 = √3 for the one, −1/√3 for the others.
  it('normalises each group by itself', () => {
    const { used, unclipped, centred } = advantagesOf(rollouts(4, [1, 0, 0, 0, 0, 0, 8, 0]), plain)
    const group = (values: number[]) => values.map((x) => expect.closeTo(x, 12))
    const one = Math.sqrt(3)
    const other = -1 / Math.sqrt(3)
    expect([...used]).toEqual(group([one, other, other, other, other, other, one, other]))
    expect(unclipped).toEqual(used)
    // R − mean of the other three: 1 − 0 and 0 − 1/3.
    expect([...centred]).toEqual(group([1, -1 / 3, -1 / 3, -1 / 3, -8 / 3, -8 / 3, 8, -8 / 3]))
  })

  it('clips', () => {
    const { used, unclipped } = advantagesOf(rollouts(4, [1, 0, 0, 0]), { ...plain, clip: 1 })
    expect(used[0]).toBe(1)
    expect(unclipped[0]).toBeCloseTo(Math.sqrt(3), 12)
    expect(used[1]).toBeCloseTo(-1 / Math.sqrt(3), 12)
  })

  it('adds ε under the root', () => {
    expect(advantagesOf(rollouts(2, [1, 0]), { ...plain, epsilon: 0.75 }).used[0]).toBeCloseTo(0.5, 12)
  })

  it('only centres when not asked to normalise', () => {
    expect([...advantagesOf(rollouts(2, [1, 0, 5, 9]), { ...plain, normalise: false }).used]).toEqual([0.5, -0.5, -2, 2])
  })

  it('is exactly zero in a group of equal returns, whatever they are', () => {
    for (const normalise of [true, false]) {
      const { used, centred } = advantagesOf(rollouts(3, [0.1, 0.1, 0.1]), { ...plain, normalise })
      expect([...used, ...centred]).toEqual([0, 0, 0, 0, 0, 0])
    }
  })
})
