import { expect, test } from 'vitest'
import { randomPolicy, ring, routed } from '../../src/theory/families.js'
import type { TeamMdp, TeamPolicy } from '../../src/theory/mdp.js'
import { measureBehaviour, measureStage, runStage, stageOfPolicies, type StageEvaluation, type UpdateRule } from '../../src/theory/stage.js'
import { tiltToRadius } from '../../src/theory/update.js'
import { random } from '../../src/util/random.js'
import { denseEvaluation } from './oracle.js'

const team = (seed: number): { mdp: TeamMdp; policy: TeamPolicy } => {
  const source = random(seed)
  const mdp = routed({ agents: 3, states: 7, actions: [1, 3], successors: 3, gamma: 0.5, start: 'random' }, source)
  return { mdp, policy: randomPolicy(mdp, source) }
}

test('each step replaces the rows of its agent alone; with fixed targets the last team does not depend on the order', () => {
  const { mdp, policy } = team(1)
  const target = randomPolicy(mdp, random(2))
  const orders = [
    [0, 1, 2],
    [2, 0, 1],
    [1, 2, 0],
  ]
  const stages = orders.map((order) => runStage(mdp, policy, { order, update: () => target }))
  stages.forEach(({ policies, teams }, which) => {
    expect(policies).toHaveLength(4)
    expect(teams).toHaveLength(4)
    for (let s = 0; s < mdp.states; s++) {
      const turn = orders[which].indexOf(mdp.activeAgent[s])
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        policies.forEach((one, i) => expect(one[k]).toBe(i > turn ? target[k] : policy[k]))
      }
    }
    expect(policies[3]).toEqual(stages[0].policies[3])
    expect(stageOfPolicies(mdp, policies, orders[which]).teams[3].J).toBe(teams[3].J)
  })
})

test('what an update sees under intermediate, stale and joint evaluation', () => {
  const { mdp, policy } = team(3)
  for (const evaluation of ['intermediate', 'stale', 'joint'] as StageEvaluation[]) {
    const seen: { d: Float64Array; A: Float64Array; policy: TeamPolicy }[] = []
    const update: UpdateRule = (input) => {
      seen.push(input)
      return tiltToRadius(input, 0.01).policy
    }
    const { teams, policies } = runStage(mdp, policy, { order: [0, 1, 2], update, evaluation })
    seen.forEach(({ d, A, policy: before }, i) => {
      expect(d).toBe(teams[evaluation === 'intermediate' ? i : 0].d)
      expect(A).toBe(teams[evaluation === 'joint' ? 0 : i].A)
      expect(before).toBe(policies[i])
    })
  }
})

test('only under intermediate evaluation does a tilt hold the radius that the theorems mean, D_tok under π̂^{i−1}', () => {
  const source = random(4)
  const mdp = ring({ agents: 4, levels: 4, actions: 3, gamma: 0.9, start: 'first' }, source)
  const policy = randomPolicy(mdp, source)
  const radii = (evaluation: StageEvaluation): number[] =>
    measureStage(runStage(mdp, policy, { order: [0, 1, 2, 3], update: (input) => tiltToRadius(input, 0.05).policy, evaluation })).steps.map(
      ({ dTok }) => dTok,
    )
  for (const dTok of radii('intermediate')) expect(dTok).toBeCloseTo(0.05, 12)
  for (const evaluation of ['stale', 'joint'] as const) expect(Math.max(...radii(evaluation))).toBeGreaterThan(0.051)
})

test('measureStage against sums over time, γ^t Pr(s_t = s), written out', () => {
  for (const seed of [5, 6, 7]) {
    const { mdp, policy } = team(seed)
    const source = random(100 + seed)
    const order = source.permutation(3)
    const stage = runStage(mdp, policy, { order, update: () => randomPolicy(mdp, source) })
    const estimates = order.map(() => Float64Array.from({ length: policy.length }, () => source.normal()))
    const { steps, estimates: measured, improvement } = measureStage(stage, estimates)
    const d = stage.policies.map((one) => occupancyByTime(mdp, one))
    let gained = 0
    steps.forEach((step, i) => {
      const [before, after] = [stage.policies[i], stage.policies[i + 1]]
      let dTok = 0,
        tvMean = 0,
        seq = 0,
        stale = 0,
        hat = 0,
        error = 0,
        shift = 0,
        drift = 0,
        mass = 0
      for (let s = 0; s < mdp.states; s++) {
        shift += Math.abs(d[i + 1][s] - d[i][s])
        drift += Math.abs(d[i][s] - d[0][s])
        if (mdp.activeAgent[s] === order[i]) mass += d[i][s]
        for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
          dTok += d[i][s] * before[k] * Math.log(before[k] / after[k])
          tvMean += (d[i][s] * Math.abs(before[k] - after[k])) / 2
          seq += (d[i][s] * after[k] * stage.teams[i].A[k]) / 0.5
          stale += (d[0][s] * after[k] * stage.teams[i].A[k]) / 0.5
          hat += (d[i][s] * after[k] * estimates[i][k]) / 0.5
          error += d[i][s] * after[k] * (estimates[i][k] - stage.teams[i].A[k])
        }
      }
      const close = (x: number, y: number): void => expect(x).toBeCloseTo(y, 11)
      close(step.dTok, dTok)
      close(step.tvMean, tvMean)
      close(step.lSeq, seq)
      close(step.lStale, stale)
      close(step.shift, shift)
      close(step.cumulativeShift, drift)
      close(step.rho, mass)
      close(measured[i].lSeq, hat)
      close(measured[i].zeta, Math.abs(error))
      gained += step.improvement
    })
    expect(improvement).toBeCloseTo(gained, 12)
  }
})

