/**
 * Figures of the recorded experiments (`teamtr experiment NAME` writes data/experiments/NAME-….csv). What the paper published stands beside ours
 * where both measure the same, and says so. Titles name what is drawn: what it shows is for the tables to say.
 */
import type { TopLevelSpec } from 'vega-lite'
import type { Figure, Recipe } from './catalogue.js'
import { againstExact } from './charts.js'
import type { Row } from './csv.js'
import type { ChartText } from './encode.js'
import { fittedGrowth, heatTable, intervals, lines, localSlopes, teamSizes } from './plots.js'

/** Names of variants as they are read; others stand as the experiment names them. */
export const variantNames: Readonly<Record<string, string>> = {
  'teamtr': 'TeamTR', 'stale': 'stale, same trust region', 'stale-accepted': 'stale, same trust region', 'ppo': 'PPO, stale', 'grpo': 'GRPO, stale', 'dapo': 'DAPO, stale',
  'joint': 'joint', 'happo': 'HAPPO', 'single-grpo': 'single agent, GRPO', 'single-dapo': 'single agent, DAPO', 'untrained': 'untrained', 'importance': 'importance weights',
  'importance-unbounded': 'importance weights, no acceptance', 'resample-every-2': 'resample every 2nd update', 'adaptive-kl-only': 'adaptive KL only',
  'fixed-kl-only': 'fixed KL only', 'no-trust-region': 'no trust region', 'adaptive-delta': 'adaptive δ', 'no-normalisation': 'no group normalisation',
  'no-advantage-clipping': 'no advantage clipping', 'monitor-half': 'KL on a half of the tokens', 'monitor-quarter': 'KL on a quarter', 'monitor-tenth': 'KL on a tenth',
}
/** A variant's name as it is read, a protocol's after that of the team. */
export const nameOf = (variant: unknown): string => {
  const [own, protocol] = String(variant).split(/\.(?=[a-z])/)
  return `${variantNames[own] ?? own}${protocol === undefined ? '' : `, ${protocol.replace('pass-at-n-oracle', 'any of n (told which)')}`}`
}

const summary = (name: string): string => `experiments/${name}-summary.csv`

interface Reading {
  readonly series: string
  /** 100 for percentage points. */
  readonly scale?: number
  readonly label?: (row: Row) => string
}

/** Six digits of a multiple. */
export const scaled = (x: unknown, scale: number): number | null => (typeof x === 'number' ? Number((scale * x).toPrecision(6)) : null)

/** Means over seeds of one measure of a summary, an interval each (95 %, Student): rows of `intervals`. */
export const meanRows = (table: readonly Row[], measure: string, { series, scale = 1, label = ({ variant }) => nameOf(variant) }: Reading): Row[] =>
  table.filter((row) => row.measure === measure)
    .map((row) => ({ label: label(row), series, value: scaled(row.mean, scale), low: scaled(row.low, scale), high: scaled(row.high, scale) }))

/** Mean differences to the reference variant, paired by seed: rows of `intervals`. The reference itself has none. */
export const differenceRows = (table: readonly Row[], measure: string, { series, scale = 1, label = ({ variant }) => nameOf(variant) }: Reading): Row[] =>
  table.filter((row) => row.measure === measure && typeof row.difference === 'number')
    .map((row) => ({ label: label(row), series, value: scaled(row.difference, scale), low: scaled(row.difference_low, scale), high: scaled(row.difference_high, scale) }))

/** How a row of a summary compares with the reference: on which side of 0 the interval of its paired difference lies. The reference itself has no verdict. */
export const verdict = ({ difference, difference_low, difference_high }: Row): 'above' | 'below' | 'not told apart' | 'one seed' | null => {
  if (typeof difference !== 'number') return null
  if (typeof difference_low !== 'number' || typeof difference_high !== 'number') return 'one seed'
  return difference_low > 0 ? 'above' : difference_high < 0 ? 'below' : 'not told apart'
}

const byValue = (rows: readonly Row[]): Row[] => [...rows].sort((a, b) => Number(b.value) - Number(a.value))

