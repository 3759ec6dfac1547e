import type { Meter } from './meter.js'
import { floatRepr, repr, text } from './show.js'
import {
  hasSurrogates, isInteger, isNumber, plainNumber, PyDict, PyList, PyRange, PyTuple, raise, toBigInt, typeName, type Value,
} from './values.js'

/** `format(value, spec)`, `'…'.format(…)`, `'…' % …`, and rounding to decimals. */

/** x · 10^digits rounded half to even, exactly. */
export const roundedScaled = (x: number, digits: number): bigint => {
  const [mantissa, exponent] = decompose(x)
  let n = mantissa
  let d = 1n
  if (exponent >= 0) n <<= BigInt(exponent)
  else d <<= BigInt(-exponent)
  if (digits >= 0) n *= 10n ** BigInt(digits)
  else d *= 10n ** BigInt(-digits)
  const negative = n < 0n
  if (negative) n = -n
  const twice = (n % d) * 2n
  let quotient = n / d
  if (twice > d || (twice === d && quotient % 2n === 1n)) quotient++
  return negative ? -quotient : quotient
}

/** x = mantissa · 2^exponent, exactly. */
const decompose = (x: number): [bigint, number] => {
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, x)
  const word = bits.getBigUint64(0)
  const exponent = Number((word >> 52n) & 0x7ffn)
  const fraction = word & 0xfffffffffffffn
  const mantissa = exponent === 0 ? fraction : fraction | (1n << 52n)
  return [word >> 63n ? -mantissa : mantissa, Math.max(exponent, 1) - 1075]
}

/** |x| with `digits` decimals, half to even on the exact value. */
const fixed = (x: number, digits: number): string => {
  const scaled = String(roundedScaled(Math.abs(x), digits)).padStart(digits + 1, '0')
  return digits === 0 ? scaled : `${scaled.slice(0, -digits)}.${scaled.slice(-digits)}`
}

