import { z } from 'zod'
import { benchmarkNames } from '../tasks/benchmarks.js'
import { guessing, guessingAlphabet, guessingConfig, guessingProblems } from '../tasks/guessing.js'
import { relay, relayAlphabet, relayConfig, relayProblems } from '../tasks/relay.js'
import type { EpisodeState, Problem, Task } from '../tasks/task.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'

/** A game that a team is trained in, where its problems come from, and what a character tokenizer must know. */
export interface Environment {
  readonly task: Task
  /** `count` problems, drawn with replacement from one side of a fixed split. @throws InputError when that side is empty */
  problems(split: 'train' | 'test', count: number, random: Random): Problem[]
  /** Every character of a context or of a valid message. */
  readonly alphabet: string
  /** The character that ends a message: the one the context goes on with, where there is one. */
  readonly end: string
}

/** Where records with a verifiable answer come from. */
const recordsSchema = z.strictObject({
  /** Whose format and scoring. */
  benchmark: z.enum(benchmarkNames as [string, ...string[]]),
  /** JSONL, JSON or parquet, in the public format. */
  file: z.string().min(1),
})

/** The `task` of a training configuration. The team's size is said once, in `team.agents`. */
export const taskSchema = z.discriminatedUnion('name', [
  relayConfig.omit({ agents: true }).extend({ name: z.literal('relay') }),
  guessingConfig.safeExtend({ name: z.literal('guessing') }),
  recordsSchema.extend({
    name: z.literal('benchmark'),
    /** Held-out records. Default: a fifth of `file`, chosen by a hash of what is asked, which is then never trained on. */
    test: recordsSchema.nullable().default(null),
    /** Messages in an episode, at most; in a judged game the questions before the answer. Default: each agent once. */
    turns: z.int().min(1).max(1000).optional(),
    /** The model that plays the benchmark's suspects or referee, where its game has one: an OpenAI-compatible server. Key: $TEAMTR_JUDGE_KEY. */
    judge: z.strictObject({ url: z.string().min(1), model: z.string().min(1) }).nullable().default(null),
  }),
], { error: 'expected relay, guessing or benchmark' })
export type TaskConfig = z.output<typeof taskSchema>

/** How long episodes and messages get. */
export interface Limits {
  /** Messages in an episode, at most: its horizon. */
  readonly turns: number
  /** Tokens of the longest valid message of a game, its end included, one token a character; null: any length is valid. */
  readonly messageTokens: number | null
}

export const limitsOf = (config: TaskConfig, agents: number): Limits => {
  if (config.name === 'relay') return { turns: agents * config.rounds, messageTokens: String(config.modulus - 1).length + 1 }
  if (config.name === 'guessing') return { turns: config.turns, messageTokens: config.digits + 1 }
  // In a judged game so many questions, and then the answer.
  return { turns: questions(config, agents) + (config.judge ? 1 : 0), messageTokens: null }
}

/** Messages of the team in a discussion of a record, or questions of it in a judged game. */
export const questions = ({ turns }: Extract<TaskConfig, { name: 'benchmark' }>, agents: number): number => turns ?? agents

/** A game's environment. @throws InputError for a benchmark, whose records must be read first (`openEnvironment`) */
export const environment = (config: TaskConfig, agents: number): Environment => {
  if (config.name === 'benchmark') throw new InputError('task.name: holds "benchmark"; expected relay or guessing here')
  if (config.name === 'relay') {
    const settings = { ...config, agents }
    return {
      task: erase(relay(settings)),
      problems: (split, count, random) => relayProblems(settings, split, count, random),
      alphabet: relayAlphabet,
      end: ';',
    }
  }
  const compact = config.feedback === 'compact'
  return {
    task: erase(guessing(config)),
    problems: (split, count, random) => guessingProblems(config, split, count, random),
    alphabet: compact ? guessingAlphabet : printable,
    end: compact ? ':' : '\n',
  }
}

/** The characters of plain English text. */
const printable = `\n${Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join('')}`

/** A task with its own types of problem and state, as one with the general types: it is only ever handed what it made itself. */
const erase = <P extends Problem, S extends EpisodeState>(task: Task<P, S>): Task => task as unknown as Task
