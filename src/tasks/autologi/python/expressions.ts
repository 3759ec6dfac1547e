import type { Argument, Clause, Comparison, Expression, FormattedPart, Parameters } from './ast.js'
import { call, contains, getItem, iterate, listOf, setItem } from './containers.js'
import { format } from './format.js'
import type { Meter } from './meter.js'
import { callMethod, entriesOf, getAttribute } from './methods.js'
import { binary, unary } from './operators.js'
import { comprehensionScope, find, findForWalrus, functionScope, type Place, type Scope } from './scope.js'
import { PythonSyntaxError } from './tokens.js'
import { repr, text } from './show.js'
import {
  equal, less, NO_KEYWORDS, PyDict, PyFunction, PyIterator, PyList, PySet, PySlice, PyTuple, raise, truth, typeName, type Keywords,
  type Value,
} from './values.js'

/** A call in progress: its variables and the frame of the function that it was defined in. */
export interface Frame {
  readonly slots: (Value | undefined)[]
  readonly parent: Frame | null
  /** What `return` gave. */
  result: Value
}

/** What every piece of compiled code can reach. */
export interface Machine {
  readonly meter: Meter
  readonly globals: Map<string, Value>
  readonly builtins: ReadonlyMap<string, Value>
}

export type Evaluate = (frame: Frame) => Value
export type Assign = (frame: Frame, value: Value) => void

export const newFrame = (size: number, parent: Frame | null): Frame => ({
  slots: new Array<Value | undefined>(size).fill(undefined),
  parent,
  result: null,
})

/**
 * An expression as a closure. The tree is walked once; what runs is closures over closures, which
 * call nothing but each other and the operations of this folder.
 *
 * @throws PythonSyntaxError
 */
export const compileExpression = (at: Expression, scope: Scope, machine: Machine): Evaluate => {
  const { meter } = machine
  const compile = (expression: Expression): Evaluate => compileExpression(expression, scope, machine)
  switch (at.node) {
    case 'constant': {
      const { value } = at
      return () => value
    }
    case 'name': return readName(at.name, find(at.name, scope), machine)
    case 'tuple': {
      const items = compileItems(at.items, scope, machine)
      return (frame) => new PyTuple(items(frame))
    }
    case 'list': {
      const items = compileItems(at.items, scope, machine)
      return (frame) => new PyList(items(frame))
    }
    case 'set': {
      const items = compileItems(at.items, scope, machine)
      return (frame) => {
        const set = new PySet()
        for (const item of items(frame)) set.add(item, meter)
        return set
      }
    }
    case 'dict': {
      const entries = at.items.map(({ key, value }) => ({ key: key && compile(key), value: compile(value) }))
      return (frame) => {
        const dict = new PyDict()
        for (const { key, value } of entries) {
          if (key) dict.set(key(frame), value(frame), meter)
          else for (const [name, item] of entriesOf(value(frame), meter)) dict.set(name, item, meter)
        }
        return dict
      }
    }
    case 'comprehension': return compileComprehension(at, scope, machine)
    case 'binary': {
      const [left, right, { operator }] = [compile(at.left), compile(at.right), at]
      if (operator === '+' || operator === '-') {
        const sign = operator === '+'
        return (frame) => {
          const a = left(frame)
          const b = right(frame)
          // integers, by far the most frequent case, without the general dispatch
          return typeof a === 'bigint' && typeof b === 'bigint' ? (sign ? a + b : a - b) : binary(operator, a, b, meter)
        }
      }
      return (frame) => binary(operator, left(frame), right(frame), meter)
    }
    case 'unary': {
      const [operand, { operator }] = [compile(at.operand), at]
      return operator === 'not' ? (frame) => !truth(operand(frame)) : (frame) => unary(operator, operand(frame))
    }
    case 'logical': {
      const [left, right, stop] = [compile(at.left), compile(at.right), at.operator === 'or']
      return (frame) => {
        const value = left(frame)
        return truth(value) === stop ? value : right(frame)
      }
    }
    case 'compare': {
      const left = compile(at.left)
      const rest = at.rest.map(({ operator, right }) => ({ holds: COMPARISONS[operator], right: compile(right) }))
      if (rest.length === 1) {
        const [{ holds, right }] = rest
        return (frame) => holds(left(frame), right(frame), meter)
      }
      return (frame) => {
        let a = left(frame)
        for (const { holds, right } of rest) {
          const b = right(frame)
          if (!holds(a, b, meter)) return false
          a = b
        }
        return true
      }
    }
    case 'conditional': {
      const [test, then, otherwise] = [compile(at.test), compile(at.then), compile(at.otherwise)]
      return (frame) => (truth(test(frame)) ? then(frame) : otherwise(frame))
    }
    case 'lambda': {
      const inner = functionScope(at.parameters, at.body, scope)
      const body = compileExpression(at.body, inner, machine)
      return compileFunction('<lambda>', at.parameters, inner, body, scope, machine)
    }
    case 'call': return compileCall(at.callee, at.args, scope, machine)
    case 'attribute': {
      const [object, { name }] = [compile(at.object), at]
      return (frame) => getAttribute(object(frame), name, meter)
    }
    case 'subscript': {
      const [object, index] = [compile(at.object), compile(at.index)]
      return (frame) => getItem(object(frame), index(frame), meter)
    }
    case 'slice': {
      const [start, stop, step] = [at.start, at.stop, at.step].map((part) => (part ? compile(part) : () => null))
      return (frame) => new PySlice(start(frame), stop(frame), step(frame))
    }
    case 'walrus': {
      const [value, assign] = [compile(at.value), writeName(at.name, findForWalrus(at.name, scope), machine)]
      return (frame) => {
        const result = value(frame)
        assign(frame, result)
        return result
      }
    }
    case 'formatted': return compileFormatted(at.parts, scope, machine)
    case 'starred': throw new PythonSyntaxError('a starred expression here')
    case 'yield': throw new PythonSyntaxError('"yield" inside an expression is not in the subset of Python that is evaluated')
  }
}

