import type { Random } from '../util/random.js'
import { replaceAgent, teamMdp, type TeamMdp, type TeamPolicy } from './mdp.js'
import { staleGapBound } from './stale-own-states.js'
import { measureStage, stageOfPolicies } from './stage.js'
import { penaltyConstant } from './bounds.js'

/**
 * Families on which the actual stale gap Σ|L_i^seq − L_i^stale| (exact advantages) is as large as it can be, for every n.
 *
 * A family is a *template*: every agent owns the same few states, and the successor of a (state, action) is a state of the same agent, of
 * the next or the previous one, of the first or of the last. A search moves the template so that at one n the gap is as large as
 * possible; how it and its bounds grow with n is then computed exactly. Theorem 3.7 allows a gap that grows like n² (in units of c√δ);
 * the own-states bound proves that with a centred advantage it cannot grow faster than the sum of the shifts.
 */
export interface Template {
  /** States of every agent. */
  readonly states: number
  /** Whose state follows (state, action), at 2·state + action: an index into RELATIONS. */
  readonly relation: Int32Array
  /** Which of that agent's states. */
  readonly to: Int32Array
  /** r in [−1, 1]; times −1 for every second agent where `alternates` is set. */
  readonly reward: Float64Array
  readonly alternates: boolean
  /** The first agent alone is active at the start; otherwise every agent is, with the same probability. */
  readonly startsFirst: boolean
  /** Log-odds of action 0 in each state, before and after the update. */
  readonly before: Float64Array
  readonly after: Float64Array
}

export const RELATIONS = ['own', 'next', 'previous', 'first', 'last'] as const

/** The team of n agents made of a template, and its stage in the agents' order. State `states·j + k` is agent j's k-th. */
export const teamOfTemplate = (
  template: Template,
  n: number,
  gamma: number,
): { readonly mdp: TeamMdp; readonly policies: readonly TeamPolicy[] } => {
  const { states: own, relation, to, reward, alternates, startsFirst, before, after } = template
  const states = n * own
  const other = (agent: number, kind: number): number => {
    switch (RELATIONS[kind]) {
      case 'own':
        return agent
      case 'next':
        return Math.min(agent + 1, n - 1)
      case 'previous':
        return Math.max(agent - 1, 0)
      case 'first':
        return 0
      case 'last':
        return n - 1
    }
  }
  const local = (pair: number): number => pair % (2 * own)
  const agentOf = (pair: number): number => Math.floor(pair / (2 * own))
  const mdp = teamMdp({
    n,
    gamma,
    states,
    mu: Float64Array.from({ length: states }, (_, s) => (s % own > 0 ? 0 : startsFirst ? Number(s === 0) : 1 / n)),
    activeAgent: Int32Array.from({ length: states }, (_, s) => Math.floor(s / own)),
    actionStart: Int32Array.from({ length: states + 1 }, (_, s) => 2 * s),
    rowStart: Int32Array.from({ length: 2 * states + 1 }, (_, k) => k),
    next: Int32Array.from({ length: 2 * states }, (_, k) => own * other(agentOf(k), relation[local(k)]) + to[local(k)]),
    prob: new Float64Array(2 * states).fill(1),
    reward: Float64Array.from({ length: 2 * states }, (_, k) => (alternates && agentOf(k) % 2 ? -1 : 1) * reward[local(k)]),
  })
  const rows = (odds: Float64Array): TeamPolicy =>
    Float64Array.from({ length: 2 * states }, (_, k) => 1 / (1 + Math.exp((k % 2 ? 1 : -1) * odds[Math.floor(local(k) / 2)])))
  const target = rows(after)
  const policies = [rows(before)]
  for (let agent = 0; agent < n; agent++) policies.push(replaceAgent(mdp, policies[agent], agent, target))
  return { mdp, policies }
}

/** The exact gap of one stage and what bounds it. */
export interface StaleGap {
  readonly n: number
  /** A_max over the stage. */
  readonly aMax: number
  /** Σ|L_i^seq − L_i^stale|. */
  readonly gap: number
  /** Σ_i ‖d^{i−1} − d⁰‖₁. */
  readonly drift: number
  /** Σ own shifts. */
  readonly shifts: number
  /** Σ ρ_i: it is 1 for small updates and can approach n for large ones. */
  readonly mass: number
  /** Proposition 3.3 of every step, added: c Σ_i Σ_{k<i} √δ_k. */
  readonly paperBound: number
  /** (1−γ)^-1 A_max Σ_{k<n} (shift of step k): the own-states bound with exact shifts. */
  readonly ownStatesBound: number
}

