/** An experiment's tables: one tidy row per run, a summary over seeds, and how what was measured grows with the team. */
import type { Row } from '../figures/csv.js'
import { fitPowerLaw, fitPowerLawWithOffset, localExponents, type GrowthFit, type GrowthRow } from '../theory/growth.js'
import type { WeightSummary } from '../theory/importance.js'
import { bootstrapInterval, mean, studentInterval, variance } from '../theory/intervals.js'
import { readSwap, recovery } from '../train/recovery.js'
import { readRun, type RecordedRun } from '../train/runFolder.js'
import { summarise } from '../train/summary.js'
import { random } from '../util/random.js'
import { textTable } from '../util/table.js'
import type { Cell, Grid } from './grid.js'
import { protocolsIn } from './protocolCells.js'

/** A cell and what its run folder recorded. */
export interface CellRun {
  readonly cell: Cell
  readonly run: RecordedRun
}

export const readCells = (cells: readonly Cell[], folderOf: (cell: Cell) => string): CellRun[] => cells.map((cell) => ({ cell, run: readRun(folderOf(cell)) }))

/** The columns that say which run a row is of; all others are numbers. */
const identity = ({ levels, variant, seed, config }: Cell): Row =>
  ({ variant, level: levels[0], seed, method: config.method.name, agents: config.team.agents })

/** One row per run. Empty: not measured. The overheads are over the run of the variant `stale` (in the first axis) with the same seed and other levels. */
export const runRows = (runs: readonly CellRun[]): Row[] => {
  const rows = runs.map(({ cell, run }) => ({ cell, row: { ...identity(cell), ...measures(run) } }))
  return rows.map(({ cell, row }) => {
    const stale = rows.find((other) => other.cell.seed === cell.seed && isLevel(other.cell, 'stale', cell))?.row
    const over = (column: 'tokens' | 'rollouts' | 'seconds'): number | null => (stale && stale[column] > 0 ? round(row[column] / stale[column] - 1) : null)
    return { ...row, tokens_over_stale: over('tokens'), rollouts_over_stale: over('rollouts'), seconds_over_stale: over('seconds') }
  })
}

/** Whether a cell is of the variant `level` of the first axis, and as another one on all other axes. */
const isLevel = ({ levels: [first, ...rest] }: Cell, level: string, { levels: [, ...others] }: Cell): boolean =>
  first === level && rest.every((name, k) => name === others[k])

const measures = (run: RecordedRun) => {
  const summary = summarise(run)
  const { metrics } = summary
  const weights = run.updates.flatMap(({ position, weights }) => (weights && position > 0 ? [weights] : []))
  const over = (value: (summary: WeightSummary) => number): number | null => (weights.length > 0 ? round(mean(weights.map(value))) : null)
  const rewards = run.evaluations.map(({ reward }) => reward.estimate)
  return {
    updates: summary.updates,
    reward_before: round(summary.untrained?.estimate),
    reward_after: round(summary.trained?.estimate),
    reward_best: round(Math.max(...rewards)),
    gain: round(summary.gain?.estimate),
    tokens_per_problem: round(run.evaluations.at(-1) && run.evaluations.at(-1)!.tokens / run.evaluations.at(-1)!.problems),
    stale_gap: round(metrics.staleGap?.raw.estimate),
    stale_gap_signed: round(metrics.staleGap?.signed.estimate),
    stale_gap_corrected: round(metrics.staleGap?.corrected),
    stale_gap_noise: round(metrics.staleGap?.noise),
    drift: round(metrics.drift?.estimate),
    stability: round(metrics.stability?.deviation),
    stability_noise: round(metrics.stability?.noise),
    coordination: round(metrics.coordination?.estimate),
    repair: round(metrics.coordination?.foreign),
    out_of_region: round(metrics.outOfRegion.proposed),
    out_of_region_kept: round(metrics.outOfRegion.kept),
    largest_kl_over_delta: round(summary.largestKl),
    certificate: round(metrics.certificate),
    improvement: round(metrics.improvement),
    violation_rate: round(metrics.violationRate?.estimate),
    violation_rate_high: round(metrics.violationRate?.high),
    rank_correlation: round(metrics.rankCorrelation),
    ess: over(({ essPerRollout }) => essPerRollout),
    weight_p99: over(({ p99 }) => p99),
    weight_max: over(({ max }) => max),
    monitor_error: round(monitorError(run)),
    monitor_flips: round(monitorFlips(run)),
    scaled: summary.outcomes.scaled,
    refused: summary.outcomes.refused,
    skipped: summary.outcomes.skipped,
    tokens: summary.tokens,
    rollouts: summary.rollouts,
    seconds: round(summary.seconds.update + summary.seconds.rollouts) ?? 0,
    diagnostic_tokens: metrics.tokens,
    diagnostic_seconds: round(summary.seconds.diagnostics),
  }
}

