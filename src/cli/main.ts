import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { distance } from 'fastest-levenshtein'
import { InputError, oneLine } from '../util/errors.js'
import { addAdapters } from './adapters.js'
import { addCheck } from './check.js'
import { addVerify } from './verify.js'
import { addDemo } from './demo.js'
import { addDoctor } from './doctor.js'
import { addEval } from './eval.js'
import { addExperiment } from './experiment.js'
import { addExact } from './exact.js'
import { addExport } from './export.js'
import { addFigures } from './figures.js'
import { addKernel } from './kernel.js'
import { addProtocols } from './protocols.js'
import { addReport } from './report.js'
import { addRuns } from './runs.js'
import { addGenerate } from './generate.js'
import { addLogits } from './logits.js'
import { addMerge } from './merge.js'
import { addPull } from './pull.js'
import { addScaling } from './scaling.js'
import { addScore } from './score.js'
import { addSwap } from './swap.js'
import { addTrain } from './train.js'
import { addTables } from './tables.js'
import { addTokenShifts } from './tokenShifts.js'
import { addWorstCase } from './worstCase.js'

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }

/** What commander has to say of a wrong option, as one line. What it takes for near (three letters of five) need not be. */
const said = (text: string): string =>
  text.trim().replace(/^error: /, '').replace(/\.?\s*\n\s*/g, ' ').replace(/\.$/, '')
    .replace(/'([^']*)' \(Did you mean (?:one of )?([\w-]+).*\?\)$/, (all, given: string, near: string) =>
      (distance(given, near) <= Math.max(2, given.length / 3) ? all : `'${given}'`))

const program = new Command('teamtr')
  .description('Trust-region fine-tuning of multi-agent LLM teams (TeamTR): theory, training, figures')
  .version(version)
  .configureOutput({ outputError: (text, write) => write(`teamtr: ${oneLine(said(text))}; --help lists the options\n`) })
  .addHelpText('after', '\nteamtr COMMAND --help says what a command takes. A first look, in a minute: teamtr demo --quick')
  .exitOverride()

// One line a command: each file adds its command and imports what is heavy only when that command runs.
program.commandsGroup('Train and evaluate teams:')
addDemo(program)
addTrain(program)
addSwap(program)
addProtocols(program)
addRuns(program)
addReport(program)
addTokenShifts(program)
addEval(program)
addScore(program)
program.commandsGroup('Theory:')
addCheck(program)
addVerify(program)
addScaling(program)
addWorstCase(program)
addExperiment(program)
addExact(program)
addExport(program)
program.commandsGroup('Language models:')
addPull(program)
addGenerate(program)
addLogits(program)
addMerge(program)
addAdapters(program)
program.commandsGroup('Figures and notebooks:')
addTables(program)
addFigures(program)
addKernel(program)
program.commandsGroup('Set-up and help:')
addDoctor(program)
program.helpCommand('help [command]')

// An empty path would be the current folder (`--out "$UNSET"`).
const paths = ['out', 'data', 'prefix', 'base', 'adapter']
program.hook('preAction', (_, command) => {
  const empty = Object.entries(command.opts()).find(([name, value]) => paths.includes(name) && value === '')
  if (empty) throw new InputError(`--${empty[0]}: is empty; expected a path`)
})

// A reader that has seen enough (`teamtr … | head`) is no error. What goes to files too is written there before it is printed.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit()
  process.stderr.write(`teamtr: standard output: cannot be written: ${error.message}\n`)
  process.exit(2)
})
// Where nothing can be said, the work goes on.
process.stderr.on('error', () => undefined)

// The process that started this one over a channel (src/experiments/runGrid.ts) is gone: as with Ctrl-C.
const orphaned = (): void => void (process.emit('SIGINT') || process.exit(130))
process.on('disconnect', orphaned)
process.channel?.unref()
if (process.connected === false) orphaned()

/** Exit codes: 0 done, 1 a check failed, 2 the input was wrong. */
const run = async (): Promise<void> => {
  try {
    await program.parseAsync()
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : 2
    } else if (error instanceof InputError) {
      process.stderr.write(`teamtr: ${oneLine(error.message)}\n`)
      process.exitCode = 2
    } else {
      throw error
    }
  }
}

void run()
