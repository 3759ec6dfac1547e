import { Unreadable, type Token } from './tokens.js'

/** A formula: plain data, no more operations than these. */
export type Expression =
  | { readonly op: 'number'; readonly text: string; readonly repeating?: string }
  | { readonly op: 'symbol'; readonly name: string }
  | { readonly op: 'pi' | 'e' | 'i' }
  | { readonly op: Operation; readonly args: readonly Expression[] }

export type Operation =
  | 'add' | 'subtract' | 'multiply' | 'divide' | 'pow' | 'negate'
  /** Two values at once, of one argument or two. */
  | '±' | '∓'
  | 'root' | 'abs' | 'floor' | 'ceil' | 'factorial' | 'binomial' | 'log' | FunctionName

const FUNCTIONS = ['sin', 'cos', 'tan', 'cot', 'sec', 'csc', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'tanh', 'ln', 'exp'] as const
type FunctionName = (typeof FUNCTIONS)[number]
const isFunction = (name: string): name is FunctionName => (FUNCTIONS as readonly string[]).includes(name)
const INVERSE: Readonly<Record<string, Operation>> = { sin: 'asin', cos: 'acos', tan: 'atan' }

export const node = (op: Operation, ...args: Expression[]): Expression => ({ op, args })
export const number = (text: string | number): Expression => ({ op: 'number', text: String(text) })

/** Brackets inside brackets, and the like. */
const MAX_DEPTH = 40

/**
 * Read one formula from the front of `tokens`. It ends where words begin, or a trailing unit sign
 * (`°`, `%`); what is left is the caller's.
 *
 * Juxtaposition multiplies, but nobody writes a number behind another factor. An integer before a proper
 * fraction is a mixed number. `\frac12` and `\sqrt3` take one digit, `2^10` takes both.
 *
 * @returns the formula and how many tokens it took
 * @throws Unreadable
 */
