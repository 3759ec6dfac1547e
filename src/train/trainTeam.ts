import type { Random } from '../util/random.js'
import { stream } from './streams.js'
import { coordination, type Coordination } from './coordination.js'
import { updatesInStage, type Config } from './config.js'
import { evaluateTeam, type Evaluation } from './evaluateTeam.js'
import { openEnvironment, type OpenEnvironment } from './openEnvironment.js'
import { refilled } from './refill.js'
import { rollout, type Rollouts } from './rollout.js'
import { probesAtStart, stage, stageStart, type StageOptions, type StageState, type UpdateRecord } from './stage.js'
import type { Team } from './team.js'
import { tf } from './backend.js'
import { disposeCritic, newCritic } from './critic.js'

/** One line of evaluations.jsonl. */
export interface EvaluationRecord extends Evaluation {
  /** Updates done before it; 0 is the untrained team. */
  readonly update: number
  readonly stage: number
  /** Before and after training, where `diagnostics.coordination` asks for it. */
  readonly coordination?: Coordination
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
  const { task, problems } = environment
  const { gamma, seed, stages, evaluation: { every }, rollout: { prompts, refill, ...sampling }, diagnostics } = config

  const play = (count: number, drawn: Random, random: Random) => rollout(task, team, problems('train', count, drawn), { ...sampling, gamma, random })
  const sample: StageOptions['sample'] = async (stage, position) => {
    const first = await play(prompts, stream(seed, 'problems', stage), stream(seed, 'rollouts', stage, position))
    if (refill === 0) return first
    return refilled(first, refill, (count, round) =>
      play(count, stream(seed, 'refill', stage, position, round, 0), stream(seed, 'refill', stage, position, round, 1)))
  }

  const probe: StageOptions['probe'] = async (stage, position, samples) => {
    const all: Rollouts[] = []
    for (let k = 0; k < samples; k++) {
      const random = stream(seed, 'diagnostics', stage, position, k)
      all.push(await rollout(task, team, problems('train', diagnostics.prompts, stream(seed, 'diagnostics', stage)), { ...sampling, group: diagnostics.group, gamma, random }))
    }
    return all
  }

  /** Evaluate where it is due, and pass the state on: what a state needs is on record before the state is. */
  const reached = async (state: StageState): Promise<void> => {
    const { stage, position } = state
    if (position === 0 && (stage === 0 || stage === stages || (every > 0 && stage % every === 0))) {
      const evaluation = await evaluateHeldOut(config, team, stage, environment)
      const isEnd = stage === 0 || stage === stages
      const measured = diagnostics.coordination && isEnd ? { coordination: await coordinationHeldOut(config, team, stage, environment) } : {}
      onEvaluation?.({ update: stage * updatesInStage(config), stage, ...evaluation, ...measured })
    }
    await onState?.(state)
  }

  if (!from) begin(config, team)
  let state = from ?? stageStart(config, 0, await sample(0, 0), await probesAtStart(config, 0, probe))
  if (!from) await reached(state)
  const onFinished: StageOptions['onUpdate'] = async (records, next) => {
    for (const record of records) onUpdate?.(record)
    await reached(next)
  }
  while (state.stage < stages && !signal?.aborted) state = await stage(state, { config, team, sample, probe, onUpdate: onFinished, signal })
  return state
}

/** What a method keeps beside the agents: a critic that has not learned, the agents as they are now. */
const begin = ({ seed, advantage, objective, critic }: Config, team: Team): void => {
  if (team.critic) disposeCritic(team.critic)
  team.critic = advantage.baseline === 'value' ? newCritic({ critic }, stream(seed, 'critic')) : undefined
  for (const agent of team.agents) {
    agent.initial?.dispose()
    agent.initial = objective.reference === 'initial' ? tf.clone(agent.theta) : undefined
  }
}

/** Evaluate a team on the held-out problems of a configuration: always the same problems, each stage with sampling of its own. */
export const evaluateHeldOut = async (config: Config, team: Team, stage: number, environment?: OpenEnvironment): Promise<Evaluation> => {
  const { task, posed, sampling } = await heldOut(config, environment)
  const { seed } = config
  return evaluateTeam(task, team, posed, { ...sampling, random: stream(seed, 'evaluation', stage), bootstrap: stream(seed, 'bootstrap', stage) })
}

/** Coordination of a team on the held-out problems of a configuration. */
export const coordinationHeldOut = async (config: Config, team: Team, stage: number, environment?: OpenEnvironment): Promise<Coordination> => {
  const { task, posed, sampling } = await heldOut(config, environment)
  const { seed } = config
  return coordination(task, team, posed, { ...sampling, random: stream(seed, 'coordination', stage), bootstrap: stream(seed, 'coordination', stage, 1) })
}

/** The held-out problems of a configuration, and how they are played. */
const heldOut = async (config: Config, environment?: OpenEnvironment) => {
  const { testTask: task, problems } = environment ?? await openEnvironment(config)
  const { seed, evaluation: { problems: count, temperature }, rollout: { maxTokens, topP, topK, batch } } = config
  return { task, posed: problems('test', count, stream(seed, 'evaluation problems')), sampling: { temperature, maxTokens, topP, topK, batch } }
}
