import { basename, dirname, join, resolve } from 'node:path'
import { Option, type Command } from 'commander'
import type { ExportedRun } from '../train/exportRun.js'
import { progress, type Progress } from '../util/progress.js'
import { textTable } from '../util/table.js'
import { wholeFrom } from './promptOptions.js'

interface Options {
  readonly out?: string
  readonly checkpoint?: string
  readonly on: 'held-out' | 'training'
  readonly problems?: number
  readonly limit?: number
  readonly engine?: string
  readonly json?: boolean
}

const whole = wholeFrom(1)

/** `teamtr export`: the team of a run as a tabular MDP. */
export const addExport = (program: Command): void => {
  program
    .command('export')
    .description('enumerate a small game: the trained team of a run as an exact team MDP, its exact return, and the exact certificates of its last stage')
    .argument('<run>', 'the folder of a run (teamtr train)')
    .option('--out <file>', 'the theory case to write (default: exact.json in the run folder)')
    .option('--checkpoint <updates>', 'which team: a checkpoint of the run by its number of updates (default: the latest)')
    .addOption(new Option('--on <problems>', 'the problems that the run is evaluated on, or those that the stage learned from').choices(['held-out', 'training']).default('held-out'))
    .option('--problems <n>', 'only the first n of them (default: all)', whole)
    .option('--limit <n>', 'largest number of contexts times messages (default: 4194304; 4 bytes each, and 8 for every token’s probability)', whole)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print what was found as JSON')
    .addHelpText('after', `
A state is a problem and what was said so far; an action is what a message makes of it (messages of the same effect are one action);
episodes that are over stay in one end state, the last, which is counted for the agent that speaks first. Start distribution: the
problems, each as often as it comes. Probabilities are the models' own, at the temperature of the rollouts.

The file is a theory case (teamtr-theory-case/1) that teamtr check reads. Where the run has a checkpoint before the one exported, it is
the stage between both: every agent from the earlier team to the later one, in the order of the updates. Otherwise nothing moves in it.
Radii are D_tok of whole messages, token by token. To enclose a stage of n updates, train with checkpoint: {every: n}.

The interval of the sampled Σ r is Clopper and Pearson's where rewards are 0 or 1, else empirical Bernstein: it holds for any number of problems.
With --on training, exact values stand beside those that the run logged, for the same problems.

Exit codes: 0 done, 2 wrong input, or a game too large to enumerate.

Example:
  teamtr train configs/relay-tiny.yaml
  teamtr export runs/relay-tiny-teamtr-0 --on training
  teamtr check runs/relay-tiny-teamtr-0/exact.json`)
    .action(exportCommand)
}

const exportCommand = async (folder: string, options: Options): Promise<void> => {
  const [{ initEngine }, { exportRun }, { CASE_FORMAT, jsonNumber, stageInputToJson }, { readRun }, { writableFolder, writeAtomic }] = await Promise.all([
    import('../train/backend.js'), import('../train/exportRun.js'), import('../theory/json.js'), import('../train/runFolder.js'), import('../util/files.js'),
  ])
  readRun(folder)
  await initEngine(options.engine)
  const out = options.out ?? join(folder, 'exact.json')
  writableFolder(dirname(out))
  let bar: Progress | undefined
  const found = await exportRun(folder, { ...options, onProgress: (done, total) => (bar ??= progress('reading', total, 'contexts and prefixes')).update(done) })
  bar?.end()

  const name = `${basename(resolve(folder))}-${found.teams.at(-1)!.updates}`
  writeAtomic(out, `${JSON.stringify({ format: CASE_FORMAT, id: name, family: 'trained-team', note: describe(found, options.on), input: stageInputToJson(found.input) })}\n`)
  const text = options.json
    ? JSON.stringify({ out, ...summary(found) }, (_, value: unknown) => (typeof value === 'number' ? jsonNumber(value) : value))
    : readable(found, options.on)
  process.stdout.write(`${text}\n`)
  process.stderr.write(`${out} holds the team; teamtr check reads it\n`)
}

const describe = ({ space: { mdp, contexts }, problems, teams }: ExportedRun, on: Options['on']): string =>
  `${mdp.n} agents after ${teams.map(({ updates }) => updates).join(' and ')} updates, on ${problems} ${on === 'training' ? 'training' : 'held-out'} problems: ` +
  `${contexts.length} contexts and the end state, ${mdp.reward.length - 1} actions and its own`

