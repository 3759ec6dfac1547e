import { expand, node, parseExpression, textOf, type Expression } from './expression.js'
import { quantity, type Budget, type Quantity } from './quantity.js'
import { tokenise, Unreadable, type Token } from './tokens.js'
import { parseMeasure, type Unit } from './units.js'

/** What an answer says, by kind. */
export type Answer =
  | { readonly kind: 'quantity'; readonly value: Quantity; readonly unit?: Unit }
  /** A tuple, a point, an interval: order and brackets matter. `(` … `)` may be an open interval or a pair. */
  | { readonly kind: 'sequence'; readonly brackets: string; readonly items: readonly Answer[] }
  /** `{1, 2}`, `1, 2`, `1 or 2`, `±1`: order does not matter. */
  | { readonly kind: 'set'; readonly items: readonly Answer[] }
  /** Of intervals or sets; order does not matter. */
  | { readonly kind: 'union'; readonly items: readonly Answer[] }
  | { readonly kind: 'matrix'; readonly bars: boolean; readonly rows: readonly (readonly Quantity[])[] }
  | Relation
  | { readonly kind: 'based'; readonly digits: string; readonly base: string }
  /** `3:45 pm`, `2:3`. */
  | { readonly kind: 'ratio'; readonly parts: readonly Quantity[]; readonly suffix: string }

/** left `relation` right; `>` and `≥` are turned round. */
export interface Relation {
  readonly kind: 'relation'
  readonly relation: '=' | '≠' | '<' | '≤'
  /** left − right; absent where the left side is no formula */
  readonly difference?: Quantity
  /** The symbol that the left side consists of, if it does. */
  readonly symbol?: string
  /** The right side, where it alone can be the answer: `x = 5`, `f(x) = x^2`, `m + n = 7`. */
  readonly right?: Answer
}

/** Longest list, set, tuple; largest matrix. */
const MAX_ITEMS = 64

/**
 * Read an answer in every way it can be meant (`1,234` is a number or two); at least one reading.
 *
 * @throws Unreadable, Overflow when there is none
 */
export const readAnswer = (source: string, limit: Budget): Answer[] => {
  const text = stripDelimiters(source)
  const based = /^\(?([0-9][0-9A-F]*)\)?_\{?([0-9]{1,2})\}?$/.exec(
    text.replace(/\s|\\text|\\[,!]|\{,\}/g, '').replace(/_\{\{(\d+)\}\}/, '_$1'),
  )
  if (based) return [{ kind: 'based', digits: based[1].replace(/^0+(?=.)/, ''), base: based[2] }]
  if (/^[A-Z]{3,}$/.test(text)) throw new Unreadable('the answer is a word')
  const merged = tokenise(text, true)
  const apart = tokenise(text, false)
  const reader = reading(limit)
  return merged.length === apart.length ? [reader(merged)] : [reader(merged), reader(apart)]
}

/** `$…$`, `\(…\)`, `\[…\]` around the whole; blanks and a full stop at the end. A single `$` is money. */
export const stripDelimiters = (source: string): string => {
  let text = source.trim()
  for (let round = 0; round < 3; round++) {
    text = text.replace(/^\*\*([^*]*)\*\*$/, '$1').replace(/(?:(?<!\\)[.。]|\\\\|(?<!\\)[,;])\s*$/, '').trim()
    const inside = /^(?:\$\$([^$]*)\$\$|\$([^$]*)\$|\\\(([^]*)\\\)|\\\[([^]*)\\\])$/.exec(text)
    if (inside) text = (inside[1] ?? inside[2] ?? inside[3] ?? inside[4]).trim()
  }
  const letter = /^\(?([A-Z])[).:]$/.exec(text)
  if (letter) return letter[1]
  return (text.match(/(?<!\\)\$/g)?.length ?? 0) >= 2 ? text.replace(/(?<!\\)\$/g, ' ').trim() : text
}

const isMark = (token: Token | undefined, ...texts: string[]): boolean => token?.type === 'mark' && texts.includes(token.text)
const isWord = (token: Token, ...texts: string[]): boolean => token.type === 'words' && texts.includes(token.text)

