import { locateFiles } from '../train/readTrainingConfig.js'
import type { Grid } from './grid.js'

/**
 * A grid whose paths of models, adapters, teams and records, which are relative to the folder of its file, are absolute: its runs' configurations lie elsewhere.
 *
 * @throws InputError naming file and field: what cannot be read, and models, adapters or records that are not there
 */
export const locateGrid = (grid: Grid, file: string): Grid => {
  const located = (axes: Grid['variants']): Grid['variants'] =>
    axes.map((axis) => Object.fromEntries(Object.entries(axis).map(([name, given]) => [name, locateFiles(given, file)])))
  const { base, variants, quick } = grid
  return {
    ...grid, base: locateFiles(base, file), variants: located(variants),
    quick: { ...quick, base: locateFiles(quick.base, file), ...(quick.variants && { variants: located(quick.variants) }) },
  }
}
