/** What an experiment's folder says of the grid whose runs it holds. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { firstDifference } from '../train/runFolder.js'
import { InputError } from '../util/errors.js'
import { readJson, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'

const manifestSchema = z.strictObject({
  experiment: z.string(),
  /** Of teamtr. */
  version: z.string(),
  quick: z.boolean(),
  seeds: z.int().min(1),
  /** As configs/experiments/NAME.yaml declares it, checked. */
  grid: z.unknown(),
})
export type Manifest = z.output<typeof manifestSchema>

const fileOf = (folder: string): string => join(folder, 'grid.json')

/** Whether a folder is an experiment's. */
export const isExperiment = (folder: string): boolean => existsSync(fileOf(folder))

/** @throws InputError when there is none, or it is damaged */
export const readManifest = (folder: string): Manifest => validate(manifestSchema, readJson(fileOf(folder)), fileOf(folder))

/** Note which grid a folder is for. @throws InputError when it is for another one already, by field */
export const claimFolder = (folder: string, manifest: Manifest): void => {
  if (isExperiment(folder)) sameGrid(manifest, 'this experiment', readManifest(folder), folder)
  else writeAtomic(fileOf(folder), `${JSON.stringify(manifest, null, 1)}\n`)
}

/** @throws InputError naming the first field in which two differ */
export const sameGrid = (a: Manifest, nameOfA: string, b: Manifest, folder: string): void => {
  const plain = (manifest: Manifest): unknown => JSON.parse(JSON.stringify(manifest)) as unknown
  const other = firstDifference(plain(a), plain(b))
  if (other) throw new InputError(`${fileOf(folder)}: ${other.path}: holds ${show(other.b)}; ${nameOfA} has ${show(other.a)}`)
}
