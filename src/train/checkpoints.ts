/**
 * Checkpoints of a run: `checkpoints/000012/` after 12 updates, with all that the 13th needs.
 *
 *     agent-0.safetensors …  θ and Adam's moments, bit for bit; θ at the start of the run too, where the objective refers to it
 *     critic.safetensors     the same of the critic, where there is one
 *     config.json            of the run
 *     state.json             where the run stands, its rollouts, β and Adam's steps per agent, of the critic, and what the log was
 *     sha256                 of all these files, as sha256sum writes and checks it
 *
 * A checkpoint is written under a temporary name and renamed, so a folder with its final name is whole; what is damaged later is found by its SHA-256.
 * Random numbers need no state: each stream follows from the seed and its place (streams.ts).
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { hashOf } from '../util/binaryFile.js'
import { InputError, messageOf } from '../util/errors.js'
import { makeFolder, readJson, readText, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'
import { parseConfig, type Config } from './config.js'
import { criticLayout, type Critic } from './critic.js'
import { readVectors, writeVectors } from './model/checkpoint.js'
import { openLanguageAgents } from './languageTeam.js'
import { differenceOf, fileIn, firstDifference, markSchema, writeConfig } from './runFolder.js'
import type { StageState } from './stage.js'
import type { Agent, Pretrained, Team } from './team.js'
import { decodersOf } from './warmup.js'

const index = z.int().min(0)
const numbers = z.array(z.number())
const ids = z.array(index)

const messageSchema = z.strictObject({
  agent: index, turn: index, read: index, prompt: ids, tokens: ids, logProbs: numbers, samplingLogProbs: numbers, reward: z.number(),
})
const rolloutsSchema = z.strictObject({
  problems: z.array(z.string()),
  group: z.int().min(1),
  episodes: z.array(z.strictObject({ problem: index, messages: z.array(messageSchema), context: z.string(), reward: z.number(), return: z.number() })),
  sampled: z.strictObject({ returns: numbers, rewards: numbers, episodes: index, tokens: index }).optional(),
})

const stateSchema = z.strictObject({
  /** Of this layout of a checkpoint. */
  version: z.literal(2),
  /** That the run was begun on. */
  engine: z.string(),
  log: markSchema,
  evaluations: markSchema,
  agents: z.array(z.strictObject({
    beta: z.number(),
    delta: z.number(),
    adamSteps: index,
    /** Of a language model: which model it is (fingerprint.ts), and its adapter's LoraConfig. Its weights are not kept here. */
    model: z.string().optional(),
    tokenizer: z.string().optional(),
    lora: z.unknown().optional(),
  })),
  criticSteps: index.optional(),
  state: z.strictObject({
    stage: index,
    position: index,
    order: ids,
    rollouts: rolloutsSchema,
    sampledAt: index,
    logRatios: numbers,
    startReturns: numbers,
    steps: z.array(z.strictObject({ surrogate: z.number(), zeta: z.number(), radius: z.number(), rho: z.number(), fresh: z.boolean() })),
    probe: z.strictObject({ behaviour: rolloutsSchema, logRatios: numbers, current: rolloutsSchema }).nullable().default(null),
  }),
})

type SavedAgent = z.output<typeof stateSchema>['agents'][number]

/** What goes into state.json beside the team. */
export type Saved = Omit<z.output<typeof stateSchema>, 'version' | 'agents' | 'criticSteps' | 'state'> & { readonly state: StageState }

/** Updates done. */
export const updatesDone = ({ stage, position, order }: StageState): number => stage * order.length + position

/** An agent's vectors, and the critic's. */
const MOMENTS = ['theta', 'first', 'second'] as const

/** How many are kept. */
const KEEP = 2

