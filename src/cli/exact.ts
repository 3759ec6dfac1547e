import { basename, join } from 'node:path'
import { type Command } from 'commander'
import type { Row } from '../figures/csv.js'
import type { Estimate } from '../train/estimate.js'
import type { EstimateCheck, Excess, FollowedStage } from '../train/exactRun.js'
import { InputError } from '../util/errors.js'
import { progress, type Progress } from '../util/progress.js'
import { textTable } from '../util/table.js'
import { withOptions } from './configOptions.js'
import { wholeFrom } from './promptOptions.js'

interface Options {
  readonly method?: string
  readonly seed?: number
  readonly stages?: number
  readonly limit?: number
  readonly engine?: string
  readonly out?: string
  readonly json?: boolean
}

const whole = wholeFrom(0)

/** `teamtr exact`: a run whose every stage is computed exactly beside what it logs. */
export const addExact = (program: Command): void => {
  program
    .command('exact')
    .description('train a team in a small game and compute every stage exactly beside what the run logs: how good the estimates are, and what the certificates are worth')
    .argument('<config>', 'a training configuration (YAML or JSON) of a game small enough to enumerate, such as configs/relay-tiny.yaml')
    .option('--method <name>', 'in place of the configuration’s')
    .option('--seed <number>', 'in place of the configuration’s', whole)
    .option('--stages <number>', 'in place of the configuration’s', whole)
    .option('--limit <n>', 'largest number of contexts times messages of a stage (default: 4194304)', whole)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--out <dir>', 'also write exact-CONFIG-METHOD-updates.csv and exact-CONFIG-METHOD-stages.csv there')
    .option('--json', 'print both tables as JSON')
    .addHelpText('after', `
Exact values are those of the team MDP of a stage's own problems, every context and every message enumerated; logged ones are what
training estimates on its rollouts of the same problems. L_seq is logged on the rollouts that the update was fitted to, and flatters it.
What is logged of probes (where diagnostics are on) stands beside the exact values on the probes' own problems. Intervals are for problems drawn
anew: on the very problems that were drawn they hold the exact value more often than they say.

Two sums are called D_occ, and are told apart here. With d^b the occupancy of the team whose rollouts an update learned from (TeamTR: the team just
before it, stale: that at the start of the stage):
  unseen_drift      Σ ‖dⁱ⁻¹ − d⁰‖₁   what rollouts of the start of the stage do not see, whichever were used (the theory's)
  behaviour_shift   Σ ‖dⁱ − d^b‖₁    from what each update learned on to what its team acts under (what a run samples)
  stale_gap         Σ |L_stale − L_seq|, both with the advantage of the team just before the update (the theory's)
  behaviour_gap     Σ |L_b − L_seq|,     L_b with occupancy and advantage of the team whose rollouts were used (what a run samples)

The certificate that a run logs is Theorem 3.6's (with stale rollouts that of 3.7) from its estimates and the A_max of the configuration.
The exact ones are theorems about this very team: A_max, radii and occupancies are those of the MDP.

Exit codes: 0 done, 2 wrong input, or a game too large to enumerate.

Example: teamtr exact configs/relay-tiny.yaml --method stale --out data`)
    .action(exact)
}

const exact = async (file: string, { method, seed, stages, limit, engine, out, json }: Options): Promise<void> => {
  const [{ writableFolder, writeAtomic }, { toCsv }, { parseConfig }, { readTrainingConfig }, { initEngine }, { compareEstimates, excessOf, followRun }] = await Promise.all([
    import('../util/files.js'), import('../figures/csv.js'), import('../train/config.js'), import('../train/readTrainingConfig.js'), import('../train/backend.js'),
    import('../train/exactRun.js'),
  ])
  const config = parseConfig(withOptions(readTrainingConfig(file), { method, seed, stages }), file)
  if (config.stages === 0) throw new InputError(`${stages === 0 ? '--stages' : `${file}: stages`}: holds 0; expected at least 1, since what is computed is stages`)
  const { topP, topK } = config.rollout
  if (topP < 1 || topK !== null) throw new InputError(`${file}: rollout.${topP < 1 ? 'topP' : 'topK'}: holds ${topP < 1 ? topP : topK}; expected ${topP < 1 ? 1 : 'null'}, since exact values are those of whole policies`)
  if (out !== undefined) writableFolder(out)
  await initEngine(engine)
  let bar: Progress | undefined
  let phase = ''
  const followed = await followRun(config, {
    limit,
    onProgress: (now, done, total) => {
      if (now !== phase) bar?.end()
      if (now !== phase) bar = progress(now, total)
      phase = now
      bar!.update(done)
    },
  })
  bar?.end()
  const [updates, ofStages] = [followed.flatMap(updateRows), followed.map(stageRow)]
  if (out !== undefined) {
    const name = `exact-${basename(file).replace(/\.[^.]*$/, '')}-${config.method.name}`
    writeAtomic(join(out, `${name}-updates.csv`), toCsv(updates))
    writeAtomic(join(out, `${name}-stages.csv`), toCsv(ofStages))
  }
  process.stdout.write(`${json ? JSON.stringify({ updates, stages: ofStages }) : readable(compareEstimates(followed), excessOf(followed, config.trustRegion.reading), ofStages)}\n`)
}

