import { InputError } from '../../util/errors.js'
import type { Random } from '../../util/random.js'
import { parseDomain, type Atom, type PlanningProblem } from './pddl.js'
import type { Step } from './plan.js'

/** Blocksworld with four operators: the domain, its states, problems drawn at random. */

export const blocksworld = parseDomain(
  `(define (domain blocksworld-4ops)
    (:requirements :strips)
    (:predicates (clear ?x) (ontable ?x) (handempty) (holding ?x) (on ?x ?y))
    (:action pick-up :parameters (?x)
      :precondition (and (clear ?x) (ontable ?x) (handempty))
      :effect (and (holding ?x) (not (clear ?x)) (not (ontable ?x)) (not (handempty))))
    (:action put-down :parameters (?x)
      :precondition (holding ?x)
      :effect (and (clear ?x) (ontable ?x) (handempty) (not (holding ?x))))
    (:action stack :parameters (?x ?y)
      :precondition (and (holding ?x) (clear ?y))
      :effect (and (on ?x ?y) (clear ?x) (handempty) (not (holding ?x)) (not (clear ?y))))
    (:action unstack :parameters (?x ?y)
      :precondition (and (on ?x ?y) (clear ?x) (handempty))
      :effect (and (holding ?x) (clear ?y) (not (on ?x ?y)) (not (clear ?x)) (not (handempty)))))`,
  'blocksworld',
)

/** Names of the blocks, in the order of their colours. */
export const blockNames = 'abcdefghijkl'

/** What lies where: for each block the index of the block below it, or TABLE, or HAND. */
export interface Blocks {
  readonly names: readonly string[]
  readonly below: readonly number[]
}
export const TABLE = -1
export const HAND = -2

/**
 * The state that the atoms describe.
 * @throws InputError when they describe none: every block is in one place, at most one on each, none in
 * a circle, at most one in the hand, with `clear` and `handempty` as that makes them
 */
export const blocksOf = ({ objects, init }: Pick<PlanningProblem, 'objects' | 'init'>): Blocks => {
  const below = objects.map((block) => {
    const places = init.filter(([predicate, x]) => x === block && ['on', 'ontable', 'holding'].includes(predicate))
    if (places.length !== 1) throw new InputError(`block ${block} is in ${places.length} places; expected one`)
    const [predicate, , y] = places[0]
    return predicate === 'ontable' ? TABLE : predicate === 'holding' ? HAND : objects.indexOf(y)
  })
  const blocks = { names: objects, below }
  const wanted = new Set(atomsOf(blocks).map((atom) => atom.join(' ')))
  const given = new Set(init.map((atom) => atom.join(' ')))
  const odd = [...wanted].find((atom) => !given.has(atom)) ?? [...given].find((atom) => !wanted.has(atom))
  if (odd !== undefined) throw new InputError(`the atoms are no state of blocks: (${odd}) is ${given.has(odd) ? 'impossible' : 'missing'}`)
  if (below.filter((place) => place === HAND).length > 1) throw new InputError('two blocks are in the hand')
  for (let block = 0; block < below.length; block++) {
    if (below.filter((place) => place === block).length > 1) throw new InputError(`two blocks are on ${objects[block]}`)
    let height = 0
    for (let at = block; at >= 0; at = below[at]) if (height++ > below.length) throw new InputError('blocks lie on each other in a circle')
  }
  return blocks
}

/** All atoms that hold. */
export const atomsOf = ({ names, below }: Blocks): Atom[] => {
  const held = below.includes(HAND)
  return [
    ...(held ? [] : [['handempty']]),
    ...below.flatMap((place, block): Atom[] => {
      if (place === HAND) return [['holding', names[block]]]
      const where = place === TABLE ? ['ontable', names[block]] : ['on', names[block], names[place]]
      return below.includes(block) ? [where] : [where, ['clear', names[block]]]
    }),
  ]
}

/** Every step that can be done, and what then lies where. */
export const stepsFrom = ({ names, below }: Blocks): { step: Step; next: number[] }[] => {
  const held = below.indexOf(HAND)
  const clear = below.map((_, block) => block).filter((block) => block !== held && !below.includes(block))
  const moved = (block: number, place: number): number[] => below.map((before, other) => (other === block ? place : before))
  if (held >= 0) {
    return [
      { step: ['put-down', names[held]], next: moved(held, TABLE) },
      ...clear.map((block) => ({ step: ['stack', names[held], names[block]], next: moved(held, block) })),
    ]
  }
  return clear.map((block) => ({
    step: below[block] === TABLE ? ['pick-up', names[block]] : ['unstack', names[block], names[below[block]]],
    next: moved(block, HAND),
  }))
}

/**
 * A state of n blocks with an empty hand, uniform among all of them: towers are grounded or put on
 * another in proportion to the number of states that follow (Slaney and Thiébaux 2001).
 */
export const randomBlocks = (n: number, random: Random): Blocks => {
  const below = Array<number>(n).fill(TABLE)
  // Towers by their bottom and top block. `floating` ones have their place still to be chosen.
  const floating = random.permutation(n).map((block) => ({ bottom: block, top: block }))
  const grounded: { bottom: number; top: number }[] = []
  for (let tower = floating.pop(); tower; tower = floating.pop()) {
    const chance = towerStates(floating.length, grounded.length + 1) / towerStates(floating.length + 1, grounded.length)
    if (random.next() < chance) {
      grounded.push(tower)
      continue
    }
    const under = [...floating, ...grounded][random.int(floating.length + grounded.length)]
    below[tower.bottom] = under.top
    under.top = tower.top
  }
  return { names: [...blockNames].slice(0, n), below }
}

/** g(n, k): states that n floating and k grounded towers can become. g(0, k) = 1; g(n, k) = g(n−1, k+1) + (n−1+k) g(n−1, k). */
export const towerStates = (n: number, k: number): number => (n === 0 ? 1 : towerStates(n - 1, k + 1) + (n - 1 + k) * towerStates(n - 1, k))

/**
 * A problem of n blocks: from one uniform state to the `on` atoms of another, which are not all true
 * from the start. @param n 2 … 12
 */
export const randomProblem = (n: number, random: Random): PlanningProblem => {
  if (!Number.isInteger(n) || n < 2 || n > blockNames.length) throw new InputError(`blocks: holds ${n}; expected 2 to ${blockNames.length}`)
  for (;;) {
    const from = randomBlocks(n, random)
    const goal = atomsOf(randomBlocks(n, random)).filter(([predicate]) => predicate === 'on')
    if (goal.some(([, x, y]) => from.below[from.names.indexOf(x)] !== from.names.indexOf(y))) {
      return { objects: from.names, init: atomsOf(from), goal }
    }
  }
}
