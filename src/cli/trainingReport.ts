/** What there is to show of training runs: figures, a table and the sections of a page around them. */
import { join } from 'node:path'
import { certificateAgainstImprovement, klPerUpdate, learningCurves } from '../figures/charts.js'
import { toCsv, type Row } from '../figures/csv.js'
import type { Section } from '../figures/page.js'
import { toPng, toSvg } from '../figures/render.js'
import type { Estimate } from '../train/estimate.js'
import type { UpdateRecord } from '../train/stage.js'
import type { EvaluationRecord } from '../train/trainTeam.js'
import { writeAtomic } from '../util/files.js'

/** One training run. */
export interface TrainedRun {
  /** What it is called beside others. */
  readonly method: string
  readonly folder: string
  readonly records: readonly UpdateRecord[]
  readonly evaluations: readonly EvaluationRecord[]
  /** Held-out reward after training minus before, on the same problems. */
  readonly gain: Estimate
  readonly seconds: number
}

/** A table: printed, and part of a page. */
export interface Table { readonly header: string[]; readonly rows: string[][] }

export interface NamedFigure {
  readonly name: string
  readonly rows: readonly Row[]
  readonly draw: (rows: readonly Row[], text: { title: string; subtitle: string }) => ReturnType<typeof learningCurves>
  readonly text: { readonly title: string; readonly subtitle: string }
}

/** A drawn figure by name: none where there is nothing to draw, such as the divergences of a run of no updates. */
export type FigureOf = (name: string) => { svg: string; alt: string }[]

/** Learning curves, divergences and the first run's certificates. */
export const trainingFigures = (runs: readonly TrainedRun[]): NamedFigure[] => [
  {
    name: 'learning', rows: learningRows(runs), draw: learningCurves,
    text: { title: 'Held-out problems answered right, as training goes on', subtitle: 'bands: 95 % bootstrap intervals over problems' },
  },
  {
    name: 'kl', rows: klRows(runs), draw: klPerUpdate,
    text: {
      title: isInside(runs) ? 'Every accepted update stays inside its trust region' : 'Not every update stays inside its trust region',
      subtitle: 'measured on the rollouts of the update; dashed: the radius δ',
    },
  },
  {
    name: 'certificate', rows: certificateRows(runs), draw: certificateAgainstImprovement,
    text: {
      title: 'What a stage is certified for, and what it brought',
      subtitle: `${runs[0].method}; bands: 95 % Student intervals over problems`,
    },
  },
]

const isInside = (runs: readonly TrainedRun[]): boolean => runs.every(({ records }) => records.every(({ kl, delta }) => kl <= delta))

/**
 * Write figures as SVG, PNG and CSV below a folder; one without rows is left out. Nothing is written before all are drawn.
 *
 * @throws InputError when a file cannot be written
 */
export const writeFigures = async (folder: string, figures: readonly NamedFigure[]): Promise<FigureOf> => {
  const drawn = new Map<string, { svg: string; png: Uint8Array; csv: string; alt: string }>()
  for (const { name, rows, draw, text } of figures) {
    if (rows.length === 0) continue
    const svg = await toSvg(draw(rows, text))
    drawn.set(name, { svg, png: await toPng(svg), csv: toCsv(rows), alt: text.title })
  }
  for (const [name, { svg, png, csv }] of drawn) {
    for (const [extension, content] of Object.entries({ svg, png, csv })) writeAtomic(join(folder, `${name}.${extension}`), content)
  }
  return (name) => [drawn.get(name) ?? []].flat()
}

/** On the trust region, and on certificates against measured improvements. */
export const trustSections = (runs: readonly TrainedRun[], figure: FigureOf): Section[] => [
  {
    heading: 'The trust region',
    text: [
      'An update whose measured divergence from the agent’s behaviour exceeds δ is scaled back along the update until it holds, ' +
      'or refused, where the method says so.',
    ],
    figures: figure('kl'),
  },
  {
    heading: 'Certificate and measured improvement',
    text: [
      'Theorem 3.6 and the active-mass certificate, from sampled estimates: a diagnostic, not a proof. The worst-case penalty c Σ√δ is ' +
      `far larger than what a small update can bring, so at this δ a certificate says little. ${certificatesThatHeld(runs)}`,
    ],
    figures: figure('certificate'),
  },
]

const stageCertificates = ([{ records }]: readonly TrainedRun[]) =>
  records.flatMap(({ stage, stageCertificate }) => (stageCertificate ? [{ stage: stage + 1, ...stageCertificate }] : []))

const certificatesThatHeld = (runs: readonly TrainedRun[]): string => {
  const stages = stageCertificates(runs)
  if (stages.length === 0) return 'No stage is done yet.'
  const held = stages.filter(({ bound, activeMass, improvement }) => Math.max(bound, activeMass) <= improvement.high)
  return `In ${held.length} of ${stages.length} stages neither lies above the interval of the measured improvement.`
}

export const percent = (x: number): string => `${hundred(x)} %`
const hundred = (x: number): string => (100 * x).toFixed(1)
const points = ({ estimate, low, high }: Estimate): string => `${hundred(estimate)} [${hundred(low)}, ${hundred(high)}]`
const interval = ({ estimate, low, high }: Estimate): string => `${percent(estimate)} [${hundred(low)}, ${hundred(high)}]`

/** Held-out reward of the untrained team, then of each run's. */
export const trainingTable = (runs: readonly TrainedRun[]): Table => ({
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

const learningRows = (runs: readonly TrainedRun[]): Row[] =>
  runs.flatMap(({ method, evaluations }) =>
    evaluations.map(({ stage, reward: { estimate, low, high } }) => ({ stage, method, value: estimate, low, high })))

const klRows = (runs: readonly TrainedRun[]): Row[] =>
  runs.flatMap(({ method, records }) => records.map(({ update, kl, delta }) => ({ update, method, kl, delta })))

const certificateRows = (runs: readonly TrainedRun[]): Row[] =>
  stageCertificates(runs).flatMap(({ stage, bound, activeMass, improvement: { estimate, low, high } }) => [
    { stage, panel: 'measured', quantity: 'measured improvement', value: estimate, low, high },
    { stage, panel: 'certified', quantity: 'Theorem 3.6', value: bound, low: null, high: null },
    { stage, panel: 'certified', quantity: 'active mass (ours)', value: activeMass, low: null, high: null },
  ])
