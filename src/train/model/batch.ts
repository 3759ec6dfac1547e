import { tf } from '../backend.js'
import type { TokenBatch } from '../policy.js'

/** A token sequence and which of its tokens are marked: [from, to) pairs, ascending, from ≥ 1. */
export interface MarkedSequence {
  readonly ids: readonly number[]
  readonly marked: readonly (readonly [from: number, to: number])[]
}

/** Sizes rounded up, so that few different ones occur. */
export interface Rounding {
  /** T to a multiple of this. */
  readonly length: number
  /** M to a multiple of this: the marks that are too many are of token 0 at place 0, and to be weighed 0. */
  readonly marks: number
}

/**
 * Pad sequences to one length and say where their marked tokens are. The M marked tokens come in order: sequence by sequence,
 * within a sequence by position. Attention is causal and padding is on the right, so it needs no mask.
 */
export const tokenBatch = (sequences: readonly MarkedSequence[], rounding: Rounding = { length: 1, marks: 1 }): TokenBatch => {
  const length = roundUp(sequences.reduce((longest, { ids }) => Math.max(longest, ids.length), 1), rounding.length)
  const ids = new Int32Array(sequences.length * length)
  const places: number[] = []
  const tokens: number[] = []
  sequences.forEach((sequence, b) => {
    ids.set(sequence.ids, b * length)
    for (const [from, to] of sequence.marked) {
      if (from < 1 || to > sequence.ids.length) throw new RangeError(`marked tokens ${from}…${to} of a sequence of ${sequence.ids.length}: 1 ≤ from, to ≤ length`)
      for (let u = from; u < to; u++) {
        places.push(b * length + u - 1)
        tokens.push(sequence.ids[u])
      }
    }
  })
  const marks = roundUp(places.length, rounding.marks)
  const picks = new Int32Array(2 * marks)
  for (let m = 0; m < marks; m++) picks.set([m, tokens[m] ?? 0], 2 * m)
  return {
    ids: tf.tensor2d(ids, [sequences.length, length], 'int32'),
    places: tf.tensor1d(Int32Array.from({ length: marks }, (_, m) => places[m] ?? 0), 'int32'),
    picks: tf.tensor2d(picks, [marks, 2], 'int32'),
  }
}

const roundUp = (size: number, multiple: number): number => Math.ceil(size / multiple) * multiple

/**
 * Cut sequences into parts of at most `limit` tokens each, padding included (or one sequence, where that is longer). Sequences of about one length lie
 * together, so little is padded.
 */
export const byLength = <T>(sequences: readonly T[], lengthOf: (sequence: T) => number, limit: number): T[][] => {
  const parts: T[][] = []
  for (const each of [...sequences].sort((a, b) => lengthOf(a) - lengthOf(b))) {
    const last = parts.at(-1)
    if (last && (last.length + 1) * lengthOf(each) <= limit) last.push(each)
    else parts.push([each])
  }
  return parts
}

/** Number of marked tokens. */
export const markCount = (sequences: readonly MarkedSequence[]): number =>
  sequences.reduce((count, { marked }) => marked.reduce((sum, [from, to]) => sum + to - from, count), 0)
