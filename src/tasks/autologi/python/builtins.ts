import { call, contains, iterate, iteratorOf, listOf, sorted } from './containers.js'
import { format, roundedScaled } from './format.js'
import type { Meter } from './meter.js'
import { types } from './types.js'
import { binary, bitLength, floatDivmod, floorDivide, floorModulo, toFloat } from './operators.js'
import { repr, text } from './show.js'
import {
  exceptionTypes, hasLength, isInteger, isNumber, keyOf, lengthOf, less, plainNumber, PyException, PyFunction, PyIterator, PyList, PySet,
  PySlice, PyTuple, PyType, raise, toBigInt, truth, typeName, type Call, type Value,
} from './values.js'

/** The built-in functions, types and exceptions, by name. */
export const builtins = (meter: Meter): Map<string, Value> => {
  const names = new Map<string, Value>(exceptionTypes)
  const define = (name: string, body: Call): void => void names.set(name, new PyFunction(name, body))
  const integer = (value: Value | undefined): bigint =>
    value !== undefined && isInteger(value)
      ? toBigInt(value)
      : raise('TypeError', `'${typeName(value ?? null)}' object cannot be interpreted as an integer`)
  const needs = (args: readonly Value[], least: number, most: number, name: string): void => {
    if (args.length < least || args.length > most)
      raise('TypeError', `${name} expected ${least === most ? least : `${least} to ${most}`} arguments, got ${args.length}`)
  }
  const lazy = (name: string, items: Iterator<Value>): PyIterator => new PyIterator(items, name)

  for (const [name, type] of types(meter)) names.set(name, type)
  const typeOf = (value: Value): PyType => {
    if (value instanceof PyException) return value.type
    const known = names.get(typeName(value))
    return known instanceof PyType ? known : otherType(typeName(value))
  }
  names.set('type', new PyType('type', (args) => {
    needs(args, 1, 1, 'type')
    return typeOf(args[0])
  }, (value) => value instanceof PyType))
  const isInstance = (value: Value, type: Value): boolean => {
    if (type instanceof PyTuple) return type.items.some((one) => isInstance(value, one))
    return type instanceof PyType
      ? type.isInstance(value)
      : raise('TypeError', 'isinstance() arg 2 must be a type, a tuple of types, or a union')
  }

  define('isinstance', (args) => {
    needs(args, 2, 2, 'isinstance')
    return isInstance(args[0], args[1])
  })
  define('callable', ([value]) => value instanceof PyFunction || value instanceof PyType)
  define('len', (args) => {
    needs(args, 1, 1, 'len()')
    return hasLength(args[0]) ? BigInt(lengthOf(args[0])) : raise('TypeError', `object of type '${typeName(args[0])}' has no len()`)
  })
  define('print', (args) => {
    for (const value of args) text(value, meter)
    return null
  })
  define('repr', ([value]) => repr(value, meter))
  define('ascii', ([value]) => repr(value, meter))
  define('format', ([value, spec]) => format(value, text(spec ?? '', meter), meter))
  define('chr', ([value]) => {
    const point = Number(integer(value))
    return point >= 0 && point <= 0x10ffff ? String.fromCodePoint(point) : raise('ValueError', 'chr() arg not in range(0x110000)')
  })
  define('ord', ([value]) =>
    typeof value === 'string' && [...value].length === 1 ? BigInt(value.codePointAt(0)!) : raise('TypeError', 'ord() expected a character'),
  )
  for (const [name, radix, prefix] of [['hex', 16, '0x'], ['oct', 8, '0o'], ['bin', 2, '0b']] as const) {
    define(name, ([value]) => {
      const x = integer(value)
      return `${x < 0n ? '-' : ''}${prefix}${(x < 0n ? -x : x).toString(radix)}`
    })
  }
  define('hash', ([value]) => {
    const key = keyOf(value, meter)
    if (typeof key === 'number' && Number.isInteger(key)) return BigInt(key)
    return BigInt([...String(key)].reduce((hash, c) => (Math.imul(hash, 31) + c.codePointAt(0)!) | 0, 7))
  })
  const identities = new Map<Value, bigint>()
  define('id', ([value]) => {
    if (!identities.has(value)) identities.set(value, BigInt(identities.size + 1))
    return identities.get(value)!
  })

  // ── numbers ──

  define('abs', ([value]) => {
    if (!isNumber(value)) return raise('TypeError', `bad operand type for abs(): '${typeName(value)}'`)
    const x = plainNumber(value)
    return x < 0 || Object.is(x, -0) ? -x : x
  })
  define('divmod', ([a, b]) => {
    if (!isNumber(a) || !isNumber(b))
      return raise('TypeError', `unsupported operand type(s) for divmod(): '${typeName(a)}' and '${typeName(b)}'`)
    const [x, y] = [plainNumber(a), plainNumber(b)]
    return new PyTuple(
      typeof x === 'bigint' && typeof y === 'bigint' ? [floorDivide(x, y), floorModulo(x, y)] : floatDivmod(toFloat(x), toFloat(y)),
    )
  })
  define('pow', (args, keywords) => {
    const modulus = args[2] ?? keywords.get('mod') ?? null
    if (modulus === null) return binary('**', args[0], args[1], meter)
    return modularPower(integer(args[0]), integer(args[1]), integer(modulus), meter)
  })
  define('round', (args, keywords) => {
    const [value] = args
    const digits = args[1] ?? keywords.get('ndigits') ?? null
    if (!isNumber(value)) return raise('TypeError', `type ${typeName(value)} doesn't define __round__ method`)
    const x = plainNumber(value)
    if (typeof x === 'number') return roundFloat(x, digits === null ? null : Number(integer(digits)))
    const n = digits === null ? 0 : Number(integer(digits))
    if (n >= 0) return x
    const unit = 10n ** BigInt(Math.min(-n, bitLength(x) + 1))
    const down = floorDivide(x, unit)
    const twice = floorModulo(x, unit) * 2n
    return (twice > unit || (twice === unit && down % 2n !== 0n) ? down + 1n : down) * unit
  })
  define('sum', (args, keywords) => {
    const start = args[1] ?? keywords.get('start') ?? 0n
    if (typeof start === 'string') return raise('TypeError', 'sum() can\'t sum strings [use \'\'.join(seq) instead]')
    let total: Value = start
    for (const item of iterate(args[0] ?? null, meter)) total = binary('+', total, item, meter)
    return total
  })
  const extreme = (name: string, better: (a: Value, b: Value) => boolean): void => define(name, (args, keywords) => {
    const key = keywords.get('key') ?? null
    if (args.length === 0) return raise('TypeError', `${name} expected at least 1 argument, got 0`)
    let best: { value: Value; key: Value } | undefined
    for (const value of args.length === 1 ? iterate(args[0], meter) : args) {
      const candidate = { value, key: key === null ? value : call(key, [value]) }
      if (!best || better(candidate.key, best.key)) best = candidate
    }
    if (best) return best.value
    const fallback = keywords.get('default')
    return fallback === undefined ? raise('ValueError', `${name}() arg is an empty sequence`) : fallback
  })
  extreme('min', (a, b) => less(a, b, meter))
  extreme('max', (a, b) => less(a, b, meter, '>'))

  // ── iteration ──

  define('all', ([value]) => {
    for (const item of iterate(value, meter)) if (!truth(item)) return false
    return true
  })
  define('any', ([value]) => {
    for (const item of iterate(value, meter)) if (truth(item)) return true
    return false
  })
  define('sorted', (args, keywords) => {
    needs(args, 1, 1, 'sorted')
    return new PyList(sorted(listOf(args[0], meter), keywords.get('key') ?? null, truth(keywords.get('reverse') ?? false), meter))
  })
  define('reversed', ([value]) => {
    if (value instanceof PySet || value instanceof PyIterator || !hasLength(value))
      return raise('TypeError', `'${typeName(value)}' object is not reversible`)
    const items = listOf(value, meter).reverse()
    return lazy(`${typeName(value)}_reverseiterator`, items[Symbol.iterator]())
  })
  define('iter', (args) => {
    if (args.length < 2) return iteratorOf(args[0], meter)
    return lazy('callable_iterator', (function* () {
      for (let item = call(args[0], []); !contains(new PyTuple([args[1]]), item, meter); item = call(args[0], [])) yield item
    })())
  })
  define('next', (args) => {
    if (!(args[0] instanceof PyIterator)) return raise('TypeError', `'${typeName(args[0])}' object is not an iterator`)
    meter.tick()
    const { done, value } = args[0].iterator.next()
    if (!done) return value
    return args.length > 1 ? args[1] : raise('StopIteration')
  })
  const iterators: Record<string, Call> = {
    enumerate: (args, keywords) => {
      let index = integer(args[1] ?? keywords.get('start') ?? 0n)
      const items = iterate(args[0], meter)
      return lazy('enumerate', (function* () {
        for (const item of items) yield new PyTuple([index++, item])
      })())
    },
    zip: (args, keywords) => {
      const sources = args.map((arg) => iterate(arg, meter))
      const strict = truth(keywords.get('strict') ?? false)
      return lazy('zip', (function* () {
        while (sources.length > 0) {
          const row: Value[] = []
          for (const source of sources) {
            const { done, value } = source.next()
            if (done) {
              if (strict && (row.length > 0 || sources.slice(1).some((other) => !other.next().done)))
                raise('ValueError', 'zip() arguments differ in length')
              return
            }
            row.push(value)
          }
          yield new PyTuple(row)
        }
      })())
    },
    map: (args) => {
      const sources = args.slice(1).map((arg) => iterate(arg, meter))
      return lazy('map', (function* () {
        for (;;) {
          const row: Value[] = []
          for (const source of sources) {
            const { done, value } = source.next()
            if (done) return
            row.push(value)
          }
          yield call(args[0], row)
        }
      })())
    },
    filter: ([test, value]) => {
      const items = iterate(value, meter)
      return lazy('filter', (function* () {
        for (const item of items) if (truth(test === null ? item : call(test, [item]))) yield item
      })())
    },
  }
  for (const [name, make] of Object.entries(iterators))
    names.set(name, new PyType(name, make, (value) => value instanceof PyIterator && value.typeName === name))
  names.set(
    'slice',
    new PyType(
      'slice',
      (args) => (args.length === 1 ? new PySlice(null, args[0], null) : new PySlice(args[0], args[1] ?? null, args[2] ?? null)),
      (value) => value instanceof PySlice,
    ),
  )
  names.set('__name__', '__main__')
  return names
}

