import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chainOf } from '../../src/theory/chain.js'
import { dTok, expectation, klByState, largest, tvByState } from '../../src/theory/divergence.js'
import { factorise, planElimination, solve, solveTransposed } from '../../src/theory/elimination.js'
import { evaluate, occupancy, values } from '../../src/theory/evaluate.js'
import { randomPolicy, ring, routed, tree } from '../../src/theory/families.js'
import { iterateOccupancy, iterateValues } from '../../src/theory/iterate.js'
import { parseTheoryCase } from '../../src/theory/json.js'
import { teamMdp, uniformPolicy, type TeamMdp, type TeamPolicy } from '../../src/theory/mdp.js'
import { structureOf } from '../../src/theory/structure.js'
import { readJson } from '../../src/util/files.js'
import { random } from '../../src/util/random.js'
import { sharedPath } from '../shared.js'
import { denseEvaluation, SHAPES, smallCase } from './oracle.js'

const CASES = [
  'gamma-0999', 'identical-and-tiny', 'nearly-deterministic', 'never-active', 'ring-3', 'ring-5-anti', 'ring-uniform-start', 'routed-4',
  'routed-noisy-estimate', 'single-agent', 'tree-2', 'tree-3', 'unvisited-zero-mass', 'zero-reward',
]

const seeds = fc.record({
  seed: fc.integer(),
  shape: fc.constantFrom(...SHAPES),
  gamma: fc.constantFrom(1e-9, 0.2, 0.9, 0.99, 0.999),
})

const distance = (x: ArrayLike<number>, y: ArrayLike<number>, norm: 'sum' | 'max'): number => {
  let all = 0
  for (let i = 0; i < x.length; i++) all = norm === 'sum' ? all + Math.abs(x[i] - y[i]) : Math.max(all, Math.abs(x[i] - y[i]))
  return all
}

const rewards = ({ states, actionStart, reward }: TeamMdp, policy: TeamPolicy): Float64Array =>
  Float64Array.from({ length: states }, (_, s) => {
    let mean = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) mean += policy[k] * reward[k]
    return mean
  })

/** Rounding of the oracle itself, generously. */
const oracleError = (gamma: number): number => 1e-13 / (1 - gamma)

describe('evaluate', () => {
  it('agrees with dense elimination on random and degenerate MDPs, within the error it proves', () => {
    fc.assert(fc.property(seeds, ({ seed, shape, gamma }) => {
      const { mdp, policy } = smallCase(shape, gamma, random(seed))
      const exact = denseEvaluation(mdp, policy)
      const ours = evaluate(mdp, policy)
      const scale = Math.max(1, ...exact.V.map(Math.abs))
      const error = ours.vError + oracleError(gamma) * scale
      expect(distance(ours.d, exact.d, 'sum')).toBeLessThanOrEqual(ours.dError + oracleError(gamma))
      expect(distance(ours.V, exact.V, 'max')).toBeLessThanOrEqual(error)
      expect(distance(ours.Q, exact.Q, 'max')).toBeLessThanOrEqual(2 * error)
      expect(distance(ours.A, exact.A, 'max')).toBeLessThanOrEqual(2 * error)
      expect(distance(ours.rho, exact.rho, 'max')).toBeLessThanOrEqual(ours.dError + oracleError(gamma))
      expect(Math.abs(ours.J - exact.J)).toBeLessThanOrEqual(error)
      expect(Math.abs(ours.aMax - exact.aMax)).toBeLessThanOrEqual(2 * error)
      expect(ours.error).toBeLessThanOrEqual((1e-12 * scale) / (1 - gamma))
      expect(Math.min(...ours.d)).toBeGreaterThanOrEqual(0)
    }), { seed: 1, numRuns: 400 })
  })

  it('gives the parts alone as it gives them together', () => {
    for (const shape of SHAPES) {
      const { mdp, policy } = smallCase(shape, 0.9, random(7))
      const whole = evaluate(mdp, policy)
      const { d, rho, error: dError } = occupancy(mdp, policy)
      const { V, J, error: vError } = values(mdp, policy)
      expect({ d, rho, V, J, error: Math.max(dError, vError) }).toEqual({ d: whole.d, rho: whole.rho, V: whole.V, J: whole.J, error: whole.error })
    }
  })

  it('visits exactly the states that can be reached', () => {
    // states 0 → 1 ⇄ 2; state 3 → 0 is never visited
    const mdp = (states: number) => teamMdp({
      n: 1, gamma: 0.9, states, mu: Float64Array.of(1, 0, 0, 0), activeAgent: new Int32Array(4),
      actionStart: Int32Array.of(0, 1, 2, 3, 4), rowStart: Int32Array.of(0, 1, 2, 3, 4),
      next: Int32Array.of(1, 2, 1, 0), prob: new Float64Array(4).fill(1), reward: new Float64Array(4),
    })
    const m = mdp(4)
    expect(evaluate(m, uniformPolicy(m)).d[3]).toBe(0)
    const chain = chainOf(m, uniformPolicy(m))
    expect(iterateOccupancy(chain, 0.9, Float64Array.of(0.1, 0, 0, 0), 1e-12).d[3]).toBe(0)
  })

  it('refuses a policy of another MDP', () => {
    const { mdp } = smallCase('dense', 0.9, random(1))
    expect(() => evaluate(mdp, new Float64Array(mdp.reward.length + 1))).toThrow(/policy: has/)
  })
})

