import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import { show, validate } from '../../util/validate.js'
import type { Benchmark, BenchmarkScore } from '../benchmark.js'
import { loadRecords } from '../records.js'

/** A grid puzzle and its solution. */
export interface ZebraRecord {
  readonly id: string
  readonly houses: number
  readonly attributes: number
  /** The text: the attributes with their values, then the clues. */
  readonly puzzle: string
  /** `House`, then the attributes. */
  readonly header: readonly string[]
  /** One row a house: its number from "1", then its values. */
  readonly rows: readonly (readonly string[])[]
}

const row = z.object({
  id: z.string(),
  size: z.string().regex(/^[1-9]\d?\*[1-9]\d?$/, 'expected houses*attributes, such as "3*4"'),
  puzzle: z.string().min(1),
  solution: z.object({ header: z.array(z.string()).min(2), rows: z.array(z.array(z.string())).min(1) }),
})

const parseRow = (value: unknown): ZebraRecord => {
  const { id, size, puzzle, solution: { header, rows } } = validate(row, value, 'record')
  const [houses, attributes] = size.split('*').map(Number)
  if (header.length !== attributes + 1)
    throw new InputError(`record: solution.header: holds ${header.length} names; size ${size} needs ${attributes + 1}`)
  if (rows.length !== houses) throw new InputError(`record: solution.rows: holds ${rows.length} rows; size ${size} needs ${houses}`)
  rows.forEach((cells, i) => {
    if (cells.length !== header.length)
      throw new InputError(`record: solution.rows[${i}]: holds ${cells.length} cells; the header has ${header.length}`)
    if (cells.some((cell) => /^_*$/.test(cell)))
      throw new InputError(`record: solution.rows[${i}]: holds ${show(cells)}; the solution is masked, take the data set with solutions`)
  })
  return { id, houses, attributes, puzzle, header, rows }
}

const houseName = (house: number): string => `House ${house + 1}`

/** The JSON object that the prompt asks for. */
const answerJson = (
  header: readonly string[],
  houses: number,
  reasoning: string,
  cell: (house: number, column: number) => string,
): string =>
  JSON.stringify(
    {
      reasoning,
      solution: Object.fromEntries(
        Array.from({ length: houses }, (_, house) => [
          houseName(house),
          Object.fromEntries(header.slice(1).map((attribute, j) => [attribute, cell(house, j + 1)])),
        ]),
      ),
    },
    null,
    4,
  )

const EXAMPLE = `There are 3 houses in a row, numbered 1 to 3 from left to right. A different person lives in each.
Each has another value of:
 - Name: \`Ann\`, \`Ben\`, \`Cleo\`
 - Drink: \`tea\`, \`milk\`, \`water\`

## Clues:
1. Ben does not live in the first house.
2. The one who drinks milk lives directly left of Ben.
3. Cleo lives in the third house.
4. Cleo does not drink water.`
const EXAMPLE_ROWS = [['1', 'Ann', 'milk'], ['2', 'Ben', 'water'], ['3', 'Cleo', 'tea']]
const EXAMPLE_REASONING = 'Cleo is in house 3 (clue 3) and Ben not in house 1 (clue 1), so Ben is in house 2 and Ann in house 1. ' +
  'Milk is directly left of Ben (clue 2): house 1. Cleo does not drink water (clue 4), so she drinks tea and Ben drinks water.'

const prompt = ({ puzzle, header, houses }: ZebraRecord): string =>
  'Solve a logic puzzle: find out who lives in which house. First an example.\n\n' +
  `# Example\n\n${EXAMPLE}\n\n# Answer to the example\n\n` +
  `${answerJson(['House', 'Name', 'Drink'], 3, EXAMPLE_REASONING, (house, column) => EXAMPLE_ROWS[house][column])}\n\n` +
  `# Your puzzle\n\n${puzzle.trim()}\n\n# Your answer\n\n` +
  'Give your reasoning and the solution as one JSON object in this form, every ___ filled in:\n\n' +
  answerJson(header, houses, '___', () => '___')

