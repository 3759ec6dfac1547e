import { z } from 'zod'
import { InputError } from '../../util/errors.js'
import { show, validate } from '../../util/validate.js'
import type { Benchmark, BenchmarkScore } from '../benchmark.js'
import { loadRecords, type Loaded } from '../records.js'
import { equivalent } from './equivalent.js'
import { extractAnswer, lastBoxed, type AnswerForm } from './extract.js'
import { dapoRule, mathRule } from './repositoryRules.js'

/** A problem with a final answer. */
export interface MathRecord {
  readonly id: string
  /** LaTeX. */
  readonly problem: string
  /** As the file spells it: LaTeX, or for AIME an integer that may be padded (`025`). */
  readonly answer: string
  /** The file's own prompt, where it has one. */
  readonly prompt?: string
}

/**
 * Every public layout of the five data sets in one: bare problems (`problem` or `question`, with `answer`, or
 * a `solution` that holds it), verl rows (`prompt` messages and `reward_model.ground_truth`), slime rows (`prompt` and
 * `label`), and the paper repository's rows (`context`).
 */
const text = z.string().nullish()
const name = z.union([z.string(), z.number()]).nullish()
const messages = z.array(z.object({ role: z.string(), content: z.string() })).min(1)
const row = z.object({
  id: name,
  unique_id: name,
  problem: text,
  question: text,
  context: text,
  prompt: z.union([z.string(), messages]).nullish(),
  source_prompt: messages.nullish(),
  answer: name,
  label: name,
  solution: text,
  reward_model: z.object({ ground_truth: name }).nullish(),
  extra_info: z.object({ index: name, raw_problem: text }).nullish(),
})

const parseRow = (value: unknown, line: number): MathRecord => {
  const fields = validate(row, value, 'record')
  const asked = Array.isArray(fields.prompt) ? fields.prompt.map(({ content }) => content).join('\n\n') : fields.context
  const problem =
    fields.problem ??
    fields.question ??
    fields.extra_info?.raw_problem ??
    (typeof fields.prompt === 'string' ? fields.prompt : undefined) ??
    asked
  if (!problem?.trim())
    throw new InputError(`record: problem: ${problem === undefined ? 'missing' : `holds ${show(problem)}`}; expected the text of a problem`)
  const solution = fields.solution?.trim()
  const given =
    fields.answer ??
    fields.reward_model?.ground_truth ??
    fields.label ??
    (solution && (lastBoxed(solution) ?? (solution.length <= MAX_BARE ? solution : undefined)))
  const answer = given === undefined || given === null ? '' : String(given).trim()
  if (!answer)
    throw new InputError(
      'record: answer: missing; expected the final answer (also as reward_model.ground_truth, label, or a box in solution)',
    )
  const id = String(fields.id ?? fields.unique_id ?? fields.extra_info?.index ?? line)
  return { id, problem: problem.trim(), answer, ...(asked && { prompt: asked }) }
}

/** A `solution` without a box that is at most this long is itself the answer. */
const MAX_BARE = 60

const parseAime = (value: unknown, line: number): MathRecord => {
  const record = parseRow(value, line)
  const inBox = lastBoxed(record.answer) ?? record.answer
  if (!/^\d{1,3}(\.0+)?$/.test(inBox))
    throw new InputError(`record: answer: holds ${show(record.answer)}; expected an integer from 0 to 999`)
  return { ...record, answer: inBox.replace(/\.0+$/, '') }
}

/**
 * Public copies repeat their problems (AIME 32 times, DAPO about 100): one of each is kept. An id that comes again
 * with another problem is an error.
 */
const load = async (file: string, parse: (value: unknown, line: number) => MathRecord): Promise<Loaded<MathRecord>> => {
  const problems = new Set<string>()
  const ids = new Set<string>()
  const { records, errors } = await loadRecords(file, (value, line) => {
    const record = parse(value, line)
    const problem = `${record.problem}\n${record.answer}`
    const isNew = !problems.has(problem)
    if (isNew && ids.has(record.id))
      throw new InputError(`record: id: "${record.id}" comes again with another problem; expected unique ids`)
    problems.add(problem)
    ids.add(record.id)
    return isNew ? record : undefined
  })
  return { records: records.filter((record): record is MathRecord => record !== undefined), errors }
}

const LINE_PROMPT = (problem: string): string =>
  'Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without quotes) ' +
  `where $Answer is the answer to the problem.\n\n${problem}\n\nRemember to put your answer on its own line after "Answer:".`
const BOX_PROMPT = (problem: string): string => `${problem}\n\nPlease reason step by step, and put your final answer within \\boxed{}.`

/**
 * Score a response: the final answer it states, compared with `equivalent`. The measure `by the paper's rule`
 * is 1 where the paper repository's string rule accepts the response.
 */
export const scoreMath = (record: MathRecord, response: string, asked: AnswerForm): BenchmarkScore => {
  const rule = asked === 'line' ? dapoRule : mathRule
  const measures = { 'by the paper\'s rule': [rule(response, record.answer) ? 1 : 0, 1] } as const
  const { answer, form } = extractAnswer(response, asked)
  if (form === 'none') return { score: 0, verdict: 'invalid', reason: 'no final answer is stated', measures }
  const { equal, reason } = equivalent(answer, record.answer)
  const compared = `${quoted(answer)} (${FORMS[form]}) is ${equal ? '' : 'not '}${quoted(record.answer)}: ${reason}`
  return equal ? { score: 1, verdict: 'correct', reason: compared, measures } : { score: 0, verdict: 'wrong', reason: compared, measures }
}

const quoted = (text: string): string => `"${(text.length > 60 ? `${text.slice(0, 57)}…` : text).replace(/\s+/g, ' ')}"`

const FORMS = { boxed: 'in a box', line: 'after "Answer:"', phrase: 'after "answer is"', number: 'the last number', none: '' }

const mathBenchmark = (fields: { name: string; summary: string; asked: AnswerForm; parse?: typeof parseRow }): Benchmark<MathRecord> => ({
  name: fields.name,
  summary: fields.summary,
  load: (file) => load(file, fields.parse ?? parseRow),
  id: (record) => record.id,
  prompt: (record) => record.prompt ?? (fields.asked === 'line' ? LINE_PROMPT : BOX_PROMPT)(record.problem),
  score: (record, response) => scoreMath(record, response, fields.asked),
  agree: (a, b) => {
    const [first, second] = [a, b].map((response) => extractAnswer(response, fields.asked))
    return first.form !== 'none' && second.form !== 'none' && equivalent(first.answer, second.answer).equal
  },
})

export const aime2024 = mathBenchmark({
  name: 'aime2024',
  summary: 'AIME 2024: competition problems with an integer answer from 0 to 999',
  asked: 'line',
  parse: parseAime,
})
export const aime2025 = mathBenchmark({
  name: 'aime2025',
  summary: 'AIME 2025: competition problems with an integer answer from 0 to 999',
  asked: 'line',
  parse: parseAime,
})
export const math500 = mathBenchmark({
  name: 'math500',
  summary: 'MATH-500: problems with an answer in LaTeX, compared by what it means',
  asked: 'boxed',
})
export const dapoMath = mathBenchmark({
  name: 'dapo-math-17k',
  summary: 'DAPO-Math-17k (training): problems with an integer answer',
  asked: 'line',
})
export const deepscaler = mathBenchmark({
  name: 'deepscaler',
  summary: 'DeepScaleR (training): problems with an answer in LaTeX',
  asked: 'line',
})
