/** Python source as tokens, with the indentation made explicit. */

/** Source that is no Python, or Python beyond the subset. */
export class PythonSyntaxError extends Error {
  override name = 'PythonSyntaxError'
}

export type Token =
  | { readonly type: 'name' | 'operator'; readonly text: string; readonly line: number }
  | { readonly type: 'number'; readonly value: bigint | number; readonly line: number }
  /** A string; of an f-string, `format` is true and the text is still raw inside braces. */
  | { readonly type: 'string'; readonly text: string; readonly format: boolean; readonly raw: boolean; readonly line: number }
  | { readonly type: 'newline' | 'indent' | 'dedent' | 'end'; readonly line: number }

/** Longest source, in UTF-16 units. */
const MAX_SOURCE = 1_000_000
/** As in CPython: deeper brackets are a syntax error. */
const MAX_BRACKETS = 200
const MAX_INDENTS = 100

const NAME = /[\p{L}_][\p{L}\p{N}\p{M}_]*/uy
const NUMBER = /0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?/y
const STRING_PREFIX = /(?:[rR][fF]?|[fF][rR]?|[uU])?(?='|")/y
const OPERATOR = /\*\*=|\/\/=|>>=|<<=|\.\.\.|->|:=|\*\*|\/\/|<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%&|^~<>()[\]{},:.;@=]/y
const BLANKS = /(?:[ \t\f]|\\\r?\n)+/y

/** @throws PythonSyntaxError */
export const tokenise = (source: string): Token[] => {
  if (source.length > MAX_SOURCE) throw new PythonSyntaxError(`the source has ${source.length} characters; at most ${MAX_SOURCE} are read`)
  const tokens: Token[] = []
  const indents = [0]
  let at = 0
  let line = 1
  let brackets = 0
  let fresh = true
  const fail = (what: string): never => {
    throw new PythonSyntaxError(`line ${line}: ${what}`)
  }
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    at += found?.length ?? 0
    return found
  }

  const indentation = (): void => {
    fresh = false
    const start = at
    let width = 0
    for (; ' \t\f'.includes(source[at]) && at < source.length; at++)
      width = source[at] === '\t' ? (Math.floor(width / 8) + 1) * 8 : width + 1
    if (at >= source.length || '\r\n#'.includes(source[at])) return
    if (source[start] !== undefined && width > indents.at(-1)!) {
      if (indents.length > MAX_INDENTS) fail('too many levels of indentation')
      indents.push(width)
      tokens.push({ type: 'indent', line })
    }
    while (width < indents.at(-1)!) {
      indents.pop()
      tokens.push({ type: 'dedent', line })
    }
    if (width !== indents.at(-1)) fail('the indentation matches no outer level')
  }

  while (at < source.length) {
    if (fresh && brackets === 0) indentation()
    if (at >= source.length) break
    const blanks = take(BLANKS)
    if (blanks !== undefined) {
      line += count(blanks)
      continue
    }
    const c = source[at]
    if (c === '#') {
      while (at < source.length && source[at] !== '\n') at++
    } else if (c === '\r') at++
    else if (c === '\n') {
      at++
      if (brackets === 0) {
        const last = tokens.at(-1)?.type
        if (last !== undefined && last !== 'newline' && last !== 'indent' && last !== 'dedent') tokens.push({ type: 'newline', line })
        fresh = true
      }
      line++
    } else {
      const prefix = take(STRING_PREFIX)
      if (prefix !== undefined) {
        const { text, end } = readString(source, at, /r/i.test(prefix), /f/i.test(prefix), fail)
        tokens.push({ type: 'string', text, format: /f/i.test(prefix), raw: /r/i.test(prefix), line })
        line += count(source.slice(at, end))
        at = end
        continue
      }
      const number = /[\d.]/.test(c) ? take(NUMBER) : undefined
      if (number !== undefined) {
        if (/[\p{L}_]/u.test(source[at] ?? '')) fail(`"${number}${source[at]}" is no number`)
        tokens.push({ type: 'number', value: numberValue(number, fail), line })
        continue
      }
      const name = take(NAME)
      if (name !== undefined) {
        tokens.push({ type: 'name', text: name.normalize('NFKC'), line })
        continue
      }
      const operator = take(OPERATOR)
      if (operator === undefined) fail(`unexpected ${JSON.stringify(c)}`)
      if ('([{'.includes(operator!) && ++brackets > MAX_BRACKETS) fail('too many nested brackets')
      if (')]}'.includes(operator!) && --brackets < 0) fail(`unmatched "${operator}"`)
      tokens.push({ type: 'operator', text: operator!, line })
    }
  }
  if (brackets > 0) fail('a bracket is never closed')
  const last = tokens.at(-1)?.type
  if (last !== undefined && last !== 'newline' && last !== 'dedent') tokens.push({ type: 'newline', line })
  for (let i = 1; i < indents.length; i++) tokens.push({ type: 'dedent', line })
  tokens.push({ type: 'end', line })
  return tokens
}

