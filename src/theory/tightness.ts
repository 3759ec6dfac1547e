import { formulas } from './formulas.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'
import { stageBounds, type StageBounds } from './stage-bounds.js'
import { measureStage, runStage } from './stage.js'
import { tiltToRadius } from './update.js'

/** The certificates that share Theorem 3.6's surrogate and differ in their penalty alone. */
export const COMPARED = [
  'thm36', 'activeMass', 'tv', 'maxKl', 'rangePinsker', 'rangeActiveMass', 'rangeTv', 'halfSpanTv',
] as const satisfies readonly (keyof StageBounds)[]

/** The penalty of one certificate on one stage. */
export interface PenaltyShare {
  /** δ, the occupancy radius of every step */
  readonly delta: number
  readonly id: (typeof COMPARED)[number]
  readonly statement: string
  readonly penalty: number
  /** of Theorem 3.6's penalty */
  readonly share: number
}

/**
 * How large the penalties of a stage are beside Theorem 3.6's, from radius to radius: one stage of tilts along the exact advantage, every
 * radius used up, for each δ.
 */
export const penaltyShares = (mdp: TeamMdp, policy: TeamPolicy, { order, radii }:
  { readonly order: readonly number[]; readonly radii: readonly number[] }): PenaltyShare[] =>
  radii.flatMap((delta) => {
    const measure = measureStage(runStage(mdp, policy, { order, update: (input) => tiltToRadius(input, delta).policy }))
    const bounds = stageBounds(measure, { gamma: mdp.gamma, radii: order.map(() => delta), kind: 'exact' })
    return COMPARED.map((id) => {
      const { penalty } = bounds[id]
      return { delta, id, statement: formulas[id].statement, penalty, share: penalty / bounds.thm36.penalty }
    })
  })
