import {
  abs, add, addInt, assemble, below, F64, get, I32, int, load, loadInt, loopWhile, max, mul, notEqual, set, shiftLeft, store, sub, subInt, when, zero,
  type Code, type Kernel,
} from './assembler.js'
import type { TeamMdp, TeamPolicy } from './mdp.js'

/**
 * The discounted Markov chain γP_π of a team, entry by entry, and the passes over it that iterations are made of. An entry may repeat
 * a successor (once per action); the sums are what counts.
 *
 * The passes are WebAssembly loops (below), about three times as fast as the same loops over typed arrays; so the chain lives in a memory
 * of its own, with three vectors over states beside it.
 */
export interface Chain {
  readonly u: Float64Array
  readonly v: Float64Array
  readonly w: Float64Array
  /**
   * One Gauss–Seidel pass over v = u + γP v, last state first, in place: each state takes its successors' newest values, so one pass
   * carries values around a whole rotation of turns.
   *
   * @param reward u, or w for another right side
   * @returns the largest change of an entry of v; afterwards the residual ‖u + γP v − v‖∞ ≤ γ · change, since a state's equation held when it was last set
   */
  sweep(reward: 'u' | 'w'): number
  /**
   * The same for occupancy, v = b + γPᵀ v, in terms of its residual u = b + γPᵀ v − v: each state, first to last, puts its residual
   * into v (or w) and hands it on to its successors. In place.
   */
  push(into: 'v' | 'w'): void
  /** u += γPᵀ v */
  flow(): void
  /** Give the memory back; the chain and its vectors must not be used afterwards. */
  release(): void
}

export const chainOf = (mdp: TeamMdp, policy: TeamPolicy): Chain => {
  const { states, gamma, actionStart, rowStart, prob } = mdp
  const entries = mdp.next.length
  const sizes = [8 * entries, 8 * states, 8 * states, 8 * states, 8 * states, 4 * entries, 4 * (states + 1)]
  const places = sizes.map((_, i) => sizes.slice(0, i).reduce((sum, size) => sum + size, 0))
  const [atWeight, atStay, atU, atV, atW, atNext, atStart] = places
  const loops = takeLoops(atStart + 4 * (states + 1))
  const { buffer } = loops.memory
  const vector = (at: number): Float64Array => new Float64Array(buffer, at, states)
  const [stay, u, v, w] = [vector(atStay), vector(atU), vector(atV), vector(atW)]
  const weight = new Float64Array(buffer, atWeight, entries)
  const next = new Int32Array(buffer, atNext, entries)
  const start = new Int32Array(buffer, atStart, states + 1)

  next.set(mdp.next)
  start[0] = 0
  for (let s = 0; s < states; s++) {
    let self = 0
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const scale = gamma * policy[k]
      const end = rowStart[k + 1]
      for (let e = rowStart[k]; e < end; e++) {
        const share = scale * prob[e]
        weight[e] = share
        if (next[e] === s) self += share
      }
    }
    stay[s] = 1 / (1 - self)
    start[s + 1] = rowStart[actionStart[s + 1]]
  }
  return {
    u, v, w,
    sweep: (reward) => loops.sweep(atStart, atNext, atWeight, atStay, reward === 'u' ? atU : atW, atV, states),
    push: (into) => loops.push(atStart, atNext, atWeight, atStay, into === 'v' ? atV : atW, atU, states),
    flow: () => loops.flow(atStart, atNext, atWeight, atV, atU, states),
    release: () => keepLoops(loops),
  }
}

// The types of Node 20 leave most of WebAssembly out.
interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: unknown }
}
const { Module, Instance } = (globalThis as unknown as { WebAssembly: Wasm }).WebAssembly

interface Loops {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): void }
  sweep(start: number, next: number, weight: number, stay: number, b: number, x: number, states: number): number
  push(start: number, next: number, weight: number, stay: number, x: number, r: number, states: number): void
  flow(start: number, next: number, weight: number, x: number, out: number, states: number): void
}

// A memory can only grow, and making one takes longer than a small chain's passes: the last one is kept, unless it is large.
const KEPT_BYTES = 2 ** 26
const PAGE = 2 ** 16
let compiled: object | undefined
let kept: Loops | undefined

const takeLoops = (bytes: number): Loops => {
  compiled ??= new Module(assemble([sweepLoop, pushLoop, flowLoop]))
  const loops = kept ?? (new Instance(compiled).exports as Loops)
  kept = undefined
  const missing = Math.ceil((bytes - loops.memory.buffer.byteLength) / PAGE)
  if (missing > 0) loops.memory.grow(missing)
  return loops
}

const keepLoops = (loops: Loops): void => {
  if (loops.memory.buffer.byteLength <= KEPT_BYTES) kept = loops
}

