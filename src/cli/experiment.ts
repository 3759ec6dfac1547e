import { existsSync, readdirSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InvalidArgumentError, type Command } from 'commander'
import type { Grid } from '../experiments/grid.js'
import type { Manifest } from '../experiments/folder.js'
import type { Results } from '../experiments/results.js'
import { InputError, messageOf } from '../util/errors.js'
import { duration } from '../util/progress.js'
import { wholeFrom } from './promptOptions.js'

interface Options {
  readonly quick?: boolean
  readonly seeds?: number
  readonly jobs: number
  readonly out?: string
  readonly data?: string | boolean
  readonly resume?: boolean
  readonly shard?: { readonly i: number; readonly k: number }
  readonly engine?: string
  readonly json?: boolean
}

/** `teamtr experiment`: the declared grids of configs/experiments. */
export const addExperiment = (program: Command): void => {
  const experiment = program.command('experiment')
    .description('run a declared grid of training runs (configs/experiments), each in a process and a run folder of its own, and gather its tables')
    .argument('[name]', 'which; without one they are listed. Or a file of the same form')
    .option('--quick', 'the small version that the experiment declares')
    .option('--seeds <n>', 'seeds 0 … n − 1 (default: what the experiment declares); more can be added later, with --resume', wholeFrom(1, 1000))
    .option('--jobs <n>', `runs at a time, at most ${JOBS_A_PROCESSOR} for each processor; the processors are divided among them`, wholeFrom(1, 9999), 2)
    .option('--out <dir>', 'where runs go (default: runs/experiments, or runs/experiments-quick)')
    .option('--data [dir]', 'when all runs of the grid are finished, write the tables there too; without a folder: data/experiments')
    .option('--no-data', 'never write tables outside --out')
    .option('--resume', 'go on with what is in the folder: finished runs are read back, interrupted ones continued')
    .option('--shard <i/k>', 'only the i-th of k parts of the grid, from 1: for several machines; `teamtr experiment merge` gathers them', shard)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', `
OUT/NAME holds a run folder for each cell of the grid, grid.json (what grid it is) and the tables NAME-runs.csv (a row a run), NAME-summary.csv (mean,
deviation, Student's and bootstrap interval over seeds, paired difference to the reference) and, where the experiment has such runs, NAME-growth.csv,
NAME-weights.csv and NAME-swaps.csv: docs/experiments.md has their columns. OUT/bases holds the warmed-up teams that runs start from.
data/experiments, in the current folder, holds recorded tables. They are replaced only by a declared experiment (a NAME, no file), full, with the seeds that it
declares, once all its runs are finished; by anything else only with --data.
One failed run does not stop the others; it is named at the end. Ctrl-C stops after the updates that are being made; the same command with --resume
goes on, and with a larger --seeds adds runs.
A run that another process works on (this command given twice on one folder) is waited for.

Exit codes: 0 done, 1 a run failed or is missing, 2 wrong input, 130 stopped by Ctrl-C.

Examples:
  teamtr experiment
  teamtr experiment main --quick
  teamtr experiment team-size --seeds 5 --jobs 4 --resume
  teamtr experiment main --shard 2/8 --out /scratch/part-2     (docs/cluster.md)
  teamtr experiment merge /scratch/part-* --out runs/merged`)
    .action(run)

  experiment.command('merge')
    .description('gather the runs of a grid from several --out folders (shards) into its tables; folders of differing grids or seeds are refused')
    .argument('<folders...>', '--out folders, or OUT/NAME of one experiment')
    .option('--out <dir>', 'where the tables go (needed)')
    .option('--json', 'print the summaries as one JSON object, by experiment')
    .addHelpText('after', `
Exit codes: 0 done, 1 a run of the grid is in none of the folders, or unfinished (it is named), 2 wrong input.`)
    // commander hands the options to the command above, which knows --out and --json too, and others that mean nothing here.
    .action((folders: string[], _: unknown, command: Command) => {
      const { out, json } = command.optsWithGlobals<Options>()
      const lost = experiment.options.find((option) => !['out', 'json'].includes(option.attributeName()) && experiment.getOptionValueSource(option.attributeName()) === 'cli')
      if (lost) throw new InputError(`${lost.long}: is no option of merge, which has --out and --json`)
      if (out === undefined) throw new InputError('--out: missing; a folder for the tables')
      return merge(folders, out, json)
    })
}

const shard = (text: string): { i: number; k: number } => {
  const [, i, k] = /^(\d{1,5})\/(\d{1,5})$/.exec(text)?.map(Number) ?? []
  if (!(i >= 1 && i <= k)) throw new InvalidArgumentError('expected i/k with 1 ≤ i ≤ k, for example 2/8')
  return { i, k }
}

/** More only wait for each other. */
const JOBS_A_PROCESSOR = 4

const declared = fileURLToPath(new URL('../../configs/experiments', import.meta.url))
const say = (text: string): void => void process.stderr.write(`${text}\n`)

const readGrid = async (file: string): Promise<Grid> => {
  const [{ readConfig }, { parseGrid }] = await Promise.all([import('../util/files.js'), import('../experiments/grid.js')])
  return parseGrid(await readConfig(file), file)
}

const names = (): string[] => readdirSync(declared).filter((file) => file.endsWith('.yaml')).map((file) => file.slice(0, -5)).sort()

const list = async (): Promise<void> => {
  const { expandGrid } = await import('../experiments/grid.js')
  const width = Math.max(...names().map(({ length }) => length))
  for (const name of names()) {
    const grid = await readGrid(join(declared, `${name}.yaml`))
    const [quick, full] = [true, false].map((quick) => expandGrid(grid, { quick }, name).length)
    process.stdout.write(`${name.padEnd(width)}  ${grid.about} (${full} runs; quick: ${quick})\n`)
  }
}

/** An experiment's name and file from what the user gave, and whether it is a declared one. */
const find = async (given: string): Promise<{ name: string; file: string; isDeclared: boolean }> => {
  if (names().includes(given)) return { name: given, file: join(declared, `${given}.yaml`), isDeclared: true }
  const [{ didYouMean, validate }, { experimentName }] = await Promise.all([import('../util/validate.js'), import('../experiments/grid.js')])
  if (/\.(ya?ml|json)$/.test(given)) {
    const name = given.replace(/^.*[\\/]/, '').replace(/\.[^.]*$/, '')
    return { name: validate(experimentName, name, `${given}: the file's name`), file: given, isDeclared: false }
  }
  throw new InputError(`experiment: holds "${given}"; expected one of ${names().join(', ')}, or a .yaml file${didYouMean(given, names())}`)
}

