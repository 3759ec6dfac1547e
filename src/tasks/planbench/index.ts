import { readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { InputError, messageOf } from '../../util/errors.js'
import { readText } from '../../util/files.js'
import type { Random } from '../../util/random.js'
import type { Benchmark, BenchmarkScore } from '../benchmark.js'
import { bySchema, loadRecords, type Loaded } from '../records.js'
import { drawFrom } from '../split.js'
import { blocksOf, blocksworld, randomProblem } from './blocksworld.js'
import { failureText, parseStatement, planFromActions, planFromSentences, statementText } from './language.js'
import { parseProblem, type PlanningProblem } from './pddl.js'
import { validatePlan, type Step } from './plan.js'

/** PlanBench's plan generation in Blocksworld. */
export interface PlanningRecord {
  readonly id: string
  readonly problem: PlanningProblem
  /** PlanBench's own prompt, with one solved example, where the file holds it. */
  readonly query?: string
  /** A plan that solves it, where the file holds one. */
  readonly plan?: readonly Step[]
}

const instance = z.object({ instance_id: z.int(), query: z.string(), ground_truth_plan: z.string().optional() })

export const planbench: Benchmark<PlanningRecord> = {
  name: 'planbench',
  summary: 'PlanBench Blocksworld: a plan, in sentences or as actions, that can be carried out and reaches the goal',
  load: (file) => (isPddl(file) ? loadPddl(file) : loadRecords(file, parseInstance, 'instances')),
  id: ({ id }) => id,
  prompt: ({ query, problem }) => query ?? promptFor(problem),
  score: scorePlan,
}

/** The problem is the last [STATEMENT] of the query. */
const parseInstance = (value: unknown): PlanningRecord => {
  const { instance_id: id, query, ground_truth_plan: plan } = bySchema(instance)(value)
  try {
    const problem = parseStatement(query.slice(Math.max(0, query.lastIndexOf('[STATEMENT]'))))
    blocksOf(problem)
    return { id: String(id), problem, query, plan: plan === undefined ? undefined : planFromActions(plan) }
  } catch (error) {
    throw new InputError(`record: query: ${messageOf(error)}`)
  }
}

const isPddl = (path: string): boolean => path.endsWith('.pddl') || statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** One `.pddl` problem, or every one in a folder, by the number in its name. The id is that number, else the file's name. */
const loadPddl = async (path: string): Promise<Loaded<PlanningRecord>> => {
  const folder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  const files = folder ? readdirSync(path).filter((file) => file.endsWith('.pddl')).map((file) => join(path, file)) : [path]
  if (files.length === 0) throw new InputError(`${path}: holds no .pddl file`)
  const idOf = (file: string): string => /(\d+)\.pddl$/.exec(file)?.[1] ?? basename(file, '.pddl')
  files.sort((x, y) => idOf(x).localeCompare(idOf(y), 'en', { numeric: true }))
  const loaded: Loaded<PlanningRecord> = { records: [], errors: [] }
  files.forEach((file, i) => {
    try {
      const problem = parseProblem(readText(file), blocksworld, basename(file))
      blocksOf(problem)
      loaded.records.push({ id: idOf(file), problem })
    } catch (error) {
      if (!folder) throw error
      loaded.errors.push({ line: i + 1, error: messageOf(error) })
    }
  })
  return loaded
}

/** PlanBench's rule for sentences; where it finds no action at all, the list of actions. */
function scorePlan({ problem }: PlanningRecord, response: string): BenchmarkScore {
  const sentences = planFromSentences(response)
  const plan = sentences.length ? sentences : planFromActions(response)
  if (plan.length === 0) return { score: 0, verdict: 'invalid', reason: 'no action found' }
  const { valid, steps, failure } = validatePlan(blocksworld, problem, plan)
  return valid
    ? { score: 1, verdict: 'correct', reason: `the plan of ${steps} steps reaches the goal` }
    : { score: 0, verdict: 'wrong', reason: failureText(failure!, steps) }
}

/** Problems of n blocks from one side of the fixed split. @throws InputError for n outside 2 … 12 */
export const planningRecords = (n: number, split: 'train' | 'test', count: number, random: Random): PlanningRecord[] => {
  const records = drawFrom(split, count, () => {
    const problem = randomProblem(n, random)
    return { id: statementText(problem), problem }
  })
  if (records) return records
  throw new InputError(`planbench: no ${split} problem of ${n} blocks; take more blocks`)
}

const promptFor = (problem: PlanningRecord['problem']): string =>
  `Blocks lie on a table or on each other; a hand holds one block at most. There are four actions:
- pick up a block: it is clear and on the table, and the hand is empty
- unstack a block from on top of another block: it is clear and lies on that block, and the hand is empty
- put down a block: the hand holds it
- stack a block on top of another block: the hand holds the one, and the other is clear
A block is clear if no block is on top of it and it is not in the hand.

${statementText(problem)}

Write a plan, one action a line, each in one of these forms, and nothing else:
pick up the red block
unstack the red block from on top of the blue block
put down the red block
stack the red block on top of the blue block`
