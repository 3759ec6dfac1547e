import { z } from 'zod'
import { guessing, guessingAlphabet, guessingConfig, guessingProblems } from '../tasks/guessing.js'
import { relay, relayAlphabet, relayConfig, relayProblems } from '../tasks/relay.js'
import type { EpisodeState, Problem, Task } from '../tasks/task.js'
import type { Random } from '../util/random.js'

/** What a team is trained in: the game, where its problems come from, and what a character tokenizer must know. */
export interface Environment {
  readonly task: Task
  /** `count` problems, drawn with replacement from one side of a fixed split. @throws InputError when that side is empty */
  problems(split: 'train' | 'test', count: number, random: Random): Problem[]
  /** Every character of a context or of a valid message. */
  readonly alphabet: string
  /** The character that ends a message: the one the context goes on with, where there is one. */
  readonly end: string
  /** Tokens of the longest valid message, its end included, one token a character. */
  readonly messageTokens: number
  /** Messages in an episode, at most: its horizon. */
  readonly turns: number
}

/** The `task` of a training configuration. The team's size is said once, in `team.agents`. */
export const taskSchema = z.discriminatedUnion('name', [
  relayConfig.omit({ agents: true }).extend({ name: z.literal('relay') }),
  guessingConfig.safeExtend({ name: z.literal('guessing') }),
], { error: 'expected relay or guessing' })
export type TaskConfig = z.output<typeof taskSchema>

export const environment = (config: TaskConfig, agents: number): Environment => {
  if (config.name === 'relay') {
    const settings = { ...config, agents }
    return {
      task: erase(relay(settings)),
      problems: (split, count, random) => relayProblems(settings, split, count, random),
      alphabet: relayAlphabet,
      end: ';',
      messageTokens: String(config.modulus - 1).length + 1,
      turns: agents * config.rounds,
    }
  }
  const compact = config.feedback === 'compact'
  return {
    task: erase(guessing(config)),
    problems: (split, count, random) => guessingProblems(config, split, count, random),
    alphabet: compact ? guessingAlphabet : printable,
    end: compact ? ':' : '\n',
    messageTokens: config.digits + 1,
    turns: config.turns,
  }
}

/** The characters of plain English text. */
const printable = `\n${Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join('')}`

/** A task with its own types of problem and state, as one with the general types: it is only ever handed what it made itself. */
const erase = <P extends Problem, S extends EpisodeState>(task: Task<P, S>): Task => task as unknown as Task
