import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { scoreResponse } from '../../../src/tasks/benchmark.js'
import { zebraConfig, zebraPuzzles, drawClues } from '../../../src/tasks/zebralogic/generate.js'
import { holds, PAIR_CLUES, solve, type Clue, type Item, type Positions } from '../../../src/tasks/zebralogic/solve.js'
import { lastObject, zebralogic, type ZebraRecord } from '../../../src/tasks/zebralogic/zebralogic.js'
import { random } from '../../../src/util/random.js'
import { sharedPath } from '../../shared.js'
import { cpuTime } from '../../cpu.js'

const shared = sharedPath('benchmarks/zebralogic/sample.jsonl')
const record: ZebraRecord = {
  id: 'a',
  houses: 2,
  attributes: 2,
  puzzle: 'P',
  header: ['House', 'Name', 'Drink'],
  rows: [
    ['1', 'Ann', 'tea'],
    ['2', 'Ben', 'Milk'],
  ],
}
const right = { 'House 1': { Name: 'Ann', Drink: 'tea' }, 'House 2': { Name: 'Ben', Drink: 'milk' } }
const answer = (solution: unknown): string => JSON.stringify({ reasoning: 'because', solution })
const solutionOf = ({ header, rows }: ZebraRecord) =>
  Object.fromEntries(rows.map((cells, i) => [`House ${i + 1}`, Object.fromEntries(header.slice(1).map((name, j) => [name, cells[j + 1]]))]))

describe('score', () => {
  const cells = (response: string) => zebralogic.score(record, response).measures!['cell accuracy'][0]
  test.each<[string, string, number, number]>([
    ['the solution', answer(right), 4, 1],
    ['fenced', `Here:\n\`\`\`json\n${JSON.stringify({ solution: right }, null, 2)}\n\`\`\`\nDone.`, 4, 1],
    ['case and blanks do not matter', answer({ 'House 1': { Name: ' ANN ', Drink: 'Tea' }, 'House 2': right['House 2'] }), 4, 1],
    ['a list is its first element', answer({ 'House 1': { Name: ['Ann', 'Ben'], Drink: 'tea' }, 'House 2': right['House 2'] }), 4, 1],
    ['further keys are ignored', answer({ ...right, 'House 3': {}, note: 1 }), 4, 1],
    ['the last object counts', `${answer({})} no: ${answer(right)}`, 4, 1],
    ['the last object counts, also when it is worse', `${answer(right)} no: ${answer({})}`, 0, 0],
    ['one cell wrong', answer({ ...right, 'House 2': { Name: 'Ben', Drink: 'tea' } }), 3, 0],
    ['a cell missing', answer({ ...right, 'House 2': { Name: 'Ben' } }), 3, 0],
    ['null, "", numbers and objects are wrong', answer({ 'House 1': { Name: null, Drink: '' }, 'House 2': { Name: 2, Drink: {} } }), 0, 0],
    ['keys are case-sensitive', answer({ 'house 1': right['House 1'], 'House 2': right['House 2'] }), 2, 0],
    ['no solution', '{"reasoning": "x"}', 0, 0],
    ['null solution', answer(null), 0, 0],
    ['no JSON', '{House 1: Ann}', 0, 0],
    ['not closed', answer(right).slice(0, -1), 0, 0],
    ['nothing', '', 0, 0],
    ['inherited keys', '{"solution": {"House 1": {"__proto__": "Ann"}}}', 0, 0],
  ])('%s', (_, response, correct, score) => {
    expect(cells(response)).toBe(correct)
    expect(zebralogic.score(record, response)).toMatchObject({
      score,
      measures: { 'cell accuracy': [correct, 4], 'easy puzzles': [score, 1], 'small puzzles': [score, 1] },
    })
  })

  test('the last complete object, braces in strings included', () => {
    expect(lastObject('{"a": {"b": 1}} and {"c": 2} }')).toBe('{"c": 2}')
    expect(lastObject('{ {"a": 1}')).toBeUndefined()
    expect(lastObject('{"a": "}"}')).toBe('{"a": "}')
  })

  test('no text makes it throw; hostile ones take bounded time', () => {
    fc.assert(fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json().map((json) => `{"solution": ${json}}`)), (text) => {
      expect(zebralogic.score(record, text).score).toBe(0)
    }), { seed: 1 })
    for (const text of [
      '{'.repeat(4e6),
      '{"solution":' + '['.repeat(1e6) + ']'.repeat(1e6) + '}',
      '{}'.repeat(2e6),
      '{"a":'.repeat(5e5) + '1' + '}'.repeat(5e5),
      'x'.repeat(1e8),
    ]) {
      const start = cpuTime()
      expect(scoreResponse(zebralogic, record, text)).toMatchObject({ score: 0 })
      expect(cpuTime() - start).toBeLessThan(2000)
    }
  })
})

