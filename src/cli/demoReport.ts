import { join } from 'node:path'
import { certificateAgainstImprovement, klPerUpdate, learningCurves } from '../figures/charts.js'
import { toCsv, type Row } from '../figures/csv.js'
import { htmlPage, type Section } from '../figures/page.js'
import { growth } from '../figures/plots.js'
import { toPng, toSvg } from '../figures/render.js'
import { QUANTITIES, type Quantity, type ScalingExponent, type ScalingSetup } from '../theory/scaling.js'
import type { EvaluationRecord } from '../train/trainTeam.js'
import type { Estimate, UpdateRecord } from '../train/stage.js'
import { writeAtomic } from '../util/files.js'
import { textTable } from '../util/table.js'

/** One training run of the demo. */
export interface DemoRun {
  readonly method: string
  readonly folder: string
  readonly records: readonly UpdateRecord[]
  readonly evaluations: readonly EvaluationRecord[]
  /** Held-out reward after training minus before, on the same problems. */
  readonly gain: Estimate
  readonly seconds: number
}

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
  readonly runs: readonly DemoRun[]
  readonly guessing: {
    readonly source: string
    readonly games: number
    readonly turns: number
    readonly players: readonly GuessingPlayer[]
  }
  readonly scaling: { readonly setup: ScalingSetup; readonly quantities: Record<Quantity, ScalingExponent> }
}

/** A table of the demo: printed, and part of the report. */
interface Table { readonly header: string[]; readonly rows: string[][] }

/** The results as the short text that the command prints. */
export const demoText = (results: DemoResults): string => [
  'Relay arithmetic, held-out problems',
  tableText(relayTable(results)),
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
  const figures = [
    {
      name: 'learning', rows: learningRows(results), draw: learningCurves,
      text: { title: 'Held-out problems answered right, as training goes on', subtitle: 'bands: 95 % bootstrap intervals over problems' },
    },
    {
      name: 'kl', rows: klRows(results), draw: klPerUpdate,
      text: {
        title: 'Every accepted update stays inside its trust region',
        subtitle: 'measured on the rollouts of the update; dashed: the radius δ',
      },
    },
    {
      name: 'certificate', rows: certificateRows(results), draw: certificateAgainstImprovement,
      text: {
        title: 'What a stage is certified for, and what it brought',
        subtitle: 'TeamTR; bands: 95 % Student intervals over problems',
      },
    },
    {
      name: 'penalty', rows: penaltyRows(results), draw: penaltyCurves,
      text: {
        title: 'The guarantee’s penalty: n² when stale, n when resampled',
        subtitle: 'exact, on synthetic ring teams; α: slope on logarithms',
      },
    },
  ]
  const drawn = new Map<string, { svg: string; alt: string }>()
  for (const { name, rows, draw, text } of figures) {
    const svg = await toSvg(draw(rows, text))
    writeAtomic(join(folder, `${name}.svg`), svg)
    writeAtomic(join(folder, `${name}.png`), await toPng(svg))
    writeAtomic(join(folder, `${name}.csv`), toCsv(rows))
    drawn.set(name, { svg, alt: text.title })
  }
  const page = join(folder, 'index.html')
  const figure = (name: string) => drawn.get(name)!
  writeAtomic(page, htmlPage('TeamTR: a team that fine-tunes itself inside its certificate', sections(results, figure)))
  return page
}

const penaltyCurves = (rows: readonly Row[], text: { title: string; subtitle: string }): ReturnType<typeof growth> =>
  growth(rows, { ...text, y: 'penalty of a stage / c' })

