import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { scoreResponse, type Benchmark } from '../../../src/tasks/benchmark.js'
import { aime2024, aime2025, dapoMath, deepscaler, math500, type MathRecord } from '../../../src/tasks/math/datasets.js'
import { sharedPath } from '../../shared.js'
import { cpuTime } from '../../cpu.js'

const samples: [Benchmark<MathRecord>, string, number][] = [
  [aime2024, 'aime2024/sample.jsonl', 20],
  [aime2025, 'aime2025/sample.jsonl', 20],
  [math500, 'math500/sample.jsonl', 28],
  [dapoMath, 'dapo-math-17k/sample.jsonl', 20],
  [dapoMath, 'dapo-math-17k/sample.parquet', 20],
  [deepscaler, 'deepscaler/sample.json', 20],
]

describe('public samples', () => {
  for (const [benchmark, file, count] of samples) {
    const path = sharedPath(`benchmarks/${file}`)
    test.skipIf(!path)(`${file} (needs ../shared): every record loads; its answer scores 1 in every form, a corrupted one 0`, async () => {
      const { records, errors } = await benchmark.load(path!)
      expect(errors).toEqual([])
      expect(records).toHaveLength(count)
      expect(new Set(records.map(benchmark.id)).size).toBe(count)
      for (const record of records) {
        expect(benchmark.prompt(record)).toContain(record.problem.slice(0, 40))
        const score = (response: string) => scoreResponse(benchmark, record, response).score
        for (const response of [
          `\\boxed{${record.answer}}`,
          `Answer: ${record.answer}`,
          `So the answer is $${record.answer.replaceAll('$', '')}$.`,
        ])
          expect([response, score(response)]).toEqual([response, 1])
        for (const wrong of [`${record.answer}1`, `-(${record.answer}) + 1/7`, '', 'none'])
          expect([wrong, score(`\\boxed{${wrong}}`)]).toEqual([wrong, 0])
      }
    })
  }

  const solved = sharedPath('benchmarks/math500/sample.jsonl')
  test.skipIf(!solved)('math500 (needs ../shared): the worked solutions score 1, also by the string rule of the paper', async () => {
    for (const line of readFileSync(solved!, 'utf8').trim().split('\n')) {
      const { problem, answer, solution } = JSON.parse(line) as { problem: string; answer: string; solution: string }
      expect(math500.score({ id: '', problem, answer }, solution)).toMatchObject({ score: 1, measures: { 'by the paper\'s rule': [1, 1] } })
    }
  })

  const dapo = sharedPath('benchmarks/dapo-math-17k/sample.jsonl')
  test.skipIf(!dapo)('dapo-math-17k (needs ../shared): the prompt is the original one, word for word', async () => {
    const { records } = await dapoMath.load(dapo!)
    const lines = readFileSync(dapo!, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as { source_prompt: { content: string }[] })
    records.forEach((record, i) => expect(dapoMath.prompt(record)).toBe(lines[i].source_prompt[0].content))
  })
})

describe('layouts', () => {
  let folder: string
  beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'teamtr-math-'))))
  afterAll(() => rmSync(folder, { recursive: true }))
  const write = (rows: unknown[]): string => {
    const file = join(folder, 'rows.jsonl')
    writeFileSync(file, rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row))).join('\n'))
    return file
  }

  test('the answer may lie in a boxed solution, a float, a verl row, a slime row', async () => {
    const { records, errors } = await aime2025.load(
      write([
        { id: 0, problem: 'P0', solution: '\\boxed{204}', url: '' },
        { id: 'q1', question: 'P1', answer: 70.0 },
        {
          data_source: 'math_dapo',
          prompt: [{ role: 'user', content: 'Solve: P2' }],
          reward_model: { ground_truth: '025', style: 'rule' },
          extra_info: { index: 7, raw_problem: 'P2', split: 'test' },
        },
        { prompt: [{ role: 'user', content: 'Solve: P3' }], label: '7' },
        {
          context: 'Solve: P4',
          response: '',
          agent_id: -1,
          turn_id: 0,
          conversation_id: 4,
          reward_model: { ground_truth: '8' },
          extra_info: {},
        },
      ]),
    )
    expect(errors).toEqual([])
    expect(records).toEqual([
      { id: '0', problem: 'P0', answer: '204' },
      { id: 'q1', problem: 'P1', answer: '70' },
      { id: '7', problem: 'P2', answer: '025', prompt: 'Solve: P2' },
      { id: '4', problem: 'Solve: P3', answer: '7', prompt: 'Solve: P3' },
      { id: '5', problem: 'Solve: P4', answer: '8', prompt: 'Solve: P4' },
    ])
    expect(aime2025.score(records[2], 'Answer: 25').score).toBe(1)
  })

  test('a bad record is an error of its line and loses no other; copies are dropped', async () => {
    const good = { id: 1, problem: 'P', answer: '5' }
    const { records, errors } = await aime2024.load(
      write([
        good,
        '{"id": 2, "problem"',
        { id: 3, problem: 'Q' },
        { id: 4, answer: '5' },
        { id: 5, problem: 'R', answer: '1000' },
        { id: 6, problem: 7, answer: '1' },
        { ...good, id: 99 },
        { id: 1, problem: 'S', answer: '6' },
        { id: 8, problem: 'T', answer: '7' },
      ]),
    )
    expect(records.map(({ id }) => id)).toEqual(['1', '8'])
    expect(errors.map(({ line }) => line)).toEqual([2, 3, 4, 5, 6, 8])
    expect(errors[1].error).toBe(
      'record: answer: missing; expected the final answer (also as reward_model.ground_truth, label, or a box in solution)',
    )
    expect(errors[3].error).toBe('record: answer: holds "1000"; expected an integer from 0 to 999')
  })
})

