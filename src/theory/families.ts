import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { pairs, teamMdp, teamPolicy, type TeamMdp, type TeamPolicy } from './mdp.js'

/**
 * Families of team MDPs, sized by parameters. The same `Random` state gives the same MDP. Everything is written straight into typed
 * arrays, so that a million states fit.
 */

export interface RingSize {
  /** n; the turn after agent j's is agent (j+1 mod n)'s */
  readonly agents: number
  /** context levels per turn; states = agents · levels, state = turn · levels + level */
  readonly levels: number
  /** actions in every state */
  readonly actions: number
  readonly gamma: number
  /** an action moves the level by at most this much; default 1 */
  readonly reach?: number
  /** μ: uniform over `all` states (then ρ_j is near 1/n), over the levels of the `first` turn, or `random` over those; default `all` */
  readonly start?: 'all' | 'first' | 'random'
}

/** Fixed rotation: agent t acts in turn t on one of `levels` contexts and moves to a near level of the next turn. Rewards uniform on [0, 1). */
export const ring = (size: RingSize, random: Random): TeamMdp => {
  const { agents, levels, actions, gamma, reach = 1, start = 'all' } = size
  requirePositive({ agents, levels, actions })
  const states = agents * levels
  const rows = emptyRows(states, actions, (s) => {
    const level = s % levels
    return Math.min(levels - 1, level + reach) - Math.max(0, level - reach) + 1
  })
  for (let s = 0; s < states; s++) {
    const turn = Math.floor(s / levels)
    const low = ((turn + 1) % agents) * levels + Math.max(0, (s % levels) - reach)
    for (let k = s * actions; k < (s + 1) * actions; k++) {
      for (let e = rows.rowStart[k], to = low; e < rows.rowStart[k + 1]; e++, to++) rows.next[e] = to
    }
  }
  fillRows(rows.prob, rows.rowStart, random)
  const mu = new Float64Array(states)
  if (start === 'all') mu.fill(1 / states)
  else if (start === 'first') mu.fill(1 / levels, 0, levels)
  else fillDistribution(mu, 0, levels, random)
  return teamMdp({
    n: agents, gamma, states, mu, ...rows,
    activeAgent: Int32Array.from({ length: states }, (_, s) => Math.floor(s / levels)),
    reward: Float64Array.from({ length: states * actions }, () => random.next()),
  })
}

export interface RoutedSize {
  readonly agents: number
  readonly states: number
  /** actions in every state, or [least, most], drawn per state */
  readonly actions: number | readonly [number, number]
  /** distinct successors of every (s, a) */
  readonly successors: number
  readonly gamma: number
  /** μ: `uniform`, or `random` on a few states (then others may stay unvisited); default `uniform` */
  readonly start?: 'uniform' | 'random'
}

/** Any agent may be active in any state and any state may follow: a router. Sparse random rows, rewards standard normal. */
export const routed = (size: RoutedSize, random: Random): TeamMdp => {
  const { agents, states, successors, gamma, start = 'uniform' } = size
  const [least, most] = typeof size.actions === 'number' ? [size.actions, size.actions] : size.actions
  requirePositive({ agents, states, successors, actions: least })
  if (most < least) throw new InputError(`actions: holds [${least}, ${most}]; [least, most]`)
  const width = Math.min(successors, states)
  const actionStart = new Int32Array(states + 1)
  for (let s = 0; s < states; s++) actionStart[s + 1] = actionStart[s] + least + random.int(most - least + 1)
  const count = actionStart[states]
  const rowStart = new Int32Array(count + 1)
  for (let k = 0; k < count; k++) rowStart[k + 1] = rowStart[k] + width
  const next = new Int32Array(count * width)
  for (let k = 0; k < count; k++) distinct(next, k * width, width, states, random)
  const prob = new Float64Array(next.length)
  fillRows(prob, rowStart, random)
  const mu = new Float64Array(states)
  if (start === 'uniform') mu.fill(1 / states)
  else fillDistribution(mu, 0, Math.min(states, 2), random)
  return teamMdp({
    n: agents, gamma, states, mu, actionStart, rowStart, next, prob,
    activeAgent: Int32Array.from({ length: states }, () => random.int(agents)),
    reward: Float64Array.from({ length: count }, () => random.normal()),
  })
}

