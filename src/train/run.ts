import { InputError } from '../util/errors.js'
import { writeAtomic } from '../util/files.js'
import { random } from '../util/random.js'
import { updatesInStage, type Config } from './config.js'
import { checkLatest, checkpointNames, readCheckpoint, updatesDone, writeCheckpoint, type Saved } from './checkpoints.js'
import { exportTeam } from './exportTeam.js'
import { checkTemporaryFolder } from './graph.js'
import { openEnvironment, type OpenEnvironment } from './openEnvironment.js'
import { checkStart, replaceAgent } from './replacement.js'
import { createRun, fileIn, lengthOf, lock, openLines, readRun, resumedConfig, writeConfig, type RecordedRun } from './runFolder.js'
import { startTeam } from './startTeam.js'
import type { StageState, UpdateRecord } from './stage.js'
import { cloneTeam, disposeTeam, type Team } from './team.js'
import { trainTeam, type EvaluationRecord } from './trainTeam.js'
import { checkMemory } from './warmup.js'

export interface RunOptions {
  /** The run's folder. */
  readonly folder: string
  /** Continue the run in the folder instead of starting one. */
  readonly resume?: boolean
  /** Name of the engine that computes, for the record. */
  readonly engine: string
  /** What the configuration came from, for messages. */
  readonly where?: string
  /** Start from a copy of this team instead of a new one; it must be one that `config` describes. */
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
    // What cannot be is found, and what the configuration points at is opened, before anything is written.
    checkTemporaryFolder()
    if (!config.team.members) checkMemory(config, options.where ?? 'config')
    if (config.start && !options.base) checkStart(config, config.start)
    const environment = await openEnvironment(config)
    for (const split of ['train', 'test'] as const) environment.problems(split, 1, random(0))
    const models = config.team.members && !options.base ? await startTeam(config, { folder: options.folder, onNotice: options.onNotice }) : undefined
    let run: ReturnType<typeof createRun>
    try {
      run = createRun(options.folder, config)
    } catch (error) {
      if (models) disposeTeam(models)
      throw error
    }
    try {
      return await continueRun(config, { environment, team: models }, options)
    } catch (error) {
      // Before the first checkpoint there is nothing to continue from, and a folder would stand in the way of the corrected run.
      if (checkpointNames(options.folder).length === 0) run.undo()
      throw error
    } finally {
      run.unlock()
    }
  }
  const recorded = resumedConfig(options.folder, undefined, '')
  const unlock = lock(options.folder)
  try {
    // First whether the run is what it was, then whether it is the one that is wanted.
    checkLatest(options.folder, recorded)
    const own = resumedConfig(options.folder, config, options.where ?? 'config')
    const environment = await openEnvironment(own)
    return await continueRun(own, { environment, ...readCheckpoint(options.folder, own, undefined, options.onNotice) }, options)
  } finally {
    unlock()
  }
}

/** Where a run goes on from: without a team at the start, without `saved` before its first checkpoint. */
interface Opened {
  readonly environment: OpenEnvironment
  readonly team?: Team
  readonly saved?: Saved
}

const continueRun = async (config: Config, { environment, saved, team: opened }: Opened, options: RunOptions): Promise<RunResult> => {
  const { folder, engine, base, onProgress, onNotice, signal } = options
  const { stages, checkpoint: { every } } = config
  const total = stages * updatesInStage(config)
  const done = saved ? updatesDone(saved.state) : 0
  if (done > total) {
    const least = Math.ceil(done / updatesInStage(config))
    throw new InputError(`${options.where ?? 'config'}: stages: holds ${stages}; the run in ${folder} has done ${done} updates: expected at least ${least}`)
  }
  // There is a checkpoint before there is a line.
  if (!saved && lengthOf(fileIn.log(folder)) > 0) {
    const gone = `no checkpoint is there to continue from: put ${fileIn.checkpoints(folder)} back, or begin anew in another folder`
    throw new InputError(`${folder}: log.jsonl holds updates, but ${gone}`)
  }
  const log = openLines(fileIn.log(folder), saved?.log)
  const evaluations = openLines(fileIn.evaluations(folder), saved?.evaluations)
  if (saved && saved.engine !== engine && done < total) {
    onNotice?.(`the run was begun on ${saved.engine} and goes on on ${engine}: not quite the numbers of an unbroken run`)
  }
  if (options.resume) writeConfig(folder, config)
  log.cut()
  evaluations.cut()

  const team = opened ?? (base && copyFor(config, base)) ?? await begin(config, options)
  let kept = saved?.state
  const keep = async (state: StageState): Promise<void> => {
    await writeCheckpoint(folder, config, team, { engine: saved?.engine ?? engine, log: log.mark(), evaluations: evaluations.mark(), state })
    kept = state
  }
  const end = await trainTeam(config, team, {
    environment,
    from: kept,
    signal,
    onUpdate: (record) => {
      log.append(record)
      onProgress?.('training', record.update, total, `return ${record.return.estimate.toFixed(3)}`)
      options.onUpdate?.(record)
    },
    onEvaluation: (record) => {
      evaluations.append(record)
      options.onEvaluation?.(record)
    },
    onState: async (state) => {
      const done = updatesDone(state)
      if (done % every === 0 || done === total) await keep(state)
    },
  })
  if (end !== kept) await keep(end)
  if (config.team.members) await exportTeam(folder, config, team)
  return { ...readRun(folder), team, finished: updatesDone(end) >= total }
}

/** The team that a new run starts with. */
const begin = async (config: Config, { folder, onProgress, onNotice }: RunOptions): Promise<Team> => {
  if (!config.start) return startTeam(config, { folder, onNotice, onProgress: (done, steps, loss) => onProgress?.('warm-up', done, steps, `loss ${loss.toFixed(3)}`) })
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
