import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { TopLevelSpec } from 'vega-lite'
import { commandInto, figures, recipeOf } from '../figures/catalogue.js'
import { parseCsv, type Cell, type Row } from '../figures/csv.js'
import { themed, toPng, toSvg } from '../figures/render.js'
import { readTable } from '../figures/table.js'
import { duration } from '../util/progress.js'
import type { DisplayData } from './tslab.js'

/** Formats of one output, MIME type → content. A front end shows the richest that it knows. */
type Bundle = Readonly<Record<string, unknown>>

const require = createRequire(import.meta.url)

const write = (data: Bundle, { displayId, update = false, metadata = {} }: { displayId?: string; update?: boolean; metadata?: object } = {}): void => {
  const { lastWriteDisplayData } = require('tslab/dist/jupyter.js') as { lastWriteDisplayData: ((content: DisplayData, update?: boolean) => void) | null }
  if (lastWriteDisplayData) lastWriteDisplayData({ data, metadata, transient: { display_id: displayId } }, update)
  else if (!update) process.stdout.write(`${String(data['text/plain'])}\n`)
}

/**
 * Show a Vega-Lite chart: interactive where the front end draws Vega-Lite (JupyterLab), else as SVG or PNG (GitHub,
 * VS Code, nbconvert), else as its title. Outside a notebook it prints the title.
 *
 * @throws Error when the spec is not valid Vega-Lite
 */
export const show = async (spec: TopLevelSpec): Promise<void> => {
  const svg = await toSvg(spec)
  const png = Buffer.from(await toPng(svg)).toString('base64')
  // JupyterLab hands `embed_options` to Vega: SVG stays sharp at any zoom, and its text can be selected.
  write(
    { [vegaLite]: themed(spec), 'image/svg+xml': svg, 'image/png': png, 'text/plain': `figure: ${titleOf(spec)}` },
    { metadata: { [vegaLite]: { embed_options: { renderer: 'svg' } } } },
  )
}

const vegaLite = 'application/vnd.vegalite.v5+json'

const titleOf = ({ title }: TopLevelSpec): string =>
  typeof title === 'string' ? title : title && 'text' in title ? [title.text].flat().join(' ') : 'untitled'

/** Show TeX as a displayed formula. */
export const showTex = (tex: string): void => write({ 'text/latex': `$$${tex}$$`, 'text/plain': tex })

/** Show Markdown. */
export const showMarkdown = (text: string): void => write({ 'text/markdown': text, 'text/plain': text })

/** What `showTable` takes besides rows: a danfojs-node frame, as far as it is used. */
interface Frame { readonly columns: readonly string[]; readonly values: unknown }

/**
 * Show rows, or a danfojs-node frame, as a table.
 *
 * @param digits significant digits of numbers that are not whole
 */
export const showTable = (table: readonly Row[] | Frame, digits = 4): void => {
  const rows = Array.isArray(table) ? table as readonly Row[] : rowsOf(table as Frame)
  const columns = rows.length ? Object.keys(rows[0]) : []
  const cells = rows.map((row) => columns.map((column) => cellText(row[column], digits)))
  const html = (tag: string, row: readonly string[]): string => `<tr>${row.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`
  write({
    'text/html': `<table><thead>${html('th', columns)}</thead><tbody>${cells.map((row) => html('td', row)).join('')}</tbody></table>`,
    'text/plain': [columns, ...cells].map((row) => row.join('\t')).join('\n'),
  })
}

const rowsOf = (frame: Frame): Row[] =>
  (frame.values as Cell[][]).map((row) => Object.fromEntries(frame.columns.map((column, i) => [column, row[i]])))

const cellText = (cell: Cell | undefined, digits: number): string =>
  typeof cell === 'number' && !Number.isInteger(cell) ? String(Number(cell.toPrecision(digits))) : String(cell ?? '')

const escapeHtml = (text: string): string => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c] as string)

/**
 * The tables in a folder (`data/`): their rows, and the figures of the catalogue that are drawn from them. What is not recorded yet is no error: no
 * rows, no figure, and one line that says which command writes the table.
 */
export const tablesIn = (folder: string): { rows: (table: string) => Row[]; figure: (name: string) => Promise<void> } => {
  const isThere = (table: string): boolean => existsSync(join(folder, table))
  const sayMissing = (table: string): void => {
    const recipe = recipeOf(table)
    showMarkdown(`*Not recorded yet: \`${table}\`${recipe ? `; \`npx teamtr ${commandInto(recipe, 'data').join(' ')}\` writes it` : ''}.*`)
  }
  return {
    rows: (table) => {
      if (isThere(table)) return parseCsv(readFileSync(join(folder, table), 'utf8'))
      sayMissing(table)
      return []
    },
    figure: async (name) => {
      const found = figures.find((one) => one.name === name)
      if (!found) throw new Error(`no figure "${name}"`)
      const { tables, rows, draw, title, subtitle } = found
      const missing = tables.find((table) => !isThere(table))
      if (missing === undefined) await show(draw(rows(...tables.map((table) => readTable(join(folder, table), table))), { title, subtitle }))
      else sayMissing(missing)
    },
  }
}

/** One progress bar that updates in place; removed from the saved notebook's text by its last state, `label: done in …`. */
export const progressBar = (label: string, total: number): { update(done: number): void; end(): void } => {
  const id = randomBytes(8).toString('hex')
  const start = performance.now()
  let drawn = start
  const draw = (text: string, done: number, update: boolean): void =>
    write({ 'text/html': `<progress value="${done}" max="${total}"></progress> ${escapeHtml(text)}`, 'text/plain': text }, { displayId: id, update })
  draw(label, 0, false)
  return {
    update(done) {
      const now = performance.now()
      if (now - drawn < 200) return
      drawn = now
      const left = duration(((now - start) / 1000) * (total - done) / Math.max(done, 1e-9))
      draw(`${label} ${done}/${total} · ${left} left`, done, true)
    },
    end: () => draw(`${label}: done`, total, true),
  }
}
