import { InputError } from '../util/errors.js'
import { writeAtomic } from '../util/files.js'
import { updatesInStage, type Config } from './config.js'
import { readCheckpoint, updatesDone, writeCheckpoint } from './checkpoints.js'
import { checkStart, replaceAgent } from './replacement.js'
import { appendLine, createRun, cutTo, fileIn, lengthOf, readRun, reopenRun, type RecordedRun } from './runFolder.js'
import type { StageState, UpdateRecord } from './stage.js'
import { cloneTeam, type Team } from './team.js'
import { trainTeam, type EvaluationRecord } from './trainTeam.js'
import { warmUp } from './warmup.js'

export interface RunOptions {
  /** The run's folder. */
  readonly folder: string
  /** Continue the run in the folder instead of starting one. */
  readonly resume?: boolean
  /** Name of the engine that computes, for the record. */
  readonly engine: string
  /** What the configuration came from, for messages. */
  readonly where?: string
  /** Start from a copy of this team instead of warming one up; it must be one that `config` describes. */
  readonly base?: Team
  /** `total` steps of warm-up or alignment, or updates. */
  readonly onProgress?: (phase: 'warm-up' | 'alignment' | 'training', done: number, total: number, note: string) => void
  readonly onUpdate?: (record: UpdateRecord) => void
  readonly onEvaluation?: (record: EvaluationRecord) => void
  /** One line that the user should see. */
  readonly onNotice?: (text: string) => void
  readonly signal?: AbortSignal
}

export interface RunResult extends RecordedRun {
  /** The trained team: the caller disposes it. */
  readonly team: Team
  /** False when the signal stopped the run before its last update. */
  readonly finished: boolean
}

/**
 * Train a team in a run folder, so that it survives being killed.
 *
 * @param config left out: the folder's own, which needs `resume`
 * @throws InputError when the folder cannot be used, the run in it is another one, or its checkpoint is damaged; nothing is changed then
 */
export const runTraining = async (config: Config | undefined, options: RunOptions): Promise<RunResult> => {
  if (!options.resume) {
    if (!config) throw new InputError('a new run needs a configuration')
    if (config.start && !options.base) checkStart(config, config.start)
    const unlock = createRun(options.folder, config)
    return continueRun(config, undefined, options).finally(unlock)
  }
  const { config: own, unlock } = reopenRun(options.folder, config, options.where ?? 'config')
  try {
    return await continueRun(own, readCheckpoint(options.folder, own), options)
  } finally {
    unlock()
  }
}

const continueRun = async (config: Config, checkpoint: ReturnType<typeof readCheckpoint>, options: RunOptions): Promise<RunResult> => {
  const { folder, engine, base, onProgress, onNotice, signal } = options
  const [log, evaluations] = [fileIn.log(folder), fileIn.evaluations(folder)]
  const { stages, checkpoint: { every } } = config
  const total = stages * updatesInStage(config)
  if (checkpoint && checkpoint.saved.engine !== engine) {
    onNotice?.(`the run was begun on ${checkpoint.saved.engine} and goes on on ${engine}: not quite the numbers of an unbroken run`)
  }
  cutTo(log, checkpoint?.saved.logBytes ?? 0)
  cutTo(evaluations, checkpoint?.saved.evaluationBytes ?? 0)

  const team = checkpoint?.team ?? (base && copyFor(config, base)) ?? await begin(config, options)
  let kept = checkpoint?.saved.state
  const keep = async (state: StageState): Promise<void> => {
    await writeCheckpoint(folder, config, team, { engine, logBytes: lengthOf(log), evaluationBytes: lengthOf(evaluations), state })
    kept = state
  }
  const end = await trainTeam(config, team, {
    from: kept,
    signal,
    onUpdate: (record) => {
      appendLine(log, record)
      onProgress?.('training', record.update, total, `return ${record.return.estimate.toFixed(3)}`)
      options.onUpdate?.(record)
    },
    onEvaluation: (record) => {
      appendLine(evaluations, record)
      options.onEvaluation?.(record)
    },
    onState: async (state) => {
      const done = updatesDone(state)
      if (done % every === 0 || done === total) await keep(state)
    },
  })
  if (end !== kept) await keep(end)
  return { ...readRun(folder), team, finished: updatesDone(end) >= total }
}

/** The team that a new run starts with. */
const begin = async (config: Config, { folder, onProgress }: RunOptions): Promise<Team> => {
  if (!config.start) return warmUp(config, { onProgress: (done, steps, loss) => onProgress?.('warm-up', done, steps, `loss ${loss.toFixed(3)}`) })
  const { team, report } = await replaceAgent(config, config.start, { onProgress })
  writeAtomic(fileIn.swap(folder), `${JSON.stringify(report)}\n`)
  return team
}

/** A copy of a team with the β and δ that a configuration starts with. */
const copyFor = ({ trustRegion: { beta, delta } }: Config, base: Team): Team => {
  const team = cloneTeam(base)
  team.agents.forEach((agent, i) => Object.assign(agent, { beta: beta.initial, delta: delta[i] }))
  return team
}
