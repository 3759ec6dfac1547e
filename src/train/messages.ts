/** One agent's messages out of rollouts, packed so that a forward pass computes each distinct one once. */
import { tf } from './backend.js'
import { byLength, tokenBatch, type MarkedSequence } from './model/batch.js'
import type { TokenBatch } from './policy.js'
import type { Message, Rollouts } from './rollout.js'

/** The k-th message of an agent, in the order of episodes, then turns. */
export interface Occurrence {
  /** Place in `Rollouts.episodes`. */
  readonly episode: number
  readonly turn: number
  /** Its place among all messages of all agents, in the order of episodes, then turns. */
  readonly message: number
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
  let [at, before] = [0, 0]

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
      holds.forEach((k, part) => occurrences.push({ episode, turn: own[k].turn, message: before + own[k].turn, distinct: first + part }))
    }
    before += messages.length
  })
  return { occurrences, spans, sequences }
}

/** The tensors of some of an agent's messages. Its owner frees it with `tf.dispose`. */
export type MessageBatch = {
  readonly tokens: TokenBatch
  /** [M] int32: which of this batch's messages a marked token belongs to. */
  readonly messageOf: tf.Tensor1D
}

/** A part of an agent's messages that is computed at once. */
export interface MicroBatch {
  readonly batch: MessageBatch
  /** The distinct messages that it holds, in order. */
  readonly holds: readonly number[]
}

/**
 * All of an agent's messages, cut into batches of at most `limit` tokens (byLength). The gradient is the sum over the batches.
 *
 * @param limit null: all at once
 */
export const microBatches = ({ sequences, spans }: AgentMessages, limit: number | null): MicroBatch[] => {
  let next = 0
  const all = sequences.map((sequence) => ({ sequence, holds: sequence.marked.map(() => next++) }))
  const parts = limit === null ? [all] : byLength(all, ({ sequence }) => sequence.ids.length, limit)
  return parts.map((part) => {
    const holds = part.flatMap(({ holds }) => holds)
    const messageOf = holds.flatMap((distinct, i) => Array.from({ length: spans[distinct][1] - spans[distinct][0] }, () => i))
    return { holds, batch: { tokens: tokenBatch(part.map(({ sequence }) => sequence)), messageOf: tf.tensor1d(messageOf, 'int32') } }
  })
}

/** Values per marked token of each batch, put together in the order of `AgentMessages.spans`. */
export const inOrder = ({ spans }: AgentMessages, batches: readonly MicroBatch[], values: readonly ArrayLike<number>[]): Float32Array => {
  const all = new Float32Array(spans.at(-1)?.[1] ?? 0)
  batches.forEach(({ holds }, b) => {
    let at = 0
    for (const distinct of holds) {
      const [from, to] = spans[distinct]
      for (let u = from; u < to; u++) all[u] = values[b][at++]
    }
  })
  return all
}