describe('the paper\'s string rules', () => {
  const record: MathRecord = { id: '', problem: '', answer: '025' }
  const byRule = (benchmark: Benchmark<MathRecord>, answer: string, response: string) =>
    benchmark.score({ ...record, answer }, response).measures!["by the paper's rule"][0]
  test.each([
    ['Answer: 025', 1],
    ['Answer: 25', 0],
    ['\\boxed{025}', 0],
    ['Answer: $\\boxed{025}$', 1],
    ['Answer: x = 025 dollars', 1],
    [`Answer: 025${' '.repeat(400)}.`, 0],
    ['ANSWER :  025 ', 1],
  ])('AIME: %j → %d', (response, accepted) => expect(byRule(aime2024, '025', response)).toBe(accepted))
  test.each([
    ['\\frac{1}{2}', '\\boxed{0.5}', 1],
    ['\\frac{1}{2}', '\\boxed{\\dfrac12}', 1],
    ['\\frac{1}{2}', '\\boxed{1/2}', 1],
    ['\\frac{1}{2}', '\\boxed{x = \\tfrac{1}{2} \\text{ cm}}', 1],
    ['\\frac{1}{2}', '\\boxed{\\frac{2}{4}}', 0],
    ['\\frac{1}{2}', 'Answer: \\frac{1}{2}', 0],
    ['90^\\circ', '\\boxed{90}', 1],
    ['\\sqrt{3}', '\\boxed{\\sqrt3}', 1],
    ['1,2', '\\boxed{2,1}', 0],
  ])('MATH-500: %j, %j → %d', (answer, response, accepted) => expect(byRule(math500, answer, response)).toBe(accepted))
})

describe('whatever a response holds', () => {
  const record: MathRecord = { id: '1', problem: 'P', answer: '\\frac{1}{2}' }
  const pieces = fc.constantFrom(
    ...(
      '\\boxed{ \\frac \\sqrt \\text{ \\begin{pmatrix} \\end{pmatrix} \\left( \\right] \\pm \\{ \\} { } ( ) [ ] ^ _ ' +
      '| , ; : = < \\le ! % $ & \\\\ \\circ x sin \\log 1 23 .5 e i or cm \\overline{ Answer: ~ \\cup \\in \\binom'
    ).split(
      ' ',
    ),
  )
  test('no scorer throws', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(pieces, { maxLength: 30 }).map((parts) => parts.join(' ')),
        ),
        (text) => {
          for (const benchmark of [math500, aime2024]) {
            for (const response of [text, `\\boxed{${text}}`, `Answer: ${text}`]) {
              const { score, reason } = scoreResponse(benchmark, record, response)
              expect(score === 0 || score === 1).toBe(true)
              expect(reason).not.toBe('')
            }
            expect(scoreResponse(benchmark, { ...record, answer: text }, `Answer: ${text}`).score).toBeGreaterThanOrEqual(0)
          }
        },
      ),
      { numRuns: 700, seed: 7 },
    )
  })

  const hostile: [string, string][] = [
    ['a 100 MB response', '1 '.repeat(50e6)],
    ['4 Mi characters of braces', '\\boxed{' + '{'.repeat(2 ** 22 - 10)],
    ['balanced braces', '\\boxed{' + '{'.repeat(1e6) + '}'.repeat(1e6) + '}'],
    ['nested fractions', '\\boxed{' + '\\frac{1}{'.repeat(100) + '2' + '}'.repeat(100) + '}'],
    ['a tower of powers', '\\boxed{' + '9^{'.repeat(30) + '9' + '}'.repeat(30) + '}'],
    ['a factorial tower', '\\boxed{((((9!)!)!)!)!}'],
    ['exponents of exponents', '\\boxed{\\exp(\\exp(\\exp(\\exp(9))))}'],
    ['many functions', `\\boxed{${'x^x+'.repeat(240)}x}`],
    ['many sines', `\\boxed{${'\\sin x+'.repeat(140)}x}`],
    ['many choices', `\\boxed{${'\\pm 1 '.repeat(150)}}`],
    ['a long list', `\\boxed{${'x,'.repeat(490)}x}`],
    ['long decimals', `\\boxed{0.${'1'.repeat(900)}}`],
    ['huge decimal exponents', '\\boxed{1e99999^1e99999}'],
    ['blanks', `Answer:${' '.repeat(2e6)}x`],
    ['answers', 'answer '.repeat(5e5)],
    ['dollar signs', 'Answer: ' + '$'.repeat(4e6)],
    ['parentheses', 'Answer: ' + '\\('.repeat(1e6)],
    ['backslashes', 'Answer: ' + '\\'.repeat(4e6)],
    ['digits and commas', '1,'.repeat(2e6)],
    ['answer is', 'the answer is '.repeat(2e5)],
  ]
  test.each(hostile)('%s: score 0 with a reason, in bounded time', (_, response) => {
    for (const benchmark of [math500, aime2024]) {
      const start = cpuTime()
      const { score, reason } = scoreResponse(benchmark, record, response)
      expect(cpuTime() - start).toBeLessThan(2000)
      expect(score).toBe(0)
      expect(reason).not.toBe('')
    }
  })
})

test('two responses agree when their final answers mean the same, for votes; one without an answer agrees with none', () => {
  expect(math500.agree!('so \\boxed{\\frac12}', 'I get \\boxed{0.5}.')).toBe(true)
  expect(math500.agree!('\\boxed{1}', '\\boxed{2}')).toBe(false)
  expect(math500.agree!('no idea', 'no idea')).toBe(false)
  expect(aime2024.agree!('… Answer: 73', 'Answer: 073')).toBe(true)
})
