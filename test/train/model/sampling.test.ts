import fc from 'fast-check'
import { expect, test } from 'vitest'
import { draw, type Sampling } from '../../../src/train/model/sampling.js'
import { random } from '../../../src/util/random.js'

/** Which tokens are kept and how probable each is, from the definitions, by sorting everything. */
const distribution = (scores: Float32Array, { temperature, topK = scores.length, topP = 1 }: Sampling): Map<number, number> => {
  const top = Math.max(...scores)
  const weights = Array.from(scores, (x) => Math.exp((x - top) / temperature))
  let order = [...weights.keys()].sort((a, b) => scores[b] - scores[a] || a - b).slice(0, topK)
  const sum = (tokens: number[]): number => tokens.reduce((all, v) => all + weights[v], 0)
  const total = sum(order)
  const needed = order.findIndex((_, n) => sum(order.slice(0, n + 1)) >= topP * total * (1 - 1e-12))
  if (topP < 1) order = order.slice(0, needed + 1)
  return new Map(order.map((v) => [v, weights[v] / sum(order)]))
}

const rows = fc
  .array(fc.oneof(fc.float({ min: -20, max: 20, noNaN: true }), fc.constantFrom(0, 1)), { minLength: 1, maxLength: 40 })
  .map((x) => Float32Array.from(x))
const samplings = fc.record({
  temperature: fc.constantFrom(0.3, 1, 2.5),
  topK: fc.option(fc.integer({ min: 1, max: 45 }), { nil: undefined }),
  topP: fc.option(fc.constantFrom(0.05, 0.5, 0.9, 0.999, 1), { nil: undefined }),
})

test('drawn tokens are the kept ones, with the probabilities of the definition', () => {
  fc.assert(fc.property(rows, samplings, fc.nat(1000), (scores, sampling, seed) => {
    const expected = distribution(scores, sampling)
    const source = random(seed)
    const scratch = new Float64Array(scores.length)
    const untempered = distribution(scores, { temperature: 1 })
    for (let n = 0; n < 20; n++) {
      const { token, logProb, samplingLogProb } = draw(scores, sampling, source, scratch)
      expect(expected.has(token)).toBe(true)
      expect(samplingLogProb).toBeCloseTo(Math.log(expected.get(token)!), 9)
      expect(logProb).toBeCloseTo(Math.log(untempered.get(token)!), 9)
    }
  }), { numRuns: 300 })
})

test('every kept token is drawn as often as it says (chi-squared, false alarm 1e-4)', () => {
  const scores = Float32Array.from({ length: 60 }, (_, v) => 3 * Math.sin(v * v))
  const sampling = { temperature: 1.3, topK: 20, topP: 0.9 }
  const expected = distribution(scores, sampling)
  expect(expected.size).toBe(16)
  const [source, scratch, n] = [random(1), new Float64Array(60), 20_000]
  const counts = new Map<number, number>()
  for (let i = 0; i < n; i++) {
    const { token } = draw(scores, sampling, source, scratch)
    counts.set(token, (counts.get(token) ?? 0) + 1)
  }
  const statistic = [...expected].reduce((sum, [v, p]) => sum + ((counts.get(v) ?? 0) - n * p) ** 2 / (n * p), 0)
  // 99.99 % quantile of chi-squared with 15 degrees of freedom.
  expect(statistic).toBeLessThan(44.3)
})

test('temperature 0, one token kept, and a large vocabulary of equals', () => {
  const scores = Float32Array.of(1, 3, 3, 2)
  const scratch = new Float64Array(4)
  const most = draw(scores, { temperature: 0 }, random(1), scratch)
  expect([most.token, most.samplingLogProb]).toEqual([1, 0])
  const greedy = draw(scores, { temperature: 5, topK: 1 }, random(1), scratch)
  expect([greedy.token, greedy.samplingLogProb]).toEqual([1, 0])
  expect(draw(scores, { temperature: 1, topP: 1e-9 }, random(1), scratch).token).toBe(1)
  const flat = new Float32Array(150_000)
  const drawn = draw(flat, { temperature: 1, topK: 50, topP: 0.5 }, random(2), new Float64Array(150_000))
  expect(drawn.token).toBeLessThan(25)
  expect(drawn.samplingLogProb).toBeCloseTo(-Math.log(25), 12)
  expect(drawn.logProb).toBeCloseTo(-Math.log(150_000), 9)
})
