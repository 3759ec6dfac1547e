import { all, create, type BigNumber, type Complex, type MathType } from 'mathjs'
import { random } from '../../util/random.js'
import { Unreadable } from './tokens.js'
import type { Expression, Operation } from './expression.js'

/**
 * What a formula is worth: exactly, when it is a rational number; and at a few points, its symbols
 * replaced by fixed numbers. Two formulas that agree at all points are the same function, up to
 * coincidences of many digits. Nothing is ever evaluated but a tree of the operations in `Operation`.
 */
export interface Quantity {
  readonly exact?: Rational
  /** One value a point (a single one when there are no symbols); undefined where the formula has none. */
  readonly values: readonly (NumberValue | undefined)[]
  /** A factorial or binomial coefficient of a symbol: defined at the whole points only. */
  readonly whole: boolean
}

/** Real to DIGITS digits, or complex in double precision. */
export type NumberValue = BigNumber | Complex

/** n / d in lowest terms, d > 0. */
export interface Rational {
  readonly n: bigint
  readonly d: bigint
}

/** A formula whose value, or the work for it, is out of bounds. */
export class Overflow extends Error {
  override name = 'Overflow'
}

const DIGITS = 50
/** `predictable`: √−1 of a real number is NaN, never silently complex. */
const math = create(all, { number: 'BigNumber', precision: DIGITS, predictable: true })

/** Symbols are positive at point 0, negative at 1, of any sign at 2 and 3, whole and positive from WHOLE on. */
const POINTS = 7
const WHOLE = 4
/** Integers of exact arithmetic, in bits. */
const MAX_BITS = 16384
/** Magnitudes, in decimal digits before or behind the point. */
const MAX_DIGITS = 10000

/** What one comparison may cost: a unit is a sum or product, a function costs 20. */
export interface Budget {
  left: number
}
export const budget = (): Budget => ({ left: 30_000 })

/** @throws Overflow */
export const quantity = (expression: Expression, limit: Budget): Quantity => {
  const points = hasSymbols(expression) ? POINTS : 1
  const exact = points === 1 ? rational(expression) : undefined
  const values = exact
    ? [math.divide(math.bignumber(String(exact.n)), math.bignumber(String(exact.d))) as BigNumber]
    : Array.from({ length: points }, (_, point) => valueAt(expression, point, limit))
  if (values.every((value) => value === undefined)) throw new Unreadable('the formula has no value')
  return { exact, values, whole: points > 1 && countsThings(expression) }
}

/** The same value, or the same function. */
export const sameQuantity = (a: Quantity, b: Quantity): boolean => {
  if (a.exact && b.exact) return a.exact.n === b.exact.n && a.exact.d === b.exact.d
  return (
    pairs(a, b).every(([x, y]) => (x === undefined || y === undefined ? x === y : close(x, y))) &&
    compared(a, b) >= (isConstant(a) && isConstant(b) ? 1 : 3)
  )
}

/** Whether a = c·b with one constant c ≠ 0; with `positive`, c > 0. So two equations, each brought to one side, are the same. */
export const proportional = (a: Quantity, b: Quantity, positive: boolean): boolean => {
  let ratio: NumberValue | undefined
  for (const [x, y] of pairs(a, b)) {
    if (x === undefined || y === undefined) {
      if (x !== y) return false
      continue
    }
    if (isZero(x) || isZero(y)) {
      if (!isZero(x) || !isZero(y)) return false
      continue
    }
    const [p, q] = sameKind(x, y)
    const here = math.divide(p, q) as NumberValue
    if (ratio !== undefined && !close(ratio, here)) return false
    ratio = here
  }
  return ratio !== undefined && compared(a, b) >= (isConstant(a) && isConstant(b) ? 1 : 3) && (!positive || realPart(ratio) > 0)
}

export const isConstant = (a: Quantity): boolean => a.values.length === 1

/** a · n / d. */
export const scaled = (a: Quantity, n: bigint, d: bigint): Quantity => {
  const factor = math.divide(math.bignumber(String(n)), math.bignumber(String(d))) as BigNumber
  const times = (x: NumberValue): NumberValue => math.multiply(...sameKind(x, factor)) as NumberValue
  return { exact: a.exact && reduce(a.exact.n * n, a.exact.d * d), values: a.values.map((x) => x && times(x)), whole: a.whole }
}