/** Where the divergence is measured on a part of the tokens: the mean error of that, and how often it puts a proposal on the other side of δ. */
const monitored = ({ updates }: RecordedRun) => updates.flatMap(({ proposedKl, proposedKlOnAll, delta }) => (proposedKlOnAll === null || proposedKlOnAll === undefined ? [] : [{ proposedKl, all: proposedKlOnAll, delta }]))
const monitorError = (run: RecordedRun): number | null => meanOrNull(monitored(run).map(({ proposedKl, all }) => Math.abs(proposedKl - all)))
const monitorFlips = (run: RecordedRun): number | null => meanOrNull(monitored(run).map(({ proposedKl, all, delta }) => Number(proposedKl <= delta !== all <= delta)))
const meanOrNull = (values: readonly number[]): number | null => (values.length > 0 ? mean(values) : null)

const isIdentity = new Set(['variant', 'level', 'seed', 'method', 'agents'])

/**
 * One row per variant and measure: mean and deviation over seeds, and the mean difference to the reference variant, seed by seed; both with Student's 95 %
 * interval. Beside it the bootstrap's: with a handful of seeds it is too short (of five about one in six misses, of three one in four), so nothing is
 * concluded from it.
 */
export const summaryRows = (rows: readonly Row[], cells: readonly Cell[], { reference }: Pick<Grid, 'reference'>): Row[] => {
  const byId = new Map(rows.map((row) => [`${row.variant}-${row.seed}`, row]))
  const byVariant = new Map(cells.map((cell) => [cell.variant, cell]))
  const variants = new Map(rows.map((row) => [row.variant as string, row]))
  const measured = Object.keys(rows[0] ?? {}).filter((column) => !isIdentity.has(column))
  return [...variants.values()].flatMap(({ variant, level, method, agents }) => {
    const own = rows.filter((row) => row.variant === variant)
    // A protocol is compared as the variant whose team it lets play.
    const cell = byVariant.get(variant as string) ?? byVariant.get((variant as string).replace(/\.[^.]*$/, ''))
    const other = reference === undefined || !cell ? undefined : cells.find((candidate) => isLevel(candidate, reference, cell))
    return measured.flatMap((column): Row[] => {
      const values = own.flatMap((row) => (typeof row[column] === 'number' ? [row[column]] : []))
      if (values.length === 0) return []
      const differences = other === undefined || other.variant === variant ? [] : own.flatMap((row) => {
        const against = byId.get(`${other.variant}-${row.seed}`)?.[column]
        return typeof row[column] === 'number' && typeof against === 'number' ? [row[column] - against] : []
      })
      const [of, to] = [interval(values), interval(differences)]
      return [{
        variant, level, method, agents, measure: column, seeds: values.length,
        mean: of.mean, deviation: values.length > 1 ? round(Math.sqrt(variance(values))) : null, low: of.low, high: of.high,
        bootstrap_low: of.bootstrapLow, bootstrap_high: of.bootstrapHigh,
        difference: to.mean, difference_low: to.low, difference_high: to.high,
      }]
    })
  })
}

/** null: too few values. */
const interval = (values: readonly number[]) => {
  if (values.length === 0) return { mean: null, low: null, high: null, bootstrapLow: null, bootstrapHigh: null }
  const { estimate, low, high } = studentInterval(values)
  const bootstrap = values.length > 1 ? bootstrapInterval(values, { random: random(0) }) : null
  return { mean: round(estimate), low: round(low), high: round(high), bootstrapLow: round(bootstrap?.low), bootstrapHigh: round(bootstrap?.high) }
}

const grown = ['stale_gap', 'stale_gap_corrected', 'drift', 'stability'] as const

/**
 * α of what grows with the team, for each variant of the first axis: two fits to the means over seeds, each with its own interval, and the slopes between
 * neighbouring sizes. Of the first also Student's interval over the exponents of the seeds, and their mean difference to those of the reference, seed by
 * seed, with its interval. A mean that is not above 0 has no logarithm: such rows give no α.
 */
