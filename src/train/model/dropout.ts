/** LoRA dropout: while an adapter is trained, each element that its A reads is dropped with a probability p, and what stays is divided by 1 − p. */
import { random } from '../../util/random.js'
import { tf } from '../backend.js'

export interface Dropout {
  /** p in [0, 1). */
  readonly rate: number
  /** The same seed drops the same elements, on every engine. */
  readonly seed: number
}

/**
 * x ⊙ m / (1 − p), m Bernoulli(1 − p): x itself where nothing is dropped.
 *
 * @param name of the layer that reads x: each has a mask of its own. (Targets that read the same x share it; in peft each has its own.)
 */
export const dropped = <X extends tf.Tensor>(x: X, dropout: Dropout | undefined, name: string): X =>
  dropout && dropout.rate > 0 ? tf.mul(x, mask(x, dropout, name)) : x

/** Made here and not by the engine, so that it depends on nothing but the seed. */
const mask = ({ shape, size }: tf.Tensor, { rate, seed }: Dropout, name: string): tf.Tensor => {
  const source = [...name].reduce((source, letter) => source.fork(letter.codePointAt(0)!), random(seed))
  const values = new Float32Array(size)
  const kept = 1 / (1 - rate)
  for (let i = 0; i < size; i++) if (source.next() >= rate) values[i] = kept
  return tf.tensor(values, shape)
}
