/**
 * Run the cells of a grid, some at a time, each as a process of its own (`teamtr train`), in the folder
 *
 *     OUT/bases/HASH            a warmed-up team; cells that start alike share it
 *     OUT/NAME/grid.json        what the grid is: folders of another one are refused
 *     OUT/NAME/VARIANT-SEED/    a run folder
 *     OUT/NAME/.cells/          each run's configuration as it was given, and what its process said
 *
 * Whatever is there already is read back, or gone on with; so an experiment that was stopped in any way is continued by the same command.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isWarmedUp } from '../train/base.js'
import { checkpointNames } from '../train/checkpoints.js'
import { updatesInStage, type Config } from '../train/config.js'
import { fileIn, firstDifference, readRun } from '../train/runFolder.js'
import { InputError, messageOf } from '../util/errors.js'
import { makeFolder, readJson, writeAtomic } from '../util/files.js'
import { show } from '../util/validate.js'
import { parseConfig } from '../train/config.js'
import { baseOf, configIn, type Cell } from './grid.js'

export interface GridRunOptions {
  /** OUT/NAME. */
  readonly folder: string
  /** OUT/bases. */
  readonly bases: string
  /** Processes at a time. */
  readonly jobs: number
  /** Processors to divide among them. */
  readonly processors: number
  readonly engine?: string
  readonly signal?: AbortSignal
  /** Updates done of all that this call had to do, and what runs. */
  readonly onProgress?: (done: number, total: number, running: readonly string[]) => void
  /** A cell is finished or failed. */
  readonly onCell?: (cell: Cell, outcome: CellOutcome) => void
}

export interface CellOutcome {
  readonly state: 'finished' | 'failed' | 'stopped'
  /** Why it failed. */
  readonly reason?: string
  readonly seconds: number
}

export interface GridResult {
  readonly failed: readonly { readonly id: string; readonly reason: string }[]
  /** Cells, and bases, that a process was started for. */
  readonly started: readonly string[]
  readonly stopped: boolean
}

export const folderOf = (folder: string, { id }: Pick<Cell, 'id'>): string => join(folder, id)

const plannedUpdates = (config: Config): number => config.stages * updatesInStage(config)

/** Whether a folder holds a cell's run, finished. @throws InputError when it holds another run, by field */
export const isCellFinished = (folder: string, cell: Cell): boolean => isFinished(folderOf(folder, cell), configIn(folder, cell))

/** Whether a run folder holds all updates of a configuration, and the evaluation after the last. @throws InputError when it holds another configuration's run, by field */
export const isFinished = (folder: string, config: Config): boolean => {
  if (!existsSync(fileIn.config(folder))) return false
  const own = parseConfig(readJson(fileIn.config(folder)), fileIn.config(folder))
  const other = firstDifference(placeless(config), placeless(own))
  if (other) throw new InputError(`${fileIn.config(folder)}: ${other.path}: holds ${show(other.b)}; the grid asks for ${show(other.a)}; choose another --out`)
  if (checkpointNames(folder).length === 0) return false
  const { updates, evaluations } = readRun(folder)
  const planned = plannedUpdates(config)
  return updates.length >= planned && evaluations.some(({ update }) => update === planned)
}

/** A configuration whatever folders the runs lie in that it starts from: an experiment's folder may be moved. */
const placeless = (config: Config): Config => {
  const { start } = config
  return start ? { ...config, start: { ...start, run: basename(start.run), with: start.with && { ...start.with, run: basename(start.with.run) } } } : config
}

