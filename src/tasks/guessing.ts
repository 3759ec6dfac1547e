import { z } from 'zod'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { drawFrom } from './split.js'
import type { EpisodeState, Problem, Task } from './task.js'

/**
 * Guessing numbers, as AR-Bench plays it: a hidden code of different digits; the team guesses, one
 * guess a message, and is told A, how many digits are in the right place, and B, how many more are in
 * the code but elsewhere. A leading 0 is allowed, and so are guesses with repeated digits.
 *
 * Here the episode ends when the code is found or the turns are over. (AR-Bench itself asks on for 25
 * turns and then scores one final guess: whoever found the code can repeat it there, so that its
 * accuracy is the share of codes found within 26 messages.)
 */

export const guessingConfig = z
  .strictObject({
    digits: z.int().min(1).max(10).default(4),
    /** The digits used: 0 … alphabet − 1. */
    alphabet: z.int().min(2).max(10).default(10),
    /** Whether the digits of a hidden code may repeat. */
    repeats: z.boolean().default(false),
    /** Messages in an episode, at most. */
    turns: z.int().min(1).max(1000).default(26),
    /** How the environment answers: `1234:1A2B;` or AR-Bench's two sentences. */
    feedback: z.enum(['compact', 'sentences']).default('compact'),
    /**
     * Reward for progress: the return is (1 − shapingWeight) · [found] + shapingWeight · progress.
     * Progress ∈ [0, 1] is the best guess's 2A + B over 2 · digits (`score`, AR-Bench's inner score), or
     * the part of the initial uncertainty, in bits, that the answers have removed (`information`).
     */
    shaping: z.enum(['none', 'score', 'information']).default('none'),
    shapingWeight: z.number().min(0).max(1).default(0.5),
    /** The weak player's slips: see `demonstrate`. */
    slip: z.number().min(0).max(1).default(0.35),
  })
  .refine(({ digits, alphabet, repeats }) => repeats || digits <= alphabet, 'without repeats, digits must be at most alphabet')
export type GuessingConfig = z.output<typeof guessingConfig>

/** Every character of a context or a valid message with compact feedback. */
export const guessingAlphabet = '0123456789:AB;?'

export interface GuessingProblem extends Problem {
  readonly secret: string
}

/** A guess and its answer. */
export interface Guess {
  readonly guess: string
  /** Digits in the right place. */
  readonly a: number
  /** Digits in the code, but elsewhere. */
  readonly b: number
}

export interface GuessingState extends EpisodeState {
  readonly problem: GuessingProblem
  /** The valid guesses so far. */
  readonly history: readonly Guess[]
  /** In [0, 1]; 0 without shaping. */
  readonly progress: number
}

export const guessing = (config: GuessingConfig = guessingConfig.parse({})): Task<GuessingProblem, GuessingState> => {
  const codes = config.shaping === 'information' ? allCodes(config) : []
  return {
    name: 'guessing',
    start: (problem) => ({ problem, context: introduction(config), turn: 0, done: false, reward: 0, history: [], progress: 0 }),

    /** A message without a code in it is answered with `?` (compact) or a sentence that says so; it costs a turn. */
    step: (state, message) => {
      if (state.done) return { ...state, reward: 0 }
      const turn = state.turn + 1
      const guess = readGuess(message, config)
      if (guess === null) {
        return { ...state, context: state.context + invalidText(config), turn, done: turn >= config.turns, reward: 0 }
      }
      const answer = { guess, ...compare(state.problem.secret, guess) }
      const found = guess === state.problem.secret
      const history = [...state.history, answer]
      const progress = progressOf(history, found, config, state.progress, codes)
      const weight = config.shaping === 'none' ? 0 : config.shapingWeight
      return {
        problem: state.problem,
        context: state.context + answerText(answer, config),
        turn,
        done: found || turn >= config.turns,
        reward: (1 - weight) * Number(found) + weight * (progress - state.progress),
        history,
        progress,
      }
    },

    /**
     * The weak player: with probability `slip` any code, else a code that agrees with every answer so
     * far (uniform; any code where 20 000 draws find none).
     */
    demonstrate: ({ history }, random) =>
      random.next() < config.slip ? drawCode(config, random) : drawConsistent(config, history, random),

    rolePrompt: (_, agent, agents) =>
      `You are agent ${agent + 1} of ${agents} who guess a hidden code of ${config.digits}${config.repeats ? '' : ' different'} digits ` +
      `from 0 to ${config.alphabet - 1} together, one guess a message, in turns. Use all answers so far; find it in few guesses. ` +
      `Reply "Guess: ${exampleCode(config)}" with your guess in place of the number.`,
  }
}

/** A and B of a guess: B counts the digits common to both, with multiplicity, less A. Both of one length. */
export const compare = (secret: string, guess: string): { a: number; b: number } => {
  const length = secret.length
  let a = 0
  let common = 0
  for (let i = 0; i < length; i++) {
    const digit = secret.charCodeAt(i)
    if (guess.charCodeAt(i) === digit) a++
    // The digit is common if the guess has more of it than the secret has before i.
    let surplus = 0
    for (let j = 0; j < length; j++) {
      if (guess.charCodeAt(j) === digit) surplus++
      if (j < i && secret.charCodeAt(j) === digit) surplus--
    }
    if (surplus > 0) common++
  }
  return { a, b: common - a }
}

