/**
 * Random stages for `teamtr verify`: every family, degenerate inputs, and adversarial ones that come near the bounds (a constant that is
 * half of what it should be has to be caught). Case k of seed s is the same on every machine and with any number of jobs.
 */
import { random as seeded, type Random } from '../util/random.js'
import { randomPolicy, ring, routed, tree } from './families.js'
import { pairs, replaceAgent, stateOf, teamMdp, type TeamMdp, type TeamPolicy } from './mdp.js'
import { runStage, type Stage, type UpdateRule } from './stage.js'
import { clippedStep, tilt, tiltToRadius } from './update.js'

/** One stage to check, with all that the statements need. */
export interface RandomCase {
  kind: CaseKind
  stage: Stage
  /** δ_i ≥ D_tok of step i; equal to it when `null` */
  slackOfRadius: number
  /** Â of each step, over pairs */
  estimates: Float64Array[]
  /** Proposition 3.8: the stage starts from a team whose agent was swapped and aligned */
  replaced: boolean
  /** the case's own source of chance, for what a check draws */
  random: Random
}

/** Kinds of cases, taken in turn. */
export const CASE_KINDS = [
  'ring',
  'routed',
  'tree',
  'fork',
  'fork-stale',
  'two-state',
  'deterministic',
  'never-active',
  'one-action',
  'zero-reward',
  'nearly-deterministic',
  'unvisited',
  'support-lost',
  'identical',
  'tiny',
  'discount',
  'replacement',
] as const
export type CaseKind = (typeof CASE_KINDS)[number]

/** Case `index` ≥ 0 of a seed. n ≤ 4, at most 40 states. */
export const randomCase = (seed: number, index: number): RandomCase => {
  const random = seeded(seed).fork(index)
  const kind = CASE_KINDS[index % CASE_KINDS.length]
  const { mdp, policy, update } = instance(kind, random)
  const replaced = kind === 'replacement'
  const start = replaced ? aligned(mdp, policy, random) : policy
  const stage = runStage(mdp, start, { order: random.permutation(mdp.n), update })
  const noise = estimateNoise(random)
  const estimates = stage.order.map((_, i) => {
    const { A, d, aMax } = stage.teams[i]
    return noise(mdp, A, aMax || 1, d)
  })
  return { kind, stage, slackOfRadius: random.next() < 0.5 ? 0 : random.next(), estimates, replaced, random }
}

interface Instance {
  mdp: TeamMdp
  policy: TeamPolicy
  update: UpdateRule
}

const instance = (kind: CaseKind, random: Random): Instance => {
  switch (kind) {
    case 'ring':
      return withUpdates(anyRing(random), random)
    case 'routed':
    case 'replacement':
      return withUpdates(anyRouted(random), random)
    case 'tree':
      return withUpdates(anyTree(random), random)
    case 'fork':
      return fork(random, false)
    case 'fork-stale':
      return fork(random, true)
    case 'two-state':
      return withUpdates(
        routed({ agents: 1 + random.int(2), states: 2, actions: 2, successors: 1, gamma: discount(random), start: 'random' }, random),
        random,
      )
    case 'deterministic': {
      const mdp = routed(
        { agents: 1 + random.int(3), states: 2 + random.int(6), actions: 2, successors: 1, gamma: discount(random), start: 'random' },
        random,
      )
      return { mdp, policy: randomPolicy(mdp, random, 3 * random.next()), update: anotherPolicy(random, 3 * random.next()) }
    }
    case 'never-active': {
      const mdp = routed({ ...routedSize(random), agents: 1 + random.int(2) }, random)
      return withUpdates(teamMdp({ ...mdp, n: mdp.n + 1 + random.int(2) }), random)
    }
    case 'one-action':
      return withUpdates(routed({ ...routedSize(random), actions: [1, 1 + random.int(2)] }, random), random)
    case 'zero-reward': {
      const mdp = anyRouted(random)
      return withUpdates(teamMdp({ ...mdp, reward: new Float64Array(pairs(mdp)) }), random)
    }
    case 'nearly-deterministic': {
      const mdp = anyMdp(random)
      const sharpness = 5 + 25 * random.next()
      return {
        mdp,
        policy: randomPolicy(mdp, random, sharpness),
        update: random.next() < 0.5 ? anotherPolicy(random, sharpness) : anyUpdate(random),
      }
    }
    case 'unvisited': {
      const mdp = halfUnreachable(random)
      return { mdp, policy: randomPolicy(mdp, random), update: losingSupport(random, (d) => d === 0) }
    }
    case 'support-lost': {
      const mdp = anyMdp(random)
      return { mdp, policy: randomPolicy(mdp, random), update: losingSupport(random, () => random.next() < 0.3) }
    }
    case 'identical': {
      const mdp = anyMdp(random)
      return { mdp, policy: randomPolicy(mdp, random), update: ({ policy }) => policy }
    }
    case 'tiny': {
      const mdp = anyMdp(random)
      const size = 10 ** (-4 - 8 * random.next())
      return {
        mdp,
        policy: randomPolicy(mdp, random),
        update: ({ policy, agent, A }) => tilt({ mdp, policy, agent, A }, (size * (random.next() - 0.3)) / largestOf(A)),
      }
    }
    case 'discount': {
      const mdp = anyMdp(random)
      return withUpdates(teamMdp({ ...mdp, gamma: random.next() < 0.5 ? 0.01 : 0.999 }), random)
    }
  }
}

