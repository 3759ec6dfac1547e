import { Ellipsis } from './ast.js'
import { Meter, type Limits } from './meter.js'

/**
 * Python values. `int` is bigint, `float` is number, `str`, `bool` and `None` are string, boolean and null; so no
 * value is ever two types at once, as it must be for 1 / 1.0 / True to differ and yet be equal.
 */
export type Value =
  | null | boolean | bigint | number | string | Ellipsis
  | PyList | PyTuple | PyDict | PySet | PyRange | PyView | PySlice | PyIterator | PyFunction | PyType | PyModule | PyException

/** A list, or a deque. */
export class PyList {
  constructor(
    public items: Value[],
    readonly deque: boolean = false,
    readonly maxLength: number = Infinity,
  ) {}
}

export class PyTuple {
  constructor(
    readonly items: readonly Value[],
    /** Of a named tuple: its type. */
    readonly named?: NamedTuple,
  ) {}
}
export interface NamedTuple {
  readonly name: string
  readonly fields: readonly string[]
}

/** Entries by `keyOf(key)`, in the order they came. */
export class PyDict {
  readonly map = new Map<Key, [Value, Value]>()
  constructor(
    readonly kind: 'dict' | 'defaultdict' | 'Counter' | 'OrderedDict' = 'dict',
    /** Of a defaultdict. */
    readonly factory: Value = null,
  ) {}

  get(key: Value, meter: Meter): Value | undefined {
    return this.map.get(keyOf(key, meter))?.[1]
  }
  set(key: Value, value: Value, meter: Meter): void {
    const name = keyOf(key, meter)
    const entry = this.map.get(name)
    // an equal key that is there already stays: {1: a} with True set is {1: b}
    if (entry) entry[1] = value
    else {
      meter.allocate(4)
      this.map.set(name, [key, value])
    }
  }
  delete(key: Value, meter: Meter): boolean {
    return this.map.delete(keyOf(key, meter))
  }
}

/** Members by `keyOf`, in the order they came. (CPython's order is another, and no program may rely on it.) */
export class PySet {
  readonly map = new Map<Key, Value>()
  constructor(readonly frozen: boolean = false) {}

  add(item: Value, meter: Meter): void {
    const key = keyOf(item, meter)
    if (this.map.has(key)) return
    meter.allocate(3)
    this.map.set(key, item)
  }
  has(item: Value, meter: Meter): boolean {
    return this.map.has(keyOf(item, meter))
  }
}

export class PyRange {
  readonly length: number
  constructor(
    readonly start: bigint,
    readonly stop: bigint,
    readonly step: bigint,
  ) {
    const span = step > 0n ? stop - start : start - stop
    const size = step > 0n ? step : -step
    this.length = span > 0n ? Number((span + size - 1n) / size) : 0
  }
  at(index: number): bigint {
    return this.start + BigInt(index) * this.step
  }
}

export const setOf = (items: Iterable<Value>, meter: Meter, frozen = false): PySet => {
  const set = new PySet(frozen)
  for (const item of items) set.add(item, meter)
  return set
}

/** What `keys()`, `values()` and `items()` of a dict give: it follows the dict. */
export class PyView {
  constructor(
    readonly dict: PyDict,
    readonly kind: 'keys' | 'values' | 'items',
  ) {}
}

export class PySlice {
  constructor(
    readonly start: Value,
    readonly stop: Value,
    readonly step: Value,
  ) {}
}

/** A generator, `zip`, `map`, `permutations`, … */
export class PyIterator {
  constructor(
    readonly iterator: Iterator<Value>,
    readonly typeName: string,
  ) {}
}

export type Keywords = ReadonlyMap<string, Value>
export type Call = (args: readonly Value[], keywords: Keywords) => Value
export const NO_KEYWORDS: Keywords = new Map()

