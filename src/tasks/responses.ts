import { z } from 'zod'
import { messageOf } from '../util/errors.js'
import { readLines, type Line } from '../util/lines.js'
import { show, validate } from '../util/validate.js'
import { scoreResponse, unscored, type Benchmark, type BenchmarkScore } from './benchmark.js'
import { passAtK } from './passAtK.js'
import type { RecordError } from './records.js'

/** Scoring a file of given responses, and the totals. */

/** A line of the file. Several responses to one record have different samples. */
const responseLine = z.object({
  id: z.union([z.string(), z.number()], { error: 'expected a text or a number' }).transform(String),
  response: z.string(),
  sample: z.int().min(0).default(0),
})

/** Longest line that is parsed, in bytes: any response that is scored fits, escaped as it may be. */
const MAX_LINE = 32 * 2 ** 20

export interface ScoredResponse extends BenchmarkScore {
  readonly line: number
  readonly id: string
  readonly sample: number
}

/**
 * Score the responses of a JSONL file, `{"id", "response"}` or `{"id", "sample", "response"}` a line, one
 * by one as they are read: neither time nor memory grows with the length of a line beyond its reading.
 * A line that cannot be read, has no known id, or repeats one, gives an error and loses no other.
 *
 * @throws InputError when the file cannot be read
 */
export async function* scoreResponses<R>(
  benchmark: Benchmark<R>,
  records: readonly R[],
  file: string,
): AsyncGenerator<ScoredResponse | RecordError> {
  const byId = new Map(records.map((record) => [benchmark.id(record), record]))
  const seen = new Set<string>()
  for await (const line of readLines(file, MAX_LINE)) {
    try {
      const { id, sample, response } = parseLine(line)
      const record = byId.get(id)
      if (record === undefined) throw new Error(`id: no record has ${show(id)}`)
      const key = `${id} ${sample}`
      if (seen.has(key)) throw new Error(`id: ${show(id)} occurred before with sample ${sample}; the first counts`)
      seen.add(key)
      yield { line: line.line, id, sample, ...(response === undefined ? unscored(benchmark, record, `the line is ${line.error}`) : scoreResponse(benchmark, record, response)) }
    } catch (error) {
      yield { line: line.line, error: messageOf(error) }
    }
  }
}

/** A line that is too long to be read still counts for its record, when its id is its first or last field. */
const parseLine = ({ text, error, head = '', tail = '' }: Line): { id: string; sample: number; response?: string } => {
  if (text !== undefined) return validate(responseLine, parseJson(text), 'line')
  const id = FIRST_ID.exec(head) ?? LAST_ID.exec(tail)
  if (!id) throw new Error(error)
  return { id: String(parseJson(id[1])), sample: 0 }
}

const FIRST_ID = /^\s*\{\s*"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,15})\s*,/
const LAST_ID = /,\s*"id"\s*:\s*("(?:[^"\\]|\\.){0,200}"|-?\d{1,15})\s*\}\s*$/

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw new Error(`is not JSON: ${messageOf(error)}`)
  }
}

/** What the responses to one record came to. */
export interface ProblemTotal {
  readonly id: string
  /** Responses. */
  readonly samples: number
  /** Those with verdict `correct`. */
  readonly correct: number
  /** Mean score: avg@samples. */
  readonly mean: number
  /** Sums of the further measures, numerator and denominator. */
  readonly measures: Readonly<Record<string, readonly [number, number]>>
}

/** Totals by record, in the order of the first response to each. */
export const problemTotals = (scored: readonly Omit<ScoredResponse, 'line'>[]): ProblemTotal[] => {
  const byId = new Map<string, Omit<ScoredResponse, 'line'>[]>()
  for (const item of scored) {
    const items = byId.get(item.id)
    if (items) items.push(item)
    else byId.set(item.id, [item])
  }
  return [...byId].map(([id, items]) => {
    const measures: Record<string, readonly [number, number]> = {}
    for (const [name, [top, bottom]] of items.flatMap((item) => Object.entries(item.measures ?? {}))) {
      const [topSum, bottomSum] = measures[name] ?? [0, 0]
      measures[name] = [topSum + top, bottomSum + bottom]
    }
    return {
      id,
      samples: items.length,
      correct: items.filter(({ verdict }) => verdict === 'correct').length,
      mean: items.reduce((sum, { score }) => sum + score, 0) / items.length,
      measures,
    }
  })
}

/** A total as a function of the problems counted, so that it can be bootstrapped over them. */
export type Statistic = (problems: readonly ProblemTotal[]) => number

/**
 * The totals of some problems: `avg@k`, the mean score, and `pass@k`, the unbiased estimate (`score` and
 * `correct` for k = 1); then the benchmark's own measures, each the ratio of its sums.
 *
 * @param k at most the number of responses to any of the problems
 */
export const statistics = (problems: readonly ProblemTotal[], k: number): Record<string, Statistic> => {
  const average = (value: (problem: ProblemTotal) => number): Statistic => {
    const values = new Map(problems.map((problem) => [problem, value(problem)]))
    return (some) => some.reduce((sum, problem) => sum + values.get(problem)!, 0) / some.length
  }
  const ratio = (name: string): Statistic => (some) => {
    const sum = (part: 0 | 1): number => some.reduce((total, { measures }) => total + (measures[name]?.[part] ?? 0), 0)
    return sum(0) / sum(1)
  }
  const measures = new Set(problems.flatMap((problem) => Object.keys(problem.measures)))
  return {
    [k === 1 ? 'score' : `avg@${k}`]: average(({ mean }) => mean),
    [k === 1 ? 'correct' : `pass@${k}`]: average(({ samples, correct }) => passAtK(samples, correct, k)),
    ...Object.fromEntries([...measures].map((name) => [name, ratio(name)])),
  }
}
