import { csvParseRows } from 'd3-dsv'

/** A cell of a tidy table. */
export type Cell = string | number | boolean | null

/** One row of a tidy table: what every figure here is drawn from. */
export type Row = Readonly<Record<string, Cell>>

/** Rows as CSV (RFC 4180, header from the first row's keys, `\n` line ends). Numbers print in full, so that reading them back gives the same doubles. */
export const toCsv = (rows: readonly Row[]): string => {
  if (rows.length === 0) return ''
  const columns = Object.keys(rows[0])
  const quote = (cell: Cell | undefined): string => {
    const text = cell === null || cell === undefined ? '' : String(cell)
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((cells) => cells.map(quote).join(',')).join('\n') + '\n'
}

/** CSV with a header as rows: cells that read as numbers are numbers, empty ones null. What `toCsv` wrote comes back as it was (but for booleans, which stay text). */
export const parseCsv = (text: string): Row[] => {
  const [columns = [], ...lines] = csvParseRows(text)
  return lines.map((cells) => Object.fromEntries(columns.map((column, k) => [column, cellOf(cells[k] ?? '')])))
}

const cellOf = (text: string): Cell => {
  if (text.trim() === '') return null
  const number = Number(text)
  return Number.isNaN(number) ? text : number
}
