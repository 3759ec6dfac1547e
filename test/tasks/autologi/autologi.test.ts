import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuTime } from '../../cpu.js'
import { lastBraces, lastBrackets, lastFenced, readArrangement } from '../../../src/tasks/autologi/arrangement.js'
import {
  autologi,
  countArrangements,
  loadPreferences,
  loadSeeds,
  verify,
  type AutoLogiRecord,
} from '../../../src/tasks/autologi/autologi.js'
import { repr } from '../../../src/tasks/autologi/python/show.js'
import { newMeter } from '../../../src/tasks/autologi/python/values.js'
import { scoreResponse } from '../../../src/tasks/benchmark.js'
import { sharedPath } from '../../shared.js'

const shared = sharedPath('benchmarks/autologi')

const read = (response: string): string | undefined => {
  const result = readArrangement(response)
  return 'value' in result ? repr(result.value, newMeter({ steps: 1e6, milliseconds: 5000, cells: 1e6 })) : undefined
}

/** Four guests at a round table. */
const record: AutoLogiRecord = {
  id: '1',
  prompt: 'Seat the guests.',
  inputsCheck: `
import itertools
from typing import List

def inputs_check(inputs: List[str]) -> bool:
    return isinstance(inputs, list) and sorted(inputs) == ['Ann', 'Ben', 'Cleo', 'Dan']
`,
  constraints: `
def beside(inputs, a, b):
    n = len(inputs)
    return abs(inputs.index(a) - inputs.index(b)) in (1, n - 1)

def constraint_1(inputs):
    """Ann sits beside Ben."""
    return beside(inputs, 'Ann', 'Ben')

def constraint_2(inputs):
    return not beside(inputs, "Cleo", "Ann")

constraint_list = [constraint_1, constraint_2]
`,
  traverse: `
def count_valid_arrangements():
    valid = total = 0
    for p in itertools.permutations(['Ann', 'Ben', 'Cleo', 'Dan']):
        total += 1
        if verify_function(list(p), inputs_check, constraint_list):
            valid += 1
    return valid, total
`,
}

describe('reading an arrangement', () => {
  test.each<[string, string, string | undefined]>([
    ['the last fenced block', '```python\n[1]\n```\nno\n```json\n[2]\n```', '[2]'],
    ['a block without a language', '```\n{"a": 1}\n```', "{'a': 1}"],
    ['a block wins over braces behind it', '```\n[1]\n``` or {2}', '[1]'],
    ['else the last braces', 'a {1} b {"x": {"y": 2}} c [3]', "{'x': {'y': 2}}"],
    ['braces that never close are skipped', '{ {1, 2}', '{1, 2}'],
    ['else the last brackets', '[1, 2] and [3, 4]', '[3, 4]'],
    ['brackets reach to the nearest closing one', '[[1, 2], [3, 4]]', '[3, 4]'],
    ['comments go', '```\n{"a": 1, // one\n "b": 2}\n```', "{'a': 1, 'b': 2}"],
    ['true and false', '{"a": true, "b": [false, True]}', "{'a': True, 'b': [False, True]}"],
    ['an assignment', '```python\ninputs = [1, (2, 3)]\n```', '[1, (2, 3)]'],
    [
      'null is JSON',
      '{"a": null, "b": 1.0, "c": [1, 2.5e1, "\\u00e9\\/"], "d": true}',
      "{'a': None, 'b': 1.0, 'c': [1, 25.0, 'é/'], 'd': True}",
    ],
    ['sets, tuples, numbers, None', '```\n({1, 2}, (), None, -1.5)\n```', '({1, 2}, (), None, -1.5)'],
    ['Chinese', "```json\n{'甲': {'最佳协作奖'}}\n```", "{'甲': {'最佳协作奖'}}"],
    ['no arrangement', 'I could not find one.', undefined],
    ['calls are no literals', '```python\n[f(1)]\n```', undefined],
    ['not even harmless ones', '```python\nlist([1])\n```', undefined],
    ['an unclosed block is none', '```python\n[1]', '[1]'],
    ['nothing', '', undefined],
  ])('%s', (_, response, expected) => expect(read(response)).toBe(expected))

  test('blocks, braces and brackets agree with the regular expressions of the official scorer', () => {
    const piece = fc.constantFrom('```', '`', 'a', '\n', '{', '}', '[', ']', ' ')
    fc.assert(fc.property(fc.array(piece, { maxLength: 14 }).map((parts) => parts.join('')), (text) => {
      expect(lastFenced(text)).toBe([...text.matchAll(/```(?:\w+)?\n([^]*?)```/g)].at(-1)?.[1])
      expect(lastBrackets(text)).toBe(text.match(/\[[^]*?\]/g)?.at(-1))
      // the leftmost balanced blocks, by trying every start
      let expected: string | undefined
      for (let start = 0; start < text.length; start++) {
        if (text[start] !== '{') continue
        let depth = 0
        for (let end = start; end < text.length; end++) {
          depth += text[end] === '{' ? 1 : text[end] === '}' ? -1 : 0
          if (depth === 0) {
            expected = text.slice(start, end + 1)
            start = end
            break
          }
        }
      }
      expect(lastBraces(text)).toBe(expected)
    }), { numRuns: 2000, seed: 4 })
  })
})

