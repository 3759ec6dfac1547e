/** Trained (or untrained) teams of a grid under the inference-time protocols: `teamtr protocols`, its results kept in the run folder. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { messageOf } from '../util/errors.js'
import { readJson, writeAtomic } from '../util/files.js'
import { validate } from '../util/validate.js'
import type { Cell } from './grid.js'
import { folderOf, runTeamtr, type GridResult, type GridRunOptions } from './runGrid.js'

const estimate = z.object({ estimate: z.number() })
const resultsSchema = z.object({
  problems: z.int(),
  results: z.array(z.object({ protocol: z.string(), oracle: z.boolean(), n: z.number(), tokens: z.number(), reward: estimate, gain: estimate })),
})
export type ProtocolResults = z.output<typeof resultsSchema>

const fileOf = (folder: string): string => join(folder, 'protocols.json')

/** What the protocols made of the team in a run folder; undefined where that was not measured. @throws InputError when the file is damaged */
export const protocolsIn = (folder: string): ProtocolResults | undefined =>
  existsSync(fileOf(folder)) ? validate(resultsSchema, readJson(fileOf(folder)), fileOf(folder)) : undefined

/** Measure the teams that are not measured yet, one after the other. */
export const addProtocolResults = async (
  cells: readonly Cell[], options: Pick<GridRunOptions, 'folder' | 'jobs' | 'engine' | 'processors' | 'signal'>,
): Promise<Pick<GridResult, 'failed'>> => {
  const failed: { id: string; reason: string }[] = []
  for (const cell of cells) {
    const folder = folderOf(options.folder, cell)
    if (!existsSync(folder) || existsSync(fileOf(folder)) || options.signal?.aborted) continue
    try {
      writeAtomic(fileOf(folder), await runTeamtr(['protocols', folder, '--json'], `protocols ${cell.id}`, { ...options, jobs: 1 }))
    } catch (error) {
      if (!options.signal?.aborted) failed.push({ id: `protocols of ${cell.id}`, reason: messageOf(error) })
    }
  }
  return { failed }
}
