/**
 * A run is a folder:
 *
 *     config.json        complete: `teamtr train config.json` is the same run
 *     log.jsonl          one line per update, written as it happens
 *     evaluations.jsonl  one line per evaluation on held-out problems; the first is the untrained team
 *     swap.json          where the team is another run's with a new agent: what the swap cost (replacement.ts)
 *     checkpoints/       the latest two (checkpoints.ts)
 *     team.json          of language models, when the run ended: what they are and where their adapters/ lie (exportTeam.ts)
 *     lock               while a process works on it
 *
 * Killed at any moment it can be continued: lines after the latest checkpoint are cut off, and come again with the same numbers.
 */
import {
  appendFileSync, closeSync, existsSync, fsyncSync, ftruncateSync, openSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeSync,
} from 'node:fs'
import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { hashOf } from '../util/binaryFile.js'
import { InputError, messageOf } from '../util/errors.js'
import { readJson, readText, writableFolder, writeAtomic } from '../util/files.js'
import { show, validate } from '../util/validate.js'
import { parseConfig, type Config } from './config.js'
import type { UpdateRecord } from './stage.js'
import type { EvaluationRecord } from './trainTeam.js'

export const fileIn = {
  config: (folder: string): string => join(folder, 'config.json'),
  log: (folder: string): string => join(folder, 'log.jsonl'),
  evaluations: (folder: string): string => join(folder, 'evaluations.jsonl'),
  swap: (folder: string): string => join(folder, 'swap.json'),
  /** Adapters that a server loads. */
  served: (folder: string): string => join(folder, 'served'),
  checkpoints: (folder: string): string => join(folder, 'checkpoints'),
  lock: (folder: string): string => join(folder, 'lock'),
}

/**
 * Start a new run: make the folder, lock it, write config.json.
 *
 * @returns `unlock`; and `undo`, which removes what is there of a run that failed before its first checkpoint, so that it can be begun again
 * @throws InputError when the folder cannot be made or written, or holds anything already
 */
export const createRun = (folder: string, config: Config): { unlock(): void; undo(): void } => {
  const made = missingFolders(folder)
  writableFolder(folder)
  if (existsSync(fileIn.config(folder))) {
    throw new InputError(`${folder}: holds a run already; add --resume to continue it, or choose another --out`)
  }
  checkVacant(folder)
  const unlock = lock(folder)
  writeConfig(folder, config)
  const undo = (): void => {
    // The folder was vacant: all of these are this run's own.
    for (const name of ['config', 'log', 'evaluations', 'swap', 'served', 'checkpoints'] as const) rmSync(fileIn[name](folder), { recursive: true, force: true })
    unlock()
    for (const one of made) if (readdirSync(one).length === 0) rmdirSync(one)
  }
  return { unlock, undo }
}

/** A folder and those above it, as far as they are not there; the deepest first. */
const missingFolders = (folder: string): string[] => (existsSync(folder) ? [] : [folder, ...missingFolders(dirname(resolve(folder)))])

/** @throws InputError when a folder that is there and holds no run holds something else */
export const checkVacant = (folder: string): void => {
  // A process killed before it wrote config.json leaves these.
  if (readdirSync(folder).every((name) => name === 'lock' || name.endsWith('.tmp'))) return
  throw new InputError(`${folder}: is not empty and holds no run; choose another --out`)
}

/** @throws InputError when it cannot be written */
export const writeConfig = (folder: string, config: Config): void => writeAtomic(fileIn.config(folder), `${JSON.stringify(config, null, 2)}\n`)

/**
 * The configuration with which a run goes on. Nothing is written.
 *
 * @param wanted the configuration given, if one was: it must be that of the run, but for `stages` and `checkpoint`, which may change
 * @throws InputError when there is no run, or its configuration is another
 */
export const resumedConfig = (folder: string, wanted: Config | undefined, where: string): Config => {
  const file = fileIn.config(folder)
  if (!existsSync(file)) throw new InputError(`${folder}: holds no run to resume (no config.json)`)
  const config = parseConfig(readJson(file), file)
  if (!wanted) return config
  const other = differenceOf(wanted, config)
  if (other) throw new InputError(`${where}: ${other.path}: holds ${show(other.a)}; the run in ${folder} has ${show(other.b)}: choose another --out`)
  return { ...config, stages: wanted.stages, checkpoint: wanted.checkpoint }
}