const COMPARISONS: Readonly<Record<Comparison, (a: Value, b: Value, meter: Meter) => boolean>> = {
  '==': equal,
  '!=': (a, b, meter) => !equal(a, b, meter),
  '<': (a, b, meter) => less(a, b, meter, '<'),
  '<=': (a, b, meter) => less(a, b, meter, '<='),
  '>': (a, b, meter) => less(a, b, meter, '>'),
  '>=': (a, b, meter) => less(a, b, meter, '>='),
  in: (a, b, meter) => contains(b, a, meter),
  'not in': (a, b, meter) => !contains(b, a, meter),
  is: (a, b) => a === b,
  'is not': (a, b) => a !== b,
}

// ── names ──

const frameAt = (frame: Frame, up: number): Frame => {
  let at = frame
  for (let i = 0; i < up; i++) at = at.parent!
  return at
}

const readName = (name: string, place: Place, { globals, builtins }: Machine): Evaluate => {
  if (place === 'global') {
    return () => {
      const value = globals.get(name) ?? (globals.has(name) ? null : builtins.get(name))
      return value === undefined ? raise('NameError', `name '${name}' is not defined`) : value
    }
  }
  const { up, slot } = place
  const missing = (): never =>
    raise(
      up === 0 ? 'UnboundLocalError' : 'NameError',
      up === 0
        ? `cannot access local variable '${name}' where it is not associated with a value`
        : `cannot access free variable '${name}' where it is not associated with a value in enclosing scope`,
    )
  if (up === 0) return (frame) => frame.slots[slot] ?? (frame.slots[slot] === null ? null : missing())
  return (frame) => {
    const value = frameAt(frame, up).slots[slot]
    return value === undefined ? missing() : value
  }
}

