import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { evaluateFormula, evaluateFormulaBig, formulas, formulaTex, whereTex, type FormulaValues } from '../../src/theory/formulas.js'
import { parseTheoryCase } from '../../src/theory/json.js'
import { activeMassBound, activeMassShift, pinskerShift, tvShift } from '../../src/theory/certificates.js'
import { replacementBound, type Bound } from '../../src/theory/bounds.js'
import { tvByState } from '../../src/theory/divergence.js'
import type { TeamMdp, TeamPolicy } from '../../src/theory/mdp.js'
import { stageBounds, stepBounds } from '../../src/theory/stage-bounds.js'
import { staleGapBound } from '../../src/theory/stale-own-states.js'
import { expectedUnder, measureStage, stageOfPolicies } from '../../src/theory/stage.js'
import { activeFactorReduction, randomMessageLaw, tokenChainRule } from '../../src/theory/lemmas.js'
import { random } from '../../src/util/random.js'
import { readJson } from '../../src/util/files.js'
import { sharedPath } from '../shared.js'

const folder = sharedPath('theory-cases')
const files = folder ? readdirSync(folder).filter((file) => file.endsWith('.json') && file !== 'invalid.json') : []

/**
 * float64 code and mathjs in float64 and at 60 digits agree to 1e-12 relative (exactly where infinite). Relative to the result; to the
 * sum of the sizes of
 * the terms only where they cancel to less than a thousandth of it (L − ζ/(1−γ) = 0 in zero-reward: float64 itself has no digit left
 * there).
 */
const agree = (id: string, values: FormulaValues, of: Bound | number): void => {
  const expected = typeof of === 'number' ? of : of.bound
  const size = typeof of === 'number' ? 0 : Math.abs(of.surrogate) + of.penalty + of.error
  const scale = Math.abs(expected) > size / 1000 ? Math.abs(expected) : size
  const big = Number(evaluateFormulaBig(formulas[id], values).right.toString())
  const float = evaluateFormula(formulas[id], values).right
  if (!Number.isFinite(expected)) {
    expect([big, float], id).toEqual([expected, expected])
    return
  }
  expect(Math.abs(big - expected), `${id}: ${big}, not ${expected}`).toBeLessThanOrEqual(1e-12 * scale)
  expect(Math.abs(float - expected), `${id} in float64: ${float}, not ${expected}`).toBeLessThanOrEqual(1e-12 * scale)
}

/**
 * Lemma 3.1 in state s: both sides by the formula, over every joint action of no-ops and messages, against the enumeration of
 * lemmas.ts.
 */
const lemma31 = (mdp: TeamMdp, first: TeamPolicy, second: TeamPolicy, s: number): void => {
  if (s < 0) return // an agent that never acts
  const row = (policy: TeamPolicy): number[] => [...policy.subarray(mdp.actionStart[s], mdp.actionStart[s + 1])]
  const [q, p] = [row(first), row(second)]
  // joint actions in which the others play their no-ops; all others have probability 0 in both and add nothing. The active agent's
  // no-op is among them
  const joint = (own: number[]): number[][] =>
    [0, ...own].map((probability) => Array.from({ length: mdp.n }, (_, j) => (j === mdp.activeAgent[s] ? probability : 1)))
  const values = { n: mdp.n, K: q.length + 1, K_active: q.length, q_joint: joint(q), p_joint: joint(p), q, p }
  const { kl } = activeFactorReduction(mdp, first, second, s)
  for (const side of ['left', 'right'] as const) {
    const [big, expected] = [Number(evaluateFormulaBig(formulas.lemma31, values)[side]), kl[side]]
    // the decimal sum takes the rows as they are; that they miss 1 by 1e-16 is the only difference
    expect(big === expected || Math.abs(big - expected) <= 1e-12 * expected + 1e-15, `lemma31 ${side}: ${big}, not ${expected}`).toBe(true)
  }
}

