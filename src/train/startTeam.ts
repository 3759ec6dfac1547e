import type { Config } from './config.js'
import { openLanguageAgents } from './languageTeam.js'
import { adamStart } from './model/adam.js'
import { stream } from './streams.js'
import type { Team } from './team.js'
import { warmUp, type WarmUpOptions } from './warmup.js'

/**
 * The untrained team of a configuration: decoders from scratch, warmed up; or pretrained language models.
 *
 * @param options.folder of the run, if it is one that is kept
 * @returns a team that the caller disposes
 * @throws InputError naming file, field or tensor of a model that cannot be loaded
 */
export const startTeam = async (config: Config, { folder, onNotice, ...options }: WarmUpOptions & { readonly folder?: string; readonly onNotice?: (text: string) => void } = {}): Promise<Team> => {
  if (!config.team.members) return warmUp(config, options)
  const { agents, release } = openLanguageAgents(config, folder, onNotice)
  const { seed, team: { router }, trustRegion: { beta, delta } } = config
  return {
    router,
    release,
    agents: agents.map(({ initial, ...agent }, i) => {
      const theta = initial(stream(seed, 'warm-up', i))
      return { ...agent, theta, optimiser: adamStart(theta.size), beta: beta.initial, delta: delta[i] }
    }),
  }
}
