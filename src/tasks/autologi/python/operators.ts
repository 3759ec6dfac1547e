import type { BinaryOperator } from './ast.js'
import { percentFormat } from './format.js'
import { MAX_BITS, Stopped, type Meter } from './meter.js'
import {
  asSet, isInteger, isNumber, less, plainNumber, PyDict, PyList, PySet, PyTuple, raise, setOf, toBigInt, truth, typeName, type Value,
} from './values.js'

/** `left operator right`. @throws Raised, Stopped */
export const binary = (operator: BinaryOperator, left: Value, right: Value, meter: Meter): Value => {
  if (isNumber(left) && isNumber(right)) return arithmetic(operator, left, right)
  if (typeof left === 'string') {
    if (operator === '%') return percentFormat(left, right, meter)
    if (operator === '+' && typeof right === 'string') {
      meter.allocate(left.length + right.length)
      return left + right
    }
  }
  if (operator === '*') {
    if (isInteger(right) && isSequence(left)) return repeat(left, toBigInt(right), meter)
    if (isInteger(left) && isSequence(right)) return repeat(right, toBigInt(left), meter)
  }
  if (operator === '+') {
    if (left instanceof PyList && right instanceof PyList && left.deque === right.deque) {
      meter.allocate(left.items.length + right.items.length)
      return new PyList([...left.items, ...right.items].slice(-left.maxLength), left.deque, left.maxLength)
    }
    if (left instanceof PyTuple && right instanceof PyTuple) {
      meter.allocate(left.items.length + right.items.length)
      return new PyTuple([...left.items, ...right.items])
    }
  }
  if (left instanceof PyDict && right instanceof PyDict) {
    if (left.kind === 'Counter' && right.kind === 'Counter' && operator in COUNTS)
      return combineCounters(left, right, COUNTS[operator], meter)
    if (operator === '|') return mergeInto(copyDict(left, meter), right, meter)
  }
  if ('-&|^'.includes(operator)) {
    const [x, y] = [asSet(left, meter), asSet(right, meter)]
    if (x && y) return setOperation(operator as SetOperator, x, y, meter)
  }
  return raise('TypeError', typeof left === 'string' && operator === '+'
    ? `can only concatenate str (not "${typeName(right)}") to str`
    : `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`)
}

/** `target operator= right`: lists, sets and dicts change in place, everything else is computed anew. */
export const inPlace = (
  operator: BinaryOperator,
  target: Value,
  right: Value,
  meter: Meter,
  iterate: (value: Value) => Iterable<Value>,
): Value => {
  if (target instanceof PyList && operator === '+') {
    const items = [...iterate(right)]
    meter.allocate(items.length)
    for (const item of items) target.items.push(item)
    if (target.items.length > target.maxLength) target.items.splice(0, target.items.length - target.maxLength)
    return target
  }
  if (target instanceof PyList && !target.deque && operator === '*' && isInteger(right)) {
    target.items = (repeat(target, toBigInt(right), meter) as PyList).items
    return target
  }
  if (target instanceof PyDict && right instanceof PyDict && operator === '|' && target.kind !== 'Counter')
    return mergeInto(target, right, meter)
  if (target instanceof PySet && !target.frozen && right instanceof PySet && '-&|^'.includes(operator)) {
    const result = setOperation(operator as SetOperator, target, right, meter)
    target.map.clear()
    for (const [key, item] of result.map) target.map.set(key, item)
    return target
  }
  return binary(operator, target, right, meter)
}

export const copyDict = (dict: PyDict, meter: Meter): PyDict => mergeInto(new PyDict(dict.kind, dict.factory), dict, meter)

export const mergeInto = (target: PyDict, other: PyDict, meter: Meter): PyDict => {
  for (const [key, value] of [...other.map.values()]) target.set(key, value, meter)
  return target
}

