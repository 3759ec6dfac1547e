import type { Random } from '../util/random.js'

/**
 * A task: problems with a verifiable reward, talked about in turns on one shared context.
 *
 * Everything is plain data and pure functions: `step` returns a new state, so a rollout can be
 * branched, replayed or enumerated. Which agent speaks at a turn is the team's business (its
 * router), not the task's.
 *
 * @typeParam P the problem
 * @typeParam S the state of one episode
 */
export interface Task<P extends Problem = Problem, S extends EpisodeState = EpisodeState> {
  readonly name: string
  /** The shared context before the first message. */
  start(problem: P): S
  /**
   * Append one message (any text, however malformed: an invalid message gets a defined feedback,
   * never an exception). @returns the next state; its `reward` is what this message earned.
   */
  step(state: S, message: string): S
  /** A message that a weak player would write here: what the warm-up imitates. Absent where there is no such player. */
  demonstrate?(state: S, random: Random): string
  /** What the agent in a role is told before the shared context, for language models; absent where the context says it all. */
  rolePrompt?(problem: P, agent: number, agents: number): string
  /** Whether two last messages give the same final answer, for votes; absent where that is to say the same. */
  agree?(problem: P, a: string, b: string): boolean
}

export interface Problem {
  readonly id: string
}

export interface EpisodeState {
  /** The shared context: all that every agent reads, as text. Only grows. */
  readonly context: string
  /** Messages so far. */
  readonly turn: number
  /** No further message is accepted. */
  readonly done: boolean
  /** Reward of the last message (0 before the first). The return of an episode is the sum. */
  readonly reward: number
}

/** What a scorer says of a response. */
export interface Score {
  /** In [0, 1]. */
  readonly score: number
  readonly verdict: 'correct' | 'partial' | 'wrong' | 'invalid'
  /** One sentence: why. */
  readonly reason: string
}
