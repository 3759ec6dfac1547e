import { describe, expect, it } from 'vitest'
import { fitPowerLaw } from '../../src/theory/growth.js'
import { stageBounds } from '../../src/theory/stage-bounds.js'
import { measureStage, stageOfPolicies } from '../../src/theory/stage.js'
import { searchStaleFamily, staleGapOf } from '../../src/theory/stale-families.js'
import {
  lossOverPenalty,
  searchWorstCase,
  stageOfInstance,
  WORST_CASE_STATEMENTS,
  type WorstCaseStatement,
} from '../../src/theory/worst-case.js'
import { random } from '../../src/util/random.js'

const search = (statement: WorstCaseStatement, gamma: number, evaluations = 1500, agents = 2) =>
  searchWorstCase({ statement, gamma, agents, states: agents + 3, evaluations, restarts: 5 }, random(4))

describe('the search for worst cases', () => {
  it('never finds a loss above a penalty, whatever it tries', () => {
    for (const statement of Object.keys(WORST_CASE_STATEMENTS) as WorstCaseStatement[]) {
      for (const [gamma, agents] of [
        [0.05, 2],
        [0.9, 3],
      ] as const) {
        const { ratio } = search(statement, gamma, 600, agents)
        expect(ratio).toBeGreaterThan(0)
        expect(ratio).toBeLessThanOrEqual(1 + 1e-9)
      }
    }
  })

  it('divides by the penalty of the bound it is named after', () => {
    for (const statement of ['thm36', 'thm37Exact', 'thm37Paper', 'staleOwnStates'] as const) {
      for (const agents of [1, 2, 4]) {
        const { instance, ratio } = search(statement, 0.6, 50, agents)
        const { mdp, policies } = stageOfInstance(instance)
        const measure = measureStage(stageOfPolicies(mdp, policies, [...Array(agents).keys()]))
        const bound = stageBounds(measure, { gamma: 0.6, radii: measure.steps.map(({ dTok }) => dTok), kind: 'exact' })[statement]
        expect(ratio).toBeCloseTo((bound.surrogate - measure.improvement) / bound.penalty, 9)
      }
    }
  })

  it('reaches equality for total variation with the half-span, at any discount', () => {
    expect(search('halfSpanTv', 0.9).ratio).toBeGreaterThan(0.999)
  })

  it('the constants of Theorems 3.4 and 3.6 and of the active-mass and total-variation certificates lose little as γ → 0', () => {
    expect(search('thm34', 0.001, 6000).ratio).toBeGreaterThan(0.8)
    expect(search('thm36', 0.001, 6000).ratio).toBeGreaterThan(0.8)
    expect(search('activeMass', 0.001, 6000).ratio).toBeGreaterThan(0.8)
    expect(search('tv', 0.001, 6000).ratio).toBeGreaterThan(0.95)
  })

  it('is repeatable, and what it returns has the ratio it says', () => {
    const found = search('thm37Exact', 0.2)
    expect(search('thm37Exact', 0.2)).toEqual(found)
    expect(lossOverPenalty('thm37Exact', found.instance)).toBe(found.ratio)
    const { mdp, policies } = stageOfInstance(found.instance)
    expect(policies).toHaveLength(mdp.n + 1)
    // a start that is already good is not lost
    const again = searchWorstCase(
      { statement: 'thm37Exact', gamma: 0.2, agents: 2, states: 5, evaluations: 100, restarts: 1, from: [found.instance] },
      random(9),
    )
    expect(again.ratio).toBeGreaterThanOrEqual(found.ratio)
  })
})

describe('families with a large stale gap', () => {
  it('the gap grows as fast as its own-states bound, linearly, where Proposition 3.3 added over the steps grows like n²', () => {
    const { template, share } = searchStaleFamily({ n: 6, gamma: 0.99, states: 1, evaluations: 1500, restarts: 8 }, random(2))
    expect(share).toBeGreaterThan(0.4)
    expect(share).toBeLessThanOrEqual(1)
    const rows = [8, 16, 32].map((n) => staleGapOf(template, n, 0.99))
    const alpha = (of: (row: (typeof rows)[number]) => number): number => fitPowerLaw(rows.map((row) => ({ n: row.n, y: of(row) }))).alpha
    for (const { gap, ownStatesBound, paperBound } of rows) {
      expect(gap).toBeLessThanOrEqual(ownStatesBound * (1 + 1e-9))
      expect(gap).toBeGreaterThan(0.4 * ownStatesBound)
      expect(ownStatesBound).toBeLessThan(paperBound)
    }
    expect(Math.abs(alpha((row) => row.gap) - alpha((row) => row.ownStatesBound))).toBeLessThan(0.02)
    expect(alpha((row) => row.gap)).toBeGreaterThan(0.9)
    expect(alpha((row) => row.gap)).toBeLessThan(1.1)
    expect(alpha((row) => row.paperBound)).toBeGreaterThan(1.95)
  })
})
