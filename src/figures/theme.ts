import type { Config } from 'vega-lite'

/** Okabe and Ito's colours: told apart by colour-blind readers; in this order also by lightness, so that print in grey keeps them apart. */
export const palette = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000'] as const

/** Dashes go with colours, so that a series never depends on colour alone. */
export const dashes: readonly number[][] = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3], [10, 4]]

/** Shipped with this package (dejavu-fonts-ttf), so that PNGs look the same everywhere. */
export const font = 'DejaVu Sans'

const ink = '#1a1a1a'

/**
 * One look for every figure: column width, light ground, quiet grid. Every colour is stated: where a front end has a dark theme of its own
 * (JupyterLab), what is left open would turn white, on our light ground.
 */
export const theme: Config = {
  background: '#ffffff',
  font: `${font}, sans-serif`,
  padding: 8,
  view: { stroke: null, continuousWidth: 420, continuousHeight: 240 },
  title: { anchor: 'start', fontSize: 13, color: ink, subtitleFontSize: 11, subtitleColor: '#555555', offset: 12, fontWeight: 600 },
  axis: {
    labelFontSize: 10, labelColor: ink, titleFontSize: 11, titleColor: ink, titleFontWeight: 'normal', gridColor: '#e6e6e6', domainColor: '#888888', tickColor: '#888888',
  },
  legend: { labelFontSize: 10, labelColor: ink, titleFontSize: 11, titleColor: ink, titleFontWeight: 'normal', symbolStrokeWidth: 2, labelLimit: 260, orient: 'bottom', columns: 2 },
  header: { labelFontSize: 11, labelColor: ink, titleFontSize: 11, titleColor: ink },
  line: { strokeWidth: 2 },
  text: { color: ink },
  range: { category: [...palette] },
}
