/** What an experiment's folder says of the grid whose runs it holds. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { experimentName, MAX_SEEDS } from './grid.js'
import { firstDifference } from '../train/runFolder.js'
import { InputError } from '../util/errors.js'
import { readJson, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'

const manifestSchema = z.strictObject({
  /** Files are called by it. */
  experiment: experimentName,
  /** Of teamtr. */
  version: z.string(),
  quick: z.boolean(),
  /** Seeds that are run: 0 … seeds − 1, however many the grid declares. */
  seeds: z.int().min(1).max(MAX_SEEDS),
  /** As configs/experiments/NAME.yaml declares it, checked. */
  grid: z.record(z.string(), z.unknown()),
})
export type Manifest = z.output<typeof manifestSchema>

export const manifestOf = (folder: string): string => join(folder, 'grid.json')

/** Whether a folder is an experiment's. */
export const isExperiment = (folder: string): boolean => existsSync(manifestOf(folder))

/** @throws InputError when there is none, or it is damaged */
export const readManifest = (folder: string): Manifest => validate(manifestSchema, readJson(manifestOf(folder)), manifestOf(folder))

/**
 * Note which grid a folder is for. Seeds may be added to one that is there: its runs stay what they are, and so does each shard's part of them.
 *
 * @throws InputError when it is for another one already, by field, or for more seeds
 */
export const claimFolder = (folder: string, manifest: Manifest): void => {
  if (isExperiment(folder)) {
    const there = readManifest(folder)
    sameGrid({ ...manifest, seeds: there.seeds }, 'this experiment', there, folder)
    if (manifest.seeds < there.seeds) {
      throw new InputError(`${manifestOf(folder)}: seeds: holds ${there.seeds}; ${manifest.seeds} asked for: they can be added, not taken away (--seeds ${there.seeds}, or another --out)`)
    }
    if (!firstDifference(plain(manifest), there)) return
  }
  writeAtomic(manifestOf(folder), `${JSON.stringify(manifest, null, 1)}\n`)
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown

/** What decides which runs there are: of seeds, how many are run, not how many the grid declares. */
const deciding = (manifest: Manifest): unknown => {
  const { grid, ...rest } = plain(manifest) as Manifest & { grid: { quick?: object } }
  return { ...rest, grid: { ...grid, seeds: null, quick: { ...grid.quick, seeds: null } } }
}

/** @throws InputError naming the first field in which two differ; the same runs may be of grids that declare other numbers of seeds */
export const sameGrid = (a: Manifest, nameOfA: string, b: Manifest, folder: string): void => {
  const other = firstDifference(deciding(a), deciding(b))
  if (other) throw new InputError(`${manifestOf(folder)}: ${other.path}: holds ${show(other.b)}; ${nameOfA} has ${show(other.a)}`)
}
