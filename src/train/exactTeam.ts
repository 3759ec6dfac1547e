/**
 * A team of language models on a `ContextSpace`, exactly: the probability of every message in every context, and from it, by src/theory, what rollouts
 * can only estimate. Probabilities are the models' own (float32), normalised and added up in float64.
 */
import { evaluate, type Evaluation } from '../theory/evaluate.js'
import { expectation } from '../theory/divergence.js'
import { pairs, teamPolicy, type TeamPolicy } from '../theory/mdp.js'
import { tf } from './backend.js'
import type { ContextSpace } from './contextSpace.js'
import { messageKl, messageProbabilities } from './messageTree.js'
import type { Divergence } from './measure.js'
import { tokenBatch, type MarkedSequence } from './model/batch.js'
import type { Agent, Team } from './team.js'

/** Next-token probabilities of one agent: after each of its prompts, one row of V for each prefix of its message tree. */
export type MessageLaw = Float64Array

export interface ExactTeam {
  /** Over the pairs of the space's MDP. */
  readonly policy: TeamPolicy
  /** Of each agent. */
  readonly laws: readonly MessageLaw[]
}

export interface ExactOptions {
  /** That of the rollouts, > 0. */
  readonly temperature: number
  /** Sequences read of all. */
  readonly onProgress?: (done: number, total: number) => void
}

/** Tokens in one forward pass, about. */
const PASS = 2 ** 15

/** All that `agent`, in the place `index` of the team, says after each of its prompts. */
export const messageLaw = async (
  { agents }: ContextSpace, index: number, { policy, theta }: Pick<Agent, 'policy' | 'theta'>, { temperature, onProgress }: ExactOptions,
): Promise<MessageLaw> => {
  const { prompts, tree: { prefixes, vocabulary } } = agents[index]
  const law = new Float64Array(prompts.length * prefixes.length * vocabulary)
  const total = prompts.length * prefixes.length
  for (let done = 0; done < total;) {
    const sequences: MarkedSequence[] = []
    for (let tokens = 0; tokens < PASS && done + sequences.length < total;) {
      const row = done + sequences.length
      const read = [...prompts[Math.floor(row / prefixes.length)], ...prefixes[row % prefixes.length]]
      // The marked token itself does not matter: what comes in its place is asked for.
      sequences.push({ ids: [...read, 0], marked: [[read.length, read.length + 1]] })
      tokens += read.length + 1
    }
    const batch = tokenBatch(sequences)
    const logs = policy.logDistributions(theta, batch)
    normalise(await logs.data(), temperature, law.subarray(done * vocabulary, (done + sequences.length) * vocabulary), vocabulary)
    tf.dispose({ batch, logs })
    done += sequences.length
    onProgress?.(done, total)
  }
  return law
}

/** softmax(logs/τ), row by row. */
const normalise = (logs: ArrayLike<number>, temperature: number, out: Float64Array, vocabulary: number): void => {
  for (let from = 0; from < out.length; from += vocabulary) {
    let highest = -Infinity
    for (let k = from; k < from + vocabulary; k++) highest = Math.max(highest, logs[k])
    let sum = 0
    for (let k = from; k < from + vocabulary; k++) sum += out[k] = Math.exp((logs[k] - highest) / temperature)
    for (let k = from; k < from + vocabulary; k++) out[k] /= sum
  }
}

/** The team whose agents say what `laws` has of each. */
export const teamOfLaws = (space: ContextSpace, laws: readonly MessageLaw[]): ExactTeam => {
  const { mdp, contexts } = space
  const policy = new Float64Array(pairs(mdp))
  contexts.forEach(({ agent, actionOf }, s) => {
    messageProbabilities(space.agents[agent].tree, lawAt(space, laws, s)).forEach((p, m) => (policy[mdp.actionStart[s] + actionOf[m]] += p))
  })
  policy[mdp.actionStart[contexts.length]] = 1
  return { policy: teamPolicy(mdp, policy), laws }
}