/** Which of our ablations the paper's rows are. */
const paperAblations: Readonly<Record<string, string>> = {
  'no resampling': 'stale', 'no trust region': 'no-trust-region', 'adaptive KL only': 'adaptive-kl-only', 'fixed KL only': 'fixed-kl-only',
  'resample every second update': 'resample-every-2', 'importance weights': 'importance',
}
const paperDifferences = (aime: readonly Row[]): Row[] => {
  const own = aime.find(({ variant }) => String(variant).startsWith('TeamTR'))?.accuracy_percent
  return aime.filter(({ variant }) => Object.hasOwn(paperAblations, String(variant))).map(({ variant, accuracy_percent }) => ({
    label: nameOf(paperAblations[String(variant)]), series: 'the paper’s, AIME24', value: scaled(Number(accuracy_percent) - Number(own), 1), low: null, high: null,
  }))
}

const paperValue = (other: readonly Row[], figure: string): number => Number(other.find((row) => row.figure === figure)?.value)

const paperOutOfRegion = (other: readonly Row[]): Row[] => {
  const rate = (figure: string): number => paperValue(other, figure) / 100
  const range = 'out-of-region updates PPO GRPO DAPO'
  return [
    { label: 'TeamTR (the paper’s)', series: 'outside δ, the paper’s', value: rate('out-of-region updates TeamTR'), low: null, high: null },
    { label: 'PPO, GRPO, DAPO (the paper’s)', series: 'outside δ, the paper’s', value: null, low: rate(`${range} from`), high: rate(`${range} to`) },
  ]
}

const levelNames: Readonly<Record<string, string>> = { ...variantNames, stale: 'stale, no acceptance' }
const ofSizes = (level: unknown): string => levelNames[String(level)] ?? String(level)

/** The paper's rows of the same quantity, with the α that it states. */
const paperGrowth = (quantity: string, sizes: readonly Row[], exponents: readonly Row[]): Row[] =>
  [...new Set(sizes.filter((row) => row.quantity === quantity).map(({ method }) => method))].flatMap((method) => {
    const alpha = Number(exponents.find((row) => row.quantity === quantity && row.method === method)?.alpha)
    const own = sizes.filter((row) => row.quantity === quantity && row.method === method).map(({ n, value }) => ({ n, value, low: null, high: null }))
    return withFit(own, `the paper’s ${String(method)}: α = ${alpha}`, null)
  })

/** The line of slope α through the middle of the points on logarithmic axes: where α is the least-squares slope, the least-squares line. */
const withFit = (rows: readonly Row[], series: string, alpha: number | null): Row[] => {
  const mean = (of: (row: Row) => number): number => rows.reduce((sum, row) => sum + of(row), 0) / rows.length
  const [x, y] = [mean(({ n }) => Math.log(Number(n))), mean(({ value }) => Math.log(Number(value)))]
  return rows.map((row) => ({ ...row, series, fit: alpha === null ? null : scaled(Math.exp(y + alpha * (Math.log(Number(row.n)) - x)), 1) }))
}

/** One quantity over n, for each method, with the fit of growth.csv: where a mean is not above 0 there is none, and the point cannot be drawn. */
const grown = (measure: string, quantity?: string) => (table: readonly Row[], growth: readonly Row[], sizes: readonly Row[] = [], exponents: readonly Row[] = []): Row[] => [
  ...[...new Set(table.map(({ level }) => level))].flatMap((level) => {
    const own = table.filter((row) => row.level === level && row.measure === measure).sort((a, b) => Number(a.agents) - Number(b.agents))
    const above = own.filter(({ mean }) => Number(mean) > 0).map(({ agents, mean, low, high }) => ({ n: agents, value: mean, low: Number(low) > 0 ? low : null, high: Number(low) > 0 ? high : null }))
    const alpha = growth.find((row) => row.level === level && row.measure === measure && row.fit === 'log-log')?.alpha
    const exponent = typeof alpha === 'number' && above.length === own.length ? alpha : null
    const dropped = own.length - above.length
    const note = exponent === null ? (dropped > 0 ? `${dropped} of ${own.length} means not above 0` : 'no fit') : `α = ${exponent.toFixed(2)}`
    return withFit(above, `${ofSizes(level)}: ${note}`, exponent)
  }),
  ...(quantity === undefined ? [] : paperGrowth(quantity, sizes, exponents)),
]

const paperSizes = ['paper/team-size-scaling.csv', 'paper/team-size-exponents.csv']