export class PyFunction {
  constructor(
    readonly name: string,
    readonly call: Call,
    /** Of a built-in class method, such as `dict.fromkeys`, found on a function. */
    readonly attributes: Readonly<Record<string, Value>> = {},
  ) {}
}

/** A type: called, it converts; it is what `type(x)` gives and `isinstance` takes. */
export class PyType {
  constructor(
    readonly name: string,
    readonly call: Call,
    readonly isInstance: (value: Value) => boolean,
    /** Of exceptions. */
    readonly parent?: PyType,
    readonly attributes: Readonly<Record<string, Value>> = {},
  ) {}
}

export class PyModule {
  constructor(
    readonly name: string,
    readonly members: ReadonlyMap<string, Value>,
  ) {}
}

export class PyException {
  constructor(
    readonly type: PyType,
    readonly args: readonly Value[],
  ) {}
}

/** A Python exception on its way up. */
export class Raised extends Error {
  override name = 'Raised'
  constructor(readonly exception: PyException) {
    super(exceptionText(exception))
  }
}

const exceptionText = ({ type, args: [first] }: PyException): string =>
  first === undefined || (typeof first === 'object' && first !== null) ? type.name : `${type.name}: ${String(first)}`

// ── exceptions ──

const TREE: Readonly<Record<string, string>> = {
  Exception: 'BaseException',
  ArithmeticError: 'Exception',
  ZeroDivisionError: 'ArithmeticError',
  OverflowError: 'ArithmeticError',
  AssertionError: 'Exception',
  AttributeError: 'Exception',
  ImportError: 'Exception',
  ModuleNotFoundError: 'ImportError',
  LookupError: 'Exception',
  IndexError: 'LookupError',
  KeyError: 'LookupError',
  NameError: 'Exception',
  UnboundLocalError: 'NameError',
  RuntimeError: 'Exception',
  RecursionError: 'RuntimeError',
  NotImplementedError: 'RuntimeError',
  StopIteration: 'Exception',
  TypeError: 'Exception',
  ValueError: 'Exception',
  SyntaxError: 'Exception',
}

const exceptionType = (name: string, parent?: PyType): PyType => {
  const type: PyType = new PyType(
    name,
    (args) => new PyException(type, args),
    (value) => value instanceof PyException && isSubtype(value.type, type),
    parent,
  )
  return type
}
const isSubtype = (type: PyType | undefined, ancestor: PyType): boolean =>
  type !== undefined && (type === ancestor || isSubtype(type.parent, ancestor))

/** By name. */
export const exceptionTypes: ReadonlyMap<string, PyType> = (() => {
  const types = new Map([['BaseException', exceptionType('BaseException')]])
  const define = (name: string): PyType => {
    const known = types.get(name)
    if (known) return known
    const type = exceptionType(name, define(TREE[name]))
    types.set(name, type)
    return type
  }
  Object.keys(TREE).forEach(define)
  return types
})()

/** Throws a Python exception. */
export const raise = (type: string, ...args: Value[]): never => {
  throw new Raised(new PyException(exceptionTypes.get(type)!, args))
}

export const newMeter = (limits: Limits): Meter => new Meter(limits, () => raise('RecursionError', 'maximum recursion depth exceeded'))

// ── types, truth, equality, order ──

export const typeName = (value: Value): string => {
  if (value === null) return 'NoneType'
  switch (typeof value) {
    case 'boolean': return 'bool'
    case 'bigint': return 'int'
    case 'number': return 'float'
    case 'string': return 'str'
  }
  if (value instanceof PyList) return value.deque ? 'deque' : 'list'
  if (value instanceof PyTuple) return value.named?.name ?? 'tuple'
  if (value instanceof PyDict) return value.kind
  if (value instanceof PySet) return value.frozen ? 'frozenset' : 'set'
  if (value instanceof PyRange) return 'range'
  if (value instanceof PyView) return `dict_${value.kind}`
  if (value instanceof PySlice) return 'slice'
  if (value instanceof PyIterator) return value.typeName
  if (value instanceof PyFunction) return 'function'
  if (value instanceof PyType) return 'type'
  if (value instanceof PyModule) return 'module'
  if (value instanceof Ellipsis) return 'ellipsis'
  return value.type.name
}

