import { join } from 'node:path'
import type { TopLevelSpec } from 'vega-lite'
import { calibration, klPerUpdate, learningCurves } from './charts.js'
import type { Cell, Row } from './csv.js'
import type { ChartText } from './encode.js'
import { exactFigures, exactRecipes } from './exactFigures.js'
import { experimentFigures, experimentRecipes } from './experimentFigures.js'
import { growth, heatTable, intervals, lines, localSlopes, teamSizes } from './plots.js'
import { inTriangle, landscape, ringTeam, simplex, waterfall, waterfallRows, type WaterfallTerm } from './teamCharts.js'

/** One figure: drawn from tables of data/, and from nothing else. */
export interface Figure extends ChartText {
  /** Also the name of its files. */
  readonly name: string
  /** Files below data/. */
  readonly tables: readonly string[]
  /** The tidy table that is drawn, from the rows of `tables` in their order. */
  readonly rows: (...tables: readonly (readonly Row[])[]) => Row[]
  readonly draw: (rows: readonly Row[], text: ChartText) => TopLevelSpec
}

/** A command of this repository, run in its folder, and the tables of data/ that it writes. */
export interface Recipe {
  readonly tables: readonly string[]
  readonly command: readonly string[]
  /** The option that says where they go, and what it names below data/: `--out DATA` by default. */
  readonly into?: readonly [option: string, path: string]
  /** It takes hours, or starts from a run: left alone unless one of its figures is asked for by name. */
  readonly apart?: true
}

/** What `teamtr` is followed by, to write the tables of a recipe into the folder `data`. */
export const commandInto = ({ command, into: [option, path] = ['--out', ''] }: Recipe, data: string): string[] => [...command, option, join(data, path)]

/** What stands in no recipe is the paper's. */
export const recipes: readonly Recipe[] = [
  { tables: ['scaling-ring.csv', 'scaling-ring-exponents.csv'], command: ['scaling', '--n', '2,4,8,16,32', '--seeds', '100'] },
  { tables: ['worst-case.csv', 'stale-family.csv'], command: ['worst-case', '--evaluations', '40000'] },
  {
    tables: [
      'ring-team.csv', 'trust-region.csv', 'stage-terms.csv', 'penalty-shares.csv', 'sampled-certificate.csv', 'importance-ring.csv', 'paper-fits.csv',
      'landscape.csv', 'landscape-paths.csv', 'landscape-starts.csv',
    ],
    command: ['tables'],
  },
  { tables: ['relay-runs.csv', 'relay-evaluations.csv', 'relay-updates.csv'], command: ['runs', 'data/training/relay-3', 'data/training/relay-3-stale', '--name', 'relay'] },
  {
    tables: ['relay-kl-only-runs.csv', 'relay-kl-only-evaluations.csv', 'relay-kl-only-updates.csv'],
    command: ['runs', 'data/training/relay-3-adaptive-kl-only', '--name', 'relay-kl-only'],
  },
  { tables: ['token-shifts.csv'], command: ['token-shifts', 'configs/relay-3.yaml', '--steps', '12', '--no-penalty'] },
  ...experimentRecipes,
  ...exactRecipes,
]

/** What writes a table. */
export const recipeOf = (table: string): Recipe | undefined => recipes.find(({ tables }) => tables.includes(table))

/** Rows of two tables of runs, the second those of the run that only has a KL penalty, each with the name of its method. */
const relayRows = (runs: readonly Row[], penaltyOnly: readonly Row[]): { row: Row; method: Cell }[] => [
  ...runs.map((row) => ({ row, method: row.method === 'teamtr' ? 'TeamTR' : row.method })),
  ...penaltyOnly.map((row) => ({ row, method: 'KL penalty only' })),
]

const quantities: Readonly<Record<string, string>> = {
  thm37Paper: 'Theorem 3.7, n·Σ√δ', thm37Exact: 'Theorem 3.7, exact sum', activeMassStale: '3.7 with active mass (ours)', thm36: 'Theorem 3.6',
  activeMass: 'active mass (ours)', ownStates: 'stale, own states (ours)', drift: 'D_occ = Σ‖dⁱ⁻¹ − d⁰‖₁', shifts: 'Σ‖dⁱ − dⁱ⁻¹‖₁', gap: 'Δ_stale = Σ|L_seq − L_stale|',
}

