import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { allCodes, compare, isConsistent } from './guessing.js'
import type { GuessingConfig } from './guessing.js'

/**
 * Reference players for guessing numbers. What counts is the number of guesses until the code is
 * found, the finding guess included, over all codes alike.
 *
 * For a set S of codes that are still possible, the least total V(S) over the codes of S obeys
 *   V(S) = min_g |S| + Σ_{f ≠ found} V(S_{g,f}),   V({s}) = 1,
 * where S_{g,f} holds the codes of S that answer guess g with f. `optimalMeanTurns` searches that
 * exactly in small games; `entropyPlayer` looks one guess ahead in any.
 */

type Size = Pick<GuessingConfig, 'digits' | 'alphabet' | 'repeats'>

/** For each code, in the order of `allCodes`, the guess that finds it. */
export type Turns = Int32Array

/**
 * The least mean number of guesses of any player, exactly, by branch and bound; a guess may be any
 * digits, repeated ones too, as in AR-Bench.
 *
 * Milliseconds for 120 codes of 3 digits, seconds for 120 of 4, minutes for 360 of 4.
 * @throws InputError for more than 400 codes
 */
export const optimalMeanTurns = (size: Size): number => {
  const game = gameOf(size)
  const n = game.codes.length
  if (n > 400) throw new InputError(`guessing: the best player is searched for up to 400 codes, not ${n}`)
  const leastTotal = totalBounds(n, ((size.digits + 1) * (size.digits + 2)) / 2 - 1)
  const solved = new Map<string, number>()

  /** V(S), when it is below `limit`; else any number ≥ `limit`. */
  const total = (candidates: Uint16Array, used: number, limit: number): number => {
    const size = candidates.length
    if (size <= 2) return 2 * size - 1
    if (leastTotal[size] >= limit) return limit
    const key = String.fromCharCode(...candidates)
    const known = solved.get(key)
    if (known !== undefined) return known
    const options = partitionsOf(game, candidates, used).map((option) => ({
      ...option,
      least: option.classes.reduce((sum, members) => sum + leastTotal[members.length], size),
    }))
    options.sort((x, y) => x.least - y.least)
    let best = limit
    for (const { guess, classes, least } of options) {
      if (least >= best) break
      let sum = least
      for (const members of classes) {
        const bound = leastTotal[members.length]
        sum += total(members, used | game.digitsOf[guess], best - sum + bound) - bound
        if (sum >= best) break
      }
      best = Math.min(best, sum)
    }
    if (best < limit) solved.set(key, best)
    return best
  }
  return total(Uint16Array.from(game.codes.keys()), 0, Infinity) / n
}

/**
 * A strong player of any size that allows a table of all answers: the guess whose answer is most
 * informative, i.e. least Σ_f |S_f| log |S_f|; a code that may be the hidden one where that ties.
 * Near the best, not the best: 5.239 guesses on average for 4 different digits of 10, where the
 * published optimum is 26274/5040 = 5.213 (Tanaka 1996; guesses of different digits).
 *
 * @returns its guess count for every code
 * @throws InputError for more than 2·10⁸ pairs of code and guess
 */
export const entropyPlayer = (size: Size): Turns => {
  const game = gameOf(size)
  const turns = new Int32Array(game.codes.length)
  const play = (candidates: Uint16Array, used: number, turn: number): void => {
    if (candidates.length <= 2) {
      candidates.forEach((code, i) => (turns[code] = turn + i))
      return
    }
    const best = mostInformative(game, candidates, used)
    const { classes, found } = partition(game, candidates, best)
    if (found !== undefined) turns[found] = turn
    for (const members of classes) play(members, used | game.digitsOf[best], turn + 1)
  }
  play(Uint16Array.from(game.codes.keys()), 0, 1)
  return turns
}

/** Mean of the guess counts, and the share of games won within `turns` guesses. */
export const summarizeTurns = (counts: ArrayLike<number>, turns: number): { mean: number; found: number } => ({
  mean: Array.from(counts).reduce((sum, count) => sum + count, 0) / counts.length,
  found: Array.from(counts).filter((count) => count <= turns).length / counts.length,
})

/** The player that draws any code each time, with replacement: geometric, exactly. */
export const randomPlayer = (size: Size, turns: number): { mean: number; found: number } => {
  const n = allCodes(size).length
  return { mean: n, found: 1 - (1 - 1 / n) ** turns }
}

/** Guess counts of the player that draws among the codes that agree with all answers so far, in one game a secret. */
export const randomConsistentPlayer = (size: Size, secrets: readonly string[], random: Random): number[] => {
  const codes = allCodes(size)
  return secrets.map((secret) => {
    let candidates = codes
    for (let turn = 1; ; turn++) {
      const guess = candidates[random.int(candidates.length)]
      if (guess === secret) return turn
      const answer = compare(secret, guess)
      candidates = candidates.filter((code) => isConsistent(code, [{ guess, ...answer }]))
    }
  })
}

