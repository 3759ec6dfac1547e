import { InputError } from '../util/errors.js'
import { random as seeded, type Random } from '../util/random.js'
import { penaltyConstant } from './bounds.js'
import { activeMassShift, pinskerShift, type RadiusReading } from './certificates.js'
import { randomPolicy, ring, routed, tree } from './families.js'
import { bootstrapSamples, fitPowerLaw, localExponents, type GrowthFit, type GrowthRow } from './growth.js'
import { essLimit } from './importance.js'
import { bootstrapInterval, mean, type Interval } from './intervals.js'
import type { TeamMdp } from './mdp.js'
import { stageBounds } from './stage-bounds.js'
import { measureStage, runStage, type StageMeasure } from './stage.js'
import { staleOwnStatesBound } from './stale-own-states.js'
import { tiltToRadius } from './update.js'

/**
 * How a stage scales with the team: one stage of exact trust-region updates (tilts along the exact advantage, agents in their order,
 * every radius used up) on random MDPs of n agents, everything evaluated exactly, averaged over seeds, and a growth exponent of every
 * quantity.
 */
export interface ScalingSetup {
  readonly family: 'ring' | 'routed' | 'tree'
  /** Team sizes n, ascending. */
  readonly sizes: readonly number[]
  /** What δ is an average over: all states, or the agent's own. */
  readonly radius: RadiusReading
  readonly delta: number
  readonly gamma: number
  /** States per agent (ring, routed). */
  readonly levels: number
  /** Actions per state. */
  readonly actions: number
  /** MDPs per size. */
  readonly seeds: number
  readonly seed: number
}

/** What is measured of a stage: what happens (exact), and what the bounds say (penalties, in units of c = √2γA_max/(1−γ)²). */
export const QUANTITIES = {
  shifts: { label: 'Σ own shifts ‖dⁱ − dⁱ⁻¹‖₁', kind: 'exact' },
  drift: { label: 'D_occ = Σ‖dⁱ⁻¹ − d⁰‖₁', kind: 'exact' },
  gap: { label: 'Δ_stale = Σ|L_seq − L_stale|', kind: 'exact' },
  mass: { label: 'Σ ρ_i', kind: 'exact' },
  c: { label: 'c', kind: 'exact' },
  thm36: { label: 'Theorem 3.6', kind: 'penalty' },
  activeMass: { label: 'active mass (ours)', kind: 'penalty' },
  thm37Paper: { label: 'Theorem 3.7, n·Σ√δ', kind: 'penalty' },
  thm37Exact: { label: 'Theorem 3.7, exact sum', kind: 'penalty' },
  activeMassStale: { label: '3.7 with active mass (ours)', kind: 'penalty' },
  ownStates: { label: 'stale, own states (ours)', kind: 'penalty' },
  ownStatesActiveMass: { label: 'stale, own states, active mass (ours)', kind: 'penalty' },
  ess: { label: 'ESS/B of stale rollouts at update n', kind: 'weights' },
} as const
export type Quantity = keyof typeof QUANTITIES

/** The measurements of one quantity: one sample a seed for every n. */
export type ScalingTable = Record<Quantity, { readonly n: number; readonly samples: Float64Array }[]>

/** Turns of every rollout in `ess`: each agent speaks this often. */
export const ROUNDS = 2

/**
 * Measure one stage on every MDP of the setup.
 *
 * @param onStage called after each stage
 * @throws InputError when a setting is out of range or an MDP would be too large
 */
export const measureScaling = (setup: ScalingSetup, onStage: () => void = () => {}): ScalingTable => {
  checkScalingSetup(setup)
  const table = Object.fromEntries(
    Object.keys(QUANTITIES).map((name) => [name, setup.sizes.map((n) => ({ n, samples: new Float64Array(setup.seeds) }))]),
  ) as ScalingTable
  setup.sizes.forEach((n, row) => {
    for (let k = 0; k < setup.seeds; k++) {
      const one = measureOne(setup, n, seeded(setup.seed).fork(n).fork(k))
      for (const [name, value] of Object.entries(one)) table[name as Quantity][row].samples[k] = value
      onStage()
    }
  })
  return table
}

const measureOne = (setup: ScalingSetup, n: number, random: Random): Record<Quantity, number> => {
  const mdp = team(setup, n, random)
  const { radius, delta } = setup
  const stage = runStage(mdp, randomPolicy(mdp, random), {
    order: Array.from({ length: n }, (_, i) => i),
    update: ({ mdp, policy, agent, d, A }) => {
      const mass = d.reduce((sum, p, s) => (mdp.activeAgent[s] === agent ? sum + p : sum), 0)
      return tiltToRadius({ mdp, policy, agent, d, A }, radius === 'message' ? mass * delta : delta).policy
    },
  })
  const measure = measureStage(stage)
  return {
    ...measured(measure),
    ...penalties(measure, mdp.gamma),
    ess: essLimit(mdp, stage.policies[0], stage.policies[n - 1], ROUNDS * n),
  }
}

const measured = ({ steps }: StageMeasure) => ({
  shifts: sum(steps, (step) => step.shift),
  drift: sum(steps, (step) => step.cumulativeShift),
  gap: sum(steps, (step) => Math.abs(step.lSeq - step.lStale)),
  mass: sum(steps, (step) => step.rho),
})