/** What the run logged of the update of each step, where the steps are its updates and were made on these problems. */
const loggedSteps = ({ stage, records }: ExportedRun, on: Options['on']): ExportedRun['records'] | undefined =>
  on === 'training' && stage && new Set(records.map(({ agent }) => agent)).size === records.length && records.every((record) => record.stage === records[0].stage)
    ? records : undefined

const BOUNDS = [
  ['thm36', 'Theorem 3.6'], ['thm37Exact', 'Theorem 3.7'], ['activeMassChanged', 'active mass (acting states)'], ['tv', 'total variation'], ['halfSpanTv', 'half-span total variation'],
] as const

const summary = (found: ExportedRun) => {
  const { space: { mdp }, problems, teams, stage } = found
  return {
    states: mdp.states,
    actions: mdp.reward.length,
    problems,
    teams: teams.map(({ updates, exact: { J, reward, acting, over }, reward: sampled }) => ({ updates, return: J, reward, sampled, rho: [...acting], over })),
    stage: stage && {
      improvement: stage.measure.improvement,
      aMax: stage.measure.aMax,
      staleGap: stage.staleGap,
      unseenDrift: stage.unseenDrift,
      totalShift: stage.totalShift,
      steps: stage.steps.map(({ agent, acting, divergence, dTok, tvMean, shift, lSeq, lStale, improvement }, i) =>
        ({ agent, rho: acting, divergence, dTokEffects: dTok, tvMean, shift, lSeq, lStale, improvement, thm34: stage.tokens.steps[i].thm34.bound })),
      bounds: Object.fromEntries(BOUNDS.map(([id]) => [id, { tokens: stage.tokens.stage[id].bound, effects: stage.effects.stage[id].bound }])),
    },
  }
}

const number = (x: number | null | undefined): string =>
  x === null || x === undefined ? '–' : Number.isFinite(x) ? String(Number(x.toPrecision(4))) : String(x).replace('Infinity', '∞')

const readable = (found: ExportedRun, on: Options['on']): string => {
  const { teams, stage } = found
  const parts = [describe(found, on), textTable(
    ['team', 'J', 'Σ r', 'sampled Σ r', '95 % interval', ...found.input.order.map((_, j) => `ρ of ${j}`)],
    teams.map(({ updates, exact, reward }) => [
      `after ${updates} updates`, number(exact.J), exact.reward.toFixed(4), reward.estimate.toFixed(4), `[${reward.low.toFixed(4)}, ${reward.high.toFixed(4)}]`,
      ...Array.from(exact.acting, number),
    ]),
  )]
  if (stage) {
    const logged = loggedSteps(found, on)
    const beside = (exact: number, sampled: (i: number) => number | null | undefined, i: number): string[] =>
      logged ? [number(exact), number(sampled(i))] : [number(exact)]
    const columns = (names: string[]): string[] => names.flatMap((name) => (logged ? [name, 'logged'] : [name]))
    parts.push(textTable(['agent', ...columns(['ρ', 'KL of a message', 'D_tok', 'L_seq', 'improvement', 'Thm 3.4']), 'D_tok of effects', 'L_stale', '‖Δd‖₁'], stage.steps.map((step, i) => [
      String(step.agent),
      ...beside(step.acting, () => logged?.[i]?.rho, i),
      ...beside(step.divergence.message, () => logged?.[i]?.divergence.exact?.message, i),
      ...beside(step.divergence.occupancy, () => logged?.[i]?.divergence.exact?.occupancy, i),
      ...beside(step.lSeq, () => logged?.[i]?.surrogate.unbiased, i),
      ...beside(step.improvement, () => logged?.[i]?.improvement?.estimate, i),
      ...beside(stage.tokens.steps[i].thm34.bound, () => logged?.[i]?.certificate.bound, i),
      number(step.dTok), number(step.lStale), number(step.shift),
    ])))
    parts.push(`improvement ${number(stage.measure.improvement)}   A_max ${number(stage.measure.aMax)}   Δ_stale ${number(stage.staleGap)}   Σ‖dⁱ⁻¹ − d⁰‖₁ ${number(stage.unseenDrift)}`)
    parts.push(textTable(['exact certificate of the stage', 'radii of messages', 'radii of effects'], BOUNDS.map(([id, label]) =>
      [label, number(stage.tokens.stage[id].bound), number(stage.effects.stage[id].bound)])))
  }
  return parts.join('\n\n')
}
