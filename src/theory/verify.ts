/**
 * Check every statement on random stages (random-cases.ts). `verifyCases` is what `teamtr verify` runs, in as many workers as there are
 * cores: case k depends on the seed and on k alone, and tallies merge in any order to the same result.
 */
import { messageOf } from '../util/errors.js'
import { checkCase, type Mutation, type Recorder } from './checks.js'
import { randomCase, type CaseKind } from './random-cases.js'

/** What became of one statement. */
export interface StatementTally {
  /** cases in which it was checked */
  cases: number
  violations: number
  /** smallest left − right (for an equality −|left − right|), and the case it was found in */
  smallestSlack: number
  smallestSlackCase: number
  /**
   * largest (surrogate − error − improvement)/penalty, counted where rounding is below 1e-6 of the penalty; −Infinity where there is no
   * penalty
   */
  tightestRatio: number
  tightestRatioCase: number
}

export interface Violation {
  statement: string
  case: number
  kind: CaseKind
  left: number
  right: number
  slack: number
  tolerance: number
}

export interface VerifyResult {
  seed: number
  cases: number
  statements: { [statement: string]: StatementTally }
  /** the first ones, by case */
  violations: Violation[]
}

/** Violations kept for the report. */
const KEPT = 20

/** Cases from … to − 1 of a seed, read as `mutation` says (undefined: as they should be). */
export interface VerifyRange {
  seed: number
  from: number
  to: number
  mutation?: Mutation
}

/** Check a range of cases. */
export const verifyCases = ({ seed, from, to, mutation }: VerifyRange): VerifyResult => {
  const result: VerifyResult = { seed, cases: to - from, statements: {}, violations: [] }
  for (let index = from; index < to; index++) {
    try {
      const one = randomCase(seed, index)
      checkCase(one, tallyInto(result, index, one.kind), mutation)
    } catch (error) {
      throw new Error(`case ${index} of seed ${seed} cannot be checked: ${messageOf(error)}`, { cause: error })
    }
  }
  return result
}

/** Join the results of disjoint ranges of the same seed; the order does not matter. */
export const mergeResults = (results: readonly VerifyResult[]): VerifyResult => {
  const merged: VerifyResult = { seed: results[0].seed, cases: 0, statements: {}, violations: [] }
  for (const { cases, statements, violations } of results) {
    merged.cases += cases
    merged.violations.push(...violations)
    for (const [id, part] of Object.entries(statements)) {
      const whole = (merged.statements[id] ??= emptyTally())
      whole.cases += part.cases
      whole.violations += part.violations
      keepSlack(whole, part.smallestSlack, part.smallestSlackCase)
      keepRatio(whole, part.tightestRatio, part.tightestRatioCase)
    }
  }
  merged.violations.sort((a, b) => a.case - b.case || (a.statement < b.statement ? -1 : 1)).splice(KEPT)
  return merged
}

const emptyTally = (): StatementTally => ({
  cases: 0,
  violations: 0,
  smallestSlack: Infinity,
  smallestSlackCase: -1,
  tightestRatio: -Infinity,
  tightestRatioCase: -1,
})

// of equal extremes the earliest case is kept, so that the order of merging cannot show
const keepSlack = (tally: StatementTally, slack: number, index: number): void => {
  if (slack < tally.smallestSlack || (slack === tally.smallestSlack && index < tally.smallestSlackCase)) {
    tally.smallestSlack = slack
    tally.smallestSlackCase = index
  }
}
const keepRatio = (tally: StatementTally, ratio: number, index: number): void => {
  if (ratio > tally.tightestRatio || (ratio === tally.tightestRatio && index < tally.tightestRatioCase)) {
    tally.tightestRatio = ratio
    tally.tightestRatioCase = index
  }
}

const tallyInto = (result: VerifyResult, index: number, kind: CaseKind): Recorder => {
  const seen = new Set<string>()
  return (statement, left, right, tolerance, ratio) => {
    const tally = (result.statements[statement] ??= emptyTally())
    if (!seen.has(statement)) {
      seen.add(statement)
      tally.cases++
    }
    const slack = right === -Infinity || left === Infinity ? Infinity : left - right
    keepSlack(tally, slack, index)
    if (ratio !== undefined) keepRatio(tally, ratio, index)
    if (slack >= -tolerance) return
    tally.violations++
    if (result.violations.length < KEPT) result.violations.push({ statement, case: index, kind, left, right, slack, tolerance })
  }
}
