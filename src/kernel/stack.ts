import { SourceMap } from 'node:module'

/** Where in a cell, both counted from 1. */
export interface Place { readonly line: number; readonly column: number }

/**
 * The place in the cell's TypeScript of a place in the script that ran (compiled twice: TypeScript → ES module → CommonJS).
 *
 * @param script the compiled script, with both source maps as comments
 * @returns undefined where the maps know no source, for example in code that tslab added
 */
export const placeInCell = (script: string, { line, column }: Place): Place | undefined => {
  const [inner, outer] = [...script.matchAll(/^\/\/# sourceMappingURL=data:.*,(.*)$/gm)].slice(-2)
    .map(([, base64]) => new SourceMap(JSON.parse(Buffer.from(base64, 'base64').toString())))
  if (!outer) return undefined
  // The script's first line begins with the function that wraps it.
  const shift = line === 1 ? /^\((async )?function\(exports, require\) \{ /.exec(script)?.[0].length ?? 0 : 0
  const module = outer.findEntry(line - 1, Math.max(0, column - 1 - shift)) as { originalLine?: number; originalColumn?: number }
  if (module.originalLine === undefined) return undefined
  const cell = inner.findEntry(module.originalLine, module.originalColumn ?? 0) as { originalLine?: number; originalColumn?: number }
  // tslab puts one line before the cell's text.
  return cell.originalLine === undefined || cell.originalLine < 1 ? undefined : { line: cell.originalLine, column: (cell.originalColumn ?? 0) + 1 }
}

const ownFrame = /\bcell:(\d+):(\d+)\)?$/

/** The stack of an error in the words of the cell: its own frames with their TypeScript lines, the kernel's own frames left out. */
export const cellStack = (error: Error, script: string, code: string): string[] => {
  const head = `${error.name}: ${error.message}`
  const frames = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
  const shown: string[] = []
  // What called the cell is of no interest; what the cell called is.
  const last = frames.findLastIndex((frame) => ownFrame.test(frame))
  for (const frame of last < 0 ? frames : frames.slice(0, last + 1)) {
    const own = ownFrame.exec(frame)
    const place = own && placeInCell(script, { line: Number(own[1]), column: Number(own[2]) })
    if (place) shown.push(`    at cell, line ${place.line}: ${code.split('\n')[place.line - 1]?.trim() ?? ''}`)
    else if (!own && !/node:|[\\/]tslab[\\/]|[\\/]kernel[\\/]/.test(frame)) shown.push(frame)
  }
  return [head, ...shown]
}
