import type { Statement } from './ast.js'
import { call, deleteItem, getItem, iterate, setItem } from './containers.js'
import {
  compileExpression, compileFunction, compileTarget, deleteName, writeName, type Assign, type Evaluate, type Frame, type Machine,
} from './expressions.js'
import { Stopped } from './meter.js'
import { importModule } from './modules.js'
import { inPlace } from './operators.js'
import { find, functionScope, yields, type Scope } from './scope.js'
import { PythonSyntaxError } from './tokens.js'
import { PyException, PyIterator, PyTuple, PyType, raise, Raised, truth, type Value } from './values.js'

/** How a statement ended. */
export const End = { Normal: 0, Break: 1, Continue: 2, Return: 3 } as const
export type End = (typeof End)[keyof typeof End]

export type Run = (frame: Frame) => End
/** A statement of a generator function. */
type Yielding = (frame: Frame) => Generator<Value, End, undefined>

interface Context {
  readonly scope: Scope
  readonly machine: Machine
  readonly inFunction: boolean
  readonly inLoop: boolean
  /** Exceptions being handled, the innermost last: what a bare `raise` raises. */
  readonly handling: Raised[]
}

/** A program as a closure. @throws PythonSyntaxError */
export const compileProgram = (statements: readonly Statement[], scope: Scope, machine: Machine): Run =>
  compileBlock(statements, { scope, machine, inFunction: false, inLoop: false, handling: [] })

const compileBlock = (statements: readonly Statement[], context: Context): Run => {
  const { meter } = context.machine
  const runs = statements.map((statement) => compileStatement(statement, context))
  return (frame) => {
    for (const run of runs) {
      meter.tick()
      const end = run(frame)
      if (end !== End.Normal) return end
    }
    return End.Normal
  }
}

const compileStatement = (at: Statement, context: Context): Run => {
  const { scope, machine } = context
  const { meter } = machine
  const expression = (value: Parameters<typeof compileExpression>[0]): Evaluate => compileExpression(value, scope, machine)
  switch (at.node) {
    case 'expression': return doing(expression(at.value))
    case 'assign': {
      const value = expression(at.value)
      const targets = at.targets.map((target) => compileTarget(target, scope, machine))
      const [only] = targets
      if (targets.length === 1) return doing((frame) => only(frame, value(frame)))
      return doing((frame) => {
        const result = value(frame)
        for (const assign of targets) assign(frame, result)
      })
    }
    case 'augmented': return doing(compileAugmented(at, context))
    case 'declare': case 'pass': case 'global': case 'nonlocal': return () => End.Normal
    case 'delete': {
      const deletions = at.targets.map((target) => {
        if (target.node === 'name') return deleteName(target.name, find(target.name, scope), machine)
        if (target.node !== 'subscript') throw new PythonSyntaxError(`line ${at.line}: this cannot be deleted`)
        const [object, index] = [expression(target.object), expression(target.index)]
        return (frame: Frame) => deleteItem(object(frame), index(frame), meter)
      })
      return doing((frame) => deletions.forEach((remove) => remove(frame)))
    }
    case 'break': case 'continue': {
      if (!context.inLoop) throw new PythonSyntaxError(`line ${at.line}: "${at.node}" outside a loop`)
      const end = at.node === 'break' ? End.Break : End.Continue
      return () => end
    }
    case 'return': {
      if (!context.inFunction) throw new PythonSyntaxError(`line ${at.line}: "return" outside a function`)
      const value = at.value && expression(at.value)
      return (frame) => {
        frame.result = value ? value(frame) : null
        return End.Return
      }
    }
    case 'assert': {
      const [test, message] = [expression(at.test), at.message && expression(at.message)]
      return doing((frame) => {
        if (!truth(test(frame))) raise('AssertionError', ...(message ? [message(frame)] : []))
      })
    }
    case 'raise': {
      const value = at.value && expression(at.value)
      return doing((frame) => {
        if (!value) throw context.handling.at(-1) ?? raise('RuntimeError', 'No active exception to reraise')
        const raised = value(frame)
        const exception = raised instanceof PyType ? call(raised, []) : raised
        if (exception instanceof PyException) throw new Raised(exception)
        raise('TypeError', 'exceptions must derive from BaseException')
      })
    }
    case 'import': {
      const assign = writeName(at.as, find(at.as, scope), machine)
      return doing((frame) => assign(frame, importModule(at.module, meter)))
    }
    case 'importFrom': {
      const { names, module } = at
      if (names === null) return doing(() => importModule(module, meter).members.forEach((value, name) => machine.globals.set(name, value)))
      const targets = names.map(({ name, as }): [string, Assign] => [name, writeName(as, find(as, scope), machine)])
      return doing((frame) => {
        const { members } = importModule(module, meter)
        for (const [name, assign] of targets) {
          const value = members.get(name)
          // the member may exist in CPython: that is our limit, not the program's error
          if (value === undefined) throw new Stopped(`"${name}" of the module "${module}" is not supported`)
          assign(frame, value)
        }
      })
    }
    case 'if': {
      const [test, then, otherwise] = [expression(at.test), compileBlock(at.then, context), compileBlock(at.otherwise, context)]
      return (frame) => (truth(test(frame)) ? then(frame) : otherwise(frame))
    }
    case 'while': {
      const test = expression(at.test)
      const [body, otherwise] = [compileBlock(at.body, { ...context, inLoop: true }), compileBlock(at.otherwise, context)]
      return (frame) => {
        while (truth(test(frame))) {
          meter.tick()
          const end = body(frame)
          if (end === End.Break) return End.Normal
          if (end === End.Return) return end
        }
        return otherwise(frame)
      }
    }
    case 'for': {
      const [assign, iterable] = [compileTarget(at.target, scope, machine), expression(at.iterable)]
      const [body, otherwise] = [compileBlock(at.body, { ...context, inLoop: true }), compileBlock(at.otherwise, context)]
      return (frame) => {
        for (const item of iterate(iterable(frame), meter)) {
          assign(frame, item)
          const end = body(frame)
          if (end === End.Break) return End.Normal
          if (end === End.Return) return end
        }
        return otherwise(frame)
      }
    }
    case 'try': return compileTry(at, context)
    case 'function': return doing(compileDefinition(at, context))
  }
}