describe.skipIf(!shared)('public sample (needs ../shared)', () => {
  test('JSONL and parquet hold the same 25 records; each solution scores 1, each with two values exchanged 0', async () => {
    const jsonl = await zebralogic.load(shared!)
    expect(jsonl).toEqual(await zebralogic.load(shared!.replace('jsonl', 'parquet')))
    expect(jsonl.errors).toEqual([])
    expect(jsonl.records).toHaveLength(25)
    for (const record of jsonl.records) {
      const cells = record.houses * record.attributes
      expect(zebralogic.score(record, answer(solutionOf(record)))).toMatchObject({
        score: 1,
        measures: { 'cell accuracy': [cells, cells] },
      })
      const name = record.header[1]
      const wrong = solutionOf(record)
      ;[wrong['House 1'][name], wrong['House 2'][name]] = [wrong['House 2'][name], wrong['House 1'][name]]
      expect(zebralogic.score(record, answer(wrong))).toMatchObject({ score: 0, measures: { 'cell accuracy': [cells - 2, cells] } })
      expect(zebralogic.prompt(record)).toContain(record.puzzle.trim())
    }
  })

  test('the solver finds the official solution of every puzzle, and no other', async () => {
    for (const record of (await zebralogic.load(shared!)).records) {
      const solutions = solve(record.houses, record.attributes, readClues(record), 2)
      const official: Positions = record.header
        .slice(1)
        .map((_, a) => valuesOf(record)[a].map((value) => record.rows.findIndex((cells) => cells[a + 1] === value)))
      expect([record.id, solutions]).toEqual([record.id, [official]])
    }
  })
})

test('a bad record is an error of its line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-zebra-'))
  const file = join(folder, 'rows.jsonl')
  const good = { id: 'a', size: '2*2', puzzle: 'P', solution: { header: record.header, rows: record.rows } }
  const masked = { ...good, solution: { header: record.header, rows: [['___', '___', '___'], ['___', '___', '___']] } }
  writeFileSync(
    file,
    [good, masked, { ...good, size: '3*2' }, { ...good, solution: { header: ['House'], rows: [] } }, { ...good, size: 'big' }]
      .map((row) => JSON.stringify(row))
      .join('\n'),
  )
  const { records, errors } = await zebralogic.load(file)
  rmSync(folder, { recursive: true })
  expect(records).toHaveLength(1)
  expect(errors.map(({ line }) => line)).toEqual([2, 3, 4, 5])
  expect(errors[0].error).toContain('the solution is masked')
})

describe('solve', () => {
  test('finds exactly the arrangements that brute force finds', () => {
    const permutations = (n: number): number[][] =>
      n === 0 ? [[]] : permutations(n - 1).flatMap((p) => Array.from({ length: n }, (_, k) => [...p.slice(0, k), n - 1, ...p.slice(k)]))
    const item = fc.record({ attribute: fc.nat(1), value: fc.nat(3) })
    const clue: fc.Arbitrary<Clue> = fc.oneof(
      fc.record({ kind: fc.constantFrom(...PAIR_CLUES), a: item, b: item }),
      fc.record({ kind: fc.constantFrom('at' as const, 'notAt' as const), a: item, house: fc.nat(3) }),
    )
    const all = permutations(4).flatMap((first) => permutations(4).map((second) => [first, second]))
    fc.assert(fc.property(fc.array(clue, { maxLength: 5 }), (clues) => {
      const expected = all.filter((positions) => clues.every((one) => holds(one, positions)))
      const key = (list: readonly Positions[]) => list.map((positions) => JSON.stringify(positions)).sort()
      expect(key(solve(4, 2, clues, Infinity))).toEqual(key(expected))
    }), { seed: 3, numRuns: 150 })
  })
})

