import { type TeamMdp, type TeamPolicy } from './mdp.js'

/** What a team's occupancy moves from state to state: Σ_a d(s) π(a|s) P(s'|s,a). */
export interface Flow {
  readonly from: number
  readonly to: number
  /** > 0; all flows sum to 1 */
  readonly flow: number
}

/** The flows of a team, one entry a pair of states that the team goes between, ascending by `from`, then by `to`. */
export const transitionFlows = (mdp: TeamMdp, policy: TeamPolicy, d: Float64Array): Flow[] => {
  const { states, actionStart, rowStart, next, prob } = mdp
  const flows: Flow[] = []
  for (let from = 0; from < states; from++) {
    const onward = new Map<number, number>()
    for (let k = actionStart[from]; k < actionStart[from + 1]; k++) {
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) onward.set(next[e], (onward.get(next[e]) ?? 0) + d[from] * policy[k] * prob[e])
    }
    for (const [to, flow] of [...onward].sort(([a], [b]) => a - b)) if (flow > 0) flows.push({ from, to, flow })
  }
  return flows
}

/** The row of state s as an array of its own. */
export const rowOf = (mdp: TeamMdp, policy: TeamPolicy, s: number): Float64Array => policy.slice(mdp.actionStart[s], mdp.actionStart[s + 1])
