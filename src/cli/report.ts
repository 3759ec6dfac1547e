import type { Command } from 'commander'
import type { TrainedRun } from './trainingReport.js'

/** `teamtr report`: run folders as a page. */
export const addReport = (program: Command): void => {
  program.command('report')
    .description('run folders as one self-contained page: learning curves, divergences against δ, certificates against measured improvements')
    .argument('<folders...>', 'run folders that teamtr train wrote; the first one’s certificates are drawn')
    .option('--out <dir>', 'where index.html and every figure as SVG, PNG and CSV go (default: report/ in the first folder)')
    .addHelpText('after', `
Exit codes: 0 done, 2 a folder that holds no run, or one that cannot be written.

Example: teamtr report runs/relay-3-teamtr-0 runs/relay-3-stale-0 --out runs/report`)
    .action(report)
}

const report = async (folders: string[], { out }: { out?: string }): Promise<void> => {
  const [{ join }, { htmlPage }, { writableFolder, writeAtomic }, { textTable }, { trainingFigures, trainingTable, trustSections, writeFigures }] = await Promise.all([
    import('node:path'), import('../figures/page.js'), import('../util/files.js'), import('../util/table.js'), import('./trainingReport.js'),
  ])
  const runs = await Promise.all(folders.map(trainedRun))
  const to = out ?? join(folders[0], 'report')
  writableFolder(to)
  const figure = await writeFigures(to, trainingFigures(runs))
  const table = trainingTable(runs)
  const page = join(to, 'index.html')
  writeAtomic(page, htmlPage(`TeamTR: ${runs.map(({ method }) => method).join(', ')}`, [
    { heading: 'The team before and after', text: [`Made by: npx teamtr report ${folders.join(' ')}`], table, figures: figure('learning') },
    ...trustSections(runs, figure),
  ]))
  process.stdout.write(`${textTable(table.header, table.rows)}\n\nreport: ${page}\n`)
}

const trainedRun = async (folder: string, at: number, all: readonly string[]): Promise<TrainedRun> => {
  const [{ readRun }, { summarise }, { InputError }] = await Promise.all([
    import('../train/runFolder.js'), import('../train/summary.js'), import('../util/errors.js'),
  ])
  const run = readRun(folder)
  if (run.evaluations.length === 0) throw new InputError(`${folder}: holds no evaluation yet; a run has one before its first update`)
  const { method, seed, gain, seconds } = summarise(run)
  return {
    method: all.length === 1 ? method : `${method} ${seed} (${at + 1})`,
    folder,
    records: run.updates,
    evaluations: run.evaluations,
    gain: gain!,
    seconds: seconds.update + seconds.rollouts,
  }
}
