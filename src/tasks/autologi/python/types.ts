import { iterate, listOf } from './containers.js'
import type { Meter } from './meter.js'
import { entriesOf } from './methods.js'
import { toFloat } from './operators.js'
import { text } from './show.js'
import {
  isInteger, isNumber, PyDict, PyFunction, PyList, PyModule, PyRange, PySet, PyTuple, PyType, PyView, raise, setOf, toBigInt, truth,
  typeName, type Value,
} from './values.js'
/** The types that are called by name. */
export const types = (meter: Meter): [string, PyType][] => {
  const setType = (name: string, frozen: boolean): PyType =>
    new PyType(
      name,
      (args) => setOf(args[0] === undefined ? [] : iterate(args[0], meter), meter, frozen),
      (value) => value instanceof PySet && value.frozen === frozen,
    )
  const fromKeys = new PyFunction('fromkeys', (args) => {
    const dict = new PyDict()
    for (const key of iterate(args[0], meter)) dict.set(key, args[1] ?? null, meter)
    return dict
  })
  return [
    [
      'object',
      new PyType(
        'object',
        () => new PyModule('object', new Map()),
        () => true,
      ),
    ],
    ['int', new PyType('int', (args, keywords) => toInt(args.length ? args[0] : 0n, args[1] ?? keywords.get('base') ?? null), isInteger)],
    [
      'float',
      new PyType(
        'float',
        (args) => toFloatValue(args.length ? args[0] : 0),
        (value) => typeof value === 'number',
      ),
    ],
    [
      'bool',
      new PyType(
        'bool',
        (args) => truth(args[0] ?? false),
        (value) => typeof value === 'boolean',
      ),
    ],
    [
      'str',
      new PyType(
        'str',
        (args) => (args.length ? text(args[0], meter) : ''),
        (value) => typeof value === 'string',
      ),
    ],
    [
      'list',
      new PyType(
        'list',
        (args) => new PyList(args.length ? listOf(args[0], meter) : []),
        (value) => value instanceof PyList && !value.deque,
      ),
    ],
    [
      'tuple',
      new PyType(
        'tuple',
        (args) => new PyTuple(args.length ? listOf(args[0], meter) : []),
        (value) => value instanceof PyTuple,
      ),
    ],
    [
      'dict',
      new PyType(
        'dict',
        (args, keywords) => {
          const dict = new PyDict()
          for (const [key, value] of [...entriesOf(args[0], meter), ...keywords]) dict.set(key, value, meter)
          return dict
        },
        (value) => value instanceof PyDict,
        undefined,
        { fromkeys: fromKeys },
      ),
    ],
    ['set', setType('set', false)],
    ['frozenset', setType('frozenset', true)],
    [
      'range',
      new PyType(
        'range',
        (args) => {
          const numbers = args.map((arg) =>
            isInteger(arg) ? toBigInt(arg) : raise('TypeError', `'${typeName(arg)}' object cannot be interpreted as an integer`),
          )
          if (numbers.length < 1 || numbers.length > 3) return raise('TypeError', `range expected 1 to 3 arguments, got ${numbers.length}`)
          if (numbers[2] === 0n) return raise('ValueError', 'range() arg 3 must not be zero')
          return numbers.length === 1 ? new PyRange(0n, numbers[0], 1n) : new PyRange(numbers[0], numbers[1], numbers[2] ?? 1n)
        },
        (value) => value instanceof PyRange,
      ),
    ],
    [
      'dict_keys',
      new PyType(
        'dict_keys',
        () => raise('TypeError', "cannot create 'dict_keys' instances"),
        (value) => value instanceof PyView && value.kind === 'keys',
      ),
    ],
  ]
}

const toInt = (value: Value, base: Value): Value => {
  if (base === null) {
    if (isInteger(value)) return toBigInt(value)
    if (typeof value === 'number') {
      if (Number.isFinite(value)) return BigInt(Math.trunc(value))
      return raise(
        Number.isNaN(value) ? 'ValueError' : 'OverflowError',
        `cannot convert float ${Number.isNaN(value) ? 'NaN' : 'infinity'} to integer`,
      )
    }
  }
  if (typeof value !== 'string')
    return raise('TypeError', `int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`)
  const radix =
    base === null
      ? 10
      : isInteger(base)
        ? Number(toBigInt(base))
        : raise('TypeError', `'${typeName(base)}' object cannot be interpreted as an integer`)
  const match = /^([+-]?)(0[xX]|0[oO]|0[bB])?([0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*)$/.exec(value.trim())
  const prefixRadix = match?.[2] ? { x: 16, o: 8, b: 2 }[match[2][1].toLowerCase()] : undefined
  const actual = radix === 0 ? prefixRadix ?? 10 : radix
  const digits = match && (match[2] && prefixRadix !== actual ? match[2] + match[3] : match[3]).replaceAll('_', '').toLowerCase()
  if (!digits || digits.length > 4300 || [...digits].some((c) => !(parseInt(c, 36) < actual))) {
    return raise('ValueError', `invalid literal for int() with base ${radix}: '${value.slice(0, 200)}'`)
  }
  const size = actual === 10 ? BigInt(digits) : [...digits].reduce((sum, c) => sum * BigInt(actual) + BigInt(parseInt(c, 36)), 0n)
  return match[1] === '-' ? -size : size
}

const toFloatValue = (value: Value): Value => {
  if (isNumber(value)) return toFloat(value)
  if (typeof value !== 'string') return raise('TypeError', `float() argument must be a string or a real number, not '${typeName(value)}'`)
  const trimmed = value.trim()
  const named = /^([+-]?)(?:(inf(?:inity)?)|nan)$/i.exec(trimmed)
  if (named) return named[2] ? (named[1] === '-' ? -Infinity : Infinity) : NaN
  if (/^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+)?$/.test(trimmed))
    return Number(trimmed.replaceAll('_', ''))
  return raise('ValueError', `could not convert string to float: '${value.slice(0, 200)}'`)
}
