import {
  closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { InputError, messageOf } from './errors.js'

/** Largest text file read whole, in bytes. */
const MAX_TEXT = 512 * 2 ** 20

/** @throws InputError when the file is missing, unreadable, not a file, or larger than 512 MiB */
export const readText = (file: string): string => {
  try {
    const status = statSync(file)
    if (status.isCharacterDevice() || status.isBlockDevice()) throw new InputError(`${file}: is a device; a file is needed`)
    // A pipe that the shell opened has a writer; another may never get one.
    if (status.isFIFO() && !/^\/(dev\/(stdin|fd\/\d+)|proc\/self\/fd\/\d+)$/.test(file)) throw new InputError(`${file}: is a named pipe; a file is needed`)
    if (status.size > MAX_TEXT) throw new InputError(`${file}: ${status.size} bytes; at most ${MAX_TEXT} are read`)
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
  } catch (error) {
    if (error instanceof InputError) throw error
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT') throw new InputError(`${file}: no such file`)
    if (code === 'EISDIR') throw new InputError(`${file}: is a folder; a file is needed`)
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw new InputError(`${file}: is not UTF-8 text`)
    throw new InputError(`${file}: cannot be read: ${messageOf(error)}`)
  }
}

/** @throws InputError when the file cannot be read or is not JSON */
export const readJson = (file: string): unknown => {
  const text = readText(file)
  try {
    return parseJson(text, MAX_DEPTH)
  } catch (error) {
    throw new InputError(`${file}: is not valid JSON: ${messageOf(error)}`)
  }
}

/** Deepest nesting of a JSON file that is read: each level costs far more memory than the byte that opens it. */
const MAX_DEPTH = 1000

/** JSON whose lists and objects nest at most so deep. @throws SyntaxError, before anything is allocated for what nests deeper */
export const parseJson = (text: string, depth: number): unknown => {
  let open = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) inString = !inString
    else if (inString) i += c === BACKSLASH ? 1 : 0
    else if ((c | 0x20) === OPEN && ++open > depth) throw new SyntaxError(`nests deeper than ${depth} levels at position ${i}`)
    else if ((c | 0x20) === CLOSE) open--
  }
  return JSON.parse(text)
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c]
/** { and }; [ and ] are the same but for one bit. */
const [OPEN, CLOSE] = [0x7b, 0x7d]

/** Reads .json as JSON, anything else as YAML. @throws InputError when the file cannot be read or parsed */
export const readConfig = (file: string): unknown => {
  if (file.endsWith('.json')) return readJson(file)
  const text = readText(file)
  try {
    return parseYaml(text, { logLevel: 'error' })
  } catch (error) {
    throw new InputError(`${file}: is not valid YAML: ${messageOf(error).split('\n')[0].replace(/:$/, '')}`)
  }
}

/**
 * Make a folder, if it is not there, and see that something can be made in it: what writes at its end calls this before it computes.
 *
 * @throws InputError when it cannot be made or written
 */
export const writableFolder = (folder: string): void => {
  try {
    makeFolder(folder)
  } catch (error) {
    throw new InputError(`${folder}: cannot be made: ${reasonOf(error)}`)
  }
  try {
    const probe = join(folder, `.${process.pid}.tmp`)
    makeFolder(probe)
    rmdirSync(probe)
  } catch (error) {
    throw new InputError(`${folder}: cannot be written: ${reasonOf(error)}`)
  }
}

/** What the system said, without the name it said it of, which may be a temporary one: `ENOTDIR: not a directory`. */
const reasonOf = (error: unknown): string => messageOf(error).replace(/, \w+ '.*$/s, '')

/**
 * Write to a temporary name beside `file`, sync, rename: a reader sees the old content or the new, never a part.
 *
 * @throws InputError when it cannot be written
 */
export const writeAtomic = (file: string, content: string | Uint8Array | Iterable<Uint8Array>): void => {
  const temporary = `${file}.${process.pid}.tmp`
  try {
    makeFolder(dirname(file))
    const descriptor = openSync(temporary, 'w')
    try {
      const parts = typeof content === 'string' ? [Buffer.from(content)] : content instanceof Uint8Array ? [content] : content
      for (const bytes of parts) for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at)
      fsyncSync(descriptor)
    } finally {
      closeSync(descriptor)
    }
    renameSync(temporary, file)
  } catch (error) {
    if (existsSync(temporary)) rmSync(temporary)
    if (!(error instanceof Error && 'syscall' in error)) throw error
    throw new InputError(`${file}: cannot be written: ${reasonOf(error)}`)
  }
}

/**
 * Make a folder and those above it, where they are missing. (Node's own `recursive` never returns where a parent exists and refuses the
 * folder with ENOENT, as /proc does: v20.)
 *
 * @throws what mkdir throws
 */
export const makeFolder = (folder: string): void => {
  if (existsSync(folder)) return
  makeFolder(dirname(folder))
  try {
    mkdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error // another process was quicker
  }
}