/** @throws InputError when a folder holds another run than the grid asks for; nothing is started then */
export const runGrid = async (cells: readonly Cell[], options: GridRunOptions): Promise<GridResult> => {
  const { folder, bases, jobs, signal, onProgress, onCell } = options
  const missing = cells.filter((cell) => !isCellFinished(folder, cell))
  const failed: { id: string; reason: string }[] = []
  const started: string[] = []
  const running = new Set<string>()
  const before = new Map(missing.map((cell) => [cell.id, updatesIn(folderOf(folder, cell))]))
  const total = missing.reduce((sum, { id, config }) => sum + plannedUpdates(config) - before.get(id)!, 0)
  const now = new Map(before)
  const count = (cell: Cell): void => void now.set(cell.id, updatesIn(folderOf(folder, cell)))
  /** Only the logs that are being written are read again. */
  const done = (): number => {
    missing.filter(({ id }) => running.has(id)).forEach(count)
    return missing.reduce((sum, { id }) => sum + Math.max(0, now.get(id)! - before.get(id)!), 0)
  }

  const child = async (name: string, config: Config, into: string, more: readonly string[]): Promise<void> => {
    started.push(name)
    running.add(name)
    await train(name, config, into, more, options).finally(() => running.delete(name))
  }

  const starts = new Map<string, Promise<void>>()
  const base = (cell: Cell): { folder: string; ready: () => Promise<void> } => {
    const { name, config } = baseOf(cell)
    const at = join(bases, name)
    const make = async (): Promise<void> => {
      for (const begun = Date.now(); !isFinished(at, config);) {
        const held = existsSync(fileIn.lock(at))
        try {
          return await child(`base ${name}`, config, at, [])
        } catch (error) {
          // Another shard may be making it in the same folder: it is waited for, as long as a warm-up may take.
          if (!held && !existsSync(fileIn.lock(at)) && !isFinished(at, config)) throw error
          if (Date.now() - begun > LONGEST_WAIT || signal?.aborted) throw error
          await sleep(2000)
        }
      }
    }
    const ready = (): Promise<void> => {
      if (!starts.has(name)) starts.set(name, make())
      return starts.get(name)!
    }
    return { folder: at, ready }
  }

  const over = new Map(missing.map(({ id }) => [id, signalled()]))
  const run = async (cell: Cell): Promise<void> => {
    const begun = performance.now()
    const end = (state: CellOutcome['state'], reason?: string): void => {
      if (reason !== undefined) failed.push({ id: cell.id, reason })
      onCell?.(cell, { state, reason, seconds: (performance.now() - begun) / 1000 })
    }
    try {
      // A run that has checkpoints needs no base any more.
      const goesOn = checkpointNames(folderOf(folder, cell)).length > 0
      await Promise.all(cell.after.map((id) => over.get(id)?.promise))
      const lost = failed.find(({ id }) => cell.after.includes(id))
      if (lost) throw new InputError(`starts from ${lost.id}, which failed`)
      const start = goesOn || !isWarmedUp(cell.config) ? [] : ['--base', base(cell).folder]
      if (start.length > 0) await base(cell).ready()
      if (signal?.aborted) return end('stopped')
      await child(cell.id, configIn(folder, cell), folderOf(folder, cell), start)
      end(isCellFinished(folder, cell) ? 'finished' : 'stopped')
    } catch (error) {
      if (signal?.aborted) end('stopped')
      else end('failed', messageOf(error))
    } finally {
      count(cell)
      over.get(cell.id)!.resolve()
    }
  }

  // Bases first, so that several are warmed up side by side.
  const toWarm = new Map(missing.filter((cell) => isWarmedUp(cell.config) && checkpointNames(folderOf(folder, cell)).length === 0).map((cell) => [baseOf(cell).name, cell]))
  const queue = [
    // What goes wrong with a base is said where a cell needs it.
    ...[...toWarm.values()].map((cell) => () => base(cell).ready().catch(() => undefined)),
    // Those that others start from come before them, so waiting for one ends.
    ...missing.filter(({ after }) => after.length === 0).map((cell) => () => run(cell)),
    ...missing.filter(({ after }) => after.length > 0).map((cell) => () => run(cell)),
  ]
  const ticker = setInterval(() => onProgress?.(done(), total, [...running]), 1000)
  try {
    const worker = async (): Promise<void> => {
      for (let next = queue.shift(); next && !signal?.aborted; next = queue.shift()) await next()
    }
    await Promise.all(Array.from({ length: jobs }, worker))
  } finally {
    clearInterval(ticker)
  }
  return { failed, started, stopped: signal?.aborted ?? false }
}

/** A promise and what resolves it. */
const signalled = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve!: () => void
  const promise = new Promise<void>((done) => (resolve = done))
  return { promise, resolve }
}

/** How long a base that somebody else makes is waited for, in ms. */
const LONGEST_WAIT = 30 * 60_000

/** Lines of the log so far. */
const updatesIn = (folder: string): number => {
  const file = fileIn.log(folder)
  if (!existsSync(file)) return 0
  const bytes = readFileSync(file)
  let lines = 0
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++
  return lines
}

const teamtr = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))

const train = async (name: string, config: Config, into: string, more: readonly string[], options: GridRunOptions): Promise<void> => {
  const file = join(options.folder, '.cells', `${name.replace(' ', '-')}.json`)
  writeAtomic(file, `${JSON.stringify(config, null, 1)}\n`)
  const resume = existsSync(fileIn.config(into)) ? ['--resume'] : []
  await runTeamtr(['train', file, '--out', into, '--json', ...resume, ...more], name, options)
}

/**
 * A command of ours in a process of its own. @param name of what it says, in the experiment's folder
 * @returns what it printed @throws InputError with the last line that it said, when it fails
 */
export const runTeamtr = async (
  command: readonly string[], name: string, { folder, jobs, processors, engine, signal }: Pick<GridRunOptions, 'folder' | 'jobs' | 'processors' | 'engine' | 'signal'>,
): Promise<string> => {
  const said = join(folder, '.cells', `${name.replace(' ', '-')}.log`)
  makeFolder(join(folder, '.cells'))
  const args = [teamtr, ...command, ...(engine === undefined ? [] : ['--engine', engine])]
  const threads = String(Math.max(1, Math.floor(processors / jobs)))
  const log = openSync(said, 'a')
  let code: number | null
  const printed: Buffer[] = []
  try {
    // A process group of its own: Ctrl-C reaches it once, from here.
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', log],
      detached: true,
      env: { ...process.env, TF_NUM_INTRAOP_THREADS: threads, TF_NUM_INTEROP_THREADS: '1', OMP_NUM_THREADS: threads },
    })
    child.stdout!.on('data', (bytes: Buffer) => printed.push(bytes))
    code = await ended(child, signal)
  } finally {
    closeSync(log)
  }
  if (code === 0) return Buffer.concat(printed).toString()
  const lines = readFileSync(said, 'utf8').trim().split('\n')
  throw new InputError(`${lines.at(-1)?.replace(/^teamtr: /, '') || `exit code ${code}`} (${said})`)
}

/** The exit code of a process, which is asked to stop when the signal comes. */
const ended = (child: ChildProcess, signal?: AbortSignal): Promise<number | null> =>
  new Promise((resolve, reject) => {
    const stop = (): void => void child.kill('SIGINT')
    signal?.addEventListener('abort', stop)
    if (signal?.aborted) stop()
    const end = (): void => signal?.removeEventListener('abort', stop)
    child.on('error', (error) => { end(); reject(error) })
    child.on('close', (code) => { end(); resolve(code) })
  })
