/**
 * A training run whose every stage is also computed exactly, on the very problems that it learns from: what the run logs are estimates of this.
 * How good they are is a table (`compareEstimates`).
 */
import { plainMean } from '../theory/messages.js'
import type { Config } from './config.js'
import { contextSpace, type ContextSpace } from './contextSpace.js'
import { environment } from './environment.js'
import { stageBetween, type ExactStage, type ExactStep } from './exactStage.js'
import { exactTeam, type ExactTeam } from './exactTeam.js'
import { studentEstimate, type Estimate } from './estimate.js'
import type { UpdateRecord } from './stage.js'
import { replaceAgent } from './replacement.js'
import { startTeam } from './startTeam.js'
import { stream } from './streams.js'
import { disposeTeam } from './team.js'
import { trainTeam } from './trainTeam.js'

/** One stage: as logged, and exactly. Its first records.length steps are the updates of the records. */
export interface FollowedStage {
  readonly stage: number
  readonly records: readonly UpdateRecord[]
  readonly exact: ExactStage
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
  const { seed, gamma, rollout: { prompts, maxTokens, temperature } } = config
  const { task, problems } = environment(config.task, config.team.agents)
  const team = config.start
    ? (await replaceAgent(config, config.start, { onProgress })).team
    : await startTeam(config, { onProgress: (done, total) => onProgress?.('warm-up', done, total) })
  try {
    const spaceOf = (stage: number): ContextSpace =>
      contextSpace(task, team, problems('train', prompts, stream(seed, 'problems', stage)), { gamma, maxTokens, limit })
    const followed: FollowedStage[] = []
    let records: UpdateRecord[] = []
    let current: { space: ContextSpace; before: ExactTeam } | undefined
    await trainTeam({ ...config, evaluation: { ...config.evaluation, problems: 1, every: 0 } }, team, {
      onUpdate: (record) => void records.push(record),
      onState: async ({ stage, position }) => {
        if (position > 0) return
        if (current) {
          const after = await exactTeam(current.space, team, { temperature })
          followed.push({ stage: stage - 1, records, exact: stageBetween(current.space, current.before, after, records.map(({ agent }) => agent)) })
          onProgress?.('stages', stage, config.stages)
        }
        records = []
        const space = spaceOf(stage)
        current = { space, before: await exactTeam(space, team, { temperature }) }
      },
    })
    return followed
  } finally {
    disposeTeam(team)
  }
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
}

type Logged = (record: UpdateRecord) => { readonly estimate: number; readonly low?: number; readonly high?: number } | null

const CHECKS: readonly (readonly [name: string, exact: (step: ExactStep, stage: ExactStage, i: number) => number, logged: Logged])[] = [
  ['ρ', ({ acting }) => acting, ({ rho }) => ({ estimate: rho })],
  ['KL of a message', ({ divergence }) => divergence.message, ({ divergence: { exact, lowVariance } }) => ({ estimate: (exact ?? lowVariance).message })],
  ['D_tok', ({ divergence }) => divergence.occupancy, ({ divergence: { exact, lowVariance } }) => ({ estimate: (exact ?? lowVariance).occupancy })],
  ['L_seq, as the objective has it', ({ lSeq }) => lSeq, ({ surrogate: { value } }) => ({ estimate: value })],
  ['L_seq, by plain ratios', ({ lSeq }) => lSeq, ({ surrogate: { unbiased, low, high } }) => ({ estimate: unbiased, low, high })],
  ['improvement', ({ improvement }) => improvement, ({ improvement }) => improvement],
  ['certificate (Theorem 3.4)', (_, { tokens }, i) => tokens.steps[i].thm34Step.bound, ({ certificate: { bound } }) => ({ estimate: bound })],
]

/** Every estimate that was logged, over the updates of a run for which it was. */
export const compareEstimates = (stages: readonly FollowedStage[]): EstimateCheck[] =>
  CHECKS.flatMap(([name, exactOf, loggedOf]) => {
    const pairs = stages.flatMap(({ records, exact }) => records.flatMap((record, i) => {
      const logged = loggedOf(record)
      return logged ? [{ exact: exactOf(exact.steps[i], exact, i), logged }] : []
    }))
    if (pairs.length === 0) return []
    const errors = pairs.map(({ exact, logged }) => logged.estimate - exact)
    return [{
      name,
      updates: pairs.length,
      exact: plainMean(pairs.map(({ exact }) => exact)),
      bias: studentEstimate(errors),
      rootMeanSquare: Math.sqrt(plainMean(errors.map((error) => error * error))),
      covered: pairs[0].logged.low === undefined ? null : pairs.filter(({ exact, logged: { low, high } }) => low! <= exact && exact <= high!).length,
    }]
  })
