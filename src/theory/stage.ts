/**
 * One stage (theory.md, section 2): π̂⁰ = π_cur; step i replaces agent σ(i) and gives π̂^i; π̄ = π̂^n. Steps count from 0 here: step i
 * leads from teams[i] to teams[i+1].
 *
 * `runStage` makes the teams by an update rule, `stageOfPolicies` takes them as given, `measureStage` computes what the bounds need: exact
 * occupancies, surrogates, divergences, masses and shifts of every step.
 */
import { klByState, tvByState } from './divergence.js'
import { evaluate, type Evaluation, type EvaluateOptions } from './evaluate.js'
import { replaceAgent, TheoryError, type TeamMdp, type TeamPolicy } from './mdp.js'

/**
 * What an update looks at: of π̂^{i−1} (`intermediate`, what TeamTR does); the occupancy of π̂⁰ with the advantage of π̂^{i−1}
 * (`stale`); all of π̂⁰ (`joint`).
 */
export type StageEvaluation = 'intermediate' | 'stale' | 'joint'

/**
 * One step's update: from the team before it, an occupancy over states and an advantage over pairs, to a policy of which the agent's
 * rows are used.
 */
export type UpdateRule = (input: {
  mdp: TeamMdp
  policy: TeamPolicy
  agent: number
  d: Float64Array
  A: Float64Array
  step: number
}) => TeamPolicy

/** The sequence of intermediate teams, all of them evaluated exactly. */
export interface Stage {
  readonly mdp: TeamMdp
  /** σ, a permutation of the agents */
  readonly order: readonly number[]
  /** π̂⁰ … π̂^n */
  readonly policies: readonly TeamPolicy[]
  /** their evaluations */
  readonly teams: readonly Evaluation[]
}

/** @throws TheoryError `order` unless the order is a permutation of 0 … n−1 */
export const requireOrder = (mdp: TeamMdp, order: readonly number[]): void => {
  if ([...order].sort((a, b) => a - b).some((agent, i) => agent !== i) || order.length !== mdp.n) {
    throw new TheoryError('order', 'order', `holds [${order.join(', ')}]; each agent from 0 to ${mdp.n - 1} once`)
  }
}

/**
 * Run one stage, updating one agent after the other.
 *
 * @param evaluation whose occupancy and advantage each update sees (see {@link StageEvaluation}); the teams themselves are always
 *   evaluated exactly
 * @throws TheoryError `order`
 */
export const runStage = (
  mdp: TeamMdp,
  policy: TeamPolicy,
  {
    order,
    update,
    evaluation = 'intermediate',
    evaluateOptions,
  }: { order: readonly number[]; update: UpdateRule; evaluation?: StageEvaluation; evaluateOptions?: EvaluateOptions },
): Stage => {
  requireOrder(mdp, order)
  const policies = [policy]
  const teams = [evaluate(mdp, policy, evaluateOptions)]
  order.forEach((agent, step) => {
    const before = policies[step]
    const d = teams[evaluation === 'intermediate' ? step : 0].d
    const A = teams[evaluation === 'joint' ? 0 : step].A
    const after = replaceAgent(mdp, before, agent, update({ mdp, policy: before, agent, d, A, step }))
    policies.push(after)
    teams.push(evaluate(mdp, after, evaluateOptions))
  })
  return { mdp, order, policies, teams }
}

/**
 * The stage of given policies π̂⁰ … π̂^n, where policies[i+1] differs from policies[i] in the rows of agent order[i] alone.
 * @throws TheoryError `order`, or `size` unless there are n + 1 policies
 */
export const stageOfPolicies = (
  mdp: TeamMdp,
  policies: readonly TeamPolicy[],
  order: readonly number[],
  evaluateOptions?: EvaluateOptions,
): Stage => {
  requireOrder(mdp, order)
  if (policies.length !== mdp.n + 1) throw new TheoryError('size', 'policies', `has ${policies.length} entries; ${mdp.n + 1} are needed`)
  return { mdp, order, policies, teams: policies.map((policy) => evaluate(mdp, policy, evaluateOptions)) }
}

/** What one step is, measured exactly. Names as in the `expected.steps` of ../shared/theory-cases. */
export interface StepMeasure {
  agent: number
  /** active mass of the agent under the team before */
  rho: number
  /** ρ^Δ: the part of it on states whose row changes */
  rhoChanged: number
  /** D_tok under the occupancy of the team before; Infinity when support is lost at a visited state */
  dTok: number
  /** dTok/rho; null where rho = 0 */
  dTokMessage: number | null
  /** E_{s~d before} TV */
  tvMean: number
  /** largest TV and KL over all states, unvisited ones too */
  tvMax: number
  klMax: number
  /** ‖d after − d before‖₁ and ‖d before − d of π̂⁰‖₁ */
  shift: number
  cumulativeShift: number
  /** max |A| of the team before */
  aMax: number
  /** min f and max f of f(s) = E_{a~after} A_before(s, a), over all states; max |f|; max f − min f */
  advantageLow: number
  advantageHigh: number
  advantageRange: number
  advantageSpan: number
  /** J after − J before */
  improvement: number
  /** surrogates with the true advantage, over all states */
  lSeq: number
  lStale: number
}

