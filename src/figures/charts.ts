import type { TopLevelSpec } from 'vega-lite'
import type { Row } from './csv.js'
import { colorBy, dashBy, heading, schema, seriesOf, type ChartText } from './encode.js'

/** A line of `value` a series, over its band from `low` to `high`. */
const lineWithBand = (field: string, rows: readonly Row[], y: object): object[] => [
  { mark: { type: 'area', opacity: 0.15, strokeWidth: 0 }, encoding: { y: { field: 'low', type: 'quantitative' }, y2: { field: 'high' } } },
  { mark: 'line', encoding: { y: { field: 'value', type: 'quantitative', ...y }, ...dashBy(field, rows) } },
]

/**
 * Returns by stage, one line a method, with an interval band.
 *
 * @param rows `{stage, method, value, low, high}`; value in [0, 1]
 */
export const learningCurves = (rows: readonly Row[], text: ChartText): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  data: { values: rows as Row[] },
  encoding: { x: { field: 'stage', type: 'quantitative', title: 'stage (each agent updated once)', axis: { tickMinStep: 1, format: 'd' } }, ...colorBy('method', rows) },
  layer: lineWithBand('method', rows, { title: 'share of problems right', scale: { domain: [0, 1] } }),
}) as TopLevelSpec

/**
 * Measured KL of every update against its radius δ.
 *
 * @param rows `{update, method, kl, delta}`; kl and delta in nats
 */
export const klPerUpdate = (rows: readonly Row[], text: ChartText): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  data: { values: rows as Row[] },
  layer: [
    {
      mark: { type: 'point', filled: true, size: 22, opacity: 0.8 },
      encoding: {
        x: { field: 'update', type: 'quantitative', title: 'update', axis: { tickMinStep: 1, format: 'd' } },
        y: { field: 'kl', type: 'quantitative', title: 'measured KL, behaviour ‖ updated (nats a message)' },
        color: { field: 'method', type: 'nominal', title: null },
        shape: { field: 'method', type: 'nominal', title: null },
      },
    },
    {
      mark: { type: 'rule', strokeDash: [6, 3], color: '#444444' },
      encoding: { y: { aggregate: 'max', field: 'delta', type: 'quantitative' } },
    },
  ],
}) as TopLevelSpec

/**
 * What every stage was certified for, above what it was measured to bring: two panels, since a certificate may lie far below.
 *
 * @param rows `{stage, panel, quantity, value, low, high}`; value, low, high in units of return; low and high null where there is no interval
 */
export const certificateAgainstImprovement = (rows: readonly Row[], text: ChartText): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  data: { values: rows as Row[] },
  facet: { row: { field: 'panel', type: 'nominal', title: null, sort: seriesOf(rows, 'panel'), header: { labelAnchor: 'start', labelAngle: 0, labelOrient: 'top' } } },
  resolve: { scale: { y: 'independent' } },
  spec: {
    width: 420,
    height: 120,
    encoding: { x: { field: 'stage', type: 'quantitative', title: 'stage', axis: { tickMinStep: 1, format: 'd' } }, ...colorBy('quantity', rows) },
    layer: lineWithBand('quantity', rows, { title: 'change of return', scale: { zero: false } }),
  },
}) as TopLevelSpec
