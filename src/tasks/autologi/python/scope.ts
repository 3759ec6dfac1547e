import type { Clause, Expression, Parameters, Statement } from './ast.js'

/** Where names live, decided before anything runs, as Python does: a name assigned anywhere in a function is local to it. */
export interface Scope {
  readonly parent: Scope | null
  /** Positions in the frame by name. The module has none: its names are the globals. */
  readonly slots: ReadonlyMap<string, number>
  /** Names declared `global`. */
  readonly globals: ReadonlySet<string>
  readonly isComprehension: boolean
}

/** Frames up and slot, or global. */
export type Place = { readonly up: number; readonly slot: number } | 'global'

export const MODULE: Scope = { parent: null, slots: new Map(), globals: new Set(), isComprehension: false }

export const find = (name: string, scope: Scope): Place => {
  let up = 0
  for (let at: Scope | null = scope; at && at !== MODULE; at = at.parent, up++) {
    if (at.globals.has(name)) return 'global'
    const slot = at.slots.get(name)
    if (slot !== undefined) return { up, slot }
  }
  return 'global'
}

/** Where `name := …` puts its value: beyond all comprehensions. */
export const findForWalrus = (name: string, scope: Scope): Place => {
  let up = 0
  let at: Scope = scope
  for (; at.isComprehension && at.parent; at = at.parent) up++
  const place = find(name, at)
  return place === 'global' ? place : { up: place.up + up, slot: place.slot }
}

const numbered = (names: Iterable<string>): Map<string, number> => new Map([...new Set(names)].map((name, i) => [name, i]))

/** Parameters take the first slots, in the order positional, rest, keyword-only, keywords. */
export const functionScope = (parameters: Parameters, body: readonly Statement[] | Expression, parent: Scope): Scope => {
  const { positional, rest, keywordOnly, keywords } = parameters
  const names = [
    ...positional.map(({ name }) => name),
    ...(rest ? [rest] : []),
    ...keywordOnly.map(({ name }) => name),
    ...(keywords ? [keywords] : []),
  ]
  const globals = new Set<string>()
  const outside = new Set<string>()
  if (isStatements(body)) {
    for (const statement of body) boundByStatement(statement, names, globals, outside)
  } else boundByWalrus(body, names)
  return { parent, slots: numbered(names.filter((name) => !globals.has(name) && !outside.has(name))), globals, isComprehension: false }
}

const isStatements = (body: readonly Statement[] | Expression): body is readonly Statement[] => Array.isArray(body)

export const comprehensionScope = (clauses: readonly Clause[], parent: Scope): Scope => {
  const names: string[] = []
  for (const { target } of clauses) boundByTarget(target, names)
  return { parent, slots: numbered(names), globals: new Set(), isComprehension: true }
}

const boundByTarget = (target: Expression, names: string[]): void => {
  if (target.node === 'name') names.push(target.name)
  else if (target.node === 'tuple' || target.node === 'list') target.items.forEach((item) => boundByTarget(item, names))
  else if (target.node === 'starred') boundByTarget(target.value, names)
  else boundByWalrus(target, names)
}

/** Names that `:=` binds in an expression, also from inside its comprehensions. */
const boundByWalrus = (expression: Expression, names: string[]): void => {
  if (expression.node === 'walrus') names.push(expression.name)
  if (expression.node === 'lambda') return
  forEachChild(expression, (child) => boundByWalrus(child, names))
}

const forEachChild = (at: Expression, visit: (child: Expression) => void): void => {
  switch (at.node) {
    case 'tuple': case 'list': case 'set': return at.items.forEach(visit)
    case 'dict': return at.items.forEach(({ key, value }) => {
      if (key) visit(key)
      visit(value)
    })
    case 'comprehension':
      visit(at.element)
      if (at.value) visit(at.value)
      return at.clauses.forEach(({ iterable, conditions }) => [iterable, ...conditions].forEach(visit))
    case 'binary': case 'logical': return [at.left, at.right].forEach(visit)
    case 'unary': return visit(at.operand)
    case 'compare': return [at.left, ...at.rest.map(({ right }) => right)].forEach(visit)
    case 'conditional': return [at.test, at.then, at.otherwise].forEach(visit)
    case 'call': return [at.callee, ...at.args.map(({ value }) => value)].forEach(visit)
    case 'attribute': return visit(at.object)
    case 'subscript': return [at.object, at.index].forEach(visit)
    case 'slice': return [at.start, at.stop, at.step].forEach((part) => part && visit(part))
    case 'starred': case 'walrus': return visit(at.value)
    case 'yield': return at.value && visit(at.value)
    case 'formatted': return at.parts.forEach((part) => typeof part !== 'string' && visit(part.value))
    case 'constant': case 'name': case 'lambda':
  }
}

const boundByStatement = (at: Statement, names: string[], globals: Set<string>, outside: Set<string>): void => {
  const inside = (statements: readonly Statement[]): void =>
    statements.forEach((statement) => boundByStatement(statement, names, globals, outside))
  const walrus = (...expressions: (Expression | undefined)[]): void =>
    expressions.forEach((expression) => expression && boundByWalrus(expression, names))
  switch (at.node) {
    case 'assign':
      at.targets.forEach((target) => boundByTarget(target, names))
      return walrus(at.value)
    case 'augmented':
      boundByTarget(at.target, names)
      return walrus(at.value)
    case 'declare': return boundByTarget(at.target, names)
    case 'delete': return at.targets.forEach((target) => boundByTarget(target, names))
    case 'global': return at.names.forEach((name) => globals.add(name))
    case 'nonlocal': return at.names.forEach((name) => outside.add(name))
    case 'import': return void names.push(at.as)
    case 'importFrom': return at.names?.forEach(({ as }) => names.push(as))
    case 'function': return void names.push(at.name)
    case 'for':
      boundByTarget(at.target, names)
      walrus(at.iterable)
      inside(at.body)
      return inside(at.otherwise)
    case 'while':
      walrus(at.test)
      inside(at.body)
      return inside(at.otherwise)
    case 'if':
      walrus(at.test)
      inside(at.then)
      return inside(at.otherwise)
    case 'try':
      inside(at.body)
      for (const { name, body } of at.handlers) {
        if (name) names.push(name)
        inside(body)
      }
      inside(at.otherwise)
      return inside(at.finally)
    case 'expression': return walrus(at.value)
    case 'return': case 'raise': return walrus(at.value)
    case 'assert': return walrus(at.test, at.message)
    case 'pass': case 'break': case 'continue':
  }
}

/** Whether a function's body yields, nested functions apart. */
export const yields = (statements: readonly Statement[]): boolean =>
  statements.some((at) => {
    switch (at.node) {
      case 'expression': case 'assign': case 'augmented': return isYield(at.value)
      case 'return': return at.value !== undefined && isYield(at.value)
      case 'for': case 'while': return yields(at.body) || yields(at.otherwise)
      case 'if': return yields(at.then) || yields(at.otherwise)
      case 'try': return yields(at.body) || at.handlers.some(({ body }) => yields(body)) || yields(at.otherwise) || yields(at.finally)
      default: return false
    }
  })
const isYield = (value: Expression): boolean => value.node === 'yield'
