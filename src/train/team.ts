import type { EpisodeState, Problem, Task } from '../tasks/task.js'
import type { AdamState } from './model/adam.js'
import type { LoraConfig } from './model/layout.js'
import type { ModelSource } from './model/source.js'
import type { Policy } from './policy.js'
import type { Voice } from './voice.js'
import { tf } from './backend.js'
import { cloneCritic, disposeCritic, type Critic } from './critic.js'

/** One member of a team. Agents may share `policy`, and with it whatever is frozen inside; each has its own θ. */
export interface Agent {
  readonly policy: Policy
  readonly voice: Voice
  /** Owned by the team: replaced by an update, which disposes the old one. */
  theta: tf.Tensor1D
  /** θ at the start of the run, where the objective refers to it; owned by the team. */
  initial?: tf.Tensor1D
  /** Adam's memory over the agent's updates; owned by the team. */
  optimiser: AdamState
  /** β of the agent's next update. */
  beta: number
  /** δ of the agent's next update. */
  delta: number
  /** Where it is a language model: what is known of it beside its θ. */
  readonly pretrained?: Pretrained
}

export interface Pretrained {
  readonly source: ModelSource
  /** Of the adapter that is trained; null: all of the model is. */
  readonly lora: LoraConfig | null
  /** Tells the model from another one. */
  readonly fingerprint: string
  /** Tells its tokenizer and chat template from others. */
  readonly tokenizerFingerprint: string
}

/** n agents and a fixed router: at turn t the agent router[t mod length] speaks, all others do nothing. */
export interface Team {
  readonly agents: Agent[]
  readonly router: readonly number[]
  /** Where advantages are made with one; owned by the team. */
  critic?: Critic
  /** Frees what is frozen inside of its policies, which copies of the team share: they live no longer than it does. */
  readonly release?: () => void
}

/** j(s): who speaks at a turn. */
export const speaker = ({ router }: Pick<Team, 'router'>, turn: number): number => router[turn % router.length]

/** What agent `index` of a team reads before it speaks: its role, where the task knows roles and the model reads prose, and the shared context. */
export const promptTokens = ({ agents }: Pick<Team, 'agents'>, index: number, task: Pick<Task, 'rolePrompt'>, problem: Problem, { context }: EpisodeState): number[] =>
  agents[index].voice.prompt(context, task.rolePrompt?.(problem, index, agents.length))

/** Append a sampled message to the shared context, which is the task's business. */
export const speak = (task: Task, state: EpisodeState, { voice }: Pick<Agent, 'voice'>, tokens: readonly number[]): EpisodeState =>
  task.step(state, voice.text(tokens))

/** The same team with its own copies of all that changes. */
export const cloneTeam = ({ agents, router, critic }: Team): Team => ({
  router,
  ...(critic && { critic: cloneCritic(critic) }),
  agents: agents.map(({ theta, initial, optimiser, ...rest }) => ({
    ...rest,
    theta: tf.clone(theta),
    ...(initial && { initial: tf.clone(initial) }),
    optimiser: { ...optimiser, first: tf.clone(optimiser.first), second: tf.clone(optimiser.second) },
  })),
})

/** Frees what the team owns. */
export const disposeTeam = ({ agents, critic, release }: Team): void => {
  for (const { theta, initial, optimiser } of agents) tf.dispose([theta, optimiser.first, optimiser.second, ...(initial ? [initial] : [])])
  if (critic) disposeCritic(critic)
  release?.()
}
