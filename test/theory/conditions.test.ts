/**
 * The conditions of theory.md, section 2, one test each: a small stage on which the statement without the condition is false (the
 * "certificate" exceeds the improvement), and true with it. Found by search and by hand, computed here.
 */
import { describe, expect, test } from 'vitest'
import { staleStageBound, staleSurrogateBound, stageImprovementBound, updateImprovementBound } from '../../src/theory/bounds.js'
import {
  activeMassBound, activeMassShift, maxKlBound, pinskerShift, shiftBound, staleShiftBound, tvBound,
} from '../../src/theory/certificates.js'
import { dTok, kl, klByState, klTerm, largest } from '../../src/theory/divergence.js'
import { teamMdp, teamPolicy, type TeamMdp } from '../../src/theory/mdp.js'
import { measureStage, stageOfPolicies } from '../../src/theory/stage.js'

interface StateOf {
  agent: number
  /** each action as [next state, reward] */
  actions: readonly (readonly [number, number])[]
}

/** A deterministic team MDP that starts in state 0. */
const deterministic = (n: number, gamma: number, states: readonly StateOf[]): TeamMdp => {
  const all = states.flatMap(({ actions }) => actions)
  const actionStart = new Int32Array(states.length + 1)
  states.forEach(({ actions }, s) => (actionStart[s + 1] = actionStart[s] + actions.length))
  return teamMdp({
    n, gamma, states: states.length, mu: Float64Array.from(states, (_, s) => (s === 0 ? 1 : 0)),
    activeAgent: Int32Array.from(states, ({ agent }) => agent), actionStart,
    rowStart: Int32Array.from({ length: all.length + 1 }, (_, k) => k),
    next: Int32Array.from(all, ([next]) => next),
    prob: new Float64Array(all.length).fill(1),
    reward: Float64Array.from(all, ([, reward]) => reward),
  })
}

/** The stage whose team i plays rows[i], measured. */
const stageOf = (mdp: TeamMdp, order: readonly number[], rows: readonly number[][][], estimates?: readonly Float64Array[]) => {
  const stage = stageOfPolicies(mdp, rows.map((team) => teamPolicy(mdp, team)), order)
  return { ...stage, ...measureStage(stage, estimates) }
}

/** State s is the absorbing end. */
const end = (s: number): StateOf => ({ agent: 0, actions: [[s, 0]] })
/** Two actions, to states a and b, unrewarded. */
const choice = (agent: number, a: number, b: number): StateOf => ({ agent, actions: [[a, 0], [b, 0]] })
/** Two actions, both to state `to`, of which the second brings `reward`. */
const bet = (agent: number, to: number, reward: number): StateOf => ({ agent, actions: [[to, 0], [to, reward]] })

describe('A_max counts every state and action', () => {
  test('unvisited states: the update leads to state 1, where the team before never was and the new one loses 1', () => {
    const mdp = deterministic(1, 0.5, [choice(0, 2, 1), bet(0, 2, -1), end(2)])
    const { steps: [step], teams: [before] } = stageOf(mdp, [0], [[[1, 0], [1, 0], [1]], [[0.5, 0.5], [0, 1], [1]]])
    const visited = Math.max(...[...before.A].filter((_, k) => before.d[k < 2 ? 0 : k < 4 ? 1 : 2] > 0).map(Math.abs))
    expect(visited).toBe(0)
    expect(step.improvement).toBeCloseTo(-0.25, 14)
    const bound = (aMax: number): number => updateImprovementBound({ gamma: 0.5, aMax, surrogate: step.lSeq, radius: step.dTok }).bound
    expect(bound(visited)).toBeGreaterThan(step.improvement)
    expect(bound(step.aMax)).toBeLessThanOrEqual(step.improvement)
  })

  test('unplayed actions: both branches hide their advantage in an action of probability 0', () => {
    const mdp = deterministic(1, 0.5, [choice(0, 1, 2), bet(0, 3, 1), bet(0, 3, -1), end(3)])
    const { steps: [step], teams: [before], policies: [policy] } =
      stageOf(mdp, [0], [[[0.5, 0.5], [1, 0], [1, 0], [1]], [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [1]]])
    const played = Math.max(...[...before.A].filter((_, k) => policy[k] > 0).map(Math.abs))
    expect(played).toBe(0)
    expect(step.improvement).toBeCloseTo(-0.36, 14)
    const bound = (aMax: number): number => updateImprovementBound({ gamma: 0.5, aMax, surrogate: step.lSeq, radius: step.dTok }).bound
    expect(bound(played)).toBeCloseTo(0, 14)
    expect(bound(step.aMax)).toBeLessThanOrEqual(step.improvement)
  })
})

