/**
 * An experiment is a declared grid (configs/experiments/NAME.yaml): a base configuration, variants of it, and seeds. A cell of the grid is one run.
 * With several axes of variants the cells are all their combinations.
 */
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { z } from 'zod'
import { warmUpOf } from '../train/base.js'
import { parseConfig, type Config } from '../train/config.js'
import { InputError } from '../util/errors.js'
import { isObject } from '../util/objects.js'
import { didYouMean, show, validate } from '../util/validate.js'

/** What variants and experiments may be called: names of folders and parts of them. */
const NAME = /^[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*$/
const nameRule = 'expected lower-case letters, digits, dots and single hyphens'
/** An experiment's name; `bases` is where the warmed-up teams lie, beside the experiments. */
export const experimentName = z.string().regex(NAME, `${nameRule}, a letter or digit first`).refine((name) => name !== 'bases', 'expected another name: bases/ holds the warmed-up teams')

/** Seeds of a grid at most. */
export const MAX_SEEDS = 1000
/** Runs of a grid at most. */
const MAX_RUNS = 10_000

const overrides = z.record(z.string(), z.unknown()).superRefine((given, context) => {
  if (Object.hasOwn(given, 'seed')) context.addIssue({ code: 'custom', path: ['seed'], input: given.seed, message: 'expected none here: all variants run with the seeds of the grid (seeds: n)' })
})
const axis = z.record(z.string().regex(NAME), overrides.nullable().transform((given) => given ?? {}), {
  error: ({ code }) => (code === 'invalid_key' ? nameRule : undefined),
}).refine((variants) => Object.keys(variants).length > 0, 'expected at least one variant')
const axes = z.union([axis.transform((only) => [only]), z.array(axis).min(1)], { error: 'expected variants by name, at least one, or a list of such axes' })
const seedCount = z.int().min(1).max(MAX_SEEDS)

const gridSchema = z.strictObject({
  /** One line. */
  about: z.string().min(1),
  /** Seeds 0 … seeds − 1. */
  seeds: seedCount.default(3),
  /** What all variants share: a training configuration. */
  base: overrides.default({}),
  variants: axes,
  /** The variant of the first axis that the others are compared with, seed by seed. */
  reference: z.string().optional(),
  /** Variants whose teams, when trained, are also measured under the inference-time protocols (protocols.ts). */
  protocols: z.array(z.string()).default([]),
  /** Whether α is fitted over team.agents, for each variant of the first axis. */
  growth: z.boolean().default(false),
  /** With --quick: above the base, and instead of seeds and variants. */
  quick: z.strictObject({ seeds: seedCount.optional(), base: overrides.default({}), variants: axes.optional() }).prefault({}),
})
export type Grid = z.output<typeof gridSchema>

/** @throws InputError naming the field that is wrong */
export const parseGrid = (value: unknown, where: string): Grid => {
  const grid = validate(gridSchema, value, where)
  const { reference, variants, protocols } = grid
  const known = Object.keys(variants[0])
  for (const [field, name] of [['reference', reference], ...protocols.map((name, i) => [`protocols[${i}]`, name])]) {
    if (name !== undefined && !known.includes(name)) throw new InputError(`${where}: ${field}: holds ${show(name)}; expected one of the variants ${known.join(', ')}${didYouMean(name, known)}`)
  }
  return grid
}

/** One run. */
export interface Cell {
  /** Its variant's name on each axis. */
  readonly levels: readonly string[]
  readonly variant: string
  readonly seed: number
  /** VARIANT-SEED. */
  readonly id: string
  readonly config: Config
  /** Cells whose runs this one starts from: of the variants that its `start` names where a run stands, with the same seed. */
  readonly after: readonly string[]
}

export interface GridOptions {
  readonly quick: boolean
  /** Default: the grid's. */
  readonly seeds?: number
}

/** All cells, seed by seed. @throws InputError naming the variant and the field that is wrong; for more than 10000 runs; for two variants of one name */
export const expandGrid = (grid: Grid, { quick, seeds }: GridOptions, where: string): Cell[] => {
  const base = quick ? above(grid.quick.base, grid.base) : grid.base
  const variants = (quick ? grid.quick.variants : undefined) ?? grid.variants
  const count = seeds ?? (quick ? grid.quick.seeds : undefined) ?? grid.seeds
  const runs = variants.reduce((product, axis) => product * Object.keys(axis).length, count)
  if (runs > MAX_RUNS) throw new InputError(`${where}: variants: ${runs} runs with ${count} seeds; at most ${MAX_RUNS}`)
  const rows = variants.reduce<{ levels: string[]; given: unknown }[]>(
    (rows, axis) => rows.flatMap(({ levels, given }) => Object.entries(axis).map(([name, more]) => ({ levels: [...levels, name], given: above(more, given) }))),
    [{ levels: [], given: base }],
  )
  const named = new Map<string, string>()
  for (const { levels } of rows) {
    const [name, how] = [levels.join('-'), levels.join(' with ')]
    if (named.has(name)) throw new InputError(`${where}: variants: ${named.get(name)} and ${how} are both ${name}; expected names that stay apart when they are joined`)
    named.set(name, how)
  }
  return Array.from({ length: count }, (_, seed) => rows.map(({ levels, given }): Cell => {
    const variant = levels.join('-')
    const config = parseConfig(above({ seed }, given), `${where}: variant ${variant}`)
    const after = runsOf(config).map((name) => {
      if (rows.some(({ levels, given }) => levels.join('-') === name && !(isObject(given) && isObject(given.start)))) return `${name}-${seed}`
      throw new InputError(`${where}: variant ${variant}: start.run: holds ${show(name)}; expected a variant that starts from no other run`)
    })
    return { levels, variant, seed, id: `${variant}-${seed}`, config, after }
  })).flat()
}

/** The runs that a configuration starts from. */
const runsOf = ({ start }: Config): string[] => (start ? [start.run, ...(start.with ? [start.with.run] : [])] : [])

/** The configuration of a cell whose grid is run in `folder`: what it starts from are run folders there. */
export const configIn = (folder: string, { config, seed }: Pick<Cell, 'config' | 'seed'>): Config => {
  const { start } = config
  if (!start) return config
  const at = (variant: string): string => resolve(folder, `${variant}-${seed}`)
  return { ...config, start: { ...start, run: at(start.run), with: start.with && { ...start.with, run: at(start.with.run) } } }
}

/** The cells of shard i of k (from 1): every k-th, so that shards are alike. Each cell is in exactly one; those that start from others' runs, with all of their seed. */
export const shardOf = (cells: readonly Cell[], i: number, k: number): Cell[] => {
  const chained = new Set(cells.filter(({ after }) => after.length > 0).map(({ seed }) => seed))
  return cells.filter(({ seed }, at) => (chained.has(seed) ? seed : at) % k === i - 1)
}

/** `more` over `given`, object by object; anything else is replaced. A method is replaced whole: what it was before means nothing to it. */
const above = (more: unknown, given: unknown): unknown => {
  if (!isObject(more) || !isObject(given)) return more
  const keys = new Set([...Object.keys(given), ...Object.keys(more)])
  return Object.fromEntries([...keys].map((key) => [key, !Object.hasOwn(more, key) ? given[key] : key === 'method' ? more[key] : above(more[key], given[key])]))
}

/** A run of no updates that warms up the team which a cell starts from, and a name for it: cells that start alike have the same. */
export const baseOf = ({ config }: Pick<Cell, 'config'>): { readonly name: string; readonly config: Config } => {
  const warmUp = warmUpOf(config)
  const base = parseConfig({ ...warmUp, stages: 0, rollout: { prompts: 1, group: 2 }, evaluation: { problems: 1 } }, 'base')
  return { name: createHash('sha256').update(JSON.stringify(warmUp)).digest('hex').slice(0, 16), config: base }
}
