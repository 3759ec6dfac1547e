import { call, contains, deleteItem, getItem, iterate, listOf, sorted } from './containers.js'
import type { Meter } from './meter.js'
import { binary, bitLength, setOperation, type SetOperator } from './operators.js'
import { stringMethods } from './text.js'
import { mostCommon } from './show.js'
import {
  asSet, identicalOrEqual, isInteger, NO_KEYWORDS, PyDict, PyException, PyFunction, PyIterator, PyList, PyModule, PyRange, PySet, PyTuple,
  PyType, PyView, raise, setOf, toBigInt, truth, typeName, type Keywords, type Value,
} from './values.js'

/** Methods and attributes: those in the tables below and no others; no name that begins with two underscores. */

type Method<T> = (self: T, args: readonly Value[], keywords: Keywords, meter: Meter) => Value

/** `object.name`. @throws Raised AttributeError */
export const getAttribute = (object: Value, name: string, meter: Meter): Value => {
  if (!name.startsWith('__')) {
    if (object instanceof PyModule) {
      const member = object.members.get(name)
      if (member !== undefined) return member
      return raise('AttributeError', `module '${object.name}' has no attribute '${name}'`)
    }
    if ((object instanceof PyFunction || object instanceof PyType) && Object.hasOwn(object.attributes, name)) return object.attributes[name]
    if (object instanceof PyException && name === 'args') return new PyTuple(object.args)
    if (object instanceof PyTuple && object.named?.fields.includes(name)) return object.items[object.named.fields.indexOf(name)]
    if (object instanceof PyDict && name === 'default_factory') return object.factory
    if (isInteger(object) && (name === 'real' || name === 'numerator')) return toBigInt(object)
    // a method of a type, unbound: `str.lower`
    if (object instanceof PyType && Object.hasOwn(tables, object.name)) {
      if (Object.hasOwn(tables[object.name], name))
        return new PyFunction(name, (args, keywords) => callMethod(args[0] ?? null, name, args.slice(1), keywords, meter))
    }
    if (methodOf(object, name)) return new PyFunction(name, (args, keywords) => callMethod(object, name, args, keywords, meter))
  }
  return raise('AttributeError', `'${typeName(object)}' object has no attribute '${name}'`)
}

/** `object.name(…)`. */
export const callMethod = (object: Value, name: string, args: readonly Value[], keywords: Keywords, meter: Meter): Value => {
  const method = name.startsWith('__') ? undefined : methodOf(object, name)
  if (!method) return call(getAttribute(object, name, meter), args, keywords)
  meter.tick()
  return method(object, args, keywords, meter)
}

const methodOf = (object: Value, name: string): Method<Value> | undefined => {
  if (object instanceof PyTuple && object.named && Object.hasOwn(namedTuple, name)) return namedTuple[name] as Method<Value>
  const type = object instanceof PyTuple ? 'tuple' : object instanceof PyIterator ? 'generator' : typeName(object)
  const table = Object.hasOwn(tables, type) ? tables[type] : undefined
  return table && Object.hasOwn(table, name) ? table[name] : undefined
}

const required = (args: readonly Value[], count: number, name: string): void => {
  if (args.length < count) raise('TypeError', `${name}() takes at least ${count} argument${count === 1 ? '' : 's'} (${args.length} given)`)
}
const integer = (value: Value | undefined, fallback: number): number =>
  value === undefined || value === null
    ? fallback
    : isInteger(value)
      ? Number(toBigInt(value))
      : raise('TypeError', `'${typeName(value)}' object cannot be interpreted as an integer`)

const indexIn = (items: readonly Value[], args: readonly Value[], meter: Meter, what: string): bigint => {
  const bound = (value: Value | undefined, fallback: number): number => {
    const at = integer(value, fallback)
    return at < 0 ? Math.max(0, at + items.length) : Math.min(at, items.length)
  }
  for (let i = bound(args[1], 0); i < bound(args[2], items.length); i++) {
    meter.tick()
    if (identicalOrEqual(items[i], args[0], meter)) return BigInt(i)
  }
  return raise('ValueError', `${what} is not in the sequence`)
}
const countIn = (items: readonly Value[], args: readonly Value[], meter: Meter): bigint => {
  meter.tick(items.length)
  return BigInt(items.filter((item) => identicalOrEqual(item, args[0], meter)).length)
}