export const parseExpression = (tokens: readonly Token[]): { expression: Expression; taken: number } => {
  let at = 0
  let depth = 0
  let bars = 0
  /** A digit that `\frac` or `\sqrt` took leaves the others of its number. */
  let rest: Token | undefined
  const peek = (ahead = 0): Token | undefined => (rest && ahead === 0 ? rest : tokens[at + ahead])
  const next = (): Token => {
    const token = peek()
    if (!token) throw new Unreadable('the formula is incomplete')
    rest = undefined
    at++
    return token
  }
  const isMark = (text: string, ahead = 0): boolean => {
    const token = peek(ahead)
    return token?.type === 'mark' && token.text === text
  }
  const accept = (text: string): boolean => isMark(text) && next() !== undefined
  const expect = (text: string): void => {
    if (!accept(text)) throw new Unreadable(`"${text}" is missing`)
  }
  const isCommand = (...names: string[]): boolean => {
    const token = peek()
    return token?.type === 'command' && names.includes(token.text)
  }
  const nested = <T>(read: () => T): T => {
    if (++depth > MAX_DEPTH) throw new Unreadable(`the formula nests deeper than ${MAX_DEPTH}`)
    const outside = bars
    bars = 0
    const result = read()
    bars = outside
    depth--
    return result
  }

  const sum = (): Expression => {
    let left: Expression | undefined
    for (;;) {
      if (accept('+')) left = left ? node('add', left, product()) : product()
      else if (accept('-')) left = left ? node('subtract', left, product()) : node('negate', product())
      else if (isMark('±') || isMark('∓')) {
        const op = next().text as '±' | '∓'
        left = left ? node(op, left, product()) : node(op, product())
      } else if (left) return left
      else left = product()
    }
  }

  const product = (): Expression => {
    // a sign before a factor: 2 · −3
    if (accept('-')) return node('negate', product())
    if (accept('+')) return product()
    const firstToken = peek()
    let left = power()
    const leading = firstToken?.type === 'number' && left.op === 'number' && isWhole(left) ? left : undefined
    const mixed = leading && mixedPart()
    if (leading && mixed) left = node('add', leading, mixed)
    for (;;) {
      if (accept('*')) left = node('multiply', left, signed())
      else if (isMark('/') && peek(1)?.type !== 'words') {
        next()
        left = node('divide', left, signed())
      } else if (startsFactor()) {
        if (peek()?.type === 'number') throw new Unreadable('a number stands right behind another factor')
        left = node('multiply', left, power())
      } else return left
    }
  }
  const signed = (): Expression => (accept('-') ? node('negate', signed()) : accept('+') ? signed() : power())

  /** The fraction of a mixed number: `\frac12` or `1/2` behind an integer. */
  const mixedPart = (): Expression | undefined => {
    const [a, slash, b] = [peek(), peek(1), peek(2)]
    if (a?.type === 'number' && slash?.type === 'mark' && slash.text === '/' && b?.type === 'number' && /^\d+$/.test(a.text + b.text)) {
      next()
      next()
      next()
      return node('divide', number(a.text), number(b.text))
    }
    if (!isCommand('frac')) return undefined
    const before: [number, Token | undefined] = [at, rest]
    const fraction = power()
    if (fraction.op === 'divide' && fraction.args.every(isWhole)) {
      const [top, bottom] = fraction.args as unknown as { text: string }[]
      if (BigInt(top.text) < BigInt(bottom.text)) return fraction
    }
    ;[at, rest] = before
    return undefined
  }

  const startsFactor = (): boolean => {
    const token = peek()
    if (!token || token.type === 'words') return false
    if (token.type === 'number' || token.type === 'symbol') return true
    if (token.type === 'mark') return '([{'.includes(token.text) || (token.text === '|' && bars === 0)
    return isAtomCommand(token.text)
  }
  const isAtomCommand = (name: string): boolean => isFunction(name) || ATOM_COMMANDS.has(name)

  /** An atom with what is set behind it: powers, factorials, degrees, percent signs. */
  const power = (): Expression => {
    let base = atom()
    for (;;) {
      if (isMark('^')) {
        next()
        const exponent = superscript()
        if (exponent) base = node('pow', base, exponent)
      } else if (isMark('!') && !isMark('!', 1)) {
        next()
        base = node('factorial', base)
      } else if ((isMark('°') || isMark('%')) && !(depth === 0 && onlyUnitsFollow())) {
        base = next().text === '°' ? node('multiply', base, node('divide', { op: 'pi' }, number(180))) : node('divide', base, number(100))
      } else return base
    }
  }

  const onlyUnitsFollow = (): boolean => tokens.slice(at + 1).every((token) => token.type === 'words' || token.type === 'symbol')

  /** Undefined for an ordinal's ending: 7^{\text{th}}. */
  const superscript = (): Expression | undefined =>
    nested(() => {
      if (isMark('{')) {
        const close = tokens.findIndex((token, i) => i > at && token.type === 'mark' && token.text === '}')
        const inside = tokens.slice(at + 1, close)
        if (
          close > 0 &&
          inside.every((token) => token.type === 'words' || token.type === 'symbol') &&
          /^(th|st|nd|rd)$/.test(inside.map(textOf).join(''))
        ) {
          at = close + 1
          return undefined
        }
      }
      if (accept('-')) return node('negate', atomWithPower())
      accept('+')
      return atomWithPower()
    })
  const atomWithPower = (): Expression => {
    const base = atom()
    if (!accept('^')) return base
    const exponent = superscript()
    return exponent ? node('pow', base, exponent) : base
  }

  const atom = (): Expression => nested(atomInside)
  const atomInside = (): Expression => {
    const token = next()
    if (token.type === 'number') return { op: 'number', text: token.text, ...(token.repeating && { repeating: token.repeating }) }
    if (token.type === 'symbol') return symbol(token.text)
    if (token.type === 'words') throw new Unreadable(`the word "${token.text}"`)
    if (token.type === 'mark') {
      if (token.text === '(') return closed(')')
      if (token.text === '[') return closed(']')
      if (token.text === '{') return group()
      if (token.text === '|') {
        bars++
        const inside = sum()
        bars--
        expect('|')
        return node('abs', inside)
      }
      throw new Unreadable(`"${token.text}" where a number or symbol is due`)
    }
    return command(token.text)
  }
  const closed = (close: string): Expression => {
    const inside = sum()
    expect(close)
    return inside
  }
  /** After `{`: a formula, or `n \choose k`, or `a \over b`. */
  const group = (): Expression => {
    const inside = sum()
    if (isCommand('choose', 'over')) {
      const op = next().text === 'choose' ? 'binomial' : 'divide'
      const second = sum()
      expect('}')
      return node(op, inside, second)
    }
    expect('}')
    return inside
  }

  /** A letter with its subscript and primes. */
  const symbol = (letter: string): Expression => {
    let name = letter
    if (accept('_')) name += `_${subscript()}`
    while (accept('\'')) name += '\''
    if (name === 'e' || name === 'i') return { op: name }
    return { op: 'symbol', name }
  }
  const subscript = (): string => {
    if (!accept('{')) return textOf(next())
    let text = ''
    for (let open = 1; open > 0; ) {
      const token = next()
      if (token.type === 'mark') open += token.text === '{' ? 1 : token.text === '}' ? -1 : 0
      if (open > 0) text += textOf(token)
    }
    return text
  }

  const command = (name: string): Expression => {
    if (name === 'pi') return { op: 'pi' }
    if (name === 'infty') return { op: 'symbol', name: '∞' }
    if (name === 'frac') return node('divide', argument(), argument())
    if (name === 'binom') return node('binomial', argument(), argument())
    if (name === 'sqrt') {
      let degree: Expression = number(2)
      if (accept('[')) degree = nested(() => closed(']'))
      return node('root', isMark('(') ? atom() : argument(), degree)
    }
    if (name === 'lfloor' || name === 'lceil') {
      const inside = sum()
      if (!isCommand(name === 'lfloor' ? 'rfloor' : 'rceil')) throw new Unreadable(`\\${name} is not closed`)
      next()
      return node(name === 'lfloor' ? 'floor' : 'ceil', inside)
    }
    if (name === 'overline' || name === 'bar') {
      const start = at
      argument()
      return { op: 'symbol', name: `bar(${tokens.slice(start, at).map(textOf).join('')})` }
    }
    if (name === 'log') {
      let base: Expression = number(10)
      if (accept('_')) base = argument()
      return applied((x) => node('log', x, base))
    }
    if (isFunction(name)) return applied((x, inverse) => node(inverse ? INVERSE[name] ?? name : name, x), name in INVERSE)
    throw new Unreadable(`the command \\${name}`)
  }

  /** The argument of \frac and its like: a group, one digit, or one atom. */
  const argument = (): Expression =>
    nested(() => {
      if (accept('{')) return group()
      const token = peek()
      if (token?.type !== 'number' || token.text.length === 1 || !/^\d/.test(token.text)) return atomInside()
      next()
      at--
      rest = { type: 'number', text: token.text.slice(1) }
      return number(token.text[0])
    })

  /** A function's power (`\sin^2 x`, `\sin^{-1} x`) and argument: brackets, or the factors up to the next sign or function. */
  const applied = (call: (x: Expression, inverse: boolean) => Expression, invertible = false): Expression => {
    let exponent: Expression | undefined
    if (accept('^')) exponent = superscript()
    const inverse = invertible && exponent?.op === 'negate' && exponent.args[0].op === 'number' && exponent.args[0].text === '1'
    const value = call(functionArgument(), inverse)
    return exponent && !inverse ? node('pow', value, exponent) : value
  }
  const functionArgument = (): Expression =>
    nested(() => {
      if (isMark('(') || isMark('[') || isMark('{') || isMark('|')) return atomInside()
      if (accept('-')) return node('negate', functionArgument())
      let left = power()
      for (;;) {
        const token = peek()
        if (token?.type === 'mark' && token.text === '/') {
          next()
          left = node('divide', left, power())
          continue
        }
        if (!token || !startsFactor() || token.type === 'mark' || (token.type === 'command' && isFunctionLike(token.text))) return left
        if (token.type === 'number') throw new Unreadable('a number behind a function\'s argument')
        left = node('multiply', left, power())
      }
    })
  const isFunctionLike = (name: string): boolean => isFunction(name) || name === 'log'

  const expression = sum()
  if (rest) throw new Unreadable('digits are left over')
  return { expression, taken: at }
}

