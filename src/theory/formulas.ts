/**
 * Every numbered statement as one formula object: a mathjs expression that evaluates in float64, in BigNumber, and prints as TeX.
 * bounds.ts and certificates.ts compute the same numbers fast; a test holds the two against each other.
 *
 * An expression is a relation `left >= right`, `left <= right` or `left == right`. Three functions and two conventions are ours:
 * `Sum(i, from, to, f)` and `Prod(i, from, to, f)`, empty when to < from; `relent(p, q)` = p·log(p/q), 0 when p = 0 and ∞ when only q = 0;
 * 0·∞ = 0; arrays count from 1.
 */
import { createRequire } from 'node:module'
import type { BigNumber, FactoryFunctionMap, MathJsInstance, MathNode } from 'mathjs'
import { InputError } from '../util/errors.js'

/** A statement: its name in the paper (or here), the relation, and the abbreviations that the relation uses. */
export interface Formula {
  id: string
  /** "Theorem 3.6", "Active-mass certificate" … */
  statement: string
  relation: string
  /** assignments `name = expression`, evaluated before the relation */
  where?: readonly string[]
}

const c = 'c = sqrt(2) * gamma * A_max / (1 - gamma)^2'
const cHat = 'c_hat = sqrt(2) * gamma * Ahat_max / (1 - gamma)^2'
const cBar = 'c_bar = sqrt(2) * gamma * Abar_max / (1 - gamma)^2'
const improvement = 'J_n - J_0'
const sumSeq = 'Sum(i, 1, n, L_seq[i])'
const sumStale = 'Sum(i, 1, n, L_stale[i])'
const sumError = '1 / (1 - gamma) * Sum(i, 1, n, zeta[i])'
/** Σ L^seq minus (numerator)/(1−γ)² times a sum over steps, minus the error. */
const seqMinus = (numerator: string, costs: string): string =>
  `${improvement} >= ${sumSeq} - ${numerator} / (1 - gamma)^2 * Sum(i, 1, n, ${costs}) - ${sumError}`
const pinskerNumerator = 'sqrt(2) * gamma'
const tvNumerator = '2 * gamma'

