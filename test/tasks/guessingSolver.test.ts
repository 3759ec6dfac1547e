import { describe, expect, it } from 'vitest'
import { allCodes, compare, isConsistent } from '../../src/tasks/guessing.js'
import { entropyPlayer, optimalMeanTurns, randomConsistentPlayer, randomPlayer, summarizeTurns } from '../../src/tasks/guessingSolver.js'
import { random } from '../../src/util/random.js'

const size = (digits: number, alphabet: number, repeats = false) => ({ digits, alphabet, repeats })

/** V(S) by trying every guess, nothing pruned but guesses that say nothing. */
const leastTotal = (candidates: readonly string[], guesses: readonly string[]): number => {
  if (candidates.length === 1) return 1
  let best = Infinity
  for (const guess of guesses) {
    const classes = new Map<string, string[]>()
    for (const code of candidates) {
      const { a, b } = compare(code, guess)
      const answer = `${a}A${b}B`
      classes.set(answer, [...(classes.get(answer) ?? []), code])
    }
    if (classes.size === 1) continue
    let total = candidates.length
    for (const [answer, members] of classes) if (answer !== `${guess.length}A0B`) total += leastTotal(members, guesses)
    best = Math.min(best, total)
  }
  return best
}

/** Mean guesses of the random-consistent player, by the recursion over all its draws. */
const consistentMean = (candidates: readonly string[]): number => {
  let total = 0
  for (const guess of candidates) {
    for (const secret of candidates) {
      total += 1
      if (secret !== guess) total += consistentMean(candidates.filter((code) => isConsistent(code, [{ guess, ...compare(secret, guess) }])))
    }
  }
  return total / candidates.length ** 2
}

describe('players of guessing numbers', () => {
  it('finds the best player, as trying everything does', () => {
    for (const game of [size(1, 5), size(2, 3), size(2, 4), size(2, 3, true), size(3, 3)]) {
      const codes = allCodes(game)
      expect(optimalMeanTurns(game) * codes.length).toBeCloseTo(leastTotal(codes, allCodes({ ...game, repeats: true })), 9)
    }
    expect(() => optimalMeanTurns(size(4, 10))).toThrow(/up to 400 codes, not 5040/)
  })

  it('the entropy player is never better than the best, and close to it', () => {
    for (const game of [size(2, 5), size(3, 4, true), size(3, 5), size(3, 6), size(2, 10)]) {
      const { mean } = summarizeTurns(entropyPlayer(game), 10)
      const best = optimalMeanTurns(game)
      expect(mean).toBeGreaterThanOrEqual(best - 1e-12)
      expect(mean).toBeLessThan(1.02 * best)
    }
  })

  it('the entropy player needs 5.24 guesses on average and 7 at most for AR-Bench\'s codes', () => {
    const counts = entropyPlayer(size(4, 10))
    expect(Math.max(...counts)).toBe(7)
    expect(summarizeTurns(counts, 7)).toEqual({ mean: 26408 / 5040, found: 1 })
  })

  // 4000 games each: within 4.5 standard errors, missed with probability 7e-6 (the seed is fixed).
  it('the random-consistent player has the mean of its recursion', () => {
    const game = size(2, 4)
    const codes = allCodes(game)
    const draw = random(1)
    const counts = randomConsistentPlayer(game, Array.from({ length: 4000 }, () => codes[draw.int(codes.length)]), draw)
    const { mean } = summarizeTurns(counts, 10)
    const deviation = Math.sqrt(counts.reduce((sum, count) => sum + (count - mean) ** 2, 0) / counts.length)
    expect(Math.abs(mean - consistentMean(codes))).toBeLessThan((4.5 * deviation) / Math.sqrt(counts.length))
  })

  it('the random player is geometric', () => {
    expect(randomPlayer(size(1, 2), 3)).toEqual({ mean: 2, found: 0.875 })
  })
})