export const writeName = (name: string, place: Place, { globals }: Machine): Assign => {
  if (place === 'global') return (_, value) => void globals.set(name, value)
  const { up, slot } = place
  return (frame, value) => void (frameAt(frame, up).slots[slot] = value)
}

export const deleteName = (name: string, place: Place, { globals }: Machine): ((frame: Frame) => void) => {
  if (place === 'global') return () => void (globals.delete(name) || raise('NameError', `name '${name}' is not defined`))
  return (frame) => {
    const { slots } = frameAt(frame, place.up)
    if (slots[place.slot] === undefined)
      raise('UnboundLocalError', `cannot access local variable '${name}' where it is not associated with a value`)
    slots[place.slot] = undefined
  }
}

/** Assigning to a name, an element, or several at once. */
export const compileTarget = (target: Expression, scope: Scope, machine: Machine): Assign => {
  const { meter } = machine
  if (target.node === 'name') return writeName(target.name, find(target.name, scope), machine)
  if (target.node === 'subscript') {
    const [object, index] = [compileExpression(target.object, scope, machine), compileExpression(target.index, scope, machine)]
    return (frame, value) => setItem(object(frame), index(frame), value, meter)
  }
  if (target.node === 'tuple' || target.node === 'list') {
    const star = target.items.findIndex((item) => item.node === 'starred')
    const targets = target.items.map((item) => compileTarget(item.node === 'starred' ? item.value : item, scope, machine))
    return (frame, value) => {
      const values = star < 0 ? unpack(value, targets.length, meter) : unpackStarred(value, targets.length, star, meter)
      targets.forEach((assign, i) => assign(frame, values[i]))
    }
  }
  if (target.node === 'attribute') return () => void raise('AttributeError', 'attributes cannot be assigned to')
  throw new PythonSyntaxError('this cannot be assigned to')
}

