import { stream } from './streams.js'
import { updatesInStage, type Config } from './config.js'
import { evaluateTeam, type Evaluation } from './evaluateTeam.js'
import { openEnvironment, type OpenEnvironment } from './openEnvironment.js'
import { rollout } from './rollout.js'
import { stage, stageStart, type StageOptions, type StageState, type UpdateRecord } from './stage.js'
import type { Team } from './team.js'

/** One line of evaluations.jsonl. */
export interface EvaluationRecord extends Evaluation {
  /** Updates done before it; 0 is the untrained team. */
  readonly update: number
  readonly stage: number
}

export interface TrainOptions {
  /** Of the configuration; default: it is opened here. */
  readonly environment?: OpenEnvironment
  /** Continue from here instead of the start; the team must be the one that belongs to it. */
  readonly from?: StageState
  /** Called after each update. */
  readonly onUpdate?: (record: UpdateRecord) => void
  readonly onEvaluation?: (record: EvaluationRecord) => void
  /** Called whenever the run could later go on `from` here, with the team as it then is: before the first update, and after each. */
  readonly onState?: (state: StageState) => void | Promise<void>
  /** Stops the run between two updates. */
  readonly signal?: AbortSignal
}

/**
 * Train a team in place: stage after stage (Algorithm 1), with evaluations on held-out problems on the way. It writes nothing: a run
 * that is kept in a folder is run.ts.
 *
 * @returns where it ended: all stages done, or where the signal stopped it
 */
export const trainTeam = async (
  config: Config, team: Team, { environment: given, from, onUpdate, onEvaluation, onState, signal }: TrainOptions = {},
): Promise<StageState> => {
  const environment = given ?? await openEnvironment(config)
  const { gamma, seed, stages, evaluation: { every }, rollout: { prompts, ...sampling } } = config

  const sample: StageOptions['sample'] = (stage, position) =>
    rollout(environment.task, team, environment.problems('train', prompts, stream(seed, 'problems', stage)),
      { ...sampling, gamma, random: stream(seed, 'rollouts', stage, position) })

  /** Evaluate where it is due, and pass the state on: what a state needs is on record before the state is. */
  const reached = async (state: StageState): Promise<void> => {
    const { stage, position } = state
    if (position === 0 && (stage === 0 || stage === stages || (every > 0 && stage % every === 0))) {
      onEvaluation?.({ update: stage * updatesInStage(config), stage, ...await evaluateHeldOut(config, team, stage, environment) })
    }
    await onState?.(state)
  }

  let state = from ?? stageStart(config, 0, await sample(0, 0))
  if (!from) await reached(state)
  const onFinished: StageOptions['onUpdate'] = async (records, next) => {
    for (const record of records) onUpdate?.(record)
    await reached(next)
  }
  while (state.stage < stages && !signal?.aborted) state = await stage(state, { config, team, sample, onUpdate: onFinished, signal })
  return state
}

/** Evaluate a team on the held-out problems of a configuration: always the same problems, each stage with sampling of its own. */
export const evaluateHeldOut = async (config: Config, team: Team, stage: number, environment?: OpenEnvironment): Promise<Evaluation> => {
  const { testTask, problems } = environment ?? await openEnvironment(config)
  const { seed, evaluation: { problems: count, temperature }, rollout: { maxTokens, topP, topK, batch } } = config
  return evaluateTeam(testTask, team, problems('test', count, stream(seed, 'evaluation problems')), {
    temperature,
    maxTokens,
    topP,
    topK,
    batch,
    random: stream(seed, 'evaluation', stage),
    bootstrap: stream(seed, 'bootstrap', stage),
  })
}