test('an order that is no permutation, or a wrong number of policies, is refused', () => {
  const { mdp, policy } = team(1)
  expect(() => runStage(mdp, policy, { order: [0, 1, 1], update: () => policy })).toThrow(
    /order: holds \[0, 1, 1\]; each agent from 0 to 2 once/,
  )
  expect(() => runStage(mdp, policy, { order: [0, 1], update: () => policy })).toThrow(/order: /)
  expect(() => stageOfPolicies(mdp, [policy], [0, 1, 2])).toThrow(/policies: has 1 entries; 4 are needed/)
})

/** (1−γ) Σ_t γ^t Pr(s_t = s), t < 60: at γ = ½ the rest is below 1e-18. */
const occupancyByTime = (mdp: TeamMdp, policy: TeamPolicy): Float64Array => {
  const d = new Float64Array(mdp.states)
  let now = mdp.mu.slice()
  for (let t = 0, weight = 1 - mdp.gamma; t < 60; t++, weight *= mdp.gamma) {
    const later = new Float64Array(mdp.states)
    for (let s = 0; s < mdp.states; s++) {
      d[s] += weight * now[s]
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) {
        for (let e = mdp.rowStart[k]; e < mdp.rowStart[k + 1]; e++) later[mdp.next[e]] += now[s] * policy[k] * mdp.prob[e]
      }
    }
    now = later
  }
  return d
}

test('an update beside the team that it learned from: by dense algebra, and what that is for fresh and for stale rollouts', () => {
  let largest = 0
  for (const [seed, order] of [[5, [0, 1, 2]], [6, [2, 1, 0]], [7, [1, 2, 0]]] as const) {
    const { mdp, policy } = team(seed)
    const stage = runStage(mdp, policy, { order, update: ({ policy: before }) => randomPolicy(mdp, random(seed + 10)).map((p, k) => 0.3 * p + 0.7 * before[k]) })
    const { steps } = measureStage(stage)
    const dense = stage.policies.map((one) => denseEvaluation(mdp, one))
    for (const behaviour of [[0, 1, 2], [0, 0, 0], [0, 0, 2], [0, 1, 1]]) {
      const measured = measureBehaviour(stage, behaviour)
      const worth = (b: number, i: number): number => {
        let sum = 0
        for (let s = 0; s < mdp.states; s++) {
          for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) sum += dense[b].d[s] * (stage.policies[i + 1][k] - stage.policies[i][k]) * dense[b].A[k]
        }
        return sum / (1 - mdp.gamma)
      }
      measured.forEach(({ shift, surrogate, gap }, i) => {
        const b = behaviour[i]
        expect(shift).toBeCloseTo(dense[i + 1].d.reduce((sum, x, s) => sum + Math.abs(x - dense[b].d[s]), 0), 12)
        expect(surrogate).toBeCloseTo(worth(b, i), 12)
        expect(gap).toBeCloseTo(worth(b, i) - worth(i, i), 12)
        if (b === i) {
          expect([shift, gap]).toEqual([steps[i].shift, 0])
          expect(surrogate).toBeCloseTo(steps[i].lSeq, 12)
        }
        if (b === 0 && i < 2) expect(shift).toBe(steps[i + 1].cumulativeShift)
      })
      if (behaviour[2] === 0) largest = Math.max(...measured.map(({ gap }) => Math.abs(gap)), largest)
    }
  }
  expect(largest).toBeGreaterThan(1e-3)
})

test('refuses to have learned from a team that was not there yet', () => {
  const { mdp, policy } = team(8)
  const stage = runStage(mdp, policy, { order: [0, 1, 2], update: (input) => tiltToRadius(input, 0.01).policy })
  expect(() => measureBehaviour(stage, [0, 2, 0])).toThrow('behaviour[1]: holds 2; a whole number, 0 to 1')
  expect(() => measureBehaviour(stage, [0, 0])).toThrow('behaviour: has 2 entries; 3 are needed')
})