const list: Formula[] = [
  {
    id: 'lemma31',
    statement: 'Lemma 3.1',
    relation: 'Sum(a, 1, K, relent(Prod(j, 1, n, q_joint[a, j]), Prod(j, 1, n, p_joint[a, j]))) == Sum(b, 1, K_active, relent(q[b], p[b]))',
  },
  { id: 'lemma32', statement: 'Lemma 3.2', relation: 'Sum(m, 1, M, relent(p[m], q[m])) == Sum(m, 1, M, p[m] * Sum(u, 1, T[m], KL[m, u]))' },
  {
    id: 'performanceDifference',
    statement: 'Performance difference',
    relation: 'J_after - J_before == 1 / (1 - gamma) * Sum(s, 1, S, d_after[s] * f[s])',
  },
  {
    id: 'occupancyShift',
    statement: 'Occupancy shift (total variation)',
    relation: 'Sum(s, 1, S, abs(d_after[s] - d_before[s])) <= 2 * gamma / (1 - gamma) * Sum(s, 1, S, d_before[s] * TV[s])',
  },
  {
    id: 'occupancyShiftPinsker',
    statement: 'Occupancy shift (Pinsker)',
    relation: 'Sum(s, 1, S, abs(d_after[s] - d_before[s])) <= sqrt(2) * gamma / (1 - gamma) * sqrt(D)',
  },
  {
    id: 'occupancyShiftActiveMass',
    statement: 'Occupancy shift (active mass)',
    relation: 'Sum(s, 1, S, abs(d_after[s] - d_before[s])) <= sqrt(2) * gamma / (1 - gamma) * sqrt(rho * D)',
  },
  { id: 'prop33', statement: 'Proposition 3.3', relation: 'L_seq >= L_stale - c_hat * Sum(k, 1, i - 1, sqrt(delta[k]))', where: [cHat] },
  { id: 'thm34', statement: 'Theorem 3.4', relation: 'J_after - J_before >= L_seq - c * sqrt(delta) - zeta / (1 - gamma)', where: [c] },
  {
    id: 'thm36',
    statement: 'Theorem 3.6',
    relation: `${improvement} >= ${sumSeq} - c * Sum(i, 1, n, sqrt(delta[i])) - ${sumError}`,
    where: [c],
  },
  {
    id: 'thm37Paper',
    statement: 'Theorem 3.7',
    relation: `${improvement} >= ${sumStale} - c_bar * n * Sum(i, 1, n, sqrt(delta[i])) - ${sumError}`,
    where: [cBar],
  },
  {
    id: 'thm37Exact',
    statement: 'Theorem 3.7, exact sum',
    relation: `${improvement} >= ${sumStale} - c_bar * Sum(k, 1, n, (n - k + 1) * sqrt(delta[k])) - ${sumError}`,
    where: [cBar],
  },
  {
    id: 'thm37Split',
    statement: 'Theorem 3.7, each constant in its place',
    relation: `${improvement} >= ${sumStale} - Sum(i, 1, n, c_hat * Sum(k, 1, i - 1, sqrt(delta[k])) + c * sqrt(delta[i])) - ${sumError}`,
    where: [c, cHat],
  },
  {
    id: 'thm37ZetaStale',
    statement: 'Theorem 3.7, stale error',
    relation: `${improvement} >= ${sumStale} - c * Sum(k, 1, n, (n - k + 1) * sqrt(delta[k])) - 1 / (1 - gamma) * Sum(i, 1, n, zeta_0[i])`,
    where: [c],
  },
  {
    id: 'prop38',
    statement: 'Proposition 3.8',
    relation: `J_n >= J_aligned + ${sumSeq} - c * Sum(i, 1, n, sqrt(delta[i])) - ${sumError}`,
    where: [c],
  },
  {
    id: 'prop39',
    statement: 'Proposition 3.9',
    relation: 'Sum(i, 1, n, L_new[i]) - c * Sum(i, 1, n, sqrt(delta_new[i])) >= Sum(i, 1, n, L_seq[i]) - c * Sum(i, 1, n, sqrt(delta[i]))',
    where: [c],
  },
  {
    id: 'activeMass',
    statement: 'Active-mass certificate',
    relation: `${improvement} >= ${sumSeq} - c * Sum(i, 1, n, sqrt(rho[i] * delta[i])) - ${sumError}`,
    where: [c],
  },
  {
    id: 'activeMassMessage',
    statement: 'Active-mass certificate, message radius',
    relation: `${improvement} >= ${sumSeq} - c * Sum(i, 1, n, rho[i] * sqrt(delta_msg[i])) - ${sumError}`,
    where: [c],
  },
  {
    id: 'activeMassStale',
    statement: 'Active-mass certificate, stale',
    relation: `${improvement} >= ${sumStale} - c_bar * Sum(k, 1, n, (n - k + 1) * sqrt(rho[k] * delta[k])) - ${sumError}`,
    where: [cBar],
  },
  {
    id: 'activeMassChanged',
    statement: 'Active-mass certificate, changed rows',
    relation: `${improvement} >= ${sumSeq} - c * Sum(i, 1, n, sqrt(rho_changed[i] * delta[i])) - ${sumError}`,
    where: [c],
  },
  {
    id: 'staleOwnStates',
    statement: 'Stale bound over own states',
    relation: `${improvement} >= ${sumStale} - c_bar * (Sum(i, 1, n, sqrt(delta[i])) + Sum(k, 1, n - 1, sqrt(delta[k]))) - ${sumError}`,
    where: [cBar],
  },
  {
    id: 'staleGap',
    statement: 'Stale gap over own states',
    relation: 'Sum(i, 1, n, abs(L_seq[i] - L_stale[i])) <= c * Sum(k, 1, n - 1, sqrt(delta[k]))',
    where: [c],
  },
  { id: 'tv', statement: 'Total-variation certificate', relation: seqMinus('2 * gamma * A_max', 'TV[i]') },
  {
    id: 'tvCapped',
    statement: 'Total-variation certificate, shifts at most 2',
    relation: `${improvement} >= ${sumSeq} - A_max / (1 - gamma) * Sum(i, 1, n, min(2, 2 * gamma / (1 - gamma) * TV[i])) - ${sumError}`,
  },
  {
    id: 'tvStale',
    statement: 'Total-variation certificate, stale',
    relation: `${improvement} >= ${sumStale} - 2 * gamma * Abar_max / (1 - gamma)^2 * Sum(k, 1, n, (n - k + 1) * TV[k]) - ${sumError}`,
  },
  { id: 'maxKl', statement: 'Max-KL certificate', relation: seqMinus('4 * gamma * A_max', 'TV[i] * sqrt(KL_max[i] / 2)') },
  { id: 'rangePinsker', statement: 'Range certificate (Pinsker)', relation: seqMinus(pinskerNumerator, 'sqrt(delta[i]) * F[i]') },
  {
    id: 'rangeActiveMass',
    statement: 'Range certificate (active mass)',
    relation: seqMinus(pinskerNumerator, 'sqrt(rho[i] * delta[i]) * F[i]'),
  },
  { id: 'rangeTv', statement: 'Range certificate (total variation)', relation: seqMinus(tvNumerator, 'TV[i] * F[i]') },
  {
    id: 'halfSpanPinsker',
    statement: 'Half-span certificate (Pinsker)',
    relation: seqMinus(pinskerNumerator, 'sqrt(delta[i]) * span[i] / 2'),
  },
  {
    id: 'halfSpanActiveMass',
    statement: 'Half-span certificate (active mass)',
    relation: seqMinus(pinskerNumerator, 'sqrt(rho[i] * delta[i]) * span[i] / 2'),
  },
  { id: 'halfSpanTv', statement: 'Half-span certificate (total variation)', relation: seqMinus(tvNumerator, 'TV[i] * span[i] / 2') },
]

