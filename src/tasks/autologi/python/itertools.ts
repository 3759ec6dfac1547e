import { call, iterate, listOf } from './containers.js'
import type { Meter } from './meter.js'
import { count, fn, functions, integer, type Members } from './module.js'
import { binary } from './operators.js'
import { equal, PyIterator, PyTuple, truth, type Value } from './values.js'

const lazy = (name: string, items: Iterator<Value>): PyIterator => new PyIterator(items, `itertools.${name}`)

function* permutations(pool: readonly Value[], size: number, meter: Meter): Generator<Value> {
  if (size > pool.length) return
  const used = pool.map(() => false)
  const chosen: Value[] = []
  function* extend(): Generator<Value> {
    if (chosen.length === size) {
      meter.allocate(size)
      yield new PyTuple([...chosen])
      return
    }
    for (let i = 0; i < pool.length; i++) {
      if (used[i]) continue
      meter.tick()
      used[i] = true
      chosen.push(pool[i])
      yield* extend()
      chosen.pop()
      used[i] = false
    }
  }
  yield* extend()
}

function* combinations(pool: readonly Value[], size: number, replace: boolean, meter: Meter): Generator<Value> {
  const n = pool.length
  if ((size > n && !replace) || (n === 0 && size > 0)) return
  const at = Array.from({ length: size }, (_, i) => (replace ? 0 : i))
  for (;;) {
    meter.allocate(size)
    yield new PyTuple(at.map((i) => pool[i]))
    let k = size - 1
    while (k >= 0 && at[k] === (replace ? n - 1 : n - size + k)) k--
    if (k < 0) return
    const from = at[k] + 1
    for (let j = k; j < size; j++) at[j] = replace ? from : from + j - k
  }
}

function* product(pools: readonly (readonly Value[])[], meter: Meter): Generator<Value> {
  if (pools.some((pool) => pool.length === 0)) return
  const at = pools.map(() => 0)
  for (;;) {
    meter.allocate(pools.length)
    yield new PyTuple(pools.map((pool, i) => pool[at[i]]))
    let k = pools.length - 1
    while (k >= 0 && at[k] === pools[k].length - 1) at[k--] = 0
    if (k < 0) return
    at[k]++
  }
}

