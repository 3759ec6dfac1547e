import {
  ELLIPSIS, type Argument, type BinaryOperator, type Clause, type Comparison, type Expression, type FormattedPart, type Handler,
  type Parameters, type Statement,
} from './ast.js'
import { formattedParts } from './fstring.js'
import { PythonSyntaxError, tokenise, type Token } from './tokens.js'

/** Statements inside statements, and expressions inside expressions; the latter also bounds the stack of the evaluator. */
const MAX_DEPTH = 450

const KEYWORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if import in is ' +
    'lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)

/** @throws PythonSyntaxError when it is no Python or uses what the subset lacks (classes, `with`, `match`, `async`) */
export const parseProgram = (source: string): Statement[] => parser(tokenise(source)).program()

/** One expression and nothing else. @throws PythonSyntaxError */
export const parseExpression = (source: string): Expression => parser(tokenise(source.replace(/^[ \t]+/, ''))).only()

const parser = (tokens: readonly Token[]) => {
  let at = 0
  let depth = 0
  const peek = (): Token => tokens[at]
  const fail = (what: string): never => {
    throw new PythonSyntaxError(`line ${peek().line}: ${what}`)
  }
  const shown = (): string => {
    const token = peek()
    return 'text' in token
      ? `"${token.text.slice(0, 20)}"`
      : token.type === 'number'
        ? String(token.value)
        : `the ${token.type} of the line`
  }
  const is = (...texts: string[]): boolean => {
    const token = peek()
    return (token.type === 'operator' || (token.type === 'name' && KEYWORDS.has(token.text))) && texts.includes(token.text)
  }
  const accept = (text: string): boolean => is(text) && ++at > 0
  const expect = (text: string): void => {
    if (!accept(text)) fail(`${shown()} where "${text}" is due`)
  }
  const isType = (type: Token['type']): boolean => peek().type === type
  const name = (): string => {
    const token = peek()
    if (token.type !== 'name' || KEYWORDS.has(token.text)) return fail(`${shown()} where a name is due`)
    at++
    return token.text
  }
  const nested = <T>(read: () => T): T => {
    if (++depth > MAX_DEPTH) fail('nested too deeply')
    const result = read()
    depth--
    return result
  }
  const separated = <T>(read: () => T, more: () => boolean): T[] => {
    const items = [read()]
    while (accept(',') && more()) items.push(read())
    return items
  }

  // ── statements ──

  const program = (): Statement[] => {
    const statements: Statement[] = []
    while (!isType('end')) statements.push(...statement())
    return statements
  }

  const statement = (): Statement[] => nested(() => {
    const { line } = peek()
    if (accept('if')) return [ifRest(line)]
    if (accept('while')) {
      const test = namedExpression()
      return [{ node: 'while', test, body: block(), otherwise: elseBlock(), line }]
    }
    if (accept('for')) {
      const target = targets()
      expect('in')
      const iterable = starExpressions()
      return [{ node: 'for', target, iterable, body: block(), otherwise: elseBlock(), line }]
    }
    if (accept('try')) return [tryRest(line)]
    if (is('def', '@')) return [definition(line)]
    if (is('class', 'with', 'async', 'await')) return fail(`${shown()} is not in the subset of Python that is evaluated`)
    if (isType('indent')) return fail('unexpected indentation')
    const line_: Statement[] = []
    do {
      if (isType('newline')) break
      line_.push(simple())
    } while (accept(';'))
    if (!isType('newline')) fail(`${shown()} where the statement should end`)
    at++
    return line_
  })

  const block = (): Statement[] => {
    expect(':')
    if (!isType('newline')) return statement()
    at++
    if (!isType('indent')) fail('an indented block is due')
    at++
    const statements: Statement[] = []
    while (!isType('dedent') && !isType('end')) statements.push(...statement())
    if (isType('dedent')) at++
    return statements
  }
  const elseBlock = (): Statement[] => (accept('else') ? block() : [])

  const ifRest = (line: number): Statement => {
    const test = namedExpression()
    const then = block()
    const next = peek().line
    if (accept('elif')) return { node: 'if', test, then, otherwise: [nested(() => ifRest(next))], line }
    return { node: 'if', test, then, otherwise: elseBlock(), line }
  }

  const tryRest = (line: number): Statement => {
    const body = block()
    const handlers: Handler[] = []
    while (accept('except')) {
      const type = is(':') ? undefined : expression()
      handlers.push({ type, ...(type && accept('as') && { name: name() }), body: block() })
    }
    const otherwise = handlers.length > 0 ? elseBlock() : []
    const last = accept('finally') ? block() : []
    if (handlers.length === 0 && last.length === 0) fail('"except" or "finally" is due')
    return { node: 'try', body, handlers, otherwise, finally: last, line }
  }

  const definition = (line: number): Statement => {
    const decorators: Expression[] = []
    while (accept('@')) {
      decorators.push(namedExpression())
      if (!isType('newline')) fail('a decorator ends with its line')
      at++
    }
    if (!accept('def')) return fail(`${shown()} is not in the subset of Python that is evaluated`)
    const functionName = name()
    expect('(')
    const parameters = parameterList(')', true)
    expect(')')
    if (accept('->')) expression()
    return { node: 'function', name: functionName, parameters, body: block(), decorators, line }
  }

  const parameterList = (end: string, annotated: boolean): Parameters => {
    const positional: { name: string; fallback?: Expression }[] = []
    const keywordOnly: { name: string; fallback?: Expression }[] = []
    let rest: string | undefined
    let keywords: string | undefined
    let starred = false
    const seen = new Set<string>()
    const one = (): string => {
      const parameter = name()
      if (seen.has(parameter)) fail(`the parameter "${parameter}" comes twice`)
      seen.add(parameter)
      if (annotated && accept(':')) expression()
      return parameter
    }
    while (!is(end)) {
      if (keywords) fail('a parameter behind **')
      if (accept('**')) keywords = one()
      else if (accept('*')) {
        if (starred) fail('a second * among the parameters')
        starred = true
        if (!is(',')) rest = one()
      } else if (accept('/')) {
        // positional-only parameters are taken by name, too
      } else {
        const parameter = one()
        const fallback = accept('=') ? expression() : undefined
        if (!starred && !fallback && positional.at(-1)?.fallback) fail('a parameter without a default behind one with')
        ;(starred ? keywordOnly : positional).push({ name: parameter, ...(fallback && { fallback }) })
      }
      if (!accept(',')) break
    }
    return { positional, keywordOnly, ...(rest && { rest }), ...(keywords && { keywords }) }
  }

  const simple = (): Statement => {
    const { line } = peek()
    for (const node of ['pass', 'break', 'continue'] as const) if (accept(node)) return { node, line }
    if (accept('return')) return { node: 'return', ...(!statementEnds() && { value: starExpressions() }), line }
    if (accept('del')) return { node: 'delete', targets: separated(() => targetOf(primary()), () => !statementEnds()), line }
    for (const node of ['global', 'nonlocal'] as const) if (accept(node)) return { node, names: separated(name, () => true), line }
    if (accept('assert')) {
      const test = expression()
      return { node: 'assert', test, ...(accept(',') && { message: expression() }), line }
    }
    if (accept('raise')) {
      const raised: Statement = { node: 'raise', ...(!statementEnds() && { value: expression() }), line }
      if (accept('from')) expression()
      return raised
    }
    if (accept('import')) return importStatement(line)
    if (accept('from')) return importFrom(line)
    return assignment(line)
  }
  const statementEnds = (): boolean => isType('newline') || isType('end') || is(';')

  const dottedName = (): string => {
    let text = name()
    while (accept('.')) text += `.${name()}`
    return text
  }
  const importStatement = (line: number): Statement => {
    const module = dottedName()
    const as = accept('as') ? name() : module.split('.')[0]
    if (is(',')) {
      // `import a, b`: the comma becomes another statement
      return {
        node: 'if',
        test: { node: 'constant', value: true },
        then: [{ node: 'import', module, as, line }, ...(accept(',') ? [importStatement(line)] : [])],
        otherwise: [],
        line,
      }
    }
    return { node: 'import', module, as, line }
  }
  const importFrom = (line: number): Statement => {
    const module = dottedName()
    expect('import')
    if (accept('*')) return { node: 'importFrom', module, names: null, line }
    const bracket = accept('(')
    const names = separated(() => {
      const imported = name()
      return { name: imported, as: accept('as') ? name() : imported }
    }, () => !is(')'))
    if (bracket) expect(')')
    return { node: 'importFrom', module, names, line }
  }

  const AUGMENTED = new Set(['+=', '-=', '*=', '/=', '//=', '%=', '**=', '<<=', '>>=', '&=', '|=', '^='])
  const assignment = (line: number): Statement => {
    const first = is('yield') ? yieldExpression() : starExpressions()
    if (accept(':')) {
      expression()
      const target = targetOf(first)
      return accept('=') ? { node: 'assign', targets: [target], value: valueRight(), line } : { node: 'declare', target, line }
    }
    const token = peek()
    if (token.type === 'operator' && AUGMENTED.has(token.text)) {
      at++
      const target = targetOf(first)
      if (target.node === 'tuple' || target.node === 'list' || target.node === 'starred') fail('an augmented assignment to several names')
      return { node: 'augmented', target, operator: token.text.slice(0, -1) as BinaryOperator, value: valueRight(), line }
    }
    const chain = [first]
    while (accept('=')) chain.push(valueRight())
    const value = chain.pop()!
    if (chain.length === 0) {
      if (value.node === 'starred') fail('a starred expression here')
      return { node: 'expression', value, line }
    }
    return { node: 'assign', targets: chain.map(targetOf), value, line }
  }
  const valueRight = (): Expression => (is('yield') ? yieldExpression() : starExpressions())

  /** Checks that something can be assigned to. */
  const targetOf = (expression: Expression): Expression => {
    if (expression.node === 'tuple' || expression.node === 'list') {
      if (expression.items.filter((item) => item.node === 'starred').length > 1) fail('two starred targets')
      return {
        node: expression.node,
        items: expression.items.map((item) =>
          item.node === 'starred' ? { node: 'starred', value: targetOf(item.value) } : targetOf(item),
        ),
      }
    }
    if (expression.node === 'name' || expression.node === 'attribute' || expression.node === 'subscript') return expression
    return fail('this cannot be assigned to')
  }

  /** Targets of a `for`, up to its `in`. */
  const targets = (): Expression => {
    const one = (): Expression => (accept('*') ? { node: 'starred', value: targetOf(primary()) } : targetOf(primary()))
    const first = one()
    if (!is(',')) return first
    const items = [first]
    while (accept(',') && !is('in')) items.push(one())
    return targetOf({ node: 'tuple', items })
  }

  // ── expressions ──

  const only = (): Expression => {
    const value = starExpressions()
    if (isType('newline')) at++
    if (!isType('end')) fail(`${shown()} behind the expression`)
    return value
  }

  const expressionEnds = (): boolean =>
    statementEnds() ||
    is(')', ']', '}', '=', ':', 'in', 'for') ||
    (peek().type === 'operator' && AUGMENTED.has((peek() as { text: string }).text))
  const starExpressions = (): Expression => {
    const first = starred()
    if (!is(',')) return first
    const items = [first]
    while (accept(',') && !expressionEnds()) items.push(starred())
    return { node: 'tuple', items }
  }
  const starred = (): Expression => (accept('*') ? { node: 'starred', value: bitOr() } : namedExpression())

  const namedExpression = (): Expression => {
    const value = expression()
    if (value.node !== 'name' || !accept(':=')) return value
    return { node: 'walrus', name: value.name, value: expression() }
  }

  const yieldExpression = (): Expression => {
    expect('yield')
    if (accept('from')) return { node: 'yield', from: true, value: expression() }
    return { node: 'yield', from: false, ...(!statementEnds() && !is(')') && { value: starExpressions() }) }
  }

  const expression = (): Expression => nested(() => {
    if (accept('lambda')) {
      const parameters = parameterList(':', false)
      expect(':')
      return { node: 'lambda', parameters, body: expression() }
    }
    const value = or()
    if (!accept('if')) return value
    const test = or()
    expect('else')
    return { node: 'conditional', test, then: value, otherwise: expression() }
  })

  const or = (): Expression => {
    let left = and()
    while (accept('or')) left = { node: 'logical', operator: 'or', left, right: and() }
    return left
  }
  const and = (): Expression => {
    let left = not()
    while (accept('and')) left = { node: 'logical', operator: 'and', left, right: not() }
    return left
  }
  const not = (): Expression => (accept('not') ? { node: 'unary', operator: 'not', operand: nested(not) } : comparison())

  const comparison = (): Expression => {
    const left = bitOr()
    const rest: { operator: Comparison; right: Expression }[] = []
    for (let operator = comparisonOperator(); operator; operator = comparisonOperator()) rest.push({ operator, right: bitOr() })
    return rest.length > 0 ? { node: 'compare', left, rest } : left
  }
  const comparisonOperator = (): Comparison | undefined => {
    for (const operator of ['==', '!=', '<=', '>=', '<', '>', 'in'] as const) if (accept(operator)) return operator
    if (accept('is')) return accept('not') ? 'is not' : 'is'
    if (is('not')) {
      at++
      expect('in')
      return 'not in'
    }
    return undefined
  }

  const leftAssociative = (operand: () => Expression, ...operators: BinaryOperator[]) => (): Expression => {
    let left = operand()
    for (;;) {
      const operator = operators.find(accept)
      if (!operator) return left
      left = { node: 'binary', operator, left, right: operand() }
    }
  }
  const unary = (): Expression => {
    for (const operator of ['-', '+', '~'] as const) if (accept(operator)) return { node: 'unary', operator, operand: nested(unary) }
    const base = primary()
    return accept('**') ? { node: 'binary', operator: '**', left: base, right: nested(unary) } : base
  }
  const product = leftAssociative(unary, '*', '//', '/', '%')
  const sum = leftAssociative(product, '+', '-')
  const shift = leftAssociative(sum, '<<', '>>')
  const bitAnd = leftAssociative(shift, '&')
  const bitXor = leftAssociative(bitAnd, '^')
  const bitOr = leftAssociative(bitXor, '|')

  const primary = (): Expression => {
    let value = atom()
    let links = 0
    for (;;) {
      if (accept('.')) value = { node: 'attribute', object: value, name: name() }
      else if (accept('(')) value = { node: 'call', callee: value, args: argumentList() }
      else if (accept('[')) value = { node: 'subscript', object: value, index: subscript() }
      else return value
      if (++links > MAX_DEPTH) fail('a chain of too many calls')
    }
  }

  const argumentList = (): Argument[] => {
    const args: Argument[] = []
    while (!accept(')')) {
      if (accept('**')) args.push({ kind: 'doubleStar', value: expression() })
      else if (accept('*')) args.push({ kind: 'star', value: expression() })
      else {
        const value = namedExpression()
        if (value.node === 'name' && accept('=')) args.push({ kind: 'keyword', name: value.name, value: expression() })
        else if (is('for')) args.push({ kind: 'positional', value: comprehension('generator', value) })
        else {
          if (args.some(({ kind }) => kind === 'keyword')) fail('a positional argument behind a keyword argument')
          args.push({ kind: 'positional', value })
        }
      }
      if (!accept(',')) {
        expect(')')
        break
      }
    }
    return args
  }

  const subscript = (): Expression => {
    const items = separated(() => {
      const start = is(':') ? undefined : starred()
      if (!accept(':')) return start!
      const stop = is(':', ']', ',') ? undefined : expression()
      const step = accept(':') && !is(']', ',') ? expression() : undefined
      return { node: 'slice', ...(start && { start }), ...(stop && { stop }), ...(step && { step }) } as Expression
    }, () => !is(']'))
    const comma = tokens[at - 1]
    expect(']')
    return items.length > 1 || (comma.type === 'operator' && comma.text === ',') ? { node: 'tuple', items } : items[0]
  }

  const comprehension = (kind: 'list' | 'set' | 'dict' | 'generator', element: Expression, value?: Expression): Expression => {
    const clauses: Clause[] = []
    while (accept('for')) {
      const target = targets()
      expect('in')
      const iterable = or()
      const conditions: Expression[] = []
      while (accept('if')) conditions.push(conditionOf())
      clauses.push({ target, iterable, conditions })
    }
    if (element.node === 'starred') fail('unpacking in a comprehension')
    return { node: 'comprehension', kind, element, ...(value && { value }), clauses }
  }
  const conditionOf = (): Expression => {
    const value = or()
    return value.node === 'name' && accept(':=') ? { node: 'walrus', name: value.name, value: or() } : value
  }

  const atom = (): Expression => nested(() => {
    const token = peek()
    if (token.type === 'number') {
      at++
      return { node: 'constant', value: token.value }
    }
    if (token.type === 'string') return strings()
    if (accept('(')) return bracketed()
    if (accept('[')) {
      if (accept(']')) return { node: 'list', items: [] }
      const first = starred()
      if (is('for')) {
        const list = comprehension('list', first)
        expect(']')
        return list
      }
      const items = accept(',') && !is(']') ? [first, ...separated(starred, () => !is(']'))] : [first]
      expect(']')
      return { node: 'list', items }
    }
    if (accept('{')) return braces()
    if (accept('...')) return { node: 'constant', value: ELLIPSIS }
    if (accept('None')) return { node: 'constant', value: null }
    if (accept('True')) return { node: 'constant', value: true }
    if (accept('False')) return { node: 'constant', value: false }
    return { node: 'name', name: name() }
  })

  const bracketed = (): Expression => {
    if (accept(')')) return { node: 'tuple', items: [] }
    if (is('yield')) {
      const value = yieldExpression()
      expect(')')
      return value
    }
    const first = starred()
    if (is('for')) {
      const generator = comprehension('generator', first)
      expect(')')
      return generator
    }
    if (accept(')')) {
      if (first.node === 'starred') fail('a starred expression here')
      return first
    }
    expect(',')
    const items = is(')') ? [first] : [first, ...separated(starred, () => !is(')'))]
    expect(')')
    return { node: 'tuple', items }
  }

  const braces = (): Expression => {
    if (accept('}')) return { node: 'dict', items: [] }
    if (is('**')) return dictRest([])
    const first = starred()
    if (accept(':')) {
      const value = expression()
      if (!is('for')) return dictRest([{ key: first, value }])
      const dict = comprehension('dict', first, value)
      expect('}')
      return dict
    }
    if (is('for')) {
      const set = comprehension('set', first)
      expect('}')
      return set
    }
    const items = accept(',') && !is('}') ? [first, ...separated(starred, () => !is('}'))] : [first]
    expect('}')
    return { node: 'set', items }
  }
  const dictRest = (items: { key: Expression | null; value: Expression }[]): Expression => {
    while (items.length === 0 || accept(',')) {
      if (is('}')) break
      if (accept('**')) items.push({ key: null, value: bitOr() })
      else {
        const key = expression()
        expect(':')
        items.push({ key, value: expression() })
      }
    }
    expect('}')
    return { node: 'dict', items }
  }

  /** Adjacent strings are one. */
  const strings = (): Expression => {
    const parts: FormattedPart[] = []
    let formatted = false
    for (let token = peek(); token.type === 'string'; token = peek()) {
      at++
      if (token.format) {
        formatted = true
        parts.push(...formattedParts(token.text, token.line, parseExpression))
      } else parts.push(token.text)
    }
    return formatted ? { node: 'formatted', parts } : { node: 'constant', value: parts.join('') }
  }

  return { program, only }
}