const reading = (limit: Budget): ((tokens: Token[]) => Answer) => {
  const value = (expression: Expression): Quantity => quantity(expression, limit)

  const answer = (tokens: Token[]): Answer => {
    const inner = dropLabel(dropApproximation(tokens))
    if (inner.length === 0) throw new Unreadable('the answer is empty')
    if (inner.length === 1 && inner[0].type === 'words' && inner[0].text.length === 1)
      return piece([{ type: 'symbol', text: inner[0].text }])
    const pieces = split(inner, (token) => isMark(token, ',', ';') || isWord(token, 'or', 'and')).filter((piece) => piece.length > 0)
    if (pieces.length > MAX_ITEMS) throw new Unreadable(`a list of ${pieces.length}; up to ${MAX_ITEMS} are compared`)
    return pieces.length > 1 ? setOf(pieces.map(piece)) : piece(pieces[0] ?? [])
  }

  const piece = (tokens: Token[]): Answer => {
    const united = split(tokens, (token) => isMark(token, '∪'))
    if (united.length > 1) return { kind: 'union', items: united.map(piece) }
    if (tokens[0]?.type === 'symbol' && isCommand(tokens[1], 'in')) return answer(tokens.slice(2))
    const sides = split(tokens, isRelationSign)
    if (sides.length > 1) return related(sides, tokens.filter(isRelationSignAt(tokens)).map(textOf))
    return bracketed(tokens) ?? matrix(tokens) ?? ratio(tokens) ?? measured(tokens)
  }

  /** What stands in brackets as a whole and is no bracketed formula. */
  const bracketed = (tokens: Token[]): Answer | undefined => {
    if (tokens.length === 1 && isCommand(tokens[0], 'emptyset')) return { kind: 'set', items: [] }
    if (!enclosed(tokens)) return undefined
    const [open, close] = [textOf(tokens[0]), textOf(tokens.at(-1)!)]
    const inside = tokens.slice(1, -1)
    if (open === '⦃' && close === '⦄') {
      if (inside.length === 0) return { kind: 'set', items: [] }
      const content = answer(inside)
      return content.kind === 'set' ? content : setOf([content])
    }
    if (!'(['.includes(open) || !')]'.includes(close)) return undefined
    const items = split(inside, (token) => isMark(token, ',', ';'))
    if (items.length < 2) return undefined
    if (items.length > MAX_ITEMS) throw new Unreadable(`a tuple of ${items.length}; up to ${MAX_ITEMS} are compared`)
    return { kind: 'sequence', brackets: open + close, items: items.map(piece) }
  }

  const matrix = (tokens: Token[]): Answer | undefined => {
    if (enclosed(tokens) && isCommand(tokens[1], 'begin')) return matrix(tokens.slice(1, -1))
    const begin = tokens.findIndex((token) => isCommand(token, 'begin'))
    if (begin < 0) return undefined
    const end = tokens.length - 4
    const name = tokens[begin + 2]
    if (name?.type !== 'words' || !isCommand(tokens[end], 'end')) throw new Unreadable('an environment that is no matrix')
    let body = tokens.slice(begin + 4, end)
    if (name.text === 'array') body = body.slice(body.findIndex((token) => isMark(token, '}')) + 1)
    else if (!/^[pbvBV]?(small)?matrix$/i.test(name.text)) throw new Unreadable(`the environment ${name.text}`)
    const before = tokens.slice(0, begin)
    const factor = before.length > 0 ? whole(before) : undefined
    const rows = split(body, (token) => isCommand(token, '\\')).filter((row) => row.length > 0)
    const cells = rows.map((row) =>
      split(row, (token) => isMark(token, '&')).map((cell) => (factor ? node('multiply', factor, whole(cell)) : whole(cell))),
    )
    if (cells.flat().length > MAX_ITEMS) throw new Unreadable(`a matrix of more than ${MAX_ITEMS} entries`)
    return { kind: 'matrix', bars: name.text.startsWith('v'), rows: cells.map((row) => row.map(value)) }
  }

  const ratio = (tokens: Token[]): Answer | undefined => {
    const parts = split(tokens, (token) => isMark(token, ':'))
    if (parts.length < 2) return undefined
    const last = parts.at(-1)!
    const { expression, taken } = last[0]?.type === 'number' ? { expression: whole([last[0]]), taken: 1 } : parseExpression(last)
    const suffix = last.slice(taken).map(textOf).join('').toLowerCase().replace(/[\s.]/g, '')
    return { kind: 'ratio', parts: [...parts.slice(0, -1).map(whole), expression].map(value), suffix }
  }

  /** A formula and its unit; with signs ±, several. */
  const measured = (tokens: Token[]): Answer => {
    const money = tokens.slice(0, 2).findIndex((token) => isMark(token, '$', '£', '€'))
    const rest = money < 0 ? tokens : tokens.filter((_, i) => i !== money)
    const { expression, taken } = parseExpression(rest)
    const { multiplier, unit } = parseMeasure([...(money < 0 ? [] : [textOf(tokens[money])]), ...unitWords(rest.slice(taken))])
    const factor: Expression = { op: 'number', text: String(multiplier) }
    const quantities = expand(multiplier === 1n ? expression : node('multiply', expression, factor)).map(value)
    return setOf(quantities.map((one) => ({ kind: 'quantity', value: one, ...(unit && { unit }) })))
  }

  /** A formula and nothing else. */
  const whole = (tokens: Token[]): Expression => {
    const { expression, taken } = parseExpression(tokens)
    if (taken < tokens.length) throw new Unreadable(`"${textOf(tokens[taken])}" behind a formula`)
    return expression
  }

  const related = (sides: Token[][], signs: string[]): Answer => {
    if (sides.some((side) => side.length === 0)) throw new Unreadable('a side of a relation is missing')
    if (signs.every((sign) => sign === '=')) {
      // a chain says that all are equal: the last is the answer, the first its name
      const [left, right] = [sides[0], sides.at(-1)!]
      return equation(left, right)
    }
    const interval = asInterval(sides, signs)
    if (interval) return interval
    if (sides.length > 2) throw new Unreadable('a chain of relations')
    const turned = signs[0] === '>' || signs[0] === '≥'
    const [left, right] = (turned ? [sides[1], sides[0]] : sides).map(whole)
    const relation = ({ '>': '<', '≥': '≤' }[signs[0]] ?? signs[0]) as Relation['relation']
    return { kind: 'relation', relation, difference: value(node('subtract', left, right)) }
  }

  const equation = (left: Token[], right: Token[]): Answer => {
    // words, or letters alone, only name what is on the right: `\text{Area} = 5`, `f(x) = x^2`, `a + b = 7`
    if (left.some((token) => token.type === 'words')) return answer(right)
    const numberless = !left.some((token) => token.type === 'number')
    const named = isName(left) || (numberless && !right.some((token) => token.type === 'symbol'))
    if (!named) return { kind: 'relation', relation: '=', difference: value(node('subtract', whole(left), whole(right))) }
    const said = piece(right)
    if (said.kind !== 'quantity') return said
    const symbol = isName(left) && !isMark(left[1], '(') ? left.map(textOf).join('') : undefined
    return { kind: 'relation', relation: '=', difference: differenceOf(left, right), ...(symbol && { symbol }), right: said }
  }
  /** left − right without units; undefined where the left side is no formula. */
  const differenceOf = (left: Token[], right: Token[]): Quantity | undefined => {
    try {
      return value(node('subtract', whole(left), parseExpression(right).expression))
    } catch (error) {
      if (error instanceof Unreadable) return undefined
      throw error
    }
  }

  /** `1 < x ≤ 3`, `x > 5`, `5 ≥ x`: the interval it says; undefined when no bare symbol is bounded by numbers. */
  const asInterval = (sides: Token[][], signs: string[]): Answer | undefined => {
    const order = signs.map((sign) => '<≤'.includes(sign) ? 1 : '>≥'.includes(sign) ? -1 : 0)
    if (order.some((direction) => direction === 0 || direction !== order[0]) || sides.length > 3) return undefined
    if (order[0] < 0) [sides, signs] = [[...sides].reverse(), [...signs].reverse()]
    const at = sides.findIndex((side) => side.length === 1 && side[0].type === 'symbol')
    if (at < 0 || sides.some((side, i) => i !== at && side.some((token) => token.type === 'symbol')) || (sides.length === 3 && at !== 1))
      return undefined
    const bound = (side: Token[] | undefined, sign: '+' | '-'): Answer =>
      side
        ? { kind: 'quantity', value: value(whole(side)) }
        : { kind: 'quantity', value: value(sign === '+' ? INFINITY : node('negate', INFINITY)) }
    const closed = (sign: string | undefined): boolean => sign === '≤' || sign === '≥'
    const [lower, upper] = [at > 0, at < sides.length - 1]
    return {
      kind: 'sequence',
      brackets: (lower && closed(signs[at - 1]) ? '[' : '(') + (upper && closed(signs[at]) ? ']' : ')'),
      items: [bound(lower ? sides[at - 1] : undefined, '-'), bound(upper ? sides[at + 1] : undefined, '+')],
    }
  }

  return answer
}