describe('A_max of a stage is the maximum over π̂⁰ … π̂^{n−1}', () => {
  // Agent 1 makes state 3 worth 1/(1−γ) while nobody goes there (free); agent 0 leaves the loop in state 1 for the end; agent 2 then turns
  // state 1 towards 3: cheap, for hardly anybody is in state 1 any more, but d⁰ still is. Under π_cur state 3 was worth 0.
  const gamma = 0.99
  const mdp = deterministic(3, gamma, [
    choice(0, 1, 2), choice(2, 1, 3), end(2), bet(1, 3, 1),
  ])
  const leave = [1e-4, 1 - 1e-4]
  const stage = stageOf(mdp, [1, 0, 2], [
    [[1, 0], [1, 0], [1], [1, 0]], [[1, 0], [1, 0], [1], [0, 1]], [leave, [1, 0], [1], [0, 1]], [leave, [0.01, 0.99], [1], [0, 1]],
  ])
  const { steps, teams } = stage
  const stale = (aMax: number): number =>
    staleStageBound({ gamma, aMax, aHatMax: aMax, steps: steps.map(({ lStale, dTok }) => ({ surrogate: lStale, radius: dTok })) }).bound

  test('π_cur alone has A_max 1, and with it Theorem 3.7 would certify hundreds where the stage gains less than 0.01', () => {
    expect(teams[0].aMax).toBeCloseTo(1, 12)
    expect(stage.aMax).toBeGreaterThan(90)
    expect(stage.improvement).toBeLessThan(0.01)
    expect(stale(teams[0].aMax)).toBeGreaterThan(100)
    expect(stale(stage.aMax)).toBeLessThanOrEqual(stage.improvement)
  })

  test('so would Proposition 3.3 of the last step', () => {
    const bound = (aHatMax: number): number =>
      staleSurrogateBound({ gamma, aHatMax, surrogate: steps[2].lStale, earlierRadii: steps.slice(0, 2).map(({ dTok }) => dTok) }).bound
    expect(bound(teams[0].aMax)).toBeGreaterThan(steps[2].lSeq + 100)
    expect(bound(stage.aMax)).toBeLessThanOrEqual(steps[2].lSeq)
  })
})

describe('an estimated advantage in a stale statement needs a bound on |Â|', () => {
  // Â is right wherever d¹ goes and 1000 in state 1, which only d⁰ visits: ζ does not see it
  const gamma = 0.9
  const mdp = deterministic(2, gamma, [{ agent: 0, actions: [[1, 0], [2, 0.1]] }, bet(1, 3, 0), bet(1, 3, 0), end(3)])
  const moved = [1e-7, 1 - 1e-7]
  const rows = [[[1, 0], [0.5, 0.5], [0.5, 0.5], [1]], [moved, [0.5, 0.5], [0.5, 0.5], [1]], [moved, [0.5, 0.5], [0.5, 0.5], [1]]]
  const truth = stageOf(mdp, [0, 1], rows)
  const estimate = truth.teams[1].A.map((x, k) => (k === 2 || k === 3 ? 1000 : x))
  const { steps, estimates, aMax, aHatMax, improvement } = stageOf(mdp, [0, 1], rows, [truth.teams[0].A, estimate])
  const stale = (bound: number, zeta: 'zeta' | 'zetaStale'): number =>
    staleStageBound({
      gamma, aMax, aHatMax: bound, steps: estimates.map((one, i) => ({ surrogate: one.lStale, radius: steps[i].dTok, zeta: one[zeta] })),
    }).bound

  test('with A_max alone the certificate is in the hundreds, on an improvement of 0.1, though ζ is tiny', () => {
    expect(improvement).toBeCloseTo(0.1, 6)
    expect(Math.max(...estimates.map(({ zeta }) => zeta))).toBeLessThan(1e-4)
    expect(stale(aMax, 'zeta')).toBeGreaterThan(800)
  })

  test('with ĉ, or with ζ⁰ under d⁰ and c alone, it holds', () => {
    expect(stale(aHatMax, 'zeta')).toBeLessThanOrEqual(improvement)
    expect(stale(aMax, 'zetaStale')).toBeLessThanOrEqual(improvement)
  })

  test('Proposition 3.3 likewise', () => {
    const bound = (of: number): number =>
      staleSurrogateBound({ gamma, aHatMax: of, surrogate: estimates[1].lStale, earlierRadii: [steps[0].dTok] }).bound
    expect(bound(aMax)).toBeGreaterThan(estimates[1].lSeq + 800)
    expect(bound(aHatMax)).toBeLessThanOrEqual(estimates[1].lSeq)
  })
})