/** The values of both at every point where both are defined; a constant is the same at all. */
const pairs = (a: Quantity, b: Quantity): [NumberValue | undefined, NumberValue | undefined][] =>
  Array.from({ length: Math.max(a.values.length, b.values.length) }, (_, i): [NumberValue | undefined, NumberValue | undefined] => [
    a.values[isConstant(a) ? 0 : i],
    b.values[isConstant(b) ? 0 : i],
  ]).slice(a.whole || b.whole ? WHOLE : 0)

const compared = (a: Quantity, b: Quantity): number => pairs(a, b).filter(([x, y]) => x !== undefined && y !== undefined).length

const isComplex = (x: NumberValue): x is Complex => math.isComplex(x)
const realPart = (x: NumberValue): number => (isComplex(x) ? x.re : x.toNumber())
const toComplex = (x: NumberValue): Complex => (isComplex(x) ? x : math.complex(x.toNumber(), 0))
const sameKind = (x: NumberValue, y: NumberValue): [MathType, MathType] =>
  isComplex(x) || isComplex(y) ? [toComplex(x), toComplex(y)] : [x, y]
const isZero = (x: NumberValue): boolean => (isComplex(x) ? Math.hypot(x.re, x.im) < 1e-12 : x.abs().lt('1e-40'))

const close = (x: NumberValue, y: NumberValue): boolean => {
  if (!isComplex(x) && !isComplex(y)) {
    const scale = x.abs().gt(y.abs()) ? x.abs() : y.abs()
    return x.minus(y).abs().lte(scale.times('1e-30').plus('1e-40'))
  }
  const [p, q] = [toComplex(x), toComplex(y)]
  return Math.hypot(p.re - q.re, p.im - q.im) <= 1e-9 * Math.max(Math.hypot(p.re, p.im), Math.hypot(q.re, q.im)) + 1e-12
}

const hasSymbols = (expression: Expression): boolean =>
  expression.op === 'symbol' || ('args' in expression && expression.args.some(hasSymbols))

const countsThings = (expression: Expression): boolean =>
  'args' in expression && (expression.op === 'factorial' || expression.op === 'binomial' || expression.args.some(countsThings))

// ── exactly ──

/** The value of a formula of rational operations; undefined for any other, and beyond MAX_BITS. */
export const rational = (expression: Expression): Rational | undefined => {
  if (expression.op === 'number') return decimal(expression.text, expression.repeating)
  if (!('args' in expression)) return undefined
  const args: Rational[] = []
  for (const arg of expression.args) {
    const value = rational(arg)
    if (!value) return undefined
    args.push(value)
  }
  const [a, b] = args
  switch (expression.op) {
    case 'add': return reduce(a.n * b.d + b.n * a.d, a.d * b.d)
    case 'subtract': return reduce(a.n * b.d - b.n * a.d, a.d * b.d)
    case 'multiply': return reduce(a.n * b.n, a.d * b.d)
    case 'divide': return b.n === 0n ? undefined : b.n < 0n ? reduce(-a.n * b.d, -a.d * b.n) : reduce(a.n * b.d, a.d * b.n)
    case 'negate': return { n: -a.n, d: a.d }
    case 'abs': return { n: a.n < 0n ? -a.n : a.n, d: a.d }
    case 'pow': return b.d === 1n ? power(a, b.n) : undefined
    default: return undefined
  }
}

const power = (a: Rational, exponent: bigint): Rational | undefined => {
  const size = exponent < 0n ? -exponent : exponent
  const bits = BigInt(Math.max(bitLength(a.n), bitLength(a.d)))
  if (size * bits > MAX_BITS || (a.n === 0n && exponent <= 0n)) return undefined
  const [n, d] = [a.n ** size, a.d ** size]
  return exponent >= 0n ? { n, d } : n < 0n ? { n: -d, d: -n } : { n: d, d: n }
}