/** 0.01 … 0.999, as often near 1 as near 0. */
const discount = (random: Random): number => (random.next() < 0.5 ? 0.01 + 0.8 * random.next() : 1 - 10 ** (-3 * random.next() - 0.0005))

const routedSize = (random: Random) => ({
  agents: 1 + random.int(4),
  states: 2 + random.int(random.next() < 0.25 ? 39 : 15),
  actions: [1, 2 + random.int(3)] as const,
  successors: 1 + random.int(4),
  gamma: discount(random),
  start: random.next() < 0.5 ? ('uniform' as const) : ('random' as const),
})
const anyRouted = (random: Random): TeamMdp => routed(routedSize(random), random)
const anyRing = (random: Random): TeamMdp =>
  ring(
    {
      agents: 1 + random.int(4),
      levels: 1 + random.int(10),
      actions: 2 + random.int(2),
      gamma: discount(random),
      start: random.next() < 0.5 ? 'all' : 'random',
    },
    random,
  )
const anyTree = (random: Random): TeamMdp => {
  const actions = 2 + random.int(2)
  return tree(
    {
      agents: 1 + random.int(3),
      actions,
      depth: actions === 2 ? 1 + random.int(4) : 1 + random.int(2),
      gamma: discount(random),
      router: random.next() < 0.5 ? 'rotation' : 'random',
    },
    random,
  )
}
const anyMdp = (random: Random): TeamMdp => [anyRing, anyRouted, anyTree][random.int(3)](random)

const withUpdates = (mdp: TeamMdp, random: Random): Instance => ({
  mdp,
  policy: randomPolicy(mdp, random, 2 * random.next()),
  update: anyUpdate(random),
})

/** Each step draws its rule: a tilt up or down to a radius, another policy, part of the way to one, a clipped step, nothing. */
const anyUpdate =
  (random: Random): UpdateRule =>
  (input) => {
    const radius = 10 ** (-9 * random.next() ** 2)
    const { mdp, policy, A, step, agent, d } = input
    switch (random.int(7)) {
      case 0:
        return tiltToRadius({ mdp, policy, agent, d, A }, radius).policy
      case 1:
        return tiltToRadius({ mdp, policy, agent, d, A: A.map((x) => -x) }, radius).policy
      case 2:
        return clippedStep(
          { mdp, policy, agent, d, A },
          { epsilon: 0.05 + 0.5 * random.next(), radius: random.next() < 0.5 ? radius : Infinity },
        ).policy
      case 3:
        return policy
      case 4:
        return mixed(policy, randomPolicy(mdp, random), 10 ** (-6 * random.next()))
      case 5:
        return tiltToRadius({ mdp, policy, agent, d, A: A.map((x) => (random.next() < 0.5 ? x : -x)) }, radius).policy
      default:
        return anotherPolicy(random, 1 + step)(input)
    }
  }

const anotherPolicy =
  (random: Random, sharpness: number): UpdateRule =>
  ({ mdp }) =>
    randomPolicy(mdp, random, sharpness)

const mixed = (from: TeamPolicy, to: TeamPolicy, share: number): TeamPolicy => from.map((p, k) => p + share * (to[k] - p))

/** Where `where` says so, the row moves all mass of one action to another. */
const losingSupport =
  (random: Random, where: (d: number) => boolean): UpdateRule =>
  ({ mdp, policy, d }) => {
    const after = mixed(policy, randomPolicy(mdp, random), 0.2 * random.next())
    for (let s = 0; s < mdp.states; s++) {
      const from = mdp.actionStart[s]
      const size = mdp.actionStart[s + 1] - from
      if (size < 2 || !where(d[s])) continue
      const lost = random.int(size)
      after[from + ((lost + 1) % size)] += after[from + lost]
      after[from + lost] = 0
    }
    return after
  }