/** All formula objects by id; the ids of bounds are the names in the `expected` object of a theory case. */
export const formulas: Readonly<Record<string, Formula>> = Object.fromEntries(list.map((formula) => [formula.id, formula]))

/** Values of the symbols: numbers, arrays (first index is 1), matrices as arrays of rows. */
export type FormulaValues = Readonly<Record<string, number | readonly number[] | readonly (readonly number[])[]>>

/** Both sides of a relation, evaluated. `left` is undefined when a symbol of the left side was given no value. */
export interface FormulaEvidence<T> {
  left: T | undefined
  right: T
}

/** Evaluate in float64. @throws InputError when the right side uses a symbol without a value */
export const evaluateFormula = (formula: Formula, values: FormulaValues): FormulaEvidence<number> => evaluate(float64(), formula, values)

/**
 * Evaluate in decimal floating point with 60 significant digits (the given numbers count as exact decimals). Throws as {@link
 * evaluateFormula}.
 */
export const evaluateFormulaBig = (formula: Formula, values: FormulaValues): FormulaEvidence<BigNumber> =>
  evaluate(bigNumber(), formula, values)

/** The relation as TeX, for example `J(\bar\pi) - J(\pi_{\mathrm{cur}}) \ge …`. */
export const formulaTex = (formula: Formula): string => tex(float64().parse(formula.relation))

/** The abbreviations of a formula as TeX, for example `c = \frac{\sqrt{2}\,\gamma\,A_{\max}}{(1-\gamma)^2}`; empty when it has none. */
export const whereTex = (formula: Formula): string[] => (formula.where ?? []).map((line) => tex(float64().parse(line)))

// ---- evaluation -----------------------------------------------------------------------------------------------------------------------

type Scope = Map<string, unknown>
type Numeric = number | BigNumber
interface Calculus {
  parse(expression: string): MathNode
  constant(x: number): Numeric
}

/** mathjs takes half a second to load: only when a formula is first used. */
const mathjs = (): typeof import('mathjs') => createRequire(import.meta.url)('mathjs') as typeof import('mathjs')

/** The parts of mathjs that the formulas use. */
const parts = (): FactoryFunctionMap => {
  const math = mathjs()
  return {
    ...math.parseDependencies,
    ...math.addDependencies,
    ...math.subtractDependencies,
    ...math.multiplyDependencies,
    ...math.divideDependencies,
    ...math.powDependencies,
    ...math.sqrtDependencies,
    ...math.logDependencies,
    ...math.absDependencies,
    ...math.minDependencies,
    ...math.unaryMinusDependencies,
    ...math.largerEqDependencies,
    ...math.smallerEqDependencies,
    ...math.equalDependencies,
    ...math.indexDependencies,
    ...math.indexTransformDependencies,
    ...math.subsetDependencies,
    ...math.bignumberDependencies,
  } as unknown as FactoryFunctionMap
}

