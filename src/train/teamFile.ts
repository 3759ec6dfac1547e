/** team.json: a team of language models as a file that points at them. */
import { existsSync } from 'node:fs'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { z } from 'zod'
import { InputError } from '../util/errors.js'
import { readJson, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'
import { pulledModels } from './model/source.js'
import { agentsSchema, type TeamFileAgent } from './teamSchema.js'

export type { TeamFileAgent }

const teamSchema = z.strictObject({
  /** In the order in which they speak. */
  agents: agentsSchema,
  /** Which agent speaks at turn t: router[t mod its length]. Default: in turn. */
  router: z.array(z.int().min(0)).min(1).optional(),
})

export interface TeamFile {
  readonly agents: readonly TeamFileAgent[]
  readonly router: readonly number[]
}

/**
 * Read a team. Paths are resolved against the file's folder; agents that name the same model resolve to the same text, so that their base
 * is loaded once.
 *
 * @throws InputError naming file, field and what it holds; also when a model or adapter is not there
 */
export const readTeamFile = (file: string): TeamFile => {
  const { agents, router } = validate(teamSchema, readJson(file), file)
  const found = locateAgents(agents, file)
  router?.forEach((agent, turn) => {
    if (agent >= agents.length) {
      throw new InputError(`${file}: router[${turn}]: holds ${agent}; expected an agent, 0 to ${agents.length - 1}`)
    }
  })
  return { agents: found, router: router ?? agents.map((_, i) => i) }
}

/**
 * Agents with their paths resolved against the folder of the file that names them; agents that name the same model get the same text.
 *
 * @param field what the list of agents is called there
 * @throws InputError naming file, field and what it holds, when a model or adapter is not there
 */
export const locateAgents = (agents: readonly TeamFileAgent[], file: string, field = 'agents'): TeamFileAgent[] => {
  const at = dirname(resolve(file))
  return agents.map((agent, i) => {
    const own = place(at, agent.model)
    if (!existsSync(own) && !pulledModels().includes(agent.model)) {
      throw new InputError(
        `${file}: ${field}[${i}].model: holds ${show(agent.model)}; no such folder or GGUF file, and no pulled model of that name`,
      )
    }
    const model = existsSync(own) ? own : agent.model
    if (agent.adapter === undefined) return { ...agent, model }
    const adapter = place(at, agent.adapter)
    if (!existsSync(join(adapter, 'adapter_config.json'))) {
      throw new InputError(`${file}: ${field}[${i}].adapter: holds ${show(agent.adapter)}; a folder with adapter_config.json is needed`)
    }
    return { ...agent, model, adapter }
  })
}

const place = (at: string, path: string): string => (isAbsolute(path) ? path : join(at, path))

/**
 * Write a team, atomically. Paths that lie in or beside the file's folder are written relative to it.
 *
 * @throws InputError when it cannot be written
 */
export const writeTeamFile = (file: string, { agents, router }: TeamFile): void => {
  const at = dirname(resolve(file))
  const written = (path: string): string => (existsSync(path) || isAbsolute(path) ? relative(at, resolve(path)) || '.' : path)
  const content = {
    agents: agents.map((agent) => ({
      ...agent,
      model: written(agent.model),
      ...(agent.adapter !== undefined && { adapter: written(agent.adapter) }),
    })),
    router,
  }
  writeAtomic(file, `${JSON.stringify(content, null, 2)}\n`)
}
