import type { Random } from '../util/random.js'
import { penaltyConstant } from './bounds.js'
import { activeMassShift, pinskerShift, tvShift } from './certificates.js'
import { replaceAgent, teamMdp, type TeamMdp, type TeamPolicy } from './mdp.js'
import { measureStage, stageOfPolicies, type StageMeasure } from './stage.js'
import { staleOwnStatesBound } from './stale-own-states.js'

/**
 * How much of a bound can be lost: a search for the MDP and the stage that bring (actual loss)/(penalty) of a statement as near to 1 as
 * it gets. The loss is what the surrogates promised and the team did not gain, Σ L_i − (J(π̄) − J(π_cur)); a statement says that its
 * penalty is at least that.
 *
 * The result is a lower bound on the supremum: what one search reached. Random restarts, then local moves that are kept when they do not
 * make the ratio worse.
 */
export type WorstCaseStatement = 'thm34' | 'activeMass' | 'tv' | 'halfSpanTv' | 'thm36' | 'thm37Exact' | 'thm37Paper' | 'staleOwnStates'

/** What each statement is, and which stages it is searched on. */
export const WORST_CASE_STATEMENTS: Readonly<
  Record<WorstCaseStatement, { readonly label: string; readonly stale: boolean; readonly steps: 'first' | 'all' }>
> = {
  thm34: { label: 'Theorem 3.4 (Pinsker, A_max)', stale: false, steps: 'first' },
  activeMass: { label: 'active mass (one update)', stale: false, steps: 'first' },
  tv: { label: 'total variation (one update)', stale: false, steps: 'first' },
  halfSpanTv: { label: 'total variation, half-span (one update)', stale: false, steps: 'first' },
  thm36: { label: 'Theorem 3.6 (one stage)', stale: false, steps: 'all' },
  thm37Exact: { label: 'Theorem 3.7, exact sum', stale: true, steps: 'all' },
  thm37Paper: { label: 'Theorem 3.7, n·Σ√δ', stale: true, steps: 'all' },
  staleOwnStates: { label: 'stale, own states (ours)', stale: true, steps: 'all' },
}

/** A small team and one stage of it, as the coordinates that the search moves: two actions per state, each with one successor. */
export interface Instance {
  readonly gamma: number
  readonly agents: number
  /** j(s). */
  readonly activeAgent: Int32Array
  /** Successor of (s, a) at 2s + a. */
  readonly next: Int32Array
  /** r(s, a) at 2s + a, in [−1, 1]. */
  readonly reward: Float64Array
  /** Unnormalised log μ(s). */
  readonly start: Float64Array
  /** Log-odds of action 0 before and after its agent's update. */
  readonly before: Float64Array
  readonly after: Float64Array
}

export interface WorstCase {
  readonly statement: WorstCaseStatement
  /** The largest loss/penalty found, at most 1 (but for rounding). */
  readonly ratio: number
  readonly instance: Instance
  readonly evaluations: number
}

export interface WorstCaseSetup {
  readonly statement: WorstCaseStatement
  readonly gamma: number
  /** n; a statement about one update needs none but the first to move. */
  readonly agents: number
  readonly states: number
  /** Stages tried, over all restarts. */
  readonly evaluations: number
  /** Random starts, ≥ 1. Every start gets an equal share of the first half of the evaluations; the best of them all of the second. */
  readonly restarts: number
  /** Starts beside the random ones, for example what was found at another γ (which is replaced). */
  readonly from?: readonly Instance[]
}

/** Search the worst case of one statement. The same random state gives the same result. */
export const searchWorstCase = (setup: WorstCaseSetup, random: Random): WorstCase => {
  const { statement, gamma, evaluations, restarts, from = [] } = setup
  const score = (instance: Instance): number => lossOverPenalty(statement, instance)
  const starts = [
    ...from.map((instance) => ({ ...instance, gamma })),
    ...Array.from({ length: restarts }, () => randomInstance(setup, random)),
  ]
  const share = Math.floor(evaluations / 2 / starts.length)
  const best = starts
    .map((instance) => climb({ instance, ratio: score(instance) }, score, share, random))
    .reduce((a, b) => (b.ratio > a.ratio ? b : a))
  return { statement, ...climb(best, score, evaluations - share * starts.length, random), evaluations }
}

interface Scored {
  readonly instance: Instance
  readonly ratio: number
}

const climb = (from: Scored, score: (instance: Instance) => number, evaluations: number, random: Random): Scored => {
  let best = from
  for (let k = 0; k < evaluations; k++) {
    const instance = neighbour(best.instance, random)
    const ratio = score(instance)
    if (ratio >= best.ratio) best = { instance, ratio }
  }
  return best
}

/**
 * One to three coordinates moved: a discrete one drawn again, a continuous one drawn again or moved by a normal step of any scale from
 * 1e-4 to 1.
 */
const neighbour = (instance: Instance, random: Random): Instance => {
  const moved = {
    ...instance,
    activeAgent: instance.activeAgent.slice(),
    next: instance.next.slice(),
    reward: instance.reward.slice(),
    start: instance.start.slice(),
    before: instance.before.slice(),
    after: instance.after.slice(),
  }
  const states = moved.activeAgent.length
  const step = (): number => 10 ** (-4 * random.next()) * random.normal()
  for (let k = random.int(3); k >= 0; k--) {
    const s = random.int(states)
    const pair = 2 * s + random.int(2)
    switch (random.int(7)) {
      case 0:
        moved.next[pair] = random.int(states)
        break
      case 1:
        moved.activeAgent[s] = random.int(moved.agents)
        break
      case 2:
        moved.reward[pair] = random.next() < 0.3 ? random.int(3) - 1 : Math.min(Math.max(moved.reward[pair] + step(), -1), 1)
        break
      case 3:
        moved.start[s] = random.next() < 0.2 ? 30 * (random.next() - 1) : moved.start[s] + 5 * step()
        break
      case 4:
        moved.before[s] = random.next() < 0.1 ? logOdds(random) : moved.before[s] + 3 * step()
        break
      case 5:
        moved.after[s] = random.next() < 0.1 ? logOdds(random) : moved.after[s] + 3 * step()
        break
      case 6: {
        // a small update of a row: both log-odds together
        const at = moved.before[s] + 3 * step()
        moved.after[s] = at + moved.after[s] - moved.before[s]
        moved.before[s] = at
      }
    }
  }
  return moved
}

