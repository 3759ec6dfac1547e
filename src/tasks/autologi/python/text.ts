import { iterate } from './containers.js'
import { format } from './format.js'
import { MAX_SIZE, type Meter } from './meter.js'
import { repr, text as str } from './show.js'
import { hasSurrogates, isInteger, PyDict, PyList, PyTuple, raise, toBigInt, typeName, type Keywords, type Value } from './values.js'

type Method = (self: string, args: readonly Value[], keywords: Keywords, meter: Meter) => Value

const string = (value: Value | undefined, what: string): string =>
  typeof value === 'string' ? value : raise('TypeError', `${what} must be str, not ${typeName(value ?? null)}`)
const integer = (value: Value | undefined, fallback: number): number =>
  value === undefined || value === null
    ? fallback
    : isInteger(value)
      ? Number(toBigInt(value))
      : raise('TypeError', `'${typeName(value)}' object cannot be interpreted as an integer`)

const points = (text: string): string[] => [...text]

/** The part of `text` between two optional bounds, and where it starts. */
const part = (text: string, from: Value | undefined, to: Value | undefined): { text: string; offset: number } => {
  if ((from === undefined || from === null) && (to === undefined || to === null)) return { text, offset: 0 }
  const all = points(text)
  const bound = (value: Value | undefined, fallback: number): number => {
    const at = integer(value, fallback)
    return Math.min(Math.max(at < 0 ? at + all.length : at, 0), all.length)
  }
  const [start, end] = [bound(from, 0), bound(to, all.length)]
  return { text: all.slice(start, end).join(''), offset: start }
}

const find = (last: boolean): Method => (self, args, _, meter) => {
  const { text, offset } = part(self, args[1], args[2])
  meter.tick(self.length >> 6)
  const at = last ? text.lastIndexOf(string(args[0], 'the argument')) : text.indexOf(string(args[0], 'the argument'))
  if (at < 0) return -1n
  return BigInt(offset + (hasSurrogates(text) ? points(text.slice(0, at)).length : at))
}
const index = (last: boolean): Method => (self, args, keywords, meter) => {
  const at = find(last)(self, args, keywords, meter)
  return at === -1n ? raise('ValueError', 'substring not found') : at
}

const strip = (left: boolean, right: boolean): Method => (self, args) => {
  const chars = args[0] === undefined || args[0] === null ? undefined : new Set(points(string(args[0], 'the argument')))
  const all = hasSurrogates(self) ? points(self) : self
  const gone = (c: string): boolean => (chars ? chars.has(c) : /\s/.test(c))
  let [start, end] = [0, all.length]
  while (left && start < end && gone(all[start])) start++
  while (right && end > start && gone(all[end - 1])) end--
  return typeof all === 'string' ? all.slice(start, end) : all.slice(start, end).join('')
}

const split = (fromRight: boolean): Method => (self, args, keywords, meter) => {
  const separator = args[0] ?? keywords.get('sep') ?? null
  const limit = integer(args[1] ?? keywords.get('maxsplit'), -1)
  meter.allocate(self.length)
  if (separator === null) {
    const words = self.match(/\S+/g) ?? []
    if (limit < 0 || words.length <= limit) return new PyList(words)
    // what is left over keeps its inner blanks, and those at its other end
    const pattern = fromRight ? /(\S+)\s*$/ : /^\s*(\S+)\s*/
    const cut: string[] = []
    let rest = fromRight ? self : self.trimStart()
    for (let i = 0; i < limit; i++) {
      meter.tick(1 + (rest.length >> 6))
      const match = pattern.exec(rest)!
      cut.push(match[1])
      rest = fromRight ? rest.slice(0, match.index).trimEnd() : rest.slice(match[0].length)
    }
    return new PyList(fromRight ? [rest.trimEnd(), ...cut.reverse()] : [...cut, rest])
  }
  const by = string(separator, 'the separator')
  if (by === '') return raise('ValueError', 'empty separator')
  const parts = self.split(by)
  if (limit < 0 || parts.length <= limit + 1) return new PyList(parts)
  return new PyList(
    fromRight
      ? [parts.slice(0, parts.length - limit).join(by), ...parts.slice(parts.length - limit)]
      : [...parts.slice(0, limit), parts.slice(limit).join(by)],
  )
}