const COUNTS: Readonly<Record<string, (a: Value, b: Value, meter: Meter) => Value>> = {
  '+': (a, b, meter) => binary('+', a, b, meter),
  '-': (a, b, meter) => binary('-', a, b, meter),
  '|': (a, b, meter) => (less(a, b, meter) ? b : a),
  '&': (a, b, meter) => (less(b, a, meter) ? b : a),
}
/** Counts that come out positive. */
const combineCounters = (a: PyDict, b: PyDict, combine: (a: Value, b: Value, meter: Meter) => Value, meter: Meter): PyDict => {
  const result = new PyDict('Counter')
  for (const [key] of [...a.map.values(), ...b.map.values()]) {
    const count = combine(a.get(key, meter) ?? 0n, b.get(key, meter) ?? 0n, meter)
    if (less(0n, count, meter)) result.set(key, count, meter)
  }
  return result
}

export type SetOperator = '-' | '&' | '|' | '^'

/** Of the left operand's kind. */
export const setOperation = (operator: SetOperator, a: PySet, b: PySet, meter: Meter): PySet => {
  meter.tick(a.map.size + b.map.size)
  const [x, y] = [[...a.map], [...b.map]]
  const kept = operator === '|' ? [...x, ...y]
    : operator === '&' ? x.filter(([key]) => b.map.has(key))
      : operator === '-' ? x.filter(([key]) => !b.map.has(key))
        : [...x.filter(([key]) => !b.map.has(key)), ...y.filter(([key]) => !a.map.has(key))]
  return setOf(kept.map(([, item]) => item), meter, a.frozen)
}

const isSequence = (value: Value): value is string | PyList | PyTuple =>
  typeof value === 'string' || value instanceof PyList || value instanceof PyTuple

const repeat = (value: string | PyList | PyTuple, times: bigint, meter: Meter): Value => {
  const length = typeof value === 'string' ? value.length : value.items.length
  if (times >= 2n ** 63n) return raise('OverflowError', 'cannot fit \'int\' into an index-sized integer')
  const count = times < 0n || length === 0 ? 0 : Number(times)
  meter.allocate(length * count)
  if (typeof value === 'string') return value.repeat(count)
  const items = Array.from({ length: length * count }, (_, i) => value.items[i % length])
  return value instanceof PyList ? new PyList(items.slice(-value.maxLength), value.deque, value.maxLength) : new PyTuple(items)
}

// ── numbers ──

const arithmetic = (operator: BinaryOperator, left: boolean | bigint | number, right: boolean | bigint | number): Value => {
  if (typeof left === 'boolean' && typeof right === 'boolean' && '&|^'.includes(operator)) {
    return operator === '&' ? left && right : operator === '|' ? left || right : left !== right
  }
  const [a, b] = [plainNumber(left), plainNumber(right)]
  if (typeof a === 'bigint' && typeof b === 'bigint')
    return operator === '/' ? trueDivide(a, b) : operator === '**' && b < 0n ? floatPower(a, b) : integers(operator, a, b)
  if ('<<>>&|^'.includes(operator))
    return raise('TypeError', `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`)
  return floats(operator, toFloat(a), toFloat(b))
}

const SMALL = 2n ** 64n
const isSmall = (x: bigint): boolean => x < SMALL && x > -SMALL
export const bitLength = (x: bigint): number => (x === 0n ? 0 : (x < 0n ? -x : x).toString(2).length)
const checkBits = (bits: number): void => {
  if (bits > MAX_BITS) throw new Stopped(`an integer of ${bits} bits; at most ${MAX_BITS} are computed`)
}

const integers = (operator: BinaryOperator, a: bigint, b: bigint): bigint => {
  switch (operator) {
    case '+': return a + b
    case '-': return a - b
    case '*':
      if (!isSmall(a) || !isSmall(b)) checkBits(bitLength(a) + bitLength(b))
      return a * b
    case '//': return floorDivide(a, b)
    case '%': return floorModulo(a, b)
    case '**':
      if (a > 1n || a < -1n) checkBits(bitLength(a) * Number(b))
      // 0, 1 and −1: only the parity of the exponent counts
      else if (b > 2n) b = 2n + (b % 2n)
      return a ** b
    case '<<':
      if (b < 0n) return raise('ValueError', 'negative shift count')
      if (a !== 0n) checkBits(bitLength(a) + Number(b))
      return a === 0n ? 0n : a << b
    case '>>':
      if (b < 0n) return raise('ValueError', 'negative shift count')
      return b > 2n * BigInt(MAX_BITS) ? (a < 0n ? -1n : 0n) : a >> b
    case '&': return a & b
    case '|': return a | b
    case '^': return a ^ b
    default: return raise('TypeError', `unsupported operator ${operator}`)
  }
}

