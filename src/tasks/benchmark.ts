import type { Loaded } from './records.js'
import type { EpisodeState, Problem, Score, Task } from './task.js'

/**
 * A benchmark: records in their public format, what a model is asked, and how its answer is scored.
 * Everything is synchronous and pure but `load`, so that a score can be a reward.
 *
 * @typeParam R a record, checked when it was loaded
 */
export interface Benchmark<R = unknown> {
  /** As on the command line: lower case, with hyphens. */
  readonly name: string
  /** One line: what is asked and how it is scored. */
  readonly summary: string
  /** @throws InputError when the file itself cannot be read; what is wrong with single records is in `errors` */
  load(file: string): Promise<Loaded<R>>
  /** What a response names this record by. Unique within a file. */
  id(record: R): string
  /** The whole question for one model, the wanted answer format included. */
  prompt(record: R): string
  /** Score any text. Never throws; bounded in time for up to MAX_RESPONSE characters. Call it through `scoreResponse`. */
  score(record: R, response: string): BenchmarkScore
  /** Whether two responses give the same final answer, for votes; a response without one agrees with none. Absent: when they are the same text. */
  agree?(a: string, b: string): boolean
  /** The game a team plays on these records, where it is more than a discussion of the prompt (see `teamTask`). */
  readonly task?: (turns: number) => Task<RecordProblem<R>>
  /** The game where the environment speaks through a model: a suspect, a referee. `turns`: questions to it, at most. */
  readonly game?: (turns: number, respond: Respond) => InteractiveTask<R>
}

/** A model as text in, text out (a chat completion, a local model). What it throws ends the game. */
export type Respond = (prompt: string) => Promise<string>

/** As `Task`, but the environment takes its time: a step waits for a model's answer. */
export interface InteractiveTask<R = unknown, S extends InteractiveState = InteractiveState> {
  readonly name: string
  start(problem: RecordProblem<R>): S
  /** Any text is a message; throws only what the model throws. */
  step(state: S, message: string): Promise<S>
  rolePrompt?(problem: RecordProblem<R>, agent: number, agents: number): string
}

export interface InteractiveState extends EpisodeState {
  /** The score of the final answer, once the game is over. */
  readonly final?: BenchmarkScore
}

/** One player alone in an interactive game: it reads the context and writes the next message, to the end. */
export const playAlone = async <R, S extends InteractiveState>(
  game: InteractiveTask<R, S>,
  problem: RecordProblem<R>,
  player: Respond,
): Promise<S> => {
  let state = game.start(problem)
  while (!state.done) state = await game.step(state, await player(state.context))
  return state
}

/**
 * A score with the benchmark's further measures, each as [numerator, denominator]; the total is the
 * ratio of the sums (cell accuracy: correct cells over cells).
 */
export interface BenchmarkScore extends Score {
  readonly measures?: Readonly<Record<string, readonly [number, number]>>
}

/** A record posed to a team. */
export interface RecordProblem<R = unknown> extends Problem {
  readonly record: R
}

/** Longest response that is scored, in UTF-16 units. */
export const MAX_RESPONSE = 4 * 2 ** 20

/** Score a response of any length: beyond MAX_RESPONSE it is 0, unread. */
export const scoreResponse = <R>(benchmark: Benchmark<R>, record: R, response: string): BenchmarkScore =>
  response.length > MAX_RESPONSE
    ? unscored(benchmark, record, `the response has ${response.length} characters; at most ${MAX_RESPONSE} are scored`)
    : benchmark.score(record, response)

/** What a response is worth that cannot be scored: as an empty one, in the further measures too, but for another reason. */
export const unscored = <R>(benchmark: Benchmark<R>, record: R, reason: string): BenchmarkScore =>
  ({ ...benchmark.score(record, ''), score: 0, verdict: 'invalid', reason })

/** A discussion in progress. */
export interface DiscussionState<R> extends EpisodeState {
  readonly record: R
}

/**
 * A benchmark as a task for a team: the shared context is the prompt and then the messages, under
 * `Message k:`; after `turns` messages the last one is the team's answer, and its score the reward.
 *
 * @param turns messages in an episode, ≥ 1
 */
export const teamTask = <R>(benchmark: Benchmark<R>, turns: number): Task<RecordProblem<R>> =>
  benchmark.task ? benchmark.task(turns) : (discussion(benchmark, turns) as Task<RecordProblem<R>>)

const discussion = <R>(benchmark: Benchmark<R>, turns: number): Task<RecordProblem<R>, DiscussionState<R>> => ({
  name: benchmark.name,
  start: ({ record }) => ({ record, context: benchmark.prompt(record), turn: 0, done: false, reward: 0 }),
  step: (state, message) => {
    if (state.done) return { ...state, reward: 0 }
    const turn = state.turn + 1
    const done = turn >= turns
    return {
      record: state.record,
      context: `${state.context}\n\nMessage ${turn}:\n${message.slice(0, MAX_RESPONSE)}`,
      turn,
      done,
      reward: done ? scoreResponse(benchmark, state.record, message).score : 0,
    }
  },
  ...(benchmark.agree && { agree: (_: Problem, a: string, b: string) => benchmark.agree!(a, b) }),
  rolePrompt: (_, agent, agents) =>
    `You are agent ${agent + 1} of ${agents} who solve a problem together, speaking in turns; each reads all messages so far. ` +
    `There are ${turns} messages in all, and the last one is the team's answer: build on what is right, repair what is wrong, ` +
    'and end your message with your answer in the format that is asked for.',
})
