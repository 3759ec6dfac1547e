/** The part of opentype.js that is used. */
declare module 'opentype.js' {
  interface Font {
    readonly unitsPerEm: number
    charToGlyph(character: string): { readonly advanceWidth: number }
  }
  const opentype: { parse(bytes: ArrayBuffer): Font }
  export default opentype
}