describe('the iteration', () => {
  it('solves what elimination solves, down to slowly mixing and periodic chains', () => {
    fc.assert(fc.property(seeds, ({ seed, shape, gamma }) => {
      const { mdp, policy } = smallCase(shape, gamma, random(seed))
      const exact = denseEvaluation(mdp, policy)
      const scale = Math.max(1, ...exact.V.map(Math.abs))
      const chain = chainOf(mdp, policy)
      const { d } = iterateOccupancy(chain, gamma, mdp.mu.map((x) => (1 - gamma) * x), 1e-12)
      const V = iterateValues(chain, gamma, rewards(mdp, policy), 1e-12)
      chain.release()
      // residuals cannot fall below rounding: 8 ε relative to the solution, times 1/(1−γ)
      const floor = 1e-12 + (20 * Number.EPSILON) / (1 - gamma) + oracleError(gamma)
      expect(distance(d, exact.d, 'sum')).toBeLessThanOrEqual(floor)
      expect(distance(V, exact.V, 'max')).toBeLessThanOrEqual(floor * scale)
    }), { seed: 2, numRuns: 300 })
  })

  it('solves a walk along a line, where sweeps after a single leap stall at rounding', () => {
    const [states, gamma] = [3000, 0.99999]
    const chance = random(8)
    const mdp = teamMdp({
      n: 2, gamma, states, mu: new Float64Array(states).fill(1 / states),
      activeAgent: Int32Array.from({ length: states }, (_, s) => s % 2),
      actionStart: Int32Array.from({ length: states + 1 }, (_, s) => 2 * s),
      rowStart: Int32Array.from({ length: 2 * states + 1 }, (_, k) => k),
      next: Int32Array.from({ length: 2 * states }, (_, k) => Math.min(states - 1, Math.max(0, (k >> 1) + (k % 2 ? 1 : -1)))),
      prob: new Float64Array(2 * states).fill(1),
      reward: Float64Array.from({ length: 2 * states }, () => chance.normal()),
    })
    const policy = randomPolicy(mdp, chance)
    const factors = factorise(mdp, policy, planElimination(mdp, Infinity)!)
    const exact = solve(factors, rewards(mdp, policy))
    const chain = chainOf(mdp, policy)
    const V = iterateValues(chain, gamma, rewards(mdp, policy), 1e-12)
    chain.release()
    const scale = exact.reduce((max, v) => Math.max(max, Math.abs(v)), 1)
    expect(distance(V, exact, 'max')).toBeLessThanOrEqual((20 * Number.EPSILON * scale) / (1 - gamma))
  })

  it.each([
    ['routed', routed({ agents: 4, states: 20_000, actions: 3, successors: 10, gamma: 0.95 }, random(1))],
    ['routed, few successors', routed({ agents: 4, states: 20_000, actions: 2, successors: 2, gamma: 0.99, start: 'random' }, random(1))],
    ['ring, many levels', ring({ agents: 8, levels: 1000, actions: 2, gamma: 0.99 }, random(1))],
  ])('reaches the tolerance on %s, checked by a pass of its own', (_, mdp) => {
    expect(structureOf(mdp)).toMatchObject({ plan: undefined, topological: undefined })
    const policy = randomPolicy(mdp, random(2))
    const tolerance = 1e-10
    const { d, V, error } = evaluate(mdp, policy, { tolerance })
    const { states, gamma, mu, actionStart, rowStart, next, prob, reward } = mdp
    const flow = mu.map((x) => (1 - gamma) * x)
    let worst = 0
    for (let s = 0; s < states; s++) {
      let backup = 0
      for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
        backup += policy[k] * reward[k]
        for (let e = rowStart[k]; e < rowStart[k + 1]; e++) {
          backup += gamma * policy[k] * prob[e] * V[next[e]]
          flow[next[e]] += gamma * policy[k] * prob[e] * d[s]
        }
      }
      worst = Math.max(worst, Math.abs(backup - V[s]))
    }
    const scale = V.reduce((max, v) => Math.max(max, Math.abs(v)), 1)
    expect(distance(flow, d, 'sum') / (1 - gamma)).toBeLessThanOrEqual(tolerance)
    expect(worst / (1 - gamma)).toBeLessThanOrEqual(tolerance * scale)
    expect(error).toBeGreaterThanOrEqual(Math.max(worst, distance(flow, d, 'sum')) / (1 - gamma))
    expect(error).toBeLessThanOrEqual(1.1 * tolerance * scale)
  })
})

