/**
 * Plug and play: the team of a run goes on with one agent in the place of another, or with one more. What that costs is measured on the way: held-out
 * rewards of the team as it was, right after the swap, and after stage 0 (align.ts).
 *
 * Where an agent is added there is no old one. What stands in for it is the agent that spoke before it, in its turns too: so the team as it was plays the
 * very game of the larger one, and adding is replacing the stand-in.
 */
import type { Problem } from '../tasks/task.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { show } from '../util/validate.js'
import { align, probeContexts, reverseKl, type ProbeContext } from './align.js'
import type { Certificate } from './certificate.js'
import { checkpointNames, readCheckpoint, updatesDone } from './checkpoints.js'
import { modelOf, type Config } from './config.js'
import { contextSpace } from './contextSpace.js'
import { environment } from './environment.js'
import { compareEvaluations } from './evaluateTeam.js'
import { exactReplacement, type ExactReplacement } from './exactReplacement.js'
import { exactTeam, messageLaw, teamOfLaws, type ExactTeam } from './exactTeam.js'
import { adamStart } from './model/adam.js'
import { rollout } from './rollout.js'
import { firstDifference, readRun, type RecordedRun } from './runFolder.js'
import { bootstrapEstimate, studentEstimate, type Estimate } from './estimate.js'
import { stream } from './streams.js'
import { cloneTeam, disposeTeam, type Agent, type Team } from './team.js'
import { decodersOf, warmUpAgent } from './warmup.js'

/** A team on the held-out problems of the new run, one episode each, all teams with the same random numbers. */
export interface Performance {
  /** Σ r of an episode, with its 95 % bootstrap interval. */
  readonly reward: Estimate
  /** J = E Σ γ^t r_t, with its 95 % interval (Student). */
  readonly return: Estimate
  /** Of each problem, in order. */
  readonly rewards: readonly number[]
}

/** A team with a new agent: what it earns and how its messages differ. */
export interface Swapped extends Performance {
  /** Swap shock: reward of the team as it was less this one, with the 95 % bootstrap interval of the paired differences. */
  readonly shock: Estimate
  /** KL(new‖old) of the new agent's messages, in nats, on 500 contexts of the team as it was on these problems, weighed with γ^t. Contexts that 500 miss are not in its interval. */
  readonly kl: Estimate
}

/** swap.json of a run folder: how the team came to be. Plain data. */
export interface Replacement {
  readonly agent: number
  readonly added: boolean
  /** The team before, and after how many updates. */
  readonly from: { readonly run: string; readonly updates: number }
  /** An agent of that run; null: one that was warmed up here. */
  readonly with: { readonly run: string; readonly agent: number; readonly updates: number } | null
  /** Contexts that it was aligned on; 0: it came as it is. */
  readonly contexts: number
  readonly before: Performance
  readonly direct: Swapped
  /** After stage 0; null where there was none. */
  readonly aligned: Swapped | null
  /** Of the last stage of the run before; null where it logged none. */
  readonly certificate: Certificate | null
  /** The same without sampling, on the same problems; null where there is too much to enumerate, or evaluations have another temperature than rollouts. */
  readonly exact: ExactReplacement | null
  readonly seconds: number
}

export interface ReplaceOptions {
  readonly onProgress?: (phase: 'warm-up' | 'alignment', done: number, total: number, note: string) => void
}

/** Contexts that a divergence is measured on. */
const MEASURED = 500

/** Contexts times messages that are enumerated without being asked for. */
const LIMIT = 2 ** 21

/**
 * The team that a configuration with `start` begins with: the others as they are (θ and Adam's memory), the new agent, β and δ of the configuration.
 *
 * @returns a team that the caller disposes
 * @throws InputError when a run cannot be read, or what it holds does not fit the configuration: by field
 */