/** ⌊a / b⌋. */
export const floorDivide = (a: bigint, b: bigint): bigint => {
  if (b === 0n) return raise('ZeroDivisionError', 'integer division or modulo by zero')
  const quotient = a / b
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient
}
/** The remainder with the sign of b. */
export const floorModulo = (a: bigint, b: bigint): bigint => {
  if (b === 0n) return raise('ZeroDivisionError', 'integer modulo by zero')
  const remainder = a % b
  return remainder !== 0n && remainder < 0n !== b < 0n ? remainder + b : remainder
}

/** The float nearest to a / b. */
const trueDivide = (a: bigint, b: bigint): number => {
  if (b === 0n) return raise('ZeroDivisionError', 'division by zero')
  const [x, y] = [Number(a), Number(b)]
  if (Number.isSafeInteger(x) && Number.isSafeInteger(y)) return x / y
  const negative = a < 0n !== b < 0n
  const [p, q] = [a < 0n ? -a : a, b < 0n ? -b : b]
  // 66 bits of the quotient, the last one set when anything follows: enough to round once, rightly
  const shift = 66 - (bitLength(p) - bitLength(q))
  const [n, d] = shift > 0 ? [p << BigInt(shift), q] : [p, q << BigInt(-shift)]
  const quotient = n / d | (n % d === 0n ? 0n : 1n)
  const half = Math.trunc(shift / 2)
  const value = Number(quotient) * 2 ** -half * 2 ** -(shift - half)
  if (!Number.isFinite(value)) return raise('OverflowError', 'integer division result too large for a float')
  return negative ? -value : value
}

export const toFloat = (x: boolean | bigint | number): number => {
  const value = Number(x)
  return typeof x === 'bigint' && !Number.isFinite(value) ? raise('OverflowError', 'int too large to convert to float') : value
}

const floats = (operator: BinaryOperator, a: number, b: number): number => {
  switch (operator) {
    case '+': return a + b
    case '-': return a - b
    case '*': return a * b
    case '/': return b === 0 ? raise('ZeroDivisionError', 'float division by zero') : a / b
    case '//': return floatDivmod(a, b)[0]
    case '%': return floatDivmod(a, b)[1]
    default: return floatPower(a, b)
  }
}

/** As CPython does it: the remainder has the sign of b, the quotient is whole. */
export const floatDivmod = (a: number, b: number): [number, number] => {
  if (b === 0) return raise('ZeroDivisionError', 'float floor division by zero')
  let remainder = a % b
  let quotient = (a - remainder) / b
  if (remainder !== 0) {
    if (b < 0 !== remainder < 0) {
      remainder += b
      quotient -= 1
    }
  } else remainder = b < 0 ? -0 : 0
  if (quotient === 0) return [a / b < 0 || Object.is(a / b, -0) ? -0 : 0, remainder]
  const floor = Math.floor(quotient)
  return [quotient - floor > 0.5 ? floor + 1 : floor, remainder]
}

const floatPower = (x: bigint | number, y: bigint | number): number => {
  const [a, b] = [toFloat(x), toFloat(y)]
  if (a === 0 && b < 0) return raise('ZeroDivisionError', '0.0 cannot be raised to a negative power')
  if (a < 0 && Number.isFinite(a) && Number.isFinite(b) && !Number.isInteger(b)) throw new Stopped('complex numbers are not supported')
  if (a === 1 || (a === -1 && !Number.isFinite(b) && !Number.isNaN(b))) return 1
  const value = a ** b
  if (!Number.isFinite(value) && Number.isFinite(a) && Number.isFinite(b))
    return raise('OverflowError', 34n, 'Numerical result out of range')
  return value
}

/** `-x`, `+x`, `~x`, `not x`. */
export const unary = (operator: '-' | '+' | '~' | 'not', value: Value): Value => {
  if (operator === 'not') return !truth(value)
  if (isNumber(value)) {
    const x = plainNumber(value)
    if (operator === '-') return -x
    if (operator === '+') return x
    if (typeof x === 'bigint') return ~x
  }
  return raise('TypeError', `bad operand type for unary ${operator}: '${typeName(value)}'`)
}
