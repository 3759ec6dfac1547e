/** What the methods are compared by, out of the records of one run. Every number is a mean over what was measured, with its uncertainty beside it. */
import { mean, proportionInterval, studentQuantile, variance } from '../theory/intervals.js'
import { rankCorrelation } from '../theory/rank.js'
import { updatesInStage } from './config.js'
import type { Coordination } from './coordination.js'
import type { RecordedRun } from './runFolder.js'
import { studentEstimate, type Estimate } from './estimate.js'
import type { UpdateRecord } from './stage.js'

/** null: not measured, or from too little. Sums over a stage have Student's interval over the stages that were diagnosed. */
export interface RunMetrics {
  /**
   * Δ_stale, in units of return. `raw`: Σ_i |L̂ on the rollouts that update i was fitted to − L̂ on fresh ones of the team just before it|: never 0, since an
   * update flatters itself on the rollouts that it was fitted to, and rollouts are a sample. `signed`: Σ_i gap_i (diagnostics.ts), 0 in truth where rollouts
   * are fresh. `corrected`: √(n·mean over stages of Σ_i (gap_i² − se_i²)), with the sign of what is under the root. Without the noise, at least Σ_i |gap_i|
   * (Cauchy–Schwarz); about 0, of either sign, where there is no gap.
   */
  readonly staleGap: { readonly raw: Estimate; readonly signed: Estimate; readonly corrected: number; readonly noise: number } | null
  /** D_occ: Σ_i ‖d^{π̂^i} − d^{b_i}‖₁ of a stage, b_i the team whose rollouts update i learned from. */
  readonly drift: Estimate | null
  /** Standard deviation of the stages' mean rewards over the last quarter of the stages, and what sampling alone adds to it (root mean square). */
  readonly stability: { readonly deviation: number; readonly noise: number; readonly stages: number } | null
  /** After training. */
  readonly coordination: Coordination | null
  /** Share of the updates whose divergence exceeds δ: as proposed, and as kept. */
  readonly outOfRegion: { readonly proposed: number; readonly kept: number }
  /** Mean certificate of a stage, active-mass form; mean measured improvement of a stage. */
  readonly certificate: number | null
  readonly improvement: number | null
  /** Share of the stages whose certificate lies above the whole interval of the measured improvement (Clopper–Pearson). */
  readonly violationRate: Estimate | null
  /** Spearman's, of certificate and measured improvement, over stages. */
  readonly rankCorrelation: number | null
  /** Of the diagnostics: apart from those of training. */
  readonly tokens: number
  readonly rollouts: number
}

export const runMetrics = ({ config, updates, evaluations }: Pick<RecordedRun, 'config' | 'updates' | 'evaluations'>): RunMetrics => {
  const diagnosed = updates.flatMap((update) => (update.diagnostics ? [{ ...update, diagnostics: update.diagnostics }] : []))
  const stages = byStage(diagnosed).filter((stage) => stage.length === updatesInStage(config))
  const certified = certifiedStages(updates)
  const share = (is: (update: UpdateRecord) => boolean): number => (updates.length > 0 ? updates.filter(is).length / updates.length : 0)
  const over = (value: (update: (typeof diagnosed)[number]) => number): Estimate => studentEstimate(stages.map((stage) => sum(stage.map(value))))
  const hasPairs = certified.length > 1
  const correlation = hasPairs ? rankCorrelation(certified.map(({ activeMass }) => ranked(activeMass)), certified.map(({ improvement }) => ranked(improvement.estimate))) : NaN
  return {
    staleGap: stages.length === 0 ? null : {
      raw: over(({ surrogate, diagnostics }) => Math.abs(surrogate.unbiased - diagnostics.current.estimate)),
      signed: over(({ diagnostics }) => diagnostics.gap.estimate),
      corrected: corrected(stages),
      noise: mean(stages.map((stage) => Math.sqrt(sum(stage.map(({ diagnostics }) => diagnostics.gap.standardError ** 2))))),
    },
    drift: stages.length === 0 ? null : over(({ diagnostics }) => diagnostics.drift.estimate),
    stability: stability(updates, config.rollout.prompts),
    coordination: evaluations.length > 1 ? evaluations.at(-1)!.coordination ?? null : null,
    outOfRegion: { proposed: share(({ proposedKl, delta }) => exceeds(proposedKl, delta)), kept: share((update) => exceeds(keptKl(update, config), update.delta)) },
    certificate: certified.length > 0 ? mean(certified.map(({ activeMass }) => activeMass)) : null,
    improvement: certified.length > 0 ? mean(certified.map(({ improvement }) => improvement.estimate)) : null,
    violationRate: certified.length > 0 ? proportionInterval(certified.filter(isViolated).length, certified.length) : null,
    rankCorrelation: finite(correlation) ? correlation : null,
    tokens: sum(diagnosed.map(({ diagnostics }) => diagnostics.tokens)),
    rollouts: sum(diagnosed.map(({ diagnostics }) => diagnostics.rollouts)),
  }
}

type Diagnosed = UpdateRecord & { readonly diagnostics: NonNullable<UpdateRecord['diagnostics']> }

const byStage = (updates: readonly Diagnosed[]): Diagnosed[][] => {
  const stages = new Map<number, Diagnosed[]>()
  for (const update of updates) stages.set(update.stage, [...stages.get(update.stage) ?? [], update])
  return [...stages.values()]
}

const corrected = (stages: readonly (readonly Diagnosed[])[]): number => {
  const squares = mean(stages.map((stage) => stage.length * sum(stage.map(({ diagnostics: { gap } }) => gap.estimate ** 2 - gap.standardError ** 2))))
  return Math.sign(squares) * Math.sqrt(Math.abs(squares))
}

/** To 12 decimals of a return: sums of the same rewards in another order differ in the last bits of a double, and are no different rank. */
const ranked = (value: number): number => Number(value.toFixed(12))

/** Certificates of the stages that have one, with what was measured. */
export const certifiedStages = (updates: readonly UpdateRecord[]): NonNullable<UpdateRecord['stageCertificate']>[] =>
  updates.flatMap(({ stageCertificate }) => (stageCertificate && finite(stageCertificate.activeMass) ? [stageCertificate] : []))

/** Whether a stage's certificate lies above the whole interval of the measured improvement. */
export const isViolated = ({ activeMass, improvement }: NonNullable<UpdateRecord['stageCertificate']>): boolean => activeMass > improvement.high

/** The divergence that δ bounds, at what was kept: on all tokens, also where acceptance saw a part of them. */
export const keptKl = ({ kl, divergence }: UpdateRecord, { trustRegion: { fraction, estimator, reading } }: RecordedRun['config']): number | null =>
  fraction < 1 ? divergence[estimator]?.[reading] ?? null : kl

/** Logs hold null for what is not finite, and what is not finite is outside. */
const exceeds = (kl: number | null, delta: number): boolean => kl === null || !(kl <= delta)

const stability = (updates: readonly UpdateRecord[], problems: number): RunMetrics['stability'] => {
  const starts = updates.filter(({ position }) => position === 0)
  const last = starts.slice(-Math.ceil(starts.length / 4))
  if (last.length < 2 || problems < 2) return null
  const t = studentQuantile(0.975, problems - 1)
  return {
    deviation: Math.sqrt(variance(last.map((update) => update.return.estimate))),
    noise: Math.sqrt(mean(last.map((update) => ((update.return.high - update.return.low) / 2 / t) ** 2))),
    stages: last.length,
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
/** Logs hold null for what is not finite. */
const finite = (value: number | null): boolean => value !== null && Number.isFinite(value)
