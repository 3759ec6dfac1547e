import { expect, test } from 'vitest'
import { totalsOf } from '../../src/cli/totals.js'

test('a measure that few problems have gets an interval of its own problems, never 0/0', async () => {
  const problem = (id: string, correct: number, measures: Record<string, readonly [number, number]>) => ({ id, samples: 1, correct, mean: correct, measures })
  const totals = await totalsOf([problem('a', 1, { rare: [1, 2] }), ...Array.from({ length: 9 }, (_, i) => problem(`b${i}`, 0, {}))], 1)
  expect(totals.rare).toEqual({ estimate: 0.5, low: 0.5, high: 0.5 })
  expect(totals.score.estimate).toBeCloseTo(0.1, 12)
})

test('a measure over nothing is left out', async () => {
  expect(await totalsOf([{ id: 'a', samples: 1, correct: 1, mean: 1, measures: { none: [0, 0] } }], 1)).not.toHaveProperty('none')
})