const matches = (test: (text: string, end: string) => boolean): Method => (self, args) => {
  const { text } = part(self, args[1], args[2])
  const ends = args[0] instanceof PyTuple ? args[0].items : [args[0]]
  return ends.some((end) => test(text, string(end, 'the argument')))
}

const pads = (place: (missing: number, width: number) => number): Method => (self, args, _, meter) => {
  const width = integer(args[0], 0)
  const fill = args[1] === undefined ? ' ' : string(args[1], 'the fill character')
  if (points(fill).length !== 1) return raise('TypeError', 'The fill character must be exactly one character long')
  const missing = Math.max(0, width - points(self).length)
  meter.allocate(missing)
  const left = place(missing, width)
  return fill.repeat(left) + self + fill.repeat(missing - left)
}

const every = (pattern: RegExp): Method => (self) => pattern.test(self)
const cased = (all: RegExp): Method => (self) => {
  const letters = self.match(/[\p{Lu}\p{Ll}\p{Lt}]/gu)
  return letters !== null && letters.every((c) => all.test(c))
}

const title = (self: string): string => self.replace(/\p{L}+/gu, (word) => word[0].toUpperCase() + word.slice(1).toLowerCase())

/** `'{0} {name!r:>{width}}'.format(…)`. */
const formatMethod: Method = (self, args, keywords, meter) => {
  let automatic = 0
  const field = (path: string): Value => {
    const head = /^[^.[]*/.exec(path)![0]
    let value: Value | undefined = head === '' ? args[automatic++] : /^\d+$/.test(head) ? args[Number(head)] : keywords.get(head)
    if (value === undefined)
      return head === '' || /^\d/.test(head)
        ? raise('IndexError', 'Replacement index out of range for positional args tuple')
        : raise('KeyError', head)
    for (const [, key] of path.slice(head.length).matchAll(/\[([^\]]*)\]|(\..*)/g)) {
      if (key === undefined) return raise('AttributeError', 'attributes in format fields are not supported')
      const next: Value | undefined =
        value instanceof PyDict
          ? value.get(key, meter)
          : value instanceof PyList || value instanceof PyTuple
            ? value.items[Number(key)]
            : undefined
      if (next === undefined) return raise('KeyError', key)
      value = next
    }
    return value
  }
  const expand = (template: string, depth: number): string => {
    if (depth > 2) return raise('ValueError', 'Max string recursion exceeded')
    let result = ''
    for (let i = 0; i < template.length; ) {
      const c = template[i]
      if ((c === '{' || c === '}') && template[i + 1] === c && depth === 0) {
        result += c
        i += 2
      } else if (c === '}') return raise('ValueError', 'Single \'}\' encountered in format string')
      else if (c !== '{') {
        result += c
        i++
      } else {
        let end = i + 1
        for (let open = 1; end < template.length && open > 0; end++) open += template[end] === '{' ? 1 : template[end] === '}' ? -1 : 0
        const match = /^([^!:{}]*)(?:!([rsa]))?(?::(.*))?$/s.exec(template.slice(i + 1, end - 1))
        if (!match || template[end - 1] !== '}') return raise('ValueError', 'expected \'}\' before end of string')
        const value = field(match[1])
        const converted = match[2] === undefined ? value : match[2] === 's' ? str(value, meter) : repr(value, meter)
        result += format(converted, expand(match[3] ?? '', depth + 1), meter)
        i = end
      }
      if (result.length > MAX_SIZE) meter.allocate(result.length)
    }
    return result
  }
  return expand(self, 0)
}

