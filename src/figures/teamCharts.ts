import type { TopLevelSpec } from 'vega-lite'
import type { Row } from './csv.js'
import { colorBy, heading, lineBy, ownLegends, schema, seriesOf, shapeBy, withoutLegend, type ChartText } from './encode.js'
import { palette } from './theme.js'

/** Pictures of a team: its contexts, its policies on the simplex, the parts of a bound, the paths of its updates. */

/**
 * A team that speaks in rotation: one column a turn, one mark a context, its area the occupancy; lines are what flows from context to
 * context. The first turn stands again at the end, hollow.
 *
 * @param nodes `{agent, level, occupancy}`, one a state, agents and levels from 0
 * @param edges `{from, to, flow}`, indices of nodes; flow > 0
 */
export const ringTeam = (nodes: readonly Row[], edges: readonly Row[], text: ChartText): TopLevelSpec => {
  const agents = 1 + Math.max(...nodes.map(({ agent }) => Number(agent)))
  const placed = nodes.map((node) => ({ ...node, name: `agent ${String(node.agent)}`, x: Number(node.agent), y: Number(node.level) }))
  const again = placed.filter(({ x }) => x === 0).map((node) => ({ ...node, x: agents }))
  const drawn = edges.map(({ from, to, flow }) => {
    const [{ x, y }, next] = [placed[Number(from)], placed[Number(to)]]
    return { x, y, x2: x + 1, y2: next.y, flow }
  })
  const x = {
    field: 'x', type: 'quantitative', title: 'turn of',
    axis: { values: Array.from({ length: agents + 1 }, (_, j) => j), labelExpr: `'agent ' + datum.value % ${agents}`, grid: false, domain: false, ticks: false },
    scale: { domain: [-0.3, agents + 0.3], nice: false },
  }
  const y = { field: 'y', type: 'quantitative', title: 'context', axis: { tickMinStep: 1, format: 'd', grid: false, domain: false }, scale: { padding: 22, nice: false } }
  const size = { field: 'occupancy', type: 'quantitative', title: 'occupancy d(s)', scale: { range: [0, 1100], zero: true }, legend: { tickCount: 3, columns: 3, symbolFillColor: '#777777' } }
  const mark = { type: 'point', opacity: 1, strokeWidth: 1.5 }
  return {
    $schema: schema,
    title: heading(text),
    layer: [
      {
        data: { values: drawn },
        mark: { type: 'rule', color: '#777777', opacity: 0.55, strokeCap: 'butt' },
        encoding: { x, y, x2: { field: 'x2' }, y2: { field: 'y2' }, strokeWidth: { field: 'flow', type: 'quantitative', legend: null, scale: { range: [0, 7], zero: true } } },
      },
      { data: { values: placed }, mark: { ...mark, filled: true, stroke: '#ffffff' }, encoding: { x, y, size, ...colorBy('name', placed), ...shapeBy('name', placed) } },
      { data: { values: again }, mark: { ...mark, filled: false, fill: '#ffffff' }, encoding: { x, y, size, ...colorBy('name', placed), ...shapeBy('name', placed) } },
    ],
  } as TopLevelSpec
}

/** Where a distribution over three actions lies in the triangle: corners (0, 0), (1, 0) and (½, √3/2) for certainty of the first, second, third. */
export const inTriangle = ([, p1, p2]: ArrayLike<number> & Iterable<number>): { x: number; y: number } => ({ x: p1 + p2 / 2, y: (Math.sqrt(3) / 2) * p2 })

/**
 * Curves of distributions over three actions in the triangle of all of them.
 *
 * @param curves `{series, order, x, y}` from `inTriangle`, drawn in their order
 * @param points `{label, x, y}`
 */
export const simplex = (curves: readonly Row[], points: readonly Row[], text: ChartText & { readonly actions: readonly [string, string, string] }): TopLevelSpec => {
  const height = Math.sqrt(3) / 2
  const border = [[0, 0], [1, 0], [0.5, height], [0, 0]].map(([x, y], order) => ({ x, y, order }))
  const corners = [[0, -0.05], [1, -0.05], [0.5, height + 0.05]].map(([x, y], k) => ({ x, y, label: text.actions[k] }))
  const place = { x: { field: 'x', type: 'quantitative', axis: null, scale: { domain: [-0.05, 1.05] } }, y: { field: 'y', type: 'quantitative', axis: null, scale: { domain: [-0.08, 1.02 * height + 0.06] } } }
  return {
    $schema: schema,
    title: heading(text),
    width: 400,
    height: 360,
    layer: [
      { data: { values: border }, mark: { type: 'line', color: '#888888', strokeWidth: 1 }, encoding: { ...place, order: { field: 'order' } } },
      { data: { values: corners }, mark: { type: 'text', fontSize: 10, color: '#444444' }, encoding: { ...place, text: { field: 'label' } } },
      { data: { values: curves as Row[] }, mark: 'line', encoding: { ...place, order: { field: 'order' }, ...lineBy('series', curves) } },
      { data: { values: points as Row[] }, mark: { type: 'point', filled: true, size: 45, color: '#000000', opacity: 1 }, encoding: place },
      { data: { values: points as Row[] }, mark: { type: 'text', baseline: 'top', dy: 7, fontSize: 10 }, encoding: { ...place, text: { field: 'label' } } },
    ],
  } as TopLevelSpec
}

