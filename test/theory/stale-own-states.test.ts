import { describe, expect, it } from 'vitest'
import { staleStageBound, stageImprovementBound } from '../../src/theory/bounds.js'
import { tvShift } from '../../src/theory/certificates.js'
import { pairs, teamMdp, teamPolicy, replaceAgent } from '../../src/theory/mdp.js'
import { randomCase } from '../../src/theory/random-cases.js'
import { staleGapBound, staleOwnStatesBound, type OwnStatesStep } from '../../src/theory/stale-own-states.js'
import { expectedUnder, measureStage, stageOfPolicies, type Stage } from '../../src/theory/stage.js'

/** Steps with the exact shifts and the exact range of f_i, through the true advantage. */
const exactSteps = (stage: Stage): OwnStatesStep[] =>
  measureStage(stage).steps.map(({ shift, lStale }, i) => {
    const f = expectedUnder(stage.mdp, stage.policies[i + 1], stage.teams[i].A)
    return { surrogate: lStale, shift, low: Math.min(...f), high: Math.max(...f) }
  })

describe('the stale bound over own states', () => {
  it('holds on every random, degenerate and adversarial stage; its gap bound is reached', () => {
    let tightest = 0
    for (let k = 0; k < 4000; k++) {
      const { stage, estimates } = randomCase(17, k)
      const { gamma } = stage.mdp
      const measure = measureStage(stage, estimates)
      const scale = (1e-9 * (1 + measure.aMax)) / (1 - gamma)
      const steps = exactSteps(stage)
      const gap = measure.steps.reduce((sum, { lSeq, lStale }) => sum + Math.abs(lSeq - lStale), 0)
      const limit = staleGapBound({ gamma, steps })
      expect(gap).toBeLessThanOrEqual(limit + scale)
      if (limit > 1e-4) tightest = Math.max(tightest, gap / limit)
      expect(staleOwnStatesBound({ gamma, steps }).bound).toBeLessThanOrEqual(measure.improvement + scale)
      // the form with constants: A_max, Â_max and the total variation that a run knows, through the estimates over own states
      const own = Math.max(measure.aMax, measure.aHatMax)
      const estimated = staleOwnStatesBound({
        gamma,
        steps: measure.steps.map(({ tvMean }, i) => ({
          surrogate: measure.estimates[i].lStaleOwn,
          zeta: measure.estimates[i].zetaOwn,
          shift: tvShift({ gamma, tvMean }),
          low: -own,
          high: own,
        })),
      })
      expect(estimated.bound).toBeLessThanOrEqual(measure.improvement + scale)
    }
    expect(tightest).toBeGreaterThan(0.99)
    expect(tightest).toBeLessThan(1 + 1e-9)
  })

  it('costs at most twice Theorem 3.6, where Theorem 3.7 costs (n+1)/2 times', () => {
    const gamma = 0.9
    const pinsker = (Math.SQRT2 * gamma) / (1 - gamma)
    const steps = Array.from({ length: 10 }, () => ({ surrogate: 0, shift: pinsker * 0.1, low: -2, high: 2 }))
    const radii = steps.map(() => ({ surrogate: 0, radius: 0.01 }))
    const intermediate = stageImprovementBound({ gamma, aMax: 2, steps: radii }).penalty
    expect(staleOwnStatesBound({ gamma, steps }).penalty / intermediate).toBeCloseTo(1.9, 10)
    expect(staleStageBound({ gamma, aMax: 2, aHatMax: 2, steps: radii }).penalty / intermediate).toBeCloseTo(5.5, 10)
  })

  it('counterexample: an estimate that is not centred, summed over all states, breaks it', () => {
    // Agent 0 chooses at the start between two absorbing states; Â = 1 in the one it moves towards, whoever acts. Agents 1, 2, 3 come
    // later and change nothing.
    const gamma = 0.5
    const mdp = teamMdp({
      n: 4,
      gamma,
      states: 3,
      mu: Float64Array.of(1, 0, 0),
      activeAgent: Int32Array.of(0, 1, 2),
      actionStart: Int32Array.of(0, 2, 3, 4),
      rowStart: Int32Array.of(0, 1, 2, 3, 4),
      next: Int32Array.of(1, 2, 1, 2),
      prob: new Float64Array(4).fill(1),
      reward: new Float64Array(4),
    })
    const base = teamPolicy(mdp, [[0.5, 0.5], [1], [1]])
    const moved = replaceAgent(mdp, base, 0, teamPolicy(mdp, [[0.9, 0.1], [1], [1]]))
    const stage = stageOfPolicies(mdp, [base, moved, moved, moved, moved], [0, 1, 2, 3])
    const estimate = new Float64Array(pairs(mdp))
    estimate[2] = 1
    const { steps, estimates } = measureStage(
      stage,
      Array.from({ length: 4 }, () => estimate),
    )
    const gap = (seq: 'lSeq' | 'lSeqOwn', stale: 'lStale' | 'lStaleOwn'): number =>
      estimates.reduce((sum, e) => sum + Math.abs(e[seq] - e[stale]), 0)
    const limit = staleGapBound({ gamma, steps: steps.map(({ shift }) => ({ shift, low: -1, high: 1 })) })
    expect(gap('lSeq', 'lStale')).toBeGreaterThan(1.4 * limit)
    expect(gap('lSeqOwn', 'lStaleOwn')).toBeLessThanOrEqual(limit)
  })

  it('refuses impossible numbers', () => {
    expect(() => staleOwnStatesBound({ gamma: 1, steps: [] })).toThrow('gamma')
    expect(() => staleOwnStatesBound({ gamma: 0.5, steps: [{ surrogate: 0, shift: -1, low: 0, high: 0 }] })).toThrow('steps[0].shift')
    expect(() => staleOwnStatesBound({ gamma: 0.5, steps: [{ surrogate: 0, shift: 1, low: 1, high: 0 }] })).toThrow('steps[0].high − low')
  })
})
