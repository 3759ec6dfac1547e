import type { TopLevelSpec } from 'vega-lite'
import type { Row } from './csv.js'
import { along, colorBy, hasInterval, heading, isInterval, layered, schema, seriesOf, shapeBy, withoutLegend, type ChartText } from './encode.js'
import { lines } from './plots.js'

/** Charts of training runs. */

/**
 * Returns by stage, one line a method, with an interval band.
 *
 * @param rows `{stage, method, value, low, high}`; value in [0, 1]
 */
export const learningCurves = (rows: readonly Row[], text: ChartText): TopLevelSpec =>
  lines(rows.map(({ stage, method, value, low, high }) => ({ x: stage, series: method, value, low, high })), {
    ...text,
    x: { title: 'stage (each agent updated once)', format: 'd' },
    y: { title: 'share of problems right', domain: [0, 1] },
  })

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
        x: along('update', { title: 'update', format: 'd' }),
        y: along('kl', { title: 'KL(behaviour‖updated), nats a message', zero: true }),
        ...colorBy('method', rows),
        ...shapeBy('method', rows),
      },
    },
    { mark: { type: 'rule', strokeDash: [6, 3], color: '#444444' }, encoding: { y: { aggregate: 'max', field: 'delta', type: 'quantitative' } } },
  ],
}) as TopLevelSpec

/**
 * What every stage was certified for, below what it was measured to bring: two panels, since a certificate may lie far below.
 *
 * @param rows `{stage, panel, quantity, value, low, high}`; value, low, high in units of return; low and high null where there is no interval
 */
export const certificateAgainstImprovement = (rows: readonly Row[], text: ChartText): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  vconcat: seriesOf(rows, 'panel').map((panel) => {
    const own = rows.filter((row) => row.panel === panel).map(({ stage, quantity, value, low, high }) => ({ x: stage, series: quantity, value, low, high }))
    const plot = lines(own, { title: panel, x: { title: 'stage', format: 'd' }, y: { title: 'change of return' }, points: false })
    return { height: 120, width: 420, ...plot, $schema: undefined }
  }),
  // each panel has its own series, hence its own legend
  resolve: { scale: { color: 'independent', strokeDash: 'independent', shape: 'independent' } },
}) as unknown as TopLevelSpec

/**
 * What was promised against what came, one point an update or stage: a valid certificate has every point on or above the diagonal.
 *
 * @param rows `{certificate, improvement, series}`, both in units of return
 */
export const calibration = (rows: readonly Row[], text: ChartText): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  data: { values: rows as Row[] },
  layer: [
    {
      mark: { type: 'point', filled: true, size: 40, opacity: 0.8 },
      encoding: { x: along('certificate', { title: 'certificate (return)' }), y: along('improvement', { title: 'improvement (return)' }), ...colorBy('series', rows), ...shapeBy('series', rows) },
    },
    {
      transform: [{ aggregate: [{ op: 'min', field: 'certificate', as: 'a' }, { op: 'max', field: 'certificate', as: 'b' }] }],
      mark: { type: 'rule', strokeDash: [4, 3], color: '#444444' },
      encoding: { x: { field: 'a', type: 'quantitative' }, y: { field: 'a', type: 'quantitative' }, x2: { field: 'b' }, y2: { field: 'b' } },
    },
  ],
}) as TopLevelSpec

/**
 * What was estimated against what is so, one point an update, a bar where an estimate has an interval: exact estimates lie on the diagonal.
 *
 * @param rows `{series, exact, estimate, low?, high?}`, all in the units of `quantity`
 */
export const againstExact = (rows: readonly Row[], text: ChartText & { readonly quantity: string }): TopLevelSpec => {
  const exact = rows.map((row) => Number(row.exact))
  const [from, to] = [Math.min(...exact), Math.max(...exact)]
  const x = along('exact', { title: `exact ${text.quantity}` })
  const y = along('estimate', { title: `estimated ${text.quantity}` })
  return layered(rows, text, [
    { data: { values: [{ from, to }] }, mark: { type: 'rule', strokeDash: [4, 3], color: '#444444' }, encoding: { x: { ...x, field: 'from' }, y: { ...y, field: 'from' }, x2: { field: 'to' }, y2: { field: 'to' } } },
    ...(rows.some(hasInterval)
      ? [{ transform: [isInterval], mark: { type: 'rule', strokeWidth: 1, opacity: 0.4 }, encoding: { x, y: along('low', { title: `estimated ${text.quantity}` }), y2: { field: 'high' }, ...withoutLegend(colorBy('series', rows)) } }]
      : []),
    { mark: { type: 'point', filled: true, size: 32, opacity: 0.8 }, encoding: { x, y, ...colorBy('series', rows), ...shapeBy('series', rows) } },
  ])
}