const run = async (given: string | undefined, options: Options): Promise<void> => {
  if (given === undefined) return list()
  const started = performance.now()
  const [{ expandGrid, shardOf }, { runGrid, folderOf, isCellDone }, { claimFolder, isExperiment }, { writableFolder }, { progress }, { addProtocolResults }, { resultsOf, readableResults }, { locateGrid }] = await Promise.all([
    import('../experiments/grid.js'), import('../experiments/runGrid.js'), import('../experiments/folder.js'), import('../util/files.js'), import('../util/progress.js'),
    import('../experiments/protocolCells.js'), import('../experiments/results.js'), import('../experiments/locateGrid.js'),
  ])
  const { name, file, isDeclared } = await find(given)
  const grid = locateGrid(await readGrid(file), file)
  const { quick = false, seeds, engine } = options
  const all = expandGrid(grid, { quick, seeds }, file)
  const cells = options.shard ? shardOf(all, options.shard.i, options.shard.k) : all
  const out = options.out ?? join('runs', quick ? 'experiments-quick' : 'experiments')
  const folder = join(out, name)
  if (!options.resume && isExperiment(folder) && cells.some((cell) => existsSync(folderOf(folder, cell)))) {
    throw new InputError(`${folder}: holds runs already; add --resume to go on with them, or choose another --out`)
  }
  const processors = availableParallelism()
  const jobs = Math.max(1, Math.min(options.jobs, cells.length))
  if (jobs > JOBS_A_PROCESSOR * processors) {
    throw new InputError(`--jobs: holds ${options.jobs}; expected at most ${JOBS_A_PROCESSOR * processors}, ${JOBS_A_PROCESSOR} for each processor here`)
  }
  if (engine !== undefined) await (await import('../train/backend.js')).initEngine(engine) // Throws where it cannot run.
  const count = all.at(-1)!.seed + 1
  const data = dataFolders(options.data, { isDeclared, quick, seeds: count }, grid)
  for (const into of [folder, ...data]) writableFolder(into)
  const manifest: Manifest = { experiment: name, version: await version(), quick, seeds: count, grid }
  claimFolder(folder, manifest)

  const stop = new AbortController()
  const interrupt = (): void => {
    if (stop.signal.aborted) process.exit(130)
    stop.abort()
    say('\nstopping after the updates that are being made; Ctrl-C again leaves at once')
  }
  process.on('SIGINT', interrupt)
  process.on('SIGTERM', interrupt)
  const missing = cells.filter((cell) => !isCellDone(folder, cell)).length
  say(`${name}: ${cells.length} runs${cells.length < all.length ? ` of ${all.length}` : ''}, ${missing} to do, ${jobs} at a time, in ${folder}`)
  let line: ReturnType<typeof progress> | undefined
  let ended = 0
  const result = await runGrid(cells, {
    folder, jobs, engine,
    bases: join(out, 'bases'),
    processors,
    signal: stop.signal,
    onProgress: (done, total, running) => (line ??= progress(name, total, 'updates')).update(done, running.join(', ')),
    onCell: (cell, { state, reason, seconds }) => {
      ended++
      line?.end()
      if (state === 'finished') say(`${cell.id}: ${duration(seconds)} (${ended} of ${missing})`)
      else if (state === 'failed') say(`${cell.id}: FAILED: ${reason}`)
    },
  })
  line?.end()
  const failed = [...result.failed]
  if (!result.stopped) {
    const protocols = await addProtocolResults(cells.filter(({ levels }) => grid.protocols.includes(levels[0])), { folder, jobs, engine, processors, signal: stop.signal })
    failed.push(...protocols.failed)
  }
  process.off('SIGINT', interrupt)
  process.off('SIGTERM', interrupt)

  const finished = all.filter((cell) => isCellDone(folder, cell))
  const complete = finished.length === all.length
  const results = finished.length > 0 ? resultsOf(grid, finished, (cell) => folderOf(folder, cell)) : undefined
  const folders = results ? [folder, ...(complete ? data : [])] : []
  if (results) await writeTables(name, results, folders)
  process.stdout.write(`${options.json ? JSON.stringify(results?.summary ?? [], null, 1) : results ? readableResults(results, grid) : 'no run is finished'}\n`)
  if (!complete) say(`${finished.length} of ${all.length} runs of the grid are here${options.shard ? '; gather the shards with: teamtr experiment merge' : ''}`)
  for (const { id, reason } of failed) say(`failed: ${id}: ${reason}`)
  say(`${duration((performance.now() - started) / 1000)}${folders.length > 0 ? `; tables in ${folders.join(' and ')}` : ''}`)
  if (result.stopped || stop.signal.aborted) process.exitCode = 130
  else if (failed.length > 0) process.exitCode = 1
}