/** Means of some quantities of scaling-ring.csv over n, each series with its α. */
const scaling = (radius: string, names: readonly string[]) => (means: readonly Row[], exponents: readonly Row[]): Row[] =>
  names.flatMap((name) => {
    const of = (row: Row): boolean => row.radius === radius && row.quantity === name
    const alpha = Number(exponents.find(of)?.alpha)
    return means.filter(of).map(({ n, mean, low, high }) => ({ n, series: `${quantities[name]}: α = ${alpha.toFixed(2)}`, value: mean, low, high }))
  })
const scalingTables = ['scaling-ring.csv', 'scaling-ring-exponents.csv']
const rings = '100 random rings for each n, δ = 0.001, γ = 0.95'

const paperRow = ({ quantity, method }: Row): string => `${quantity === 'delta_stale' ? 'Δ_stale' : 'D_occ'}, ${String(method)}`

/** All figures, in the order of the gallery. To add one, add an entry. */
export const figures: readonly Figure[] = [
  {
    name: 'ring-team',
    title: 'Where a team spends its time',
    subtitle: 'Areas: occupancy of a context. Lines: what flows from one context to the next, left to right',
    tables: ['ring-team.csv'],
    rows: (table) => [...table],
    draw: (rows, text) => ringTeam(rows.filter(({ kind }) => kind === 'context'), rows.filter(({ kind }) => kind === 'flow'), text),
  },
  {
    name: 'trust-region',
    title: 'A trust region keeps away from what it would make impossible',
    subtitle: 'Policies over three messages within KL(behaviour‖policy) of the behaviour',
    tables: ['trust-region.csv'],
    rows: (table) => table.map(({ series, order, p0, p1, p2 }) => ({ series, order, ...inTriangle([Number(p0), Number(p1), Number(p2)]) })),
    draw: (rows, text) => simplex(
      rows.filter(({ series }) => series !== 'behaviour'),
      rows.filter(({ series }) => series === 'behaviour').map(({ series, x, y }) => ({ label: series, x, y })),
      { ...text, actions: ['message 0', 'message 1', 'message 2'] },
    ),
  },
  {
    name: 'figure-1',
    title: 'Who does not see the other move circles the saddle',
    subtitle: 'Two agents rewarded for saying different things; 12 stages from the same team, δ = 0.05 for every update',
    tables: ['landscape.csv', 'landscape-paths.csv'],
    rows: (grid, paths) => [
      ...grid.map(({ theta0, theta1, J }) => ({ kind: 'surface', series: null, order: null, x: theta0, y: theta1, value: J })),
      ...paths.map(({ theta0, theta1, J, method, update }) => ({ kind: 'path', series: method, order: update, x: theta0, y: theta1, value: J })),
    ],
    draw: (rows, text) => landscape(rows.filter(({ kind }) => kind === 'surface'), rows.filter(({ kind }) => kind === 'path'), {
      ...text, x: 'θ₀, log-odds of agent 0', y: 'θ₁, log-odds of agent 1', value: 'return J',
    }),
  },
  {
    name: 'figure-1-starts',
    title: 'Only fresh rollouts reach the optimum from everywhere',
    subtitle: 'The same two agents: share of 441 starts that end within 5 % of the best return after 15 stages',
    tables: ['landscape-starts.csv'],
    rows: (table) => table.map(({ delta, method, arrived }) => ({ x: delta, series: method, value: arrived })),
    draw: (rows, text) => lines(rows, {
      ...text, x: { title: 'radius δ (nats)', log: true, ticks: [0.01, 0.02, 0.05, 0.1, 0.2], domain: [0.009, 0.22] }, y: { title: 'share of starts', domain: [0, 1.02] },
    }),
  },
  {
    name: 'stage-waterfall',
    title: 'Even at a short horizon the penalties outweigh the surrogates',
    subtitle: 'Theorem 3.6 on one stage of three agents, γ = 0.2, δ = 0.05, exact advantages',
    tables: ['stage-terms.csv'],
    rows: (table) => {
      if (table.length === 0) return []
      const terms = (kind: 'surrogate' | 'penalty', name: string): WaterfallTerm[] => table.map((row) => ({ label: `${name}, update ${String(row.update)}`, kind, amount: Number(row[kind]) }))
      return waterfallRows([...terms('surrogate', 'L'), ...terms('penalty', 'c√δ')], Number(table[0].improvement))
    },
    draw: (rows, text) => waterfall(rows, { ...text, y: 'change of return' }),
  },
  {
    name: 'certificates-by-radius',
    title: 'What is known of the update decides which certificate is tight',
    subtitle: 'Four agents in rotation, γ = 0.9; penalty of a stage, relative to Theorem 3.6',
    tables: ['penalty-shares.csv'],
    rows: (table) => table
      .filter(({ certificate }) => ['thm36', 'activeMass', 'tv', 'rangeTv', 'maxKl', 'halfSpanTv'].includes(String(certificate)))
      .map(({ delta, statement, share }) => ({ x: delta, series: statement, value: share })),
    draw: (rows, text) => lines(rows, { ...text, x: { title: 'radius δ (nats)', log: true }, y: { title: 'penalty / penalty of Theorem 3.6', log: true } }),
  },
  {
    name: 'penalties-occupancy-radius',
    title: 'Stale rollouts cost n², fresh ones n, by active mass √n',
    subtitle: `Penalty of one stage in units of c, δ an average over all contexts; ${rings}`,
    tables: scalingTables,
    rows: scaling('occupancy', ['thm37Paper', 'thm37Exact', 'activeMassStale', 'thm36', 'activeMass']),
    draw: (rows, text) => growth(rows, { ...text, y: 'penalty / c' }),
  },
  {
    name: 'penalties-message-radius',
    title: 'With δ per message, the active-mass penalty stays constant',
    subtitle: `Penalty of one stage in units of c, δ an average over the agent’s own messages; ${rings}`,
    tables: scalingTables,
    rows: scaling('message', ['thm37Paper', 'thm37Exact', 'activeMassStale', 'thm36', 'activeMass']),
    draw: (rows, text) => growth(rows, { ...text, y: 'penalty / c' }),
  },
  {
    name: 'penalties-own-states',
    title: 'With centred advantages, stale rollouts need no n² either',
    subtitle: `Penalty of one stage in units of c, occupancy radius; ${rings}`,
    tables: scalingTables,
    rows: scaling('occupancy', ['thm37Paper', 'thm37Exact', 'ownStates', 'thm36']),
    draw: (rows, text) => growth(rows, { ...text, y: 'penalty / c' }),
  },
  {
    name: 'drift-and-gap',
    title: 'What happens grows more slowly than the stale guarantee',
    subtitle: `Exact; occupancy radius; ${rings}; bands: 95 % bootstrap`,
    tables: scalingTables,
    rows: scaling('occupancy', ['drift', 'shifts', 'gap']),
    draw: (rows, text) => growth(rows, { ...text, y: 'Σ over the stage' }),
  },
  {
    name: 'local-slopes',
    title: 'Local slopes: the guarantee is still on its way to 2, what happens is not',
    subtitle: `Slope from n to 2n, drawn in the middle; occupancy radius; ${rings}`,
    tables: ['scaling-ring.csv'],
    rows: (table) => ['thm37Exact', 'drift', 'gap', 'thm36'].flatMap((name) =>
      localSlopes(table.filter(({ radius, quantity }) => radius === 'occupancy' && quantity === name), quantities[name], 'mean')),
    draw: (rows, text) => lines(rows, { ...text, x: teamSizes([2, 4, 8, 16, 32].map((n) => ({ n }))), y: { title: 'local exponent' } }),
  },
  {
    name: 'stale-family',
    title: 'The largest stale gap found is half of the tighter bound',
    subtitle: 'The family of teams with the largest gap that a search at n = 8 found; γ = 0.99',
    tables: ['stale-family.csv'],
    rows: (table) => ([['paper_bound', 'Proposition 3.3, added up'], ['own_states_bound', 'own states (ours), exact shifts'], ['gap', 'actual gap Δ_stale']] as const)
      .flatMap(([column, series]) => table.map((row) => ({ n: row.n, series, value: row[column] }))),
    draw: (rows, text) => growth(rows, { ...text, y: 'return' }),
  },
  {
    name: 'worst-case',
    title: 'How much of each penalty a search could use up',
    subtitle: 'Largest (actual loss)/(penalty) reached, a lower bound on the supremum; 1 is tight',
    tables: ['worst-case.csv'],
    rows: (table) => table.map(({ statement, agents, gamma, ratio }) => ({ row: `${worstCaseLabels[String(statement)] ?? String(statement)}, n = ${String(agents)}`, column: gamma, value: ratio })),
    draw: (rows, text) => heatTable(rows, { ...text, column: 'discount γ', domain: [0, 1], format: '.2f' }),
  },
  {
    name: 'sampled-certificate',
    title: 'Ten thousand rollouts certify an improvement, by total variation',
    subtitle: 'Three agents, γ = 0.5; lower bounds that all hold with probability 95 %',
    tables: ['sampled-certificate.csv'],
    rows: (table) => ([['thm36', 'Theorem 3.6'], ['activeMass', 'active mass (ours)'], ['tvRange', 'total variation, range (ours)'], ['improvement', 'actual improvement (exact)']] as const)
      .flatMap(([column, series]) => table.map((row) => ({ x: row.rollouts, series, value: row[column] }))),
    draw: (rows, text) => lines(rows, { ...text, x: { title: 'rollouts for each update', log: true }, y: { title: 'change of return' }, reference: 0 }),
  },
  {
    name: 'importance-weights',
    title: 'Each agent that moves divides the effective sample size',
    subtitle: 'ESS/B of stale rollouts at each update of a stage; ring: exact limit, two turns an agent',
    tables: ['importance-ring.csv', 'paper/importance-weights.csv'],
    rows: (ours, paper) => [
      ...ours.filter(({ n }) => n === 5).map(({ delta, update, ess_limit }) => ({ x: update, series: `ring, n = 5, δ = ${String(delta)} per message`, value: ess_limit })),
      ...paper.map(({ n, update, ess_per_rollout }) => ({ x: update, series: `the paper’s Table 10, n = ${String(n)}`, value: ess_per_rollout })),
    ],
    draw: (rows, text) => lines(rows, { ...text, x: { title: 'update of the stage', ticks: [2, 3, 4, 5], format: 'd' }, y: { title: 'ESS / B', log: true } }),
  },
  {
    name: 'relay-learning',
    title: 'All three learn the relay; one seed does not rank them',
    subtitle: 'Relay arithmetic, three agents; 500 held-out problems; bands: 95 % bootstrap over problems; one seed',
    tables: ['relay-evaluations.csv', 'relay-kl-only-evaluations.csv'],
    rows: (...tables) => relayRows(tables[0], tables[1]).map(({ row: { stage, reward, low, high }, method }) => ({ stage, method, value: reward, low, high })),
    draw: learningCurves,
  },
  {
    name: 'relay-kl',
    title: 'Scaling back keeps every update inside; the penalty alone does not',
    subtitle: 'Relay arithmetic; KL(behaviour‖updated), exact over the vocabulary, on the rollouts of the update; dashed: δ',
    tables: ['relay-updates.csv', 'relay-kl-only-updates.csv'],
    rows: (...tables) => relayRows(tables[0], tables[1]).map(({ row: { update, kl, delta }, method }) => ({ update, method, kl, delta })),
    draw: klPerUpdate,
  },
  {
    name: 'relay-calibration',
    title: 'No update falls below its certificate',
    subtitle: 'Relay arithmetic; active-mass certificate of each update against the improvement on fresh rollouts; dashed: equality',
    tables: ['relay-updates.csv', 'relay-kl-only-updates.csv'],
    rows: (...tables) => relayRows(tables[0], tables[1])
      .filter(({ row, method }) => method !== 'stale' && row.improvement !== null)
      .map(({ row: { active_mass, improvement }, method }) => ({ series: method, certificate: active_mass, improvement })),
    draw: calibration,
  },
  {
    name: 'token-shifts',
    title: 'Outside its region an update moves single tokens by whole units',
    subtitle: 'Share of sampled tokens whose log-probability one update of a relay agent changed by more than x; δ = 0.02',
    tables: ['token-shifts.csv'],
    rows: (table) => [...new Set(table.map(({ region }) => region))].flatMap((region) => {
      const own = table.filter((row) => row.region === region)
      const beyond = (x: number): number => own.reduce((sum, { shift, share }) => sum + (Math.abs(Number(shift)) > x ? Number(share) : 0), 0)
      return Array.from({ length: 29 }, (_, k) => Number((0.05 + k / 10).toFixed(2)))
        .map((x) => ({ x, series: `${String(region)}: KL = ${String(own[0].kl)}`, value: Number(beyond(x).toPrecision(6)) }))
        .filter(({ value }) => value > 0)
    }),
    draw: (rows, text) => lines(rows, { ...text, x: { title: '|Δ log π| of a token (nats)' }, y: { title: 'share of tokens beyond', log: true } }),
  },
  {
    name: 'paper-team-size',
    title: 'The paper’s team-size table on MATH-500',
    subtitle: 'Published values, two decimals; α as the paper states it',
    tables: ['paper/team-size-scaling.csv', 'paper/team-size-exponents.csv'],
    rows: (values, exponents) => values.map((row) => {
      const alpha = exponents.find(({ quantity, method }) => quantity === row.quantity && method === row.method)?.alpha
      return { n: row.n, series: `${paperRow(row)}: α = ${String(alpha)} (paper)`, value: row.value }
    }),
    draw: (rows, text) => growth(rows, { ...text, y: 'published value' }),
  },
  {
    name: 'paper-fits',
    title: 'No usual fit of the published naive rows gives the published α',
    subtitle: 'Six team sizes; bars: 95 % of each fit’s own error model',
    tables: ['paper-fits.csv'],
    rows: (table) => table.flatMap((row, k) => [
      ...(k > 0 && paperRow(table[k - 1]) === paperRow(row) ? [] : [{ label: paperRow(row), series: 'published α', value: row.published_alpha, low: null, high: null }]),
      { label: paperRow(row), series: row.fit, value: row.alpha, low: row.low, high: row.high },
    ]),
    draw: (rows, text) => intervals(rows, { ...text, x: { title: 'growth exponent α' } }),
  },
  {
    name: 'paper-local-slopes',
    title: 'The paper’s naive rows grow like pairs: above 2, and coming down',
    subtitle: 'Slope between neighbouring n of the published table, drawn at their geometric mean',
    tables: ['paper/team-size-scaling.csv'],
    rows: (table) => [
      ...[...new Set(table.map(paperRow))].flatMap((name) => localSlopes(table.filter((row) => paperRow(row) === name), `${name} (paper)`, 'value')),
      ...localSlopes([2, 3, 4, 5, 6, 8].map((n) => ({ n, pairs: n * (n - 1) })), 'n(n−1)', 'pairs'),
    ],
    draw: (rows, text) => lines(rows, { ...text, x: teamSizes([2, 3, 4, 5, 6, 8].map((n) => ({ n }))), y: { title: 'local exponent' } }),
  },
  ...experimentFigures,
  ...exactFigures,
]

const worstCaseLabels: Readonly<Record<string, string>> = {
  thm34: 'Theorem 3.4', activeMass: 'active mass, one update', tv: 'total variation, one update', halfSpanTv: 'half-span, one update', thm36: 'Theorem 3.6',
  thm37Exact: 'Theorem 3.7, exact sum', thm37Paper: 'Theorem 3.7, n·Σ√δ', staleOwnStates: 'stale, own states (ours)',
}