const sizeFigure = (name: string, title: string, y: string, measure: string, quantity?: string): Figure => ({
  name,
  title,
  subtitle: `Relay team of n agents; means over seeds, bars: 95 % over seeds (Student); lines: least squares${quantity === undefined ? '' : '. The paper’s are on MATH-500 in units of its own: only slopes compare'}`,
  tables: [summary('team-size'), 'experiments/team-size-growth.csv', ...(quantity === undefined ? [] : paperSizes)],
  rows: (...tables) => grown(measure, quantity)(tables[0], tables[1], tables[2], tables[3]),
  draw: (rows, text) => fittedGrowth(rows, { ...text, y }),
})

const slopeFigure = (name: string, title: string, measure: string, quantity: string): Figure => ({
  name,
  title,
  subtitle: 'Slope between neighbouring n on logarithmic axes, drawn at their geometric mean',
  tables: ['experiments/team-size-growth.csv', 'paper/team-size-scaling.csv'],
  rows: (growth, sizes) => [
    ...growth.filter((row) => row.fit === 'slope' && row.measure === measure)
      .map(({ level, from, to, alpha }) => ({ x: Math.sqrt(Number(from) * Number(to)), series: ofSizes(level), value: alpha })),
    ...['naive sequential', 'TeamTR'].flatMap((method) =>
      localSlopes(sizes.filter((row) => row.quantity === quantity && row.method === method), `the paper’s ${method}`, 'value')),
  ],
  draw: (rows, text) => lines(rows, { ...text, x: teamSizes([2, 3, 4, 5, 6, 8].map((n) => ({ n }))), y: { title: 'local exponent' } }),
})

const phases = [['reward_was', 'as it was'], ['reward_swapped', 'swapped'], ['reward_aligned', 'aligned'], ['reward_recovered', 'at the end']] as const

const forest = (x: string) => (rows: readonly Row[], text: ChartText): TopLevelSpec => intervals(rows, { ...text, x: { title: x }, reference: 0 })
const seedBars = 'bars: 95\u00a0% over seeds (Student)'