const calculus = (config: { number: 'number' } | { number: 'BigNumber'; precision: number }): Calculus => {
  const math = mathjs().create(parts(), { ...config, matrix: 'Array' }) as MathJsInstance
  const constant = (x: number): Numeric => (config.number === 'number' ? x : math.bignumber!(x))
  const zero = constant(0)
  const isZero = (x: Numeric): boolean => Number(x) === 0 && !(typeof x === 'object' && !x.isZero())
  const { multiply, log, divide, add } = math as Required<Pick<MathJsInstance, 'multiply' | 'log' | 'divide' | 'add'>>
  const product = (x: Numeric, y: Numeric): Numeric => (isZero(x) || isZero(y) ? zero : (multiply(x as number, y as number) as Numeric))
  const relent = (p: Numeric, q: Numeric): Numeric => {
    if (isZero(p)) return zero
    return isZero(q) ? constant(Infinity) : product(p, log(divide(p as number, q as number) as number) as Numeric)
  }
  const fold = (start: number, combine: (x: Numeric, y: Numeric) => Numeric) => {
    const over = ([index, from, to, body]: MathNode[], _: unknown, scope: Scope): Numeric => {
      const run = body.compile()
      const inner: Scope = new Map(scope)
      const last = Number(to.compile().evaluate(scope))
      let result = constant(start)
      for (let i = Number(from.compile().evaluate(scope)); i <= last; i++) {
        inner.set(String(index), constant(i))
        result = combine(result, run.evaluate(inner) as Numeric)
      }
      return result
    }
    over.rawArgs = true
    return over
  }
  math.import!(
    { multiply: product, relent, Sum: fold(0, (x, y) => add(x as number, y as number) as Numeric), Prod: fold(1, product) },
    { override: true },
  )
  return { parse: (expression) => math.parse!(expression), constant }
}

const lazy = <T>(make: () => T): (() => T) => {
  let made: T | undefined
  return () => (made ??= make())
}
const float64 = lazy(() => calculus({ number: 'number' }))
const bigNumber = lazy(() => calculus({ number: 'BigNumber', precision: 60 }))

const evaluate = <T>({ parse, constant }: Calculus, formula: Formula, values: FormulaValues): FormulaEvidence<T> => {
  const convert = (x: unknown): unknown => (typeof x === 'number' ? constant(x) : Array.from(x as ArrayLike<unknown>, convert))
  const scope: Scope = new Map(Object.entries(values).map(([name, value]) => [name, convert(value)]))
  const [left, right] = (parse(formula.relation) as unknown as { args: MathNode[] }).args
  for (const line of formula.where ?? []) value(parse(line), scope, formula)
  return { left: missing(left, scope) ? undefined : (value(left, scope, formula) as T), right: value(right, scope, formula) as T }
}

const value = (node: MathNode, scope: Scope, formula: Formula): unknown => {
  const name = missing(node, scope)
  if (name) throw new InputError(`${formula.statement}: ${name}: no value; needed in ${node.toString()}`)
  return node.compile().evaluate(scope)
}

/** The first symbol of `node` that has no value and is no function, index or assigned name. */
const missing = (node: MathNode, scope: Scope): string | undefined => {
  const bound = new Set<string>(['Sum', 'Prod', 'relent', 'sqrt', 'abs', 'min', 'log'])
  node.traverse((part) => {
    const { type, fn, args, name, object } = part as unknown as Parts
    if (type === 'FunctionNode' && isSeries(fn)) bound.add(String(args[0]))
    if (type === 'AssignmentNode') bound.add(name ?? String(object))
  })
  let found: string | undefined
  node.traverse((part) => {
    const { type, name } = part as unknown as Parts
    if (type === 'SymbolNode' && !bound.has(name) && !scope.has(name)) found ??= name
  })
  return found
}

// ---- TeX ------------------------------------------------------------------------------------------------------------------------------

interface Parts {
  type: string
  name: string
  fn: { name?: string } | string
  op: string
  args: MathNode[]
  object: MathNode
  index: { dimensions: MathNode[] }
  value: MathNode
  content: MathNode
}

