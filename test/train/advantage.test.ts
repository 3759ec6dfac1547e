import { describe, expect, it } from 'vitest'
import { advantagesOf } from '../../src/train/advantage.js'
import type { Message, Rollouts } from '../../src/train/rollout.js'

/** Only how many there are counts. */
const message = {} as Message

const rollouts = (group: number, returns: readonly number[]): Rollouts => ({
  problems: Array.from({ length: returns.length / group }, (_, p) => String(p)),
  group,
  episodes: returns.map((value, e) => ({ problem: Math.floor(e / group), messages: [message], context: '', reward: value, return: value })),
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

  it('is that of the episode for each of its messages', () => {
    const two = rollouts(2, [1, 0])
    const { used } = advantagesOf({ ...two, episodes: two.episodes.map((episode, e) => ({ ...episode, messages: e ? [message, message] : [message] })) }, plain)
    expect([...used]).toEqual([1, -1, -1])
  })
})

describe('corrections', () => {
  const logs = [0.5, -0.3, 0.2, 0.9, -1.2, 0]
  const w = logs.map(Math.exp)
  const returns = [1, 0, 0, 2, 0, 5]

  it('compound: the episode’s ratio multiplies its advantage (HAPPO)', () => {
    const without = advantagesOf(rollouts(3, returns), plain)
    const { used, centred, weights } = advantagesOf(rollouts(3, returns), plain, { correction: 'compound', logRatios: logs })
    used.forEach((a, e) => expect(a).toBeCloseTo(w[e] * without.used[e], 12))
    centred.forEach((a, e) => expect(a).toBeCloseTo(w[e] * without.centred[e], 12))
    expect([...weights]).toEqual([1, 1, 1, 1, 1, 1])
  })

  it('importance: means and deviations of a group are weighted ones, and the weights have mean 1', () => {
    const { used, centred, weights } = advantagesOf(rollouts(3, returns), plain, { correction: 'importance', logRatios: logs })
    const total = w.reduce((a, b) => a + b)
    weights.forEach((x, e) => expect(x).toBeCloseTo((6 * w[e]) / total, 12))
    for (const from of [0, 3]) {
      const [own, all] = [w.slice(from, from + 3), returns.slice(from, from + 3)]
      const mean = (values: number[]) => values.reduce((sum, x, g) => sum + own[g] * x, 0) / own.reduce((a, b) => a + b)
      const deviation = Math.sqrt(mean(all.map((r) => (r - mean(all)) ** 2)))
      all.forEach((r, g) => {
        expect(used[from + g]).toBeCloseTo((r - mean(all)) / deviation, 12)
        const others = [0, 1, 2].filter((h) => h !== g)
        const rest = others.reduce((sum, h) => sum + own[h] * all[h], 0) / others.reduce((sum, h) => sum + own[h], 0)
        expect(centred[from + g]).toBeCloseTo(r - rest, 12)
      })
    }
  })

  it('all ratios 1: nothing is corrected', () => {
    const without = advantagesOf(rollouts(3, returns), plain)
    for (const correction of ['compound', 'importance'] as const) {
      expect(advantagesOf(rollouts(3, returns), plain, { correction, logRatios: [0, 0, 0, 0, 0, 0] })).toEqual(without)
    }
  })

  it('a group whose weights have vanished teaches nothing', () => {
    const { used, centred } = advantagesOf(rollouts(2, [1, 0, 0, 1]), plain, { correction: 'importance', logRatios: [-2000, -2000, 0, 0] })
    expect([...used, ...centred].every(Number.isFinite)).toBe(true)
    expect([...used.subarray(0, 2)]).toEqual([0, 0])
  })
})