/** A routed MDP of which the second half of the states is never reached from the first, where the start lies. */
const halfUnreachable = (random: Random): TeamMdp => {
  const mdp = routed({ ...routedSize(random), states: 2 * (1 + random.int(6)), start: 'random' }, random)
  const half = mdp.states / 2
  const next = mdp.next.slice()
  for (let s = 0; s < half; s++) {
    for (let e = mdp.rowStart[mdp.actionStart[s]]; e < mdp.rowStart[mdp.actionStart[s + 1]]; e++) next[e] %= half
  }
  const mu = new Float64Array(mdp.states)
  mu[0] = random.next()
  mu[half - 1] += 1 - mu[0]
  return teamMdp({ ...mdp, next, mu })
}

/**
 * The shape that comes nearest to the bounds: in state 0 the update moves mass from the good branch (1) to the bad one (2); there the
 * (other) agent's update plays what A calls good in the first and bad in the second. All that the shift can cost, it costs; with a small
 * discount the branches weigh little in E TV. `stale`: state 0 belongs to another agent, so that only the stale surrogates suffer.
 */
const fork = (random: Random, stale: boolean): Instance => {
  const n = stale ? 2 : 1 + random.int(2)
  const gamma = random.next() < 0.7 ? 0.01 + 0.3 * random.next() ** 2 : discount(random)
  const branchAgent = stale ? 1 : 0
  const stay = random.next() < 0.3
  const high = 1
  const low = random.next() < 0.7 ? 1 : random.next()
  const mdp = teamMdp({
    n,
    gamma,
    states: 4,
    mu: Float64Array.of(1, 0, 0, 0),
    activeAgent: Int32Array.of(0, branchAgent, branchAgent, n - 1),
    actionStart: Int32Array.of(0, 2, 4, 6, 7),
    rowStart: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7),
    next: stay ? Int32Array.of(1, 2, 1, 1, 2, 2, 3) : Int32Array.of(1, 2, 3, 3, 3, 3, 3),
    prob: new Float64Array(7).fill(1),
    reward: Float64Array.of(0, 0, high, 0, -low, 0, 0),
  })
  const p = 0.3 + 0.4 * random.next()
  const rare = 0.02 + 0.3 * random.next()
  const policy = Float64Array.of(p, 1 - p, rare, 1 - rare, rare, 1 - rare, 1)
  const often = 1 - (0.02 + 0.4 * random.next())
  const to = p * (random.next() < 0.5 ? random.next() ** 2 : 0.9 + 0.1 * random.next())
  const target = Float64Array.of(to, 1 - to, often, 1 - often, often, 1 - often, 1)
  return { mdp, policy, update: () => target }
}

/** Proposition 3.8: some agent is swapped for an unrelated one and then drawn back part of the way (stage 0). */
const aligned = (mdp: TeamMdp, policy: TeamPolicy, random: Random): TeamPolicy => {
  const swapped = randomPolicy(mdp, random, 1 + 4 * random.next())
  return replaceAgent(mdp, policy, random.int(mdp.n), mixed(swapped, policy, random.next()))
}

/** The estimate Â from the true advantage A: exact, noisy, shifted, or wrong only where the team before the step hardly ever is. */
const estimateNoise = (random: Random): ((mdp: TeamMdp, A: Float64Array, scale: number, d: Float64Array) => Float64Array) => {
  const size = 10 ** (2 - 6 * random.next())
  switch (random.int(5)) {
    case 0:
      return (_, A) => A
    case 1:
      return (_, A, scale) => A.map((x) => x + size * scale * random.normal())
    case 2:
      return (_, A, scale) => A.map((x) => x + size * scale)
    case 3:
      return (_, A, scale) => A.map((x) => Math.max(-scale, Math.min(scale, x + size * scale * random.normal())))
    default:
      return (mdp, A, scale, d) => {
        const typical = 1 / mdp.states
        return A.map((x, k) => x + (d[stateOf(mdp.actionStart, k)] < 0.1 * typical ? size * scale * random.normal() : 0))
      }
  }
}

const largestOf = (A: Float64Array): number => A.reduce((max, x) => Math.max(max, Math.abs(x)), 1e-300)
