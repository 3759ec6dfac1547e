import { join } from 'node:path'
import type { Row } from '../figures/csv.js'
import { htmlPage, type Section } from '../figures/page.js'
import { growth } from '../figures/plots.js'
import { QUANTITIES, type Quantity, type ScalingExponent, type ScalingSetup } from '../theory/scaling.js'
import { writeAtomic } from '../util/files.js'
import { textTable } from '../util/table.js'
import {
  percent, trainingFigures, trainingTable, trustSections, writeFigures, type FigureOf, type NamedFigure, type Table, type TrainedRun,
} from './trainingReport.js'

/** One player of the guessing games. */
export interface GuessingPlayer {
  readonly name: string
  /** Share of the codes found within the turns. */
  readonly found: number
  /** Mean messages until found; a code that was not found counts as all turns. */
  readonly turns: number
  /** Share of the messages that were guesses at all. */
  readonly valid: number
  /** Share of the messages that were guesses in agreement with every answer so far; null where nobody counted. */
  readonly consistent: number | null
}

export interface DemoResults {
  readonly command: string
  readonly engine: string
  readonly runs: readonly TrainedRun[]
  readonly guessing: {
    readonly source: string
    readonly games: number
    readonly turns: number
    readonly players: readonly GuessingPlayer[]
  }
  readonly scaling: { readonly setup: ScalingSetup; readonly quantities: Record<Quantity, ScalingExponent> }
}

/** The results as the short text that the command prints. */
export const demoText = (results: DemoResults): string => [
  'Relay arithmetic, held-out problems',
  tableText(trainingTable(results.runs)),
  '',
  `Guessing numbers, ${results.guessing.games} games of at most ${results.guessing.turns} turns (${results.guessing.source})`,
  tableText(guessingTable(results)),
  '',
  scalingHeading(results),
  tableText(scalingTable(results)),
].join('\n')

/**
 * Write index.html, and every figure as SVG, PNG and CSV, below `folder`.
 *
 * @returns the page's path
 * @throws InputError when a file cannot be written
 */
export const writeDemoReport = async (folder: string, results: DemoResults): Promise<string> => {
  const figures: NamedFigure[] = [
    ...trainingFigures(results.runs),
    {
      name: 'penalty', rows: penaltyRows(results), draw: penaltyCurves,
      text: {
        title: 'The guarantee’s penalty: n² when stale, n when resampled',
        subtitle: 'exact, on synthetic ring teams; α: slope on logarithms',
      },
    },
  ]
  const figure = await writeFigures(folder, figures)
  const page = join(folder, 'index.html')
  writeAtomic(page, htmlPage('TeamTR: a team that fine-tunes itself inside its certificate', sections(results, figure)))
  return page
}

const penaltyCurves = (rows: readonly Row[], text: { title: string; subtitle: string }): ReturnType<typeof growth> =>
  growth(rows, { ...text, y: 'penalty of a stage / c' })

const sections = (results: DemoResults, figure: FigureOf): Section[] => [
  {
    heading: 'Relay arithmetic: the team before and after',
    text: [
      'Agents take turns on one shared context. Each adds its operation to the running result, an error goes on to the next agent, and a ' +
      'later agent can repair it. Both methods make the same number of updates from the same untrained team; they differ in whose ' +
      'rollouts an update learns from.',
      `${results.engine}. Made by: ${results.command}`,
    ],
    table: trainingTable(results.runs),
    figures: figure('learning'),
  },
  ...trustSections(results.runs, figure),
  {
    heading: `Guessing numbers: ${results.guessing.source}`,
    text: ['A team this small hardly learns to be consistent with the answers so far: the table says what was measured.'],
    table: guessingTable(results),
  },
  {
    heading: scalingHeading(results),
    text: [
      'Exact evaluation on synthetic team MDPs; no sampling. Penalties are upper bounds on what can be lost; the first rows say what was.',
    ],
    table: scalingTable(results),
    figures: figure('penalty'),
  },
]

const tableText = ({ header, rows }: Table): string => textTable(header, rows)
const guessingTable = ({ guessing: { players } }: DemoResults): Table => ({
  header: ['player', 'found', 'mean turns', 'valid messages', 'consistent'],
  rows: players.map(({ name, found, turns, valid, consistent }) =>
    [name, percent(found), turns.toFixed(2), percent(valid), consistent === null ? '' : percent(consistent)]),
})

const scalingHeading = ({ scaling: { setup } }: DemoResults): string =>
  `How one stage scales with the team: ${setup.family}, γ = ${setup.gamma}, ${setup.radius} radius δ = ${setup.delta}, ` +
  `means over ${setup.seeds} seeds`

const scalingTable = ({ scaling: { setup, quantities } }: DemoResults): Table => ({
  header: ['quantity', ...setup.sizes.map((n) => `n = ${n}`), 'α', '95 %'],
  rows: scalingShown.map((name) => {
    const { means, fit, bootstrap } = quantities[name]
    return [
      QUANTITIES[name].label,
      ...means.map(({ interval }) => interval.estimate.toPrecision(3)),
      fit ? fit.alpha.toFixed(2) : '',
      bootstrap ? `${bootstrap.low.toFixed(2)} … ${bootstrap.high.toFixed(2)}` : '',
    ]
  }),
})
const scalingShown: readonly Quantity[] = [
  'drift', 'gap', 'thm36', 'activeMass', 'thm37Paper', 'thm37Exact', 'activeMassStale', 'ownStates',
]

const penaltyRows = ({ scaling: { quantities } }: DemoResults): Row[] =>
  (['thm37Paper', 'thm37Exact', 'thm36', 'activeMassStale', 'activeMass'] as const).flatMap((name) => {
    const { means, fit } = quantities[name]
    const series = `${QUANTITIES[name].label}${fit ? `, α = ${fit.alpha.toFixed(2)}` : ''}`
    return means.map(({ n, interval }) => ({ n, series, value: interval.estimate }))
  })