const updateRows = ({ stage, records, exact: { steps, tokens }, behaviour, probed }: FollowedStage): Row[] => records.map((record, i) => {
  const { acting, divergence, dTok, shift, lSeq, lStale, improvement, agent, aMax } = steps[i]
  const { diagnostics } = record
  const logged = record.divergence.exact ?? record.divergence.lowVariance
  return round({
    update: record.update, stage, agent,
    rho: acting, rho_logged: record.rho,
    delta: record.delta, message_kl: divergence.message, message_kl_logged: logged.message,
    d_tok: divergence.occupancy, d_tok_logged: logged.occupancy, d_tok_effects: dTok,
    l_seq: lSeq, l_stale: lStale, l_logged: record.surrogate.value, l_unbiased_logged: record.surrogate.unbiased,
    improvement, ...estimate('improvement', record.improvement),
    shift, behaviour_shift: behaviour[i].shift, behaviour_gap: behaviour[i].gap,
    probe_shift: probed?.behaviour[i].shift ?? null, ...estimate('probe_shift', diagnostics?.drift),
    probe_gap: probed?.behaviour[i].gap ?? null, ...estimate('probe_gap', diagnostics?.gap),
    probe_l_seq: probed?.exact.steps[i].lSeq ?? null, ...estimate('probe_l_seq', diagnostics?.current),
    a_max: aMax, thm34: tokens.steps[i].thm34Step.bound, thm34_logged: record.certificate.bound,
  })
})

const estimate = (name: string, logged: Estimate | null | undefined): Record<string, number | null> =>
  ({ [`${name}_logged`]: logged?.estimate ?? null, [`${name}_low`]: logged?.low ?? null, [`${name}_high`]: logged?.high ?? null })

const stageRow = ({ stage, records, exact: { returns, measure, staleGap, unseenDrift, totalShift, tokens, effects }, behaviour }: FollowedStage): Row => {
  const updates = behaviour.slice(0, records.length)
  return round({
    stage,
    return_before: returns[0].J, reward_before: returns[0].reward, improvement: measure.improvement, improvement_logged: records.at(-1)?.stageCertificate?.improvement.estimate ?? null,
    stale_gap: staleGap, behaviour_gap: updates.reduce((sum, { gap }) => sum + Math.abs(gap), 0),
    unseen_drift: unseenDrift, behaviour_shift: updates.reduce((sum, { shift }) => sum + shift, 0), total_shift: totalShift, a_max: measure.aMax,
    certificate_logged: records.at(-1)?.stageCertificate?.bound ?? null, active_mass_logged: records.at(-1)?.stageCertificate?.activeMass ?? null,
    thm36: tokens.stage.thm36.bound, thm37: tokens.stage.thm37Exact.bound, active_mass: tokens.stage.activeMassChanged.bound, tv: effects.stage.tv.bound,
    range_tv: effects.stage.rangeTv.bound, half_span_tv: effects.stage.halfSpanTv.bound,
  })
}

/** Six digits: enough to compare, and the same on machines that round their last bits differently. */
const round = (row: Record<string, number | null>): Row =>
  Object.fromEntries(Object.entries(row).map(([name, x]) => [name, x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(6))]))

const number = (x: number): string => String(Number(x.toPrecision(3)))

const CERTIFICATES = [
  ['certificate_logged', 'as logged'], ['thm36', 'Theorem 3.6'], ['thm37', 'Theorem 3.7'], ['active_mass', 'active mass (acting states)'],
  ['tv', 'total variation'], ['range_tv', 'range, total variation'], ['half_span_tv', 'half-span, total variation'],
] as const

const readable = (checks: readonly EstimateCheck[], excess: Excess, stages: readonly Row[]): string => {
  const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x / values.length, 0)
  const column = (name: string): number[] => stages.map((row) => row[name]).filter((x) => typeof x === 'number')
  return [
    textTable(['logged', 'updates', 'exact, mean', 'logged − exact, mean', '95 % interval', 'root mean square', 'intervals that hold it'], checks.map((check) => [
      check.name, String(check.updates), number(check.exact), number(check.bias.estimate), `[${number(check.bias.low)}, ${number(check.bias.high)}]`,
      number(check.rootMeanSquare), check.coverage === null ? '–' : `${check.covered} of ${check.updates} [${number(check.coverage.low)}, ${number(check.coverage.high)}]`,
    ])),
    '',
    `exact KL above δ: ${excess.outside} of ${excess.updates} updates; the largest is ${number(excess.largest)} δ (a run holds it to δ on the rollouts of the update)`,
    `exact, mean over ${stages.length} stages: improvement ${number(mean(column('improvement')))}   ` +
    `Σ|L_stale − L_seq| ${number(mean(column('stale_gap')))}   Σ|L_b − L_seq| ${number(mean(column('behaviour_gap')))}   ` +
    `Σ‖dⁱ⁻¹ − d⁰‖₁ ${number(mean(column('unseen_drift')))}   Σ‖dⁱ − d^b‖₁ ${number(mean(column('behaviour_shift')))}   ‖dⁿ − d⁰‖₁ ${number(mean(column('total_shift')))}`,
    '',
    textTable(['certificate of a stage', 'mean', 'largest', 'above 0', 'above the exact improvement'], CERTIFICATES.map(([id, label]) => {
      const bounds = column(id)
      const violations = stages.filter((row) => typeof row[id] === 'number' && row[id] > (row.improvement as number)).length
      return [label, number(mean(bounds)), number(Math.max(...bounds)), `${bounds.filter((x) => x > 0).length} of ${bounds.length}`, `${violations} of ${bounds.length}`]
    })),
  ].join('\n')
}