/** Write a checkpoint and drop older ones. @throws InputError when it cannot be written */
export const writeCheckpoint = async (folder: string, config: Config, team: Team, saved: Saved): Promise<void> => {
  const all = fileIn.checkpoints(folder)
  const name = String(updatesDone(saved.state)).padStart(6, '0')
  const temporary = join(all, `${name}.tmp`)
  try {
    rmSync(temporary, { recursive: true, force: true })
    makeFolder(temporary)
    for (const [i, { policy, theta, initial, optimiser: { first, second } }] of team.agents.entries()) {
      await writeVectors(join(temporary, agentFile(i)), policy.layout, { theta, first, second, ...(initial && { initial }) })
    }
    if (team.critic) {
      const { theta, optimiser: { first, second } } = team.critic
      await writeVectors(join(temporary, CRITIC), criticLayout(config), { theta, first, second })
    }
    const agents = team.agents.map(({ beta, delta, optimiser: { steps }, pretrained }) =>
      ({ beta, delta, adamSteps: steps, ...(pretrained && { model: pretrained.fingerprint, tokenizer: pretrained.tokenizerFingerprint, lora: pretrained.lora }) }))
    writeConfig(temporary, config)
    writeAtomic(join(temporary, STATE), JSON.stringify({ version: 2, ...saved, agents, criticSteps: team.critic?.optimiser.steps }))
    // The state comes last: a list that was cut off lacks it.
    const written = readdirSync(temporary).sort((a, b) => Number(a === STATE) - Number(b === STATE))
    writeAtomic(join(temporary, SUMS), written.map((file) => `${hashOf(join(temporary, file)).digest('hex')}  ${file}\n`).join(''))
    rmSync(join(all, name), { recursive: true, force: true })
    renameSync(temporary, join(all, name))
    const keep = checkpointNames(folder).slice(-KEEP)
    for (const entry of readdirSync(all)) if (!keep.includes(entry)) rmSync(join(all, entry), { recursive: true, force: true })
  } catch (error) {
    if (error instanceof InputError) throw error
    throw new InputError(`${join(all, name)}: cannot be written: ${messageOf(error)}`)
  }
}

const [CRITIC, STATE, SUMS] = ['critic.safetensors', 'state.json', 'sha256']
const agentFile = (agent: number): string => `agent-${agent}.safetensors`

/** In ascending order. */
export const checkpointNames = (folder: string): string[] => {
  const all = fileIn.checkpoints(folder)
  return existsSync(all) ? readdirSync(all).filter((name) => /^\d{6,}$/.test(name)).sort((a, b) => Number(a) - Number(b)) : []
}

/** What is wrong with a checkpoint's files; undefined when they are what was written. */
const faultOf = (at: string): string | undefined => {
  const list = join(at, SUMS)
  if (!existsSync(list)) return `${list}: missing; the checkpoint is damaged, or of an earlier version of teamtr`
  try {
    const sums = readText(list).split('\n').filter((line) => line !== '').map((line) => /^([0-9a-f]{64}) {2}([\w.-]+)$/.exec(line) ?? [])
    if (!sums.some(([, , file]) => file === STATE)) return `${list}: is damaged: it does not list ${STATE}`
    const wrong = sums.find(([, sum, file]) => file === undefined || hashOf(join(at, file)).digest('hex') !== sum)
    return wrong && `${wrong[2] === undefined ? list : join(at, wrong[2])}: is damaged: it is not what was written (SHA-256)`
  } catch (error) {
    if (error instanceof InputError) return error.message
    throw error
  }
}

/** @throws InputError when a checkpoint is damaged, saying which one before it is not; or when it is of another configuration than the run's */
const checkWhole = (folder: string, config: Config, name: string): void => {
  const place = (name: string): string => join(fileIn.checkpoints(folder), name)
  const fault = faultOf(place(name))
  if (fault !== undefined) {
    const before = checkpointNames(folder).filter((other) => Number(other) < Number(name)).findLast((other) => faultOf(place(other)) === undefined)
    throw new InputError(`${fault}; ${before === undefined
      ? 'there is no whole checkpoint before it: begin anew in another folder'
      : `delete ${place(name)} to continue from checkpoint ${before}`}`)
  }
  const own = fileIn.config(place(name))
  const other = differenceOf(config, parseConfig(readJson(own), own))
  if (other) throw new InputError(`${fileIn.config(folder)}: ${other.path}: holds ${show(other.a)}; the run has ${show(other.b)}, as ${own} says: copy that here`)
}