/**
 * Score a response as the official scorer does: the last complete `{…}` at the top level, its `solution` compared
 * cell by cell, without regard to case or blanks around. The score is 1 when every cell is right, else 0;
 * measures: cells right, and puzzles solved by difficulty and by size.
 */
const score = (record: ZebraRecord, response: string): BenchmarkScore => {
  const answer = readSolution(response)
  const solution = typeof answer === 'string' ? {} : answer
  let correct = 0
  let wrong = ''
  record.rows.forEach((cells, house) => record.header.forEach((attribute, column) => {
    if (column === 0) return
    const given = cellText(own(own(solution, houseName(house)), attribute))
    if (given === clean(cells[column])) correct++
    else wrong ||= `${houseName(house)}, ${attribute}: ${given === undefined ? 'no value' : show(given)}, not ${show(cells[column])}`
  }))
  const cells = record.houses * record.attributes
  const solved = correct === cells ? 1 : 0
  const measures = {
    'cell accuracy': [correct, cells],
    [`${difficulty(record)} puzzles`]: [solved, 1],
    [`${sizeGroup(record)} puzzles`]: [solved, 1],
  } as const
  if (typeof answer === 'string') return { score: 0, verdict: 'invalid', reason: answer, measures }
  return solved
    ? { score: 1, verdict: 'correct', reason: `all ${cells} cells are right`, measures }
    : { score: 0, verdict: 'wrong', reason: `${correct} of ${cells} cells are right; ${wrong}`, measures }
}

/** The `solution` of the response's last JSON object, or why there is none. */
const readSolution = (response: string): object | string => {
  const json = lastObject(response)
  if (json === undefined) return 'the response holds no complete {…}'
  let value: unknown
  try {
    value = JSON.parse(json.replaceAll('\n', ''))
  } catch {
    return `the last {…} of the response is not JSON: ${show(json)}`
  }
  const solution = own(value, 'solution')
  return solution !== null && typeof solution === 'object' ? solution : 'the JSON object has no "solution" object'
}

/** The last complete top-level `{…}`, found by counting braces, those inside strings included. */
export const lastObject = (text: string): string | undefined => {
  let depth = 0
  let start = 0
  let found: [number, number] | undefined
  for (let at = 0; at < text.length; at++) {
    const c = text[at]
    if (c === '{' && depth++ === 0) start = at
    else if (c === '}' && depth > 0 && --depth === 0) found = [start, at + 1]
  }
  return found && text.slice(...found)
}

const own = (value: unknown, key: string): unknown =>
  value !== null && typeof value === 'object' && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined

const clean = (text: string): string => text.toLowerCase().trim()

/** A cell's text; of a list, its first element; undefined for anything that is no text. */
const cellText = (value: unknown): string | undefined => {
  const cell: unknown = Array.isArray(value) ? value[0] : value
  return typeof cell === 'string' && cell !== '' ? clean(cell) : undefined
}

const difficulty = ({ houses, attributes }: ZebraRecord): string => (houses === 2 || (houses === 3 && attributes <= 3) ? 'easy' : 'hard')

/** The official groups of sizes (houses*attributes). */
const GROUPS: Readonly<Record<string, string>> = {
  small: '2*2 2*3 2*4 2*5 2*6 3*2 3*3 4*2', medium: '3*4 3*5 3*6 4*3 4*4 5*2 6*2', large: '4*5 5*3 4*6 5*4 6*3', xl: '5*5 6*4 5*6 6*5 6*6',
}
const sizeGroup = ({ houses, attributes }: ZebraRecord): string =>
  Object.keys(GROUPS).find((group) => GROUPS[group].split(' ').includes(`${houses}*${attributes}`)) ?? 'other'

/** ZebraLogic in grid mode, in its public format (JSONL, JSON, parquet). */
export const zebralogic: Benchmark<ZebraRecord> = {
  name: 'zebralogic',
  summary: 'ZebraLogic: who lives in which house; the grid as JSON, all cells right',
  load: (file) => loadRecords(file, parseRow),
  id: (record) => record.id,
  prompt,
  score,
}
