import { xoroshiro128plus, xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus'

/**
 * A seeded source of randomness. It is passed in wherever chance is needed; there is no global one.
 * `state()` and `fromState` let an interrupted run continue with the same numbers.
 */
export interface Random {
  /** Uniform on [0, 1), 53 random bits. */
  next(): number
  /** Uniform integer in 0 … n−1, n ≥ 1. */
  int(n: number): number
  /** Standard normal (Box–Muller). */
  normal(): number
  /** A permutation of 0 … n−1, uniform (Fisher–Yates). */
  permutation(n: number): number[]
  /** An independent stream; the same parent state and label give the same child, and the parent is not advanced. */
  fork(label: number): Random
  state(): readonly number[]
}

type Generator = ReturnType<typeof xoroshiro128plus>

const wrap = (generator: Generator): Random => {
  const next = (): number => {
    const high = generator.next() >>> 5
    const low = generator.next() >>> 6
    return (high * 0x4000000 + low) / 0x20000000000000
  }
  const int = (n: number): number => Math.floor(next() * n)
  return {
    next,
    int,
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    permutation: (n) => {
      const order = Array.from({ length: n }, (_, i) => i)
      for (let i = n - 1; i > 0; i--) {
        const j = int(i + 1)
        ;[order[i], order[j]] = [order[j], order[i]]
      }
      return order
    },
    fork: (label) => random(generator.getState().reduce((hash, word) => mix(hash ^ word), mix(label + 0x9e3779b9))),
    state: () => [...generator.getState()],
  }
}

/** One round of the murmur3 finaliser: a seed that differs in one bit gives an unrelated stream. */
const mix = (x: number): number => {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return x ^ (x >>> 16)
}

/** A source of randomness from an integer seed. */
export const random = (seed: number): Random => wrap(xoroshiro128plus(mix(seed | 0)))

/** Continue from a state that `state()` returned. */
export const randomFromState = (state: readonly number[]): Random => wrap(xoroshiro128plusFromState(state))
