import { stream } from './streams.js'
import type { Config } from './config.js'
import { environment } from './environment.js'
import { evaluateTeam, type Evaluation } from './evaluateTeam.js'
import { rollout } from './rollout.js'
import { stage, stageStart, type StageState, type UpdateRecord } from './stage.js'
import type { Team } from './team.js'

/** One line of evaluations.jsonl. */
export interface EvaluationRecord extends Evaluation {
  /** Updates done before it; 0 is the untrained team. */
  readonly update: number
  readonly stage: number
}

export interface TrainOptions {
  /** Continue from here instead of the start; the team must be the one that belongs to it. */
  readonly from?: StageState
  /** Called after each update, with all that the next one needs; the run goes on when it returns. */
  readonly onUpdate?: (record: UpdateRecord, next: StageState) => void | Promise<void>
  readonly onEvaluation?: (record: EvaluationRecord) => void | Promise<void>
  /** Stops the run between two updates. */
  readonly signal?: AbortSignal
}

/**
 * Train a team in place: stage after stage (Algorithm 1), with evaluations on held-out problems on the way. It writes nothing: a run
 * that is kept in a folder is `run.ts`.
 *
 * @returns where it ended: all stages done, or where the signal stopped it
 */
export const trainTeam = async (config: Config, team: Team, { from, onUpdate, onEvaluation, signal }: TrainOptions = {}): Promise<StageState> => {
  const { task, problems } = environment(config.task, config.team.agents)
  const { prompts, group, temperature, maxTokens } = config.rollout
  const { gamma, seed } = config

  const sample: Parameters<typeof stage>[1]['sample'] = (stage, position) =>
    rollout(task, team, problems('train', prompts, stream(seed, 'problems', stage)),
      { group, temperature, maxTokens, gamma, random: stream(seed, 'rollouts', stage, position) })

  const evaluate = async (stage: number): Promise<void> => {
    const evaluation = await evaluateConfigured(config, team, stage)
    await onEvaluation?.({ update: stage * team.agents.length, stage, ...evaluation })
  }
  const isDue = (stage: number): boolean =>
    stage === config.stages || (config.evaluation.every > 0 && stage % config.evaluation.every === 0)

  let state = from ?? stageStart(config, 0, await sample(0, 0))
  if (!from) await evaluate(0)
  while (state.stage < config.stages && !signal?.aborted) {
    state = await stage(state, { config, team, sample, signal, onUpdate: async (record, next) => onUpdate?.(record, next) })
    if (state.position === 0 && isDue(state.stage)) await evaluate(state.stage)
  }
  return state
}

/** Evaluate a team on the held-out problems of a configuration: the same problems whenever, fresh sampling for each stage. */
export const evaluateConfigured = (config: Config, team: Team, stage: number): Promise<Evaluation> => {
  const { task, problems } = environment(config.task, config.team.agents)
  const { seed, evaluation: { problems: count, temperature }, rollout: { maxTokens } } = config
  return evaluateTeam(task, team, problems('test', count, stream(seed, 'evaluation problems')), {
    temperature,
    maxTokens,
    random: stream(seed, 'evaluation', stage),
    bootstrap: stream(seed, 'bootstrap', stage),
  })
}
