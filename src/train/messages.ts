/** One agent's messages out of rollouts, packed so that a forward pass computes each distinct one once. */
import { tf } from './backend.js'
import { tokenBatch, type MarkedSequence } from './model/batch.js'
import type { TokenBatch } from './policy.js'
import type { Message, Rollouts } from './rollout.js'

/** The k-th message of an agent, in the order of episodes, then turns. */
export interface Occurrence {
  /** Place in `Rollouts.episodes`. */
  readonly episode: number
  readonly turn: number
  /** Which distinct message it is: equal text after an equal prompt is one. */
  readonly distinct: number
}

export interface AgentMessages {
  readonly occurrences: readonly Occurrence[]
  /** [from, to) of each distinct message among the M marked tokens of a batch. */
  readonly spans: readonly (readonly [from: number, to: number])[]
  /** What a batch is made of. */
  readonly sequences: readonly MarkedSequence[]
}

/**
 * The messages of one episode as few sequences: where a message was read on top of an earlier one, both lie on one sequence.
 * @returns per sequence also which of the messages it holds
 */
export const sequencesOf = (messages: readonly Pick<Message, 'prompt' | 'tokens'>[]): (MarkedSequence & { holds: number[] })[] => {
  const sequences: { ids: number[]; marked: [number, number][]; holds: number[] }[] = []
  messages.forEach(({ prompt, tokens }, k) => {
    const last = sequences.at(-1)
    const ids = [...prompt, ...tokens]
    if (last && startsWith(prompt, last.ids)) last.ids = ids
    else sequences.push({ ids, marked: [], holds: [] })
    const { marked, holds } = sequences.at(-1)!
    marked.push([prompt.length, ids.length])
    holds.push(k)
  })
  return sequences
}

const startsWith = (list: readonly number[], head: readonly number[]): boolean =>
  head.length <= list.length && head.every((value, i) => list[i] === value)

/** Collect an agent's messages. Equal sequences, frequent among the G episodes of a problem, are one. */
export const messagesOf = ({ episodes }: Rollouts, agent: number): AgentMessages => {
  const sequences: MarkedSequence[] = []
  const spans: [number, number][] = []
  const firstSpan = new Map<string, number>()
  const occurrences: Occurrence[] = []
  let at = 0

  const add = (ids: readonly number[], marked: MarkedSequence['marked']): number => {
    sequences.push({ ids, marked })
    const first = spans.length
    for (const [from, to] of marked) spans.push([at, (at += to - from)])
    return first
  }
  episodes.forEach(({ messages }, episode) => {
    const own = messages.filter((message) => message.agent === agent)
    for (const { ids, marked, holds } of sequencesOf(own)) {
      const key = `${ids.join()}|${marked.join()}`
      const first = firstSpan.get(key) ?? add(ids, marked)
      firstSpan.set(key, first)
      holds.forEach((k, part) => occurrences.push({ episode, turn: own[k].turn, distinct: first + part }))
    }
  })
  return { occurrences, spans, sequences }
}

/** The tensors of an agent's messages. Its owner frees it with `tf.dispose`. */
export type MessageBatch = {
  readonly tokens: TokenBatch
  /** [M] int32: which distinct message a marked token belongs to. */
  readonly messageOf: tf.Tensor1D
}

export const messageBatch = ({ sequences, spans }: AgentMessages): MessageBatch => ({
  tokens: tokenBatch(sequences),
  messageOf: tf.tensor1d(spans.flatMap(([from, to], distinct) => Array.from({ length: to - from }, () => distinct)), 'int32'),
})
