import { InputError } from '../../util/errors.js'
import { show } from '../../util/validate.js'

/**
 * The PDDL that PlanBench needs: STRIPS without types. Preconditions and goals are conjunctions of
 * atoms, effects conjunctions of atoms and negated atoms. Names are lower-cased, as PDDL ignores case.
 */

/** A predicate and its arguments: `['on', 'a', 'b']`, in an action also `['on', '?ob', '?underob']`. */
export type Atom = readonly string[]

export interface Domain {
  readonly name: string
  /** Arity of each predicate. */
  readonly predicates: ReadonlyMap<string, number>
  /** In the order of the file. */
  readonly actions: readonly Action[]
}

export interface Action {
  readonly name: string
  readonly parameters: readonly string[]
  readonly needs: readonly Atom[]
  readonly adds: readonly Atom[]
  readonly deletes: readonly Atom[]
}

/** What a plan is for: all atoms of `goal` shall hold, where those of `init`, and no others, do. */
export interface PlanningProblem {
  readonly objects: readonly string[]
  readonly init: readonly Atom[]
  readonly goal: readonly Atom[]
}

/** Limits of a file: characters, and depth of brackets. */
const MAX_TEXT = 2 ** 20
const MAX_DEPTH = 32

/** @param where names the source in messages. @throws InputError for what is not such a domain */
export const parseDomain = (text: string, where: string): Domain => {
  const { name, sections } = parseDefine(text, 'domain', where)
  const predicates = new Map(
    sections.filter(([key]) => key === ':predicates').flatMap(([, ...declared]) => declared.map((atom) => {
      const [predicate, ...parameters] = atomOf(atom, where)
      return [predicate, parameters.length] as const
    })),
  )
  const actions = sections.filter(([key]) => key === ':action').map((section) => parseAction(section, predicates, where))
  for (const [key] of sections) {
    const known = key === ':requirements' || key === ':predicates' || key === ':action'
    if (!known) throw new InputError(`${where}: section ${show(key)} is not supported`)
  }
  return { name, predicates, actions }
}

/** @param where names the source in messages. @throws InputError for what is not a problem of the domain */
export const parseProblem = (text: string, domain: Domain, where: string): PlanningProblem => {
  const { sections } = parseDefine(text, 'problem', where)
  const section = (key: string): Expression[] => {
    const [found, ...more] = sections.filter(([head]) => head === key)
    if (!found || more.length) throw new InputError(`${where}: ${more.length + Number(Boolean(found))} sections ${key}; expected one`)
    return found.slice(1)
  }
  const objects = section(':objects').map((object) => nameOf(object, where))
  if (new Set(objects).size < objects.length) throw new InputError(`${where}: an object is declared twice`)
  const ground = (atom: Expression): Atom => {
    const checked = atomOf(atom, where)
    checkAtom(checked, domain.predicates, objects, where)
    return checked
  }
  const [of, ...rest] = section(':domain')
  if (rest.length || of !== domain.name) throw new InputError(`${where}: is of domain ${show(of)}; expected "${domain.name}"`)
  const [goal, ...others] = section(':goal')
  if (others.length) throw new InputError(`${where}: more than one goal`)
  return { objects, init: section(':init').map(ground), goal: conjuncts(goal).map(ground) }
}

type Expression = string | Expression[]

/** `(define (KIND NAME) SECTION …)`. */
const parseDefine = (text: string, kind: string, where: string): { name: string; sections: Expression[][] } => {
  const [define, head, ...sections] = listOf(parseExpression(text, where), where)
  if (define !== 'define') throw new InputError(`${where}: is not PDDL; expected (define (${kind} …) …)`)
  const [keyword, name] = listOf(head, where)
  if (keyword !== kind) throw new InputError(`${where}: defines a ${show(keyword)}; expected a ${kind}`)
  return { name: nameOf(name, where), sections: sections.map((section) => listOf(section, where)) }
}

const parseAction = ([, name, ...fields]: Expression[], predicates: Domain['predicates'], where: string): Action => {
  const at = `${where}: action ${nameOf(name, where)}`
  const field = (key: string): Expression => {
    const index = fields.indexOf(key)
    if (index < 0 || index + 1 === fields.length) throw new InputError(`${at}: ${key} is missing`)
    return fields[index + 1]
  }
  const parameters = listOf(field(':parameters'), at).map((parameter) => nameOf(parameter, at))
  const check = (atom: Expression): Atom => {
    const checked = atomOf(atom, at)
    checkAtom(checked, predicates, parameters, at)
    return checked
  }
  const effects = conjuncts(field(':effect'))
  const negated = (effect: Expression): boolean => Array.isArray(effect) && effect[0] === 'not'
  return {
    name: nameOf(name, where),
    parameters,
    needs: conjuncts(field(':precondition')).map(check),
    adds: effects.filter((effect) => !negated(effect)).map(check),
    deletes: effects.filter(negated).map((effect) => check(effect[1])),
  }
}

const checkAtom = ([predicate, ...terms]: Atom, predicates: Domain['predicates'], known: readonly string[], where: string): void => {
  const arity = predicates.get(predicate)
  if (arity === undefined) throw new InputError(`${where}: unknown predicate "${predicate}"`)
  if (terms.length !== arity) throw new InputError(`${where}: "${predicate}" has ${terms.length} arguments; expected ${arity}`)
  const stranger = terms.find((term) => !known.includes(term))
  if (stranger !== undefined) throw new InputError(`${where}: unknown object "${stranger}"`)
}

const conjuncts = (expression: Expression): Expression[] =>
  (Array.isArray(expression) && expression[0] === 'and' ? expression.slice(1) : [expression])

const atomOf = (expression: Expression, where: string): Atom => {
  if (Array.isArray(expression) && expression.length && expression.every((part) => typeof part === 'string')) return expression as string[]
  throw new InputError(`${where}: holds ${show(expression)}; expected an atom like (on a b)`)
}

const listOf = (expression: Expression | undefined, where: string): Expression[] => {
  if (Array.isArray(expression)) return expression
  throw new InputError(`${where}: holds ${show(expression)}; expected a list in brackets`)
}

const nameOf = (expression: Expression | undefined, where: string): string => {
  if (typeof expression === 'string') return expression
  throw new InputError(`${where}: holds ${show(expression)}; expected a name`)
}

/** One bracketed expression; `;` opens a comment to the end of the line. Iterative: no text overflows the stack. */
const parseExpression = (text: string, where: string): Expression => {
  if (text.length > MAX_TEXT) throw new InputError(`${where}: ${text.length} characters; at most ${MAX_TEXT} are read`)
  const root: Expression[] = []
  const open = [root]
  for (const [token] of text.toLowerCase().replace(/;[^\n]*/g, '').matchAll(/[()]|[^\s()]+/g)) {
    const at = open[open.length - 1]
    if (token === '(') {
      if (open.length > MAX_DEPTH) throw new InputError(`${where}: brackets deeper than ${MAX_DEPTH}`)
      const list: Expression[] = []
      at.push(list)
      open.push(list)
    } else if (token === ')') {
      open.pop()
      if (open.length === 0) throw new InputError(`${where}: a ")" too many`)
    } else {
      at.push(token)
    }
  }
  if (open.length > 1) throw new InputError(`${where}: ${open.length - 1} ")" missing at the end`)
  if (root.length !== 1) throw new InputError(`${where}: is not PDDL; expected one expression in brackets`)
  return root[0]
}
