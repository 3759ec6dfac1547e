/** What a team is trained in, ready to play: a game, or a benchmark's records read from their file. */
import { teamTask, type Benchmark, type RecordProblem } from '../tasks/benchmark.js'
import { benchmark } from '../tasks/benchmarks.js'
import { uniqueRecords } from '../tasks/records.js'
import { isTest } from '../tasks/split.js'
import type { Problem } from '../tasks/task.js'
import { chat } from '../util/chat.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import type { Config } from './config.js'
import { environment, questions, type Environment, type TaskConfig } from './environment.js'
import type { Playable } from './rollout.js'

/** An environment whose steps may wait for a model's answer. */
export interface OpenEnvironment extends Pick<Environment, 'problems'> {
  readonly task: Playable
  /** What the held-out problems are played as: another task only where they are of another benchmark. */
  readonly testTask: Playable
}

type BenchmarkTask = Extract<TaskConfig, { name: 'benchmark' }>

/**
 * The environment of a configuration. Of a benchmark `problems` gives different records, at most as many as there are.
 *
 * @throws InputError when a file cannot be read, or one side of the split holds no record
 */
export const openEnvironment = async ({ task, team: { agents } }: Pick<Config, 'task' | 'team'>): Promise<OpenEnvironment> => {
  if (task.name !== 'benchmark') {
    const game = environment(task, agents)
    return { ...game, testTask: game.task }
  }
  const [own, held] = [await benchmark(task.benchmark), task.test && await benchmark(task.test.benchmark)]
  const turns = questions(task, agents)
  const all = await read(own, task.file)
  const others = held && await read(held, task.test!.file)
  const sides = others
    ? { train: all, test: others }
    : { train: all.filter(({ asked }) => !isTest(asked)), test: all.filter(({ asked }) => isTest(asked)) }
  for (const [side, { length }] of Object.entries(sides)) {
    if (length === 0) throw new InputError(`${task.file}: holds ${all.length} records, and none for the ${side} side of the split; task.test may name a file of its own`)
  }
  return {
    task: playable(own, turns, task.judge),
    testTask: playable(held ?? own, turns, task.judge),
    problems: (split, count, random) => some(sides[split], count, random),
  }
}

/** A record, and the words that decide its side of the split. */
type Asked = RecordProblem & { readonly asked: string }

const read = async (from: Benchmark, file: string): Promise<Asked[]> => {
  const { records, errors } = uniqueRecords(await from.load(file), from.id)
  if (records.length === 0) {
    throw new InputError(`${file}: holds no record of ${from.name} that can be read${errors.length > 0 ? ` (line ${errors[0].line}: ${errors[0].error})` : ''}`)
  }
  return records.map((record) => ({ id: from.id(record), record, asked: from.prompt(record) }))
}

const playable = (from: Benchmark, turns: number, judge: BenchmarkTask['judge']): Playable => {
  if (!judge) return teamTask(from, turns) as Playable
  if (!from.game) throw new InputError(`task.judge: ${from.name} is scored without one; ar-bench-dc and ar-bench-sp take one`)
  const respond = chat({ baseUrl: judge.url, model: judge.model, apiKey: process.env.TEAMTR_JUDGE_KEY, temperature: 0, maxTokens: 512 })
  return from.game(turns, respond) as unknown as Playable
}

/** Different ones, in random order. */
const some = (records: readonly Asked[], count: number, random: Random): Problem[] =>
  random.permutation(records.length).slice(0, count).map((i) => records[i])
