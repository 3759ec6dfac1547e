import { z } from 'zod'
import type { Benchmark, BenchmarkScore } from '../benchmark.js'
import { compare, guessing, guessingConfig, guessingProblem, readGuess } from '../guessing.js'
import { bySchema, loadRecords } from '../records.js'

/** AR-Bench GN: the record is the hidden code itself, four different digits. */
export interface HiddenNumber {
  /** 1-based position in the file: the code, which is all that the record holds, would give itself away. */
  readonly id: string
  readonly secret: string
}

const code = z.string().regex(/^(?:(\d)(?!\d*\1)){4}$/, 'expected a string of 4 different digits')
const size = guessingConfig.parse({})

export const guessingNumbers: Benchmark<HiddenNumber> = {
  name: 'ar-bench-gn',
  summary: 'AR-Bench guessing numbers: the last guess of four digits must be the hidden code',
  load: (file) => loadRecords(file, (value, line) => ({ id: String(line), secret: bySchema(code)(value) })),
  id: ({ id }) => id,
  prompt: () =>
    'A code of 4 different digits is hidden; a leading 0 is allowed. You guess; after each guess you are told how many digits are ' +
    'in the code and in the correct positions, and how many are in the code but in different positions. ' +
    'Reply "Guess: 1234" with your guess in place of the number.',
  score: ({ secret }, response) => scoreGuess(secret, readGuess(response, size)),
  task: (turns) => {
    const game = guessing(guessingConfig.parse({ feedback: 'sentences', turns }))
    return {
      name: 'ar-bench-gn',
      start: ({ record }) => game.start(guessingProblem(record.secret)),
      step: game.step as (state: unknown, message: string) => ReturnType<typeof game.step>,
      rolePrompt: ({ record }, agent, agents) => game.rolePrompt!(guessingProblem(record.secret), agent, agents),
    }
  },
}

/** AR-Bench's score of a game: that of its final guess, all earlier ones being questions. No guess is a miss with A = B = 0. */
const scoreGuess = (secret: string, guess: string | null): BenchmarkScore => {
  const { a, b } = guess === null ? { a: 0, b: 0 } : compare(secret, guess)
  const measures = { 'digits in place': [a, 4], 'inner score (2A + B)': [2 * a + b, 8] } as const
  if (guess === null) return { score: 0, verdict: 'invalid', reason: 'no run of four digits', measures }
  return a === 4
    ? { score: 1, verdict: 'correct', reason: `${guess} is the code`, measures }
    : { score: 0, verdict: 'wrong', reason: `${guess} has ${a} digits in place and ${b} elsewhere`, measures }
}
