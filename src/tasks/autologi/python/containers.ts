import type { Meter } from './meter.js'
import {
  hasSurrogates, identicalOrEqual, isInteger, less, NO_KEYWORDS, PyDict, PyFunction, PyIterator, PyList, PyRange, PySet, PySlice, PyTuple,
  PyType, PyView, raise, toBigInt, typeName, type Keywords, type Value,
} from './values.js'

/** Iteration, membership, subscripts and calls. */

export const call = (callee: Value, args: readonly Value[], keywords: Keywords = NO_KEYWORDS): Value =>
  callee instanceof PyFunction || callee instanceof PyType
    ? callee.call(args, keywords)
    : raise('TypeError', `'${typeName(callee)}' object is not callable`)

/** The elements of anything that can be iterated; each ticks. A list may change meanwhile, a dict or set may not. */
export const iterate = (value: Value, meter: Meter): IterableIterator<Value> => {
  if (value instanceof PyList || value instanceof PyTuple) return items(value, meter)
  if (value instanceof PyIterator) return drained(value.iterator, meter)
  if (value instanceof PyRange) return numbers(value, meter)
  if (typeof value === 'string') return ticking(value[Symbol.iterator](), meter)
  if (value instanceof PyDict) return unchanged(value.map, ([key]) => key, meter)
  if (value instanceof PySet) return unchanged(value.map, (item) => item, meter)
  if (value instanceof PyView) {
    if (value.kind === 'keys') return unchanged(value.dict.map, ([key]) => key, meter)
    return unchanged(value.dict.map, value.kind === 'values' ? ([, item]) => item : (entry) => new PyTuple([...entry]), meter)
  }
  return raise('TypeError', `'${typeName(value)}' object is not iterable`)
}

function* items(value: PyList | PyTuple, meter: Meter): IterableIterator<Value> {
  for (let i = 0; i < value.items.length; i++) {
    meter.tick()
    yield value.items[i]
  }
}
function* numbers(range: PyRange, meter: Meter): IterableIterator<Value> {
  for (let i = 0, x = range.start; i < range.length; i++, x += range.step) {
    meter.tick()
    yield x
  }
}
function* ticking(source: Iterator<Value>, meter: Meter): IterableIterator<Value> {
  for (let next = source.next(); !next.done; next = source.next()) {
    meter.tick()
    yield next.value
  }
}
function* unchanged<T>(map: ReadonlyMap<unknown, T>, element: (entry: T) => Value, meter: Meter): IterableIterator<Value> {
  const { size } = map
  for (const entry of map.values()) {
    meter.tick()
    yield element(entry)
    if (map.size !== size) raise('RuntimeError', 'dictionary changed size during iteration')
  }
}
/** Leaving a loop over an iterator early must not close it: the next loop goes on where this one stopped. */
const drained = (source: Iterator<Value>, meter: Meter): IterableIterator<Value> => ({
  next: () => {
    meter.tick()
    return source.next()
  },
  [Symbol.iterator]() {
    return this
  },
})

/** All elements; counted as memory. */
export const listOf = (value: Value, meter: Meter): Value[] => {
  const all: Value[] = []
  if (value instanceof PyList || value instanceof PyTuple) {
    meter.allocate(value.items.length)
    return [...value.items]
  }
  for (const item of iterate(value, meter)) {
    if ((all.length & 1023) === 0) meter.allocate(1024)
    all.push(item)
  }
  return all
}

export const iteratorOf = (value: Value, meter: Meter): PyIterator =>
  value instanceof PyIterator ? value : new PyIterator(iterate(value, meter), `${typeName(value)}_iterator`)

/** `item in container`. */
export const contains = (container: Value, item: Value, meter: Meter): boolean => {
  if (typeof container === 'string') {
    if (typeof item !== 'string') return raise('TypeError', `'in <string>' requires string as left operand, not ${typeName(item)}`)
    meter.tick(container.length >> 6)
    return container.includes(item)
  }
  if (container instanceof PyDict) return container.get(item, meter) !== undefined
  if (container instanceof PySet) return container.has(item instanceof PySet && !item.frozen ? frozen(item) : item, meter)
  if (container instanceof PyView && container.kind === 'keys') return container.dict.get(item, meter) !== undefined
  if (container instanceof PyRange && isInteger(item)) {
    const x = toBigInt(item)
    const inside = container.step > 0n ? x >= container.start && x < container.stop : x <= container.start && x > container.stop
    return inside && (x - container.start) % container.step === 0n
  }
  for (const other of iterate(container, meter)) if (identicalOrEqual(other, item, meter)) return true
  return false
}
const frozen = (set: PySet): PySet => {
  const copy = new PySet(true)
  for (const [key, item] of set.map) copy.map.set(key, item)
  return copy
}

// ── subscripts ──

/** An index as a position in a sequence of `length`. */
const position = (index: Value, length: number, what: string): number => {
  if (!isInteger(index)) return raise('TypeError', `${what} indices must be integers or slices, not ${typeName(index)}`)
  const at = Number(toBigInt(index))
  const positive = at < 0 ? at + length : at
  return positive >= 0 && positive < length ? positive : raise('IndexError', `${what} index out of range`)
}