const ATOM_COMMANDS = new Set(['pi', 'infty', 'frac', 'binom', 'sqrt', 'lfloor', 'lceil', 'overline', 'bar', 'log'])

const isWhole = (expression: Expression): boolean => expression.op === 'number' && !expression.repeating && /^\d+$/.test(expression.text)

export const textOf = (token: Token): string => token.text

/** The formulas that one with signs ± stands for: each sign chooses for itself, but beside a ∓ all choose together. */
export const expand = (expression: Expression): Expression[] => {
  const signs = countSigns(expression)
  const together = signs['∓'] > 0
  const free = together ? 1 : signs['±']
  if (free > 4) throw new Unreadable(`${free} signs ± in one formula`)
  return Array.from({ length: 2 ** free }, (_, bits) => {
    let seen = 0
    const choose = (at: Expression): Expression => {
      if (!('args' in at)) return at
      const args = at.args.map(choose)
      if (at.op !== '±' && at.op !== '∓') return { op: at.op, args }
      const plus = ((bits >> (together ? 0 : seen++)) & 1) === (at.op === '±' ? 0 : 1)
      if (args.length === 1) return plus ? args[0] : node('negate', args[0])
      return node(plus ? 'add' : 'subtract', ...args)
    }
    return choose(expression)
  })
}

const countSigns = (expression: Expression): Record<'±' | '∓', number> => {
  const counts = { '±': 0, '∓': 0 }
  const visit = (at: Expression): void => {
    if (!('args' in at)) return
    if (at.op === '±' || at.op === '∓') counts[at.op]++
    at.args.forEach(visit)
  }
  visit(expression)
  return counts
}