/** The module `itertools`. */
export const itertools = (meter: Meter): Members => {
  const chained = (sources: Iterable<Value>): PyIterator => lazy('chain', (function* () {
    for (const source of sources) yield* iterate(source, meter)
  })())
  return {
    ...functions({
      permutations: (args, keywords) => {
        const pool = listOf(args[0], meter)
        const size = args[1] ?? keywords.get('r') ?? null
        return lazy('permutations', permutations(pool, size === null ? pool.length : count(size, 'r'), meter))
      },
      combinations: (args, keywords) =>
        lazy('combinations', combinations(listOf(args[0], meter), count(args[1] ?? keywords.get('r'), 'r'), false, meter)),
      combinations_with_replacement: (args, keywords) =>
        lazy('combinations_with_replacement', combinations(listOf(args[0], meter), count(args[1] ?? keywords.get('r'), 'r'), true, meter)),
      product: (args, keywords) => {
        const pools = args.map((arg) => listOf(arg, meter))
        const times = count(keywords.get('repeat') ?? 1n, 'repeat argument')
        meter.allocate(times * pools.length)
        return lazy('product', product(Array.from({ length: times }, () => pools).flat(), meter))
      },
      count: (args, keywords) => {
        const step = args[1] ?? keywords.get('step') ?? 1n
        return lazy(
          'count',
          (function* () {
            for (let x: Value = args[0] ?? keywords.get('start') ?? 0n; ; x = binary('+', x, step, meter)) yield x
          })(),
        )
      },
      cycle: ([source]) =>
        lazy(
          'cycle',
          (function* () {
            const items = listOf(source, meter)
            while (items.length > 0) yield* items
          })(),
        ),
      repeat: (args, keywords) => {
        const times = args[1] ?? keywords.get('times') ?? null
        return lazy(
          'repeat',
          (function* () {
            for (let i = 0n; times === null || i < integer(times); i++) yield args[0]
          })(),
        )
      },
      accumulate: (args, keywords) =>
        lazy(
          'accumulate',
          (function* () {
            const combine = args[1] ?? keywords.get('func') ?? null
            let total: Value | undefined = keywords.get('initial')
            if (total !== undefined && total !== null) yield total
            else total = undefined
            for (const item of iterate(args[0], meter)) {
              total = total === undefined ? item : combine === null ? binary('+', total, item, meter) : call(combine, [total, item])
              yield total
            }
          })(),
        ),
      islice: (args) =>
        lazy(
          'islice',
          (function* () {
            const [start, stop, step] = args.length === 2 ? [0n, args[1], 1n] : [args[1] ?? 0n, args[2] ?? null, args[3] ?? 1n]
            const source = iterate(args[0], meter)
            let next = start === null ? 0n : integer(start)
            const by = step === null ? 1n : integer(step)
            for (let i = 0n; stop === null || i < integer(stop); i++) {
              const { done, value } = source.next()
              if (done) return
              if (i !== next) continue
              yield value
              next += by
            }
          })(),
        ),
      starmap: ([callee, source]) =>
        lazy(
          'starmap',
          (function* () {
            for (const row of iterate(source, meter)) yield call(callee, listOf(row, meter))
          })(),
        ),
      takewhile: ([test, source]) =>
        lazy(
          'takewhile',
          (function* () {
            for (const item of iterate(source, meter)) {
              if (!truth(call(test, [item]))) return
              yield item
            }
          })(),
        ),
      dropwhile: ([test, source]) =>
        lazy(
          'dropwhile',
          (function* () {
            let dropping = true
            for (const item of iterate(source, meter)) {
              dropping &&= truth(call(test, [item]))
              if (!dropping) yield item
            }
          })(),
        ),
      filterfalse: ([test, source]) =>
        lazy(
          'filterfalse',
          (function* () {
            for (const item of iterate(source, meter)) if (!truth(test === null ? item : call(test, [item]))) yield item
          })(),
        ),
      compress: ([source, selectors]) =>
        lazy(
          'compress',
          (function* () {
            const flags = iterate(selectors, meter)
            for (const item of iterate(source, meter)) {
              const { done, value } = flags.next()
              if (done) return
              if (truth(value)) yield item
            }
          })(),
        ),
      pairwise: ([source]) =>
        lazy(
          'pairwise',
          (function* () {
            let before: Value | undefined
            for (const item of iterate(source, meter)) {
              if (before !== undefined) yield new PyTuple([before, item])
              before = item
            }
          })(),
        ),
      zip_longest: (args, keywords) =>
        lazy(
          'zip_longest',
          (function* () {
            const columns = args.map((arg) => listOf(arg, meter))
            const rows = Math.max(0, ...columns.map((column) => column.length))
            for (let i = 0; i < rows; i++)
              yield new PyTuple(columns.map((column) => (i < column.length ? column[i] : (keywords.get('fillvalue') ?? null))))
          })(),
        ),
      groupby: (args, keywords) =>
        lazy(
          'groupby',
          (function* () {
            const key = args[1] ?? keywords.get('key') ?? null
            let group: { key: Value; items: Value[] } | undefined
            for (const item of iterate(args[0], meter)) {
              const here = key === null ? item : call(key, [item])
              if (group && equal(group.key, here, meter)) group.items.push(item)
              else {
                if (group) yield new PyTuple([group.key, lazy('_grouper', group.items[Symbol.iterator]())])
                group = { key: here, items: [item] }
              }
            }
            if (group) yield new PyTuple([group.key, lazy('_grouper', group.items[Symbol.iterator]())])
          })(),
        ),
    }),
    chain: fn('chain', (args) => chained(args), { from_iterable: fn('from_iterable', ([source]) => chained(iterate(source, meter))) }),
  }
}

