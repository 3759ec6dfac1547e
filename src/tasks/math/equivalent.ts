import { messageOf } from '../../util/errors.js'
import { readAnswer, stripDelimiters, type Answer, type Relation } from './answer.js'
import { budget, Overflow, proportional, sameQuantity, scaled, type Quantity } from './quantity.js'
import { Unreadable } from './tokens.js'
import { sameDimension, type Unit } from './units.js'

/**
 * Whether two final answers say the same. This is equality of what is meant, not of how it is
 * written: ½ = 0.5 = 2/4, x + 1 = 1 + x, {1, 2} = {2, 1}; but (1, 2) ≠ (2, 1), [0, 1) ≠ [0, 1],
 * π ≠ 3.14, and 10₂ ≠ 2. A unit counts only when both answers carry one.
 *
 * Never throws; bounded work: what is too long, too deep or too large is compared as text alone.
 */
export const equivalent = (given: string, truth: string): Comparison => {
  if (written(given) === written(truth)) return { equal: true, reason: 'written alike' }
  const [a, b] = [readOrWhy(given), readOrWhy(truth)]
  if (typeof a === 'string' || typeof b === 'string') {
    if (words(given) !== '' && words(given) === words(truth)) return { equal: true, reason: 'the same words' }
    return { equal: false, reason: typeof a === 'string' ? a : b as string }
  }
  let why = ''
  for (const one of a) {
    for (const other of b) {
      const difference = differ(one, other)
      if (difference === undefined) return { equal: true, reason: 'equal in value' }
      why ||= difference
    }
  }
  return { equal: false, reason: why }
}

export interface Comparison {
  readonly equal: boolean
  /** How they are equal, or why they are not. */
  readonly reason: string
}

const readOrWhy = (text: string): Answer[] | string => {
  try {
    return readAnswer(text, budget())
  } catch (error) {
    if (error instanceof Unreadable || error instanceof Overflow) return messageOf(error)
    throw error
  }
}

/** Longest answer compared even as text. */
const MAX_TEXT = 10_000

/** LaTeX without what does not show. */
const written = (text: string): string =>
  stripDelimiters(text.slice(0, MAX_TEXT))
    .replace(/\\(?:[!,;: ]|(?:left|right|displaystyle|bigl?|bigr?)(?![a-zA-Z]))/g, '')
    .replace(/\\[dt]frac(?![a-zA-Z])/g, '\\frac')
    .replace(/\\(?:text|mbox|textbf|mathrm|textrm)\s*\{([^{}]*)\}/g, '$1')
    .replace(/(?<!\d)[\s~]+|[\s~]+(?!\d)/g, '')