test('Lemma 3.2 on a message tree of two tokens, at most two long', () => {
  const space = { tokens: 2, length: 2 }
  for (const seed of [1, 2, 3]) {
    const [first, second] = [randomMessageLaw(space, random(seed)), randomMessageLaw(space, random(100 + seed))]
    const row = (law: Float64Array, prefix: number): number[] => [...law.subarray(3 * prefix, 3 * prefix + 3)]
    const divergence = (prefix: number): number =>
      row(first, prefix).reduce((sum, p, x) => sum + p * Math.log(p / row(second, prefix)[x]), 0)
    // messages: the end at once, then x and the end, then x y
    const messages = [
      { path: [[0, 0]] },
      ...[1, 2].flatMap((x) => [
        {
          path: [
            [0, x],
            [x, 0],
          ],
        },
        ...[1, 2].map((y) => ({
          path: [
            [0, x],
            [x, y],
          ],
        })),
      ]),
    ]
    const probability = (law: Float64Array) =>
      messages.map(({ path }) => path.reduce((product, [prefix, x]) => product * row(law, prefix)[x], 1))
    const { left, right } = evaluateFormulaBig(formulas.lemma32, {
      M: messages.length,
      T: messages.map(({ path }) => path.length),
      p: probability(first),
      q: probability(second),
      KL: messages.map(({ path }) => [0, 1].map((u) => (path[u] ? divergence(path[u][0]) : 0))),
    })
    const rule = tokenChainRule(space, first, second)
    expect(Number(left)).toBeCloseTo(rule.left, 13)
    expect(Number(right)).toBeCloseTo(rule.right, 13)
    expect(Number(left)).toBeCloseTo(Number(right), 13)
  }
})

describe.skipIf(!folder)('formula objects on the reference cases', () => {
  test.each(files)('%s', (file) => {
    const {
      input: { mdp, teams: policies, order, radii, advantageEstimate },
    } = parseTheoryCase(readJson(join(folder!, file)), file)
    const { gamma } = mdp
    const n = order.length
    const stage = stageOfPolicies(mdp, policies, order)
    const measure = measureStage(stage, advantageEstimate)
    const { steps } = measure
    const common = {
      n,
      gamma,
      A_max: measure.aMax,
      delta: radii,
      rho: steps.map(({ rho }) => rho),
      rho_changed: steps.map(({ rhoChanged }) => rhoChanged),
      delta_msg: steps.map(({ dTokMessage }) => dTokMessage ?? 0),
      TV: steps.map(({ tvMean }) => tvMean),
      KL_max: steps.map(({ klMax }) => klMax),
      F: steps.map(({ advantageRange }) => advantageRange),
      span: steps.map(({ advantageSpan }) => advantageSpan),
      J_0: stage.teams[0].J,
      J_n: stage.teams[n].J,
    }
    for (const kind of ['exact', 'estimated'] as const) {
      const source = kind === 'exact' ? steps.map((step) => ({ ...step, zeta: 0, zetaStale: 0 })) : measure.estimates
      const aHatMax = kind === 'exact' ? measure.aMax : measure.aHatMax
      const values = {
        ...common,
        Ahat_max: aHatMax,
        Abar_max: Math.max(measure.aMax, aHatMax),
        L_seq: source.map(({ lSeq }) => lSeq),
        L_stale: source.map(({ lStale }) => lStale),
        zeta: source.map(({ zeta }) => zeta),
        zeta_0: source.map(({ zetaStale }) => zetaStale),
      }
      const bounds = stageBounds(measure, { gamma, radii, kind })
      const magnitude = Math.max(measure.aMax, aHatMax)
      const own = source.map((one, i) => ({
        surrogate: 'lStaleOwn' in one ? one.lStaleOwn : one.lStale,
        zeta: 'zetaOwn' in one ? one.zetaOwn : one.zeta,
        shift: pinskerShift({ gamma, radius: radii[i] }),
        low: -magnitude,
        high: magnitude,
      }))
      const ownValues = { ...values, L_stale: own.map(({ surrogate }) => surrogate), zeta: own.map(({ zeta }) => zeta) }
      for (const [id, bound] of Object.entries(bounds)) agree(id, id === 'staleOwnStates' ? ownValues : values, bound!)
      if (kind === 'exact') agree('staleGap', values, staleGapBound({ gamma, steps: own }))
      agree(
        'prop38',
        { ...values, J_aligned: common.J_0 },
        replacementBound({
          gamma,
          alignedReturn: common.J_0,
          aMax: measure.aMax,
          steps: source.map(({ lSeq, zeta }, i) => ({ surrogate: lSeq, radius: radii[i], zeta })),
        }),
      )
      agree(
        'activeMassMessage',
        values,
        activeMassBound({
          gamma,
          aMax: measure.aMax,
          reading: 'message',
          steps: source.map(({ lSeq, zeta }, i) => ({ surrogate: lSeq, zeta, rho: steps[i].rho, radius: steps[i].dTokMessage })),
        }),
      )
      stepBounds(measure, { gamma, radii, kind }).forEach(({ prop33, thm34 }, i) => {
        agree('prop33', { ...values, i: i + 1, L_seq: source[i].lSeq, L_stale: source[i].lStale }, prop33)
        agree('thm34', { gamma, A_max: measure.aMax, L_seq: source[i].lSeq, delta: radii[i], zeta: source[i].zeta }, thm34)
      })
    }
    steps.forEach((step, i) => {
      lemma31(mdp, policies[i + 1], policies[i], [...mdp.activeAgent].indexOf(step.agent))
      const [before, after] = [stage.teams[i], stage.teams[i + 1]]
      const shift = {
        gamma,
        S: mdp.states,
        d_before: [...before.d],
        d_after: [...after.d],
        TV: [...tvByState(mdp, policies[i], policies[i + 1])],
        D: step.dTok,
        rho: step.rho,
      }
      agree('occupancyShift', shift, tvShift({ gamma, tvMean: step.tvMean }))
      agree('occupancyShiftPinsker', shift, pinskerShift({ gamma, radius: step.dTok }))
      agree('occupancyShiftActiveMass', shift, activeMassShift({ gamma, rho: step.rho, radius: step.dTok }))
      const { left, right } = evaluateFormulaBig(formulas.performanceDifference, {
        ...shift,
        J_before: before.J,
        J_after: after.J,
        f: [...expectedUnder(mdp, policies[i + 1], before.A)],
      })
      expect(Math.abs(Number(left) - Number(right))).toBeLessThanOrEqual(1e-10 * Math.max(1, Math.abs(before.J)))
    })
  })
})