const decimal = (text: string, repeating = ''): Rational | undefined => {
  const [mantissa, exponent = '0'] = text.toLowerCase().split('e')
  const [whole, fraction = ''] = mantissa.split('.')
  const shift = Number(exponent) - fraction.length
  if (Math.abs(shift) > MAX_BITS / 4) return undefined
  let n = BigInt(whole + fraction)
  let d = 1n
  if (repeating) {
    // 0.1(6) = (16 − 1) / 90
    n = BigInt(whole + fraction + repeating) - n
    d = 10n ** BigInt(repeating.length) - 1n
  }
  return shift >= 0 ? reduce(n * 10n ** BigInt(shift), d) : reduce(n, d * 10n ** BigInt(-shift))
}

const reduce = (n: bigint, d: bigint): Rational | undefined => {
  if (bitLength(n) + bitLength(d) > 2 * MAX_BITS) return undefined
  let [x, y] = [n < 0n ? -n : n, d]
  while (y) [x, y] = [y, x % y]
  return { n: n / x, d: d / x }
}

const bitLength = (n: bigint): number => n.toString(16).length * 4

// ── at a point ──

/** Real first; complex where the reals have no value. Undefined where there is none at all (a pole). */
const valueAt = (expression: Expression, point: number, limit: Budget): NumberValue | undefined => {
  const real = evaluate(expression, point, false, limit) as BigNumber
  if (real.isFinite()) return real
  const value = evaluate(expression, point, true, limit) as Complex
  return Number.isFinite(value.re) && Number.isFinite(value.im) ? value : undefined
}

const NAN = math.bignumber(NaN)

const evaluate = (expression: Expression, point: number, complex: boolean, limit: Budget): NumberValue => {
  const leaf = (text: string): NumberValue => (complex ? math.complex(Number(text), 0) : math.bignumber(text))
  switch (expression.op) {
    case 'number': {
      if (!expression.repeating) return leaf(expression.text)
      const value = decimal(expression.text, expression.repeating)
      if (!value) throw new Overflow('a decimal is too long')
      return math.divide(leaf(String(value.n)) as MathType, leaf(String(value.d)) as MathType) as NumberValue
    }
    case 'symbol': return leaf(symbolValue(expression.name, point))
    case 'pi': return complex ? math.complex(Math.PI, 0) : REAL_PI
    case 'e': return complex ? math.complex(Math.E, 0) : REAL_E
    case 'i': return complex ? math.complex(0, 1) : NAN
  }
  const args = expression.args.map((arg) => evaluate(arg, point, complex, limit))
  limit.left -= CHEAP.has(expression.op) ? 1 : 20
  if (limit.left < 0) throw new Overflow('the formula is too much work')
  if (!complex && args.some((arg) => !(arg as BigNumber).isFinite())) return NAN
  const value = apply(expression, args, complex)
  if (!isComplex(value) && value.isFinite() && !value.isZero() && Math.abs(value.e) > MAX_DIGITS) throw new Overflow(TOO_LARGE)
  // −0 imaginary would choose the other side of a branch cut
  return isComplex(value) && value.im === 0 ? math.complex(value.re, 0) : value
}

const TOO_LARGE = `a number beyond ${MAX_DIGITS} digits`
const CHEAP = new Set<Operation>(['add', 'subtract', 'multiply', 'divide', 'negate', 'abs'])
const REAL_PI = math.bignumber('3.14159265358979323846264338327950288419716939937510582097494')
const REAL_E = math.bignumber('2.71828182845904523536028747135266249775724709369995957496697')