const unpack = (value: Value, count: number, meter: Meter): readonly Value[] => {
  if ((value instanceof PyTuple || value instanceof PyList) && value.items.length === count)
    return value instanceof PyTuple ? value.items : [...value.items]
  const values: Value[] = []
  for (const item of iterateForUnpacking(value, meter)) {
    if (values.length === count) return raise('ValueError', `too many values to unpack (expected ${count})`)
    values.push(item)
  }
  return values.length === count ? values : raise('ValueError', `not enough values to unpack (expected ${count}, got ${values.length})`)
}
const iterateForUnpacking = (value: Value, meter: Meter): Iterable<Value> => {
  if (value === null || typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean')
    return raise('TypeError', `cannot unpack non-iterable ${typeName(value)} object`)
  return iterate(value, meter)
}

const unpackStarred = (value: Value, count: number, star: number, meter: Meter): readonly Value[] => {
  const values = listOf(value, meter)
  const after = count - 1 - star
  if (values.length < count - 1)
    return raise('ValueError', `not enough values to unpack (expected at least ${count - 1}, got ${values.length})`)
  return [...values.slice(0, star), new PyList(values.slice(star, values.length - after)), ...values.slice(values.length - after)]
}

// ── displays and calls ──

const compileItems = (items: readonly Expression[], scope: Scope, machine: Machine): ((frame: Frame) => Value[]) => {
  const { meter } = machine
  const parts = items.map((item) => ({
    star: item.node === 'starred',
    value: compileExpression(item.node === 'starred' ? item.value : item, scope, machine),
  }))
  if (!parts.some(({ star }) => star)) {
    const values = parts.map(({ value }) => value)
    return (frame) => {
      meter.allocate(values.length)
      return values.map((value) => value(frame))
    }
  }
  return (frame) => {
    const all: Value[] = []
    for (const { star, value } of parts) {
      if (star) for (const item of listOf(value(frame), meter)) all.push(item)
      else all.push(value(frame))
    }
    return all
  }
}

const compileCall = (callee: Expression, args: readonly Argument[], scope: Scope, machine: Machine): Evaluate => {
  const { meter } = machine
  const parts = args.map(({ kind, name, value }) => ({ kind, name, value: compileExpression(value, scope, machine) }))
  const simple = parts.every(({ kind }) => kind === 'positional') ? parts.map(({ value }) => value) : undefined
  const positional = (frame: Frame): Value[] => {
    if (simple) return simple.map((value) => value(frame))
    const all: Value[] = []
    for (const { kind, value } of parts) {
      if (kind === 'positional') all.push(value(frame))
      else if (kind === 'star') for (const item of listOf(value(frame), meter)) all.push(item)
    }
    return all
  }
  const named = (frame: Frame): Keywords => {
    if (simple) return NO_KEYWORDS
    const all = new Map<string, Value>()
    for (const { kind, name, value } of parts) {
      const given: [Value, Value][] =
        kind === 'keyword' ? [[name!, value(frame)]] : kind === 'doubleStar' ? entriesOf(value(frame), meter) : []
      for (const [key, item] of given) {
        if (typeof key !== 'string') return raise('TypeError', 'keywords must be strings')
        if (all.has(key)) return raise('TypeError', `got multiple values for keyword argument '${key}'`)
        all.set(key, item)
      }
    }
    return all
  }
  if (callee.node === 'attribute') {
    const [object, { name }] = [compileExpression(callee.object, scope, machine), callee]
    return (frame) => {
      const self = object(frame)
      return callMethod(self, name, positional(frame), named(frame), meter)
    }
  }
  const target = compileExpression(callee, scope, machine)
  return (frame) => {
    const called = target(frame)
    return call(called, positional(frame), named(frame))
  }
}

// ── functions ──

/** Makes the function when it is run: defaults are evaluated then, and the frame then is the function's parent. */
export const compileFunction = (
  name: string,
  parameters: Parameters,
  inner: Scope,
  body: (frame: Frame) => Value,
  scope: Scope,
  machine: Machine,
): Evaluate => {
  const { meter } = machine
  const defaults = (list: Parameters['positional']): (Evaluate | undefined)[] =>
    list.map(({ fallback }) => fallback && compileExpression(fallback, scope, machine))
  const positionalDefaults = defaults(parameters.positional)
  const keywordDefaults = defaults(parameters.keywordOnly)
  const size = inner.slots.size
  const count = parameters.positional.length
  const plain = !parameters.rest && !parameters.keywords && parameters.keywordOnly.length === 0
  return (frame) => {
    const fallbacks = positionalDefaults.map((fallback) => fallback?.(frame))
    const keywordFallbacks = keywordDefaults.map((fallback) => fallback?.(frame))
    return new PyFunction(name, (args, keywords) => {
      const local = newFrame(size, frame)
      if (plain && keywords.size === 0 && args.length === count) for (let i = 0; i < count; i++) local.slots[i] = args[i]
      else bind(name, parameters, local.slots, args, keywords, fallbacks, keywordFallbacks, meter)
      meter.enter()
      try {
        return body(local)
      } finally {
        meter.depth--
      }
    })
  }
}

const bind = (
  name: string,
  { positional, rest, keywordOnly, keywords: rest2 }: Parameters,
  slots: (Value | undefined)[],
  args: readonly Value[],
  keywords: Keywords,
  fallbacks: readonly (Value | undefined)[],
  keywordFallbacks: readonly (Value | undefined)[],
  meter: Meter,
): void => {
  const left = new Map(keywords)
  if (args.length > positional.length && !rest)
    raise('TypeError', `${name}() takes ${positional.length} positional arguments but ${args.length} were given`)
  const take = (parameter: string, slot: number, given: Value | undefined, fallback: Value | undefined): void => {
    if (left.has(parameter)) {
      if (given !== undefined) raise('TypeError', `${name}() got multiple values for argument '${parameter}'`)
      given = left.get(parameter)
      left.delete(parameter)
    }
    const value = given === undefined ? fallback : given
    slots[slot] = value === undefined ? raise('TypeError', `${name}() missing 1 required argument: '${parameter}'`) : value
  }
  let slot = 0
  positional.forEach((parameter, i) => take(parameter.name, slot++, args[i], fallbacks[i]))
  if (rest) slots[slot++] = new PyTuple(args.slice(positional.length))
  keywordOnly.forEach((parameter, i) => take(parameter.name, slot++, undefined, keywordFallbacks[i]))
  if (rest2) {
    const dict = new PyDict()
    for (const [key, value] of left) dict.set(key, value, meter)
    slots[slot] = dict
  } else if (left.size > 0) raise('TypeError', `${name}() got an unexpected keyword argument '${[...left.keys()][0]}'`)
}

// ── comprehensions ──

const compileComprehension = (at: Expression & { node: 'comprehension' }, scope: Scope, machine: Machine): Evaluate => {
  const { meter } = machine
  const inner = comprehensionScope(at.clauses, scope)
  const first = compileExpression(at.clauses[0].iterable, scope, machine)
  const clauses = at.clauses.map((clause, i) => compileClause(clause, i === 0 ? undefined : clause.iterable, inner, machine))
  const element = compileExpression(at.element, inner, machine)
  const value = at.value && compileExpression(at.value, inner, machine)
  const size = inner.slots.size

  if (at.kind === 'generator') {
    const run = function* (level: number, items: Iterable<Value>, frame: Frame): Generator<Value> {
      const { assign, conditions } = clauses[level]
      for (const item of items) {
        assign(frame, item)
        if (!conditions.every((condition) => truth(condition(frame)))) continue
        if (level === clauses.length - 1) yield element(frame)
        else yield* run(level + 1, iterate(clauses[level + 1].iterable!(frame), meter), frame)
      }
    }
    return (frame) => new PyIterator(run(0, iterate(first(frame), meter), newFrame(size, frame)), 'generator')
  }
  const run = (level: number, source: Value, frame: Frame, emit: (frame: Frame) => void): void => {
    const { assign, conditions } = clauses[level]
    items: for (const item of iterate(source, meter)) {
      assign(frame, item)
      for (const condition of conditions) if (!truth(condition(frame))) continue items
      if (level === clauses.length - 1) emit(frame)
      else run(level + 1, clauses[level + 1].iterable!(frame), frame, emit)
    }
  }
  return (frame) => {
    const source = first(frame)
    const local = newFrame(size, frame)
    if (at.kind === 'list') {
      const items: Value[] = []
      run(0, source, local, (here) => {
        meter.allocate(1)
        items.push(element(here))
      })
      return new PyList(items)
    }
    if (at.kind === 'set') {
      const set = new PySet()
      run(0, source, local, (here) => set.add(element(here), meter))
      return set
    }
    const dict = new PyDict()
    run(0, source, local, (here) => {
      const key = element(here)
      dict.set(key, value!(here), meter)
    })
    return dict
  }
}

const compileClause = (clause: Clause, iterable: Expression | undefined, scope: Scope, machine: Machine) => ({
  assign: compileTarget(clause.target, scope, machine),
  iterable: iterable && compileExpression(iterable, scope, machine),
  conditions: clause.conditions.map((condition) => compileExpression(condition, scope, machine)),
})

// ── f-strings ──

const compileFormatted = (parts: readonly FormattedPart[], scope: Scope, machine: Machine): ((frame: Frame) => string) => {
  const { meter } = machine
  const pieces = parts.map((part) => {
    if (typeof part === 'string') return () => part
    const [value, spec] = [compileExpression(part.value, scope, machine), compileFormatted(part.spec, scope, machine)]
    return (frame: Frame): string => {
      const result = value(frame)
      const converted = part.conversion === '' ? result : part.conversion === 's' ? text(result, meter) : repr(result, meter)
      return format(converted, spec(frame), meter)
    }
  })
  return (frame) => {
    const shown = pieces.map((piece) => piece(frame)).join('')
    meter.allocate(shown.length)
    return shown
  }
}
