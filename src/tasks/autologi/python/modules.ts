import { call, getItem, iterate, listOf } from './containers.js'
import { itertools } from './itertools.js'
import { Stopped, type Meter } from './meter.js'
import { callMethod, entriesOf } from './methods.js'
import { count, fn, functions, integer, type Members } from './module.js'
import { binary, toFloat } from './operators.js'
import {
  equal, isInteger, isNumber, keyOf, less, NO_KEYWORDS, plainNumber, PyDict, PyFunction, PyList, PyModule, PySet, PyTuple, PyType, raise,
  setOf, toBigInt, typeName, type Call, type NamedTuple, type Value,
} from './values.js'

/** The modules that may be imported, written anew here. @throws Stopped for any other */
export const importModule = (name: string, meter: Meter): PyModule => {
  if (!Object.hasOwn(MODULES, name)) throw new Stopped(`the module "${name}" is not supported`)
  return new PyModule(name, new Map(Object.entries(MODULES[name](meter))))
}

// ── collections ──

const collections = (meter: Meter): Members => {
  const dictType = (name: 'defaultdict' | 'Counter' | 'OrderedDict', make: Call): PyType =>
    new PyType(name, make, (value) => value instanceof PyDict && value.kind === name)
  return {
    defaultdict: dictType('defaultdict', (args, keywords) => {
      const dict = new PyDict('defaultdict', args[0] ?? null)
      for (const [key, value] of [...entriesOf(args[1], meter), ...keywords]) dict.set(key, value, meter)
      return dict
    }),
    OrderedDict: dictType('OrderedDict', (args, keywords) => {
      const dict = new PyDict('OrderedDict')
      for (const [key, value] of [...entriesOf(args[0], meter), ...keywords]) dict.set(key, value, meter)
      return dict
    }),
    Counter: dictType('Counter', (args, keywords) => {
      const dict = new PyDict('Counter')
      callMethod(dict, 'update', args[0] === null ? [] : args, keywords, meter)
      return dict
    }),
    deque: new PyType('deque', (args, keywords) => {
      const most = args[1] ?? keywords.get('maxlen') ?? null
      const length = most === null ? Infinity : count(most, 'maxlen')
      const items = args[0] === undefined ? [] : listOf(args[0], meter)
      return new PyList(length === 0 ? [] : items.slice(-length), true, length)
    }, (value) => value instanceof PyList && value.deque),
    namedtuple: fn('namedtuple', (args) => {
      const [name, fieldNames] = args
      if (typeof name !== 'string') return raise('TypeError', 'namedtuple() needs a name')
      const fields =
        typeof fieldNames === 'string'
          ? fieldNames.split(/[\s,]+/).filter(Boolean)
          : listOf(fieldNames, meter).map((field) =>
              typeof field === 'string' ? field : raise('TypeError', 'Type names and field names must be strings'),
            )
      if (fields.some((field) => field.startsWith('_'))) return raise('ValueError', 'Field names cannot start with an underscore')
      const named: NamedTuple = { name, fields }
      return new PyType(name, (given, keywords) => {
        if (given.length + keywords.size !== fields.length) return raise('TypeError', `${name}() takes ${fields.length} arguments`)
        return new PyTuple(
          fields.map(
            (field, i) =>
              given[i] ??
              keywords.get(field) ??
              (i < given.length ? given[i] : keywords.has(field) ? null : raise('TypeError', `${name}() misses "${field}"`)),
          ),
          named,
        )
      }, (value) => value instanceof PyTuple && value.named === named)
    }),
  }
}

// ── math and the rest ──

const real = (value: Value | undefined): number =>
  value !== undefined && isNumber(value) ? toFloat(value) : raise('TypeError', `must be real number, not ${typeName(value ?? null)}`)
const whole = (x: number): bigint =>
  Number.isFinite(x) ? BigInt(x) : raise(Number.isNaN(x) ? 'ValueError' : 'OverflowError', 'cannot convert float to integer')
const gcd = (a: bigint, b: bigint): bigint => {
  while (b) [a, b] = [b, a % b]
  return a < 0n ? -a : a
}
const squareRoot = (n: bigint): bigint => {
  if (n < 2n) return n
  let x = BigInt(Math.floor(Math.sqrt(Number(n)) || 1))
  if (!Number.isFinite(Math.sqrt(Number(n)))) x = 1n << BigInt(n.toString(2).length / 2 + 1 | 0)
  for (let y = (x + n / x) >> 1n; ; y = (x + n / x) >> 1n) {
    if (y === x || y === x + 1n || y === x - 1n) break
    x = y
  }
  while (x * x > n) x--
  while ((x + 1n) * (x + 1n) <= n) x++
  return x
}