describe('score', () => {
  test.each<[string, number, string, string]>([
    ['["Ben", "Ann", "Dan", "Cleo"]', 1, 'correct', 'passes'],
    ['["Ann", "Cleo", "Ben", "Dan"]', 0, 'wrong', 'violates constraint_1'],
    ['["Ann", "Ben", "Dan", "Cleo"]', 0, 'wrong', 'violates constraint_2'],
    ['["Ann", "Ben", "Dan"]', 0, 'wrong', 'inputs_check'],
    ['{"Ann": 1}', 0, 'wrong', 'inputs_check'],
    ['["Ann", 1]', 0, 'wrong', 'inputs_check raised TypeError'],
    ['none', 0, 'invalid', 'no fenced block'],
  ])('%s', (response, score, verdict, reason) => {
    const result = autologi.score(record, response)
    expect(result).toMatchObject({ score, verdict, measures: { 'arrangements read': [verdict === 'invalid' ? 0 : 1, 1] } })
    expect(result.reason).toContain(reason)
  })

  test('the traversal agrees with counting by hand: 8 circles have Ann beside Ben and not beside Cleo', () => {
    // Cleo is opposite Ann (4 seats for Ann, 2 ways for the others)
    expect(countArrangements(record)).toEqual({ valid: 8, total: 24 })
  })

  test('a verifier that misbehaves scores 0 with its reason', () => {
    const reason = (constraints: string): string =>
      autologi.score({ ...record, inputsCheck: 'def inputs_check(inputs): return True', constraints }, '[1]').reason
    expect(reason('constraint_list = [lambda i: i["x"]]')).toContain('raised TypeError')
    expect(reason('def c(i): raise ValueError("no")\nconstraint_list = [c]')).toBe('c raised ValueError: no')
    expect(reason('import os\nconstraint_list = []')).toBe('the verifier was stopped: the module "os" is not supported')
    expect(reason('x = 1')).toContain('constraint_list is not defined')
    expect(reason('constraint_list = [5]')).toContain('raised TypeError')
    expect(
      verify({ ...record, constraints: 'def c(i):\n  while True: pass\nconstraint_list = [c]' }, ['Ann', 'Ben', 'Cleo', 'Dan'] as never, {
        steps: 1e5,
        milliseconds: 1e4,
        cells: 1e5,
      }),
    ).toBeDefined()
  })

  test('no text makes it throw; hostile ones take bounded time', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.json(),
          fc.string({ unit: 'binary' }).map((text) => `\`\`\`\n${text}\n\`\`\``),
        ),
        (text) => {
          expect(autologi.score(record, text).score).toBe(0)
        },
      ),
      { seed: 2, numRuns: 500 },
    )
    const hostile = [
      '{'.repeat(4e6),
      '['.repeat(4e6),
      '`'.repeat(4e6),
      '```\n'.repeat(1e6),
      `[${'['.repeat(9000)}${']'.repeat(9000)}]`,
      `{${'{'.repeat(9000)}${'}'.repeat(9000)}}`,
      `\`\`\`\n${'-'.repeat(19000)}1\n\`\`\``,
      `\`\`\`\n${'(1,'.repeat(6000)}\n\`\`\``,
      `[${'1,'.repeat(9000)}]`,
      `{${'"a":'.repeat(4000)}1}`,
      '{}'.repeat(2e6),
      '[]'.repeat(2e6),
      `\`\`\`${'a'.repeat(4e6)}`,
      '\\'.repeat(4e6),
      `\`\`\`\n9${'*9'.repeat(9000)}\n\`\`\``,
      `\`\`\`\n"${'\\'.repeat(9000)}"\n\`\`\``,
      'x'.repeat(1e8),
      `{${'//'.repeat(9000)}}`,
      `\`\`\`\n${'not '.repeat(4000)}1\n\`\`\``,
    ]
    for (const text of hostile) {
      const start = cpuTime()
      const result = scoreResponse(autologi, record, text)
      expect(result.score).toBe(0)
      expect(result.reason).not.toBe('')
      expect([text.slice(0, 20), cpuTime() - start < 2000]).toEqual([text.slice(0, 20), true])
    }
  })
})

