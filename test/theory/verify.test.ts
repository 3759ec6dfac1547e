import { describe, expect, test } from 'vitest'
import { checkCase, type Mutation } from '../../src/theory/checks.js'
import { CASE_KINDS, randomCase } from '../../src/theory/random-cases.js'
import { mergeResults, verifyCases, type VerifyResult } from '../../src/theory/verify.js'

const seed = 20260515
const count = 60 * CASE_KINDS.length
const run = (mutation?: Mutation, from = 0, to = count): VerifyResult => verifyCases({ seed, from, to, mutation })
const whole = run()

/** Statements that a wrong constant must break, with the true advantage and, where it is estimated, through the estimate. */
const BOUNDS = [
  'prop33',
  'thm34',
  'thm36',
  'thm37Exact',
  'thm37Paper',
  'activeMass',
  'activeMassStale',
  'activeMassMessage',
  'tv',
  'tvStale',
  'maxKl',
  'rangePinsker',
  'rangeActiveMass',
  'rangeTv',
  'halfSpanTv',
  'staleOwnStates',
  'staleOwnStatesTv',
]

describe('random stages', () => {
  test('no statement is violated', () => {
    expect(whole.violations).toEqual([])
    for (const [id, { cases, violations }] of Object.entries(whole.statements)) {
      expect([id, violations]).toEqual([id, 0])
      expect([id, cases > 0]).toEqual([id, true])
    }
    for (const id of BOUNDS) expect(whole.statements[id].cases).toBe(count)
  })

  test('they come near the bounds: tightest ratios of theory.md, section 3, are reached or nearly so', () => {
    const ratio = (id: string): number => whole.statements[id].tightestRatio
    expect(ratio('thm34')).toBeGreaterThan(0.7)
    expect(ratio('activeMass')).toBeGreaterThan(0.7)
    expect(ratio('tv')).toBeGreaterThan(0.85)
    expect(ratio('halfSpanTv')).toBeGreaterThan(0.95)
    expect(ratio('shiftTv')).toBeGreaterThan(0.9999)
    for (const { tightestRatio } of Object.values(whole.statements)) expect(tightestRatio).toBeLessThanOrEqual(1 + 1e-6)
  })

  test('rounding is allowed for, and little else: half of the tolerances are below 1e-11 of what they are for', () => {
    const shares = new Map<string, number[]>()
    for (let k = 0; k < count; k++) {
      checkCase(randomCase(seed, k), (statement, left, right, tolerance) => {
        if (!Number.isFinite(left + right)) return
        shares.set(statement, [...(shares.get(statement) ?? []), tolerance / Math.max(1, Math.abs(left), Math.abs(right))])
      })
    }
    expect(shares.size).toBe(Object.keys(whole.statements).length)
    for (const [id, of] of shares) expect([id, of.sort((a, b) => a - b)[of.length >> 1] < 1e-11]).toEqual([id, true])
  })

  test('the same whatever the ranges are and in whatever order they are merged', () => {
    const parts = [run(undefined, 700, count), run(undefined, 0, 1), run(undefined, 1, 700)]
    expect(mergeResults(parts)).toEqual(mergeResults([whole]))
  })

  test('case k of a seed is always the same, and every kind comes in turn', () => {
    for (const [k, kind] of CASE_KINDS.entries()) {
      const [one, again] = [randomCase(seed, k), randomCase(seed, k)]
      expect(one.kind).toBe(kind)
      expect(again.stage.policies).toEqual(one.stage.policies)
      expect(again.estimates).toEqual(one.estimates)
    }
    expect(randomCase(seed + 1, 0).stage.policies).not.toEqual(randomCase(seed, 0).stage.policies)
  })

  test('degenerate inputs are among them', () => {
    const cases = Array.from({ length: count }, (_, k) => randomCase(seed, k))
    const some = (holds: (one: (typeof cases)[number]) => boolean): void => expect(cases.some(holds)).toBe(true)
    some(({ stage: { mdp } }) => mdp.gamma === 0.01)
    some(({ stage: { mdp } }) => mdp.gamma === 0.999)
    some(({ stage: { mdp } }) => mdp.reward.every((r) => r === 0))
    some(({ stage: { mdp } }) => !mdp.activeAgent.includes(mdp.n - 1))
    some(({ stage: { mdp } }) => mdp.reward.length === mdp.states)
    some(({ stage: { teams } }) => teams.every(({ d }) => d.includes(0)))
    some(({ stage: { policies } }) => policies.some((policy) => policy.some((p) => p > 0 && p < 1e-9)))
    some(({ stage: { policies } }) => policies.some((policy) => policy.includes(0)))
    expect(Math.max(...cases.map(({ stage: { mdp } }) => mdp.states))).toBeLessThanOrEqual(40)
  })
})

describe('teeth: a wrong reading is noticed', () => {
  const broken = (mutation: Mutation): Set<string> =>
    new Set(
      Object.entries(run(mutation).statements)
        .filter(([, { violations }]) => violations > 0)
        .map(([id]) => id),
    )

  test('half of c breaks every bound', () => {
    const found = broken('halfConstant')
    for (const id of BOUNDS) expect([id, found.has(id)]).toEqual([id, true])
    for (const id of ['thm34', 'thm36', 'thm37Exact', 'tv', 'rangeTv']) expect([id, found.has(`${id}, estimated`)]).toEqual([id, true])
  })

  test('a lost discount factor 1/(1−γ) breaks the shifts, Proposition 3.3 and the tight certificates', () => {
    const found = broken('horizonDropped')
    for (const id of ['shiftTv', 'shiftActiveMass', 'shiftPinsker', 'prop33', 'rangeTv', 'halfSpanTv'])
      expect([id, found.has(id)]).toEqual([id, true])
  })

  test('a swapped KL breaks Lemma 3.1 and the token chain rule, and no inequality: Pinsker holds in both directions', () => {
    expect(broken('klSwapped')).toEqual(new Set(['lemma31', 'lemma31Expectation', 'lemma32']))
  })

  test('a violation names its case, and that case alone shows it again', () => {
    const [first] = run('halfConstant').violations
    const alone = run('halfConstant', first.case, first.case + 1)
    expect(alone.violations).toContainEqual(first)
    expect(first.slack).toBeLessThan(-first.tolerance)
    expect(first.slack).toBe(first.left - first.right)
  })
})