describe('generator', () => {
  test('every size: one solution, no clue to spare, all true', () => {
    for (const [houses, attributes] of [[2, 2], [3, 4], [4, 3], [5, 5], [6, 6]]) {
      const source = random(5)
      const positions = Array.from({ length: attributes }, () => source.permutation(houses))
      const clues = drawClues(houses, positions, source)
      expect(clues.every((clue) => holds(clue, positions))).toBe(true)
      expect(solve(houses, attributes, clues, 2)).toEqual([positions])
      clues.forEach((_, i) => expect(solve(houses, attributes, clues.filter((_, j) => j !== i), 2)).toHaveLength(2))
    }
  })

  test('seeded, split, and in the form of records', () => {
    const config = zebraConfig.parse({ houses: 3, attributes: 3 })
    const train = zebraPuzzles(config, 'train', 20, random(1))
    expect(zebraPuzzles(config, 'train', 20, random(1))).toEqual(train)
    expect(zebraPuzzles(config, 'train', 20, random(2))).not.toEqual(train)
    const held = new Set(zebraPuzzles(config, 'test', 20, random(1)).map(({ puzzle }) => puzzle))
    expect(train.some(({ puzzle }) => held.has(puzzle))).toBe(false)
    for (const record of train) expect(zebralogic.score(record, answer(solutionOf(record))).score).toBe(1)
  })
})

// ── reading the clues of the data, to check the solver against it ──

const valuesOf = (record: ZebraRecord): string[][] =>
  record.puzzle
    .split('## Clues:')[0]
    .split('\n')
    .filter((line) => line.startsWith(' - '))
    .map((line) => [...line.matchAll(/`([^`]+)`/g)].map((match) => match[1]))

/** Where a value's phrase does not hold the value itself. */
const STEMS: Record<string, string> = {
  swede: 'swed',
  brit: 'brit',
  roses: 'rose',
  lilies: 'lil',
  doctorate: 'doctorate',
  carnations: 'carnation',
  daffodils: 'daffodil',
  horse: 'horse',
}

const readClues = (record: ZebraRecord): Clue[] => {
  const values = valuesOf(record)
  const attribute = (name: string) => record.header.indexOf(name) - 1
  const read = (phrase: string): Item => {
    const text = phrase.toLowerCase().replaceAll('-', ' ')
    const only = /child|mother of/.test(text) ? 'Children' : /mother/.test(text) ? 'Mother' : /hair/.test(text) ? 'HairColor' : ''
    const found = values
      .flatMap((list, a) => list.map((value, v) => ({ value, item: { attribute: a, value: v } })))
      .filter(({ item }) =>
        only ? item.attribute === attribute(only) : !['Children', 'Mother', 'HairColor'].includes(record.header[item.attribute + 1]),
      )
      .filter(({ value }) => text.includes(STEMS[value] ?? value.toLowerCase()))
      .sort((x, y) => y.value.length - x.value.length)
    if (found.length === 0) throw new Error(`${record.id}: ${phrase}`)
    return found[0].item
  }
  const ORDINALS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth']
  const patterns: [RegExp, Clue['kind']][] = [
    [/^There is one house between (.*) and (.*)$/, 'oneBetween'],
    [/^There are two houses between (.*) and (.*)$/, 'twoBetween'],
    [/^(.*) and (.*) are next to each other$/, 'adjacent'],
    [/^(.*) is directly left of (.*)$/, 'directlyLeft'],
    [/^(.*) is somewhere to the left of (.*)$/, 'left'],
    [/^(.*) is somewhere to the right of (.*)$/, 'right'],
    [/^(.*) is not in the (\w+) house$/, 'notAt'],
    [/^(.*) is in the (\w+) house$/, 'at'],
  ]
  return [...record.puzzle.split('## Clues:')[1].matchAll(/^\d+\. (.*)\.\s*$/gm)].map(([, text]): Clue => {
    for (const [pattern, kind] of patterns) {
      const match = pattern.exec(text)
      if (!match) continue
      if (kind === 'at' || kind === 'notAt') return { kind, a: read(match[1]), house: ORDINALS.indexOf(match[2]) }
      return { kind, a: read(match[1]), b: read(match[2]) }
    }
    // "A is B", where A itself may hold " is "
    for (let at = text.indexOf(' is '); at >= 0; at = text.indexOf(' is ', at + 1)) {
      try {
        const [a, b] = [read(text.slice(0, at)), read(text.slice(at + 4))]
        if (a.attribute !== b.attribute) return { kind: 'same', a, b }
      } catch {
        continue
      }
    }
    throw new Error(`${record.id}: ${text}`)
  })
}