export const isNumber = (value: Value): value is boolean | bigint | number =>
  typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean'
export const isInteger = (value: Value): value is boolean | bigint => typeof value === 'bigint' || typeof value === 'boolean'
export const toBigInt = (value: boolean | bigint): bigint => (typeof value === 'bigint' ? value : value ? 1n : 0n)
/** An int or float without `bool`. */
export const plainNumber = (value: boolean | bigint | number): bigint | number => (typeof value === 'boolean' ? (value ? 1n : 0n) : value)

export const truth = (value: Value): boolean => {
  if (typeof value === 'boolean') return value
  if (value === null || value === 0n || value === 0 || value === '') return false
  if (typeof value !== 'object') return true
  return !hasLength(value) || lengthOf(value) > 0
}

export const hasLength = (value: Value): value is string | PyList | PyTuple | PyDict | PySet | PyRange | PyView =>
  typeof value === 'string' ||
  value instanceof PyList ||
  value instanceof PyTuple ||
  value instanceof PyDict ||
  value instanceof PySet ||
  value instanceof PyRange ||
  value instanceof PyView

/** `len(value)`: of a string, in code points. */
export const lengthOf = (value: string | PyList | PyTuple | PyDict | PySet | PyRange | PyView): number => {
  if (typeof value === 'string') return hasSurrogates(value) ? [...value].length : value.length
  if (value instanceof PyList || value instanceof PyTuple) return value.items.length
  if (value instanceof PyRange) return value.length
  return value instanceof PyView ? value.dict.map.size : value.map.size
}

export const hasSurrogates = (text: string): boolean => /[\ud800-\udfff]/.test(text)

/** Values nest no deeper than this where they are compared, hashed or shown. */
const MAX_NESTING = 400
export const visit = (depth: number, meter: Meter): void => {
  meter.tick()
  if (depth > MAX_NESTING) raise('RecursionError', 'maximum recursion depth exceeded')
}

/** `a == b`. */
export const equal = (a: Value, b: Value, meter: Meter, depth = 0): boolean => {
  if (a === b) return true
  if (isNumber(a)) return isNumber(b) && plainNumber(a) == plainNumber(b)
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false
  visit(depth, meter)
  if (a instanceof PyList || a instanceof PyTuple) {
    if (!(a instanceof PyList ? b instanceof PyList && a.deque === b.deque : b instanceof PyTuple)) return false
    const [x, y] = [a.items, (b as PyList).items]
    return x.length === y.length && x.every((item, i) => identicalOrEqual(item, y[i], meter, depth + 1))
  }
  if (a instanceof PyDict) {
    if (!(b instanceof PyDict) || a.map.size !== b.map.size) return false
    for (const [key, [, value]] of a.map) {
      const other = b.map.get(key)
      if (!other || !identicalOrEqual(value, other[1], meter, depth + 1)) return false
    }
    return true
  }
  if (a instanceof PyRange)
    return (
      b instanceof PyRange && a.length === b.length && (a.length === 0 || (a.start === b.start && (a.length === 1 || a.step === b.step)))
    )
  const [x, y] = [asSet(a, meter), asSet(b, meter)]
  if (x && y) return x.map.size === y.map.size && [...x.map.keys()].every((key) => y.map.has(key))
  return false
}
/** How members are compared: nan is in [nan]. */
export const identicalOrEqual = (a: Value, b: Value, meter: Meter, depth = 0): boolean =>
  a === b || Object.is(a, b) || equal(a, b, meter, depth)