test('Theorem 3.6 by hand: n = 2, γ = ½, A_max = 1, δ = (0.02, 0.08): c = 2√2, penalty 2√2(√0.02 + √0.08) = 1.2', () => {
  const { left, right } = evaluateFormulaBig(formulas.thm36, {
    n: 2,
    gamma: 0.5,
    A_max: 1,
    L_seq: [0.3, 0.4],
    delta: [0.02, 0.08],
    zeta: [0.01, 0.02],
    J_0: 1,
    J_n: 2,
  })
  expect(left!.toString()).toBe('1')
  expect(Number(right.minus(0.7 - 1.2 - 0.06).abs())).toBeLessThan(1e-50)
})

test('Proposition 3.9 by hand: c = 2√2; a larger surrogate gains 0.1, a radius of 0.02 for 0.08 gains 0.4', () => {
  const { left, right } = evaluateFormula(formulas.prop39, {
    n: 2, gamma: 0.5, A_max: 1, L_seq: [0.3, 0.5], delta: [0.02, 0.08], L_new: [0.4, 0.5], delta_new: [0.02, 0.02],
  })
  expect(right).toBeCloseTo(0.8 - 1.2, 14)
  expect(left).toBeCloseTo(0.9 - 0.8, 14)
})

test('a relation without its left side is still evaluated; a missing value on the right is named', () => {
  expect(evaluateFormula(formulas.thm34, { gamma: 0.5, A_max: 1, L_seq: 1, delta: 0, zeta: 0 })).toEqual({ left: undefined, right: 1 })
  expect(() => evaluateFormula(formulas.thm34, { gamma: 0.5, A_max: 1, L_seq: 1, zeta: 0 })).toThrow(/Theorem 3\.4: delta: no value/)
  expect(() => evaluateFormula(formulas.thm34, { gamma: 0.5, L_seq: 1, delta: 0, zeta: 0 })).toThrow(/A_max: no value/)
})

test('0·∞ = 0, also at 60 digits', () => {
  const values = { n: 2, gamma: 0.5, A_max: 1, L_seq: [1, 1], zeta: [0, 0], TV: [0, 0.25], KL_max: [Infinity, 0.5] }
  expect(evaluateFormula(formulas.maxKl, values).right).toBe(1)
  expect(evaluateFormulaBig(formulas.maxKl, values).right.toString()).toBe('1')
})

test('TeX', () => {
  expect(formulaTex(formulas.thm36)).toBe(
    String.raw`J(\bar\pi) - J(\pi_{\mathrm{cur}}) \ge \sum_{i=1}^{n} L_{i}^{\mathrm{seq}}` +
      String.raw` - c\,\sum_{i=1}^{n} \sqrt{\delta_{i}} - \frac{1}{1 - \gamma}\,\sum_{i=1}^{n} \zeta_{i}`,
  )
  expect(whereTex(formulas.thm36)).toEqual([String.raw`c = \frac{\sqrt{2}\,\gamma\,A_{\max}}{\left(1 - \gamma\right)^{2}}`])
  expect(formulaTex(formulas.prop33)).toBe(
    String.raw`L_{i}^{\mathrm{seq}} \ge L_{i}^{\mathrm{stale}} - \hat c\,\sum_{k=1}^{i - 1} \sqrt{\delta_{k}}`,
  )
  for (const formula of Object.values(formulas)) {
    const text = formulaTex(formula) + whereTex(formula).join()
    expect(text.split('{').length, formula.id).toBe(text.split('}').length)
    expect(text, formula.id).not.toMatch(/[a-z]_[a-z]{2}|\bgamma\b(?<!\\gamma)|\*/)
  }
})