const list: Record<string, Method<PyList>> = {
  append: (self, args, _, meter) => {
    required(args, 1, 'append')
    meter.allocate(1)
    self.items.push(args[0])
    return trimmed(self, 'left')
  },
  extend: (self, args, _, meter) => {
    for (const item of listOf(args[0] ?? null, meter)) self.items.push(item)
    return trimmed(self, 'left')
  },
  insert: (self, args, _, meter) => {
    required(args, 2, 'insert')
    meter.allocate(1)
    meter.tick(self.items.length >> 3)
    self.items.splice(integer(args[0], 0), 0, args[1])
    return null
  },
  remove: (self, args, _, meter) => {
    self.items.splice(Number(indexIn(self.items, [args[0]], meter, 'the value')), 1)
    return null
  },
  pop: (self, args, _, meter) => {
    if (self.items.length === 0) return raise('IndexError', `pop from an empty ${typeName(self)}`)
    const value = args[0] === undefined ? self.items.at(-1)! : getItem(self, args[0], meter)
    if (args[0] === undefined) self.items.pop()
    else deleteItem(self, args[0], meter)
    return value
  },
  clear: (self) => {
    self.items = []
    return null
  },
  index: (self, args, _, meter) => indexIn(self.items, args, meter, 'the value'),
  count: (self, args, _, meter) => countIn(self.items, args, meter),
  sort: (self, _, keywords, meter) => {
    self.items = sorted(self.items, keywords.get('key') ?? null, truth(keywords.get('reverse') ?? false), meter)
    return null
  },
  reverse: (self, _, __, meter) => {
    meter.tick(self.items.length >> 3)
    self.items.reverse()
    return null
  },
  copy: (self, _, __, meter) => new PyList(listOf(self, meter), self.deque, self.maxLength),
}

/** A deque keeps its last (or first) `maxlen` items. */
const trimmed = (self: PyList, side: 'left' | 'right'): null => {
  if (self.items.length > self.maxLength)
    self.items = side === 'left' ? self.items.slice(-self.maxLength) : self.items.slice(0, self.maxLength)
  return null
}

const deque: Record<string, Method<PyList>> = {
  appendleft: (self, args, _, meter) => {
    meter.allocate(1)
    meter.tick(self.items.length >> 3)
    self.items.unshift(args[0])
    return trimmed(self, 'right')
  },
  extendleft: (self, args, _, meter) => {
    self.items.unshift(...listOf(args[0] ?? null, meter).reverse())
    return trimmed(self, 'right')
  },
  popleft: (self, _, __, meter) => {
    meter.tick(self.items.length >> 3)
    return self.items.length > 0 ? self.items.shift()! : raise('IndexError', 'pop from an empty deque')
  },
  rotate: (self, args, _, meter) => {
    const { length } = self.items
    if (length === 0) return null
    meter.tick(length)
    const by = ((integer(args[0], 1) % length) + length) % length
    self.items = [...self.items.slice(length - by), ...self.items.slice(0, length - by)]
    return null
  },
}

const tuple: Record<string, Method<PyTuple>> = {
  index: (self, args, _, meter) => indexIn(self.items, args, meter, 'the value'),
  count: (self, args, _, meter) => countIn(self.items, args, meter),
}
const namedTuple: Record<string, Method<PyTuple>> = {
  _asdict: (self, _, __, meter) => {
    const dict = new PyDict()
    self.named!.fields.forEach((field, i) => dict.set(field, self.items[i], meter))
    return dict
  },
  _replace: (self, _, keywords) => new PyTuple(self.items.map((item, i) => keywords.get(self.named!.fields[i]) ?? item), self.named),
}