/** What is said in context s. */
const lawAt = ({ agents, contexts }: ContextSpace, laws: readonly MessageLaw[], s: number): Float64Array => {
  const { agent, prompt } = contexts[s]
  const { tree: { prefixes, vocabulary } } = agents[agent]
  const size = prefixes.length * vocabulary
  return laws[agent].subarray(prompt * size, (prompt + 1) * size)
}

/** A team on a space that was made with its router and tokenizers. */
export const exactTeam = async (space: ContextSpace, team: Team, { temperature, onProgress }: ExactOptions): Promise<ExactTeam> => {
  const rows = space.agents.map(({ prompts, tree }) => prompts.length * tree.prefixes.length)
  const total = rows.reduce((sum, count) => sum + count, 0)
  const laws: MessageLaw[] = []
  let before = 0
  for (const [index, agent] of team.agents.entries()) {
    laws.push(await messageLaw(space, index, agent, { temperature, onProgress: (done) => onProgress?.(before + done, total) }))
    before += rows[index]
  }
  return teamOfLaws(space, laws)
}

/** `team` with the agent in place `index` as `other` has it: one step of a stage. */
export const withAgentOf = (space: ContextSpace, team: ExactTeam, index: number, other: ExactTeam): ExactTeam =>
  teamOfLaws(space, team.laws.map((law, agent) => (agent === index ? other.laws[agent] : law)))

/**
 * KL(before‖after) of the whole message, token by token (Lemma 3.2), over the states of the MDP: at least the KL between the rows of the two policies,
 * whose actions are messages of the same effect put together. 0 in the end state.
 */
export const tokenKl = (space: ContextSpace, before: ExactTeam, after: ExactTeam): Float64Array => {
  const kl = new Float64Array(space.mdp.states)
  space.contexts.forEach(({ agent }, s) => {
    if (before.laws[agent] === after.laws[agent]) return
    kl[s] = messageKl(space.agents[agent].tree, lawAt(space, before.laws, s), lawAt(space, after.laws, s))
  })
  return kl
}

/** Pr(an episode comes by this context), over contexts: d(s) = (1−γ) γ^t Pr(s), since a context has its turn. */
export const visits = ({ mdp: { gamma }, contexts }: ContextSpace, d: Float64Array): Float64Array =>
  Float64Array.from(contexts, ({ turn }, s) => d[s] / ((1 - gamma) * gamma ** turn))

/** What a team earns, and how long each agent speaks. */
export interface ExactReturn {
  /** J = E Σ γ^t r_t */
  readonly J: number
  /** E Σ r_t: what an evaluation estimates */
  readonly reward: number
  /** Over agents: their active mass without the end state, as rollouts see it. Sums to 1 − `over`. */
  readonly acting: Float64Array
  /** d(end state) */
  readonly over: number
}

/** @param evaluation of the team's policy on the space's MDP, where it is at hand */
export const exactReturn = (space: ContextSpace, { policy }: ExactTeam, evaluation: Pick<Evaluation, 'J' | 'd'> = evaluate(space.mdp, policy)): ExactReturn => {
  const { mdp: { n, actionStart, reward }, contexts } = space
  const { J, d } = evaluation
  const acting = new Float64Array(n)
  contexts.forEach(({ agent }, s) => (acting[agent] += d[s]))
  let total = 0
  visits(space, d).forEach((visit, s) => {
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) total += visit * policy[k] * reward[k]
  })
  return { J, reward: total, acting, over: d[contexts.length] }
}

/**
 * A divergence of each state under the three readings that an update measures on rollouts (measure.ts): over the agent's messages, over them with
 * weights γ^t (D_tok/ρ_j), and over all states (D_tok). NaN for the first two where the agent never speaks.
 *
 * @param kl over states, 0 where another agent acts
 * @param d the occupancy of the team before the update
 */
export const readings = (space: ContextSpace, agent: number, kl: Float64Array, d: Float64Array): Divergence => {
  const all = visits(space, d)
  let [message, messages, mass] = [0, 0, 0]
  space.contexts.forEach((context, s) => {
    if (context.agent !== agent) return
    if (all[s] > 0) message += all[s] * kl[s]
    messages += all[s]
    mass += d[s]
  })
  const occupancy = expectation(d, kl)
  return { message: message / messages, discounted: occupancy / mass, occupancy }
}