describe('the passes of a chain', () => {
  it('do what their loops say', () => {
    fc.assert(fc.property(seeds, ({ seed, shape, gamma }) => {
      const chance = random(seed)
      const { mdp, policy } = smallCase(shape, gamma, chance)
      const { states, actionStart, rowStart, next, prob } = mdp
      const P = Array.from({ length: states }, () => new Array<number>(states).fill(0))
      for (let s = 0; s < states; s++) {
        for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
          for (let e = rowStart[k]; e < rowStart[k + 1]; e++) P[s][next[e]] += gamma * policy[k] * prob[e]
        }
      }
      const chain = chainOf(mdp, policy)
      const start = { u: vector(states, chance.normal), v: vector(states, chance.normal), w: vector(states, chance.normal) }
      const reset = () => void (chain.u.set(start.u), chain.v.set(start.v), chain.w.set(start.w))

      for (const [side, b] of [['u', start.u], ['w', start.w]] as const) {
        reset()
        const x = start.v.slice()
        let change = 0
        for (let s = states - 1; s >= 0; s--) {
          const others = P[s].reduce((sum, p, to) => (to === s ? sum : sum + p * x[to]), b[s])
          change = Math.max(change, Math.abs(others / (1 - P[s][s]) - x[s]))
          x[s] = others / (1 - P[s][s])
        }
        expect(chain.sweep(side)).toBeCloseTo(change, 10)
        expect(distance(chain.v, x, 'max')).toBeLessThan(1e-11)
        // a sweep leaves a residual of at most γ · change
        const residual = x.map((_, s) => Math.abs(P[s].reduce((sum, p, to) => sum + p * x[to], b[s]) - x[s]))
        expect(Math.max(...residual)).toBeLessThanOrEqual(gamma * change + 1e-12)
      }
      for (const [into, before] of [['v', start.v], ['w', start.w]] as const) {
        reset()
        const r = start.u.slice()
        const x = before.slice()
        for (let s = 0; s < states; s++) {
          const step = r[s] / (1 - P[s][s])
          x[s] += step
          for (let to = 0; to < states; to++) if (to !== s) r[to] += P[s][to] * step
          r[s] = 0
        }
        chain.push(into)
        expect(distance(chain[into], x, 'max')).toBeLessThan(1e-11)
        expect(distance(chain.u, r, 'max')).toBeLessThan(1e-11)
      }
      reset()
      chain.flow()
      expect(distance(chain.u, start.u.map((u, to) => u + P.reduce((sum, row, s) => sum + row[to] * start.v[s], 0)), 'max')).toBeLessThan(1e-12)
      chain.release()
    }), { seed: 3, numRuns: 150 })
  })

  it('give the same numbers in a memory that was used before', () => {
    const large = routed({ agents: 2, states: 5000, actions: 2, successors: 4, gamma: 0.9 }, random(1))
    const first = evaluate(large, uniformPolicy(large))
    const small = ring({ agents: 8, levels: 600, actions: 2, gamma: 0.9 }, random(1))
    evaluate(small, uniformPolicy(small))
    expect(evaluate(large, uniformPolicy(large))).toEqual(first)
  })
})

describe('elimination', () => {
  it('fills nothing in on contexts that only grow, and only near levels on a ring', () => {
    const growing = tree({ agents: 3, actions: 3, depth: 4, gamma: 0.9 }, random(1))
    const plan = planElimination(growing, Infinity)!
    // one entry for each context but the first, and one from each of the 81 full messages to the end
    expect(plan.lower.length + plan.upper.length).toBe(3 + 9 + 27 + 81 + 81)
    const turns = ring({ agents: 8, levels: 50, actions: 5, gamma: 0.95 }, random(1))
    expect(planElimination(turns, Infinity)!.cost).toBeLessThan(20_000)
    expect(planElimination(turns, 5_000)).toBeUndefined()
  })

  it('solves both systems', () => {
    for (const mdp of [ring({ agents: 5, levels: 9, actions: 2, gamma: 0.99 }, random(1)), routed({ agents: 3, states: 60, actions: [1, 4], successors: 3, gamma: 0.99 }, random(1))]) {
      const policy = randomPolicy(mdp, random(2))
      const exact = denseEvaluation(mdp, policy)
      const factors = factorise(mdp, policy, planElimination(mdp, Infinity)!)
      expect(distance(solve(factors, rewards(mdp, policy)), exact.V, 'max')).toBeLessThan(1e-10)
      expect(distance(solveTransposed(factors, mdp.mu.map((x) => 0.01 * x)), exact.d, 'sum')).toBeLessThan(1e-11)
    }
  })
})

