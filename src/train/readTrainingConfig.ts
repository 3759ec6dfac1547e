import { dirname, isAbsolute, join, resolve } from 'node:path'
import { InputError } from '../util/errors.js'
import { readConfig } from '../util/files.js'
import { isObject } from '../util/objects.js'
import { show } from '../util/validate.js'
import { locateAgents, readTeamFile } from './teamFile.js'
import { agentSchema } from './teamSchema.js'

/**
 * A training configuration as a file holds it, YAML or JSON, ready for `parseConfig`: with `team: {file: team.json}` replaced by the team that the
 * file describes, and with paths of models, adapters, records and runs, which are relative to the configuration's folder, made absolute.
 *
 * @throws InputError naming file and field: what cannot be read, and models, adapters or records that are not there
 */
export const readTrainingConfig = (file: string): unknown => {
  const config = readConfig(file) ?? {}
  if (!isObject(config)) return config
  return { ...locateFiles(config, file), ...(isObject(config.start) && { start: started(config.start, file) }) }
}

/** The same of a configuration, or of a part of one, that stands in a file; but for the runs that it starts from. @throws InputError as above */
export const locateFiles = (config: Plain, file: string): Plain =>
  ({ ...config, ...(isObject(config.team) && { team: located(config.team, file) }), ...(isObject(config.task) && { task: placed(config.task, file) }) })

type Plain = Readonly<Record<string, unknown>>

const located = ({ file: pointer, ...team }: Plain, file: string): Plain => {
  if (pointer !== undefined) {
    if (typeof pointer !== 'string') throw new InputError(`${file}: team.file: holds ${show(pointer)}; expected the path of a team.json`)
    if (team.agents !== undefined) throw new InputError(`${file}: team.agents: holds ${show(team.agents)}; team.file names the agents already`)
    return { ...readTeamFile(absolute(pointer, file)), ...team }
  }
  const field = ['agents', 'members'].find((name) => Array.isArray(team[name]))
  if (field === undefined) return team
  const agents = agentSchema.array().safeParse(team[field])
  return agents.success ? { ...team, [field]: locateAgents(agents.data, file, `team.${field}`) } : team // parseConfig says what is wrong
}

const placed = (task: Plain, file: string): Plain => ({
  ...task,
  ...(typeof task.file === 'string' && { file: absolute(task.file, file) }),
  ...(isObject(task.test) && { test: placed(task.test, file) }),
})

const started = (start: Plain, file: string): Plain => ({
  ...start,
  ...(typeof start.run === 'string' && { run: absolute(start.run, file) }),
  ...(isObject(start.with) && { with: started(start.with, file) }),
})

const absolute = (path: string, file: string): string => (isAbsolute(path) ? path : join(dirname(resolve(file)), path))
