import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { TopLevelSpec } from 'vega-lite'
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
  const compiled = vegaLite.compile(themed(spec)).spec
  const view = new vega.View(vega.parse(compiled), { renderer: 'none', logLevel: vega.Error })
  try {
    return await view.toSVG()
  } finally {
    view.finalize()
  }
}

/** SVG text as PNG, `scale` pixels to the unit, with the font that this package ships (no system font is read, so it looks the same everywhere). */
export const toPng = async (svg: string, scale = 2): Promise<Uint8Array> => {
  const { Resvg } = await import('@resvg/resvg-js')
  const fonts = join(dirname(createRequire(import.meta.url).resolve('dejavu-fonts-ttf/package.json')), 'ttf')
  return new Resvg(svg, {
    fitTo: { mode: 'zoom', value: scale },
    font: { loadSystemFonts: false, fontFiles: ['DejaVuSans.ttf', 'DejaVuSans-Bold.ttf'].map((file) => join(fonts, file)), defaultFontFamily: font },
  }).render().asPng()
}