export const growthRows = (rows: readonly Row[], { reference }: Pick<Grid, 'reference'> = {}): Row[] => {
  const levels = [...new Set(rows.map(({ level }) => level as string))]
  return levels.flatMap((level) => grown.flatMap((measure): Row[] => {
    const points = pointsOf(rows, level, measure)
    const sizes = [...new Set(points.map(({ n }) => n))].sort((a, b) => a - b)
    if (sizes.length < 2) return []
    const means: GrowthRow[] = sizes.map((n) => ({ n, y: mean(points.filter((point) => point.n === n).map(({ y }) => y)) }))
    const [from, to] = [sizes[0], sizes.at(-1)!]
    const row = (fit: string, values: Row): Row => ({
      level, measure, fit, from, to, alpha: null, low: null, high: null, seeds_low: null, seeds_high: null, difference: null, difference_low: null, difference_high: null, ...values,
    })
    const fitted = (fit: GrowthFit, more: Row = {}): Row => row(fit.method, { alpha: round(fit.alpha), low: round(fit.low), high: round(fit.high), ...more })
    const out: Row[] = []
    const hasLogarithm = means.every(({ y }) => y > 0)
    if (hasLogarithm) {
      const alphas = exponents(points)
      const others = exponents(reference === undefined || reference === level ? [] : pointsOf(rows, reference, measure))
      const seeds = interval([...alphas.values()])
      const against = interval([...alphas].flatMap(([seed, alpha]) => (others.has(seed) ? [alpha - others.get(seed)!] : [])))
      out.push(fitted(fitPowerLaw(means), {
        seeds_low: seeds.low, seeds_high: seeds.high, difference: against.mean, difference_low: against.low, difference_high: against.high,
      }))
    } else out.push(row('log-log', {}))
    if (sizes.length > 3) out.push(fitted(fitPowerLawWithOffset(means)))
    if (hasLogarithm) out.push(...localExponents(means).map(({ alpha, ...ends }) => row('slope', { ...ends, alpha: round(alpha) })))
    return out
  }))
}

/** What was measured of a level, by team size n. */
const pointsOf = (rows: readonly Row[], level: string, measure: string): (GrowthRow & { seed: unknown })[] =>
  rows.flatMap((row) => (row.level === level && typeof row[measure] === 'number' ? [{ n: row.agents as number, y: row[measure], seed: row.seed }] : []))

/** α of each seed by itself, where all that it measured is above 0. */
const exponents = (points: ReturnType<typeof pointsOf>): Map<unknown, number> => {
  const sizes = new Set(points.map(({ n }) => n)).size
  return new Map([...new Set(points.map(({ seed }) => seed))].flatMap((seed): [unknown, number][] => {
    const own = points.filter((point) => point.seed === seed)
    return own.length === sizes && own.every(({ y }) => y > 0) ? [[seed, fitPowerLaw(own).alpha]] : []
  }))
}

/** Importance weights by place in a stage, means over its stages: what the paper's Table 10 has. */
export const weightRows = (runs: readonly CellRun[]): Row[] =>
  runs.flatMap(({ cell, run }) => {
    const weighed = run.updates.flatMap(({ position, weights }) => (weights ? [{ position, weights }] : []))
    return [...new Set(weighed.map(({ position }) => position))].sort((a, b) => a - b).map((position): Row => {
      const own = weighed.flatMap((update) => (update.position === position ? [update.weights] : []))
      const of = (value: (weights: (typeof own)[number]) => number): number | null => round(mean(own.map(value)))
      return {
        ...identity(cell), position, stages: own.length, ess: of(({ essPerRollout }) => essPerRollout), median: of(({ median }) => median), p90: of(({ p90 }) => p90),
        p99: of(({ p99 }) => p99), max: round(Math.max(...own.map(({ max }) => max))), top_share: of(({ topShare }) => topShare),
      }
    })
  })

/**
 * What swaps cost, a row a run that starts with one: held-out rewards of the team as it was, swapped, aligned and after the stages that followed; swap shocks and
 * what is left of them, with 95 % intervals of the paired differences; KL(new‖old); the stages until a loss was no longer told from 0 (empty: not yet);
 * Proposition 3.8 on the first stage, from logs. `exact_…` without sampling, where the game could be enumerated.
 */
