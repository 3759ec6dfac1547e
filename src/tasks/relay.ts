import { z } from 'zod'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { drawFrom } from './split.js'
import type { EpisodeState, Problem, Task } from './task.js'

/**
 * Relay arithmetic. The problem `3+4-2+5=` is worked out modulo m by a team that passes the running
 * result on: message t is the result after t operations, here `7`, `5`, `0`. The reward is 1 when
 * the last message is right, else 0.
 *
 * The shared context is the problem and then each message with a `;` behind it: `3+4-2+5=7;5;`.
 * A wrong message misleads whoever trusts it; but the whole problem stays in sight, so a later agent
 * can work from the start again and repair it.
 */

export const relayConfig = z.strictObject({
  agents: z.int().min(1).max(64).default(3),
  /** How often the relay goes round the team: agents · rounds messages, one operation each. */
  rounds: z.int().min(1).max(64).default(1),
  /** Numbers are 0 … modulus − 1; above 10 they have several digits, and so do messages. */
  modulus: z.int().min(2).max(1_000_000).default(10),
  operations: z.array(z.enum(['+', '-', '*'])).min(1).default(['+', '-']),
  /** The weak player's slips: see `demonstrate`. */
  slip: z.number().min(0).max(1).default(0.35),
})
export type RelayConfig = z.output<typeof relayConfig>
export type Operation = RelayConfig['operations'][number]

/** Every character that a context or a valid message holds. */
export const relayAlphabet = '0123456789+-*=;?'

export interface RelayProblem extends Problem {
  readonly modulus: number
  readonly start: number
  /** One a message. */
  readonly steps: readonly { readonly operation: Operation; readonly operand: number }[]
}

export interface RelayState extends EpisodeState {
  readonly problem: RelayProblem
  /** What each message said, null where it was no number of the problem. */
  readonly results: readonly (number | null)[]
}

export const relay = (config: RelayConfig = relayConfig.parse({})): Task<RelayProblem, RelayState> => ({
  name: 'relay',
  start: (problem) => ({ problem, context: problem.id, turn: 0, done: false, reward: 0, results: [] }),

  /** An invalid message (anything but a number 0 … modulus − 1 in plain digits) stands in the context as `?`. */
  step: (state, message) => {
    if (state.done) return { ...state, reward: 0 }
    const { problem } = state
    const turn = state.turn + 1
    const result = parseResult(message, problem.modulus)
    const done = turn === problem.steps.length
    return {
      problem,
      context: `${state.context}${result ?? '?'};`,
      turn,
      done,
      reward: done && result === relayAnswer(problem) ? 1 : 0,
      results: [...state.results, result],
    }
  },

  /**
   * The weak player believes what it reads: it continues from the last number said. But it slips:
   * with probability `slip` it says a number drawn uniformly from all m, the right one among them.
   * So a team of n weak players is right with probability 1/m + (1 − 1/m)(1 − slip)ⁿ for problems of
   * + and −: 0.347 at the defaults (`weakRelaySuccess` has it for every problem).
   */
  demonstrate: ({ problem, results }, random) => {
    const said = results.findLastIndex((result) => result !== null)
    const from = said < 0 ? problem.start : results[said]!
    const right = problem.steps.slice(said + 1, results.length + 1).reduce((value, step) => apply(value, step, problem.modulus), from)
    return String(random.next() < config.slip ? random.int(problem.modulus) : right)
  },

  rolePrompt: (problem, agent, agents) =>
    `You are agent ${agent + 1} of ${agents} in a relay of mental arithmetic modulo ${problem.modulus}, from left to right. ` +
    'The problem is followed by the running results so far, each after one more operation and closed by ";". ' +
    `Say only the next running result, a number from 0 to ${problem.modulus - 1}. Earlier results may be wrong.`,
})

/** The running results after each operation; the last is the answer. */
export const runningResults = ({ start, steps, modulus }: RelayProblem): number[] => {
  let value = start
  return steps.map((step) => (value = apply(value, step, modulus)))
}

export const relayAnswer = (problem: RelayProblem): number => runningResults(problem).at(-1)!

/**
 * The exact probability that a team of weak players (`demonstrate`) answers a problem: the
 * distribution of the running result, pushed through every step.
 */
export const weakRelaySuccess = (problem: RelayProblem, slip: number): number => {
  const { modulus } = problem
  let probability = new Float64Array(modulus)
  probability[problem.start] = 1
  for (const step of problem.steps) {
    const next = new Float64Array(modulus).fill(slip / modulus)
    for (let value = 0; value < modulus; value++) next[apply(value, step, modulus)] += (1 - slip) * probability[value]
    probability = next
  }
  return probability[relayAnswer(problem)]
}

/**
 * Problems drawn uniformly (with replacement) from one side of a fixed split: a fifth of all
 * problems, chosen by a hash of their text, is `test`; no seed ever brings one into `train`.
 *
 * @throws InputError when that side holds no problem (possible only in tiny spaces)
 */
export const relayProblems = (config: RelayConfig, split: 'train' | 'test', count: number, random: Random): RelayProblem[] => {
  const problems = drawFrom(split, count, () => drawProblem(config, random))
  if (problems) return problems
  const { modulus, agents, rounds } = config
  throw new InputError(`relay: no ${split} problem of modulus ${modulus} with ${agents * rounds} operations; take more of either`)
}

/** A problem from its text. @throws InputError when it is not of the form `3+4-2=` with numbers below the modulus */
export const parseRelayProblem = (text: string, modulus: number): RelayProblem => {
  const shown = text.slice(0, 60)
  if (!/^\d+([-+*]\d+)+=$/.test(text)) throw new InputError(`relay problem: holds "${shown}"; expected something like "3+4-2="`)
  const [start, ...operands] = text.slice(0, -1).split(/[-+*]/).map(Number)
  const symbols = text.match(/[-+*]/g) as Operation[]
  const wrong = [start, ...operands].find((value) => value >= modulus)
  if (wrong !== undefined) throw new InputError(`relay problem: "${shown}" holds ${wrong}; expected numbers below ${modulus}`)
  return { id: text, modulus, start, steps: operands.map((operand, i) => ({ operation: symbols[i], operand })) }
}

const drawProblem = ({ agents, rounds, modulus, operations }: RelayConfig, random: Random): RelayProblem => {
  const start = random.int(modulus)
  const steps = Array.from({ length: agents * rounds }, () => ({
    operation: operations[random.int(operations.length)],
    operand: random.int(modulus),
  }))
  return { id: `${start}${steps.map(({ operation, operand }) => operation + operand).join('')}=`, modulus, start, steps }
}

const apply = (value: number, { operation, operand }: RelayProblem['steps'][number], modulus: number): number => {
  const result = operation === '+' ? value + operand : operation === '-' ? value - operand : value * operand
  return ((result % modulus) + modulus) % modulus
}

/** 0 … modulus − 1 in plain digits, blanks around it allowed; else null. */
const parseResult = (message: string, modulus: number): number | null => {
  if (message.length > 100) return null
  const text = message.trim()
  if (!/^(0|[1-9]\d{0,6})$/.test(text)) return null
  const value = Number(text)
  return value < modulus ? value : null
}