/** Where else the tables of a finished grid go: where the user says; those of a declared experiment, run as declared, beside the recorded ones. */
export const dataFolders = (given: string | boolean | undefined, run: { isDeclared: boolean; quick: boolean; seeds: number }, grid: Pick<Grid, 'seeds'>): string[] => {
  if (typeof given === 'string') return [given]
  return given ?? (run.isDeclared && !run.quick && run.seeds === grid.seeds) ? [join('data', 'experiments')] : []
}

const version = async (): Promise<string> => {
  const { readJson } = await import('../util/files.js')
  return (readJson(fileURLToPath(new URL('../../package.json', import.meta.url))) as { version: string }).version
}

const writeTables = async (name: string, results: Results, folders: readonly string[]): Promise<void> => {
  const [{ toCsv }, { writeAtomic }] = await Promise.all([import('../figures/csv.js'), import('../util/files.js')])
  for (const folder of folders) {
    for (const [kind, rows] of Object.entries(results)) if (rows.length > 0) writeAtomic(join(folder, `${name}-${kind}.csv`), toCsv(rows))
  }
}

const entriesOf = (folder: string): string[] => {
  try {
    return readdirSync(folder).sort()
  } catch (error) {
    throw new InputError(`${folder}: cannot be read: ${messageOf(error)}`)
  }
}