export const swapRows = (runs: readonly CellRun[], folderOf: (cell: Cell) => string): Row[] =>
  runs.filter(({ cell }) => cell.config.start).map(({ cell, run }): Row => {
    const swap = readSwap(folderOf(cell))
    const { before, direct, aligned, exact, contexts } = swap
    const after = recovery(run, swap)
    const start = aligned ?? direct
    return {
      ...identity(cell), contexts,
      reward_was: round(before.reward.estimate), reward_swapped: round(direct.reward.estimate), reward_aligned: round(aligned?.reward.estimate), reward_recovered: round(after.latest.estimate),
      ...withInterval('shock', direct.shock), ...withInterval('shock_aligned', aligned?.shock), ...withInterval('left', after.left),
      kl_swapped: round(direct.kl.estimate), kl_aligned: round(aligned?.kl.estimate),
      recovered_after: after.recoveredAfter, stages: after.stages,
      return_start: round(start.return.estimate), return_certified: round(after.bound?.bound), return_reached: round(after.bound?.reached.estimate),
      certificate_before: round(after.certificates?.before.bound), certificate_after: round(after.certificates?.after.bound),
      exact_reward_was: round(exact?.before.reward), exact_reward_swapped: round(exact?.direct.reward), exact_reward_aligned: round(exact?.aligned?.reward),
      exact_kl_swapped: round(exact?.direct.kl.discounted), exact_kl_aligned: round(exact?.aligned?.kl.discounted),
    }
  })

const withInterval = (name: string, x: { estimate: number; low: number; high: number } | undefined): Row =>
  ({ [name]: round(x?.estimate), [`${name}_low`]: round(x?.low), [`${name}_high`]: round(x?.high) })

/** Six digits, and null for what is not a number. */
const round = (x: number | null | undefined): number | null => (typeof x !== 'number' || !Number.isFinite(x) ? null : Number(x.toPrecision(6)))

/** A row for each protocol that a run's team was measured under: the variant is VARIANT.PROTOCOL, its `gain` that over one episode. */
const protocolRows = (cells: readonly Cell[], folderOf: (cell: Cell) => string, columns: readonly string[]): Row[] =>
  cells.flatMap((cell) => (protocolsIn(folderOf(cell))?.results ?? []).map(({ protocol, oracle, tokens, reward, gain }): Row => {
    const name = `${cell.variant}.${protocol}${oracle ? '-oracle' : ''}`
    const measured = { reward_before: round(reward.estimate - gain.estimate), reward_after: round(reward.estimate), gain: round(gain.estimate), tokens_per_problem: round(tokens) }
    return { ...Object.fromEntries(columns.map((column) => [column, null])), ...identity(cell), variant: name, level: name, method: protocol, ...measured }
  }))

/** All tables of an experiment, by what their files are called; empty ones were not asked for. */
export interface Results {
  readonly runs: readonly Row[]
  readonly summary: readonly Row[]
  readonly growth: readonly Row[]
  readonly weights: readonly Row[]
  readonly swaps: readonly Row[]
}

/** @param cells whose runs are finished */
export const resultsOf = (grid: Grid, cells: readonly Cell[], folderOf: (cell: Cell) => string): Results => {
  const read = readCells(cells, folderOf)
  const trained = runRows(read)
  const runs = [...trained, ...protocolRows(cells, folderOf, Object.keys(trained[0] ?? {}))]
  const swaps = swapRows(read, folderOf)
  const summary = [...summaryRows(runs, cells, grid), ...summaryRows(swaps, cells, {})]
  return { runs, summary, growth: grid.growth ? growthRows(runs, grid) : [], weights: weightRows(read), swaps }
}

/** What is shown of each variant: columns of the runs, with their names and digits. */
const shown = [
  ['reward_after', 'reward', 3], ['gain', 'gain', 3], ['stale_gap', 'Δ_stale', 4], ['stale_gap_corrected', 'corrected', 4], ['drift', 'D_occ', 3], ['stability', 'stability', 3],
  ['coordination', 'coord.', 2], ['out_of_region', 'D > δ', 2], ['violation_rate', 'violated', 2], ['rank_correlation', 'rank corr.', 2], ['ess', 'ESS/B', 2],
  ['tokens', 'tokens', 0], ['tokens_over_stale', '+tokens', 2], ['seconds_over_stale', '+time', 2],
] as const