/** All codes, all guesses, and the answer of each to each. */
interface Game {
  readonly codes: readonly string[]
  readonly guesses: readonly string[]
  /** answers[guess][code] = A · (digits + 1) + B. */
  readonly answers: readonly Uint8Array[]
  /** Bit set of the digits of each guess. */
  readonly digitsOf: readonly number[]
  /** The answer that says: found. */
  readonly found: number
}

const gameOf = (size: Size): Game => {
  const codes = allCodes(size)
  const guesses = allCodes({ ...size, repeats: true })
  if (codes.length > 0xffff || codes.length * guesses.length > 2e8) {
    throw new InputError(`guessing: ${codes.length} codes are too many for a table of all answers; take fewer digits`)
  }
  return {
    codes,
    guesses,
    answers: answerTable(codes, guesses),
    digitsOf: guesses.map((guess) => [...guess].reduce((used, digit) => used | (1 << Number(digit)), 0)),
    found: size.digits * (size.digits + 1),
  }
}

/** The i-th digit of a code is common with the guess if the guess has more of that digit than the code has before i. */
const answerTable = (codes: readonly string[], guesses: readonly string[]): Uint8Array[] => {
  const length = codes[0].length
  const digits = Uint8Array.from(codes.flatMap((code) => [...code].map(Number)))
  const before = Uint8Array.from(codes.flatMap((code) => [...code].map((digit, i) => code.slice(0, i).split(digit).length - 1)))
  return guesses.map((text) => {
    const guess = Uint8Array.from(text, Number)
    const counts = new Uint8Array(10)
    for (const digit of guess) counts[digit]++
    const row = new Uint8Array(codes.length)
    for (let code = 0, at = 0; code < codes.length; code++) {
      let a = 0
      let common = 0
      for (let i = 0; i < length; i++, at++) {
        if (digits[at] === guess[i]) a++
        if (counts[digits[at]] > before[at]) common++
      }
      row[code] = a * (length + 1) + common - a
    }
    return row
  })
}

/**
 * Digits that no guess has used so far are interchangeable: of the guesses that differ in them only,
 * the one that takes them in ascending order stands for all.
 */
const takesNewDigitsInOrder = (guess: string, used: number): boolean => {
  let seen = used
  for (let i = 0; i < guess.length; i++) {
    const digit = guess.charCodeAt(i) - 48
    if ((seen >> digit) & 1) continue
    if ((~seen & ((1 << digit) - 1)) !== 0) return false
    seen |= 1 << digit
  }
  return true
}

/** The classes of candidates that a guess leaves, largest first, without the class `found`. */
const partition = ({ answers, found }: Game, candidates: Uint16Array, guess: number): { classes: Uint16Array[]; found?: number } => {
  const classes: number[][] = []
  for (const code of candidates) (classes[answers[guess][code]] ??= []).push(code)
  const hit = classes[found]?.[0]
  return {
    classes: classes
      .filter((_, answer) => answer !== found)
      .map((members) => Uint16Array.from(members))
      .sort((x, y) => y.length - x.length),
    found: hit,
  }
}

/** The different partitions of the candidates that some guess makes, each once. */
const partitionsOf = (game: Game, candidates: Uint16Array, used: number): { guess: number; classes: Uint16Array[] }[] => {
  const seen = new Set<string>()
  const partitions: { guess: number; classes: Uint16Array[] }[] = []
  for (let guess = 0; guess < game.guesses.length; guess++) {
    if (!takesNewDigitsInOrder(game.guesses[guess], used)) continue
    const row = game.answers[guess]
    const names = new Map<number, number>([[game.found, 0]])
    const signature = String.fromCharCode(...candidates.map((code) => {
      const name = names.get(row[code]) ?? names.size
      names.set(row[code], name)
      return name
    }))
    const uninformative = names.size === 2 && !signature.includes('\0')
    if (uninformative || seen.has(signature)) continue
    seen.add(signature)
    partitions.push({ guess, classes: partition(game, candidates, guess).classes })
  }
  return partitions
}

const mostInformative = (game: Game, candidates: Uint16Array, used: number): number => {
  const histogram = new Uint32Array(game.found + 1)
  let best = 0
  let least = Infinity
  for (let guess = 0; guess < game.guesses.length; guess++) {
    if (!takesNewDigitsInOrder(game.guesses[guess], used)) continue
    histogram.fill(0)
    const row = game.answers[guess]
    for (const code of candidates) histogram[row[code]]++
    let sum = 0
    for (const count of histogram) if (count > 1) sum += count * Math.log(count)
    if (histogram[game.found]) sum -= 1e-6
    if (sum < least - 1e-9) {
      least = sum
      best = guess
    }
  }
  return best
}

/**
 * For each n, a lower bound of V over sets of n codes when a guess has at most `answers` answers: one
 * code found by the first guess, answers − 1 by the second, (answers − 1)² by the third …
 */
const totalBounds = (n: number, answers: number): Float64Array => {
  const bounds = new Float64Array(n + 1)
  let turn = 1
  let room = 1
  for (let size = 1, left = room; size <= n; size++, left--) {
    if (left === 0) {
      turn++
      room *= answers - 1
      left = room
    }
    bounds[size] = bounds[size - 1] + turn
  }
  return bounds
}