export interface TreeSize {
  readonly agents: number
  /** messages an agent can choose from; every inner context has that many continuations */
  readonly actions: number
  /** messages until the end, ≥ 1 */
  readonly depth: number
  readonly gamma: number
  /** who acts: agent (depth of the context mod n), or drawn per context; default `rotation` */
  readonly router?: 'rotation' | 'random'
}

/**
 * A shared context that only grows: state = the messages so far, an action appends one, and after `depth` messages comes an absorbing
 * end (the last state, agent 0's). Only the last message is rewarded: 0 or 1, drawn per message. The start is the empty context.
 */
export const tree = (size: TreeSize, random: Random): TeamMdp => {
  const { agents, actions, depth, gamma, router = 'rotation' } = size
  requirePositive({ agents, actions, depth })
  let inner = 0
  for (let level = 0, width = 1; level < depth; level++, width *= actions) inner += width
  const states = inner + actions ** depth + 1
  if (states * actions > 2 ** 28) throw new InputError(`depth: ${actions}^${depth} contexts; at most ${2 ** 28} pairs`)
  const end = states - 1
  const count = states * actions
  const next = new Int32Array(count)
  for (let k = 0; k < count; k++) next[k] = k < inner * actions ? k + 1 : end
  const activeAgent = new Int32Array(states)
  for (let s = 0, level = 0, last = 0; s < end; s++) {
    if (s > last) last += actions ** ++level
    activeAgent[s] = router === 'rotation' ? level % agents : random.int(agents)
  }
  const reward = new Float64Array(count)
  for (let k = inner * actions; k < end * actions; k++) reward[k] = random.int(2)
  const mu = new Float64Array(states)
  mu[0] = 1
  return teamMdp({
    n: agents, gamma, states, mu, activeAgent,
    actionStart: Int32Array.from({ length: states + 1 }, (_, s) => s * actions),
    rowStart: Int32Array.from({ length: count + 1 }, (_, k) => k),
    next, prob: new Float64Array(count).fill(1), reward,
  })
}

/**
 * A random policy: rows uniform on the simplex, raised to `sharpness` (0 is the uniform policy, 1 the default, large is nearly deterministic).
 */
export const randomPolicy = (mdp: TeamMdp, random: Random, sharpness = 1): TeamPolicy => {
  const policy = new Float64Array(pairs(mdp))
  fillRows(policy, mdp.actionStart, random, sharpness)
  return teamPolicy(mdp, policy)
}

const emptyRows = (states: number, actions: number, width: (s: number) => number) => {
  const actionStart = new Int32Array(states + 1)
  const rowStart = new Int32Array(states * actions + 1)
  for (let s = 0; s < states; s++) {
    actionStart[s + 1] = actionStart[s] + actions
    for (let k = s * actions; k < (s + 1) * actions; k++) rowStart[k + 1] = rowStart[k] + width(s)
  }
  const entries = rowStart[states * actions]
  return { actionStart, rowStart, next: new Int32Array(entries), prob: new Float64Array(entries) }
}

const fillRows = (prob: Float64Array, rowStart: Int32Array, random: Random, sharpness = 1): void => {
  for (let k = 0; k + 1 < rowStart.length; k++) fillDistribution(prob, rowStart[k], rowStart[k + 1], random, sharpness)
}

/** Uniform on the simplex: exponentials, normalised. */
const fillDistribution = (out: Float64Array, from: number, to: number, random: Random, sharpness = 1): void => {
  let sum = 0
  for (let e = from; e < to; e++) {
    const x = -Math.log(1 - random.next())
    out[e] = sharpness === 1 ? x : x ** sharpness
    sum += out[e]
  }
  if (!(sum > 0)) return void out.fill(1 / (to - from), from, to)
  for (let e = from; e < to; e++) out[e] /= sum
}

/** `width` different states into next[at …]. */
const distinct = (next: Int32Array, at: number, width: number, states: number, random: Random): void => {
  if (width === states) {
    for (let s = 0; s < states; s++) next[at + s] = s
    return
  }
  // Floyd: the i-th draw is from one more state; a repeat is replaced by the newest state, which cannot be there yet
  for (let i = 0; i < width; i++) {
    const newest = states - width + i
    let s = random.int(newest + 1)
    for (let e = at; e < at + i; e++) if (next[e] === s) s = newest
    next[at + i] = s
  }
}

const requirePositive = (sizes: Record<string, number>): void => {
  for (const [name, value] of Object.entries(sizes)) {
    if (!Number.isInteger(value) || value < 1) throw new InputError(`${name}: holds ${value}; a whole number, at least 1`)
  }
}