const count = (text: string): number => text.split('\n').length - 1

const numberValue = (text: string, fail: (what: string) => never): bigint | number => {
  if (/__|_$|_\.|\._|_[eE]/.test(text)) return fail(`"${text}" is no number`)
  const digits = text.replaceAll('_', '')
  if (/^0[xXoObB]/.test(digits)) return BigInt(digits)
  if (/[.eE]/.test(digits)) return Number(digits)
  if (/^0+[1-9]/.test(digits)) return fail('leading zeros in an integer')
  if (digits.length > 4300) return fail('an integer of more than 4300 digits')
  return BigInt(digits)
}

/** The string that opens at `start`; escapes are resolved unless it is raw. In an f-string, what stands in braces is left as it is. */
const readString = (
  source: string,
  start: number,
  raw: boolean,
  format: boolean,
  fail: (what: string) => never,
): { text: string; end: number } => {
  const quote = source[start]
  const triple = source.startsWith(quote.repeat(3), start)
  const close = triple ? quote.repeat(3) : quote
  let at = start + close.length
  const parts: string[] = []
  let from = at
  for (;;) {
    if (at >= source.length || (!triple && source[at] === '\n')) return fail('a string is never closed')
    if (source.startsWith(close, at)) break
    at += source[at] === '\\' ? 2 : 1
  }
  const body = source.slice(from, at).replaceAll('\r\n', '\n')
  const end = at + close.length
  if (raw || !body.includes('\\')) return { text: body, end }
  from = 0
  let depth = 0
  for (let i = 0; i < body.length; i++) {
    if (format && body[i] === '{') depth += body[i + 1] === '{' && depth === 0 ? (i++, 0) : 1
    else if (format && body[i] === '}' && depth > 0) depth--
    else if (body[i] === '\\') {
      if (depth > 0) return fail('a backslash inside the braces of an f-string')
      const [value, length] = escape(body, i, fail)
      parts.push(body.slice(from, i), format ? value.replace(/[{}]/g, '$&$&') : value)
      from = i + length
      i = from - 1
    }
  }
  return { text: parts.join('') + body.slice(from), end }
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  v: '\v',
  '\n': '',
}

/** What the escape at `at` stands for, and its length; an unknown one stands for itself. */
const escape = (body: string, at: number, fail: (what: string) => never): [string, number] => {
  const c = body[at + 1]
  if (Object.hasOwn(ESCAPES, c)) return [ESCAPES[c], 2]
  const octal = /^[0-7]{1,3}/.exec(body.slice(at + 1, at + 4))
  if (octal) return [String.fromCodePoint(parseInt(octal[0], 8)), 1 + octal[0].length]
  const digits = { x: 2, u: 4, U: 8 }[c]
  if (digits) {
    const hex = body.slice(at + 2, at + 2 + digits)
    const point = /^[0-9a-fA-F]+$/.test(hex) && hex.length === digits ? parseInt(hex, 16) : Infinity
    if (point > 0x10ffff) return fail(`the escape \\${c}${hex}`)
    return [String.fromCodePoint(point), 2 + digits]
  }
  if (c === 'N') return fail('escapes by name')
  return [`\\${c ?? ''}`, 1 + (c ? 1 : 0)]
}
