/**
 * A game with few problems and short messages as a tabular `TeamMdp`: every context that any team with these tokenizers and this router can
 * reach, found by playing every message in it. No parameter of the team matters: its policies give each message a probability above 0, so the states
 * and actions are the same for all teams, before an update and after.
 *
 * - A **state** is a problem, a turn and the shared context, which is all that an agent reads and, as tasks are made (tasks/task.ts), all that the rest
 *   of the episode depends on.
 * - An **action** is an effect: what the context becomes, and the reward. All messages with the same effect (in relay, all that are no number)
 *   are one action. Returns, occupancies, advantages and surrogates are those of single messages. Divergences are smaller (data processing):
 *   the bounds hold with them and are tighter. The KL of whole messages, which is what rollouts measure, is `tokenKl` (exactTeam.ts).
 * - An episode that is over goes to one **end state**, the last, where nothing is earned any more. In rollouts it has left the MDP. Somebody has to act
 *   there: the agent that speaks first, and ρ of the MDP counts it for that agent. `contexts` leaves it out, and so does everything named
 *   "acting" here; ρ^Δ in the theory (`rhoChanged`) does so too.
 */
import type { EpisodeState, Problem, Task } from '../tasks/task.js'
import { teamMdp, type TeamMdp } from '../theory/mdp.js'
import { InputError } from '../util/errors.js'
import { countMessages, messageTree, type MessageTree } from './messageTree.js'
import { promptTokens, speak, speaker, type Team } from './team.js'
import type { Voice } from './voice.js'

/** A state in which an agent speaks. */
export interface Context {
  readonly problem: string
  readonly text: string
  /** From 0. */
  readonly turn: number
  readonly agent: number
  /** Place in its agent's `prompts`. */
  readonly prompt: number
  /** Which action of the state each message of the agent's tree is. */
  readonly actionOf: Int32Array
}

export interface ContextSpace {
  readonly mdp: TeamMdp
  /** The states 0 … mdp.states − 2, turn by turn; the end state comes after them. */
  readonly contexts: readonly Context[]
  /** The context after each action, over the pairs of `mdp`; '' in the end state. */
  readonly effects: readonly string[]
  /** Per agent: all that it can say, and all that it can have read. */
  readonly agents: readonly { readonly tree: MessageTree; readonly prompts: readonly (readonly number[])[] }[]
}

export interface ContextSpaceOptions {
  readonly gamma: number
  /** Longest message, its end included. */
  readonly maxTokens: number
  /** Largest number of contexts times messages; default 2²². */
  readonly limit?: number
}

/** The states of one turn in which somebody speaks, by problem and context. */
type Level = Map<string, { readonly s: number; readonly problem: Problem; readonly state: EpisodeState }>

/**
 * @param problems what episodes start from, each as often as it stands here
 * @throws InputError when there is no problem, or more to enumerate than the limit: it says how much
 */
export const contextSpace = (
  task: Task, team: Team, problems: readonly Problem[], options: ContextSpaceOptions,
): ContextSpace => {
  const { gamma, maxTokens, limit = 2 ** 22 } = options
  if (problems.length === 0) throw new InputError('problems: holds none; at least one')
  const messages = team.agents.map(({ policy: { vocabulary } }) => countMessages({ vocabulary, maxTokens }))
  let enumerated = 0
  const spend = (agent: number, contexts: number, where: string): void => {
    enumerated += contexts * messages[agent]
    if (enumerated <= limit) return
    throw new InputError(
      `contexts: ${show(contexts)} ${where}, ${show(messages[agent])} messages of up to ${maxTokens} tokens in each: ` +
      `${show(enumerated)} to play so far; at most ${show(limit)}, so take fewer problems or a smaller game`,
    )
  }
  // Nothing is made before it is known to be small enough: every agent has at least one context.
  team.agents.forEach((_, agent) => spend(agent, 1, `of agent ${agent} at least`))
  enumerated = 0
  spend(speaker(team, 0), new Set(problems.map(({ id }) => id)).size, 'at turn 0')

  const agents = team.agents.map(({ policy: { vocabulary }, voice }) => ({
    tree: messageTree({ vocabulary, maxTokens }, endsWith(voice)), prompts: [] as number[][], known: new Map<string, number>(),
  }))
  const promptOf = (agent: number, problem: Problem, state: EpisodeState): number => {
    const { prompts, known } = agents[agent]
    const prompt = promptTokens(team, agent, task, problem, state)
    const key = prompt.join()
    if (!known.has(key)) known.set(key, prompts.push(prompt) - 1)
    return known.get(key)!
  }

  const END = -1
  let count = 0
  const number = (level: Level, problem: Problem, state: EpisodeState): number => {
    if (state.done) return END
    const key = `${problem.id}\n${state.context}`
    if (!level.has(key)) level.set(key, { s: count++, problem, state })
    return level.get(key)!.s
  }
  let level: Level = new Map()
  const starts = problems.map((problem) => number(level, problem, task.start(problem)))
  const contexts: Context[] = []
  const actionStart = [0]
  const next: number[] = []
  const reward: number[] = []
  const effects: string[] = []
  for (let turn = 0; level.size > 0; turn++) {
    const agent = speaker(team, turn)
    if (turn > 0) spend(agent, level.size, `at turn ${turn}`)
    const following: Level = new Map()
    for (const { problem, state } of level.values()) {
      const known = new Map<string, number>()
      const actionOf = Int32Array.from(agents[agent].tree.messages, (tokens) => {
        const after = speak(task, state, team.agents[agent], tokens)
        const key = `${after.reward} ${after.done}\n${after.context}`
        if (!known.has(key)) {
          known.set(key, known.size)
          next.push(number(following, problem, after))
          reward.push(after.reward)
          effects.push(after.context)
        }
        return known.get(key)!
      })
      contexts.push({ problem: problem.id, text: state.context, turn, agent, prompt: promptOf(agent, problem, state), actionOf })
      actionStart.push(next.length)
    }
    level = following
  }
  const end = count
  actionStart.push(next.push(END))
  reward.push(0)
  effects.push('')

  const mu = new Float64Array(count + 1)
  for (const s of starts) mu[s === END ? end : s] += 1 / starts.length
  const mdp = teamMdp({
    n: team.agents.length,
    gamma,
    states: count + 1,
    mu,
    activeAgent: Int32Array.from([...contexts.map(({ agent }) => agent), speaker(team, 0)]),
    actionStart: Int32Array.from(actionStart),
    rowStart: Int32Array.from({ length: next.length + 1 }, (_, k) => k),
    next: Int32Array.from(next, (s) => (s === END ? end : s)),
    prob: new Float64Array(next.length).fill(1),
    reward: Float64Array.from(reward),
  })
  return { mdp, contexts, effects, agents: agents.map(({ tree, prompts }) => ({ tree, prompts })) }
}

const endsWith = (voice: Voice) => (tokens: readonly number[]): boolean => {
  const last = tokens[tokens.length - 1]
  return last === voice.endToken || (voice.stopTokens?.includes(last) ?? false) || (voice.stop?.(tokens) ?? false)
}

const show = (count: number): string => (count < 1e15 ? count.toLocaleString('en') : count.toExponential(1))
