/**
 * What stands behind a number. Units are compared only when both answers carry one; `5 apples`
 * is a 5 whose unit is the noun. Conversion factors are exact fractions.
 */
export interface Unit {
  /** Exponent by base unit or noun, zero exponents left out. */
  readonly dimension: ReadonlyMap<string, number>
  /** One of these is numerator / denominator of the base units. */
  readonly numerator: bigint
  readonly denominator: bigint
}

/** The words behind a number: `5 million dollars` is 5 · 10⁶, in dollars. */
export interface Measure {
  readonly multiplier: bigint
  readonly unit?: Unit
}

/** name → base unit, numerator, denominator. Plurals are formed below. */
const TABLE: Readonly<Record<string, readonly [string, bigint, bigint]>> = {
  mm: ['meter', 1n, 1000n],
  millimeter: ['meter', 1n, 1000n],
  millimetre: ['meter', 1n, 1000n],
  cm: ['meter', 1n, 100n],
  centimeter: ['meter', 1n, 100n],
  centimetre: ['meter', 1n, 100n],
  m: ['meter', 1n, 1n],
  meter: ['meter', 1n, 1n],
  metre: ['meter', 1n, 1n],
  km: ['meter', 1000n, 1n],
  kilometer: ['meter', 1000n, 1n],
  kilometre: ['meter', 1000n, 1n],
  in: ['inch', 1n, 1n],
  inch: ['inch', 1n, 1n],
  inches: ['inch', 1n, 1n],
  ft: ['inch', 12n, 1n],
  foot: ['inch', 12n, 1n],
  feet: ['inch', 12n, 1n],
  yd: ['inch', 36n, 1n],
  yard: ['inch', 36n, 1n],
  mi: ['inch', 63360n, 1n],
  mile: ['inch', 63360n, 1n],
  mg: ['gram', 1n, 1000n],
  g: ['gram', 1n, 1n],
  gm: ['gram', 1n, 1n],
  gram: ['gram', 1n, 1n],
  kg: ['gram', 1000n, 1n],
  kilogram: ['gram', 1000n, 1n],
  oz: ['ounce', 1n, 1n],
  ounce: ['ounce', 1n, 1n],
  lb: ['ounce', 16n, 1n],
  pound: ['ounce', 16n, 1n],
  ml: ['liter', 1n, 1000n],
  milliliter: ['liter', 1n, 1000n],
  liter: ['liter', 1n, 1n],
  litre: ['liter', 1n, 1n],
  s: ['second', 1n, 1n],
  sec: ['second', 1n, 1n],
  second: ['second', 1n, 1n],
  min: ['second', 60n, 1n],
  minute: ['second', 60n, 1n],
  h: ['second', 3600n, 1n],
  hr: ['second', 3600n, 1n],
  hour: ['second', 3600n, 1n],
  day: ['second', 86400n, 1n],
  week: ['second', 604800n, 1n],
  cent: ['dollar', 1n, 100n],
  '¢': ['dollar', 1n, 100n],
  dollar: ['dollar', 1n, 1n],
  usd: ['dollar', 1n, 1n],
  $: ['dollar', 1n, 1n],
  '£': ['pound sterling', 1n, 1n],
  '€': ['euro', 1n, 1n],
  euro: ['euro', 1n, 1n],
  '°': ['degree', 1n, 1n],
  degree: ['degree', 1n, 1n],
  deg: ['degree', 1n, 1n],
  '%': ['percent', 1n, 1n],
  percent: ['percent', 1n, 1n],
  rad: ['radian', 1n, 1n],
  radian: ['radian', 1n, 1n],
}
/** Plain letters that are far more often something else. */
const NEVER_PLAIN = new Set(['in', 'min', 'sec', 'rad', 'deg', 'mi', 'gm', 'yd'])
const SCALES: Readonly<Record<string, bigint>> = {
  hundred: 100n,
  thousand: 1000n,
  million: 10n ** 6n,
  billion: 10n ** 9n,
  trillion: 10n ** 12n,
}
const NOISE = new Set(['unit', 'of', 'the', 'a', 'an', 'in', 'total', 'exactly', 'th', 'st', 'nd', 'rd', 'base'])

const singular = (word: string): string => (word in TABLE ? word : word.replace(/(?<=[a-z]{2})s$/, ''))

/** Whether a plain run of letters, lower case, is read as a unit. */
export const isUnit = (word: string): boolean => !NEVER_PLAIN.has(word) && (singular(word) in TABLE || singular(word) in SCALES)

/**
 * `square centimeters per hour`, `cm^2/h`, `miles per hour`, `million apples`.
 *
 * @param words lower case; `^` is followed by its exponent
 */
export const parseMeasure = (words: readonly string[]): Measure => {
  let multiplier = 1n
  const dimension = new Map<string, number>()
  let numerator = 1n
  let denominator = 1n
  let sign = 1
  let power = 1
  let last: string | undefined
  const scale = (n: bigint, d: bigint, exponent: number): void => {
    if (exponent < 0) [n, d, exponent] = [d, n, -exponent]
    numerator *= n ** BigInt(exponent)
    denominator *= d ** BigInt(exponent)
  }
  const add = (word: string, exponent: number): void => {
    const [base, n, d] = TABLE[singular(word)] ?? [singular(word), 1n, 1n]
    scale(n, d, exponent)
    dimension.set(base, (dimension.get(base) ?? 0) + exponent)
    last = word
  }
  const all = words.flatMap((text) => (text === 'mph' ? ['mile', '/', 'hour'] : text === 'kph' ? ['km', '/', 'hour'] : [text]))
  for (let i = 0; i < all.length; i++) {
    const word = all[i].replace(/^[.,]+|[.,]+$/g, '')
    if (word === '') continue
    if (word === '^') {
      const exponent = Number(all[++i])
      if (last !== undefined && Number.isInteger(exponent) && Math.abs(exponent) < 10)
        add(last, Math.sign(dimension.get(baseOf(last)) ?? 1) * (exponent - 1))
    } else if (word === '/' || word === 'per') sign = -1
    else if (word === 'square' || word === 'sq') power = 2
    else if (word === 'cubic' || word === 'cu') power = 3
    else if ((word === 'squared' || word === 'cubed') && last !== undefined)
      add(last, Math.sign(dimension.get(baseOf(last)) ?? 1) * (word === 'squared' ? 1 : 2))
    else if (singular(word) in SCALES) multiplier *= SCALES[singular(word)]
    else if (NOISE.has(singular(word))) {
      // `units` measures nothing, whatever its power
      power = 1
      last = undefined
    } else {
      add(word, sign * power)
      power = 1
    }
  }
  for (const [base, exponent] of dimension) if (exponent === 0) dimension.delete(base)
  return dimension.size > 0 ? { multiplier, unit: { dimension, numerator, denominator } } : { multiplier }
}

const baseOf = (word: string): string => TABLE[singular(word)]?.[0] ?? singular(word)

export const sameDimension = (a: Unit, b: Unit): boolean =>
  a.dimension.size === b.dimension.size && [...a.dimension].every(([base, exponent]) => b.dimension.get(base) === exponent)
