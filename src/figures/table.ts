/** Tables as figures read them: what is missing or no number is said, instead of drawn as nothing. */
import { csvParseRows } from 'd3-dsv'
import { InputError } from '../util/errors.js'
import { readText } from '../util/files.js'
import { didYouMean, show } from '../util/validate.js'
import { parseCsv, type Row } from './csv.js'

/** Columns that may hold text, or numbers as names; all others hold numbers. One table has its own meaning of a name. */
const TEXT = new Set([
  'engine', 'figure', 'fit', 'kind', 'level', 'machine', 'measure', 'method', 'oracle', 'outcome', 'protocol', 'quantity', 'radius', 'region', 'series', 'statement',
  'task', 'unit', 'variant', 'penalty-shares.csv: certificate',
])

/**
 * Read a table of data/. Its rows complain when they are asked: a column that is not there, or one of numbers that holds something else, throws an
 * InputError that names file, line and column. What no figure reads is not looked at.
 *
 * @param table its name below data/
 * @throws InputError when it cannot be read, holds no rows, or a line has more or fewer cells than the header
 */
export const readTable = (file: string, table: string): Row[] => tableRows(readText(file), file, table)

/** The same of a table's text. */
export const tableRows = (text: string, file: string, table: string): Row[] => {
  const [columns = [], ...lines] = csvParseRows(text)
  const odd = lines.findIndex((cells) => cells.length !== columns.length)
  if (odd >= 0) throw new InputError(`${file}: line ${odd + 2}: holds ${lines[odd].length} cells; the header has ${columns.length}`)
  if (lines.length === 0) throw new InputError(`${file}: holds no rows`)
  return parseCsv(text).map((row, k) => new Proxy(row, {
    get: (_, column) => {
      // JSON.stringify asks every object for it.
      if (typeof column === 'symbol' || column === 'toJSON') return undefined
      if (!Object.hasOwn(row, column)) throw new InputError(`${file}: line 1: has no column "${column}"${didYouMean(column, columns)}`)
      const cell = row[column]
      if (typeof cell === 'string' && !TEXT.has(column) && !TEXT.has(`${table}: ${column}`)) {
        throw new InputError(`${file}: line ${k + 2}: ${column}: holds ${show(cell)}; expected a number`)
      }
      if (typeof cell === 'number' && !Number.isFinite(cell)) throw new InputError(`${file}: line ${k + 2}: ${column}: holds ${cell}; expected a finite number`)
      return cell
    },
  }))
}