/** One step of a bound's sum: a surrogate counts up; a penalty or an error counts down. */
export interface WaterfallTerm {
  readonly label: string
  readonly kind: 'surrogate' | 'penalty' | 'error'
  readonly amount: number
}

/** Terms as bars that begin where the last one ended, then the certificate that they add up to, then what it bounds. Rows `{label, kind, from, to}`. */
export const waterfallRows = (terms: readonly WaterfallTerm[], actual: number): Row[] => {
  let at = 0
  const steps = terms.map(({ label, kind, amount }) => {
    const from = at
    at += kind === 'surrogate' ? amount : -amount
    return { label, kind, from, to: at }
  })
  return [...steps, { label: 'certificate', kind: 'certificate', from: 0, to: at }, { label: 'actual', kind: 'actual improvement', from: 0, to: actual }]
}

const waterfallColors: Readonly<Record<string, string>> = { 'surrogate': palette[5], 'penalty': palette[1], 'error': palette[3], 'certificate': palette[0], 'actual improvement': palette[2] }

/**
 * A bound as a waterfall.
 *
 * @param rows of `waterfallRows`, in units of return
 */
export const waterfall = (rows: readonly Row[], text: ChartText & { readonly y: string }): TopLevelSpec => {
  const kinds = seriesOf(rows, 'kind')
  const x = { field: 'label', type: 'nominal', title: null, sort: rows.map(({ label }) => String(label)), axis: { labelAngle: -40, labelLimit: 130, ticks: false } }
  return {
    $schema: schema,
    title: heading(text),
    data: { values: rows as Row[] },
    width: 420,
    layer: [
      {
        mark: { type: 'bar', stroke: '#333333', strokeWidth: 0.5 },
        encoding: {
          x, y: { field: 'from', type: 'quantitative', title: text.y }, y2: { field: 'to' },
          color: { field: 'kind', type: 'nominal', title: null, scale: { domain: kinds, range: kinds.map((kind) => waterfallColors[kind]) } },
        },
      },
      { mark: { type: 'rule', color: '#444444' }, data: { values: [{}] }, encoding: { y: { datum: 0 } } },
      {
        transform: [{ calculate: 'max(datum.from, datum.to)', as: 'top' }, { calculate: "datum.kind === 'certificate' || datum.kind === 'actual improvement' ? datum.to : datum.to - datum.from", as: 'amount' }],
        mark: { type: 'text', dy: -6, fontSize: 9 },
        encoding: { x, y: { field: 'top', type: 'quantitative' }, text: { field: 'amount', type: 'quantitative', format: '+.3~f' } },
      },
    ],
  } as TopLevelSpec
}

/**
 * A surface over the plane of two parameters as shades, and paths on it.
 *
 * @param grid `{x, y, value}` on an evenly spaced square grid
 * @param paths `{x, y, series, order}`; every path starts at the same point
 */
export const landscape = (grid: readonly Row[], paths: readonly Row[], text: ChartText & { readonly x: string; readonly y: string; readonly value: string }): TopLevelSpec => {
  const axis = [...new Set(grid.map(({ x }) => Number(x)))].sort((a, b) => a - b)
  const half = (axis[1] - axis[0]) / 2
  const domain = [axis[0] - half, axis[axis.length - 1] + half]
  const place = (field: string, title: string): object => ({ field, type: 'quantitative', title, scale: { domain, nice: false, zero: false }, axis: { grid: false } })
  const xy = { x: place('x', text.x), y: place('y', text.y) }
  const path = { ...xy, order: { field: 'order' } }
  return {
    $schema: schema,
    title: heading(text),
    width: 360,
    height: 360,
    layer: [
      {
        data: { values: grid as Row[] },
        transform: [{ calculate: `datum.x - ${half}`, as: 'left' }, { calculate: `datum.x + ${1.2 * half}`, as: 'right' }, { calculate: `datum.y - ${half}`, as: 'bottom' }, { calculate: `datum.y + ${1.2 * half}`, as: 'top' }],
        // a little over their neighbours, or the seams would show
        mark: { type: 'rect', strokeWidth: 0, clip: true },
        encoding: {
          x: place('left', text.x), x2: { field: 'right' }, y: place('bottom', text.y), y2: { field: 'top' },
          color: { field: 'value', type: 'quantitative', title: text.value, scale: { range: ['#5c5c5c', '#ffffff'], zero: false }, legend: { orient: 'right', gradientLength: 200, titleOrient: 'right' } },
        },
      },
      { data: { values: paths as Row[] }, mark: { type: 'line', strokeWidth: 4, color: '#ffffff', opacity: 0.8 }, encoding: { ...path, detail: { field: 'series' } } },
      { data: { values: paths as Row[] }, mark: 'line', encoding: { ...path, ...lineBy('series', paths) } },
      { data: { values: paths as Row[] }, mark: { type: 'point', filled: true, size: 26, opacity: 1 }, encoding: { ...xy, ...withoutLegend({ ...colorBy('series', paths), ...shapeBy('series', paths) }) } },
      { data: { values: paths.slice(0, 1) as Row[] }, mark: { type: 'text', align: 'left', dx: 7, fontSize: 10 }, encoding: { ...xy, text: { value: 'start' } } },
    ],
    resolve: { scale: { color: 'independent' }, ...ownLegends },
  } as TopLevelSpec
}
