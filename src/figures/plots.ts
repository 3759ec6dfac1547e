import type { TopLevelSpec } from 'vega-lite'
import type { Row } from './csv.js'
import { along, colorBy, dashBy, hasInterval, heading, isInterval, layered, lineBy, ownLegends, schema, seriesOf, shapeBy, withoutLegend, withTicks, type Axis, type ChartText } from './encode.js'

/** Plots that any tidy table fits. */

/** What a plot of two axes needs besides its table. */
export interface AxesText extends ChartText {
  readonly x: Axis
  readonly y: Axis
}

/**
 * One line a series, with points at its values and a band from `low` to `high` where rows have them.
 *
 * @param rows `{x, series, value, low?, high?}`; rows of a series in the order of its line
 * @param points draw the points; yes by default
 */
export const lines = (rows: readonly Row[], text: AxesText & { readonly points?: boolean; readonly reference?: number }): TopLevelSpec => {
  const numbers = (field: string): number[] => rows.map((row) => Number(row[field] ?? NaN))
  const y = along('value', withTicks(text.y, [...numbers('value'), ...numbers('low'), ...numbers('high')]))
  const x = along('x', withTicks(text.x, numbers('x')))
  return layered(rows, text, [
    ...(text.reference === undefined ? [] : [referenceLine('y', text.reference)]),
    ...(rows.some(hasInterval)
      ? [{
          mark: { type: 'area', opacity: 0.15, strokeWidth: 0 },
          encoding: { x, y: { field: 'low', type: 'quantitative' }, y2: { field: 'high' }, ...withoutLegend(colorBy('series', rows)) },
        }]
      : []),
    { mark: 'line', encoding: { x, y, ...lineBy('series', rows) } },
    ...(text.points === false
      ? []
      : [{ mark: { type: 'point', filled: true, size: 32, opacity: 1 }, encoding: { x, y, ...withoutLegend({ ...colorBy('series', rows), ...shapeBy('series', rows) }) } }]),
  ])
}

/** A dashed line across the plot. */
const referenceLine = (channel: 'x' | 'y', at: number): object =>
  ({ mark: { type: 'rule', strokeDash: [3, 3], color: '#666666' }, data: { values: [{}] }, encoding: { [channel]: { datum: at } } })

/**
 * A quantity against team size on log-log axes, where a power law is a straight line of slope α.
 *
 * @param rows `{n, series, value, low?, high?}`; n ≥ 1, value > 0
 */
export const growth = (rows: readonly Row[], text: ChartText & { readonly y: string }): TopLevelSpec =>
  lines(rows.map(({ n, ...row }) => ({ x: n, ...row })), { ...text, x: teamSizes(rows), y: { title: text.y, log: true } })

/**
 * A quantity against team size on log-log axes with a straight line a series, the power law that was fitted to its points.
 *
 * @param rows `{n, series, value, low, high, fit}`; value > 0; low and high null where there is no interval, fit (the law's value at n) null where there is none
 */
export const fittedGrowth = (rows: readonly Row[], text: ChartText & { readonly y: string }): TopLevelSpec => {
  const x = along('n', teamSizes(rows))
  const y = (field: string): object => along(field, withTicks({ title: text.y, log: true }, rows.flatMap(({ value, low, high }) => [value, low, high].map(Number))))
  return layered(rows, text, [
    { transform: [{ filter: 'isValid(datum.fit)' }], mark: 'line', encoding: { x, y: y('fit'), ...withoutLegend({ ...colorBy('series', rows), ...dashBy('series', rows) }) } },
    { transform: [isInterval], mark: { type: 'rule', strokeWidth: 2 }, encoding: { x, y: y('low'), y2: { field: 'high' }, ...withoutLegend(colorBy('series', rows)) } },
    { mark: { type: 'point', filled: true, size: 45, opacity: 1 }, encoding: { x, y: y('value'), ...colorBy('series', rows), ...shapeBy('series', rows) } },
  ])
}