export const stringMethods: Readonly<Record<string, Method>> = {
  upper: (self) => self.toUpperCase(),
  lower: (self) => self.toLowerCase(),
  casefold: (self) => self.toLowerCase().replaceAll('ß', 'ss'),
  capitalize: (self) => (self === '' ? '' : points(self)[0].toUpperCase() + points(self).slice(1).join('').toLowerCase()),
  title,
  swapcase: (self) =>
    points(self)
      .map((c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase()))
      .join(''),
  strip: strip(true, true),
  lstrip: strip(true, false),
  rstrip: strip(false, true),
  split: split(false),
  rsplit: split(true),
  splitlines: (self) =>
    new PyList(
      self === ''
        ? []
        : self.replace(/(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])$/, '').split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/),
    ),
  join: (self, args, _, meter) => {
    const parts: string[] = []
    let i = 0
    for (const item of iterate(args[0] ?? null, meter)) {
      if (typeof item !== 'string') return raise('TypeError', `sequence item ${i}: expected str instance, ${typeName(item)} found`)
      meter.allocate(item.length + self.length)
      parts.push(item)
      i++
    }
    return parts.join(self)
  },
  replace: (self, args, _, meter) => {
    const [from, to, limit] = [string(args[0], 'the argument'), string(args[1], 'the argument'), integer(args[2], -1)]
    const parts = from === '' ? ['', ...points(self), ''] : self.split(from)
    const cut = limit < 0 || limit >= parts.length - 1 ? parts.length - 1 : limit
    meter.allocate(self.length + cut * to.length)
    return [...parts.slice(0, cut), parts.slice(cut).join(from)].join(to)
  },
  find: find(false),
  rfind: find(true),
  index: index(false),
  rindex: index(true),
  count: (self, args) => {
    const { text } = part(self, args[1], args[2])
    const searched = string(args[0], 'the argument')
    return BigInt(searched === '' ? points(text).length + 1 : text.split(searched).length - 1)
  },
  startswith: matches((text, end) => text.startsWith(end)),
  endswith: matches((text, end) => text.endsWith(end)),
  removeprefix: (self, args) => (self.startsWith(string(args[0], 'the argument')) ? self.slice((args[0] as string).length) : self),
  removesuffix: (self, args) =>
    args[0] !== '' && self.endsWith(string(args[0], 'the argument')) ? self.slice(0, self.length - (args[0] as string).length) : self,
  partition: (self, args) => {
    const separator = string(args[0], 'the separator')
    const at = self.indexOf(separator)
    return new PyTuple(at < 0 ? [self, '', ''] : [self.slice(0, at), separator, self.slice(at + separator.length)])
  },
  rpartition: (self, args) => {
    const separator = string(args[0], 'the separator')
    const at = self.lastIndexOf(separator)
    return new PyTuple(at < 0 ? ['', '', self] : [self.slice(0, at), separator, self.slice(at + separator.length)])
  },
  // as CPython splits an odd rest
  center: pads((missing, width) => Math.floor(missing / 2) + (missing & width & 1)),
  ljust: pads(() => 0),
  rjust: pads((missing) => missing),
  zfill: (self, args, _, meter) => {
    const missing = Math.max(0, integer(args[0], 0) - points(self).length)
    meter.allocate(missing)
    return /^[+-]/.test(self) ? self[0] + '0'.repeat(missing) + self.slice(1) : '0'.repeat(missing) + self
  },
  isdigit: every(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070-\u2089]+$/u),
  isdecimal: every(/^\p{Nd}+$/u),
  isnumeric: every(/^\p{N}+$/u),
  isalpha: every(/^\p{L}+$/u),
  isalnum: every(/^[\p{L}\p{N}]+$/u),
  isspace: every(/^\s+$/),
  isidentifier: every(/^[\p{L}_][\p{L}\p{N}_]*$/u),
  isupper: cased(/^\p{Lu}$/u),
  islower: cased(/^\p{Ll}$/u),
  istitle: (self) => /\p{L}/u.test(self) && title(self) === self,
  format: formatMethod,
}