const math = (meter: Meter): Members => {
  const onReals = (name: string, f: (x: number) => number): [string, PyFunction] => [name, fn(name, ([x]) => {
    const value = f(real(x))
    if (Number.isNaN(value) && !Number.isNaN(real(x))) return raise('ValueError', 'math domain error')
    return !Number.isFinite(value) && Number.isFinite(real(x))
      ? name.startsWith('log')
        ? raise('ValueError', 'math domain error')
        : raise('OverflowError', 'math range error')
      : value
  })]
  const falling = (n: bigint, k: bigint): bigint => {
    if (n < 0n || k < 0n) return raise('ValueError', 'n and k must be non-negative integers')
    if (k > n) return 0n
    let result = 1n
    for (let i = 0n; i < k; i++) {
      meter.tick(1 + (Number(i) >> 4))
      if (i > 20_000n) throw new Stopped('a factorial is too large')
      result *= n - i
    }
    return result
  }
  const logarithm = (value: Value, base: number | null): number => {
    const x = isNumber(value) ? plainNumber(value) : raise('TypeError', `must be real number, not ${typeName(value)}`)
    if (x <= 0) return raise('ValueError', 'math domain error')
    const digits = typeof x === 'bigint' ? x.toString().length - 300 : 0
    const natural = digits > 0 ? Math.log(Number((x as bigint) / 10n ** BigInt(digits))) + digits * Math.LN10 : Math.log(Number(x))
    return base === null ? natural : natural / Math.log(base)
  }
  return {
    pi: Math.PI,
    e: Math.E,
    tau: 2 * Math.PI,
    inf: Infinity,
    nan: NaN,
    ...Object.fromEntries([
      onReals('sqrt', Math.sqrt),
      onReals('exp', Math.exp),
      onReals('sin', Math.sin),
      onReals('cos', Math.cos),
      onReals('tan', Math.tan),
      onReals('asin', Math.asin),
      onReals('acos', Math.acos),
      onReals('atan', Math.atan),
      onReals('fabs', Math.abs),
      onReals('log2', Math.log2),
      onReals('log10', Math.log10),
      onReals('log1p', Math.log1p),
      onReals('degrees', (x) => (x * 180) / Math.PI),
      onReals('radians', (x) => (x * Math.PI) / 180),
    ]),
    ...functions({
      floor: ([x]) => (isInteger(x) ? toBigInt(x) : whole(Math.floor(real(x)))),
      ceil: ([x]) => (isInteger(x) ? toBigInt(x) : whole(Math.ceil(real(x)))),
      trunc: ([x]) => (isInteger(x) ? toBigInt(x) : whole(Math.trunc(real(x)))),
      gcd: (args) => args.reduce<bigint>((result, x) => gcd(result, integer(x)), 0n),
      lcm: (args) =>
        args.reduce<bigint>((result, x) => {
          const n = integer(x)
          return n === 0n || result === 0n ? 0n : (result / gcd(result, n)) * (n < 0n ? -n : n)
        }, 1n),
      factorial: ([n]) =>
        integer(n) < 0n ? raise('ValueError', 'factorial() not defined for negative values') : falling(integer(n), integer(n)),
      perm: ([n, k]) => falling(integer(n), k === undefined || k === null ? integer(n) : integer(k)),
      comb: ([n, k]) => {
        const [a, b] = [integer(n), integer(k)]
        const smaller = b > a - b && a >= b ? a - b : b
        return falling(a, smaller) / (falling(smaller, smaller) || 1n)
      },
      prod: (args, keywords) => {
        let result: Value = keywords.get('start') ?? 1n
        for (const item of iterate(args[0], meter)) result = binary('*', result, item, meter)
        return result
      },
      isqrt: ([n]) => (integer(n) < 0n ? raise('ValueError', 'isqrt() argument must be nonnegative') : squareRoot(integer(n))),
      log: ([x, base]) => logarithm(x, base === undefined ? null : real(base)),
      pow: ([x, y]) => binary('**', real(x), real(y), meter),
      hypot: (args) => Math.hypot(...args.map(real)),
      atan2: ([y, x]) => Math.atan2(real(y), real(x)),
      copysign: ([x, y]) => Math.abs(real(x)) * (real(y) < 0 || Object.is(real(y), -0) ? -1 : 1),
      isnan: ([x]) => Number.isNaN(real(x)),
      isinf: ([x]) => Math.abs(real(x)) === Infinity,
      isfinite: ([x]) => Number.isFinite(real(x)),
      isclose: (args, keywords) => {
        const [a, b] = [real(args[0]), real(args[1])]
        if (a === b) return true
        if (!Number.isFinite(a) || !Number.isFinite(b)) return false
        return (
          Math.abs(a - b) <=
          Math.max(real(keywords.get('rel_tol') ?? 1e-9) * Math.max(Math.abs(a), Math.abs(b)), real(keywords.get('abs_tol') ?? 0))
        )
      },
    }),
  }
}

