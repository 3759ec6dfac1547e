import type { Problem, Task } from '../tasks/task.js'
import type { Random } from '../util/random.js'
import { tf } from './backend.js'
import { charTokenizer, type Tokenizer } from './charTokenizer.js'
import type { Config } from './config.js'
import { environment } from './environment.js'
import { imitate } from './imitate.js'
import { sequencesOf } from './messages.js'
import { adamStart } from './model/adam.js'
import type { MarkedSequence } from './model/batch.js'
import { decoderSchema } from './model/config.js'
import { decoderPolicy } from './model/decoderPolicy.js'
import { initialTheta } from './model/layout.js'
import type { Policy } from './policy.js'
import { stream } from './streams.js'
import type { Team } from './team.js'
import { plainVoice, type Voice } from './voice.js'

export interface WarmUpOptions {
  /** Steps done of all, and the loss in nats per token. */
  readonly onProgress?: (done: number, total: number, loss: number) => void
}

/** The policy, tokenizer and voice that a configuration's agents share; each agent has its own θ. */
export const decoderOf = (config: Config): { policy: Policy; tokenizer: Tokenizer; voice: Voice } => {
  const { alphabet, end } = environment(config.task, config.team.agents)
  const tokenizer = gameTokenizer(alphabet, end)
  const decoder = decoderSchema.parse({ ...config.model, vocabulary: tokenizer.vocabulary, maxPositions: 2 ** 16 })
  return { tokenizer, voice: plainVoice(tokenizer), policy: decoderPolicy(decoder, { recompute: config.objective.recompute }) }
}

/**
 * The team of a configuration, untrained: decoders from random weights, warmed up by imitating the task's weak player. With
 * `team.shared` all agents start from one policy that has imitated the messages of all turns; otherwise each from its own, which
 * has imitated those of its turns.
 *
 * @returns a team that the caller disposes
 */
export const warmUp = async (config: Config, { onProgress }: WarmUpOptions = {}): Promise<Team> => {
  const { task, problems } = environment(config.task, config.team.agents)
  const { policy, tokenizer, voice } = decoderOf(config)
  const { seed, team: { agents, router, shared }, warmup: { steps, episodes, learningRate }, trustRegion: { beta, delta } } = config
  const total = steps * (shared ? 1 : agents)

  const start = async (agent: number): Promise<tf.Tensor1D> => {
    const random = stream(seed, 'warm-up', agent)
    const initial = initialTheta(policy, random)
    const imitates = (turn: number): boolean => shared || router[turn % router.length] === agent
    const demonstrations = (count: number, random: Random): MarkedSequence[] =>
      problems('train', count, random).flatMap((problem) => demonstration(task, tokenizer, problem, imitates, random))
    const theta = await imitate(policy, initial, demonstrations, {
      steps, batch: episodes, learningRate, random, onStep: onProgress && ((step, loss) => onProgress(agent * steps + step, total, loss)),
    })
    initial.dispose()
    return theta
  }

  const thetas: tf.Tensor1D[] = []
  for (let agent = 0; agent < agents; agent++) thetas.push(shared && agent > 0 ? tf.clone(thetas[0]) : await start(agent))
  return {
    router,
    agents: thetas.map((theta, i) => ({ policy, voice, theta, optimiser: adamStart(theta.size), beta: beta.initial, delta: delta[i] })),
  }
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