const otherTypes = new Map<string, PyType>()
const otherType = (name: string): PyType => {
  const type =
    otherTypes.get(name) ??
    new PyType(
      name,
      () => raise('TypeError', `cannot create '${name}' instances`),
      (value) => typeName(value) === name,
    )
  otherTypes.set(name, type)
  return type
}

const roundFloat = (x: number, digits: number | null): Value => {
  if (!Number.isFinite(x))
    return digits !== null
      ? x
      : raise(Number.isNaN(x) ? 'ValueError' : 'OverflowError', `cannot convert float ${Number.isNaN(x) ? 'NaN' : 'infinity'} to integer`)
  if (digits === null) return roundedScaled(x, 0)
  if (digits > 330) return x
  if (digits < -330) return x < 0 ? -0 : 0
  const rounded = Number(`${roundedScaled(x, digits)}e${-digits}`)
  return rounded === 0 && (x < 0 || Object.is(x, -0)) ? -0 : rounded
}

const modularPower = (base: bigint, exponent: bigint, modulus: bigint, meter: Meter): bigint => {
  if (modulus === 0n) return raise('ValueError', 'pow() 3rd argument cannot be 0')
  if (exponent < 0n) return raise('ValueError', 'pow() with a negative exponent and a modulus is not supported')
  let result = 1n
  for (let power = floorModulo(base, modulus), rest = exponent; rest > 0n; rest >>= 1n, power = (power * power) % modulus) {
    meter.tick(1 + (bitLength(modulus) >> 4))
    if (rest & 1n) result = (result * power) % modulus
  }
  return floorModulo(result, modulus)
}