/** The penalties of the bounds on this stage, divided by c. Radii are the exact D_tok. */
const penalties = (measure: StageMeasure, gamma: number) => {
  const { aMax, steps } = measure
  const c = penaltyConstant({ gamma, aMax })
  const bounds = stageBounds(measure, { gamma, radii: steps.map((step) => step.dTok), kind: 'exact' })
  const ownStates = (shift: (step: { dTok: number; rho: number }) => number): number =>
    staleOwnStatesBound({ gamma, steps: steps.map((step) => ({ surrogate: step.lStale, shift: shift(step), low: -aMax, high: aMax })) })
      .penalty / c
  return {
    c,
    thm36: bounds.thm36.penalty / c,
    activeMass: bounds.activeMass.penalty / c,
    thm37Paper: bounds.thm37Paper.penalty / c,
    thm37Exact: bounds.thm37Exact.penalty / c,
    activeMassStale: bounds.activeMassStale.penalty / c,
    ownStates: ownStates(({ dTok }) => pinskerShift({ gamma, radius: dTok })),
    ownStatesActiveMass: ownStates(({ dTok, rho }) => activeMassShift({ gamma, rho, radius: dTok })),
  }
}

/** Every level of the next turn can follow every level of this one in `ring`; μ is uniform, so that ρ_j is near 1/n at the start. */
const team = ({ family, gamma, levels, actions }: ScalingSetup, agents: number, random: Random): TeamMdp => {
  if (family === 'ring') return ring({ agents, levels, actions, gamma, reach: levels - 1 }, random)
  if (family === 'routed') return routed({ agents, states: agents * levels, actions, successors: levels, gamma }, random)
  return tree({ agents, actions, depth: agents, gamma }, random)
}

/** A stage evaluates n + 1 teams and keeps them: n times the transitions is its work. A tree of n messages has actionsⁿ contexts. */
const MOST_WORK = 50_000_000

const transitions = ({ family, levels, actions }: ScalingSetup, n: number): number =>
  family === 'tree' ? (actions * (actions ** (n + 1) - 1)) / (actions - 1) : n * levels * actions * levels

/** @throws InputError when a setting is out of range or an MDP would be too large: as measureScaling does, before anything is computed */
export const checkScalingSetup = (setup: ScalingSetup): void => {
  const { sizes, delta, gamma, levels, actions, seeds, seed } = setup
  for (const [name, value, least, most] of [
    ['levels', levels, 1, MOST_WORK],
    ['actions', actions, 2, MOST_WORK],
    ['seeds', seeds, 1, 100_000],
    ['seed', seed, 0, 2 ** 31],
  ] as const) {
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new InputError(`${name}: holds ${value}; a whole number, ${least} to ${most}`)
    }
  }
  if (sizes.length < 2) throw new InputError(`n: holds ${sizes.length} sizes; an exponent needs two at least`)
  sizes.forEach((n, k) => {
    if (!Number.isInteger(n) || n < 2) throw new InputError(`n: holds ${n}; whole numbers, at least 2`)
    if (k > 0 && n <= sizes[k - 1]) throw new InputError(`n: holds ${n} after ${sizes[k - 1]}; ascending sizes`)
    const count = transitions(setup, n)
    if (n * count > MOST_WORK) {
      throw new InputError(`n: holds ${n}, which makes about ${count.toPrecision(3)} transitions; n times that is at most ${MOST_WORK}`)
    }
  })
  if (!(delta > 0 && delta < Infinity)) throw new InputError(`delta: holds ${delta}; above 0`)
  if (!(gamma > 0 && gamma < 1)) throw new InputError(`gamma: holds ${gamma}; strictly between 0 and 1`)
}

/**
 * How one quantity grows. `fit` and `bootstrap` are absent for what has no exponent: a quantity that is 0 in some MDP, and ESS/B, which
 * decays exponentially.
 */
export interface ScalingExponent {
  /** Mean over the seeds for every n, with a percentile bootstrap interval over the seeds. */
  readonly means: readonly { readonly n: number; readonly interval: Interval }[]
  /** Least squares on the logarithms of the means; its limits say how straight they are. */
  readonly fit?: GrowthFit
  /** α again with the seeds of every n drawn anew: how much chance there is in it. */
  readonly bootstrap?: Interval
  /** Slopes between neighbouring n. */
  readonly local: ReturnType<typeof localExponents>
}

/** α, intervals and local slopes of every quantity of a table. */
export const scalingExponents = (
  table: ScalingTable,
  { confidence = 0.95, seed = 1 }: { readonly confidence?: number; readonly seed?: number } = {},
): Record<Quantity, ScalingExponent> => {
  const random = seeded(seed)
  const exponent = (name: Quantity, rows: ScalingTable[Quantity]): ScalingExponent => {
    const points = rows.map(({ n, samples }) => ({ n, y: mean(samples) }))
    const means = rows.map(({ n, samples }) => ({ n, interval: bootstrapInterval(samples, { confidence, random, replicates: 1000 }) }))
    if (QUANTITIES[name].kind === 'weights' || !rows.every(({ samples }) => samples.every((y) => y > 0))) return { means, local: [] }
    const fit = (of: readonly GrowthRow[]): GrowthFit => fitPowerLaw(of, { confidence })
    return { means, fit: fit(points), bootstrap: bootstrapSamples(rows, fit, { confidence, random }), local: localExponents(points) }
  }
  return Object.fromEntries(Object.entries(table).map(([name, rows]) => [name, exponent(name as Quantity, rows)])) as Record<
    Quantity,
    ScalingExponent
  >
}

const sum = <T>(items: readonly T[], of: (item: T) => number): number => items.reduce((total, item) => total + of(item), 0)