/** Where two configurations are not of one run: `stages` and `checkpoint` may differ. */
export const differenceOf = (a: Config, b: Config): ReturnType<typeof firstDifference> => firstDifference(a, { ...b, stages: a.stages, checkpoint: a.checkpoint })

/** Where two plain values differ first, in the order of the first one's keys. */
export const firstDifference = (a: unknown, b: unknown, path = ''): { path: string; a: unknown; b: unknown } | undefined => {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b) ? undefined : { path, a, b }
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const name = Array.isArray(a) ? `${path}[${key}]` : path ? `${path}.${key}` : key
    const found = firstDifference((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key], name)
    if (found) return found
  }
  return undefined
}

const holderSchema = z.object({ pid: z.int().min(1), host: z.string(), started: z.string() })

/**
 * Take a folder for this process. A lock left by a process that is gone is taken over; one from another machine cannot be judged, and
 * stands.
 *
 * @returns gives it back
 * @throws InputError naming the process that holds it
 */
export const lock = (folder: string): (() => void) => {
  const file = fileIn.lock(folder)
  const mine = JSON.stringify({ pid: process.pid, host: hostname(), started: startOf(process.pid) })
  try {
    for (let attempt = 0; ; attempt++) {
      try {
        const descriptor = openSync(file, 'wx')
        writeSync(descriptor, mine)
        closeSync(descriptor)
        return () => rmSync(file, { force: true })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || attempt > 0) throw error
        const holder = workerOn(folder)
        if (holder) {
          throw new InputError(`${folder}: process ${holder.pid} on ${holder.host} works on this run (if it does not, delete ${file})`)
        }
        rmSync(file, { force: true })
      }
    }
  } catch (error) {
    if (error instanceof InputError) throw error
    throw new InputError(`${file}: cannot be written: ${messageOf(error)}`)
  }
}

/** The process that works on a run, where there is one: whether one on another machine still does cannot be told. */
export const workerOn = (folder: string): { readonly pid: number; readonly host: string; readonly here: boolean } | undefined => {
  const holder = holderOf(fileIn.lock(folder))
  return holder && isAlive(holder) ? { pid: holder.pid, host: holder.host, here: holder.host === hostname() } : undefined
}

/** Undefined where there is no lock, and for one that was cut off while it was written: its writer is gone. */
const holderOf = (file: string): z.output<typeof holderSchema> | undefined => {
  try {
    return holderSchema.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    return undefined
  }
}

const isAlive = ({ pid, host, started }: z.output<typeof holderSchema>): boolean => {
  if (host !== hostname()) return true
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  return startOf(pid) === started
}

/** When a process began, in the system's own count: its number may be given to another later. '' where the system does not tell. */
const startOf = (pid: number): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

/** Append one line and bring it to the disk. @returns the line @throws InputError when it cannot be written */
export const appendLine = (file: string, value: unknown): string => {
  const line = `${JSON.stringify(value)}\n`
  try {
    appendFileSync(file, line, { flush: true })
    return line
  } catch (error) {
    throw new InputError(`${file}: cannot be written: ${messageOf(error)}`)
  }
}

/** Length of a file in bytes; 0 where there is none. */
export const lengthOf = (file: string): number => (existsSync(file) ? statSync(file).size : 0)

const missing = (file: string, bytes: number): InputError =>
  new InputError(`${file}: has ${lengthOf(file)} bytes; the latest checkpoint was made at ${bytes}, so lines are missing`)