/** |x| in scientific notation with `digits` decimals, half to even on the exact value (JavaScript rounds ties up). */
const scientific = (x: number, digits: number): string => {
  if (x === 0) return `${digits ? `0.${'0'.repeat(digits)}` : '0'}e+00`
  let exponent = Number(x.toExponential().split('e')[1])
  let scaled = String(roundedScaled(x, digits - exponent))
  if (scaled.length > digits + 1) scaled = String(roundedScaled(x, digits - ++exponent))
  return `${scaled[0]}${digits ? `.${scaled.slice(1)}` : ''}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** %g: `digits` significant digits, without trailing zeros unless `keep`. */
const general = (x: number, digits: number, keep: boolean): string => {
  const precision = Math.max(digits, 1)
  const [mantissa, exponentText] = scientific(x, precision - 1).split('e')
  const exponent = Number(exponentText)
  const trim = (number: string): string => (keep || !number.includes('.') ? number : number.replace(/\.?0+$/, ''))
  if (exponent < -4 || exponent >= precision) return `${trim(mantissa)}e${exponentText}`
  return trim(fixed(x, precision - 1 - exponent))
}

const MAX_PRECISION = 1000
const SPECIFICATION = /^(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d{1,9})?([,_])?(?:\.(\d{1,9}))?([a-zA-Z%])?$/su

/** `format(value, spec)`. */
export const format = (value: Value, spec: string, meter: Meter): string => {
  if (spec === '') return text(value, meter)
  if (!isNumber(value) && typeof value !== 'string')
    return raise('TypeError', `unsupported format string passed to ${typeName(value)}.__format__`)
  const match = SPECIFICATION.exec(spec)
  if (!match) return raise('ValueError', 'Invalid format specifier')
  const [, fillText, alignText, sign = '', alternate = '', zero = '', widthText = '0', group = '', precisionText, type = ''] = match
  const precision = precisionText === undefined ? undefined : Number(precisionText)
  const width = Number(widthText)
  meter.allocate(width + (precision ?? 0))
  if ((precision ?? 0) > MAX_PRECISION) return raise('ValueError', 'precision too big')
  const numeric = isNumber(value)
  if (!numeric && (sign || group || (type !== '' && type !== 's')))
    return raise('ValueError', `Unknown format code '${type}' for object of type 'str'`)
  const fill = fillText ?? (zero ? '0' : ' ')
  const align = alignText ?? (zero && numeric ? '=' : numeric ? '>' : '<')
  if (!numeric) {
    const shown = text(value, meter)
    return pad(
      '',
      precision === undefined ? shown : [...shown].slice(0, precision).join(''),
      fill,
      align === '=' ? raise('ValueError', "'=' alignment not allowed in string format specifier") : align,
      width,
    )
  }
  const [negative, prefix, digits] = numberDigits(value, type, precision, alternate !== '', meter)
  const signText = negative ? '-' : sign === '-' ? '' : sign
  let shown = group ? grouped(digits, group, 'xXob'.includes(type) && type !== '' ? 4 : 3) : digits
  if (group && zero && !alignText)
    while (signText.length + prefix.length + shown.length < width) shown = grouped(`0${shown.replaceAll(group, '')}`, group, 3)
  return pad(signText + prefix, shown, fill, align, width)
}

/** Sign, prefix and digits of a number in a format type. */
const numberDigits = (
  value: boolean | bigint | number,
  type: string,
  precision: number | undefined,
  alternate: boolean,
  meter: Meter,
): [boolean, string, string] => {
  const x = plainNumber(value)
  if (typeof x === 'bigint' && (type === '' || 'dxXobcn'.includes(type))) {
    if (precision !== undefined) return raise('ValueError', 'Precision not allowed in integer format specifier')
    const size = x < 0n ? -x : x
    if (type === 'c') return [false, '', String.fromCodePoint(Number(x))]
    const radix = { x: 16, X: 16, o: 8, b: 2 }[type]
    if (radix === undefined) return [x < 0n, '', text(size, meter)]
    const digits = size.toString(radix)
    return [x < 0n, alternate ? `0${type}` : '', type === 'X' ? digits.toUpperCase() : digits]
  }
  const number = Number(x)
  const size = Math.abs(number)
  const negative = number < 0 || Object.is(number, -0)
  const upper = type !== '' && type === type.toUpperCase() && type !== '%'
  const set = (shown: string): [boolean, string, string] => [negative, '', upper ? shown.toUpperCase() : shown]
  if (!Number.isFinite(number)) return set(Number.isNaN(number) ? 'nan' : `inf${type === '%' ? '%' : ''}`)
  switch (type.toLowerCase()) {
    case 'f':
      return set(fixed(size, precision ?? 6))
    case '%':
      return set(`${fixed(size * 100, precision ?? 6)}%`)
    case 'e':
      return set(scientific(size, precision ?? 6))
    case 'g':
    case 'n':
      return set(general(size, precision ?? 6, alternate))
    case '': {
      if (precision === undefined) return set(floatRepr(size))
      // like g, but it always shows a float, and turns to exponents one digit earlier
      const shown = general(size, precision, false)
      const exponent = size === 0 ? 0 : Number(scientific(size, Math.max(precision, 1) - 1).split('e')[1])
      if (shown.includes('e')) return set(shown)
      if (exponent >= Math.max(precision, 1) - 1 && !shown.includes('.') && size !== 0) {
        const parts = scientific(size, Math.max(precision, 1) - 1).split('e')
        return set(`${parts[0].includes('.') ? parts[0].replace(/\.?0+$/, '') : parts[0]}e${parts[1]}`)
      }
      return set(shown.includes('.') ? shown : `${shown}.0`)
    }
    default:
      return raise('ValueError', `Unknown format code '${type}' for object of type '${typeName(value)}'`)
  }
}

const grouped = (digits: string, separator: string, size: number): string => {
  const [, whole, rest] = /^([0-9a-fA-F]*)(.*)$/.exec(digits)!
  const parts: string[] = []
  for (let end = whole.length; end > 0; end -= size) parts.unshift(whole.slice(Math.max(0, end - size), end))
  return parts.join(separator) + rest
}

const pad = (prefix: string, shown: string, fill: string, align: string, width: number): string => {
  const length = hasSurrogates(shown) ? [...shown].length : shown.length
  const missing = Math.max(0, width - prefix.length - length)
  if (align === '<') return prefix + shown + fill.repeat(missing)
  if (align === '>') return fill.repeat(missing) + prefix + shown
  if (align === '=') return prefix + fill.repeat(missing) + shown
  const left = Math.floor(missing / 2)
  return fill.repeat(left) + prefix + shown + fill.repeat(missing - left)
}

const getEntry = (dict: PyDict, name: string, meter: Meter): Value => {
  const value = dict.get(name, meter)
  return value === undefined ? raise('KeyError', name) : value
}

/** `template % values`: %s %r %d %i %f %e %g %x %o %c %%, with flags, width, precision and names. */
export const percentFormat = (template: string, values: Value, meter: Meter): string => {
  const queue = values instanceof PyTuple ? [...values.items] : [values]
  let used = 0
  const next = (): Value => (used < queue.length ? queue[used++] : raise('TypeError', 'not enough arguments for format string'))
  const result = template.replace(
    /%(?:\(([^)]*)\))?([-+ 0#]*)(\*|\d{1,9})?(?:\.(\*|\d{1,9}))?([a-zA-Z%])?/g,
    (
      _,
      name: string | undefined,
      flags: string,
      widthText: string | undefined,
      precisionText: string | undefined,
      type: string | undefined,
    ) => {
      if (type === '%') return '%'
      if (type === undefined || !'srdiufFeEgGxXoc'.includes(type)) return raise('ValueError', 'unsupported format character')
      const asNumber = (given: string | undefined): number | undefined =>
        given === undefined ? undefined : given === '*' ? Number(next()) : Number(given)
      const width = asNumber(widthText) ?? 0
      const precision = asNumber(precisionText)
      const value =
        name === undefined
          ? next()
          : values instanceof PyDict
            ? getEntry(values, name, meter)
            : raise('TypeError', 'format requires a mapping')
      if (name !== undefined) used = queue.length
      if (type === 's' || type === 'r') {
        const shown = type === 's' ? text(value, meter) : repr(value, meter)
        return format(precision === undefined ? shown : shown.slice(0, precision), `${flags.includes('-') ? '<' : '>'}${width}`, meter)
      }
      if (type === 'c' && typeof value === 'string') return format(value, `>${width}`, meter)
      if (!isNumber(value)) return raise('TypeError', `%${type} format: a real number is required, not ${typeName(value)}`)
      const number = 'diu'.includes(type) ? (isInteger(value) ? toBigInt(value) : BigInt(Math.trunc(value))) : value
      const has = (flag: string): boolean => flags.includes(flag)
      const spec = [
        has('-') ? '<' : has('0') ? '' : '>',
        has('+') ? '+' : has(' ') ? ' ' : '',
        has('#') ? '#' : '',
        has('0') && !has('-') ? '0' : '',
        width || '',
        precision === undefined || 'diu'.includes(type) ? '' : `.${precision}`,
        'iu'.includes(type) ? 'd' : type,
      ].join('')
      return format(number, spec, meter)
    },
  )
  // only what cannot be subscripted counts as an argument left over
  if (used < queue.length && !(values instanceof PyDict || values instanceof PyList || values instanceof PyRange))
    return raise('TypeError', 'not all arguments converted during string formatting')
  meter.allocate(result.length)
  return result
}
