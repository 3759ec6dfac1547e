import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import type { Random } from '../../util/random.js'
import { drawFrom } from '../split.js'
import type { EpisodeState, Problem, Task } from '../task.js'
import { blocksOf, blocksworld, randomProblem, stepsFrom, TABLE, type Blocks } from './blocksworld.js'
import { planFromActions, planFromSentences } from './language.js'
import type { PlanningProblem } from './pddl.js'
import { carryOut, missingGoal, stateOf, type State } from './plan.js'
import { shortestPlan } from './shortestPlan.js'

/**
 * Blocksworld as a game for a team: one message = one action, which the world carries out. The reward
 * is 1 when the goal holds, which ends the episode; else it ends with the turns.
 *
 * The context is short: the towers, each from the table upwards, the wanted pairs as towers, and then
 * the actions, each with `;` behind it: `bc da|cbad:unstack a d;put-down a;`. A message that is no action,
 * or cannot be carried out, leaves `?;` and changes nothing.
 */

export const blocksGameConfig = z.strictObject({
  /** More would make the weak player's search for a shortest plan slow. */
  blocks: z.int().min(2).max(8).default(4),
  /** Messages in an episode, at most. */
  turns: z.int().min(1).max(1000).default(16),
  /** The weak player's slips: see `demonstrate`. */
  slip: z.number().min(0).max(1).default(0.35),
})
export type BlocksGameConfig = z.output<typeof blocksGameConfig>

/** Every character of a context or of a message that an action is. */
export const blocksGameAlphabet = 'abcdefghijklmnopqrstuvwxyz- |:;?'

export interface BlocksProblem extends Problem {
  readonly problem: PlanningProblem
}

export interface BlocksState extends EpisodeState {
  readonly problem: PlanningProblem
  /** What holds now. */
  readonly world: State
}

export const blocksGame = (config: BlocksGameConfig = blocksGameConfig.parse({})): Task<BlocksProblem, BlocksState> => ({
  name: 'blocksworld',
  start: ({ problem }) => ({ problem, context: contextOf(problem), turn: 0, done: false, reward: 0, world: stateOf(problem.init) }),

  /** A message is read as a plan is, by letters or in sentences; the last action in it counts. */
  step: (state, message) => {
    if (state.done) return { ...state, reward: 0 }
    const turn = state.turn + 1
    const { problem } = state
    const step = planFromActions(message).at(-1) ?? planFromSentences(message).at(-1)
    const next = step && carryOut(blocksworld, problem.objects, state.world, step)
    if (step === undefined || next === undefined || 'kind' in next) {
      return { ...state, context: `${state.context}?;`, turn, done: turn >= config.turns, reward: 0 }
    }
    const solved = missingGoal(problem, next) === undefined
    return {
      problem,
      context: `${state.context}${step.join(' ')};`,
      turn,
      done: solved || turn >= config.turns,
      reward: Number(solved),
      world: next,
    }
  },

  /** The weak player: with probability `slip` any action that can be done, else the first of a shortest plan. */
  demonstrate: ({ problem, world }, random) => {
    const now = { ...problem, init: [...world].map((atom) => atom.split(' ')) }
    const possible = stepsFrom(blocksOf(now)).map(({ step }) => step)
    const [best] = random.next() < config.slip ? [] : (shortestPlan(now) ?? [])
    return (best ?? possible[random.int(possible.length)]).join(' ')
  },

  rolePrompt: (_, agent, agents) =>
    `You are agent ${agent + 1} of ${agents} who rearrange blocks together, one action a message. The context shows the towers, each ` +
    'from the table upwards, then after "|" the towers that are wanted, then the actions so far ("?" for one that could not be done). ' +
    'Reply with the next action only: pick-up x, put-down x, stack x y or unstack x y.',
})

/** Problems of the game from one side of the fixed split. @throws InputError when that side holds none (possible only for 2 blocks) */
export const blocksProblems = (config: BlocksGameConfig, split: 'train' | 'test', count: number, random: Random): BlocksProblem[] => {
  const problems = drawFrom(split, count, () => {
    const problem = randomProblem(config.blocks, random)
    return { id: contextOf(problem), problem }
  })
  if (problems) return problems
  throw new InputError(`blocksworld: no ${split} problem of ${config.blocks} blocks; take more blocks`)
}

const contextOf = (problem: PlanningProblem): string => {
  const wanted = { names: problem.objects, below: problem.objects.map(() => TABLE) }
  for (const [, x, y] of problem.goal) wanted.below[problem.objects.indexOf(x)] = problem.objects.indexOf(y)
  return `${towersOf(blocksOf(problem)).join(' ')}|${towersOf(wanted).filter((tower) => tower.length > 1).join(' ')}:`
}

/** Each tower from the table upwards. */
const towersOf = ({ names, below }: Blocks): string[] => {
  const upwards = (block: number): string => (block < 0 ? '' : names[block] + upwards(below.indexOf(block)))
  return below.flatMap((place, block) => (place === TABLE ? [upwards(block)] : []))
}