describe('radii and ρ are measured under π̂^{i−1}, never under d⁰', () => {
  // agent 0 opens the door to agent 1's fork, which d⁰ never saw
  const gamma = 0.5
  const mdp = deterministic(2, gamma, [
    choice(0, 4, 1), choice(1, 2, 3), bet(1, 4, 1), bet(1, 4, -1), end(4),
  ])
  const half = [0.5, 0.5]
  const { steps, policies, teams } = stageOf(mdp, [0, 1], [
    [[1, 0], half, half, half, [1]], [[0.1, 0.9], half, half, half, [1]], [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [1]],
  ])
  const step = steps[1]
  const stale = dTok(mdp, teams[0].d, policies[1], policies[2])

  test('measured under d⁰ the radius of step 1 is 0, and Theorem 3.4 would promise no loss', () => {
    expect(stale).toBe(0)
    const bound = (radius: number): number => updateImprovementBound({ gamma, aMax: step.aMax, surrogate: step.lSeq, radius }).bound
    expect(bound(stale)).toBeGreaterThan(step.improvement + 0.05)
    expect(bound(step.dTok)).toBeLessThanOrEqual(step.improvement)
  })

  test('so is ρ, and the active-mass certificate would promise none either', () => {
    expect(teams[0].rho[1]).toBe(0)
    const bound = (rho: number): number =>
      activeMassBound({ gamma, aMax: step.aMax, steps: [{ surrogate: step.lSeq, radius: step.dTok, rho }] }).bound
    expect(bound(teams[0].rho[1])).toBeGreaterThan(step.improvement + 0.05)
    expect(bound(step.rho)).toBeLessThanOrEqual(step.improvement)
  })
})

describe('L and ζ sum over the same states', () => {
  // Â is off by 1 in the other agent's state: the sum over all states sees it, the sum over the mover's own does not
  const gamma = 0.5
  const mdp = deterministic(2, gamma, [{ agent: 1, actions: [[1, 0]] }, bet(0, 2, 1), { agent: 1, actions: [[2, 0]] }])
  const rows = [[[1], [0.5, 0.5], [1]], [[1], [0.45, 0.55], [1]], [[1], [0.45, 0.55], [1]]]
  const truth = stageOf(mdp, [0, 1], rows)
  const estimate = truth.teams[0].A.map((x, k) => (k === 1 || k === 2 ? x : x + 1))
  const { steps: [step], estimates: [own] } = stageOf(mdp, [0, 1], rows, [estimate, truth.teams[1].A])
  const bound = (surrogate: number, zeta: number): number =>
    updateImprovementBound({ gamma, aMax: step.aMax, surrogate, radius: step.dTok, zeta }).bound

  test('L over all states with ζ over the own ones would promise too much; each with its own kind holds', () => {
    expect(own.zetaOwn).toBeCloseTo(0, 14)
    expect(bound(own.lSeq, own.zetaOwn)).toBeGreaterThan(step.improvement + 1)
    expect(bound(own.lSeq, own.zeta)).toBeLessThanOrEqual(step.improvement + 1e-12)
    expect(bound(own.lSeqOwn, own.zetaOwn)).toBeLessThanOrEqual(step.improvement + 1e-12)
  })
})