const dict: Record<string, Method<PyDict>> = {
  keys: (self) => new PyView(self, 'keys'),
  values: (self) => new PyView(self, 'values'),
  items: (self) => new PyView(self, 'items'),
  get: (self, args, _, meter) => {
    required(args, 1, 'get')
    const value = self.get(args[0], meter)
    return value === undefined ? args[1] ?? null : value
  },
  setdefault: (self, args, _, meter) => {
    const value = self.get(args[0], meter)
    if (value !== undefined) return value
    self.set(args[0], args[1] ?? null, meter)
    return args[1] ?? null
  },
  pop: (self, args, _, meter) => {
    const value = self.get(args[0], meter)
    if (value === undefined) return args[1] === undefined ? raise('KeyError', args[0]) : args[1]
    self.delete(args[0], meter)
    return value
  },
  popitem: (self, args, keywords) => {
    const entries = [...self.map]
    if (entries.length === 0) return raise('KeyError', 'popitem(): dictionary is empty')
    const last = args[0] ?? keywords.get('last') ?? true
    const [key, entry] = truth(last) ? entries.at(-1)! : entries[0]
    self.map.delete(key)
    return new PyTuple(entry)
  },
  update: (self, args, keywords, meter) => {
    for (const [key, value] of [...entriesOf(args[0], meter), ...keywords]) {
      if (self.kind === 'Counter') self.set(key, binary('+', self.get(key, meter) ?? 0n, value, meter), meter)
      else self.set(key, value, meter)
    }
    return null
  },
  copy: (self, _, __, meter) => {
    const copy = new PyDict(self.kind, self.factory)
    for (const [key, value] of self.map.values()) copy.set(key, value, meter)
    return copy
  },
  clear: (self) => {
    self.map.clear()
    return null
  },
}

/** Entries of a mapping, or of an iterable of pairs. For a Counter's sake, a mapping's as they are. */
export const entriesOf = (source: Value | undefined, meter: Meter): [Value, Value][] => {
  if (source === undefined) return []
  if (source instanceof PyDict) {
    meter.tick(source.map.size)
    return [...source.map.values()].map(([key, value]) => [key, value])
  }
  return listOf(source, meter).map((pair, i) => {
    const items = listOf(pair, meter)
    if (items.length !== 2) return raise('ValueError', `dictionary update sequence element #${i} has length ${items.length}; 2 is required`)
    return [items[0], items[1]]
  })
}

const counter: Record<string, Method<PyDict>> = {
  most_common: (self, args, _, meter) =>
    new PyList(
      mostCommon(self, meter)
        .slice(0, args[0] === undefined || args[0] === null ? undefined : integer(args[0], 0))
        .map((pair) => new PyTuple(pair)),
    ),
  elements: (self, _, __, meter) => {
    const all: Value[] = []
    for (const [key, count] of self.map.values()) {
      const times = Math.max(0, integer(count, 0))
      meter.allocate(times)
      for (let i = 0; i < times; i++) all.push(key)
    }
    return new PyIterator(all[Symbol.iterator](), 'itertools.chain')
  },
  total: (self, _, __, meter) => [...self.map.values()].reduce<Value>((sum, [, count]) => binary('+', sum, count, meter), 0n),
  update: (self, args, keywords, meter) => {
    if (args[0] instanceof PyDict) return dict.update(self, args, keywords, meter)
    for (const item of args[0] === undefined ? [] : iterate(args[0], meter))
      self.set(item, binary('+', self.get(item, meter) ?? 0n, 1n, meter), meter)
    return dict.update(self, [], keywords, meter)
  },
  subtract: (self, args, _, meter) => {
    const other =
      args[0] instanceof PyDict ? entriesOf(args[0], meter) : listOf(args[0] ?? null, meter).map((item): [Value, Value] => [item, 1n])
    for (const [key, count] of other) self.set(key, binary('-', self.get(key, meter) ?? 0n, count, meter), meter)
    return null
  },
}
const ordered: Record<string, Method<PyDict>> = {
  move_to_end: (self, args, keywords, meter) => {
    const value = self.get(args[0], meter)
    if (value === undefined) return raise('KeyError', args[0])
    self.delete(args[0], meter)
    const rest = [...self.map]
    self.set(args[0], value, meter)
    if (truth(args[1] ?? keywords.get('last') ?? true)) return null
    for (const [key, entry] of rest) {
      self.map.delete(key)
      self.map.set(key, entry)
    }
    return null
  },
}