test('a bad record is an error of its line', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-autologi-'))
  const file = join(folder, 'rows.jsonl')
  const code = { Inputs_Check_code: record.inputsCheck, Constraint_List_code: record.constraints, Traverse_code: record.traverse }
  const good = { idx: 1, prompt: 'P', code, lang: 'en', group_id: 3 }
  const rows = [
    good,
    { ...good, code: { ...code, Inputs_Check_code: 'class A: pass' } },
    { idx: 2, prompt: 'P' },
    { ...good, idx: 'two', code: { ...code, Traverse_code: undefined } },
    { ...good, code: { ...code, Traverse_code: 'def f(:' } },
    { ...good, code: { ...code, Constraint_List_code: 'import re\nconstraint_list = []' } },
    { ...good, code: { ...code, Constraint_List_code: '' } },
    { ...good, code: { ...code, Inputs_Check_code: 'while True: pass' } },
  ]
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n'))
  const { records, errors } = await autologi.load(file)
  rmSync(folder, { recursive: true })
  expect(records.map(({ id }) => id)).toEqual(['1', 'two'])
  expect(errors.map(({ line }) => line)).toEqual([2, 3, 5, 6, 7, 8])
  expect(errors[3].error).toBe('record: code.Constraint_List_code: the module "re" is not supported')
  expect(errors[0].error).toBe('record: code.Inputs_Check_code: line 1: "class" is not in the subset of Python that is evaluated')
})

describe.skipIf(!shared)('public samples and handmade examples (need ../shared)', () => {
  const file = (name: string): string => join(shared!, name)
  const lines = <T>(name: string): T[] => readFileSync(file(name), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as T)

  test('every record loads, and every function runs', async () => {
    const { records, errors } = await autologi.load(file('handmade_schema_examples.jsonl'))
    expect(errors).toEqual([])
    expect(records).toHaveLength(4)
    for (const record of records) {
      const { valid, total } = countArrangements(record)
      expect(valid).toBeGreaterThan(0)
      expect(valid).toBeLessThan(total)
    }
  })

  test('the expected scores', async () => {
    const { records } = await autologi.load(file('handmade_schema_examples.jsonl'))
    const expected = lines<{ idx: number; gen: string[]; acc: number; extraction_failed: number }>('handmade_expected_scores.jsonl')
    expect(expected).toHaveLength(13)
    for (const { idx, gen, acc, extraction_failed } of expected) {
      const { score, verdict } = autologi.score(records.find(({ id }) => id === String(idx))!, gen[0])
      expect({ gen, acc: score, extraction_failed: Number(verdict === 'invalid') }).toEqual({ gen, acc, extraction_failed })
    }
  })

  test('the seed puzzles and the preferences load; the real answers can be read', async () => {
    const seeds = await loadSeeds(file('source_corpus_en.jsonl'))
    expect([seeds.records.length, seeds.errors]).toEqual([25, []])
    const preferences = await loadPreferences(file('autologi_sampling_by_72b_dpo_cn.json'))
    expect([preferences.records.length, preferences.errors]).toEqual([20, []])
    for (const { conversations, chosen, rejected } of preferences.records) {
      // the sample input of the prompt, and the passing answer
      expect(read(conversations[0].value)).toBeDefined()
      expect(read(chosen.value)).toBeDefined()
      expect(rejected.value).not.toBe('')
    }
  })
})
