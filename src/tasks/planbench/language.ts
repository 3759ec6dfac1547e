import { InputError } from '../../util/errors.js'
import { blockNames, blocksworld } from './blocksworld.js'
import type { Atom, PlanningProblem } from './pddl.js'
import type { Failure, Step } from './plan.js'

/** The English of PlanBench's Blocksworld: conditions, actions and whole plans, to text and back. */

/** The colours that PlanBench's texts give the blocks a, b, c … */
const COLOURS = ['red', 'blue', 'orange', 'yellow', 'white', 'magenta', 'black', 'cyan', 'green', 'violet', 'silver', 'gold'] as const
const colourOf = (block: string): string => COLOURS[blockNames.indexOf(block)] ?? block
const blockOfColour = (colour: string): string | undefined => blockNames[COLOURS.indexOf(colour as (typeof COLOURS)[number])]

/** `the red block is on top of the blue block`, as PlanBench says it. */
export const atomText = ([predicate, x, y]: Atom): string => {
  if (predicate === 'handempty') return 'the hand is empty'
  const block = `the ${colourOf(x)} block`
  if (predicate === 'on') return `${block} is on top of the ${colourOf(y)} block`
  return `${block} is ${{ clear: 'clear', ontable: 'on the table', holding: 'in the hand' }[predicate] ?? predicate}`
}

/** `unstack the red block from on top of the blue block`, as PlanBench says it. */
export const stepText = ([action, x, y]: Step): string => {
  const where = { stack: ' on top of ', unstack: ' from on top of ' }[action]
  return `${action.replace('-', ' ')} the ${colourOf(x)} block${where === undefined ? '' : `${where}the ${colourOf(y)} block`}`
}

export const failureText = (failure: Failure, steps: number): string => {
  if (failure.kind === 'goal') return `after ${steps} steps the goal does not hold: not so that ${atomText(failure.missing)}`
  const step = `step ${steps + 1} (${failure.step.join(' ')})`
  return failure.kind === 'step' ? `${step}: ${failure.because}` : `${step} cannot be done: not so that ${atomText(failure.missing)}`
}

/** PlanBench's statement of a problem: initial conditions and goal, each in the order of the atoms' names. */
export const statementText = ({ init, goal }: Pick<PlanningProblem, 'init' | 'goal'>): string =>
  `As initial conditions I have that, ${listText(init)}.\nMy goal is to have that ${listText(goal)}.`

const listText = (atoms: readonly Atom[]): string => {
  const texts = [...atoms].sort((x, y) => (x.join(' ') < y.join(' ') ? -1 : 1)).map(atomText)
  return texts.length > 1 ? `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}` : texts.join('')
}

/** The problem in a statement of that form. @throws InputError where a sentence is not one of `atomText` */
export const parseStatement = (text: string): PlanningProblem => {
  const conditions = /As initial conditions I have that,?\s*([^.\n]*)\./.exec(text)?.[1]
  const aim = /My goal is to have that\s*([^.\n]*)\./.exec(text)?.[1]
  if (conditions === undefined || aim === undefined) {
    throw new InputError('expected "As initial conditions I have that …. My goal is to have that …."')
  }
  const init = parseList(conditions)
  const objects = [...new Set(init.flatMap(([, ...blocks]) => blocks))].sort()
  const goal = parseList(aim)
  const stranger = goal.flatMap(([, ...blocks]) => blocks).find((block) => !objects.includes(block))
  if (stranger !== undefined) throw new InputError(`the goal names the ${colourOf(stranger)} block, the initial conditions do not`)
  return { objects, init, goal }
}

const parseList = (text: string): Atom[] => text.split(/, | and /).map((sentence) => parseSentence(sentence.trim()))

const parseSentence = (sentence: string): Atom => {
  if (sentence === 'the hand is empty') return ['handempty']
  const [, colour, rest] = /^the (\w+) block is (.*)$/.exec(sentence) ?? []
  const block = blockOfColour(colour)
  const [, below] = /^on top of the (\w+) block$/.exec(rest ?? '') ?? []
  const second = below === undefined ? undefined : blockOfColour(below)
  if (block !== undefined) {
    if (rest === 'clear') return ['clear', block]
    if (rest === 'on the table') return ['ontable', block]
    if (rest === 'in the hand') return ['holding', block]
    if (second !== undefined) return ['on', block, second]
  }
  throw new InputError(`"${sentence.slice(0, 60)}" says nothing about a block`)
}

/**
 * The plan in a text of sentences, by PlanBench's rule. All in lower case, line by line: the first
 * action, in the order pick-up, put-down, stack, unstack, that stands in the line as a word of its own
 * ("pick up" and "put down" count as one word); the blocks are the "red block" … found in the line, by
 * first position. A line without an action, or with another number of blocks than the action takes, is
 * skipped. What follows "[PLAN END]" is read too.
 */
export const planFromSentences = (text: string): Step[] =>
  lines(text.toLowerCase().replaceAll('pick up', 'pick-up').replaceAll('put down', 'put-down')).flatMap((line) => {
    const words = new Set(line.split(/\s+/))
    const action = blocksworld.actions.find(({ name }) => words.has(name))
    if (!action) return []
    const found = COLOURS.map((colour, i) => ({ block: blockNames[i], at: line.indexOf(`${colour} block`) })).filter(({ at }) => at >= 0)
    const blocks = found.sort((x, y) => x.at - y.at).map(({ block }) => block)
    return blocks.length === action.parameters.length ? [[action.name, ...blocks]] : []
  })

/**
 * The plan in a text that lists actions as PDDL does, `(unstack b a)` or `unstack blue red`: every line
 * that is one such action, a number or a dash before it and brackets aside. Blocks go by letter or colour.
 */
export const planFromActions = (text: string): Step[] =>
  lines(text.toLowerCase()).flatMap((line) => {
    const [, action, x, y] = /^[\s\d.:)*-]*\(?\s*(pick-up|put-down|stack|unstack)\s+([a-z]+)(?:\s+([a-z]+))?\s*\)?[\s.,]*$/.exec(line) ?? []
    return action === undefined ? [] : [[action, ...[x, y].filter((name) => name !== undefined).map((name) => blockOfColour(name) ?? name)]]
  })

/** Lines longer than any action are no actions: they are cut, which bounds the work on each. */
const lines = (text: string): string[] => text.split('\n').map((line) => line.slice(0, 10_000))
