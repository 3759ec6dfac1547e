/**
 * A training run whose every stage is also computed exactly: on the very problems that it learns from, and on those of its probes (diagnostics.ts)
 * where it is diagnosed. What the run logs are estimates of this. How good they are is a table (`compareEstimates`).
 */
import { proportionInterval } from '../theory/intervals.js'
import { plainMean } from '../theory/messages.js'
import { measureBehaviour, type BehaviourMeasure } from '../theory/stage.js'
import type { Config } from './config.js'
import { contextSpace, type ContextSpace } from './contextSpace.js'
import { environment } from './environment.js'
import { stageBetween, type ExactStage } from './exactStage.js'
import { exactTeam, type ExactTeam } from './exactTeam.js'
import { studentEstimate, type Estimate } from './estimate.js'
import type { Divergence } from './measure.js'
import { isDiagnosed, sampledBefore, type UpdateRecord } from './stage.js'
import { replaceAgent } from './replacement.js'
import { startTeam } from './startTeam.js'
import { stream } from './streams.js'
import { disposeTeam } from './team.js'
import { trainTeam } from './trainTeam.js'

/** A stage's updates on some problems, exactly: its first steps, as many as there were updates. */
export interface ExactUpdates {
  readonly exact: ExactStage
  /** Each beside the team whose rollouts it learned from: what diagnostics.ts samples. */
  readonly behaviour: readonly BehaviourMeasure[]
}

/** One stage: as logged, and exactly, on the problems that it learns from. */
export interface FollowedStage extends ExactUpdates {
  readonly stage: number
  readonly records: readonly UpdateRecord[]
  /** The same on the problems of its probes; null where it is not diagnosed. */
  readonly probed: ExactUpdates | null
}

export interface FollowOptions {
  /** Largest number of contexts times messages of one stage; as in `contextSpace`. */
  readonly limit?: number
  readonly onProgress?: (phase: 'warm-up' | 'alignment' | 'stages', done: number, total: number) => void
}

/**
 * Make the team of a configuration (warmed up, or its language models, or one with an agent swapped, as `start` says) and train it, and compute every stage exactly. Nothing is written, and training goes as it would without.
 *
 * @throws InputError when the game is too large to enumerate: said when the team is made, before the first update
 */
export const followRun = async (config: Config, { limit, onProgress }: FollowOptions = {}): Promise<FollowedStage[]> => {
  const { seed, gamma, method, diagnostics, rollout: { prompts, maxTokens, temperature } } = config
  const { task, problems } = environment(config.task, config.team.agents)
  const team = config.start
    ? (await replaceAgent(config, config.start, { onProgress })).team
    : await startTeam(config, { onProgress: (done, total) => onProgress?.('warm-up', done, total) })
  try {
    /** The team as it is, on problems that are drawn for a stage. */
    const start = async (count: number, purpose: 'problems' | 'diagnostics', stage: number): Promise<Start> => {
      const space = contextSpace(task, team, problems('train', count, stream(seed, purpose, stage)), { gamma, maxTokens, limit })
      return { space, before: await exactTeam(space, team, { temperature }) }
    }
    const updatesOf = async ({ space, before }: Start, agents: readonly number[]): Promise<ExactUpdates> => {
      const exact = stageBetween(space, before, await exactTeam(space, team, { temperature }), agents)
      return { exact, behaviour: measureBehaviour(exact.stage, exact.stage.order.map((_, position) => sampledBefore(method, position))) }
    }
    const followed: FollowedStage[] = []
    let records: UpdateRecord[] = []
    let current: { readonly own: Start; readonly probes: Start | null } | undefined
    await trainTeam({ ...config, evaluation: { ...config.evaluation, problems: 1, every: 0 } }, team, {
      onUpdate: (record) => void records.push(record),
      onState: async ({ stage, position }) => {
        if (position > 0) return
        if (current) {
          const agents = records.map(({ agent }) => agent)
          const probed = current.probes && await updatesOf(current.probes, agents)
          followed.push({ stage: stage - 1, records, ...await updatesOf(current.own, agents), probed })
          onProgress?.('stages', stage, config.stages)
        }
        if (stage === config.stages) return
        records = []
        current = {
          own: await start(prompts, 'problems', stage),
          probes: isDiagnosed(config, stage) ? await start(diagnostics.prompts, 'diagnostics', stage) : null,
        }
      },
    })
    return followed
  } finally {
    disposeTeam(team)
  }
}

/** A team at the start of a stage. */
interface Start {
  readonly space: ContextSpace
  readonly before: ExactTeam
}