/** The same step through an estimated advantage Â. A sum named `Own` runs over the states of the moving agent only. */
export interface EstimateMeasure {
  lSeq: number
  lStale: number
  /** |E[Â − A]| under the occupancy of the team before, and under that of π̂⁰ */
  zeta: number
  zetaStale: number
  /** max |Â| over all pairs */
  aHatMax: number
  /** max |f̂|, f̂(s) = E_{a~after} Â(s, a) */
  aHatRange: number
  lSeqOwn: number
  lStaleOwn: number
  zetaOwn: number
}

/** Every step of a stage. */
export interface StageMeasure {
  steps: StepMeasure[]
  /** one entry a step, or none when no estimate was given */
  estimates: EstimateMeasure[]
  /** A_max over π̂⁰ … π̂^{n−1} */
  aMax: number
  /** max |Â| over all estimates; aMax when none was given */
  aHatMax: number
  /** J(π̄) − J(π_cur) */
  improvement: number
}

/**
 * Measure every step of a stage, exactly.
 * @param estimates Â of each step, over pairs, in every state
 * @throws TheoryError `not-finite` or `discount-range` where rewards are too large, or γ too near 1, for any proof about the values
 */
export const measureStage = (stage: Stage, estimates: readonly Float64Array[] = []): StageMeasure => {
  const { teams, order } = stage
  teams.forEach((team) => requireProven(stage.mdp, team))
  const steps = order.map((_, i) => measureStep(stage, i))
  const measured = estimates.map((estimate, i) => measureEstimate(stage, i, estimate))
  const aMax = Math.max(...steps.map((step) => step.aMax))
  return {
    steps,
    estimates: measured,
    aMax,
    aHatMax: measured.length ? Math.max(...measured.map((estimate) => estimate.aHatMax)) : aMax,
    improvement: teams[order.length].J - teams[0].J,
  }
}

/** An evaluation of which nothing is proven (evaluate.ts) is no measurement. */
const requireProven = ({ gamma }: TeamMdp, { aMax, dError, vError }: Evaluation): void => {
  if (!(dError < Infinity)) {
    throw new TheoryError('discount-range', 'gamma', `holds ${gamma}; so near 1 that rows which sum to 1 within 1e-9 prove nothing of the values`)
  }
  if (!(aMax < Infinity && vError < Infinity)) throw new TheoryError('not-finite', 'r', 'holds rewards so large that values overflow')
}

const measureStep = ({ mdp, order, policies, teams }: Stage, i: number): StepMeasure => {
  const [before, after] = [policies[i], policies[i + 1]]
  const { d, A, aMax, rho, J } = teams[i]
  const d0 = teams[0].d
  const dAfter = teams[i + 1].d
  const kl = klByState(mdp, before, after)
  const tv = tvByState(mdp, before, after)
  const agent = order[i]
  const f = expectedUnder(mdp, after, A)
  let rhoChanged = 0,
    dTok = 0,
    tvMean = 0,
    tvMax = 0,
    klMax = 0,
    shift = 0,
    cumulativeShift = 0
  let highest = -Infinity,
    lowest = Infinity,
    seq = 0,
    stale = 0
  for (let s = 0; s < mdp.states; s++) {
    if (tv[s] > 0) {
      rhoChanged += d[s]
      if (d[s] > 0) {
        dTok += d[s] * kl[s]
        tvMean += d[s] * tv[s]
      }
      if (tv[s] > tvMax) tvMax = tv[s]
      if (kl[s] > klMax) klMax = kl[s]
    }
    shift += Math.abs(dAfter[s] - d[s])
    cumulativeShift += Math.abs(d[s] - d0[s])
    if (f[s] > highest) highest = f[s]
    if (f[s] < lowest) lowest = f[s]
    seq += d[s] * f[s]
    stale += d0[s] * f[s]
  }
  const horizon = 1 - mdp.gamma
  return {
    agent,
    rho: rho[agent],
    rhoChanged,
    dTok,
    dTokMessage: rho[agent] > 0 ? dTok / rho[agent] : null,
    tvMean,
    tvMax,
    klMax,
    shift,
    cumulativeShift,
    aMax,
    advantageLow: lowest,
    advantageHigh: highest,
    advantageRange: Math.max(highest, -lowest),
    advantageSpan: highest - lowest,
    improvement: teams[i + 1].J - J,
    lSeq: seq / horizon,
    lStale: stale / horizon,
  }
}

