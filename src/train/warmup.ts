import { totalmem } from 'node:os'
import type { Problem, Task } from '../tasks/task.js'
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { tf } from './backend.js'
import { charTokenizer, type Tokenizer } from './charTokenizer.js'
import { modelOf, type Config } from './config.js'
import { environment } from './environment.js'
import { imitate } from './imitate.js'
import { sequencesOf } from './messages.js'
import { adamStart } from './model/adam.js'
import type { MarkedSequence } from './model/batch.js'
import { decoderSchema } from './model/config.js'
import { decoderPolicy } from './model/decoderPolicy.js'
import { initialTheta, layoutSize } from './model/layout.js'
import type { Policy } from './policy.js'
import { stream } from './streams.js'
import type { Team } from './team.js'
import { plainVoice, type Voice } from './voice.js'

export interface WarmUpOptions {
  /** Steps done of all, and the loss in nats per token. */
  readonly onProgress?: (done: number, total: number, loss: number) => void
}

/** What a decoder of the team is: policy, tokenizer and voice. θ comes beside it. @param model default: the one that all agents are */
export const decoderOf = (config: Config, model: Config['model'] = config.model): { policy: Policy; tokenizer: Tokenizer; voice: Voice } => {
  const { alphabet, end } = environment(config.task, config.team.agents)
  const tokenizer = gameTokenizer(alphabet, end)
  const decoder = decoderSchema.parse({ ...model, vocabulary: tokenizer.vocabulary, maxPositions: 2 ** 16 })
  return { tokenizer, voice: plainVoice(tokenizer), policy: decoderPolicy(decoder, { recompute: config.objective.recompute }) }
}

/** Of each agent; agents of one size share them. */
export const decodersOf = (config: Config): ReturnType<typeof decoderOf>[] => {
  const known = new Map<string, ReturnType<typeof decoderOf>>()
  return Array.from({ length: config.team.agents }, (_, agent) => {
    const model = modelOf(config, agent)
    const key = JSON.stringify(model)
    if (!known.has(key)) known.set(key, decoderOf(config, model))
    return known.get(key)!
  })
}

/** @throws InputError when a team of decoders that are trained from scratch is larger than this machine's memory */
export const checkMemory = (config: Config, where: string): void => {
  const parameters = decodersOf(config).reduce((sum, { policy }) => sum + layoutSize(policy.layout), 0)
  // θ and Adam's two moments, in float32; gradients and what is computed come on top.
  const [needed, present] = [12 * parameters, Math.min(totalmem(), process.constrainedMemory() || Infinity)]
  if (needed <= present) return
  const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toLocaleString('en', { maximumFractionDigits: 0 })} GiB`
  const size = `${parameters.toLocaleString('en')} parameters in ${config.team.agents} agents`
  throw new InputError(`${where}: model: ${size} need at least ${gigabytes(needed)} of memory; this machine has ${gigabytes(present)}`)
}

/**
 * The team of a configuration, untrained: decoders from random weights, warmed up by imitating the task's weak player. With
 * `team.shared` all agents of one size start from one policy that has imitated the messages of all turns; otherwise each from its own,
 * which has imitated those of its turns.
 *
 * @returns a team that the caller disposes
 */
export const warmUp = async (config: Config, { onProgress }: WarmUpOptions = {}): Promise<Team> => {
  const { team: { router, shared }, warmup: { steps }, trustRegion: { beta, delta } } = config
  const decoders = decodersOf(config)
  const firstLike = decoders.map(({ policy }, agent) => (shared ? decoders.findIndex((other) => other.policy === policy) : agent))
  const total = steps * new Set(firstLike).size
  const thetas: tf.Tensor1D[] = []
  let before = 0
  for (const [agent, first] of firstLike.entries()) {
    if (first < agent) thetas.push(tf.clone(thetas[first]))
    else {
      thetas.push(await warmUpAgent(config, agent, decoders[agent], { onProgress: onProgress && ((done, _, loss) => onProgress(before + done, total, loss)) }))
      before += steps
    }
  }
  return {
    router,
    agents: decoders.map(({ policy, voice }, i) =>
      ({ policy, voice, theta: thetas[i], optimiser: adamStart(thetas[i].size), beta: beta.initial, delta: delta[i] })),
  }
}

/** θ of one agent of such a team. @returns a vector that the caller disposes */
export const warmUpAgent = async (
  config: Config, agent: number, { policy, tokenizer }: Pick<ReturnType<typeof decoderOf>, 'policy' | 'tokenizer'>, { onProgress }: WarmUpOptions = {},
): Promise<tf.Tensor1D> => {
  const { task, problems } = environment(config.task, config.team.agents)
  const { seed, team: { router, shared }, warmup: { steps, episodes, learningRate } } = config
  const random = stream(seed, 'warm-up', agent)
  const initial = initialTheta(policy, random)
  const imitates = (turn: number): boolean => shared || router[turn % router.length] === agent
  const demonstrations = (count: number, random: Random): MarkedSequence[] =>
    problems('train', count, random).flatMap((problem) => demonstration(task, tokenizer, problem, imitates, random))
  const theta = await imitate(policy, initial, demonstrations, {
    steps, batch: episodes, learningRate, random, onStep: onProgress && ((step, loss) => onProgress(step, steps, loss)),
  })
  initial.dispose()
  return theta
}

/** A tokenizer whose end of message is a character of the game's own contexts, so that an episode is one token sequence. */
const gameTokenizer = (alphabet: string, end: string): Tokenizer => {
  const tokenizer = charTokenizer(alphabet)
  return { ...tokenizer, endToken: tokenizer.encode(end)[0] }
}

/** An episode of weak players, with the messages marked that are imitated. */
const demonstration = (
  task: Task, tokenizer: Tokenizer, problem: Problem, imitates: (turn: number) => boolean, random: Random,
): MarkedSequence[] => {
  const messages: { prompt: number[]; tokens: number[] }[] = []
  for (let state = task.start(problem); !state.done;) {
    const message = task.demonstrate!(state, random)
    if (imitates(state.turn)) {
      messages.push({ prompt: tokenizer.encode(state.context), tokens: [...tokenizer.encode(message), tokenizer.endToken] })
    }
    state = task.step(state, message)
  }
  return sequencesOf(messages)
}