const INFINITY: Expression = { op: 'symbol', name: '∞' }

const isCommand = (token: Token | undefined, name: string): boolean => token?.type === 'command' && token.text === name

/** Several in one; one alone is itself. */
const setOf = (items: readonly Answer[]): Answer => {
  const flat = items.flatMap((item) => (item.kind === 'set' && items.length > 1 ? item.items : [item]))
  return flat.length === 1 ? flat[0] : { kind: 'set', items: flat }
}

/** The parts between the tokens at which `isSeparator` holds, outside all brackets and environments. */
const split = (tokens: readonly Token[], isSeparator: (token: Token) => boolean): Token[][] => {
  const parts: Token[][] = [[]]
  forEachAtDepth(tokens, (token, depth) => {
    if (depth === 0 && isSeparator(token)) parts.push([])
    else parts.at(-1)!.push(token)
  })
  return parts
}

/** Visits tokens with the number of brackets open around them; a bracket itself is inside. */
const forEachAtDepth = (tokens: readonly Token[], visit: (token: Token, depth: number, index: number) => void): void => {
  let depth = 0
  tokens.forEach((token, index) => {
    const opens = isMark(token, '(', '[', '{', '⦃') || isCommand(token, 'begin')
    const closes = isMark(token, ')', ']', '}', '⦄') || isCommand(token, 'end')
    if (opens) depth++
    visit(token, depth, index)
    if (closes) depth--
  })
  if (depth !== 0) throw new Unreadable('the brackets do not match')
}

