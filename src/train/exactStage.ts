/**
 * A stage of real updates, exactly: what its certificates, its drift and its stale surrogates are, without sampling. The teams π̂⁰ … π̂^n come from
 * wherever the updates were made (copies taken in a stage's `onUpdate`, or checkpoints); all quantities are those of src/theory.
 */
import { stageBounds, stepBounds, type StageBounds, type StepBounds } from '../theory/stage-bounds.js'
import { measureStage, stageOfPolicies, type Stage, type StageMeasure, type StepMeasure } from '../theory/stage.js'
import type { ContextSpace } from './contextSpace.js'
import { exactReturn, readings, tokenKl, withAgentOf, type ExactReturn, type ExactTeam } from './exactTeam.js'
import type { Divergence } from './measure.js'

/** One update. What it inherits is measured on effects (contextSpace.ts): ρ with the end state, dTok of the effects. */
export interface ExactStep extends StepMeasure {
  /** Active mass of the agent without the end state, what rollouts estimate. */
  readonly acting: number
  /** KL(before‖after) of the messages, token by token, by reading: what the trust region bounds. */
  readonly divergence: Divergence
}

/** All bounds for one choice of radii. */
export interface ExactCertificates {
  readonly stage: StageBounds
  readonly steps: readonly StepBounds[]
}

export interface ExactStage {
  readonly stage: Stage
  readonly measure: StageMeasure
  /** Of π̂⁰ … π̂^n. */
  readonly returns: readonly ExactReturn[]
  readonly steps: readonly ExactStep[]
  /** Δ_stale = Σ_i |L_i^seq − L_i^stale|. */
  readonly staleGap: number
  /**
   * Σ_i ‖d^{i−1} − d⁰‖₁: the drift that rollouts of the start of the stage do not see, whichever an update learned from. (What a run samples as
   * its D_occ is another sum: that of `BehaviourMeasure.shift`.)
   */
  readonly unseenDrift: number
  /** ‖d^n − d⁰‖₁ */
  readonly totalShift: number
  /** With δ_i = D_tok of the messages: the paper's certificates, at the smallest radii that are true. */
  readonly tokens: ExactCertificates
  /** With δ_i = D_tok of the effects: never larger radii, so never weaker bounds. */
  readonly effects: ExactCertificates
}

/**
 * @param teams π̂⁰ … π̂^n on one space; teams[i+1] differs from teams[i] in agent order[i] alone
 * @throws TheoryError `order` unless the order is a permutation, `size` unless there are n + 1 teams
 */
export const exactStage = (space: ContextSpace, teams: readonly ExactTeam[], order: readonly number[]): ExactStage => {
  const { mdp } = space
  const stage = stageOfPolicies(mdp, teams.map(({ policy }) => policy), order)
  const measure = measureStage(stage)
  const returns = teams.map((team, i) => exactReturn(space, team, stage.teams[i]))
  const steps = measure.steps.map((step, i): ExactStep => ({
    ...step,
    acting: returns[i].acting[step.agent],
    divergence: readings(space, step.agent, tokenKl(space, teams[i], teams[i + 1]), stage.teams[i].d),
  }))
  const certificates = (radii: readonly number[]): ExactCertificates => {
    const input = { gamma: mdp.gamma, radii, kind: 'exact' } as const
    return { stage: stageBounds(measure, input), steps: stepBounds(measure, input) }
  }
  const [first, last] = [stage.teams[0].d, stage.teams[stage.teams.length - 1].d]
  return {
    stage,
    measure,
    returns,
    steps,
    staleGap: steps.reduce((sum, { lSeq, lStale }) => sum + Math.abs(lSeq - lStale), 0),
    unseenDrift: steps.reduce((sum, { cumulativeShift }) => sum + cumulativeShift, 0),
    totalShift: last.reduce((sum, x, s) => sum + Math.abs(x - first[s]), 0),
    tokens: certificates(steps.map(({ divergence }) => divergence.occupancy)),
    effects: certificates(steps.map(({ dTok }) => dTok)),
  }
}

/**
 * The stage that leads from one team to another, each agent replaced once. Where every agent was updated once, in the given order, these are the very
 * teams that the updates went through; any other order is a valid stage too.
 *
 * @param agents in the order of their updates, any part of the team; those left out come last
 */
export const stageBetween = (space: ContextSpace, before: ExactTeam, after: ExactTeam, agents: readonly number[]): ExactStage & { readonly teams: readonly ExactTeam[] } => {
  const order = [...new Set([...agents, ...before.laws.keys()])]
  const teams = [before]
  for (const agent of order) teams.push(withAgentOf(space, teams[teams.length - 1], agent, after))
  return { ...exactStage(space, teams, order), teams }
}