/** A set, or a dict's keys or items as one; undefined for anything else. */
export const asSet = (value: Value, meter: Meter): PySet | undefined => {
  if (value instanceof PySet) return value
  if (!(value instanceof PyView) || value.kind === 'values') return undefined
  const entries = [...value.dict.map.values()]
  return setOf(value.kind === 'keys' ? entries.map(([key]) => key) : entries.map((entry) => new PyTuple(entry)), meter)
}

/** `a < b`; for sets, proper inclusion. @throws Raised TypeError */
export const less = (a: Value, b: Value, meter: Meter, operator: '<' | '<=' | '>' | '>=' = '<', depth = 0): boolean => {
  if (isNumber(a) && isNumber(b)) {
    const [x, y] = [plainNumber(a), plainNumber(b)]
    return operator === '<' ? x < y : operator === '<=' ? x <= y : operator === '>' ? x > y : x >= y
  }
  if (typeof a === 'string' && typeof b === 'string') return ordered(compareText(a, b), operator)
  if ((a instanceof PyList && b instanceof PyList) || (a instanceof PyTuple && b instanceof PyTuple)) {
    visit(depth, meter)
    const [x, y] = [a.items, b.items]
    const at = x.findIndex((item, i) => i >= y.length || !identicalOrEqual(item, y[i], meter, depth + 1))
    if (at >= 0 && at < y.length) return less(x[at], y[at], meter, operator, depth + 1)
    return ordered(x.length - y.length, operator)
  }
  const [x, y] = [asSet(a, meter), asSet(b, meter)]
  if (x && y) {
    const [inner, outer] = operator === '<' || operator === '<=' ? [x, y] : [y, x]
    return [...inner.map.keys()].every((key) => outer.map.has(key)) && (operator.length === 2 || inner.map.size < outer.map.size)
  }
  return raise('TypeError', `'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`)
}

const ordered = (sign: number, operator: string): boolean =>
  operator === '<' ? sign < 0 : operator === '<=' ? sign <= 0 : operator === '>' ? sign > 0 : sign >= 0

/** By code points, not by UTF-16 units. */
const compareText = (a: string, b: string): number => {
  if (a === b) return 0
  if (!hasSurrogates(a) && !hasSurrogates(b)) return a < b ? -1 : 1
  const [x, y] = [[...a], [...b]]
  for (let i = 0; i < x.length && i < y.length; i++) if (x[i] !== y[i]) return x[i].codePointAt(0)! - y[i].codePointAt(0)!
  return x.length - y.length
}

// ── hashing ──

/** Equal values have equal keys, and only they. */
export type Key = string | number | bigint | null | object

/** @throws Raised TypeError for a list, dict or set */
export const keyOf = (value: Value, meter: Meter, depth = 0): Key => {
  switch (typeof value) {
    // strings that would look like a composite key get a mark of their own
    case 'string': return value.charCodeAt(0) === 0 ? `\0s${value}` : value
    case 'bigint': return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value
    case 'number': return Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(value) : value === 0 ? 0 : value
    case 'boolean': return value ? 1 : 0
  }
  if (value instanceof PyTuple) {
    visit(depth, meter)
    const key = `\0t${value.items.map((item) => encode(keyOf(item, meter, depth + 1))).join('')}`
    meter.allocate(key.length >> 2)
    return key
  }
  if (value instanceof PySet && value.frozen) return `\0f${[...value.map.keys()].map(encode).sort().join('')}`
  if (value instanceof PyList || value instanceof PyDict || value instanceof PySet || value instanceof PySlice)
    return raise('TypeError', `unhashable type: '${typeName(value)}'`)
  return value
}

const identities = new WeakMap<object, number>()
let nextIdentity = 0
const encode = (key: Key): string => {
  if (typeof key === 'string') return `s${key.length}:${key}`
  if (typeof key === 'number') return `n${key};`
  if (typeof key === 'bigint') return `b${key};`
  if (key === null) return 'N'
  if (!identities.has(key)) identities.set(key, nextIdentity++)
  return `o${identities.get(key)};`
}
