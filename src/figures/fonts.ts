import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import opentype from 'opentype.js'

/** The font files that this package ships: figures look the same on every machine, whatever fonts it has. */
export const fontFiles = ['DejaVuSans.ttf', 'DejaVuSans-Bold.ttf'].map((file) =>
  join(dirname(createRequire(import.meta.url).resolve('dejavu-fonts-ttf/package.json')), 'ttf', file))

const advances = (file: string): ((character: string) => number) => {
  const { buffer, byteOffset, byteLength } = readFileSync(file)
  const font = opentype.parse(buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer)
  const known = new Map<string, number>()
  return (character) => {
    let width = known.get(character)
    if (width === undefined) known.set(character, width = font.charToGlyph(character).advanceWidth / font.unitsPerEm)
    return width
  }
}
let loaded: ReturnType<typeof advances>[] | undefined

/** Width of a line of text in pixels (no kerning), as Vega lays out titles, labels and legends by it. */
export const textWidth = (text: string, size: number, bold = false): number => {
  loaded ??= fontFiles.map(advances)
  const advance = loaded[bold ? 1 : 0]
  let width = 0
  for (const character of text) width += advance(character)
  return width * size
}
