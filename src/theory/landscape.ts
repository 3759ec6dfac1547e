import { kl } from './divergence.js'
import { values } from './evaluate.js'
import { teamMdp, type TeamMdp, type TeamPolicy } from './mdp.js'
import { runStage, type StageEvaluation, type UpdateRule } from './stage.js'

/**
 * The smallest team with a landscape: two agents that take turns, two messages each, and one parameter per agent, the log-odds θ_j of its
 * message 1, whatever the context. So a team is a point of the plane, J a surface over it, and a run of stages a path.
 *
 * State 2j + m: agent j's turn after the other one said m. Every message is rewarded together with the one before it: payoff[a][b], a agent
 * 0's and b agent 1's of the two. Agent 0 begins; what it then follows is drawn evenly.
 */
export const twoAgentGame = ({ payoff, gamma }: { readonly payoff: readonly (readonly number[])[]; readonly gamma: number }): TeamMdp =>
  teamMdp({
    n: 2,
    gamma,
    states: 4,
    mu: Float64Array.of(0.5, 0.5, 0, 0),
    activeAgent: Int32Array.of(0, 0, 1, 1),
    actionStart: Int32Array.of(0, 2, 4, 6, 8),
    rowStart: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8),
    next: Int32Array.of(2, 3, 2, 3, 0, 1, 0, 1),
    prob: new Float64Array(8).fill(1),
    reward: Float64Array.from({ length: 8 }, (_, k) => {
      const [said, says] = [(k >> 1) & 1, k & 1]
      return k < 4 ? payoff[says][said] : payoff[said][says]
    }),
  })

/** A point of the landscape. */
export interface Logits {
  readonly theta0: number
  readonly theta1: number
}

/** The policies of a point: σ(θ_j) for message 1 in both of agent j's states. */
export const policyAt = ({ theta0, theta1 }: Logits): TeamPolicy =>
  Float64Array.from({ length: 8 }, (_, k) => sigmoid((k & 1 ? 1 : -1) * (k < 4 ? theta0 : theta1)))

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x))

/** Logits stay inside ±LARGEST_LOGIT. */
export const LARGEST_LOGIT = 4

/**
 * The update of one parameter: up the surrogate E_{s~d, a~π'} A(s,a), which is monotone in θ_j, until D_tok^d = δ or the logit is at its limit.
 * What d and A are is the stage's choice.
 */
export const parameterStep = (delta: number): UpdateRule => ({ mdp, policy, agent, d, A }) => {
  let slope = 0
  let mass = 0
  for (let s = 2 * agent; s < 2 * agent + 2; s++) {
    mass += d[s]
    slope += d[s] * (A[mdp.actionStart[s] + 1] - A[mdp.actionStart[s]])
  }
  const before = policy[mdp.actionStart[2 * agent] + 1]
  const theta = Math.log(before / (1 - before))
  const distance = (to: number): number => mass * kl([1 - before, before], [sigmoid(-to), sigmoid(to)])
  const limit = slope === 0 ? theta : Math.sign(slope) * LARGEST_LOGIT
  const to = distance(limit) <= delta ? limit : bisect((x) => distance(x) - delta, theta, limit)
  const row = [sigmoid(-to), sigmoid(to)]
  return policy.map((p, k) => (k >> 2 === agent ? row[k & 1] : p))
}

/** Where f, negative at `inside` and positive at `outside`, changes its sign. */
const bisect = (f: (x: number) => number, inside: number, outside: number): number => {
  for (let k = 0; k < 60; k++) {
    const middle = (inside + outside) / 2
    if (f(middle) <= 0) inside = middle
    else outside = middle
  }
  return inside
}

/** A point of a path: its number in updates (two a stage) and its return. */
export interface PathPoint extends Logits {
  readonly update: number
  readonly J: number
}

/** The path of `stages` stages from a point: agent 0, then agent 1, each by at most δ under the occupancy that the evaluation looks at. */
export const pathOf = (mdp: TeamMdp, start: Logits, { evaluation, delta, stages }: {
  readonly evaluation: StageEvaluation
  readonly delta: number
  readonly stages: number
}): PathPoint[] => {
  const logit = (policy: TeamPolicy, pair: number): number => Math.log(policy[pair + 1] / policy[pair])
  const point = (policy: TeamPolicy, update: number, J: number): PathPoint => ({ update, theta0: logit(policy, 0), theta1: logit(policy, 4), J })
  let policy = policyAt(start)
  const path = [point(policy, 0, values(mdp, policy).J)]
  for (let k = 0; k < stages; k++) {
    const stage = runStage(mdp, policy, { order: [0, 1], update: parameterStep(delta), evaluation })
    for (const i of [1, 2]) path.push(point(stage.policies[i], 2 * k + i, stage.teams[i].J))
    policy = stage.policies[2]
  }
  return path
}

/** J on a square grid of `size` × `size` points over ±LARGEST_LOGIT or less. */
export const landscapeGrid = (mdp: TeamMdp, size: number, largest = LARGEST_LOGIT): (Logits & { readonly J: number })[] => {
  const axis = Array.from({ length: size }, (_, k) => largest * (-1 + (2 * k) / (size - 1)))
  return axis.flatMap((theta0) => axis.map((theta1) => ({ theta0, theta1, J: values(mdp, policyAt({ theta0, theta1 })).J })))
}

/** What became of many starts. */
export interface Outcomes {
  /** Share of the starts whose return is within 5 % of the largest on the landscape at the end. */
  readonly arrived: number
  /** Share of all stages that lowered J. */
  readonly worse: number
  /** Mean J at the end. */
  readonly J: number
  readonly starts: number
}

/** Paths from every point of a grid of `size` × `size` starts within ±`within`. Settings as in {@link pathOf}. */
export const outcomes = (mdp: TeamMdp, { evaluation, delta, stages, size, within }: {
  readonly evaluation: StageEvaluation
  readonly delta: number
  readonly stages: number
  readonly size: number
  readonly within: number
}): Outcomes => {
  const best = Math.max(...landscapeGrid(mdp, 3).map(({ J }) => J))
  const paths = landscapeGrid(mdp, size, within).map((start) => pathOf(mdp, start, { evaluation, delta, stages }))
  const ends = paths.map((path) => path[path.length - 1].J)
  const worse = paths.reduce((count, path) => count + path.filter(({ J, update }) => update > 0 && update % 2 === 0 && J < path[update - 2].J - 1e-9).length, 0)
  return {
    arrived: ends.filter((J) => J >= 0.95 * best).length / paths.length,
    worse: worse / (paths.length * stages),
    J: ends.reduce((sum, J) => sum + J, 0) / paths.length,
    starts: paths.length,
  }
}