export const staleGapOf = (template: Template, n: number, gamma: number): StaleGap => {
  const { mdp, policies } = teamOfTemplate(template, n, gamma)
  const { steps, aMax } = measureStage(
    stageOfPolicies(
      mdp,
      policies,
      policies.slice(1).map((_, i) => i),
    ),
  )
  const sum = (of: (step: (typeof steps)[number], i: number) => number): number => steps.reduce((total, step, i) => total + of(step, i), 0)
  return {
    n,
    aMax,
    gap: sum(({ lSeq, lStale }) => Math.abs(lSeq - lStale)),
    drift: sum((step) => step.cumulativeShift),
    shifts: sum((step) => step.shift),
    mass: sum((step) => step.rho),
    paperBound: penaltyConstant({ gamma, aMax }) * sum((step, i) => (n - 1 - i) * Math.sqrt(step.dTok)),
    ownStatesBound: staleGapBound({ gamma, steps: steps.map(({ shift }) => ({ shift, low: -aMax, high: aMax })) }),
  }
}

/**
 * Search the template whose gap at team size n is the largest share of what the own-states bound allows at most, 2(n − 1)·A_max/(1−γ): no
 * shift exceeds 2. The same random state gives the same template.
 *
 * @param states of every agent
 * @param evaluations templates tried: half in equal parts from `restarts` random starts, half from the best of them
 */
export const searchStaleFamily = (
  {
    n,
    gamma,
    states,
    evaluations,
    restarts,
  }: {
    readonly n: number
    readonly gamma: number
    readonly states: number
    readonly evaluations: number
    readonly restarts: number
  },
  random: Random,
): { readonly template: Template; readonly share: number } => {
  // advantages that are all rounding have a share, but no meaning
  const score = (template: Template): number => {
    const { gap, aMax } = staleGapOf(template, n, gamma)
    return aMax > 1e-3 ? (gap * (1 - gamma)) / (2 * aMax * (n - 1)) : -1
  }
  const climb = (from: Template, steps: number): { template: Template; share: number } => {
    let best = { template: from, share: score(from) }
    for (let k = 0; k < steps; k++) {
      const template = neighbour(best.template, random)
      const share = score(template)
      if (share >= best.share) best = { template, share }
    }
    return best
  }
  const part = Math.floor(evaluations / 2 / restarts)
  let best = climb(randomTemplate(states, random), part)
  for (let k = 1; k < restarts; k++) {
    const climbed = climb(randomTemplate(states, random), part)
    if (climbed.share > best.share) best = climbed
  }
  return climb(best.template, evaluations - part * restarts)
}

const randomTemplate = (states: number, random: Random): Template => ({
  states,
  relation: Int32Array.from({ length: 2 * states }, () => random.int(RELATIONS.length)),
  to: Int32Array.from({ length: 2 * states }, () => random.int(states)),
  reward: Float64Array.from({ length: 2 * states }, () => 2 * random.next() - 1),
  alternates: random.next() < 0.5,
  startsFirst: random.next() < 0.5,
  before: Float64Array.from({ length: states }, () => 3 * random.normal()),
  after: Float64Array.from({ length: states }, () => 3 * random.normal()),
})

/** One or two coordinates moved. */
const neighbour = (template: Template, random: Random): Template => {
  const { states } = template
  const [relation, to] = [template.relation.slice(), template.to.slice()]
  const [reward, before, after] = [template.reward.slice(), template.before.slice(), template.after.slice()]
  let { alternates, startsFirst } = template
  const step = (): number => 10 ** (-3 * random.next()) * random.normal()
  for (let k = random.int(2); k >= 0; k--) {
    const s = random.int(states)
    const pair = 2 * s + random.int(2)
    switch (random.int(7)) {
      case 0:
        relation[pair] = random.int(RELATIONS.length)
        break
      case 1:
        to[pair] = random.int(states)
        break
      case 2:
        reward[pair] = random.next() < 0.3 ? random.int(3) - 1 : Math.min(Math.max(reward[pair] + step(), -1), 1)
        break
      case 3:
        before[s] = Math.min(Math.max(before[s] + 3 * step(), -12), 12)
        break
      case 4:
        after[s] = Math.min(Math.max(after[s] + 3 * step(), -12), 12)
        break
      case 5:
        alternates = !alternates
        break
      case 6:
        startsFirst = !startsFirst
    }
  }
  return { states, relation, to, reward, alternates, startsFirst, before, after }
}
