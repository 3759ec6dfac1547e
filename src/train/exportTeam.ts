/** A trained team of language models as files that other programs load. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { InputError } from '../util/errors.js'
import type { Config } from './config.js'
import { parameterTensors } from './model/hub.js'
import { writeAdapter, writeMerged } from './model/writeHub.js'
import type { Agent, Team } from './team.js'
import { writeTeamFile } from './teamFile.js'

/**
 * Write each agent's adapter as a PEFT folder `adapters/agent-0` … (fully tuned models as Hugging Face folders `models/agent-0` …), and the team
 * that they make as `team.json`, which `teamtr eval` takes. What an earlier call left there is replaced.
 *
 * @returns the path of team.json
 * @throws InputError when the agents are no language models, or a file cannot be written
 */
export const exportTeam = async (folder: string, { team: { members, router } }: Pick<Config, 'team'>, { agents }: Pick<Team, 'agents'>): Promise<string> => {
  if (!members) throw new InputError('team: its agents are decoders trained from scratch; only language models have adapters')
  const written = []
  for (const [i, agent] of agents.entries()) {
    const { name, role, model } = members[i]
    const at = await writeAgent(folder, i, agent, model)
    written.push({ name, role, ...(agent.pretrained!.lora ? { model, adapter: at } : { model: at }) })
  }
  const file = join(folder, 'team.json')
  writeTeamFile(file, { agents: written, router })
  return file
}

/** @returns the agent's folder */
const writeAgent = async (folder: string, i: number, { theta, pretrained }: Pick<Agent, 'theta' | 'pretrained'>, model: string): Promise<string> => {
  const { source, lora } = pretrained!
  const values = (await theta.data()) as Float32Array
  const at = join(folder, lora ? 'adapters' : 'models', `agent-${i}`)
  rmSync(at, { recursive: true, force: true })
  if (lora) writeAdapter(at, source.config, { lora, values }, model)
  else writeMerged(at, { ...source, tensors: parameterTensors(source.config, values) }, undefined, 'float32')
  return at
}