const doing = (effect: (frame: Frame) => unknown): Run => (frame) => {
  effect(frame)
  return End.Normal
}

const compileAugmented = (at: Statement & { node: 'augmented' }, { scope, machine }: Context): ((frame: Frame) => void) => {
  const { meter } = machine
  const { target, operator } = at
  const value = compileExpression(at.value, scope, machine)
  const update = (old: Value, right: Value): Value => inPlace(operator, old, right, meter, (source) => iterate(source, meter))
  if (target.node === 'subscript') {
    const [object, index] = [compileExpression(target.object, scope, machine), compileExpression(target.index, scope, machine)]
    return (frame) => {
      const [container, key] = [object(frame), index(frame)]
      setItem(container, key, update(getItem(container, key, meter), value(frame)), meter)
    }
  }
  const [read, assign] = [compileExpression(target, scope, machine), compileTarget(target, scope, machine)]
  return (frame) => {
    const old = read(frame)
    assign(frame, update(old, value(frame)))
  }
}

const compileDefinition = (at: Statement & { node: 'function' }, context: Context): ((frame: Frame) => void) => {
  const { scope, machine } = context
  const inner = functionScope(at.parameters, at.body, scope)
  const inside: Context = { scope: inner, machine, inFunction: true, inLoop: false, handling: context.handling }
  let body: (frame: Frame) => Value
  if (yields(at.body)) {
    const run = yieldingBlock(at.body, inside)
    body = (frame) => new PyIterator(run(frame), 'generator')
  } else {
    const run = compileBlock(at.body, inside)
    body = (frame) => (run(frame) === End.Return ? frame.result : null)
  }
  const make = compileFunction(at.name, at.parameters, inner, body, scope, machine)
  const decorators = at.decorators.map((decorator) => compileExpression(decorator, scope, machine))
  const assign = writeName(at.name, find(at.name, scope), machine)
  return (frame) => {
    const wrappers = decorators.map((decorator) => decorator(frame))
    assign(frame, wrappers.reduceRight((made, wrap) => call(wrap, [made]), make(frame)))
  }
}

// ── try ──

/** What was thrown, as a Python exception; a full stack is a RecursionError. Everything else goes on up. */
const asRaised = (error: unknown): Raised => {
  if (error instanceof Raised) return error
  if (error instanceof RangeError && /call stack/.test(error.message)) {
    try {
      raise('RecursionError', 'maximum recursion depth exceeded')
    } catch (raised) {
      return raised as Raised
    }
  }
  throw error
}

interface CompiledHandler<R> {
  readonly matches: (exception: PyException, frame: Frame) => boolean
  readonly bind: (frame: Frame, exception: PyException) => void
  readonly unbind: (frame: Frame) => void
  readonly body: R
}