/** A text answer: its words in lower case, articles and punctuation dropped; '' when it holds formulas. */
const words = (text: string): string => {
  const plain = stripDelimiters(text.slice(0, MAX_TEXT))
    .replace(/\\(?:text|mbox|textbf|mathrm|textrm)\s*\{([^{}]*)\}/g, ' $1 ')
    .replace(/\\[ ,;!]|~/g, ' ')
  if (/[\\^_=+*/<>|]/.test(plain)) return ''
  return plain
    .toLowerCase()
    .replace(/[.,;:!?'’"“”(){}$-]/g, ' ')
    .split(/\s+/)
    .filter((word) => word && !['a', 'an', 'the'].includes(word))
    .join(' ')
}

/** Why two answers differ; undefined when they do not. */
const differ = (a: Answer, b: Answer): string | undefined => {
  if (a.kind === 'relation' || b.kind === 'relation') return differInRelation(a, b)
  if (a.kind === 'set' || b.kind === 'set') return differAsSets(membersOf(a), membersOf(b))
  if (a.kind === 'quantity' && b.kind === 'quantity') return differInQuantity(a, b)
  if (a.kind === 'sequence' && b.kind === 'sequence') {
    if (a.items.length !== b.items.length) return `${a.items.length} entries, not ${b.items.length}`
    if (a.brackets !== b.brackets) return `the brackets are ${a.brackets}, not ${b.brackets}`
    return first(a.items.map((item, i) => differ(item, b.items[i])))
  }
  if (a.kind === 'union' && b.kind === 'union') return differAsSets(a.items, b.items)
  if (a.kind === 'matrix' && b.kind === 'matrix') {
    const [x, y] = [a.rows, b.rows]
    if (a.bars !== b.bars || x.length !== y.length || x.some((row, i) => row.length !== y[i].length)) return 'the matrices differ in shape'
    return first(
      x.flatMap((row, i) => row.map((entry, j) => (sameQuantity(entry, y[i][j]) ? undefined : `entry ${i + 1}, ${j + 1} differs`))),
    )
  }
  if (a.kind === 'based' && b.kind === 'based')
    return a.digits === b.digits && a.base === b.base ? undefined : 'the digits or the base differ'
  if (a.kind === 'ratio' && b.kind === 'ratio') {
    if (a.suffix !== b.suffix) return `"${a.suffix}" is not "${b.suffix}"`
    return a.parts.length === b.parts.length
      ? first(a.parts.map((part, i) => (sameQuantity(part, b.parts[i]) ? undefined : DIFFERENT)))
      : DIFFERENT
  }
  return `${NAMES[a.kind]} is not ${NAMES[b.kind]}`
}

const DIFFERENT = 'different in value'
const NAMES: Readonly<Record<Answer['kind'], string>> = {
  quantity: 'a number or formula',
  sequence: 'a tuple or interval',
  set: 'a set',
  union: 'a union',
  matrix: 'a matrix',
  relation: 'a relation',
  based: 'a number in a given base',
  ratio: 'a ratio or time',
}

const first = (differences: readonly (string | undefined)[]): string | undefined => differences.find((one) => one !== undefined)

type Measured = { readonly value: Quantity; readonly unit?: Unit }

const differInQuantity = (a: Measured, b: Measured): string | undefined => {
  const [p, q] = [isPercent(a.unit), isPercent(b.unit)]
  if (p !== q && (a.unit === undefined || b.unit === undefined)) {
    // 50 % is the answer 50, and also the number 0.5
    const [percent, plain] = p ? [a, b] : [b, a]
    return sameQuantity(percent.value, plain.value) || sameQuantity(scaled(percent.value, 1n, 100n), plain.value) ? undefined : DIFFERENT
  }
  if (a.unit === undefined || b.unit === undefined) return sameQuantity(a.value, b.value) ? undefined : DIFFERENT
  if (!sameDimension(a.unit, b.unit)) return 'the units differ'
  const inBase = ({ value, unit }: Measured): Quantity => scaled(value, unit!.numerator, unit!.denominator)
  return sameQuantity(inBase(a), inBase(b)) ? undefined : DIFFERENT
}

const isPercent = (unit: Unit | undefined): boolean => unit?.dimension.size === 1 && unit.dimension.get('percent') === 1

const membersOf = (answer: Answer): readonly Answer[] => (answer.kind === 'set' ? answer.items : [answer])

const differAsSets = (a: readonly Answer[], b: readonly Answer[]): string | undefined => {
  const missing = b.filter((item) => !a.some((other) => differ(other, item) === undefined)).length
  const extra = a.filter((item) => !b.some((other) => differ(item, other) === undefined)).length
  if (missing === 0 && extra === 0) return undefined
  return [missing && `${missing} of ${b.length} values missing`, extra && `${extra} wrong`].filter(Boolean).join(', ')
}

/** `x = 5` against `5`, `y = 2x` against `2x − y = 0`, `x < 3` against `3 > x`. */
const differInRelation = (a: Answer, b: Answer): string | undefined => {
  if (a.kind !== 'relation' || b.kind !== 'relation') {
    const [relation, other] = a.kind === 'relation' ? [a, b] : [b as Relation, a]
    return relation.right
      ? a.kind === 'relation'
        ? differ(relation.right, other)
        : differ(other, relation.right)
      : 'a relation is not a value'
  }
  if (a.relation !== b.relation) return `"${a.relation}" is not "${b.relation}"`
  if (a.right && b.right && (a.symbol === b.symbol || !a.symbol || !b.symbol)) {
    const difference = differ(a.right, b.right)
    if (difference === undefined || a.symbol) return difference
  }
  if (!a.difference || !b.difference) return DIFFERENT
  return proportional(a.difference, b.difference, a.relation === '<' || a.relation === '≤') ? undefined : 'different relations'
}
