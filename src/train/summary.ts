import { updatesInStage } from './config.js'
import { compareEvaluations } from './evaluateTeam.js'
import type { RecordedRun } from './runFolder.js'
import { certifiedStages, isViolated, keptKl, runMetrics, type RunMetrics } from './runMetrics.js'
import type { Estimate } from './estimate.js'
import { stream } from './streams.js'
import type { Outcome } from './update.js'

/** A run in a few numbers. */
export interface RunSummary {
  readonly method: string
  readonly seed: number
  readonly updates: number
  /** Updates that the configuration asks for. */
  readonly planned: number
  /** Held-out reward of an episode before and at the latest evaluation, and the paired difference; null before the first evaluation. */
  readonly untrained: Estimate | null
  readonly trained: Estimate | null
  readonly gain: Estimate | null
  readonly problems: number
  readonly outcomes: Readonly<Record<Outcome, number>>
  /** Largest KL/δ of an update that was kept, on all tokens of its rollouts: at most 1 with acceptance that saw all of them. */
  readonly largestKl: number
  /** Stages finished, and how many of their certificates lay above the interval of the measured improvement: violations. */
  readonly stages: number
  readonly violations: number
  readonly metrics: RunMetrics
  /** Sampled during training, without evaluations and diagnostics. */
  readonly tokens: number
  readonly rollouts: number
  readonly seconds: { readonly update: number; readonly rollouts: number; readonly diagnostics: number }
}

export const summarise = ({ config, updates, evaluations }: RecordedRun): RunSummary => {
  const first = evaluations.at(0)
  const latest = evaluations.at(-1)
  const outcomes: Record<Outcome, number> = { accepted: 0, scaled: 0, refused: 0, skipped: 0 }
  for (const { outcome } of updates) outcomes[outcome]++
  const sum = (value: (record: (typeof updates)[number]) => number): number => updates.reduce((total, record) => total + value(record), 0)
  const stages = updates.flatMap(({ stageCertificate }) => stageCertificate ?? [])
  return {
    method: config.method.name,
    seed: config.seed,
    updates: updates.length,
    planned: config.stages * updatesInStage(config),
    untrained: first?.reward ?? null,
    trained: latest?.reward ?? null,
    gain: first && latest ? compareEvaluations(first, latest, stream(config.seed, 'bootstrap')) : null,
    problems: first?.problems ?? 0,
    outcomes,
    largestKl: updates.reduce((largest, update) => Math.max(largest, (keptKl(update, config) ?? Infinity) / update.delta), 0),
    stages: stages.length,
    violations: certifiedStages(updates).filter(isViolated).length,
    metrics: runMetrics({ config, updates, evaluations }),
    tokens: sum(({ tokens }) => tokens),
    rollouts: sum(({ rollouts }) => rollouts),
    seconds: { update: sum(({ seconds }) => seconds.update), rollouts: sum(({ seconds }) => seconds.rollouts), diagnostics: sum(({ seconds }) => seconds.diagnostics ?? 0) },
  }
}