/** The positions that a slice takes of a sequence of `length`. */
export const slicePositions = (slice: PySlice, length: number): { start: number; step: number; count: number } => {
  const bound = (value: Value, fallback: number, low: number, high: number): number => {
    if (value === null) return fallback
    if (!isInteger(value)) return raise('TypeError', 'slice indices must be integers or None or have an __index__ method')
    const at = Number(toBigInt(value))
    return Math.min(Math.max(at < 0 ? at + length : at, low), high)
  }
  const step =
    slice.step === null
      ? 1
      : isInteger(slice.step)
        ? Math.max(-(2 ** 31), Math.min(2 ** 31, Number(toBigInt(slice.step))))
        : raise('TypeError', 'slice indices must be integers or None or have an __index__ method')
  if (step === 0) return raise('ValueError', 'slice step cannot be zero')
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1]
  const start = bound(slice.start, step > 0 ? 0 : length - 1, low, high)
  const stop = bound(slice.stop, step > 0 ? length : -1, low, high)
  return { start, step, count: Math.max(0, Math.ceil((stop - start) / step)) }
}

const slice = <T>(items: ArrayLike<T>, index: PySlice, meter: Meter): T[] => {
  const { start, step, count } = slicePositions(index, items.length)
  meter.allocate(count)
  return Array.from({ length: count }, (_, i) => items[start + i * step])
}

const characters = (text: string): string | string[] => (hasSurrogates(text) ? [...text] : text)

export const getItem = (object: Value, index: Value, meter: Meter): Value => {
  if (object instanceof PyDict) return getEntry(object, index, meter)
  if (object instanceof PyList && !(object.deque && index instanceof PySlice))
    return index instanceof PySlice
      ? new PyList(slice(object.items, index, meter))
      : object.items[position(index, object.items.length, typeName(object))]
  if (object instanceof PyTuple)
    return index instanceof PySlice
      ? new PyTuple(slice(object.items, index, meter))
      : object.items[position(index, object.items.length, 'tuple')]
  if (typeof object === 'string') {
    const all = characters(object)
    return index instanceof PySlice ? slice(all, index, meter).join('') : all[position(index, all.length, 'string')]
  }
  if (object instanceof PyRange) {
    if (!(index instanceof PySlice)) return object.at(position(index, object.length, 'range object'))
    const { start, step, count } = slicePositions(index, object.length)
    return new PyRange(object.at(start), object.at(start + count * step), object.step * BigInt(step))
  }
  // `list[int]`, `dict[str, int]` in annotations that are evaluated
  if (object instanceof PyType) return object
  return raise('TypeError', `'${typeName(object)}' object is not subscriptable`)
}

const getEntry = (dict: PyDict, key: Value, meter: Meter): Value => {
  const value = dict.get(key, meter)
  if (value !== undefined) return value
  if (dict.kind === 'Counter') return 0n
  if (dict.kind === 'defaultdict' && dict.factory !== null) {
    const made = call(dict.factory, [])
    dict.set(key, made, meter)
    return made
  }
  return raise('KeyError', key)
}

export const setItem = (object: Value, index: Value, value: Value, meter: Meter): void => {
  if (object instanceof PyDict) object.set(index, value, meter)
  else if (object instanceof PyList && !(index instanceof PySlice))
    object.items[position(index, object.items.length, typeName(object))] = value
  else if (object instanceof PyList && !object.deque) assignSlice(object, index as PySlice, listOf(value, meter), meter)
  else raise('TypeError', `'${typeName(object)}' object does not support item assignment`)
}

const assignSlice = (list: PyList, index: PySlice, values: Value[], meter: Meter): void => {
  const { start, step, count } = slicePositions(index, list.items.length)
  meter.tick(list.items.length >> 3)
  if (step === 1) list.items = [...list.items.slice(0, start), ...values, ...list.items.slice(start + count)]
  else {
    if (values.length !== count)
      raise('ValueError', `attempt to assign sequence of size ${values.length} to extended slice of size ${count}`)
    values.forEach((value, i) => (list.items[start + i * step] = value))
  }
}

export const deleteItem = (object: Value, index: Value, meter: Meter): void => {
  if (object instanceof PyDict) {
    if (!object.delete(index, meter)) raise('KeyError', index)
  } else if (object instanceof PyList && !(index instanceof PySlice)) {
    meter.tick(object.items.length >> 3)
    object.items.splice(position(index, object.items.length, typeName(object)), 1)
  } else if (object instanceof PyList && !object.deque) {
    const { start, step, count } = slicePositions(index as PySlice, object.items.length)
    const gone = new Set(Array.from({ length: count }, (_, i) => start + i * step))
    object.items = object.items.filter((_, i) => !gone.has(i))
  } else raise('TypeError', `'${typeName(object)}' object doesn't support item deletion`)
}

/** Sorted by `key`, stably. */
export const sorted = (values: readonly Value[], key: Value, reverse: boolean, meter: Meter): Value[] => {
  meter.allocate(values.length * 2)
  meter.tick(values.length * 4)
  const keyed = values.map((value) => ({ value, key: key === null ? value : call(key, [value]) }))
  // reversed twice around a stable sort, equal elements keep their order
  if (reverse) keyed.reverse()
  keyed.sort((a, b) => (less(a.key, b.key, meter) ? -1 : less(b.key, a.key, meter) ? 1 : 0))
  if (reverse) keyed.reverse()
  return keyed.map(({ value }) => value)
}
