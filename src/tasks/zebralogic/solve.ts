/**
 * Zebra puzzles as constraints. There are `houses` houses in a row and a number of attributes; each attribute has as
 * many values as there are houses, each value in another house. A clue limits where one or two values live.
 */
export interface Item {
  readonly attribute: number
  readonly value: number
}

export const PAIR_CLUES = ['same', 'directlyLeft', 'left', 'right', 'adjacent', 'oneBetween', 'twoBetween'] as const
export type PairClue = (typeof PAIR_CLUES)[number]

export type Clue =
  | { readonly kind: PairClue; readonly a: Item; readonly b: Item }
  | { readonly kind: 'at' | 'notAt'; readonly a: Item; /** 0-based */ readonly house: number }
type Pair = Extract<Clue, { kind: PairClue }>

/** `positions[attribute][value]` is the house, 0-based. */
export type Positions = readonly (readonly number[])[]

/** Whether a in house p and b in house q satisfy a clue. */
const SATISFIED: Readonly<Record<PairClue, (p: number, q: number) => boolean>> = {
  same: (p, q) => p === q,
  directlyLeft: (p, q) => p === q - 1,
  left: (p, q) => p < q,
  right: (p, q) => p > q,
  adjacent: (p, q) => Math.abs(p - q) === 1,
  oneBetween: (p, q) => Math.abs(p - q) === 2,
  twoBetween: (p, q) => Math.abs(p - q) === 3,
}

export const holds = (clue: Clue, positions: Positions): boolean => {
  const p = positions[clue.a.attribute][clue.a.value]
  if ('house' in clue) return (p === clue.house) === (clue.kind === 'at')
  return SATISFIED[clue.kind](p, positions[clue.b.attribute][clue.b.value])
}

/**
 * Up to `limit` solutions, by constraint propagation and, where that stands still, by trying the houses
 * of the value that has fewest left.
 *
 * @param houses 1 … 30
 */
export const solve = (houses: number, attributes: number, clues: readonly Clue[], limit: number): Positions[] => {
  const solutions: Positions[] = []
  const everywhere = 2 ** houses - 1
  const pairs = clues.filter((clue): clue is Pair => 'b' in clue).map(({ kind, a, b }) => ({
    a: a.attribute * houses + a.value,
    b: b.attribute * houses + b.value,
    // the houses of b that go with each house of a, and the other way round
    forward: Array.from({ length: houses }, (_, p) => mask(houses, (q) => SATISFIED[kind](p, q))),
    backward: Array.from({ length: houses }, (_, q) => mask(houses, (p) => SATISFIED[kind](p, q))),
  }))

  /** Narrows `domains` (a bit set of houses for each value) to a fixed point. @returns whether every value still has a house */
  const propagate = (domains: Uint32Array): boolean => {
    for (let changed = true; changed; ) {
      changed = false
      const narrow = (item: number, allowed: number): void => {
        const next = domains[item] & allowed
        if (next !== domains[item]) {
          domains[item] = next
          changed = true
        }
      }
      for (const { a, b, forward, backward } of pairs) {
        narrow(b, union(domains[a], forward))
        narrow(a, union(domains[b], backward))
      }
      for (let first = 0; first < domains.length; first += houses) {
        for (let item = first; item < first + houses; item++) {
          let others = 0
          for (let other = first; other < first + houses; other++) {
            if (other === item) continue
            others |= domains[other]
            if (isSingle(domains[item])) narrow(other, ~domains[item])
          }
          // a house that no other value can have
          const own = domains[item] & ~others
          if (own) narrow(item, own)
        }
      }
      if (domains.includes(0)) return false
    }
    return true
  }

  const search = (domains: Uint32Array): void => {
    if (!propagate(domains)) return
    let choice = -1
    for (let item = 0; item < domains.length; item++) {
      if (!isSingle(domains[item]) && (choice < 0 || count(domains[item]) < count(domains[choice]))) choice = item
    }
    if (choice < 0) {
      const house = Array.from(domains, (domain) => 31 - Math.clz32(domain))
      solutions.push(Array.from({ length: attributes }, (_, attribute) => house.slice(attribute * houses, (attribute + 1) * houses)))
      return
    }
    for (let p = 0; p < houses && solutions.length < limit; p++) {
      if (!(domains[choice] & (1 << p))) continue
      const branch = domains.slice()
      branch[choice] = 1 << p
      search(branch)
    }
  }

  const domains = new Uint32Array(attributes * houses).fill(everywhere)
  for (const clue of clues) {
    if ('house' in clue) domains[clue.a.attribute * houses + clue.a.value] &= clue.kind === 'at' ? 1 << clue.house : ~(1 << clue.house)
  }
  search(domains)
  return solutions
}

const mask = (houses: number, has: (house: number) => boolean): number => {
  let bits = 0
  for (let house = 0; house < houses; house++) if (has(house)) bits |= 1 << house
  return bits
}

/** The union of `sets[p]` over the houses p in `domain`. */
const union = (domain: number, sets: readonly number[]): number => {
  let bits = 0
  for (let rest = domain; rest; rest &= rest - 1) bits |= sets[31 - Math.clz32(rest & -rest)]
  return bits
}

const isSingle = (domain: number): boolean => domain !== 0 && (domain & (domain - 1)) === 0

const count = (domain: number): number => {
  let bits = 0
  for (let rest = domain; rest; rest &= rest - 1) bits++
  return bits
}
