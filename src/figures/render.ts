import type { TopLevelSpec } from 'vega-lite'
import { fontFiles, textWidth } from './fonts.js'
import { font, theme } from './theme.js'

/** The spec in the project's theme, which whoever draws it then follows. */
export const themed = (spec: TopLevelSpec): TopLevelSpec => ({ ...spec, config: { ...theme, ...spec.config } }) as TopLevelSpec

/**
 * Draw a Vega-Lite spec as SVG text, in the project's theme. Deterministic: the same spec gives the same bytes.
 *
 * @throws Error when the spec is not valid Vega-Lite
 */
export const toSvg = async (spec: TopLevelSpec): Promise<string> => {
  const [vega, vegaLite] = await Promise.all([import('vega'), import('vega-lite')])
  // Vega numbers its clip paths for the whole process: start anew, or a second drawing would differ from the first. (Its types lack this function.)
  ;(vega as unknown as { resetSVGDefIds(): void }).resetSVGDefIds()
  measureByFont(vega)
  const compiled = vegaLite.compile(themed(spec)).spec
  const view = new vega.View(vega.parse(compiled), { renderer: 'none', logLevel: vega.Error })
  try {
    return await view.toSVG()
  } finally {
    view.finalize()
  }
}

/** A text mark as Vega measures it. */
interface TextItem { readonly fontSize?: number; readonly fontWeight?: string | number; readonly limit?: number }

/** Without a canvas Vega guesses widths from the number of letters (0.8 of the size each, far too wide); it takes a function instead (its types lack it). */
const measureByFont = (vega: object): void => {
  const { textMetrics } = vega as { textMetrics: { width: (item: TextItem, text: unknown) => number } }
  textMetrics.width = ({ fontSize = 11, fontWeight, limit }, text) => {
    const width = textWidth(String(text ?? '').trim(), fontSize, fontWeight === 'bold' || Number(fontWeight) >= 600)
    return limit ? Math.min(width, limit) : width
  }
}

/** SVG text as PNG, `scale` pixels to the unit, with the font that this package ships (no system font is read, so it looks the same everywhere). */
export const toPng = async (svg: string, scale = 2): Promise<Uint8Array> => {
  const { Resvg } = await import('@resvg/resvg-js')
  return new Resvg(svg, {
    fitTo: { mode: 'zoom', value: scale },
    font: { loadSystemFonts: false, fontFiles, defaultFontFamily: font },
  }).render().asPng()
}