describe('structure', () => {
  it('finds a topological order under any numbering of states', () => {
    const mdp = tree({ agents: 2, actions: 3, depth: 5, gamma: 0.9 }, random(1))
    const shuffled = renumbered(mdp, random(5).permutation(mdp.states))
    expect(structureOf(shuffled).topological).toBeDefined()
    const [a, b] = [evaluate(mdp, uniformPolicy(mdp)), evaluate(shuffled, uniformPolicy(shuffled))]
    expect(b.J).toBeCloseTo(a.J, 13)
    expect(distance(b.d.slice().sort(), a.d.slice().sort(), 'sum')).toBeLessThan(1e-13)
  })
})

describe('theory cases', () => {
  it.skipIf(!sharedPath('theory-cases')).each(CASES)('%s: teams and divergences', (id) => {
    const { input, expected } = parseTheoryCase(readJson(sharedPath(`theory-cases/${id}.json`)!), id)
    const { teams, steps } = expected as { teams: Team[]; steps: Step[] }
    const { mdp } = input
    const tolerance = id === 'gamma-0999' ? 1e-9 : 1e-10
    const near = (x: number, y: number, what: string) => expect(Math.abs(x - y), `${what}: ${x} for ${y}`).toBeLessThanOrEqual(tolerance * Math.max(1, Math.abs(y)))
    const nearAll = (x: ArrayLike<number>, y: number[], what: string) => y.forEach((value, i) => near(x[i], value, `${what}[${i}]`))
    const evaluated = input.teams.map((policy) => evaluate(mdp, policy))
    teams.forEach((team, i) => {
      nearAll(evaluated[i].d, team.d, `teams[${i}].d`)
      nearAll(evaluated[i].V, team.V, `teams[${i}].V`)
      nearAll(evaluated[i].A, team.A.flat(), `teams[${i}].A`)
      nearAll(evaluated[i].rho, team.rho, `teams[${i}].rho`)
      near(evaluated[i].J, team.J, `teams[${i}].J`)
      near(evaluated[i].aMax, team.aMax, `teams[${i}].aMax`)
    })
    const relative = (x: number, y: number | 'Infinity', what: string) => {
      if (y === 'Infinity') expect(x, what).toBe(Infinity)
      else expect(Math.abs(x - y), `${what}: ${x} for ${y}`).toBeLessThanOrEqual(1e-9 * y)
    }
    steps.forEach((step, i) => {
      const [before, after] = [input.teams[i], input.teams[i + 1]]
      const tv = tvByState(mdp, before, after)
      relative(dTok(mdp, evaluated[i].d, before, after), step.dTok, `steps[${i}].dTok`)
      relative(largest(klByState(mdp, before, after)), step.klMax, `steps[${i}].klMax`)
      near(expectation(evaluated[i].d, tv), step.tvMean, `steps[${i}].tvMean`)
      near(largest(tv), step.tvMax, `steps[${i}].tvMax`)
      near(distance(evaluated[i + 1].d, evaluated[i].d, 'sum'), step.shift, `steps[${i}].shift`)
      near(evaluated[i].rho[step.agent], step.rho, `steps[${i}].rho`)
    })
  })
})

interface Team { d: number[]; V: number[]; J: number; A: number[][]; aMax: number; rho: number[] }
interface Step { agent: number; rho: number; dTok: number | 'Infinity'; klMax: number | 'Infinity'; tvMean: number; tvMax: number; shift: number }

const vector = (length: number, draw: () => number): Float64Array => Float64Array.from({ length }, draw)

/** The same MDP, state s called name[s]. */
const renumbered = (mdp: TeamMdp, name: number[]): TeamMdp => {
  const old = new Array<number>(mdp.states)
  name.forEach((to, s) => (old[to] = s))
  const actionStart = [0]
  const rowStart = [0]
  const next: number[] = []
  const prob: number[] = []
  const reward: number[] = []
  for (const s of old) {
    for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
      for (let e = mdp.rowStart[k]; e < mdp.rowStart[k + 1]; e++) {
        next.push(name[mdp.next[e]])
        prob.push(mdp.prob[e])
      }
      rowStart.push(next.length)
      reward.push(mdp.reward[k])
    }
    actionStart.push(reward.length)
  }
  return teamMdp({
    ...mdp,
    mu: Float64Array.from(old, (s) => mdp.mu[s]), activeAgent: Int32Array.from(old, (s) => mdp.activeAgent[s]),
    actionStart: Int32Array.from(actionStart), rowStart: Int32Array.from(rowStart),
    next: Int32Array.from(next), prob: Float64Array.from(prob), reward: Float64Array.from(reward),
  })
}