const toSet = (value: Value, meter: Meter): PySet => asSet(value, meter) ?? setOf(iterate(value, meter), meter)
const combined = (operator: SetOperator): Method<PySet> => (self, args, _, meter) => {
  meter.tick(self.map.size)
  // without arguments, a copy
  return args.reduce<PySet>(
    (result, other) => setOperation(operator, result, toSet(other, meter), meter),
    setOperation('|', self, new PySet(), meter),
  )
}
const combineInto = (operator: SetOperator): Method<PySet> => (self, args, keywords, meter) => {
  const result = combined(operator)(self, args, keywords, meter) as PySet
  self.map.clear()
  for (const [key, item] of result.map) self.map.set(key, item)
  return null
}

const set: Record<string, Method<PySet>> = {
  union: combined('|'),
  intersection: combined('&'),
  difference: combined('-'),
  symmetric_difference: combined('^'),
  issubset: (self, args, _, meter) => {
    const other = toSet(args[0], meter)
    meter.tick(self.map.size)
    return [...self.map.keys()].every((key) => other.map.has(key))
  },
  issuperset: (self, args, _, meter) => [...toSet(args[0], meter).map.keys()].every((key) => self.map.has(key)),
  isdisjoint: (self, args, _, meter) => ![...toSet(args[0], meter).map.keys()].some((key) => self.map.has(key)),
  copy: (self, _, __, meter) => setOf(self.map.values(), meter, self.frozen),
}
const mutableSet: Record<string, Method<PySet>> = {
  add: (self, args, _, meter) => {
    required(args, 1, 'add')
    self.add(args[0], meter)
    return null
  },
  discard: (self, args, _, meter) => {
    self.map.delete([...setOf([args[0]], meter).map.keys()][0])
    return null
  },
  remove: (self, args, _, meter) => {
    if (!contains(self, args[0], meter)) return raise('KeyError', args[0])
    return mutableSet.discard(self, args, NO_KEYWORDS, meter)
  },
  pop: (self) => {
    for (const [key, item] of self.map) {
      self.map.delete(key)
      return item
    }
    return raise('KeyError', 'pop from an empty set')
  },
  clear: (self) => {
    self.map.clear()
    return null
  },
  // one pass over each argument: `add` in a loop
  update: (self, args, _, meter) => {
    for (const other of args) for (const item of listOf(other, meter)) self.add(item, meter)
    return null
  },
  intersection_update: combineInto('&'),
  difference_update: combineInto('-'),
  symmetric_difference_update: combineInto('^'),
}

const range: Record<string, Method<PyRange>> = {
  index: (self, args, _, meter) => indexIn(listOf(self, meter), args, meter, 'the value'),
  count: (self, args, _, meter) => (contains(self, args[0], meter) ? 1n : 0n),
}
const int: Record<string, Method<boolean | bigint>> = {
  bit_length: (self) => BigInt(bitLength(toBigInt(self))),
  bit_count: (self) => BigInt(toBigInt(self).toString(2).replace(/[^1]/g, '').length),
}
const float: Record<string, Method<number>> = { is_integer: (self) => Number.isInteger(self) }
const view: Record<string, Method<PyView>> = {
  isdisjoint: (self, args, _, meter) => set.isdisjoint(toSet(self, meter), args, NO_KEYWORDS, meter),
}
const generator: Record<string, Method<PyIterator>> = {
  close: (self) => {
    self.iterator.return?.()
    return null
  },
}

type Table = Readonly<Record<string, Method<Value>>>
const tables = {
  str: stringMethods,
  list,
  tuple,
  dict,
  set: { ...set, ...mutableSet },
  frozenset: set,
  range,
  int,
  bool: int,
  float,
  generator,
  deque: { ...list, ...deque },
  defaultdict: dict,
  OrderedDict: { ...dict, ...ordered },
  Counter: { ...dict, ...counter },
  dict_keys: view,
  dict_items: view,
} as unknown as Readonly<Record<string, Table>>