export const replaceAgent = async (
  config: Config, start: NonNullable<Config['start']>, { onProgress }: ReplaceOptions = {},
): Promise<{ team: Team; report: Replacement }> => {
  const began = performance.now()
  const { agent: index } = start
  const { seed, gamma, rollout: { temperature, maxTokens }, evaluation, trustRegion: { beta, delta } } = config
  const { task, problems } = environment(config.task, config.team.agents)
  checkStart(config, start)
  const owned: Team[] = []
  try {
    const before = open(start.run, owned)
    const teamBefore = teamAsItWas(config, before.team, index)
    const old = teamBefore.agents[index]
    const newcomer = start.with ? agentOf(start.with, owned) : await newAgent(config, start, onProgress)
    if (!start.with) owned.push({ router: [], agents: [newcomer.agent] })

    /** The team with another agent, whose tensors stay where they are. */
    const teamWith = (agent: Agent): Team => ({ ...teamBefore, agents: teamBefore.agents.map((other, i) => (i === index ? agent : other)) })
    const contexts = async (draw: (count: number, random: Random) => readonly Problem[], count: number, place: number): Promise<ProbeContext[]> => {
      const found: ProbeContext[] = []
      for (let round = 0; found.length < count; round++) {
        const drawn = draw(count - found.length, stream(seed, 'probes', place, round, 0))
        const played = await rollout(task, teamBefore, drawn, { group: 1, temperature, maxTokens, gamma, random: stream(seed, 'probes', place, round, 1) })
        const more = probeContexts(played, index, gamma)
        if (more.length === 0) throw new InputError(`start.agent: holds ${index}; it did not speak in ${drawn.length} episodes of the team in ${start.run}`)
        found.push(...more)
      }
      return found.slice(0, count)
    }
    const heldOut: Problem[] = problems('test', evaluation.problems, stream(seed, 'evaluation problems'))
    const play = async (team: Team): Promise<Performance> => {
      const random = stream(seed, 'evaluation', 0)
      const { episodes } = await rollout(task, team, heldOut, { group: 1, temperature: evaluation.temperature, maxTokens, gamma, random })
      const rewards = episodes.map(({ reward }) => reward)
      return {
        reward: bootstrapEstimate(rewards, stream(seed, 'bootstrap', 0)),
        return: studentEstimate(episodes.map((episode) => episode.return)),
        rewards,
      }
    }
    const measured = await contexts(() => heldOut, MEASURED, 1)
    const swapped = async (agent: Agent): Promise<Swapped> => {
      const performance = await play(teamWith(agent))
      return {
        ...performance,
        shock: compareEvaluations(performance, was, stream(seed, 'bootstrap', 0)),
        kl: await reverseKl(agent, old, measured, { temperature, maxTokens, random: stream(seed, 'alignment', 1) }),
      }
    }
    const was = await play(teamBefore)
    const direct = await swapped(newcomer.agent)
    let final = newcomer.agent
    if (start.align.contexts > 0) {
      const { steps } = start.align
      const theta = await align(newcomer.agent, old, await contexts((count, random) => problems('train', count, random), start.align.contexts, 0), {
        ...start.align, temperature, maxTokens, random: stream(seed, 'alignment', 0),
        onStep: (done, kl) => onProgress?.('alignment', done, steps, `KL ${kl.toFixed(3)}`),
      })
      final = { ...newcomer.agent, theta, optimiser: adamStart(theta.size) }
      owned.push({ router: [], agents: [final] })
    }
    const aligned = start.align.contexts > 0 ? await swapped(final) : null
    const exact = await exactly([newcomer.agent, ...(aligned ? [final] : [])])

    const team = cloneTeam(teamWith(final))
    team.agents.forEach((agent, i) => {
      agent.initial?.dispose()
      Object.assign(agent, { initial: undefined, beta: beta.initial, delta: delta[i] })
    })
    const report: Replacement = {
      agent: index,
      added: before.run.config.team.agents < config.team.agents,
      from: { run: start.run, updates: before.updates },
      with: start.with && { ...start.with, updates: newcomer.updates },
      contexts: start.align.contexts,
      before: was,
      direct,
      aligned,
      certificate: lastCertificate(before.run),
      exact,
      seconds: (performance.now() - began) / 1000,
    }
    return { team, report }

    async function exactly(agents: readonly Agent[]): Promise<ExactReplacement | null> {
      if (evaluation.temperature !== temperature) return null
      const space = enumerated(() => contextSpace(task, teamBefore, heldOut, { gamma, maxTokens, limit: LIMIT }))
      if (!space) return null
      const was = await exactTeam(space, teamBefore, { temperature })
      const swapped: ExactTeam[] = []
      for (const agent of agents) swapped.push(teamOfLaws(space, was.laws.with(index, await messageLaw(space, index, agent, { temperature }))))
      return exactReplacement(space, index, was, swapped[0], swapped[1])
    }
  } finally {
    owned.forEach(disposeTeam)
  }
}

interface Opened {
  readonly run: RecordedRun
  readonly team: Team
  readonly updates: number
}

/**
 * See that a configuration's new agent fits the team it comes to. Reads no weights.
 *
 * @throws InputError when a run cannot be read, or what it holds does not fit the configuration: by field
 */
export const checkStart = (config: Config, start: NonNullable<Config['start']>): void => {
  checkTeams(config, runAt(start.run).config, start)
  if (start.with) checkNewAgent(config, runAt(start.with.run).config, start.with, start.agent)
}