const functools = (meter: Meter): Members => {
  const cached = (callee: Value): PyFunction => {
    const results = new Map<unknown, Value>()
    return fn('cached', (args, keywords) => {
      const key = keyOf(new PyTuple([...args, ...[...keywords].flat()]), meter)
      let result = results.get(key)
      if (result === undefined) {
        meter.allocate(4)
        results.set(key, (result = call(callee, args, keywords)))
      }
      return result
    }, { cache_clear: fn('cache_clear', () => (results.clear(), null)) })
  }
  return functions({
    reduce: (args) => {
      const items = iterate(args[1], meter)
      let result = args[2]
      if (result === undefined) {
        const { done, value } = items.next()
        if (done) return raise('TypeError', 'reduce() of empty iterable with no initial value')
        result = value
      }
      for (const item of items) result = call(args[0], [result, item])
      return result
    },
    lru_cache: (args) => (args[0] instanceof PyFunction ? cached(args[0]) : fn('decorator', ([callee]) => cached(callee))),
    cache: ([callee]) => cached(callee),
    wraps: () => fn('decorator', ([callee]) => callee),
    partial: (args, given) =>
      fn('partial', (rest, keywords) => call(args[0], [...args.slice(1), ...rest], new Map([...given, ...keywords]))),
  })
}

const copy = (meter: Meter): Members => {
  const deep = (value: Value, seen: Map<Value, Value>, depth: number): Value => {
    meter.tick()
    if (depth > 400) return raise('RecursionError', 'maximum recursion depth exceeded')
    const done = seen.get(value)
    if (done !== undefined) return done
    const remember = <T extends Value>(made: T): T => {
      seen.set(value, made)
      return made
    }
    if (value instanceof PyList) {
      const made = remember(new PyList([], value.deque, value.maxLength))
      meter.allocate(value.items.length)
      for (const item of value.items) made.items.push(deep(item, seen, depth + 1))
      return made
    }
    if (value instanceof PyTuple) return new PyTuple(value.items.map((item) => deep(item, seen, depth + 1)), value.named)
    if (value instanceof PyDict) {
      const made = remember(new PyDict(value.kind, value.factory))
      for (const [key, item] of value.map.values()) made.set(key, deep(item, seen, depth + 1), meter)
      return made
    }
    if (value instanceof PySet) return remember(setOf(value.map.values(), meter, value.frozen))
    return value
  }
  return functions({
    deepcopy: ([value]) => deep(value, new Map(), 0),
    copy: ([value]) =>
      value instanceof PyList || value instanceof PyDict || value instanceof PySet
        ? callMethod(value, 'copy', [], NO_KEYWORDS, meter)
        : value,
  })
}

const operator = (meter: Meter): Members =>
  functions({
    itemgetter: (keys) =>
      fn('itemgetter', ([object]) =>
        keys.length === 1 ? getItem(object, keys[0], meter) : new PyTuple(keys.map((key) => getItem(object, key, meter))),
      ),
    add: ([a, b]) => binary('+', a, b, meter),
    sub: ([a, b]) => binary('-', a, b, meter),
    mul: ([a, b]) => binary('*', a, b, meter),
    eq: ([a, b]) => equal(a, b, meter),
    ne: ([a, b]) => !equal(a, b, meter),
    lt: ([a, b]) => less(a, b, meter),
    gt: ([a, b]) => less(a, b, meter, '>'),
  })

/** Names that matter only in annotations. */
const typing = (): Members =>
  Object.fromEntries(
    (
      'Any Callable Counter DefaultDict Deque Dict FrozenSet Generator Iterable Iterator List Literal Mapping NamedTuple Optional ' +
      'Sequence Set Tuple Type TypeVar Union'
    )
      .split(' ')
      .map((name) => [
        name,
        new PyType(
          name,
          () => null,
          () => false,
        ),
      ]),
  )

const MODULES: Readonly<Record<string, (meter: Meter) => Members>> = {
  itertools, collections, math, functools, copy, operator, typing,
  string: () => ({
    ascii_lowercase: 'abcdefghijklmnopqrstuvwxyz', ascii_uppercase: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
    ascii_letters: 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', digits: '0123456789',
  }),
  sys: () => ({ maxsize: 9223372036854775807n, ...functions({ setrecursionlimit: () => null, getrecursionlimit: () => 1000n }) }),
}
