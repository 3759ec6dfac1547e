import { InputError } from '../util/errors.js'
import { modelOf, parseConfig, type Config } from './config.js'
import { environment, limitsOf } from './environment.js'

export interface SwapOptions {
  /** The run whose team it is; its configuration comes beside it. */
  readonly run: string
  /** Whose place is taken; the number of its agents: one is added. */
  readonly agent: number
  /** Probe contexts of stage 0; 0: none. */
  readonly align: number
  /** An agent of a run, and that run's configuration. */
  readonly with?: { readonly run: string; readonly agent: number; readonly config: Config }
  /** Its seed, model and warm-up make the new agent. */
  readonly like?: Config
  /** In place of the run's. */
  readonly freeze?: readonly number[]
  readonly stages?: number
  /** Default: the run's + 1. */
  readonly seed?: number
}

/**
 * The configuration of a run that goes on with another agent, or one more: complete, and all else as in the run.
 *
 * @throws InputError when what is asked for is no configuration
 */
export const swappedConfig = (own: Config, { run, agent, align, with: other, like, freeze, stages, seed = own.seed + 1 }: SwapOptions): Config => {
  const { team, trustRegion, gamma, order } = own
  if (team.members) throw new InputError(`${run}: its agents are language models; another model or adapter is swapped in by naming it in the team.json of the run`)
  if (like?.team.members) throw new InputError('--with: is a configuration of language models, and the agents of the run are decoders that are trained from scratch')
  if (like && vocabularyOf(like) !== vocabularyOf(own)) {
    throw new InputError(`--with: is a configuration of ${like.task.name}, whose agents have another vocabulary; one of ${own.task.name} is needed`)
  }
  const adds = agent === team.agents
  const agents = team.agents + (adds ? 1 : 0)
  const models = Array.from({ length: agents }, (_, i) => {
    if (i !== agent) return modelOf(own, i)
    return other ? modelOf(other.config, Math.min(other.agent, other.config.team.agents - 1)) : like?.model ?? modelOf(own, adds ? agent - 1 : agent)
  })
  const [small, large] = [limitsOf(own.task, team.agents).turns, limitsOf(own.task, agents).turns]
  return parseConfig({
    ...own,
    seed,
    team: {
      ...team, agents, models: models.every((model) => JSON.stringify(model) === JSON.stringify(own.model)) ? null : models,
      router: adds ? [...team.router, agent] : team.router, frozen: freeze ?? team.frozen,
    },
    // γ that followed from the length of an episode follows from the new one.
    gamma: small !== large && gamma === (small > 1 ? 1 - 1 / small : 0.5) ? undefined : gamma,
    order: adds && Array.isArray(order) ? [...order, agent] : order,
    trustRegion: { ...trustRegion, delta: adds ? [...trustRegion.delta, trustRegion.delta[agent - 1]] : trustRegion.delta },
    warmup: like?.warmup ?? own.warmup,
    stages: stages ?? own.stages,
    start: { run, agent, with: other ? { run: other.run, agent: other.agent } : null, seed: like?.seed ?? seed, align: { contexts: align } },
  }, 'swap')
}

const vocabularyOf = ({ task, team: { agents } }: Config): string | undefined => (task.name === 'benchmark' ? undefined : environment(task, agents).alphabet)
