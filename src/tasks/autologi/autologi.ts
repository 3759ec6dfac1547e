import { z } from 'zod'
import { InputError, messageOf } from '../../util/errors.js'
import { validate } from '../../util/validate.js'
import type { Benchmark, BenchmarkScore } from '../benchmark.js'
import { bySchema, loadRecords, type Loaded } from '../records.js'
import { readArrangement } from './arrangement.js'
import { listOf } from './python/containers.js'
import type { Limits } from './python/meter.js'
import { interpreter, Raised, Stopped, type Interpreter } from './python/python.js'
import { newMeter, PyFunction, PyTuple, truth, typeName, type Value } from './python/values.js'

/** A puzzle and the Python functions that check an arrangement. Any arrangement that passes is right. */
export interface AutoLogiRecord {
  readonly id: string
  readonly prompt: string
  /** Defines `inputs_check(inputs)`. */
  readonly inputsCheck: string
  /** Defines `constraint_list`. */
  readonly constraints: string
  /** Defines `count_valid_arrangements()`; not needed for scoring. */
  readonly traverse?: string
}

const row = z.object({
  idx: z.union([z.int(), z.string()]),
  prompt: z.string().min(1),
  code: z.object({ Inputs_Check_code: z.string(), Constraint_List_code: z.string(), Traverse_code: z.string().nullish() }),
})

/** Runs the definitions once, so that Python which we cannot evaluate is found here and never scored as a wrong answer. */
const parseRow = (value: unknown): AutoLogiRecord => {
  const { idx, prompt, code } = validate(row, value, 'record')
  const python = interpreter(DEFINE_LIMITS)
  const define = (name: keyof typeof code, defines: string): void => {
    try {
      python.run(code[name] ?? '')
      defined(python, defines)
    } catch (error) {
      throw new InputError(`record: code.${name}: ${messageOf(error)}`)
    }
  }
  define('Inputs_Check_code', 'inputs_check')
  define('Constraint_List_code', 'constraint_list')
  if (code.Traverse_code) define('Traverse_code', 'count_valid_arrangements')
  return {
    id: String(idx),
    prompt,
    inputsCheck: code.Inputs_Check_code,
    constraints: code.Constraint_List_code,
    ...(code.Traverse_code && { traverse: code.Traverse_code }),
  }
}

const DEFINE_LIMITS: Limits = { steps: 1_000_000, milliseconds: 5000, cells: 10_000_000 }
/** For one response. The official scorer stops after 20 s; steps make the verdict the same on every machine. */
const VERIFY_LIMITS: Limits = { steps: 20_000_000, milliseconds: 20_000, cells: 50_000_000 }
/** For a traversal of all arrangements. */
const TRAVERSE_LIMITS: Limits = { steps: 1_000_000_000, milliseconds: 600_000, cells: 4_000_000_000 }

/**
 * Score a response: the arrangement it ends with must pass `inputs_check` and every constraint. The verdict
 * `invalid` means that no arrangement could be read.
 */
const score = (record: AutoLogiRecord, response: string): BenchmarkScore => {
  const read = readArrangement(response)
  if ('failure' in read) return { score: 0, verdict: 'invalid', reason: read.failure, measures: { 'arrangements read': [0, 1] } }
  const failure = verify(record, read.value)
  const measures = { 'arrangements read': [1, 1] } as const
  return failure === undefined
    ? { score: 1, verdict: 'correct', reason: 'the arrangement passes the check of its form and every constraint', measures }
    : { score: 0, verdict: 'wrong', reason: failure, measures }
}

/** Why an arrangement is wrong; undefined when it is right. */
export const verify = (record: AutoLogiRecord, arrangement: Value, limits = VERIFY_LIMITS): string | undefined => {
  const python = interpreter(limits)
  let doing = 'the verifier'
  try {
    python.run(record.inputsCheck)
    python.run(record.constraints)
    doing = 'inputs_check'
    if (!truth(python.call(defined(python, 'inputs_check'), arrangement)))
      return 'the arrangement has not the form that is asked for (inputs_check)'
    const constraints = listOf(defined(python, 'constraint_list'), newMeter(limits))
    for (const [i, constraint] of constraints.entries()) {
      doing = constraint instanceof PyFunction ? constraint.name : `constraint ${i + 1}`
      if (!truth(python.call(constraint, arrangement))) return `the arrangement violates ${doing}`
    }
    return undefined
  } catch (error) {
    if (error instanceof Raised) return `${doing} raised ${error.message}`
    if (error instanceof Stopped) return `${doing} was stopped: ${error.message}`
    throw error
  }
}

const defined = (python: Interpreter, name: string): Value => {
  const value = python.get(name)
  if (value === undefined) throw new Stopped(`${name} is not defined`)
  return value
}

/** What the traversals call. */
const VERIFY_FUNCTION = `
def verify_function(inputs, inputs_check, constraint_list):
    return inputs_check(inputs) and all(constraint(inputs) for constraint in constraint_list)
`

/**
 * Run a record's traversal: how many arrangements there are, and how many of them are right.
 *
 * @throws Raised, Stopped
 */
export const countArrangements = (record: AutoLogiRecord, limits = TRAVERSE_LIMITS): { readonly valid: number; readonly total: number } => {
  const python = interpreter(limits)
  python.run(VERIFY_FUNCTION)
  python.run(record.inputsCheck)
  python.run(record.constraints)
  python.run(record.traverse ?? '')
  const counts = python.call(defined(python, 'count_valid_arrangements'))
  if (!(counts instanceof PyTuple) || counts.items.length !== 2)
    throw new Stopped(`count_valid_arrangements gave a ${typeName(counts)}, not two numbers`)
  return { valid: Number(counts.items[0]), total: Number(counts.items[1]) }
}

/** AutoLogi in the public format of its test set. */
export const autologi: Benchmark<AutoLogiRecord> = {
  name: 'autologi',
  summary: 'AutoLogi: an arrangement as a Python literal, checked by the puzzle\'s own functions in a safe interpreter',
  load: (file) => loadRecords(file, parseRow),
  id: (record) => record.id,
  prompt: (record) => record.prompt,
  score,
}

// ── its training data, which has no verifiers ──

const turn = z.object({ from: z.string(), value: z.string() })
const preference = z.object({ conversations: z.array(turn).min(1), chosen: turn, rejected: turn })
export type AutoLogiPreference = z.output<typeof preference>

/** Prompts with a passing and a failing answer (for preference training). */
export const loadPreferences = (file: string): Promise<Loaded<AutoLogiPreference>> => loadRecords(file, bySchema(preference))

const seed = z.object({ id: z.int(), question: z.string().min(1) })
export type AutoLogiSeed = z.output<typeof seed>

/** The seed puzzles that AutoLogi was made from. */
export const loadSeeds = (file: string): Promise<Loaded<AutoLogiSeed>> => loadRecords(file, bySchema(seed))
