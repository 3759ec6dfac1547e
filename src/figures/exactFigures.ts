/** Figures of exact runs (`teamtr exact`), where everything that training estimates is also computed, and of inference-time protocols. */
import type { Figure, Recipe } from './catalogue.js'
import { againstExact, certificateAgainstImprovement } from './charts.js'
import { scaled } from './experimentFigures.js'
import type { Row } from './csv.js'
import { intervals, lines } from './plots.js'

/** The exact runs that are committed, and what they are called. */
const exactRuns = [['relay-tiny', 'three agents'], ['relay-tiny-2', 'two agents']] as const
const exactTables = (kind: 'updates' | 'stages', methods: readonly string[]): string[] =>
  exactRuns.flatMap(([name]) => methods.map((method) => `exact-${name}-${method}-${kind}.csv`))
const exactName = (at: number, methods: readonly string[]): string =>
  `${exactRuns[Math.floor(at / methods.length)][1]}, ${methods[at % methods.length] === 'teamtr' ? 'TeamTR' : methods[at % methods.length]}`
const both = ['teamtr', 'stale']

const certificatePanels = [
  ['the improvement, and bounds by total variation', 'improvement', 'improvement (exact)'], ['the improvement, and bounds by total variation', 'half_span_tv', 'half span (ours)'],
  ['the improvement, and bounds by total variation', 'range_tv', 'range (ours)'],
  ['bounds by KL', 'active_mass', 'active mass (ours)'], ['bounds by KL', 'thm36', 'Theorem 3.6'], ['bounds by KL', 'thm37', 'Theorem 3.7'],
] as const

/** What was measured on probes, beside the exact values on their problems. */
const probed = (quantity: 'probe_shift' | 'probe_gap') => (...tables: readonly (readonly Row[])[]): Row[] =>
  tables.flatMap((table, k) => table.map((row) => ({
    series: exactName(k, both), exact: row[quantity], estimate: row[`${quantity}_logged`], low: row[`${quantity}_low`], high: row[`${quantity}_high`],
  })))

export const exactFigures: readonly Figure[] = [
  {
    name: 'protocols',
    title: 'What a frozen team gains at inference time, untrained and trained',
    subtitle: 'Relay arithmetic, three agents; 500 problems at eight episodes’ worth of tokens (once: one episode); bars: 95 % bootstrap over problems',
    tables: ['protocols-relay-3-untrained.csv', 'protocols-relay-3-trained.csv'],
    rows: (...tables) => ['untrained', 'after 120 updates of TeamTR'].flatMap((series, k) => tables[k].map(({ protocol, oracle, reward, reward_low, reward_high }) => ({
      label: String(oracle) === 'true' ? 'any of eight (told which is right)' : String(protocol), series, value: scaled(reward, 100), low: scaled(reward_low, 100), high: scaled(reward_high, 100),
    }))),
    draw: (rows, text) => intervals(rows, { ...text, x: { title: 'problems right, %', domain: [0, 100] } }),
  },
  {
    name: 'exact-kl',
    title: 'The KL of an update: estimated on its rollouts, and exact',
    subtitle: 'Relay games small enough to enumerate; one point an update; dashed: equality',
    tables: exactTables('updates', both),
    rows: (...tables) => tables.flatMap((table, k) => table.map(({ message_kl, message_kl_logged }) => ({ series: exactName(k, both), exact: message_kl, estimate: message_kl_logged }))),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'KL a message (nats)' }),
  },
  {
    name: 'exact-improvement',
    title: 'The improvement of an update: measured on fresh rollouts, and exact',
    subtitle: 'TeamTR in relay games small enough to enumerate; one point an update, bars: the 95 % intervals that are logged; dashed: equality',
    tables: exactTables('updates', ['teamtr']),
    rows: (...tables) => tables.flatMap((table, k) => table.filter(({ improvement_low }) => improvement_low !== null)
      .map(({ improvement, improvement_logged, improvement_low, improvement_high }) =>
        ({ series: exactName(k, ['teamtr']), exact: improvement, estimate: improvement_logged, low: improvement_low, high: improvement_high }))),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'change of return' }),
  },
  {
    name: 'exact-surrogates',
    title: 'The surrogate of an update: on the rollouts it was fitted to, and exact',
    subtitle: 'Relay games small enough to enumerate, TeamTR and stale; dashed: equality',
    tables: exactTables('updates', both),
    rows: (...tables) => ([['l_logged', 'as it is optimised'], ['l_unbiased_logged', 'by plain ratios']] as const).flatMap(([column, series]) =>
      tables.flatMap((table) => table.map((row) => ({ series, exact: row.l_seq, estimate: row[column] })))),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'surrogate (return)' }),
  },
  {
    name: 'exact-certificates',
    title: 'Exact certificates of a trained team, and its exact improvement',
    subtitle: 'TeamTR, three agents, stage by stage: lower bounds, every one below the improvement',
    tables: ['exact-relay-tiny-teamtr-stages.csv'],
    rows: (table) => certificatePanels.flatMap(([panel, column, quantity]) =>
      table.map((row) => ({ stage: Number(row.stage) + 1, panel, quantity, value: row[column], low: null, high: null }))),
    draw: certificateAgainstImprovement,
  },
  {
    name: 'exact-drift',
    title: 'Exact drift that stale rollouts do not see, TeamTR and stale',
    subtitle: 'Relay games small enough to enumerate; Σ‖dⁱ⁻¹ − d⁰‖₁ over the updates of a stage, whichever rollouts they learned from',
    tables: exactTables('stages', both),
    rows: (...tables) => tables.flatMap((table, k) => table.map(({ stage, unseen_drift }) => ({ x: Number(stage) + 1, series: exactName(k, both), value: unseen_drift }))),
    draw: (rows, text) => lines(rows, { ...text, x: { title: 'stage', format: 'd' }, y: { title: 'Σ‖dⁱ⁻¹ − d⁰‖₁', log: true } }),
  },
  {
    name: 'exact-drift-estimates',
    title: 'The shift from what an update learned on to what its team acts under: sampled, and exact',
    subtitle: 'Relay games small enough to enumerate; ‖dⁱ − d^b‖₁, b the team whose rollouts were used; where the update shifts anything; bars: 95 % intervals; dashed: equality',
    tables: exactTables('updates', both),
    rows: (...tables) => probed('probe_shift')(...tables.map((table) => table.filter(({ shift }) => Number(shift) > 1e-12))),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'shift ‖dⁱ − d^b‖₁' }),
  },
  {
    name: 'exact-gap',
    title: 'The gap of the surrogate to L_seq: sampled, and exact',
    subtitle: 'Relay games small enough to enumerate; on rollouts of the team that the update learned from, less L_seq (TeamTR: 0); bars: 95 % intervals; dashed: equality',
    tables: exactTables('updates', both),
    rows: probed('probe_gap'),
    draw: (rows, text) => againstExact(rows, { ...text, quantity: 'gap (return)' }),
  },
]

export const exactRecipes: readonly Recipe[] = [
  ...exactRuns.flatMap(([name]) => both.map((method): Recipe =>
    ({ tables: ['updates', 'stages'].map((kind) => `exact-${name}-${method}-${kind}.csv`), command: ['exact', `configs/${name}.yaml`, '--method', method] }))),
  ...([['untrained', 'configs/relay-3.yaml'], ['trained', 'runs/relay-3-teamtr-0']] as const).map(([team, source]): Recipe =>
    ({ tables: [`protocols-relay-3-${team}.csv`], command: ['protocols', source], into: ['--out', `protocols-relay-3-${team}.csv`], apart: true })),
]