/** The summary as a table: mean ± deviation over seeds; rewards with their paired difference to the reference. */
export const readableResults = (results: Results, { reference }: Pick<Grid, 'reference'>): string => {
  const { summary, growth } = results
  const at = new Map(summary.map((row) => [`${row.variant} ${row.measure}`, row]))
  const variants = [...new Set(summary.map(({ variant }) => variant as string))]
  const columns = shown.filter(([measure]) => variants.some((variant) => at.has(`${variant} ${measure}`)))
  const cell = (row: Row | undefined, digits: number): string =>
    !row ? '–' : `${fixed(row.mean as number, digits)}${row.deviation === null || digits === 0 ? '' : ` ±${fixed(row.deviation as number, digits)}`}`
  const difference = (row: Row | undefined): string => (typeof row?.difference !== 'number' ? '–'
    : `${signed(row.difference)}${typeof row.difference_low === 'number' ? ` [${signed(row.difference_low)}, ${signed(row.difference_high as number)}]` : ''}`)
  const table = textTable(
    ['variant', ...columns.flatMap(([measure, name]) => (measure === 'reward_after' && reference !== undefined ? [name, `to ${reference}`] : [name]))],
    variants.map((variant) => [variant, ...columns.flatMap(([measure, , digits]) => {
      const row = at.get(`${variant} ${measure}`)
      return measure === 'reward_after' && reference !== undefined ? [cell(row, digits), difference(row)] : [cell(row, digits)]
    })]))
  if (results.swaps.length > 0) return `${table}\n\n${swapTable(at)}`
  if (growth.length === 0) return table
  const number = (x: unknown): string => (typeof x === 'number' ? fixed(x, 2) : '–')
  const range = (low: unknown, high: unknown): string => (typeof low === 'number' ? `[${number(low)}, ${number(high)}]` : '–')
  const slopes = (row: Row): string => growth.filter(({ level, measure, fit }) => level === row.level && measure === row.measure && fit === 'slope').map(({ alpha }) => number(alpha)).join(' ')
  const fits = growth.filter(({ fit }) => fit !== 'slope')
  return `${table}\n\n${textTable(['growth with n', 'measure', 'fit', 'α', '95 % (fit)', '95 % (seeds)', `to ${reference ?? '–'}`, 'slopes between neighbouring n'], fits.map((row) => [
    row.level as string, row.measure as string, row.fit as string, number(row.alpha), range(row.low, row.high), range(row.seeds_low, row.seeds_high),
    typeof row.difference === 'number' ? `${number(row.difference)} ${range(row.difference_low, row.difference_high)}` : '–', row.fit === 'log-log' ? slopes(row) : '',
  ]))}`
}

const shownOfSwaps = [
  ['reward_was', 'as it was', 3], ['reward_swapped', 'swapped', 3], ['reward_aligned', 'aligned', 3], ['reward_recovered', 'at the end', 3], ['shock', 'shock', 3],
  ['shock_aligned', 'aligned', 3], ['left', 'left', 3], ['kl_swapped', 'KL', 3], ['kl_aligned', 'aligned', 3], ['recovered_after', 'stages until back', 1],
] as const

/** Mean ± deviation over seeds of what swaps cost; where not all seeds have a value (are back), of how many. @param at rows of the summary by variant and measure */
const swapTable = (at: ReadonlyMap<string, Row>): string => {
  const variants = [...at.values()].filter(({ measure }) => measure === 'shock')
  const cell = (row: Row | undefined, digits: number, all: Row): string => (!row ? '–'
    : `${fixed(row.mean as number, digits)}${row.deviation === null ? '' : ` ±${fixed(row.deviation as number, digits)}`}${row.seeds === all.seeds ? '' : ` (${row.seeds} of ${all.seeds})`}`)
  return textTable(['swap', ...shownOfSwaps.map(([, name]) => name)], variants.map((all) => [
    all.variant as string, ...shownOfSwaps.map(([measure, , digits]) => cell(at.get(`${all.variant} ${measure}`), digits, all)),
  ]))
}

/** So many digits; what rounds to 0 has no sign. */
export const fixed = (x: number, digits: number): string => x.toFixed(digits).replace(/^-(?=[0.]*$)/, '')

const signed = (x: number): string => (Number(x.toFixed(3)) > 0 ? '+' : '') + fixed(x, 3)