/** Byte address of entry i of an array of 8-byte or 4-byte numbers. */
const at8 = (array: Code, i: Code): Code => addInt(array, shiftLeft(i, int(3)))
const at4 = (array: Code, i: Code): Code => addInt(array, shiftLeft(i, int(2)))

/**
 * for s = n−1 … 0: step = (b[s] + Σ weight·x[next] − x[s]) · stay[s]; x[s] += step; change = max(change, |step|).
 * Two sums, so that additions overlap; the entries, too, from last to first, so that memory is read in one direction.
 */
const sweepLoop: Kernel = (() => {
  const [start, next, weight, stay, b, x, s, first, even, odd, step, change, allWeight] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
  const term: Code = mul(load(get(weight)), load(at8(get(x), loadInt(get(next)))))
  const back: Code = [set(weight, subInt(get(weight), int(8))), set(next, subInt(get(next), int(4)))].flat()
  return {
    name: 'sweep',
    parameters: [I32, I32, I32, I32, I32, I32, I32],
    locals: [I32, F64, F64, F64, F64, I32],
    result: F64,
    body: [
      set(allWeight, get(weight)),
      set(next, at4(get(next), loadInt(at4(get(start), get(s))))),
      set(weight, at8(get(weight), loadInt(at4(get(start), get(s))))),
      loopWhile(get(s),
        set(s, subInt(get(s), int(1))),
        set(first, at8(get(allWeight), loadInt(at4(get(start), get(s))))),
        set(even, load(at8(get(b), get(s)))),
        set(odd, zero),
        loopWhile(below(addInt(get(first), int(8)), get(weight)),
          back, set(even, add(get(even), term)),
          back, set(odd, add(get(odd), term))),
        when(below(get(first), get(weight)), back, set(even, add(get(even), term))),
        set(step, mul(sub(add(get(even), get(odd)), load(at8(get(x), get(s)))), load(at8(get(stay), get(s))))),
        store(at8(get(x), get(s)), add(load(at8(get(x), get(s))), get(step))),
        set(change, max(get(change), abs(get(step))))),
      get(change),
    ].flat(),
  }
})()

/** for e in the row of s: out[next[e]] += weight[e] · step; `next` and `weight` are moved along. */
const scatter = (next: number, weight: number, end: number, out: number, step: number, target: number): Code =>
  loopWhile(below(get(weight), get(end)),
    set(target, at8(get(out), loadInt(get(next)))),
    store(get(target), add(load(get(target)), mul(get(step), load(get(weight))))),
    set(weight, addInt(get(weight), int(8))),
    set(next, addInt(get(next), int(4))))

/** for s = 0 … n−1 with r[s] ≠ 0: step = r[s] · stay[s]; x[s] += step; r[next] += weight · step; r[s] = 0 (what came back to s cancels it). */
const pushLoop: Kernel = (() => {
  const [start, next, weight, stay, x, r, n, s, end, step, target, firstNext, firstWeight] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
  return {
    name: 'push',
    parameters: [I32, I32, I32, I32, I32, I32, I32],
    locals: [I32, I32, F64, I32, I32, I32],
    body: [
      set(firstNext, get(next)),
      set(firstWeight, get(weight)),
      loopWhile(below(get(s), get(n)),
        when(notEqual(load(at8(get(r), get(s))), zero),
          set(step, mul(load(at8(get(r), get(s))), load(at8(get(stay), get(s))))),
          store(at8(get(x), get(s)), add(load(at8(get(x), get(s))), get(step))),
          set(next, at4(get(firstNext), loadInt(at4(get(start), get(s))))),
          set(weight, at8(get(firstWeight), loadInt(at4(get(start), get(s))))),
          set(end, at8(get(firstWeight), loadInt(at4(get(start), get(s)), 4))),
          scatter(next, weight, end, r, step, target),
          store(at8(get(r), get(s)), zero)),
        set(s, addInt(get(s), int(1)))),
    ].flat(),
  }
})()

/** for s = 0 … n−1: out[next] += weight · x[s]. The rows follow one another, so `next` and `weight` run through. */
const flowLoop: Kernel = (() => {
  const [start, next, weight, x, out, n, s, end, step, target, firstWeight] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  return {
    name: 'flow',
    parameters: [I32, I32, I32, I32, I32, I32],
    locals: [I32, I32, F64, I32, I32],
    body: [
      set(firstWeight, get(weight)),
      loopWhile(below(get(s), get(n)),
        set(step, load(at8(get(x), get(s)))),
        set(end, at8(get(firstWeight), loadInt(at4(get(start), get(s)), 4))),
        scatter(next, weight, end, out, step, target),
        set(s, addInt(get(s), int(1)))),
    ].flat(),
  }
})()