describe('support', () => {
  const gamma = 0.5
  const fork = deterministic(1, gamma, [choice(0, 1, 2), bet(0, 3, 1), bet(0, 3, -1), end(3)])

  test('lost on a visited state: KL is infinite, KL bounds are −∞, the TV form stays finite and holds', () => {
    const gamma = 0.05
    const { steps: [step], policies: [before, after], teams: [{ d }], mdp } =
      stageOf(teamMdp({ ...fork, gamma }), [0], [[[0.5, 0.5], [0.9, 0.1], [0.9, 0.1], [1]], [[0, 1], [0.1, 0.9], [0.1, 0.9], [1]]])
    const bound = (radius: number): number => updateImprovementBound({ gamma, aMax: step.aMax, surrogate: step.lSeq, radius }).bound
    expect(step.dTok).toBe(Infinity)
    expect(bound(step.dTok)).toBe(-Infinity)
    const tv = tvBound({ gamma, aMax: step.aMax, steps: [{ surrogate: step.lSeq, tvMean: step.tvMean }] }).bound
    expect(tv).toBeGreaterThan(-Infinity)
    expect(tv).toBeLessThanOrEqual(step.improvement)
    // leaving the infinite term out of Σ p·log(p/q) makes the "radius" negative: taken for 0, Theorem 3.4 would promise no loss
    let skipped = 0
    for (let s = 0; s < mdp.states; s++) {
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        if (after[k] > 0) skipped += d[s] * before[k] * Math.log(before[k] / after[k])
      }
    }
    expect(skipped).toBeLessThan(0)
    expect(bound(Math.max(0, skipped))).toBeGreaterThan(step.improvement + 0.03)
  })

  test('lost on an unvisited state: valid input, nothing added to D_tok, though the largest KL is infinite', () => {
    const { steps: [step] } = stageOf(fork, [0], [[[1, 0], [0.9, 0.1], [0.5, 0.5], [1]], [[0.9, 0.1], [0.9, 0.1], [1, 0], [1]]])
    expect(step.klMax).toBe(Infinity)
    expect(step.dTok).toBeCloseTo(0.5 * -Math.log(0.9), 14)
    const { bound } = updateImprovementBound({ gamma, aMax: step.aMax, surrogate: step.lSeq, radius: step.dTok })
    expect(bound).toBeLessThanOrEqual(step.improvement)
    expect(maxKlBound({ gamma, aMax: step.aMax, steps: [{ ...step, surrogate: step.lSeq }] }).bound).toBe(-Infinity)
  })

  test('δ_max of the max-KL certificate is over unvisited states too', () => {
    const small = 1e-3
    const { steps: [step], policies: [before, after], teams: [team], mdp } =
      stageOf(fork, [0], [[[1, 0], [0.5, 0.5], [0.9, 0.1], [1]], [[1 - small, small], [0.5, 0.5], [0.05, 0.95], [1]]])
    const visited = largest(klByState(mdp, before, after).map((x, s) => (team.d[s] > 0 ? x : 0)))
    const bound = (klMax: number): number =>
      maxKlBound({ gamma, aMax: step.aMax, steps: [{ surrogate: step.lSeq, tvMean: step.tvMean, klMax }] }).bound
    expect(visited).toBeLessThan(step.klMax / 1000)
    expect(bound(visited)).toBeGreaterThan(step.improvement + 1e-4)
    expect(bound(step.klMax)).toBeLessThanOrEqual(step.improvement)
  })

  test('an agent of no active mass: its step costs nothing, its message radius is undefined', () => {
    const mdp = deterministic(2, gamma, [bet(0, 0, 1), bet(1, 0, 1)])
    const { steps: [step], improvement } = stageOf(mdp, [1, 0], [[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0, 1]], [[0.5, 0.5], [0, 1]]])
    expect(step).toMatchObject({ rho: 0, dTok: 0, dTokMessage: null, klMax: Infinity, improvement: 0 })
    const steps = [{ surrogate: step.lSeq, radius: step.dTokMessage, rho: step.rho }]
    expect(activeMassBound({ gamma, aMax: step.aMax, reading: 'message', steps }).penalty).toBe(0)
    expect(improvement).toBe(0)
  })
})

