import { tf } from '../backend.js'
import type { TokenBatch } from '../policy.js'

/** A token sequence and which of its tokens are marked: [from, to) pairs, ascending, from ≥ 1. */
export interface MarkedSequence {
  readonly ids: readonly number[]
  readonly marked: readonly (readonly [from: number, to: number])[]
}

/**
 * Pad sequences to one length and say where their marked tokens are. The M marked tokens come in order: sequence by sequence,
 * within a sequence by position. Attention is causal and padding is on the right, so it needs no mask.
 */
export const tokenBatch = (sequences: readonly MarkedSequence[]): TokenBatch => {
  const length = sequences.reduce((longest, { ids }) => Math.max(longest, ids.length), 1)
  const ids = new Int32Array(sequences.length * length)
  const places: number[] = []
  const picks: number[] = []
  sequences.forEach((sequence, b) => {
    ids.set(sequence.ids, b * length)
    for (const [from, to] of sequence.marked) {
      if (from < 1 || to > sequence.ids.length) throw new RangeError(`marked tokens ${from}…${to} of a sequence of ${sequence.ids.length}: 1 ≤ from, to ≤ length`)
      for (let u = from; u < to; u++) {
        picks.push(places.length, sequence.ids[u])
        places.push(b * length + u - 1)
      }
    }
  })
  return {
    ids: tf.tensor2d(ids, [sequences.length, length], 'int32'),
    places: tf.tensor1d(places, 'int32'),
    picks: tf.tensor2d(picks, [places.length, 2], 'int32'),
  }
}
