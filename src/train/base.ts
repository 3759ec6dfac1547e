/** A warmed-up team that many runs start from: a run folder of no updates, so that it is warmed up once. */
import { InputError } from '../util/errors.js'
import { show } from '../util/validate.js'
import { readCheckpoint, updatesDone } from './checkpoints.js'
import type { Config } from './config.js'
import { firstDifference, readRun } from './runFolder.js'
import type { Team } from './team.js'

/** Whether a run starts from a team that is warmed up: not from another run's, nor from language models. */
export const isWarmedUp = ({ start, team: { members } }: Pick<Config, 'start' | 'team'>): boolean => !start && !members

/** What of a configuration a warmed-up team depends on. */
export const warmUpOf = ({ seed, task, team: { agents, router, shared, models }, model, warmup }: Config) =>
  ({ seed, task, team: { agents, router, shared, models }, model, warmup })

/**
 * The team of a run folder of no updates.
 *
 * @param config of the run that is to start from it: a run from this team is then the same as one that warms up its own
 * @returns a team that the caller disposes
 * @throws InputError when the folder holds no such team, or one that this configuration would not warm up: by field
 */
export const readBase = (folder: string, config: Config): Team => {
  const run = readRun(folder)
  if (config.team.members) throw new InputError(`${folder}: cannot be the base of language models (team.agents): they are not warmed up`)
  if (run.config.team.members) throw new InputError(`${folder}: team.agents: holds language models; a base is a team that was warmed up`)
  const other = firstDifference(warmUpOf(config), warmUpOf(run.config))
  if (other) throw new InputError(`${folder}: ${other.path}: holds ${show(other.b)}; the run that should start from it has ${show(other.a)}`)
  const checkpoint = readCheckpoint(folder, run.config)
  if (!checkpoint) throw new InputError(`${folder}: its team is not warmed up yet (no checkpoint); run it again with --resume`)
  const done = updatesDone(checkpoint.saved.state)
  if (done > 0) throw new InputError(`${folder}: holds a team after ${done} updates; a base has none (teamtr train --stages 0)`)
  return checkpoint.team
}
