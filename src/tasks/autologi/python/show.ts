import { Ellipsis } from './ast.js'
import type { Meter } from './meter.js'
import {
  less, PyDict, PyException, PyList, PyRange, PySet, PySlice, PyTuple, PyType, PyView, raise, typeName, visit, type Value,
} from './values.js'

/** `repr(value)`. */
export const repr = (value: Value, meter: Meter, depth = 0): string => {
  visit(depth, meter)
  const show = (item: Value): string => repr(item, meter, depth + 1)
  const list = (items: Iterable<Value>): string => {
    const shown = [...items].map(show).join(', ')
    meter.allocate(shown.length)
    return shown
  }
  if (value === null) return 'None'
  switch (typeof value) {
    case 'boolean': return value ? 'True' : 'False'
    case 'bigint': return integerText(value)
    case 'number': return floatRepr(value)
    case 'string': return quote(value)
  }
  if (value instanceof PyList)
    return value.deque
      ? `deque([${list(value.items)}]${value.maxLength < Infinity ? `, maxlen=${value.maxLength}` : ''})`
      : `[${list(value.items)}]`
  if (value instanceof PyTuple) {
    if (value.named) return `${value.named.name}(${value.named.fields.map((field, i) => `${field}=${show(value.items[i])}`).join(', ')})`
    return `(${list(value.items)}${value.items.length === 1 ? ',' : ''})`
  }
  if (value instanceof PyDict) {
    const entries = `{${[...value.map.values()].map(([key, item]) => `${show(key)}: ${show(item)}`).join(', ')}}`
    if (value.kind === 'dict') return entries
    if (value.kind === 'defaultdict') return `defaultdict(${show(value.factory)}, ${entries})`
    if (value.kind === 'Counter')
      return value.map.size
        ? `Counter({${mostCommon(value, meter)
            .map(([key, count]) => `${show(key)}: ${show(count)}`)
            .join(', ')}})`
        : 'Counter()'
    return value.map.size
      ? `OrderedDict([${[...value.map.values()].map(([key, item]) => `(${show(key)}, ${show(item)})`).join(', ')}])`
      : 'OrderedDict()'
  }
  if (value instanceof PySet) {
    const items = value.map.size ? `{${list(value.map.values())}}` : ''
    return value.frozen ? `frozenset(${items})` : items || 'set()'
  }
  if (value instanceof PyRange) return `range(${value.start}, ${value.stop}${value.step === 1n ? '' : `, ${value.step}`})`
  if (value instanceof PyView) {
    const entries = [...value.dict.map.values()]
    const { kind } = value
    const shown: Value[] = entries.map(([key, item]) => (kind === 'keys' ? key : kind === 'values' ? item : new PyTuple([key, item])))
    return `dict_${kind}([${list(shown)}])`
  }
  if (value instanceof PySlice) return `slice(${list([value.start, value.stop, value.step])})`
  if (value instanceof Ellipsis) return 'Ellipsis'
  if (value instanceof PyType) return `<class '${value.name}'>`
  if (value instanceof PyException) return `${value.type.name}(${list(value.args)})`
  return `<${typeName(value)}${'name' in value ? ` ${String(value.name)}` : ''}>`
}

/** `str(value)`. */
export const text = (value: Value, meter: Meter): string => {
  if (typeof value === 'string') return value
  if (value instanceof PyException)
    return value.args.length === 0
      ? ''
      : value.args.length === 1
        ? value.type.name === 'KeyError'
          ? repr(value.args[0], meter)
          : text(value.args[0], meter)
        : repr(new PyTuple(value.args), meter)
  return repr(value, meter)
}

/** Entries of a Counter, the most frequent first; ties in the order they came. */
export const mostCommon = (counter: PyDict, meter: Meter): [Value, Value][] =>
  [...counter.map.values()]
    .map(([key, count]): [Value, Value] => [key, count])
    .sort(([, a], [, b]) => (less(b, a, meter) ? -1 : less(a, b, meter) ? 1 : 0))

const integerText = (value: bigint): string => {
  const digits = String(value)
  return digits.length > 4301 ? raise('ValueError', 'Exceeds the limit (4300 digits) for integer string conversion') : digits
}

/** The shortest digits that give the number back, as Python sets them. */
export const floatRepr = (x: number): string => {
  if (Number.isNaN(x)) return 'nan'
  if (!Number.isFinite(x)) return x > 0 ? 'inf' : '-inf'
  const sign = x < 0 || Object.is(x, -0) ? '-' : ''
  const [mantissa, exponentText] = Math.abs(x).toExponential().split('e')
  const exponent = Number(exponentText)
  if (exponent < -4 || exponent >= 16) return `${sign}${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
  const digits = mantissa.replace('.', '')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`
  return `${sign}${digits.slice(0, exponent + 1).padEnd(exponent + 1, '0')}.${digits.slice(exponent + 1) || '0'}`
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' }

const quote = (value: string): string => {
  const mark = value.includes('\'') && !value.includes('"') ? '"' : '\''
  let shown = ''
  for (const c of value) {
    const point = c.codePointAt(0)!
    if (c === mark) shown += `\\${c}`
    else if (SHORT[c]) shown += SHORT[c]
    else if (point < 32 || point === 127 || /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]/u.test(c) && c !== ' ') {
      shown +=
        point < 0x100
          ? `\\x${point.toString(16).padStart(2, '0')}`
          : point < 0x10000
            ? `\\u${point.toString(16).padStart(4, '0')}`
            : `\\U${point.toString(16).padStart(8, '0')}`
    } else shown += c
  }
  return `${mark}${shown}${mark}`
}