export const experimentFigures: readonly Figure[] = [
  {
    name: 'methods-reward',
    title: 'Held-out reward by method, before and after training',
    subtitle: `Relay arithmetic, three agents; 500 problems; ${seedBars}. Protocols spend eight episodes a problem on the untrained team`,
    tables: [summary('main')],
    rows: (table) => {
      const after = byValue(meanRows(table, 'reward_after', { series: 'after', scale: 100 }))
      const trained = new Set(table.filter(({ measure, mean }) => measure === 'updates' && Number(mean) > 0).map(({ variant }) => nameOf(variant)))
      return [...after, ...meanRows(table, 'reward_before', { series: 'before', scale: 100 }).filter(({ label }) => trained.has(String(label)))]
    },
    draw: (rows, text) => intervals(rows, { ...text, x: { title: 'problems right, %', domain: [0, 100] } }),
  },
  {
    name: 'methods-differences',
    title: 'Held-out reward after training: difference to TeamTR',
    subtitle: `Relay arithmetic, three agents; paired by seed; ${seedBars}`,
    tables: [summary('main')],
    rows: (table) => byValue(differenceRows(table, 'reward_after', { series: 'reward', scale: 100 })),
    draw: forest('points over TeamTR'),
  },
  {
    name: 'methods-out-of-region',
    title: 'How often updates leave the trust region, and certificates are violated',
    subtitle: `Relay arithmetic, δ the same for all; ${seedBars}; the paper’s are its own models`,
    tables: [summary('main'), 'paper/other-figures.csv'],
    rows: (table, other) => [
      ...([['out_of_region', 'outside δ as proposed'], ['out_of_region_kept', 'outside δ as kept'], ['violation_rate', 'certificate violated']] as const)
        .flatMap(([measure, series]) => meanRows(table, measure, { series }).filter(({ label }) => label !== variantNames.untrained)),
      ...paperOutOfRegion(other),
    ],
    draw: (rows, text) => intervals(rows, { ...text, x: { title: 'share of updates (of stages: certificates)', domain: [0, 1] }, step: 9 }),
  },
  {
    name: 'overhead',
    title: 'What each method costs more than stale rollouts',
    subtitle: `Relay arithmetic; ${seedBars}; seconds without diagnostics`,
    tables: [summary('overhead'), 'paper/other-figures.csv'],
    rows: (table, other) => [
      ...([['tokens_over_stale', 'tokens'], ['rollouts_over_stale', 'rollouts'], ['seconds_over_stale', 'seconds']] as const).flatMap(([measure, series]) =>
        meanRows(table.filter(({ level }) => level !== 'stale'), measure, { series, scale: 100, label: ({ level, agents }) => `${nameOf(level)}, ${String(agents)} agents` })),
      { label: 'TeamTR (the paper’s)', series: 'tokens and rollouts, the paper’s', value: paperValue(other, 'overhead in tokens and rollouts'), low: null, high: null },
    ],
    draw: forest('% over stale rollouts'),
  },
  {
    name: 'ablations-differences',
    title: 'One piece of TeamTR changed: difference in held-out reward',
    subtitle: `Ours: relay arithmetic, three agents, paired by seed; ${seedBars}. The paper’s: AIME24, other models`,
    tables: [summary('ablations'), 'paper/aime24.csv'],
    rows: (table, aime) => [...byValue(differenceRows(table, 'reward_after', { series: 'ours, relay', scale: 100 })), ...paperDifferences(aime)],
    draw: forest('points over TeamTR'),
  },
  {
    name: 'delta-reward',
    title: 'Held-out reward by the radius δ',
    subtitle: `TeamTR on relay arithmetic, three agents; nats a message; ${seedBars}`,
    tables: [summary('delta')],
    rows: (table) => meanRows(table, 'reward_after', { series: 'after training', scale: 100, label: ({ variant }) => (variant === 'adaptive' ? 'adaptive δ' : `δ = ${String(variant)}`) }),
    draw: (rows, text) => intervals(rows, { ...text, x: { title: 'problems right, %' } }),
  },
  {
    name: 'order-differences',
    title: 'The order of updates: difference in held-out reward to the fixed one',
    subtitle: `TeamTR on relay arithmetic, four agents; paired by seed; ${seedBars}`,
    tables: [summary('order')],
    rows: (table) => differenceRows(table, 'reward_after', { series: 'reward', scale: 100, label: ({ variant }) => String(variant) }),
    draw: forest('points over the fixed order'),
  },
  sizeFigure('team-size-gap', 'Stale gap Δ_stale against the number of agents', 'Δ_stale', 'stale_gap', 'delta_stale'),
  sizeFigure('team-size-gap-corrected', 'Stale gap without what sampling adds to it', 'Δ_stale, corrected', 'stale_gap_corrected', 'delta_stale'),
  sizeFigure('team-size-drift', 'Occupancy drift D_occ against the number of agents', 'D_occ', 'drift', 'occupancy_drift'),
  sizeFigure('team-size-stability', 'Spread of the last stages’ returns against the number of agents', 'standard deviation', 'stability'),
  slopeFigure('team-size-gap-slopes', 'Local slopes of the stale gap, beside the paper’s', 'stale_gap', 'delta_stale'),
  slopeFigure('team-size-drift-slopes', 'Local slopes of the occupancy drift, beside the paper’s', 'drift', 'occupancy_drift'),
  {
    name: 'team-size-reward',
    title: 'Held-out reward after training against the number of agents',
    subtitle: 'Relay teams that are about as often right before training; bands: 95 % over seeds (Student)',
    tables: [summary('team-size')],
    rows: (table) => ([['reward_after', ''], ['reward_before', ', before']] as const).flatMap(([measure, note]) =>
      [...new Set(table.map(({ level }) => level))].filter((level) => note === '' || level === 'teamtr').flatMap((level) =>
        table.filter((row) => row.measure === measure && row.level === level)
          .map(({ agents, mean, low, high }) => ({ x: agents, series: `${ofSizes(level)}${note}`, value: scaled(mean, 100), low: scaled(low, 100), high: scaled(high, 100) })))),
    draw: (rows, text) => lines(rows, { ...text, x: teamSizes(rows, 'x'), y: { title: 'problems right, %' } }),
  },
  {
    name: 'importance-ess',
    title: 'Effective sample size of importance weights along the stage',
    subtitle: 'Means over stages and seeds, relay arithmetic; bands: smallest to largest seed; the paper’s Table 10 for comparison',
    tables: ['experiments/importance-weights-weights.csv', 'paper/importance-weights.csv'],
    rows: (ours, paper) => [
      ...[...new Map(ours.map((row) => [`${String(row.level)} ${String(row.agents)}`, row])).values()].flatMap(({ level, agents }) => {
        const own = ours.filter((row) => row.level === level && row.agents === agents && Number(row.position) > 0)
        return [...new Set(own.map(({ position }) => Number(position)))].sort((a, b) => a - b).map((position) => {
          const ess = own.filter((row) => row.position === position).map((row) => Number(row.ess))
          const mean = ess.reduce((sum, x) => sum + x, 0) / ess.length
          return { x: position + 1, series: `${nameOf(level)}, n = ${String(agents)}`, value: scaled(mean, 1), low: scaled(Math.min(...ess), 1), high: scaled(Math.max(...ess), 1) }
        })
      }),
      ...paper.map(({ n, update, ess_per_rollout }) => ({ x: update, series: `the paper’s Table 10, n = ${String(n)}`, value: ess_per_rollout, low: null, high: null })),
    ],
    draw: (rows, text) => lines(rows, { ...text, x: { title: 'update of the stage', ticks: [2, 3, 4, 5], format: 'd' }, y: { title: 'ESS / B', log: true } }),
  },
  {
    name: 'swap-shock',
    title: 'What a swap costs: at once, after alignment, and after training on',
    subtitle: 'Held-out reward lost against the team as it was; a point a seed, bars: 95\u00a0% bootstrap over problems; the paper’s are its own models',
    tables: ['experiments/plug-and-play-swaps.csv', 'paper/other-figures.csv'],
    rows: (table, other) => [
      ...([['shock', 'at once'], ['shock_aligned', 'after alignment'], ['left', 'after the stages that followed']] as const).flatMap(([measure, series]) =>
        table.filter((row) => typeof row[measure] === 'number').map((row) => ({
          label: nameOf(row.variant), series, value: scaled(row[measure], 100), low: scaled(row[`${measure}_low`], 100), high: scaled(row[`${measure}_high`], 100),
        }))),
      ...([['before', 'at once'], ['after', 'after alignment']] as const).map(([when, series]) => ({
        label: 'the paper’s', series, value: paperValue(other, `swap shock ${when} alignment`), low: null, high: null,
      })),
    ],
    draw: forest('points lost'),
  },
  {
    name: 'swap-rewards',
    title: 'Held-out reward through a swap',
    subtitle: 'Per cent of problems right, means over seeds; no cell where there was no alignment',
    tables: [summary('plug-and-play')],
    rows: (table) => phases.flatMap(([measure, column]) =>
      table.filter((row) => row.measure === measure).map(({ variant, mean }) => ({ row: nameOf(variant), column, value: scaled(mean, 100) }))),
    draw: (rows, text) => heatTable(rows, { ...text, column: 'the team', domain: [0, 100], format: '.0f', width: 70 }),
  },
  {
    name: 'swap-exact',
    title: 'What a swap costs: on sampled episodes, and exact',
    subtitle: 'Relay games small enough to enumerate; bars: 95 % bootstrap over problems; dashed: equality',
    tables: ['experiments/plug-and-play-exact-swaps.csv'],
    rows: (table) => ([['shock', 'swapped', 'at once'], ['shock_aligned', 'aligned', 'after alignment']] as const).flatMap(([measure, team, series]) =>
      table.map((row) => ({
        series, exact: scaled(Number(row.exact_reward_was) - Number(row[`exact_reward_${team}`]), 100),
        estimate: scaled(row[measure], 100), low: scaled(row[`${measure}_low`], 100), high: scaled(row[`${measure}_high`], 100),
      }))),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'points lost' }),
  },
]

/** The tables of an experiment, as `teamtr experiment NAME` leaves them below data/. */
const recorded = (name: string, ...more: readonly string[]): Recipe => ({
  tables: ['runs', 'summary', ...more].map((kind) => `experiments/${name}-${kind}.csv`),
  command: ['experiment', name, '--resume'],
  into: ['--data', 'experiments'],
  apart: true,
})

export const experimentRecipes: readonly Recipe[] = [
  ...['main', 'ablations', 'delta', 'order', 'overhead'].map((name) => recorded(name)),
  recorded('team-size', 'growth'), recorded('importance-weights', 'weights'), recorded('plug-and-play', 'swaps'), recorded('plug-and-play-exact', 'swaps'),
]