const runAt = (folder: string): RecordedRun => {
  const run = readRun(folder)
  if (checkpointNames(folder).length === 0) throw new InputError(`${folder}: holds no checkpoint yet`)
  return run
}

/** The latest team of a run. */
const open = (folder: string, owned: Team[]): Opened => {
  const run = readRun(folder)
  const checkpoint = readCheckpoint(folder, run.config)!
  owned.push(checkpoint.team)
  return { run, team: checkpoint.team, updates: updatesDone(checkpoint.saved.state) }
}

/** @throws InputError unless the team of `own` is that of `config` but for the new agent */
const checkTeams = (config: Config, own: Config, { run, agent }: NonNullable<Config['start']>): void => {
  const { agents, router } = config.team
  const others = own.team.agents
  if (!router.includes(agent)) throw new InputError(`start.agent: holds ${agent}; it has no turn in team.router, ${show(router)}`)
  if (agents !== others && !(agents === others + 1 && agent === others)) {
    throw new InputError(`team.agents: holds ${agents}; the team in ${run} has ${others}: expected ${others}, or ${others + 1} with start.agent: ${others}`)
  }
  const task = firstDifference(config.task, own.task)
  if (task) throw new InputError(`task.${task.path}: holds ${show(task.a)}; ${run} has ${show(task.b)}`)
  const sameTurns = own.team.router.every((speaker, turn) => speaker === router[turn])
  if (!sameTurns || router.slice(own.team.router.length).some((speaker) => speaker !== agent)) {
    throw new InputError(`team.router: holds ${show(router)}; ${run} has ${show(own.team.router)}${agents > others ? `, to be followed by turns of agent ${agent}` : ''}`)
  }
  for (let other = 0; other < others; other++) {
    if (other !== agent) checkModel(config, other, own, other, run)
  }
}

const checkModel = (config: Config, index: number, own: Config, other: number, run: string): void => {
  const found = firstDifference(modelOf(config, index), modelOf(own, other))
  if (found) throw new InputError(`team.models[${index}].${found.path}: holds ${show(found.a)}; agent ${other} of ${run} has ${show(found.b)}`)
}

/** The team before, in the game of the team after. */
const teamAsItWas = ({ team: { agents, router } }: Config, { agents: own, router: turns }: Team, index: number): Team =>
  ({ router, agents: Array.from({ length: agents }, (_, i) => own[i < own.length ? i : i === index ? turns[turns.length - 1] : i]) })

/** @throws InputError unless agent `agent` of the team of `other` can be in the place `index` of that of `config` */
const checkNewAgent = (config: Config, other: Config, { run, agent }: { run: string; agent: number }, index: number): void => {
  const { agents } = other.team
  if (agent >= agents) throw new InputError(`start.with.agent: holds ${agent}; ${run} has ${agents}, 0 to ${agents - 1}`)
  const [here, there] = [environment(config.task, config.team.agents), environment(other.task, agents)]
  if (here.alphabet !== there.alphabet || here.end !== there.end) {
    throw new InputError(`start.with.run: holds ${show(run)}, whose agents have another vocabulary (${other.task.name}); agents of ${config.task.name} are needed`)
  }
  checkModel(config, index, other, agent, run)
}

/** An agent of a run, all of it. */
const agentOf = ({ run, agent }: { run: string; agent: number }, owned: Team[]): { agent: Agent; updates: number } => {
  const { team, updates } = open(run, owned)
  return { agent: team.agents[agent], updates }
}

/** A decoder of its own, warmed up. */
const newAgent = async (
  config: Config, { agent: index, seed }: NonNullable<Config['start']>, onProgress: ReplaceOptions['onProgress'],
): Promise<{ agent: Agent; updates: number }> => {
  const decoder = decodersOf(config)[index]
  const theta = await warmUpAgent({ ...config, seed: seed ?? config.seed }, index, decoder, {
    onProgress: (done, total, loss) => onProgress?.('warm-up', done, total, `loss ${loss.toFixed(3)}`),
  })
  const { policy, voice } = decoder
  return { agent: { policy, voice, theta, optimiser: adamStart(theta.size), beta: 0, delta: 0 }, updates: 0 }
}

const lastCertificate = ({ updates }: RecordedRun): Certificate | null => {
  const found = updates.findLast(({ stageCertificate }) => stageCertificate !== null)?.stageCertificate
  if (!found) return null
  const { bound, surrogate, penalty, error, activeMass } = found
  return { bound, surrogate, penalty, error, activeMass }
}

/** Undefined where it is too much. */
const enumerated = <T>(f: () => T): T | undefined => {
  try {
    return f()
  } catch (error) {
    if (error instanceof InputError) return undefined
    throw error
  }
}
