import type { Command } from 'commander'
import type { Row } from '../figures/csv.js'
import type { RecordedRun } from '../train/runFolder.js'
import type { RunSummary } from '../train/summary.js'

/** `teamtr runs`: what run folders recorded, gathered into tidy tables. */
export const addRuns = (program: Command): void => {
  program.command('runs')
    .description('gather run folders into one table a kind: what each run gained, its evaluations, its updates')
    .argument('<folders...>', 'run folders that teamtr train wrote')
    .option('--out <dir>', 'also write NAME-runs.csv, NAME-evaluations.csv and NAME-updates.csv there')
    .option('--name <name>', 'NAME of the files', 'training')
    .option('--json', 'print the table of runs as JSON')
    .addHelpText('after', `
Wall times are left out: they are not the same twice.

Exit codes: 0 done, 2 a folder that holds no run.

Example: teamtr runs runs/relay-3-* --name relay --out data`)
    .action(async (folders: string[], { out, name, json }: { out?: string; name: string; json?: boolean }) => {
      const [{ readRun }, { summarise }, { InputError }, { textTable }] = await Promise.all([
        import('../train/runFolder.js'), import('../train/summary.js'), import('../util/errors.js'), import('../util/table.js'),
      ])
      if (!/^[\w-]+$/.test(name)) throw new InputError(`--name: holds "${name}"; letters, digits, - and _`)
      const runs = folders.map((folder) => {
        const run = readRun(folder)
        // A run of no updates has one.
        if (run.evaluations.length < Math.min(2, run.config.stages + 1)) throw new InputError(`${folder}: holds ${run.evaluations.length} evaluations; a finished run has one before training and one after`)
        return run
      })
      const summaries = runs.map((run) => runRow(run, summarise(run)))
      if (out !== undefined) {
        const [{ join }, { toCsv }, { writeAtomic }] = await Promise.all([import('node:path'), import('../figures/csv.js'), import('../util/files.js')])
        const tables = { runs: summaries, evaluations: runs.flatMap(evaluationRows), updates: runs.flatMap(updateRows) }
        for (const [kind, rows] of Object.entries(tables)) writeAtomic(join(out, `${name}-${kind}.csv`), toCsv(rows))
      }
      const columns = Object.keys(summaries[0])
      const readable = (): string => textTable(columns, summaries.map((row) => columns.map((column) => String(row[column]))))
      process.stdout.write(`${json ? JSON.stringify(summaries, null, 1) : readable()}\n`)
    })
}

const identity = ({ config }: RecordedRun): Row => ({ task: config.task.name, agents: config.team.agents, method: config.method.name, seed: config.seed })

const runRow = (run: RecordedRun, summary: RunSummary): Row => ({
  ...identity(run),
  updates: summary.updates,
  problems: summary.problems,
  before: round(summary.untrained!.estimate),
  after: round(summary.trained!.estimate),
  gain: round(summary.gain!.estimate),
  gain_low: round(summary.gain!.low),
  gain_high: round(summary.gain!.high),
  largest_kl_over_delta: round(summary.largestKl),
  scaled: summary.outcomes.scaled,
  refused: summary.outcomes.refused,
  certificate_violations: summary.violations,
  rollouts: summary.rollouts,
  tokens: summary.tokens,
})

const evaluationRows = (run: RecordedRun): Row[] => run.evaluations.map(({ update, stage, reward }) =>
  ({ ...identity(run), update, stage, reward: round(reward.estimate), low: round(reward.low), high: round(reward.high) }))

const updateRows = (run: RecordedRun): Row[] => run.updates.map(({ update, stage, position, agent, outcome, scale, delta, proposedKl, kl, beta, surrogate, zeta, rho, return: mean, improvement, certificate }) => ({
  ...identity(run), update, stage, position, agent, outcome,
  scale: round(scale), delta, proposed_kl: round(proposedKl), kl: round(kl), beta,
  surrogate: round(surrogate.value), zeta: round(zeta.total), rho: round(rho),
  return: round(mean.estimate), return_low: round(mean.low), return_high: round(mean.high),
  improvement: improvement && round(improvement.estimate), improvement_low: improvement && round(improvement.low), improvement_high: improvement && round(improvement.high),
  certificate: round(certificate.bound), active_mass: round(certificate.activeMass),
}))

/** Six digits: enough to draw and to compare, and the same on machines that round their last bits differently. */
const round = (x: number | null): number | null => (x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(6)))
