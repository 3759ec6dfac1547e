import { statSync } from 'node:fs'
import type { z } from 'zod'
import { InputError, messageOf } from '../util/errors.js'
import { readJson } from '../util/files.js'
import { readLines } from '../util/lines.js'
import { show, validate } from '../util/validate.js'

/** What a data file held: the records that could be read, and what was wrong with the others. */
export interface Loaded<R> {
  readonly records: R[]
  readonly errors: RecordError[]
}

export interface RecordError {
  /** 1-based: the line of a JSONL file, else the position of the element or row. */
  readonly line: number
  readonly error: string
}

/** A row as it lies in the file, not yet checked. */
type Row = { readonly line: number; readonly value: unknown } | RecordError

/** Longest line of a data file, and largest parquet file, in bytes. */
const MAX_LINE = 64 * 2 ** 20
const MAX_PARQUET = 2 ** 30

/**
 * Read a data set: JSONL (one record a line), JSON (an array, or an object with the array under
 * `key`) or parquet, told apart by the file's ending; any other ending is read as JSONL.
 *
 * @param parse a checked record from what the row holds and its 1-based number; what it throws becomes the record's error
 * @throws InputError when the file itself cannot be read: one bad record never loses the others
 */
export const loadRecords = async <R>(file: string, parse: (value: unknown, line: number) => R, key?: string): Promise<Loaded<R>> => {
  const loaded: Loaded<R> = { records: [], errors: [] }
  for await (const row of readRows(file, key)) {
    if ('error' in row) {
      loaded.errors.push(row)
      continue
    }
    try {
      loaded.records.push(parse(row.value, row.line))
    } catch (error) {
      loaded.errors.push({ line: row.line, error: messageOf(error) })
    }
  }
  return loaded
}

/** `parse` for `loadRecords` from a zod schema. Public data sets carry fields of no interest here: use `z.object`, which ignores them. */
export const bySchema = <S extends z.ZodType>(schema: S) => (value: unknown): z.output<S> => validate(schema, value, 'record')

/** The first record of each id; the others are errors. */
export const uniqueRecords = <R>({ records, errors }: Loaded<R>, idOf: (record: R) => string): Loaded<R> => {
  const first = new Map<string, R>()
  const repeated: RecordError[] = []
  records.forEach((record, i) => {
    const id = idOf(record)
    if (first.has(id)) repeated.push({ line: i + 1, error: `id "${id}" occurred before; the first counts` })
    else first.set(id, record)
  })
  return { records: [...first.values()], errors: [...errors, ...repeated] }
}

async function* readRows(file: string, key?: string): AsyncGenerator<Row> {
  if (file.endsWith('.json')) {
    const content = readJson(file)
    const array = Array.isArray(content) || key === undefined ? content : (content as Record<string, unknown> | null)?.[key]
    if (!Array.isArray(array)) {
      const wanted = key === undefined ? 'an array of records' : `an array of records, or an object with one under "${key}"`
      throw new InputError(`${file}: holds ${show(content)}; expected ${wanted}`)
    }
    for (let i = 0; i < array.length; i++) yield { line: i + 1, value: array[i] }
  } else if (file.endsWith('.parquet')) {
    const rows = await readParquet(file)
    for (let i = 0; i < rows.length; i++) yield { line: i + 1, value: rows[i] }
  } else {
    for await (const { line, text, error } of readLines(file, MAX_LINE)) {
      if (text === undefined) yield { line, error: error! }
      else yield parseLine(text, line)
    }
  }
}

const parseLine = (text: string, line: number): Row => {
  try {
    return { line, value: JSON.parse(text) as unknown }
  } catch (error) {
    return { line, error: `is not JSON: ${messageOf(error)}` }
  }
}

/** Whole numbers beyond 2⁵³ do not occur in the data sets: bigint columns become numbers. */
const readParquet = async (file: string): Promise<unknown[]> => {
  const { asyncBufferFromFile, parquetReadObjects } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  try {
    const { size } = statSync(file)
    if (size > MAX_PARQUET) throw new InputError(`${size} bytes; at most ${MAX_PARQUET} are read`)
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file), compressors })
    return rows.map(plain)
  } catch (error) {
    throw new InputError(`${file}: cannot be read as parquet: ${messageOf(error)}`)
  }
}

const plain = (value: unknown): unknown => {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(plain)
  if (value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype) {
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]))
  }
  return value
}
