import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InvalidArgumentError, type Command } from 'commander'
import type { Cell, Grid } from '../experiments/grid.js'
import type { Manifest } from '../experiments/folder.js'
import { InputError } from '../util/errors.js'
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

const whole = wholeFrom(1, 9999)

/** `teamtr experiment`: the declared grids of configs/experiments. */
export const addExperiment = (program: Command): void => {
  const experiment = program.command('experiment')
    .description('run a declared grid of training runs (configs/experiments), each in a process and a run folder of its own, and gather its tables')
    .argument('[name]', 'which; without one they are listed. Or a file of the same form')
    .option('--quick', 'the small version that the experiment declares')
    .option('--seeds <n>', 'seeds 0 … n − 1 (default: what the experiment declares)', whole)
    .option('--jobs <n>', `runs at a time, at most ${JOBS_A_PROCESSOR} for each processor; the processors are divided among them`, whole, 2)
    .option('--out <dir>', 'where runs go (default: runs/experiments, or runs/experiments-quick)')
    .option('--data [dir]', 'also write the tables there (default: data/experiments; on for a whole full grid, --no-data turns it off)')
    .option('--no-data')
    .option('--resume', 'go on with what is in the folder: finished runs are read back, interrupted ones continued')
    .option('--shard <i/k>', 'only the i-th of k parts of the grid, from 1: for several machines; `teamtr experiment merge` gathers them', shard)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', `
OUT/NAME holds a run folder for each cell of the grid, and NAME-runs.csv (a row a run), NAME-summary.csv (mean, deviation, Student's and bootstrap interval over
seeds, paired difference to the reference) and, where the experiment asks for them, NAME-growth.csv and NAME-weights.csv. One failed run does
not stop the others; it is named at the end. Ctrl-C stops after the updates that are being made; the same command with --resume goes on.
Where another process works on a run already (this command given twice on one folder), it is waited for.

Exit codes: 0 done, 1 a run failed or is missing, 2 wrong input, 130 stopped by Ctrl-C.

Examples:
  teamtr experiment
  teamtr experiment main --quick
  teamtr experiment team-size --seeds 5 --jobs 4 --resume
  teamtr experiment main --shard 2/8 --out /scratch/part-2     (docs/cluster.md)
  teamtr experiment merge /scratch/part-* --out runs/merged`)
    .action(run)

  experiment.command('merge')
    .description('gather the runs of one grid from several --out folders (shards) into its tables; folders of differing grids are refused')
    .argument('<folders...>', '--out folders')
    .option('--out <dir>', 'where the tables go')
    .option('--json', 'print the summary as JSON')
    .addHelpText('after', `
Exit codes: 0 done, 1 a run of the grid is in none of the folders, or unfinished (it is named), 2 wrong input.`)
    // commander hands --out and --json to the command above, which knows them too.
    .action((folders: string[], _: unknown, command: Command) => merge(folders, command.optsWithGlobals()))
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

/** An experiment's name and file from what the user gave. */
const find = async (given: string): Promise<{ name: string; file: string }> => {
  if (names().includes(given)) return { name: given, file: join(declared, `${given}.yaml`) }
  if (/\.(ya?ml|json)$/.test(given)) {
    const name = given.replace(/^.*[\\/]/, '').replace(/\.[^.]*$/, '')
    return { name, file: given }
  }
  const { didYouMean } = await import('../util/validate.js')
  throw new InputError(`experiment: holds "${given}"; expected one of ${names().join(', ')}, or a .yaml file${didYouMean(given, names())}`)
}

const run = async (given: string | undefined, options: Options): Promise<void> => {
  if (given === undefined) return list()
  const started = performance.now()
  const [{ expandGrid, shardOf }, { runGrid, folderOf, isCellDone }, { claimFolder, isExperiment }, { writableFolder }, { progress }, { addProtocolResults }] = await Promise.all([
    import('../experiments/grid.js'), import('../experiments/runGrid.js'), import('../experiments/folder.js'), import('../util/files.js'), import('../util/progress.js'),
    import('../experiments/protocolCells.js'),
  ])
  const { name, file } = await find(given)
  const grid = await readGrid(file)
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
  writableFolder(folder)
  const manifest: Manifest = { experiment: name, version: await version(), quick, seeds: all.at(-1)!.seed + 1, grid }
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
  const data = options.data === undefined ? (complete && !quick ? DATA : undefined) : options.data === true ? DATA : options.data || undefined
  const text = await tables(name, grid, finished, (cell) => folderOf(folder, cell), [folder, ...(data !== undefined && complete ? [data] : [])], options.json)
  process.stdout.write(`${text}\n`)
  if (!complete) say(`${finished.length} of ${all.length} runs of the grid are here${options.shard ? '; gather the shards with: teamtr experiment merge' : ''}`)
  for (const { id, reason } of failed) say(`failed: ${id}: ${reason}`)
  say(`${duration((performance.now() - started) / 1000)}; tables in ${[folder, ...(data !== undefined && complete ? [data] : [])].join(' and ')}`)
  if (result.stopped || stop.signal.aborted) process.exitCode = 130
  else if (failed.length > 0) process.exitCode = 1
}

const DATA = join('data', 'experiments')

const version = async (): Promise<string> => {
  const { readJson } = await import('../util/files.js')
  return (readJson(fileURLToPath(new URL('../../package.json', import.meta.url))) as { version: string }).version
}

/** Write the tables of an experiment into folders. @returns what is to be printed */
const tables = async (name: string, grid: Grid, cells: readonly Cell[], folderOf: (cell: Cell) => string, folders: readonly string[], json?: boolean): Promise<string> => {
  if (cells.length === 0) return json ? '[]' : 'no run is finished'
  const [{ resultsOf, readableResults }, { toCsv }, { writeAtomic }] = await Promise.all([
    import('../experiments/results.js'), import('../figures/csv.js'), import('../util/files.js'),
  ])
  const results = resultsOf(grid, cells, folderOf)
  for (const folder of folders) {
    for (const [kind, rows] of Object.entries(results)) if (rows.length > 0) writeAtomic(join(folder, `${name}-${kind}.csv`), toCsv(rows))
  }
  return json ? JSON.stringify(results.summary, null, 1) : readableResults(results, grid)
}

const merge = async (folders: string[], { out, json }: Pick<Options, 'out' | 'json'>): Promise<void> => {
  if (out === undefined) throw new InputError('--out: missing; a folder for the tables')
  const [{ expandGrid, parseGrid }, { folderOf, isCellFinished }, { isExperiment, readManifest, sameGrid }] = await Promise.all([
    import('../experiments/grid.js'), import('../experiments/runGrid.js'), import('../experiments/folder.js'),
  ])
  const parts = folders.flatMap((folder) => {
    if (!existsSync(folder)) throw new InputError(`${folder}: no such folder`)
    const inside = isExperiment(folder) ? [folder] : readdirSync(folder).map((entry) => join(folder, entry)).filter(isExperiment)
    if (inside.length === 0) throw new InputError(`${folder}: holds no experiment (no grid.json)`)
    return inside.map((at) => ({ at, manifest: readManifest(at) }))
  })
  const missing: string[] = []
  for (const name of new Set(parts.map(({ manifest }) => manifest.experiment))) {
    const own = parts.filter(({ manifest }) => manifest.experiment === name)
    const [first] = own
    for (const { at, manifest } of own.slice(1)) sameGrid(first.manifest, first.at, manifest, at)
    const { quick, seeds } = first.manifest
    const grid = parseGrid(first.manifest.grid, first.at)
    const cells = expandGrid(grid, { quick, seeds }, first.at)
    const places = new Map(cells.flatMap((cell) => {
      const part = own.find(({ at }) => isCellFinished(at, cell))
      return part ? [[cell.id, folderOf(part.at, cell)] as const] : []
    }))
    missing.push(...cells.filter(({ id }) => !places.has(id)).map(({ id }) => `${name}: ${id}`))
    const text = await tables(name, grid, cells.filter(({ id }) => places.has(id)), ({ id }) => places.get(id)!, [out], json)
    process.stdout.write(`${text}\n`)
  }
  for (const id of missing) say(`missing: ${id}`)
  say(`tables in ${out}`)
  if (missing.length > 0) process.exitCode = 1
}
