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
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isWarmedUp } from '../train/base.js'
import { checkpointNames } from '../train/checkpoints.js'
import { parseConfig, updatesInStage, type Config } from '../train/config.js'
import { fileIn, firstDifference, readRun, workerOn } from '../train/runFolder.js'
import { InputError, messageOf } from '../util/errors.js'
import { makeFolder, readJson, writeAtomic } from '../util/files.js'
import { show } from '../util/validate.js'
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

/** The same, and false where the folder is damaged or holds another run: running the cell says what is wrong. */
export const isCellDone = (folder: string, cell: Cell): boolean => {
  try {
    return isCellFinished(folder, cell)
  } catch (error) {
    if (error instanceof InputError) return false
    throw error
  }
}

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

/** Run what is missing. A cell whose folder is damaged, or holds another run than the grid asks for, fails like one whose process does; the others are run. */
export const runGrid = async (cells: readonly Cell[], options: GridRunOptions): Promise<GridResult> => {
  const { folder, bases, jobs, signal, onProgress, onCell } = options
  const missing = cells.filter((cell) => !isCellDone(folder, cell))
  const failed: { id: string; reason: string }[] = []
  const started: string[] = []
  const before = new Map(missing.map((cell) => [cell.id, updatesIn(folderOf(folder, cell))]))
  const total = missing.reduce((sum, { id, config }) => sum + plannedUpdates(config) - before.get(id)!, 0)
  const now = new Map(before)
  const count = (cell: Cell): void => void now.set(cell.id, updatesIn(folderOf(folder, cell)))
  /** Only the logs that are being written are read again. */
  const done = (): number => {
    missing.filter(({ id }) => running.has(id)).forEach(count)
    return missing.reduce((sum, { id }) => sum + Math.max(0, now.get(id)! - before.get(id)!), 0)
  }

  /** What runs, and how it is shown. */
  const running = new Map<string, string>()
  /**
   * A run in a process of its own. Where another works on it (a second call on this folder, or what a killed one left behind for an update), that one is waited
   * for and what it left is gone on with. @param patience with a process on another machine, which may be there no more, in ms
   */
  const child = async (name: string, config: Config, into: string, more: readonly string[], patience = 0): Promise<void> => {
    const begun = Date.now()
    const other = (): ReturnType<typeof workerOn> => {
      const worker = workerOn(into)
      return worker && (worker.here || Date.now() - begun < patience) ? worker : undefined
    }
    try {
      for (;;) {
        for (let worker = other(); worker && !signal?.aborted; worker = other()) {
          running.set(name, `${name} (process ${worker.pid} works on it)`)
          await sleep(500)
        }
        if (signal?.aborted || isFinished(into, config)) return
        running.set(name, name)
        started.push(name)
        const there = existsSync(fileIn.config(into))
        try {
          return await train(name, config, into, more, options)
        } catch (error) {
          // Refused because another process was quicker?
          if ((error as Error).cause !== REFUSED || (!other() && existsSync(fileIn.config(into)) === there)) throw error
        }
      }
    } finally {
      running.delete(name)
    }
  }

  const starts = new Map<string, Promise<void>>()
  const base = (cell: Cell): { folder: string; ready: () => Promise<void> } => {
    const { name, config } = baseOf(cell)
    const at = join(bases, name)
    const ready = (): Promise<void> => {
      if (!starts.has(name)) starts.set(name, child(`base ${name}`, config, at, [], LONGEST_WAIT))
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
      isCellFinished(folder, cell) // Throws before a base is made for a folder that cannot be used.
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
  const ticker = setInterval(() => onProgress?.(done(), total, [...running.values()]), 1000)
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

/** How long a base that another machine makes is waited for, in ms. */
const LONGEST_WAIT = 30 * 60_000

/** The exit code of a command that found its input wrong, its folder included. */
const REFUSED = 2

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
 * A command of ours in a process of its own, which is interrupted when the signal comes, and when this process is gone. @param name of what it says, in the
 * experiment's folder @returns what it printed @throws InputError with what it said when it fails; its `cause` is the exit code
 */
export const runTeamtr = async (
  command: readonly string[], name: string, { folder, jobs, processors, engine, signal }: Pick<GridRunOptions, 'folder' | 'jobs' | 'processors' | 'engine' | 'signal'>,
): Promise<string> => {
  const log = join(folder, '.cells', `${name.replace(' ', '-')}.log`)
  makeFolder(join(folder, '.cells'))
  const args = [teamtr, ...command, ...(engine === undefined ? [] : ['--engine', engine])]
  const threads = String(Math.max(1, Math.floor(processors / jobs)))
  // A process group of its own: Ctrl-C reaches it once, from here. The channel ends with this process, however that ends (src/cli/main.ts).
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    detached: true,
    env: { ...process.env, TF_NUM_INTRAOP_THREADS: threads, TF_NUM_INTEROP_THREADS: '1', OMP_NUM_THREADS: threads },
  })
  const printed: Buffer[] = []
  child.stdout!.on('data', (bytes: Buffer) => printed.push(bytes))
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    appendFileSync(log, text)
    said = (said + text).slice(-LONGEST_SAYING)
  })
  const { code, killedBy } = await ended(child, signal)
  if (code === 0) return Buffer.concat(printed).toString()
  throw new InputError(`${killedBy ? `killed by ${killedBy}${killedBy === 'SIGKILL' ? ' (out of memory?)' : ''}` : reasonIn(said, code)} (${log})`, { cause: code })
}

/** Characters that are kept of what a process said. */
const LONGEST_SAYING = 2 ** 16

/** Why a process failed: what our commands say, or an exception's own line above its stack. */
const reasonIn = (said: string, code: number | null): string => {
  const lines = said.trim().split('\n')
  const ours = lines.findLast((line) => line.startsWith('teamtr: '))?.slice('teamtr: '.length)
  return ours ?? lines.findLast((line) => /^\w*(Error|Exception)\b.*: /.test(line)) ?? (lines.at(-1) || `exit code ${code}`)
}

/** How a process ends, which is asked to stop when the signal comes. */
const ended = (child: ChildProcess, signal?: AbortSignal): Promise<{ code: number | null; killedBy: NodeJS.Signals | null }> =>
  new Promise((resolve, reject) => {
    const stop = (): void => void child.kill('SIGINT')
    signal?.addEventListener('abort', stop)
    if (signal?.aborted) stop()
    const end = (): void => signal?.removeEventListener('abort', stop)
    child.on('error', (error) => { end(); reject(error) })
    child.on('close', (code, killedBy) => { end(); resolve({ code, killedBy }) })
  })
