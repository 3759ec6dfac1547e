import { dirname } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import { benchmark as findBenchmark, benchmarkNames } from '../tasks/benchmarks.js'
import type { RecordError } from '../tasks/records.js'
import type { ProblemTotal, ScoredResponse } from '../tasks/responses.js'
import { InputError, oneLine } from '../util/errors.js'
import { textTable } from '../util/table.js'
import { totalsOf, totalsTable, type Totals } from './totals.js'

interface Options {
  readonly benchmark: string
  readonly data: string
  readonly responses: string
  readonly k?: number
  readonly json?: boolean
  readonly out?: string
}

/** Unreadable lines that are kept and shown by number; of the others only how many. */
const MAX_ERRORS = 1000
const SHOWN_ERRORS = 20

/** `teamtr score`: given responses against a benchmark's records. */
export const addScore = (program: Command): void => {
  program.command('score')
    .description('score given responses to a benchmark: per response and in total, with 95 % intervals over the problems')
    .requiredOption('--benchmark <name>', 'which benchmark (the names are below)')
    .requiredOption('--data <file>', 'its records in their public format: .jsonl, .json, .parquet (planbench also .pddl, one or a folder)')
    .requiredOption('--responses <file>', 'JSONL: {"id", "response"} a line, and "sample" where a record has several responses')
    .option('-k <number>', 'the k of pass@k and avg@k (default: the least number of responses to any record)', positiveInteger)
    .option('--json', 'print everything as JSON')
    .option('--out <file>', 'also write that JSON to a file')
    .addHelpText('after', `
Benchmarks: ${benchmarkNames.join(', ')}.
The id of a record is its own id or index field; for ar-bench-gn its position in the file, from 1.

A line or record that cannot be read is reported with its number and loses no other; records without a response are left out of the totals.
Intervals: percentile bootstrap over the problems, 2000 resamples, a fixed seed.

Exit codes: 0 scored (even if some lines could not be read), 2 nothing could be read.

Example: teamtr score --benchmark planbench --data ../shared/benchmarks/planbench/task_1_plan_generation.json --responses responses.jsonl`)
    .action(async (options: Options) => {
      const { writableFolder, writeAtomic } = await import('../util/files.js')
      if (options.out !== undefined) writableFolder(dirname(options.out))
      const result = await scoreFile(options)
      const json = JSON.stringify(result, null, 1)
      if (options.out !== undefined) writeAtomic(options.out, `${json}\n`)
      process.stdout.write(`${options.json ? json : readable(result)}\n`)
      if (!options.json) process.stderr.write(problemsText(options, result))
    })
}

interface Result {
  readonly benchmark: string
  readonly records: number
  /** Records with a response. */
  readonly answered: number
  readonly responses: number
  readonly unreadable: { readonly records: number; readonly lines: number }
  readonly totals: Totals
  readonly items: readonly ScoredResponse[]
  /** The first of each, at most 1000. */
  readonly errors: { readonly data: readonly RecordError[]; readonly responses: readonly RecordError[] }
}

const scoreFile = async ({ benchmark: name, data, responses, k }: Options): Promise<Result> => {
  const { scoreResponses, problemTotals } = await import('../tasks/responses.js')
  const { progress } = await import('../util/progress.js')
  const benchmark = await findBenchmark(name)
  const { uniqueRecords } = await import('../tasks/records.js')
  const { records, errors } = uniqueRecords(await benchmark.load(data), benchmark.id)
  if (records.length === 0) throw new InputError(`${data}: holds no record of ${name} that can be read${firstOf(errors)}`)

  const items: ScoredResponse[] = []
  const unreadable: RecordError[] = []
  let lines = 0
  const shown = progress('scoring', records.length, 'responses')
  for await (const item of scoreResponses(benchmark, records, responses)) {
    if (!('error' in item)) items.push(item)
    else if (lines++ < MAX_ERRORS) unreadable.push(item)
    shown.update(items.length)
  }
  shown.end()
  if (items.length === 0) throw new InputError(`${responses}: holds no response that can be read${firstOf(unreadable)}`)

  const problems = problemTotals(items)
  return {
    benchmark: name,
    records: records.length,
    answered: problems.length,
    responses: items.length,
    unreadable: { records: errors.length, lines },
    totals: await totalsOf(problems, leastSamples(problems, k)),
    items,
    errors: { data: errors.slice(0, MAX_ERRORS), responses: unreadable },
  }
}

const firstOf = (errors: readonly RecordError[]): string => (errors.length ? `; the first, line ${errors[0].line}: ${errors[0].error}` : '')

const leastSamples = (problems: readonly ProblemTotal[], wanted?: number): number => {
  const fewest = problems.reduce((least, problem) => (problem.samples < least.samples ? problem : least))
  if (wanted !== undefined && wanted > fewest.samples) throw new InputError(`-k: holds ${wanted}; record "${fewest.id}" has ${fewest.samples} responses`)
  return wanted ?? fewest.samples
}

const readable = ({ benchmark, records, answered, responses, unreadable, totals, items }: Result): string => {
  const several = responses > answered
  const table = textTable(
    ['id', ...(several ? ['sample'] : []), 'score', 'verdict'],
    items.map(({ id, sample, score, verdict }) => [clip(id, 40), ...(several ? [String(sample)] : []), score.toFixed(3), verdict]),
  ).split('\n')
  const reasons = ['reason', '──────', ...items.map(({ reason }) => clip(reason, 90))]
  const perItem = table.map((line, i) => `${line.padEnd(table[1].length)}  ${reasons[i]}`)
  const counts = `${benchmark}: ${answered} of ${records} records answered, ${responses} responses scored`
  const lost = unreadable.lines + unreadable.records > 0 ? `, ${unreadable.lines} lines and ${unreadable.records} records unreadable` : ''
  return [...perItem, '', `${counts}${lost}`, '', totalsTable(totals)].join('\n')
}

const problemsText = ({ data, responses }: Options, { errors, unreadable }: Result): string =>
  ([[data, errors.data, unreadable.records], [responses, errors.responses, unreadable.lines]] as const)
    .flatMap(([file, list, count]) => [
      ...list.slice(0, SHOWN_ERRORS).map(({ line, error }) => `teamtr: ${oneLine(`${file}:${line}: ${error}`)}\n`),
      ...(count > SHOWN_ERRORS ? [`teamtr: ${file}: ${count - SHOWN_ERRORS} more like these (--json has the first ${MAX_ERRORS})\n`] : []),
    ])
    .join('')

/** One line of at most `length` characters. */
const clip = (text: string, length: number): string => {
  const line = oneLine(text.slice(0, 1000).replace(/\s+/g, ' '))
  return line.length > length ? `${line.slice(0, length - 1)}…` : line
}

const positiveInteger = (text: string): number => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('expected a whole number of at least 1')
  return value
}