/**
 * The guess in a text, by AR-Bench's rule: its last run of as many digits as the code has.
 * @returns null when there is none, or one with digits that the alphabet lacks
 */
export const readGuess = (message: string, { digits, alphabet }: Pick<GuessingConfig, 'digits' | 'alphabet'>): string | null => {
  let guess: string | undefined
  for (const [run] of message.matchAll(new RegExp(`\\d{${digits}}`, 'g'))) guess = run
  return guess === undefined || [...guess].some((digit) => Number(digit) >= alphabet) ? null : guess
}

/**
 * Problems drawn uniformly (with replacement) from one side of a fixed split: a fifth of all codes,
 * by a hash, is `test`.
 *
 * @throws InputError when that side holds no code (possible only in tiny spaces)
 */
export const guessingProblems = (config: GuessingConfig, split: 'train' | 'test', count: number, random: Random): GuessingProblem[] => {
  const problems = drawFrom(split, count, () => guessingProblem(drawCode(config, random)))
  if (problems) return problems
  throw new InputError(`guessing: no ${split} code of ${config.digits} digits among 0 … ${config.alphabet - 1}; take more of either`)
}

export const guessingProblem = (secret: string): GuessingProblem => ({ id: secret, secret })

/** Whether a code could be the hidden one. */
export const isConsistent = (code: string, history: readonly Guess[]): boolean =>
  history.every(({ guess, a, b }) => {
    const answer = compare(code, guess)
    return answer.a === a && answer.b === b
  })

/** All codes that can be hidden, in order. @throws InputError when they are more than 10⁶ */
export const allCodes = ({ digits, alphabet, repeats }: Pick<GuessingConfig, 'digits' | 'alphabet' | 'repeats'>): string[] => {
  let codes = ['']
  for (let i = 0; i < digits; i++) {
    codes = codes.flatMap((code) =>
      Array.from({ length: alphabet }, (_, digit) => String(digit))
        .filter((digit) => repeats || !code.includes(digit))
        .map((digit) => code + digit),
    )
    if (codes.length > 1e6) throw new InputError(`guessing: more than a million codes of ${digits} digits of ${alphabet}; take fewer`)
  }
  return codes
}

/** A code that can be hidden, uniform. */
export const drawCode = ({ digits, alphabet, repeats }: GuessingConfig, random: Random): string =>
  repeats
    ? Array.from({ length: digits }, () => random.int(alphabet)).join('')
    : random.permutation(alphabet).slice(0, digits).join('')

/** A code that agrees with every answer, uniform among those; any code where 20 000 draws find none. */
export const drawConsistent = (config: GuessingConfig, history: readonly Guess[], random: Random): string => {
  for (let attempt = 0; attempt < 20_000; attempt++) {
    const code = drawCode(config, random)
    if (isConsistent(code, history)) return code
  }
  return drawCode(config, random)
}

/** `codes`: all that can be hidden, for the shaping by information. */
const progressOf = (
  history: readonly Guess[],
  found: boolean,
  config: GuessingConfig,
  before: number,
  codes: readonly string[],
): number => {
  if (config.shaping === 'none') return 0
  if (found) return 1
  if (config.shaping === 'score') {
    const { a, b } = history.at(-1)!
    return Math.max(before, (2 * a + b) / (2 * config.digits))
  }
  return 1 - Math.log(codes.filter((code) => isConsistent(code, history)).length) / Math.log(codes.length)
}

/** Never empty: a language model needs something to condition its first token on. */
const introduction = ({ digits, alphabet, repeats, turns, feedback }: GuessingConfig): string =>
  feedback === 'compact'
    ? ';'
    : `A code of ${digits}${repeats ? '' : ' different'} digits from 0 to ${alphabet - 1} is hidden; a leading 0 is allowed. ` +
      `There are ${turns} guesses.\n`

const answerText = ({ guess, a, b }: Guess, { feedback }: GuessingConfig): string =>
  feedback === 'compact' ? `${guess}:${a}A${b}B;` : `\nGuess: ${guess}\n${feedbackSentences(a, b)}\n`

/** AR-Bench's answer to a guess. */
export const feedbackSentences = (a: number, b: number): string =>
  `${a} digits are present in the answer and in the correct positions\n${b} digits are present in the answer but in the different positions`

const invalidText = ({ feedback, digits, alphabet }: GuessingConfig): string =>
  feedback === 'compact' ? '?;' : `\nThat message holds no guess of ${digits} digits from 0 to ${alphabet - 1}: the turn is lost.\n`

const exampleCode = ({ digits, alphabet }: GuessingConfig): string =>
  Array.from({ length: digits }, (_, i) => (i + 1) % alphabet).join('')