test('in a stale bound the range belongs to the row: range_k with n−k+1 would promise too much', () => {
  // agent 0 shifts the fork and has no advantage itself; agent 1 then makes the branches differ: all of the loss is (shift of step 0) ×
  // (range of step 1)
  const gamma = 0.05
  const mdp = deterministic(2, gamma, [choice(0, 1, 2), bet(1, 3, 1), bet(1, 3, -1), end(3)])
  const { steps, improvement } = stageOf(mdp, [0, 1], [
    [[0.9, 0.1], [1, 0], [1, 0], [1]], [[0.1, 0.9], [1, 0], [1, 0], [1]], [[0.1, 0.9], [0.5, 0.5], [0.5, 0.5], [1]],
  ])
  const rows = steps.map(({ lStale, dTok, advantageRange }) =>
    ({ surrogate: lStale, shift: pinskerShift({ gamma, radius: dTok }), magnitude: advantageRange }))
  const wrong = shiftBound({ gamma, steps: rows.map((row, k) => ({ ...row, shift: (2 - k) * row.shift })) }).bound
  expect(steps[0].advantageRange).toBe(0)
  expect(wrong).toBeGreaterThan(improvement + 0.02)
  expect(staleShiftBound({ gamma, steps: rows }).bound).toBeLessThanOrEqual(improvement)
})

test('the absorbing end inflates its owner\'s ρ: valid, and ρ^Δ, the mass of the rows that change, is valid and tighter', () => {
  const gamma = 0.9
  const mdp = deterministic(1, gamma, [choice(0, 1, 2), { agent: 0, actions: [[3, 1]] }, { agent: 0, actions: [[3, 0]] }, end(3)])
  const { steps: [step] } = stageOf(mdp, [0], [[[0.5, 0.5], [1], [1], [1]], [[0.3, 0.7], [1], [1], [1]]])
  const bound = (rho: number): number =>
    activeMassBound({ gamma, aMax: step.aMax, steps: [{ surrogate: step.lSeq, radius: step.dTok, rho }] }).bound
  expect([step.rho, step.rhoChanged]).toEqual([expect.closeTo(1, 12), expect.closeTo(0.1, 12)])
  expect(step.shift).toBeLessThanOrEqual(activeMassShift({ gamma, rho: step.rhoChanged, radius: step.dTok }))
  expect(bound(step.rhoChanged)).toBeGreaterThan(bound(step.rho))
  expect(bound(step.rhoChanged)).toBeLessThanOrEqual(step.improvement)
})

test('numerics: Σ p·log(p/q) is noise of either sign for near rows; Σ p·φ(q/p) keeps every digit', () => {
  const plain = (p: number[], q: number[]): number => p.reduce((sum, x, a) => sum + x * Math.log(x / q[a]), 0)
  const rows = Array.from({ length: 40 }, (_, i) => 0.05 + 0.01 * i)
    .map((x) => ({ p: [x, 0.3, 0.7 - x], q: [x + 1e-9, 0.3, 0.7 - x - 1e-9] }))
  expect(rows.some(({ p, q }) => plain(p, q) < 0)).toBe(true)
  expect(Number.isNaN(Math.sqrt(Math.min(...rows.map(({ p, q }) => plain(p, q)))))).toBe(true)
  for (const { p, q } of rows) {
    const [u, v] = [(q[0] - p[0]) ** 2 / p[0], (q[2] - p[2]) ** 2 / p[2]]
    expect(Math.abs(kl(p, q) / ((u + v) / 2) - 1)).toBeLessThan(1e-6)
  }
  expect(kl([0.2, 0.8], [0.2, 0.8])).toBe(0)
  expect(klTerm(0, 0.3)).toBe(0.3)
  const near = kl([0.2, 0.8], [0.2 + 1e-9, 0.8 - 1e-9])
  expect(stageImprovementBound({ gamma: 0.9, aMax: 1, steps: [{ surrogate: 0, radius: near }] }).penalty).toBeGreaterThan(0)
})