/** Slope of log value between neighbouring n, at their geometric mean: rows of `lines`, from rows of `{n}` and a column `value`, in the order of n. */
export const localSlopes = (rows: readonly Row[], series: string, value: string): Row[] => rows.slice(1).map((row, k) => {
  const [n0, n1, y0, y1] = [rows[k].n, row.n, rows[k][value], row[value]].map(Number)
  return { x: Math.sqrt(n0 * n1), series, value: Math.log(y1 / y0) / Math.log(n1 / n0) }
})

/** The axis of team sizes n, logarithmic, with a tick at every n. */
export const teamSizes = (rows: readonly Row[], field = 'n'): Axis => {
  const ticks = [...new Set(rows.map((row) => Number(row[field])))].sort((a, b) => a - b)
  return { title: 'agents n', log: true, format: 'd', ticks, domain: [0.9 * ticks[0], 1.1 * ticks[ticks.length - 1]] }
}

/**
 * Estimates with intervals, one line of the page per `label`, its series beside each other.
 *
 * @param rows `{label, series, value, low, high}`; low and high null where there is no interval (or an unbounded one), value null where there is only one
 * @param text step: the height of one series' place, in pixels
 */
export const intervals = (rows: readonly Row[], text: ChartText & { readonly x: Axis; readonly reference?: number; readonly step?: number }): TopLevelSpec => {
  const labels = seriesOf(rows, 'label')
  const series = seriesOf(rows, 'series')
  // one series needs no legend
  const colored = { ...colorBy('series', rows), ...shapeBy('series', rows) }
  const place = {
    y: { field: 'label', type: 'nominal', title: null, sort: labels, axis: { labelLimit: 260, grid: true, tickBand: 'extent' } },
    yOffset: { field: 'series', type: 'nominal', sort: series },
  }
  return {
    $schema: schema,
    title: heading(text),
    data: { values: rows as Row[] },
    height: { step: text.step ?? Math.max(14, 40 / series.length) },
    resolve: ownLegends,
    layer: [
      ...(text.reference === undefined ? [] : [referenceLine('x', text.reference)]),
      { transform: [isInterval], mark: { type: 'rule', strokeWidth: 2 }, encoding: { ...place, x: along('low', text.x), x2: { field: 'high' }, ...withoutLegend(colorBy('series', rows)) } },
      { mark: { type: 'point', filled: true, size: 55, opacity: 1 }, encoding: { ...place, x: along('value', text.x), ...(series.length > 1 ? colored : withoutLegend(colored)) } },
    ],
  } as TopLevelSpec
}

/**
 * A table whose cells are shaded by their value and say it.
 *
 * @param rows `{row, column, value}`
 */
export const heatTable = (rows: readonly Row[], text: ChartText & { readonly column: string; readonly domain: readonly [number, number]; readonly format: string; readonly width?: number }): TopLevelSpec => ({
  $schema: schema,
  title: heading(text),
  data: { values: rows as Row[] },
  width: { step: text.width ?? 46 },
  height: { step: 22 },
  encoding: {
    x: { field: 'column', type: 'nominal', title: text.column, sort: seriesOf(rows, 'column'), axis: { labelAngle: 0, ticks: false, domain: false } },
    y: { field: 'row', type: 'nominal', title: null, sort: seriesOf(rows, 'row'), axis: { labelLimit: 300, ticks: false, domain: false } },
  },
  layer: [
    { mark: { type: 'rect', stroke: '#ffffff' }, encoding: { color: { field: 'value', type: 'quantitative', legend: null, scale: { domain: text.domain, range: ['#f7fafc', '#74a9cf'] } } } },
    {
      mark: { type: 'text', fontSize: 10, color: '#1a1a1a' },
      encoding: { text: { field: 'value', type: 'quantitative', format: text.format } },
    },
  ],
}) as TopLevelSpec