const apply = (expression: Expression & { args: readonly Expression[] }, args: NumberValue[], complex: boolean): NumberValue => {
  const [x, y] = args as [MathType & NumberValue, MathType & NumberValue]
  const as = (value: unknown): NumberValue => value as NumberValue
  switch (expression.op) {
    case 'add': return as(math.add(x, y))
    case 'subtract': return as(math.subtract(x, y))
    case 'multiply': return as(math.multiply(x, y))
    case 'divide': return as(math.divide(x, y))
    case 'negate': return as(math.unaryMinus(x))
    case 'abs': return complex ? math.complex(Number(math.abs(x as Complex)), 0) : as(math.abs(x))
    case 'floor': return as(math.floor(x as BigNumber))
    case 'ceil': return as(math.ceil(x as BigNumber))
    case 'pow': return powerOf(x, y, rational(expression.args[1]))
    case 'root': {
      const degree = rational(expression.args[1])
      return powerOf(x, as(math.divide(1, y)) as MathType & NumberValue, degree && degree.n > 0n ? { n: degree.d, d: degree.n } : undefined)
    }
    case 'log': return as(math.divide(as(math.log(x as BigNumber)) as MathType, as(math.log(y as BigNumber)) as MathType))
    case 'ln': return as(math.log(x as BigNumber))
    case 'exp':
      if (Math.abs(realPart(x)) > 2 * MAX_DIGITS) throw new Overflow(TOO_LARGE)
      return as(math.exp(x as BigNumber))
    case 'factorial': return factorial(x)
    case 'binomial': return binomial(x, y)
    case '±': case '∓': throw new Unreadable('a sign ± is not expanded')
    default:
      if (Math.abs(realPart(x)) > 1e15) throw new Overflow('the argument of a function is too large')
      return (math as unknown as Record<string, (x: NumberValue) => NumberValue>)[expression.op](x)
  }
}

/**
 * x^y. A negative real x has a real power when y is a fraction with an odd denominator (∛−8 = −2), as school
 * and contests have it; otherwise its principal value.
 */
const powerOf = (x: NumberValue, y: NumberValue, exponent: Rational | undefined): NumberValue => {
  if (!isZero(x)) {
    const magnitude = isComplex(x) ? Math.log10(Math.hypot(x.re, x.im)) : log10(x)
    if (Math.abs(realPart(y) * magnitude) > MAX_DIGITS) throw new Overflow(TOO_LARGE)
  }
  const negative = isComplex(x) ? x.im === 0 && x.re < 0 : x.isNegative()
  if (negative && exponent && exponent.d > 1n && exponent.d % 2n === 1n) {
    const size = math.pow(math.unaryMinus(x as MathType) as BigNumber, y as BigNumber) as MathType
    return (exponent.n % 2n === 0n ? size : math.unaryMinus(size)) as NumberValue
  }
  return math.pow(x as BigNumber, y as BigNumber) as NumberValue
}

const log10 = (x: BigNumber): number => (Math.abs(x.e) < 300 ? Math.log10(Math.abs(x.toNumber())) : x.e)

const asInteger = (x: NumberValue): number | undefined => {
  const value = isComplex(x) ? (x.im === 0 ? x.re : NaN) : x.toNumber()
  return Number.isInteger(value) ? value : undefined
}

const notANumber = (x: NumberValue): NumberValue => (isComplex(x) ? math.complex(NaN, NaN) : NAN)

const factorial = (x: NumberValue): NumberValue => {
  const n = asInteger(x)
  if (n === undefined || n < 0) return notANumber(x)
  if (n > 2000) throw new Overflow(TOO_LARGE)
  let product = 1n
  for (let k = 2n; k <= n; k++) product *= k
  return isComplex(x) ? math.complex(Number(product), 0) : math.bignumber(String(product))
}

/** x (x−1) … (x−k+1) / k!, for any x and a whole k ≥ 0. */
const binomial = (x: NumberValue, y: NumberValue): NumberValue => {
  const k = asInteger(y)
  if (k === undefined || k < 0) return notANumber(x)
  if (k > 500) throw new Overflow('a binomial coefficient is too large')
  let product: MathType = isComplex(x) ? math.complex(1, 0) : math.bignumber(1)
  for (let j = 0; j < k; j++) product = math.divide(math.multiply(product, math.subtract(x as MathType, j)), j + 1) as MathType
  return product as NumberValue
}

/** The number that stands for a symbol at a point: the same in every formula. */
const symbolValue = (name: string, point: number): string => {
  const stream = random([...name].reduce((hash, c) => Math.imul(hash, 31) + c.codePointAt(0)!, 7)).fork(point)
  if (point >= WHOLE) return String(3 + stream.int(9) + 9 * (point - WHOLE))
  const size = (0.3 + 2.7 * stream.next()).toFixed(6)
  return point === 1 || (point > 1 && stream.next() < 0.5) ? `-${size}` : size
}
