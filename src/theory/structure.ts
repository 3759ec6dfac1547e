import { planElimination, type EliminationPlan } from './elimination.js'
import type { TeamMdp } from './mdp.js'

/** What the transitions of an MDP allow, the same for every policy on it: found once, then remembered as long as the MDP lives. */
export interface Structure {
  /** states in topological order (self-loops aside); undefined when contexts can return */
  readonly topological: Int32Array | undefined
  /** an order of elimination; undefined when it would cost more than iterating does, and where it is not needed */
  readonly plan: EliminationPlan | undefined
  /** most entries that one state sends */
  readonly fanOut: number
  /** most entries that one state receives */
  readonly fanIn: number
}

/** Above this many states, no elimination is planned: the plan's sets of states take states²/4 bytes. */
const MOST_ELIMINATED = 4096

/** A factorisation may cost as much as this many sweeps, or ELIMINATION_FLOOR multiplications (about a millisecond). */
const SWEEPS_PER_ELIMINATION = 20
const ELIMINATION_FLOOR = 400_000

const known = new WeakMap<TeamMdp, Structure>()

/** The structure of `mdp`: a pure function of it, cached. Cost: linear in the entries, plus the planning of an elimination when there are few states. */
export const structureOf = (mdp: TeamMdp): Structure => {
  const cached = known.get(mdp)
  if (cached) return cached
  const { states, actionStart, rowStart, next } = mdp
  const received = new Int32Array(states)
  const own = new Int32Array(states)
  let fanOut = 0
  for (let s = 0; s < states; s++) {
    const begin = rowStart[actionStart[s]]
    const end = rowStart[actionStart[s + 1]]
    for (let e = begin; e < end; e++) {
      received[next[e]]++
      if (next[e] === s) own[s]++
    }
    if (end - begin > fanOut) fanOut = end - begin
  }
  let fanIn = 0
  for (let s = 0; s < states; s++) if (received[s] > fanIn) fanIn = received[s]
  for (let s = 0; s < states; s++) received[s] -= own[s]
  const topological = topologicalOrder(mdp, received)
  const budget = Math.max(ELIMINATION_FLOOR, SWEEPS_PER_ELIMINATION * next.length)
  const plan = topological || states > MOST_ELIMINATED ? undefined : planElimination(mdp, budget)
  const structure = { topological, plan, fanOut, fanIn }
  known.set(mdp, structure)
  return structure
}

/** Kahn: take states that nothing unprocessed leads to. `waiting`: entries from other states; used up. */
const topologicalOrder = ({ states, actionStart, rowStart, next }: TeamMdp, waiting: Int32Array): Int32Array | undefined => {
  const order = new Int32Array(states)
  let ready = 0
  for (let s = 0; s < states; s++) if (waiting[s] === 0) order[ready++] = s
  for (let done = 0; done < ready; done++) {
    const s = order[done]
    for (let e = rowStart[actionStart[s]]; e < rowStart[actionStart[s + 1]]; e++) {
      const to = next[e]
      if (to !== s && --waiting[to] === 0) order[ready++] = to
    }
  }
  return ready === states ? order : undefined
}
