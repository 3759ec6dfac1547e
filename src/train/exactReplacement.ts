/** A swap of one agent, exactly: returns, divergences and occupancies without sampling; and what Propositions 3.8 and 3.9 say of the stages around it. */
import { against, replacementBound, tightening, type Evidence } from '../theory/bounds.js'
import type { ContextSpace } from './contextSpace.js'
import type { ExactStage } from './exactStage.js'
import { evaluate } from '../theory/evaluate.js'
import { exactReturn, readings, tokenKl, type ExactTeam } from './exactTeam.js'
import type { Divergence } from './measure.js'

export interface ExactSwapped {
  readonly J: number
  /** E Σ r_t. */
  readonly reward: number
  /** KL(new‖old) of the new agent's messages under the occupancy of the team as it was, by reading. */
  readonly kl: Divergence
  /** ‖d' − d‖₁. */
  readonly shift: number
}

export interface ExactReplacement {
  /** States of the MDP. */
  readonly states: number
  readonly before: { readonly J: number; readonly reward: number }
  readonly direct: ExactSwapped
  readonly aligned: ExactSwapped | null
}

/** @param agent in whose place the teams differ */
export const exactReplacement = (space: ContextSpace, agent: number, before: ExactTeam, direct: ExactTeam, aligned?: ExactTeam): ExactReplacement => {
  const old = evaluate(space.mdp, before.policy)
  const { J, reward } = exactReturn(space, before, old)
  const swapped = (team: ExactTeam): ExactSwapped => {
    const now = evaluate(space.mdp, team.policy)
    const { J, reward } = exactReturn(space, team, now)
    return {
      J,
      reward,
      kl: readings(space, agent, tokenKl(space, team, before), old.d),
      shift: now.d.reduce((sum, x, s) => sum + Math.abs(x - old.d[s]), 0),
    }
  }
  return { states: space.mdp.states, before: { J, reward }, direct: swapped(direct), aligned: aligned ? swapped(aligned) : null }
}

const rounding = 1e-9

/**
 * Proposition 3.8 on a stage of the new team: its return at the end, J(π̄), beside J of the team that the stage began with plus Theorem 3.6 with the new
 * team's own A_max, occupancies and radii (D_tok of whole messages).
 */
export const exactReplacementBound = ({ measure, returns, steps }: ExactStage, gamma: number): Evidence & { readonly alignedReturn: number } => {
  const alignedReturn = returns[0].J
  const bound = replacementBound({
    gamma, alignedReturn, aMax: measure.aMax, steps: steps.map(({ lSeq, divergence }) => ({ surrogate: lSeq, radius: divergence.occupancy })),
  })
  return { ...against(bound, returns[returns.length - 1].J, rounding), alignedReturn }
}

/** Proposition 3.9: what became of Theorem 3.6's bound from one stage to another, by cause. */
export const exactTightening = (before: ExactStage, after: ExactStage): ReturnType<typeof tightening> =>
  tightening(before.tokens.stage.thm36, after.tokens.stage.thm36)
