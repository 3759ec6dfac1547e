/** A run folder's team, exactly: the last stage that its checkpoints enclose, on problems of the run's own. */
import type { StageInput } from '../theory/json.js'
import { InputError } from '../util/errors.js'
import { checkpointNames, readCheckpoint, updatesDone } from './checkpoints.js'
import { contextSpace, type ContextSpace } from './contextSpace.js'
import { environment } from './environment.js'
import { evaluateTeam, type Evaluation } from './evaluateTeam.js'
import { stageBetween, type ExactStage } from './exactStage.js'
import { rewardEstimate, type Estimate } from './estimate.js'
import { exactReturn, exactTeam, type ExactReturn, type ExactTeam } from './exactTeam.js'
import { readRun } from './runFolder.js'
import type { UpdateRecord } from './stage.js'
import { stream } from './streams.js'
import { disposeTeam } from './team.js'

export interface ExportOptions {
  /** Name of a checkpoint; default: the latest. */
  readonly checkpoint?: string
  /** The held-out problems that the run evaluates on, or those that the stage learned from. */
  readonly on: 'held-out' | 'training'
  /** Only so many of them, the first; default: all. */
  readonly problems?: number
  /** Largest number of contexts times messages. */
  readonly limit?: number
  /** Contexts and prefixes of messages that were read. */
  readonly onProgress?: (done: number, total: number) => void
}

/** A team of the run: what is exact, and what sampling says of it on the same problems, one episode each. */
export interface ExportedTeam {
  readonly updates: number
  readonly exact: ExactReturn
  readonly sampled: Evaluation
  /** Σ r of the sampled episodes, with an interval that holds for any number of them, and where all are the same. */
  readonly reward: Estimate
}

export interface ExportedRun {
  readonly space: ContextSpace
  /** Problems, repetitions counted. */
  readonly problems: number
  /** Before and after the stage, or the one team that there is. */
  readonly teams: readonly ExportedTeam[]
  /** From the checkpoint before to this one; null where there is only one. */
  readonly stage: ExactStage | null
  /** What the run logged of the updates in between, in their order. */
  readonly records: readonly UpdateRecord[]
  /** For a theory case: the stage, or one in which nothing moves; radii are D_tok of whole messages, Â is the true advantage. */
  readonly input: StageInput
}

/**
 * @throws InputError when the folder holds no run or no checkpoint, or there is too much to enumerate
 */
export const exportRun = async (folder: string, { checkpoint, on, problems: count, limit, onProgress }: ExportOptions): Promise<ExportedRun> => {
  const { config, updates } = readRun(folder)
  const names = checkpointNames(folder)
  if (names.length === 0) throw new InputError(`${folder}: holds no checkpoint yet`)
  const last = checkpoint === undefined ? names.length - 1 : names.findIndex((name) => Number(name) === Number(checkpoint))
  if (last < 0) throw new InputError(`--checkpoint: holds ${checkpoint}; the run has ${names.join(' and ')}`)
  const { seed, gamma, rollout: { prompts, maxTokens, temperature } } = config
  const [all, ofWhom] = on === 'held-out' ? [config.evaluation.problems, 'those that the run is evaluated on'] : [prompts, 'those of a stage']
  if (count !== undefined && count > all) throw new InputError(`--problems: holds ${count}; expected at most ${all}, ${ofWhom}`)
  const read = names.slice(Math.max(0, last - 1), last + 1).map((name) => readCheckpoint(folder, config, name)!)

  try {
    const { task, problems } = environment(config.task, config.team.agents)
    const played = (on === 'held-out'
      ? problems('test', all, stream(seed, 'evaluation problems'))
      : problems('train', all, stream(seed, 'problems', read[0].saved.state.stage))).slice(0, count)
    const space = contextSpace(task, read[0].team, played, { gamma, maxTokens, limit })
    const exact: ExactTeam[] = []
    const teams: ExportedTeam[] = []
    for (const [i, { team, saved: { state } }] of read.entries()) {
      exact.push(await exactTeam(space, team, { temperature, onProgress: (done, total) => onProgress?.(i * total + done, read.length * total) }))
      const sampled = await evaluateTeam(task, team, played, {
        temperature, maxTokens, random: stream(seed, 'evaluation', state.stage), bootstrap: stream(seed, 'bootstrap', state.stage),
      })
      teams.push({ updates: updatesDone(state), exact: exactReturn(space, exact[i]), sampled, reward: rewardEstimate(sampled.rewards) })
    }

    const records = read.length < 2 ? [] : updates.filter(({ update }) => update > teams[0].updates && update <= teams[1].updates)
    const stage = stageBetween(space, exact[0], exact[exact.length - 1], records.map(({ agent }) => agent))
    return {
      space,
      problems: played.length,
      teams,
      stage: read.length < 2 ? null : stage,
      records,
      input: {
        mdp: space.mdp,
        teams: stage.teams.map(({ policy }) => policy),
        order: stage.stage.order,
        radii: stage.steps.map(({ divergence }) => divergence.occupancy),
        advantageEstimate: stage.stage.teams.slice(0, -1).map(({ A }) => A),
      },
    }
  } finally {
    read.forEach(({ team }) => disposeTeam(team))
  }
}