/** Cut a file of lines to what a checkpoint knows of it. @throws InputError when it is shorter: lines are missing */
export const cutTo = (file: string, bytes: number): void => {
  const length = lengthOf(file)
  if (length < bytes) throw missing(file, bytes)
  if (length === bytes) return
  const descriptor = openSync(file, 'r+')
  try {
    ftruncateSync(descriptor, bytes)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** What a checkpoint knows of a file of lines: the SHA-256 of its first bytes, so that a line that was altered is found. */
export const markSchema = z.strictObject({ bytes: z.int().min(0), sha256: z.string() })
export type Mark = z.output<typeof markSchema>

/** A file of lines that a run writes to its end. */
export interface Lines {
  /** Append one line and bring it to the disk. @throws InputError when it cannot be written */
  append(value: unknown): void
  /** Of all that was appended up to now. */
  mark(): Mark
  /** Drop what came after the checkpoint's mark. */
  cut(): void
}

/**
 * Open a file of lines to go on from a checkpoint's mark, or from nothing. Nothing is changed yet.
 *
 * @throws InputError when lines that the checkpoint knows are missing or altered
 */
export const openLines = (file: string, from?: Mark): Lines => {
  let bytes = from?.bytes ?? 0
  if (lengthOf(file) < bytes) throw missing(file, bytes)
  const hash = bytes > 0 ? hashOf(file, bytes) : createHash('sha256')
  const mark = (): Mark => ({ bytes, sha256: hash.copy().digest('hex') })
  if (from && mark().sha256 !== from.sha256) {
    throw new InputError(`${file}: is not what it was when the latest checkpoint was made: a line before byte ${bytes} was altered`)
  }
  return {
    append(value) {
      const line = Buffer.from(appendLine(file, value))
      hash.update(line)
      bytes += line.length
    },
    mark,
    cut: () => cutTo(file, from?.bytes ?? 0),
  }
}

/** A run as its folder tells it. */
export interface RecordedRun {
  readonly config: Config
  readonly updates: readonly UpdateRecord[]
  readonly evaluations: readonly EvaluationRecord[]
}

/** JSON has null for what is not finite. */
const measured = z.number().nullable()
const estimate = z.looseObject({ estimate: measured, low: measured, high: measured })
const certificate = z.looseObject({ bound: measured, activeMass: measured })
const count = z.int().min(0)
/** What summaries, tables and figures read of a line; the rest of it is read as it was written. */
const updateSchema = z.looseObject({
  update: z.int().min(1), stage: count, position: count, agent: count, outcome: z.enum(['accepted', 'scaled', 'refused', 'skipped']),
  scale: z.number(), delta: z.number().gt(0), proposedKl: measured, kl: measured, beta: z.number(),
  surrogate: z.looseObject({ value: measured, unbiased: measured, low: measured, high: measured }), zeta: z.looseObject({ total: measured }),
  rho: measured, return: estimate, improvement: estimate.nullable(), certificate, stageCertificate: certificate.extend({ improvement: estimate }).nullable(),
  tokens: count, rollouts: count, seconds: z.looseObject({ update: z.number(), rollouts: z.number() }),
})
const evaluationSchema = z.looseObject({ update: count, stage: count, problems: z.int().min(1), reward: estimate, rewards: z.array(z.number()) })

/**
 * Read a run back. A last line that was cut off (the process was killed in it) is left out.
 *
 * @throws InputError when a file is missing or damaged, or lacks lines that another one needs
 */
export const readRun = (folder: string): RecordedRun => {
  const config = parseConfig(readJson(fileIn.config(folder)), fileIn.config(folder))
  // In this order: a run that is going on may do an update and the evaluation after it in between.
  const evaluations = readRecords(fileIn.evaluations(folder), evaluationSchema) as unknown as EvaluationRecord[]
  const updates = readRecords(fileIn.log(folder), updateSchema) as unknown as UpdateRecord[]
  const gap = updates.findIndex(({ update }, i) => update !== i + 1)
  if (gap >= 0) throw new InputError(`${fileIn.log(folder)}: line ${gap + 1}: update: holds ${updates[gap].update}; expected ${gap + 1}, so lines are missing`)
  evaluations.forEach(({ update, problems, rewards }, i) => {
    const where = `${fileIn.evaluations(folder)}: line ${i + 1}`
    if (rewards.length !== problems) throw new InputError(`${where}: rewards: holds ${rewards.length}; expected one for each of ${problems} problems`)
    // An update is written before the evaluation after it.
    if (update > updates.length) throw new InputError(`${where}: update: holds ${update}; ${fileIn.log(folder)} ends after ${updates.length}, so lines are missing there`)
    if (problems !== evaluations[0].problems) throw new InputError(`${where}: problems: holds ${problems}; expected ${evaluations[0].problems} as in line 1`)
  })
  return { config, updates, evaluations }
}

/** The whole lines of a JSONL file of ours; none where there is no file. @throws InputError naming the line that is damaged */
export const readRecords = <S extends z.ZodType>(file: string, schema: S): z.output<S>[] => {
  if (!existsSync(file)) return []
  const lines = readText(file).split('\n')
  lines.pop()
  return lines.map((line, i) => {
    const where = `${file}: line ${i + 1}`
    try {
      return validate(schema, JSON.parse(line), where)
    } catch (error) {
      throw error instanceof InputError ? error : new InputError(`${where}: is not valid JSON: ${messageOf(error)}`)
    }
  })
}