/** @throws InputError when the latest checkpoint, if there is one, is damaged or of another configuration, saying how to go on */
export const checkLatest = (folder: string, config: Config): void => {
  const latest = checkpointNames(folder).at(-1)
  if (latest !== undefined) checkWhole(folder, config, latest)
}

/**
 * A checkpoint of a run: the latest, or the one of that name.
 *
 * @returns a team that the caller disposes, and the rest; undefined where no checkpoint was written yet
 * @throws InputError saying what is wrong with it, and how to go on
 */
export const readCheckpoint = (folder: string, config: Config, name?: string, onNotice?: (text: string) => void): { team: Team; saved: Saved } | undefined => {
  const latest = name ?? checkpointNames(folder).at(-1)
  if (latest === undefined) return undefined
  const at = join(fileIn.checkpoints(folder), latest)
  checkWhole(folder, config, latest)
  const file = join(at, STATE)
  const { agents, criticSteps, ...saved } = validate(stateSchema, readJson(file), file)
  if (agents.length !== config.team.agents) throw new InputError(`${file}: agents: holds ${agents.length}; the run has ${config.team.agents}`)
  const readAgent = (opened: OpenAgent, i: number): Agent => {
    const { beta, delta, adamSteps } = agents[i]
    const keys: ('theta' | 'first' | 'second' | 'initial')[] = config.objective.reference === 'initial' ? [...MOMENTS, 'initial'] : [...MOMENTS]
    const { theta, first, second, initial } = readVectors(join(at, agentFile(i)), opened.policy.layout, keys).vectors
    return { ...opened, theta, ...(initial && { initial }), optimiser: { steps: adamSteps, first, second }, beta, delta }
  }
  const readCritic = (): Critic => {
    if (criticSteps === undefined) throw new InputError(`${file}: criticSteps: missing; the run has a critic`)
    const { theta, first, second } = readVectors(join(at, CRITIC), criticLayout(config), MOMENTS).vectors
    return { theta, optimiser: { steps: criticSteps, first, second } }
  }
  const opened = openAgents(config, folder, onNotice)
  try {
    opened.agents.forEach(({ pretrained }, i) => sameModel(config, i, pretrained, agents[i], file))
    const read = opened.agents.map(readAgent)
    const critic = config.advantage.baseline === 'value' ? readCritic() : undefined
    return { team: { router: config.team.router, agents: read, release: opened.release, ...(critic && { critic }) }, saved }
  } catch (error) {
    opened.release()
    throw error
  }
}

type OpenAgent = Pick<Agent, 'policy' | 'voice' | 'pretrained'>

/** The agents of a configuration, without what a checkpoint holds. */
const openAgents = (config: Config, folder: string, onNotice?: (text: string) => void): { agents: OpenAgent[]; release(): void } => {
  if (!config.team.members) {
    return { agents: decodersOf(config).map(({ policy, voice }) => ({ policy, voice })), release: () => undefined }
  }
  const { agents, release } = openLanguageAgents(config, folder, onNotice)
  return { agents: agents.map(({ policy, voice, pretrained }) => ({ policy, voice, pretrained })), release }
}

/** @throws InputError when an agent's frozen model is not the one that it was trained on */
const sameModel = ({ team: { members } }: Config, i: number, found: Pretrained | undefined, { model, tokenizer, lora }: SavedAgent, file: string): void => {
  if (found?.fingerprint !== model) {
    const own = tokenizer !== undefined && tokenizer !== found?.tokenizerFingerprint
    const [kind, changed] = own ? ['with another tokenizer', 'its tokenizer or chat template has'] : ['on another model', 'its weights or configuration have']
    throw new InputError(`${file}: agents[${i}]: was trained ${kind} than what ${show(members?.[i].model)} holds now (${found?.source.path}): ${changed} changed`)
  }
  const other = found && firstDifference(lora, JSON.parse(JSON.stringify(found.lora)))
  if (other) throw new InputError(`${file}: agents[${i}]: lora.${other.path}: holds ${show(other.a)}; ${show(members?.[i].adapter)} has ${show(other.b)} now`)
}