/** A symbol with index `i` ('' for none) in TeX; what is not listed prints as its name. */
const symbols: Readonly<Record<string, (i: string) => string>> = {
  gamma: () => '\\gamma',
  A_max: () => 'A_{\\max}',
  Ahat_max: () => '\\hat A_{\\max}',
  Abar_max: () => '\\bar A_{\\max}',
  c_hat: () => '\\hat c',
  c_bar: () => '\\bar c',
  J_0: () => 'J(\\pi_{\\mathrm{cur}})',
  J_n: () => 'J(\\bar\\pi)',
  J_aligned: () => 'J(\\pi_{\\mathrm{aligned}})',
  J_before: () => 'J(\\hat\\pi^{i-1})',
  J_after: () => 'J(\\hat\\pi^{i})',
  L_seq: (i) => `L_{${i || 'i'}}^{\\mathrm{seq}}`,
  L_stale: (i) => `L_{${i || 'i'}}^{\\mathrm{stale}}`,
  L_new: (i) => `L_{${i}}'`,
  delta: (i) => `\\delta_{${i || 'i'}}`,
  delta_new: (i) => `\\delta_{${i}}'`,
  delta_msg: (i) => `\\delta_{${i}}^{\\mathrm{msg}}`,
  zeta: (i) => `\\zeta_{${i || 'i'}}`,
  zeta_0: (i) => `\\zeta_{${i}}^{0}`,
  rho: (i) => `\\rho_{${i || 'i'}}`,
  rho_changed: (i) => `\\rho_{${i}}^{\\Delta}`,
  D: () => 'D_{\\mathrm{tok}}^{\\hat\\pi^{i-1}}',
  TV: (i) => (i === 's' ? '\\mathrm{TV}(s)' : `\\mathbb{E}_{d^{\\hat\\pi^{${i}-1}}}\\mathrm{TV}_{${i}}`),
  KL: (i) => `\\mathrm{KL}_{${i}}`,
  KL_max: (i) => `\\delta_{\\max,${i}}`,
  F: (i) => `\\|f_{${i}}\\|_{\\infty}`,
  span: (i) => `\\mathrm{span} f_{${i}}`,
  f: (i) => `f(${i})`,
  d_after: (i) => `d^{\\hat\\pi^{i}}(${i})`,
  d_before: (i) => `d^{\\hat\\pi^{i-1}}(${i})`,
  p: (i) => `\\pi(${i})`,
  q: (i) => `\\pi'(${i})`,
  p_joint: (i) => `\\pi^{(${i.split(',')[1]})}(${i.split(',')[0]}_{${i.split(',')[1]}})`,
  q_joint: (i) => `\\pi'^{(${i.split(',')[1]})}(${i.split(',')[0]}_{${i.split(',')[1]}})`,
  K_active: () => '|\\mathcal{A}_{j(s)}|',
  K: () => '|\\mathcal{A}|',
  S: () => '|\\mathcal{S}|',
}

const relations: Readonly<Record<string, string>> = { '>=': '\\ge', '<=': '\\le', '==': '=' }

const isSeries = (fn: Parts['fn']): boolean => ['Sum', 'Prod'].includes(nameOf(fn))
const nameOf = (fn: Parts['fn']): string => (typeof fn === 'string' ? fn : (fn.name ?? ''))

const tex = (node: MathNode): string => {
  const { type, name, fn, op, args, object, index, value: right, content } = node as unknown as Parts
  switch (type) {
    case 'ConstantNode':
      return String(node)
    case 'SymbolNode':
      return symbols[name]?.('') ?? name
    case 'AccessorNode': {
      const inner = index.dimensions.map(tex).join(',')
      const base = String(object)
      return symbols[base]?.(inner) ?? `${base}_{${inner}}`
    }
    case 'ParenthesisNode':
      return `\\left(${tex(content)}\\right)`
    case 'AssignmentNode':
      return `${symbols[String(object)]?.('') ?? String(object)} = ${tex(right)}`
    case 'FunctionNode':
      return functionTex(nameOf(fn), args)
    case 'OperatorNode':
      return operatorTex(op, args)
    default:
      throw new InputError(`formula: no TeX for ${type}`)
  }
}

const functionTex = (name: string, args: MathNode[]): string => {
  const [first, second, third, body] = args
  if (name === 'Sum' || name === 'Prod') {
    const additive = ['+', '-'].includes((body as unknown as Parts).op)
    const inner = additive ? `\\left(${tex(body)}\\right)` : tex(body)
    return `${name === 'Sum' ? '\\sum' : '\\prod'}_{${tex(first)}=${tex(second)}}^{${tex(third)}} ${inner}`
  }
  if (name === 'sqrt') return `\\sqrt{${bare(first)}}`
  if (name === 'abs') return `\\left|${tex(first)}\\right|`
  if (name === 'min') return `\\min\\left(${args.map(tex).join(', ')}\\right)`
  if (name === 'relent') return `${tex(first)}\\log\\frac{${tex(first)}}{${tex(second)}}`
  throw new InputError(`formula: no TeX for the function ${name}`)
}

/** TeX without the parentheses that braces make needless. */
const bare = (node: MathNode): string => {
  const { type, content } = node as unknown as Parts
  return type === 'ParenthesisNode' ? tex(content) : tex(node)
}

const operatorTex = (op: string, [left, right]: MathNode[]): string => {
  if (right === undefined) return `${op}${tex(left)}`
  if (op === '/') return `\\frac{${bare(left)}}{${bare(right)}}`
  if (op === '^') return `${tex(left)}^{${tex(right)}}`
  if (op === '*') return `${tex(left)}\\,${tex(right)}`
  return `${tex(left)} ${relations[op] ?? op} ${tex(right)}`
}