/** An estimate beside what it estimates, over all updates of a run. */
export interface EstimateCheck {
  /** What is estimated. A stale run logs what stands in for it: L and D_tok under d⁰, its share of Theorem 3.7. */
  readonly name: string
  readonly updates: number
  /** Mean of the exact values. */
  readonly exact: number
  /** Mean of logged − exact, with its 95 % interval (Student, over updates, as if they were independent). */
  readonly bias: Estimate
  /** √ mean (logged − exact)² */
  readonly rootMeanSquare: number
  /** How many of the logged 95 % intervals hold the exact value; null where none is logged. */
  readonly covered: number | null
  /** The share of them, with its 95 % interval (Clopper–Pearson, as if they were independent). */
  readonly coverage: Estimate | null
}

type Logged = (record: UpdateRecord, stage: FollowedStage, i: number) => { readonly estimate: number; readonly low?: number; readonly high?: number } | null

/** Of an update that changes something, of which a probe is an estimate. */
const onProbe = (name: 'current' | 'gap'): Logged => ({ diagnostics, scale }) => (diagnostics && scale > 0 ? diagnostics[name] : null)
/** A probe of old rollouts under weights stands for another team than theirs. */
const gap: Logged = (record, ...at) => (record.weights ? null : onProbe('gap')(record, ...at))
/** Of an update that shifts something: nobody reads the last word of an episode, and what is sampled then is 0, or was counted with the update before. */
const shift: Logged = ({ diagnostics }, { probed }, i) => (diagnostics && probed!.exact.steps[i].shift > 1e-12 ? diagnostics.drift : null)

const CHECKS: readonly (readonly [name: string, exact: (stage: FollowedStage, i: number) => number, logged: Logged])[] = [
  ['ρ', ({ exact }, i) => exact.steps[i].acting, ({ rho }) => ({ estimate: rho })],
  ['KL of a message', ({ exact }, i) => exact.steps[i].divergence.message, ({ divergence: { exact, lowVariance } }) => ({ estimate: (exact ?? lowVariance).message })],
  ['D_tok', ({ exact }, i) => exact.steps[i].divergence.occupancy, ({ divergence: { exact, lowVariance } }) => ({ estimate: (exact ?? lowVariance).occupancy })],
  ['L_seq, as the objective has it', ({ exact }, i) => exact.steps[i].lSeq, ({ surrogate: { value } }) => ({ estimate: value })],
  ['L_seq, by plain ratios', ({ exact }, i) => exact.steps[i].lSeq, ({ surrogate: { unbiased, low, high } }) => ({ estimate: unbiased, low, high })],
  ['L_seq, on a probe', ({ probed }, i) => probed!.exact.steps[i].lSeq, onProbe('current')],
  ['gap: L on what was learned from − L_seq', ({ probed }, i) => probed!.behaviour[i].gap, gap],
  ['shift: ‖dⁱ − d of what was learned from‖₁', ({ probed }, i) => probed!.behaviour[i].shift, shift],
  ['improvement', ({ exact }, i) => exact.steps[i].improvement, ({ improvement }) => improvement],
  ['certificate (Theorem 3.4)', ({ exact }, i) => exact.tokens.steps[i].thm34Step.bound, ({ certificate: { bound } }) => ({ estimate: bound })],
]

/** Every estimate that was logged, over the updates of a run for which it was. */
export const compareEstimates = (stages: readonly FollowedStage[]): EstimateCheck[] =>
  CHECKS.flatMap(([name, exactOf, loggedOf]) => {
    const pairs = stages.flatMap((stage) => stage.records.flatMap((record, i) => {
      const logged = loggedOf(record, stage, i)
      return logged ? [{ exact: exactOf(stage, i), logged }] : []
    }))
    if (pairs.length === 0) return []
    const errors = pairs.map(({ exact, logged }) => logged.estimate - exact)
    const covered = pairs[0].logged.low === undefined ? null : pairs.filter(({ exact, logged: { low, high } }) => low! <= exact && exact <= high!).length
    return [{
      name,
      updates: pairs.length,
      exact: plainMean(pairs.map(({ exact }) => exact)),
      bias: studentEstimate(errors),
      rootMeanSquare: Math.sqrt(plainMean(errors.map((error) => error * error))),
      covered,
      coverage: covered === null ? null : proportionInterval(covered, pairs.length),
    }]
  })

/** How far the updates of a run are outside their trust region, where the divergence that δ bounds is exact: a run holds it to δ on its own rollouts. */
export interface Excess {
  readonly updates: number
  /** Updates of exact divergence above δ. */
  readonly outside: number
  /** The largest exact divergence, in δ. */
  readonly largest: number
}

export const excessOf = (stages: readonly FollowedStage[], reading: keyof Divergence): Excess => {
  const inDelta = stages.flatMap(({ records, exact }) => records.map(({ delta }, i) => exact.steps[i].divergence[reading] / delta))
  return { updates: inDelta.length, outside: inDelta.filter((x) => x > 1).length, largest: Math.max(0, ...inDelta.filter((x) => !Number.isNaN(x))) }
}
