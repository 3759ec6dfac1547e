import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import type { Random } from '../../util/random.js'
import { drawFrom } from '../split.js'
import { holds, PAIR_CLUES, solve, type Clue, type Item, type Positions } from './solve.js'
import type { ZebraRecord } from './zebralogic.js'

export const zebraConfig = z.strictObject({
  houses: z.int().min(2).max(6).default(3),
  attributes: z.int().min(2).max(6).default(3),
})
export type ZebraConfig = z.output<typeof zebraConfig>

/**
 * Puzzles with exactly one solution and no clue to spare, in the records' own form, drawn from one side of a fixed split
 * (by a hash of the text): the same side for every seed.
 */
export const zebraPuzzles = (config: ZebraConfig, split: 'train' | 'test', count: number, random: Random): ZebraRecord[] => {
  const puzzles = drawFrom(split, count, () => {
    const record = drawPuzzle(config, random)
    return { id: record.puzzle, record }
  })
  if (!puzzles) throw new InputError(`zebra puzzles: no ${split} puzzle of ${config.houses} houses and ${config.attributes} attributes`)
  return puzzles.map(({ record }, i) => ({ ...record, id: `zebra-${split}-${config.houses}x${config.attributes}-${i}` }))
}

const drawPuzzle = ({ houses, attributes }: ZebraConfig, random: Random): ZebraRecord => {
  const chosen = random.permutation(CATALOGUE.length).filter((k) => k > 0).slice(0, attributes - 1)
  // the names always take part
  const themes = [CATALOGUE[0], ...chosen.map((k) => CATALOGUE[k])].map((theme) => ({
    ...theme,
    values: random
      .permutation(6)
      .slice(0, houses)
      .map((k) => theme.values[k]),
  }))
  const positions = themes.map(() => random.permutation(houses))
  const clues = drawClues(houses, positions, random)
  const value = (attribute: number, house: number): string => themes[attribute].values[positions[attribute].indexOf(house)]
  const phrase = ({ attribute, value }: Item): string => themes[attribute].phrase(themes[attribute].values[value])
  const puzzle = [
    `There are ${houses} houses in a row, numbered 1 to ${houses} from left to right. A different person lives in each. ` +
      'No two houses share a value of any of these:',
    ...themes.map(
      ({ name, values }) =>
        ` - ${name}: ${[...values]
          .sort()
          .map((one) => `\`${one}\``)
          .join(', ')}`,
    ),
    '',
    '## Clues:',
    ...clues.map((clue, i) => `${i + 1}. ${sentence(clue, phrase)}`),
  ].join('\n')
  return {
    id: puzzle,
    houses,
    attributes,
    puzzle,
    header: ['House', ...themes.map(({ name }) => name)],
    rows: Array.from({ length: houses }, (_, house) => [String(house + 1), ...themes.map((_, attribute) => value(attribute, house))]),
  }
}

/**
 * True clues in random order, kinds as frequent as in ZebraLogic, until the solution is the only one; then every clue
 * that can go, goes, the last first.
 */
export const drawClues = (houses: number, positions: Positions, random: Random): Clue[] => {
  const all = trueClues(houses, positions)
  const share = (clue: Clue): number => FREQUENCY[clue.kind] / all.filter(({ kind }) => kind === clue.kind).length
  // the first of exponential clocks: a clue comes next with probability in proportion to its share
  const order = all
    .map((clue) => ({ clue, time: -Math.log(1 - random.next()) / share(clue) }))
    .sort((a, b) => a.time - b.time)
    .map(({ clue }) => clue)
  const isUnique = (clues: readonly Clue[]): boolean => solve(houses, positions.length, clues, 2).length === 1
  // the shortest prefix with one solution, by bisection: more clues never have more solutions
  let [low, high] = [0, order.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isUnique(order.slice(0, middle))) high = middle
    else low = middle + 1
  }
  const clues = order.slice(0, high)
  for (let i = clues.length - 1; i >= 0; i--) {
    const without = clues.filter((_, j) => j !== i)
    if (isUnique(without)) clues.splice(i, 1)
  }
  return clues
}

/** Clues of each kind in the sample of ZebraLogic. */
const FREQUENCY: Readonly<Record<Clue['kind'], number>> = {
  same: 103, notAt: 29, at: 27, directlyLeft: 23, right: 22, left: 21, oneBetween: 12, adjacent: 9, twoBetween: 6,
}

/** Every clue that a solution satisfies, each kind of relation once for each pair. */
const trueClues = (houses: number, positions: Positions): Clue[] => {
  const items = positions.flatMap((values, attribute) => values.map((_, value) => ({ attribute, value })))
  const clues: Clue[] = []
  for (const a of items) {
    for (let house = 0; house < houses; house++) clues.push({ kind: positions[a.attribute][a.value] === house ? 'at' : 'notAt', a, house })
    for (const b of items) {
      if (a.attribute === b.attribute && a.value === b.value) continue
      // the symmetric kinds and `right` (which is `left` turned round) are said from either side
      clues.push(...PAIR_CLUES.map((kind) => ({ kind, a, b })).filter((clue) => holds(clue, positions)))
    }
  }
  return clues
}

const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth']

const sentence = (clue: Clue, phrase: (item: Item) => string): string => {
  const a = phrase(clue.a)
  const A = a[0].toUpperCase() + a.slice(1)
  if ('house' in clue) return `${A} is ${clue.kind === 'at' ? '' : 'not '}in the ${ORDINALS[clue.house]} house.`
  const b = phrase(clue.b)
  switch (clue.kind) {
    case 'same': return `${A} is ${b}.`
    case 'directlyLeft': return `${A} is directly left of ${b}.`
    case 'left': return `${A} is somewhere to the left of ${b}.`
    case 'right': return `${A} is somewhere to the right of ${b}.`
    case 'adjacent': return `${A} and ${b} are next to each other.`
    case 'oneBetween': return `There is one house between ${a} and ${b}.`
    case 'twoBetween': return `There are two houses between ${a} and ${b}.`
  }
}

interface Theme {
  readonly name: string
  /** Six. */
  readonly values: readonly string[]
  phrase(value: string): string
}

const CATALOGUE: readonly Theme[] = [
  { name: 'Name', values: ['Ada', 'Boris', 'Chen', 'Dalia', 'Emil', 'Farah'], phrase: (value) => value },
  { name: 'Drink', values: ['tea', 'milk', 'water', 'coffee', 'juice', 'cocoa'], phrase: (value) => `the person who drinks ${value}` },
  { name: 'Pet', values: ['cat', 'dog', 'parrot', 'rabbit', 'goldfish', 'tortoise'], phrase: (value) => `the person with the ${value}` },
  { name: 'Color', values: ['red', 'green', 'blue', 'yellow', 'white', 'purple'], phrase: (value) => `the person in the ${value} house` },
  {
    name: 'Instrument',
    values: ['piano', 'violin', 'flute', 'guitar', 'drum', 'harp'],
    phrase: (value) => `the person who plays the ${value}`,
  },
  { name: 'Job', values: ['baker', 'nurse', 'painter', 'teacher', 'farmer', 'pilot'], phrase: (value) => `the ${value}` },
  { name: 'Sport', values: ['tennis', 'rowing', 'chess', 'judo', 'golf', 'fencing'], phrase: (value) => `the person who trains ${value}` },
  { name: 'Dish', values: ['soup', 'pasta', 'curry', 'salad', 'pizza', 'stew'], phrase: (value) => `the person who cooks ${value}` },
]