/** Whether the first token's bracket is closed by the last. */
const enclosed = (tokens: readonly Token[]): boolean => {
  if (tokens.length < 2 || !isMark(tokens[0], '(', '[', '⦃')) return false
  let all = true
  forEachAtDepth(tokens, (token, depth, index) => {
    if (depth === 0 || (depth === 1 && index < tokens.length - 1 && isMark(token, ')', ']', '⦄', '}'))) all = false
  })
  return all
}

const isRelationSign = (token: Token): boolean => isMark(token, '=', '<', '>', '≤', '≥', '≠')
const isRelationSignAt = (tokens: readonly Token[]): ((token: Token) => boolean) => {
  const outside = new Set<Token>()
  forEachAtDepth(tokens, (token, depth) => {
    if (depth === 0 && isRelationSign(token)) outside.add(token)
  })
  return (token) => outside.has(token)
}

/** `y`, `x_1`, `f(x)`, `AB`, `\angle ABC`, or nothing: names, not formulas. */
const isName = (tokens: readonly Token[]): boolean => {
  let at = 0
  while (tokens[at]?.type === 'symbol') {
    at++
    if (!isMark(tokens[at], '_')) continue
    const end = isMark(tokens[at + 1], '{') ? tokens.findIndex((token, i) => i > at && isMark(token, '}')) : at + 1
    at = end < 0 ? tokens.length : end + 1
  }
  if (at === 0 || !isMark(tokens[at], '(')) return at >= tokens.length
  // the arguments of a function: letters and commas
  return (
    isMark(tokens.at(-1), ')') && tokens.slice(at + 1, -1).every((token, i) => (i % 2 === 0 ? token.type === 'symbol' : isMark(token, ',')))
  )
}

/** `\frac13 \approx 0.333` says the first, `x \approx 2` the second. */
const dropApproximation = (tokens: Token[]): Token[] => {
  const at = tokens.findIndex((token) => isCommand(token, 'approx'))
  return at < 0 ? tokens : isName(tokens.slice(0, at)) ? tokens.slice(at + 1) : tokens.slice(0, at)
}

/** The label of a choice before its content: `(B) 250`. */
const dropLabel = (tokens: Token[]): Token[] => {
  const labelled = isMark(tokens[0], '(') && tokens[1]?.type === 'symbol' && /^[A-F]$/.test(tokens[1].text) && isMark(tokens[2], ')')
  return labelled && tokens.length > 3 && !isMark(tokens[3], '+', '*', '/', '^', '=', ',') ? tokens.slice(3) : tokens
}

/** The words of a unit behind a formula. */
const unitWords = (tokens: readonly Token[]): string[] =>
  tokens.flatMap((token) => {
    if (token.type === 'words') return token.text.toLowerCase().split(/[\s-]+|(?=\/)|(?<=\/)/)
    if (token.type === 'symbol' || token.type === 'number') return [token.text.toLowerCase()]
    if (isMark(token, '^', '/', '°', '%', '$', '¢', '£', '€')) return [token.text]
    if (isMark(token, '{', '}')) return []
    throw new Unreadable(`"${textOf(token)}" behind a formula`)
  })
