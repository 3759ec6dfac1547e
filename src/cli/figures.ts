import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import type { Figure } from '../figures/catalogue.js'
import type { Row } from '../figures/csv.js'
import { InputError } from '../util/errors.js'
import { progress } from '../util/progress.js'

interface Options {
  out: string
  only?: string[]
  data?: string
  recompute?: boolean
}

/** `teamtr figures`: every figure, from the tables in data/. */
export const addFigures = (program: Command): void => {
  program.command('figures')
    .description('draw every figure from the tables in data/: SVG, PNG, Vega-Lite JSON and the CSV that it draws, with a gallery page')
    .option('--out <dir>', 'folder to write to', 'runs/figures')
    .option('--only <names...>', 'these figures only; a name without its table is then an error')
    .option('--data <dir>', 'folder of the tables', fileURLToPath(new URL('../../data/', import.meta.url)))
    .option('--recompute', 'first run the commands that write the tables that are needed (experiments and what starts from a run: only with --only)')
    .addHelpText('after', `
The same tables give the same bytes. A figure whose table is not there is left out, and the command says so.
data/README.md says what is in each table and which command wrote it.

Exit codes: 0 done, 1 a recomputation failed, 2 no such figure, a table that was asked for is missing or wrong, or the folder cannot be written.

Example: teamtr figures --only figure-1 --out /tmp/figures`)
    .action(async ({ out, only, data, recompute }: Options) => {
      const { figures } = await import('../figures/catalogue.js')
      const unknown = only?.find((name) => figures.every((figure) => figure.name !== name))
      if (unknown !== undefined) throw new InputError(`--only: no figure "${unknown}"; there are ${figures.map(({ name }) => name).join(', ')}`)
      const wanted = figures.filter(({ name }) => !only || only.includes(name))
      const { writableFolder } = await import('../util/files.js')
      if (recompute) [data!, out].forEach(writableFolder)
      if (recompute && !await recomputed(wanted, data!, only !== undefined)) return
      const reasons = await Promise.all(wanted.map((figure) => missingTable(figure, data!)))
      const first = reasons.find((reason) => reason !== undefined)
      if (!existsSync(data!)) throw new InputError(`--data: ${data}: no such folder`)
      if (first !== undefined && (only || !reasons.includes(undefined))) throw new InputError(first)
      // All tables are read, and what is wrong with them is found, before anything is written.
      const planned = await Promise.all(wanted.filter((_, i) => reasons[i] === undefined).map((figure) => plan(figure, data!)))
      writableFolder(out)
      for (const reason of reasons) if (reason !== undefined) process.stderr.write(`teamtr: ${reason} (left out)\n`)
      const bar = progress('figures', planned.length)
      const drawn: Drawn[] = []
      for (const each of planned) {
        bar.update(drawn.length, each.figure.name)
        drawn.push(await draw(each, out))
      }
      bar.end()
      process.stdout.write(`${drawn.length} figures: ${await writeGallery(drawn, out)}\n`)
    })
}

interface Drawn {
  readonly figure: Figure
  readonly svg: string
  readonly files: readonly string[]
}

/** Which of its tables is not there, and what writes it; undefined where it can be drawn. */
const missingTable = async ({ name, tables }: Figure, data: string): Promise<string | undefined> => {
  const missing = tables.find((table) => !existsSync(join(data, table)))
  if (missing === undefined) return undefined
  const { commandInto, recipeOf } = await import('../figures/catalogue.js')
  const recipe = recipeOf(missing)
  return `figure ${name}: ${join(data, missing)}: no such file; ${recipe ? `"teamtr ${commandInto(recipe, data).join(' ')}" writes it` : 'it comes with teamtr, in its folder data'}`
}

/** Run the commands that write the tables of these figures; what takes hours only for `chosen` ones. @returns false when one failed */
const recomputed = async (wanted: readonly Figure[], data: string, chosen: boolean): Promise<boolean> => {
  const { commandInto, recipes } = await import('../figures/catalogue.js')
  const needed = new Set(wanted.flatMap(({ tables }) => tables))
  for (const recipe of recipes.filter(({ tables, apart }) => (chosen || !apart) && tables.some((table) => needed.has(table)))) {
    const { tables, command } = recipe
    process.stdout.write(`teamtr ${command.join(' ')} → ${tables.join(', ')}\n`)
    const home = fileURLToPath(new URL('../../', import.meta.url))
    const { status } = spawnSync(process.execPath, [join(home, 'bin', 'teamtr.js'), ...commandInto(recipe, resolve(data))], { cwd: home, stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) {
      process.stderr.write(`teamtr: ${command[0]} failed; no figure was drawn\n`)
      process.exitCode = 1
      return false
    }
  }
  return true
}

/** A figure with what it draws. */
interface Planned {
  readonly figure: Figure
  readonly rows: readonly Row[]
  readonly spec: ReturnType<Figure['draw']>
}

const plan = async (figure: Figure, data: string): Promise<Planned> => {
  const { readTable } = await import('../figures/table.js')
  const { name, title, subtitle, tables } = figure
  const rows = figure.rows(...tables.map((table) => readTable(join(data, table), table)))
  if (rows.length === 0) throw new InputError(`figure ${name}: ${tables.map((table) => join(data, table)).join(', ')}: no row to draw`)
  return { figure, rows, spec: figure.draw(rows, { title, subtitle }) }
}

const draw = async ({ figure, rows, spec }: Planned, out: string): Promise<Drawn> => {
  const { toCsv } = await import('../figures/csv.js')
  const { themed, toPng, toSvg } = await import('../figures/render.js')
  const { writeAtomic } = await import('../util/files.js')
  const { name } = figure
  const svg = await toSvg(spec)
  const contents = { svg, png: await toPng(svg), 'vl.json': `${JSON.stringify(themed(spec), null, 1)}\n`, csv: toCsv(rows) }
  for (const [extension, content] of Object.entries(contents)) writeAtomic(join(out, `${name}.${extension}`), content)
  return { figure, svg, files: Object.keys(contents).map((extension) => `${name}.${extension}`) }
}

const writeGallery = async (drawn: readonly Drawn[], out: string): Promise<string> => {
  const { htmlPage } = await import('../figures/page.js')
  const { writeAtomic } = await import('../util/files.js')
  const page = join(out, 'index.html')
  writeAtomic(page, htmlPage('TeamTR: figures', drawn.map(({ figure: { title, tables }, svg, files }) => ({
    heading: title,
    text: [`From ${tables.map((table) => `data/${table}`).join(', ')}.`],
    figures: [{ svg, alt: title, files }],
  }))))
  return page
}