const compileHandlers = <R,>(
  at: Statement & { node: 'try' },
  { scope, machine }: Context,
  block: (statements: readonly Statement[]) => R,
): CompiledHandler<R>[] =>
  at.handlers.map(({ type, name, body }) => {
    const types = type && compileExpression(type, scope, machine)
    const place = name === undefined ? undefined : find(name, scope)
    const [write, remove] = place ? [writeName(name!, place, machine), deleteName(name!, place, machine)] : []
    return {
      matches: (exception, frame) => {
        if (!types) return true
        const wanted = types(frame)
        return (wanted instanceof PyTuple ? wanted.items : [wanted]).some((one) =>
          one instanceof PyType
            ? one.isInstance(exception)
            : raise('TypeError', 'catching classes that do not inherit from BaseException is not allowed'),
        )
      },
      bind: (frame, exception) => write?.(frame, exception),
      unbind: (frame) => {
        try {
          remove?.(frame)
        } catch (error) {
          // the handler deleted the name itself
          if (!(error instanceof Raised)) throw error
        }
      },
      body: block(body),
    }
  })

const compileTry = (at: Statement & { node: 'try' }, context: Context): Run => {
  const { meter } = context.machine
  const block = (statements: readonly Statement[]): Run => compileBlock(statements, context)
  const [body, otherwise, last, handlers] = [block(at.body), block(at.otherwise), block(at.finally), compileHandlers(at, context, block)]
  const handled = (frame: Frame): End => {
    const { depth } = meter
    let end: End
    try {
      end = body(frame)
    } catch (error) {
      const raised = asRaised(error)
      meter.depth = depth
      const handler = handlers.find(({ matches }) => matches(raised.exception, frame))
      if (!handler) throw raised
      handler.bind(frame, raised.exception)
      context.handling.push(raised)
      try {
        return handler.body(frame)
      } finally {
        context.handling.pop()
        handler.unbind(frame)
      }
    }
    return end === End.Normal ? otherwise(frame) : end
  }
  if (at.finally.length === 0) return handled
  return (frame) => {
    let end: End = End.Normal
    let error: Raised | undefined
    try {
      end = handled(frame)
    } catch (thrown) {
      error = asRaised(thrown)
    }
    const { result } = frame
    const lastEnd = last(frame)
    if (lastEnd !== End.Normal) return lastEnd
    if (error) throw error
    frame.result = result
    return end
  }
}

// ── generator functions: the same statements, able to pause ──

const yieldingBlock = (statements: readonly Statement[], context: Context): Yielding => {
  const { meter } = context.machine
  const runs = statements.map((statement): { run?: Run; pausing?: Yielding } =>
    yields([statement]) ? { pausing: yieldingStatement(statement, context) } : { run: compileStatement(statement, context) })
  return function* (frame) {
    for (const { run, pausing } of runs) {
      meter.tick()
      const end = run ? run(frame) : yield* pausing!(frame)
      if (end !== End.Normal) return end
    }
    return End.Normal
  }
}

const yieldingStatement = (at: Statement, context: Context): Yielding => {
  const { scope, machine } = context
  const { meter } = machine
  const block = (statements: readonly Statement[], inLoop = context.inLoop): Yielding => yieldingBlock(statements, { ...context, inLoop })
  switch (at.node) {
    case 'expression': case 'assign': {
      if (at.value.node !== 'yield') break
      const value = at.value.value && compileExpression(at.value.value, scope, machine)
      const targets = at.node === 'assign' ? at.targets.map((target) => compileTarget(target, scope, machine)) : []
      const delegate = at.value.from
      return function* (frame) {
        const given = value ? value(frame) : null
        if (delegate) yield* iterate(given, meter)
        else yield given
        // nothing can be sent into a generator here: `x = yield` gives None
        for (const assign of targets) assign(frame, null)
        return End.Normal
      }
    }
    case 'if': {
      const [test, then, otherwise] = [compileExpression(at.test, scope, machine), block(at.then), block(at.otherwise)]
      return function* (frame) {
        return yield* (truth(test(frame)) ? then : otherwise)(frame)
      }
    }
    case 'while': {
      const [test, body, otherwise] = [compileExpression(at.test, scope, machine), block(at.body, true), block(at.otherwise)]
      return function* (frame) {
        while (truth(test(frame))) {
          meter.tick()
          const end = yield* body(frame)
          if (end === End.Break) return End.Normal
          if (end === End.Return) return end
        }
        return yield* otherwise(frame)
      }
    }
    case 'for': {
      const [assign, iterable] = [compileTarget(at.target, scope, machine), compileExpression(at.iterable, scope, machine)]
      const [body, otherwise] = [block(at.body, true), block(at.otherwise)]
      return function* (frame) {
        for (const item of iterate(iterable(frame), meter)) {
          assign(frame, item)
          const end = yield* body(frame)
          if (end === End.Break) return End.Normal
          if (end === End.Return) return end
        }
        return yield* otherwise(frame)
      }
    }
    default:
  }
  throw new PythonSyntaxError(`line ${at.line}: "yield" in such a statement is not in the subset of Python that is evaluated`)
}