const randomInstance = ({ gamma, agents, states }: WorstCaseSetup, random: Random): Instance => ({
  gamma,
  agents,
  activeAgent: Int32Array.from({ length: states }, (_, s) => (s < agents ? s : random.int(agents))),
  next: Int32Array.from({ length: 2 * states }, () => random.int(states)),
  reward: Float64Array.from({ length: 2 * states }, () => 2 * random.next() - 1),
  start: Float64Array.from({ length: states }, (_, s) => (s === 0 ? 0 : -10 * random.next())),
  before: Float64Array.from({ length: states }, () => logOdds(random)),
  after: Float64Array.from({ length: states }, () => logOdds(random)),
})

const logOdds = (random: Random): number => 4 * random.normal()

/** The MDP and the policies π̂⁰ … π̂ⁿ of an instance; agents move in their order. */
export const stageOfInstance = (instance: Instance): { readonly mdp: TeamMdp; readonly policies: readonly TeamPolicy[] } => {
  const { gamma, agents, activeAgent, next, reward, start } = instance
  const states = activeAgent.length
  const top = start.reduce((a, b) => Math.max(a, b), -Infinity)
  const weights = start.map((x) => Math.exp(x - top))
  const total = weights.reduce((a, b) => a + b, 0)
  const mdp = teamMdp({
    n: agents,
    gamma,
    states,
    mu: weights.map((w) => w / total),
    activeAgent,
    next,
    reward,
    actionStart: Int32Array.from({ length: states + 1 }, (_, s) => 2 * s),
    rowStart: Int32Array.from({ length: 2 * states + 1 }, (_, k) => k),
    prob: new Float64Array(2 * states).fill(1),
  })
  const rows = (odds: Float64Array): TeamPolicy =>
    Float64Array.from({ length: 2 * states }, (_, k) => 1 / (1 + Math.exp(k % 2 ? odds[k >> 1] : -odds[k >> 1])))
  const target = rows(instance.after)
  const policies = [rows(instance.before)]
  for (let agent = 0; agent < agents; agent++) policies.push(replaceAgent(mdp, policies[agent], agent, target))
  return { mdp, policies }
}

/** Below this share of A_max/(1−γ)² a penalty is too near the rounding of the loss for their quotient to mean anything. */
const SMALLEST_PENALTY = 1e-6

/** (Σ L_i − improvement)/penalty of one statement on one instance; −∞ where the penalty is (nearly) 0, 0 where it is infinite. */
export const lossOverPenalty = (statement: WorstCaseStatement, instance: Instance): number => {
  const { mdp, policies } = stageOfInstance(instance)
  const { gamma } = mdp
  const { stale, steps: which } = WORST_CASE_STATEMENTS[statement]
  // agents after the first keep their rows when one update alone is looked at
  const teams = which === 'first' ? policies.map((policy, i) => (i < 2 ? policy : policies[1])) : policies
  const measure = measureStage(
    stageOfPolicies(
      mdp,
      teams,
      teams.slice(1).map((_, i) => i),
    ),
  )
  const promised = measure.steps.reduce((sum, step) => sum + (stale ? step.lStale : step.lSeq), 0)
  const penalty = penaltyOf(statement, measure, gamma)
  if (!(penalty > (SMALLEST_PENALTY * measure.aMax) / (1 - gamma) ** 2)) return -Infinity
  return (promised - measure.improvement) / penalty
}

const penaltyOf = (statement: WorstCaseStatement, { steps, aMax: stageMax }: StageMeasure, gamma: number): number => {
  const [first] = steps
  const c = penaltyConstant({ gamma, aMax: stageMax })
  switch (statement) {
    case 'thm34':
      return penaltyConstant({ gamma, aMax: first.aMax }) * Math.sqrt(first.dTok)
    case 'activeMass':
      return (activeMassShift({ gamma, rho: first.rho, radius: first.dTok }) * first.aMax) / (1 - gamma)
    case 'tv':
      return (tvShift({ gamma, tvMean: first.tvMean }) * first.aMax) / (1 - gamma)
    case 'halfSpanTv':
      return (tvShift({ gamma, tvMean: first.tvMean }) * first.advantageSpan) / 2 / (1 - gamma)
    case 'thm36':
      return steps.reduce((sum, step) => sum + c * Math.sqrt(step.dTok), 0)
    case 'thm37Exact':
      return steps.reduce((sum, step, i) => sum + c * (steps.length - i) * Math.sqrt(step.dTok), 0)
    case 'thm37Paper':
      return steps.reduce((sum, step) => sum + c * steps.length * Math.sqrt(step.dTok), 0)
    case 'staleOwnStates':
      return staleOwnStatesBound({
        gamma,
        steps: steps.map((step) => ({ surrogate: 0, shift: pinskerShift({ gamma, radius: step.dTok }), low: -stageMax, high: stageMax })),
      }).penalty
  }
}