/** The experiments' folders in what the user gave, each with what it says of its grid. */
const partsIn = async (folders: readonly string[]): Promise<{ at: string; manifest: Manifest }[]> => {
  const { isExperiment, readManifest } = await import('../experiments/folder.js')
  return folders.flatMap((folder) => {
    if (!existsSync(folder)) throw new InputError(`${folder}: no such folder`)
    if (!statSync(folder).isDirectory()) throw new InputError(`${folder}: is a file; an --out folder is needed`)
    const inside = isExperiment(folder) ? [folder] : entriesOf(folder).map((entry) => join(folder, entry)).filter(isExperiment)
    if (inside.length === 0) throw new InputError(`${folder}: holds no experiment (no grid.json)`)
    return inside.map((at) => ({ at, manifest: readManifest(at) }))
  })
}

/** All experiments are read and checked before the first table is written. */
const merge = async (folders: readonly string[], out: string, json?: boolean): Promise<void> => {
  const [{ expandGrid, parseGrid }, { folderOf, isCellFinished }, { manifestOf, sameGrid }, { resultsOf, readableResults }, { writableFolder }] = await Promise.all([
    import('../experiments/grid.js'), import('../experiments/runGrid.js'), import('../experiments/folder.js'), import('../experiments/results.js'), import('../util/files.js'),
  ])
  const parts = await partsIn(folders)
  const merged = [...new Set(parts.map(({ manifest }) => manifest.experiment))].map((name) => {
    const own = parts.filter(({ manifest }) => manifest.experiment === name)
    const [first] = own
    for (const { at, manifest } of own.slice(1)) sameGrid(first.manifest, first.at, manifest, at)
    const { quick, seeds } = first.manifest
    const where = `${manifestOf(first.at)}: grid`
    const grid = parseGrid(first.manifest.grid, where)
    const cells = expandGrid(grid, { quick, seeds }, where)
    const places = new Map(cells.flatMap((cell) => {
      const part = own.find(({ at }) => isCellFinished(at, cell))
      return part ? [[cell.id, folderOf(part.at, cell)] as const] : []
    }))
    const finished = cells.filter(({ id }) => places.has(id))
    const results = finished.length > 0 ? resultsOf(grid, finished, ({ id }) => places.get(id)!) : undefined
    return { name, grid, results, missing: cells.filter(({ id }) => !places.has(id)).map(({ id }) => `${name}: ${id}`) }
  })
  const some = merged.some(({ results }) => results)
  if (some) writableFolder(out)
  for (const { name, results } of merged) if (results) await writeTables(name, results, [out])
  process.stdout.write(json
    ? `${JSON.stringify(Object.fromEntries(merged.map(({ name, results }) => [name, results?.summary ?? []])), null, 1)}\n`
    : `${merged.map(({ name, grid, results }) => `${merged.length > 1 ? `${name}\n` : ''}${results ? readableResults(results, grid) : 'no run is finished'}\n`).join('\n')}`)
  const missing = merged.flatMap(({ missing }) => missing)
  for (const id of missing) say(`missing: ${id}`)
  if (some) say(`tables in ${out}`)
  if (missing.length > 0) process.exitCode = 1
}
