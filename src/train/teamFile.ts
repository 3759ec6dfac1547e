/** team.json: a team of language models as a file that points at them. */
import { existsSync } from 'node:fs'
import { dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { z } from 'zod'
import { InputError } from '../util/errors.js'
import { readJson, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'
import { pulledModels } from './model/source.js'

const agentSchema = z.strictObject({
  /** What the agent is called; default: its number. */
  name: z.string().min(1).max(100).optional(),
  /** A Hugging Face folder or GGUF file, relative to the file, or the name of a pulled model. */
  model: z.string().min(1),
  /** A PEFT folder, relative to the file; none: the model as it is. */
  adapter: z.string().min(1).optional(),
  /** The role prompt: the content of the system message. */
  role: z.string().max(100_000).optional(),
})

const teamSchema = z.strictObject({
  /** In the order in which they speak. */
  agents: z.array(agentSchema).min(1).max(64),
  /** Which agent speaks at turn t: router[t mod its length]. Default: in turn. */
  router: z.array(z.int().min(0)).min(1).optional(),
})

/** One agent of a team: where its model and adapter lie (absolute paths, or the name of a pulled model), and its role. */
export type TeamFileAgent = z.output<typeof agentSchema>
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
  const at = dirname(resolve(file))
  const found = agents.map((agent, i) => {
    const model = place(at, agent.model)
    if (!existsSync(model) && !pulledModels().includes(agent.model)) {
      throw new InputError(
        `${file}: agents[${i}].model: holds ${show(agent.model)}; no such folder or GGUF file, and no pulled model of that name`,
      )
    }
    if (agent.adapter === undefined) return { ...agent, model: existsSync(model) ? model : agent.model }
    const adapter = place(at, agent.adapter)
    if (!existsSync(join(adapter, 'adapter_config.json'))) {
      throw new InputError(`${file}: agents[${i}].adapter: holds ${show(agent.adapter)}; a folder with adapter_config.json is needed`)
    }
    return { ...agent, model: existsSync(model) ? model : agent.model, adapter }
  })
  router?.forEach((agent, turn) => {
    if (agent >= agents.length) {
      throw new InputError(`${file}: router[${turn}]: holds ${agent}; expected an agent, 0 to ${agents.length - 1}`)
    }
  })
  return { agents: found, router: router ?? agents.map((_, i) => i) }
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