const sections = (results: DemoResults, figure: (name: string) => { svg: string; alt: string }): Section[] => [
  {
    heading: 'Relay arithmetic: the team before and after',
    text: [
      'Agents take turns on one shared context. Each adds its operation to the running result, an error goes on to the next agent, and a ' +
      'later agent can repair it. Both methods make the same number of updates from the same untrained team; they differ in whose ' +
      'rollouts an update learns from.',
      `${results.engine}. Made by: ${results.command}`,
    ],
    table: relayTable(results),
    figures: [figure('learning')],
  },
  {
    heading: 'The trust region',
    text: [
      'An update whose measured divergence from the agent’s behaviour exceeds δ is scaled back along the update until it holds, ' +
      'or refused.',
    ],
    figures: [figure('kl')],
  },
  {
    heading: 'Certificate and measured improvement',
    text: [
      'Theorem 3.6 and the active-mass certificate, from sampled estimates: a diagnostic, not a proof. The worst-case penalty c Σ√δ is ' +
      `far larger than what a small update can bring, so at this δ a certificate says little. ${certificatesThatHeld(results)}`,
    ],
    figures: [figure('certificate')],
  },
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
    figures: [figure('penalty')],
  },
]

const stageCertificates = ({ runs }: DemoResults) =>
  runs[0].records.flatMap(({ stage, stageCertificate }) => (stageCertificate ? [{ stage: stage + 1, ...stageCertificate }] : []))

const certificatesThatHeld = (results: DemoResults): string => {
  const stages = stageCertificates(results)
  const held = stages.filter(({ bound, activeMass, improvement }) => Math.max(bound, activeMass) <= improvement.high)
  return `In ${held.length} of ${stages.length} stages neither lies above the interval of the measured improvement.`
}

const tableText = ({ header, rows }: Table): string => textTable(header, rows)
const percent = (x: number): string => `${hundred(x)} %`
const hundred = (x: number): string => (100 * x).toFixed(1)
const points = ({ estimate, low, high }: Estimate): string => `${hundred(estimate)} [${hundred(low)}, ${hundred(high)}]`
const interval = ({ estimate, low, high }: Estimate): string => `${percent(estimate)} [${hundred(low)}, ${hundred(high)}]`

const relayTable = ({ runs }: DemoResults): Table => ({
  header: ['team', 'right, 95 %', 'gain in points, 95 %', 'updates', 'largest KL/δ', 'scaled back', 'refused', 'seconds'],
  rows: [
    ['untrained', interval(runs[0].evaluations[0].reward), '', '', '', '', '', ''],
    ...runs.map(({ method, records, evaluations, gain, seconds }) => [
      method,
      interval(evaluations.at(-1)!.reward),
      points(gain),
      String(records.length),
      Math.max(0, ...records.map(({ kl, delta }) => kl / delta)).toFixed(3),
      String(records.filter(({ outcome }) => outcome === 'scaled').length),
      String(records.filter(({ outcome }) => outcome === 'refused').length),
      seconds.toFixed(0),
    ]),
  ],
})

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

const learningRows = ({ runs }: DemoResults): Row[] =>
  runs.flatMap(({ method, evaluations }) =>
    evaluations.map(({ stage, reward: { estimate, low, high } }) => ({ stage, method, value: estimate, low, high })))

const klRows = ({ runs }: DemoResults): Row[] =>
  runs.flatMap(({ method, records }) => records.map(({ update, kl, delta }) => ({ update, method, kl, delta })))

const certificateRows = (results: DemoResults): Row[] =>
  stageCertificates(results).flatMap(({ stage, bound, activeMass, improvement: { estimate, low, high } }) => [
    { stage, panel: 'measured', quantity: 'measured improvement', value: estimate, low, high },
    { stage, panel: 'certified', quantity: 'Theorem 3.6', value: bound, low: null, high: null },
    { stage, panel: 'certified', quantity: 'active mass (ours)', value: activeMass, low: null, high: null },
  ])

const penaltyRows = ({ scaling: { quantities } }: DemoResults): Row[] =>
  (['thm37Paper', 'thm37Exact', 'thm36', 'activeMassStale', 'activeMass'] as const).flatMap((name) => {
    const { means, fit } = quantities[name]
    const series = `${QUANTITIES[name].label}${fit ? `, α = ${fit.alpha.toFixed(2)}` : ''}`
    return means.map(({ n, interval }) => ({ n, series, value: interval.estimate }))
  })