const measureEstimate = ({ mdp, order, policies, teams }: Stage, i: number, estimate: Float64Array): EstimateMeasure => {
  const { d, A } = teams[i]
  const d0 = teams[0].d
  const after = policies[i + 1]
  const agent = order[i]
  const fHat = expectedUnder(mdp, after, estimate)
  const f = expectedUnder(mdp, after, A)
  let aHatMax = 0,
    aHatRange = 0,
    seq = 0,
    stale = 0,
    error = 0,
    errorStale = 0,
    seqOwn = 0,
    staleOwn = 0,
    errorOwn = 0
  for (let k = 0; k < estimate.length; k++) if (Math.abs(estimate[k]) > aHatMax) aHatMax = Math.abs(estimate[k])
  for (let s = 0; s < mdp.states; s++) {
    if (Math.abs(fHat[s]) > aHatRange) aHatRange = Math.abs(fHat[s])
    seq += d[s] * fHat[s]
    stale += d0[s] * fHat[s]
    error += d[s] * (fHat[s] - f[s])
    errorStale += d0[s] * (fHat[s] - f[s])
    if (mdp.activeAgent[s] !== agent) continue
    seqOwn += d[s] * fHat[s]
    staleOwn += d0[s] * fHat[s]
    errorOwn += d[s] * (fHat[s] - f[s])
  }
  const horizon = 1 - mdp.gamma
  return {
    lSeq: seq / horizon,
    lStale: stale / horizon,
    zeta: Math.abs(error),
    zetaStale: Math.abs(errorStale),
    aHatMax,
    aHatRange,
    lSeqOwn: seqOwn / horizon,
    lStaleOwn: staleOwn / horizon,
    zetaOwn: Math.abs(errorOwn),
  }
}

/** One update beside the team π̂^b whose rollouts it learned from, one of π̂⁰ … π̂^{i−1}. (What a step is beside π̂⁰: `StepMeasure`.) */
export interface BehaviourMeasure {
  /** ‖d^i − d^b‖₁: from the occupancy that the update learned on to the one that its team acts under */
  shift: number
  /** (1−γ)^-1 Σ_s d^b(s) Σ_a (π̂^i − π̂^{i−1})(a|s) A^b(s, a): what the update is worth by the rollouts that it learned from */
  surrogate: number
  /** surrogate − L_i^seq; 0 where b = i − 1. (L_i^stale weighs with A^{π̂^{i−1}}, a rollout of π̂^b with A^b.) */
  gap: number
}

/**
 * Every step of a stage beside the team that it learned from.
 * @param behaviour b of each step, in 0 … i − 1 for step i = 1 … n: i − 1 on fresh rollouts, 0 on those of the start of the stage
 * @throws TheoryError `size` unless there is a b for each step; `order` where it is no team before the step
 */
export const measureBehaviour = ({ mdp, order, policies, teams }: Stage, behaviour: readonly number[]): BehaviourMeasure[] => {
  if (behaviour.length !== order.length) throw new TheoryError('size', 'behaviour', `has ${behaviour.length} entries; ${order.length} are needed`)
  return behaviour.map((b, i) => {
    if (!(Number.isInteger(b) && b >= 0 && b <= i)) throw new TheoryError('order', `behaviour[${i}]`, `holds ${b}; a whole number, 0 to ${i}`)
    const change = policies[i + 1].map((p, k) => p - policies[i][k])
    const weigh = ({ d, A }: Evaluation): number => {
      const f = expectedUnder(mdp, change, A)
      return d.reduce((sum, x, s) => sum + x * f[s], 0) / (1 - mdp.gamma)
    }
    const [from, to] = [teams[b].d, teams[i + 1].d]
    const surrogate = weigh(teams[b])
    return { shift: to.reduce((sum, x, s) => sum + Math.abs(x - from[s]), 0), surrogate, gap: b === i ? 0 : surrogate - weigh(teams[i]) }
  })
}

/** f(s) = E_{a~policy} values(s, a), over states; `values` over pairs. */
export const expectedUnder = (mdp: TeamMdp, policy: TeamPolicy, values: Float64Array): Float64Array => {
  const { states, actionStart } = mdp
  const f = new Float64Array(states)
  for (let s = 0; s < states; s++) {
    let sum = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) sum += policy[k] * values[k]
    f[s] = sum
  }
  return f
}
