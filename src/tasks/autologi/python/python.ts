import { messageOf } from '../../../util/errors.js'
import type { Expression } from './ast.js'
import { builtins } from './builtins.js'
import { call } from './containers.js'
import { newFrame, type Machine } from './expressions.js'
import { Stopped, type Limits } from './meter.js'
import { parseExpression, parseProgram } from './parse.js'
import { MODULE } from './scope.js'
import { compileProgram } from './statements.js'
import { PythonSyntaxError } from './tokens.js'
import { newMeter, PyDict, PyList, PyTuple, raise, Raised, setOf, type Value } from './values.js'

/**
 * A safe interpreter of a subset of Python: functions, closures, generators, comprehensions, exceptions,
 * and the built-ins, methods and modules listed in this folder. A program reaches nothing else: no file, no
 * process, no attribute with a leading `__`, and no JavaScript object. Steps, time, memory and depth
 * are bounded.
 *
 * Not in the subset: classes, `with`, `match`, `async`, complex numbers, bytes, sending into generators, modules other
 * than those in modules.ts. A program that needs them stops with a message that says so.
 */
export interface Interpreter {
  /** Runs a program; what it defines stays. @throws PythonSyntaxError, Raised, Stopped */
  run(source: string): void
  /** A global variable; undefined where there is none. */
  get(name: string): Value | undefined
  set(name: string, value: Value): void
  /** @throws Raised, Stopped */
  call(callee: Value, ...args: Value[]): Value
}

export const LIMITS: Limits = { steps: 50_000_000, milliseconds: 20_000, cells: 200_000_000 }

export const interpreter = (limits: Limits = LIMITS): Interpreter => {
  const meter = newMeter(limits)
  const machine: Machine = { meter, globals: new Map(), builtins: builtins(meter) }
  return {
    run: (source) => guarded(() => void compileProgram(parseProgram(source), MODULE, machine)(newFrame(0, null))),
    get: (name) => machine.globals.get(name),
    set: (name, value) => void machine.globals.set(name, value),
    call: (callee, ...args) => guarded(() => call(callee, args)),
  }
}

/** A full stack of ours is a limit of ours. */
const guarded = <T>(work: () => T): T => {
  try {
    return work()
  } catch (error) {
    if (error instanceof RangeError) throw new Stopped(`nested too deeply (${messageOf(error)})`)
    throw error
  }
}

/**
 * The value of a Python literal, as `ast.literal_eval` has it: numbers, strings, None, True, False, tuples, lists, sets, dicts,
 * `set()`, and signs before numbers.
 *
 * @throws PythonSyntaxError when it is anything else, Raised when a set or a dict's keys hold what cannot be hashed, Stopped
 */
export const literal = (source: string, limits: Limits = { steps: 10_000_000, milliseconds: 2000, cells: 10_000_000 }): Value => {
  const meter = newMeter(limits)
  const value = (at: Expression): Value => {
    meter.tick()
    switch (at.node) {
      case 'constant': return at.value
      case 'tuple': return new PyTuple(at.items.map(value))
      case 'list': return new PyList(at.items.map(value))
      case 'set': return setOf(at.items.map(value), meter)
      case 'dict': {
        const dict = new PyDict()
        for (const { key, value: item } of at.items) dict.set(key ? value(key) : notLiteral(), value(item), meter)
        return dict
      }
      case 'call': return at.callee.node === 'name' && at.callee.name === 'set' && at.args.length === 0 ? setOf([], meter) : notLiteral()
      case 'unary': {
        // one sign, before a number
        if ((at.operator !== '-' && at.operator !== '+') || at.operand.node !== 'constant') return notLiteral()
        const operand = at.operand.value
        if (typeof operand !== 'bigint' && typeof operand !== 'number') return notLiteral()
        return at.operator === '-' ? -operand : operand
      }
      default: return notLiteral()
    }
  }
  return guarded(() => value(parseExpression(source)))
}

const notLiteral = (): never => {
  throw new PythonSyntaxError('this is no literal')
}

export { PythonSyntaxError, raise, Raised, Stopped }
