import { literal, PythonSyntaxError, Raised, Stopped } from './python/python.js'
import { PyDict, PyList, newMeter, type Value } from './python/values.js'

/** Reading the arrangement that a response proposes, by the official rules (../shared/benchmarks/autologi). */

/** An arrangement is far shorter; beyond this it is not read. In UTF-16 units. */
const MAX_ARRANGEMENT = 20_000

/** The arrangement, or why there is none. */
export type Read = { readonly value: Value } | { readonly failure: string }

export const readArrangement = (response: string): Read => {
  const candidate = lastFenced(response) ?? lastBraces(response) ?? lastBrackets(response)
  if (candidate === undefined) return { failure: 'the response holds no fenced block, no {…} and no […]' }
  if (candidate.length > MAX_ARRANGEMENT)
    return { failure: `the arrangement has ${candidate.length} characters; at most ${MAX_ARRANGEMENT} are read` }
  const plain = candidate.replace(/\/\/[^\n]*/g, '')
  const python = plain.replaceAll('true', 'True').replaceAll('false', 'False')
  const assigned = python.indexOf('=')
  const value = tryLiteral(python) ?? (assigned >= 0 ? tryLiteral(python.slice(assigned + 1)) : tryJson(plain))
  return value === undefined ? { failure: 'the arrangement is neither a Python literal nor JSON' } : value
}

/** The content of the last block between lines of three backticks. */
export const lastFenced = (text: string): string | undefined => {
  let found: string | undefined
  for (const match of text.matchAll(/```[\p{L}\p{N}_]*\n([^]*?)```/gu)) found = match[1]
  return found
}

/** The last `{…}` with matched braces that lies in no other. */
export const lastBraces = (text: string): string | undefined => {
  // for each brace that is open, and for the level of none: where the last block directly inside it lies
  const open: number[] = [-1]
  const starts: number[] = [-1]
  const ends: number[] = [-1]
  for (let at = 0; at < text.length; at++) {
    const c = text[at]
    if (c === '{') {
      open.push(at)
      starts.push(-1)
      ends.push(-1)
    } else if (c === '}' && open.length > 1) {
      const start = open.pop()!
      starts.pop()
      ends.pop()
      starts[starts.length - 1] = start
      ends[ends.length - 1] = at + 1
    }
  }
  // what is still open never closes: the innermost of those holds what came last
  const level = starts.findLastIndex((start) => start >= 0)
  return level < 0 ? undefined : text.slice(starts[level], ends[level])
}

/** The last of the `[…]` that reach from a bracket to the nearest closing one. */
export const lastBrackets = (text: string): string | undefined => {
  let found: string | undefined
  for (let at = 0; ; ) {
    const start = text.indexOf('[', at)
    const end = start < 0 ? -1 : text.indexOf(']', start)
    if (end < 0) return found
    at = end + 1
    if (at - start <= MAX_ARRANGEMENT) found = text.slice(start, at)
  }
}

const tryLiteral = (source: string): { value: Value } | undefined => {
  try {
    return { value: literal(source) }
  } catch (error) {
    if (error instanceof PythonSyntaxError || error instanceof Raised || error instanceof Stopped) return undefined
    throw error
  }
}

/** Strict JSON. Numbers travel as marked strings, so that 1 and 1.0 stay an int and a float. */
const tryJson = (text: string): { value: Value } | undefined => {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    token.startsWith('"') ? token : `"\\u0000${token}"`,
  )
  const meter = newMeter({ steps: 1e6, milliseconds: 2000, cells: 1e6 })
  const convert = (value: unknown): Value => {
    if (typeof value === 'string') return value.startsWith('\0') ? numberOf(value.slice(1)) : value
    if (Array.isArray(value)) return new PyList(value.map(convert))
    if (value === null || typeof value !== 'object') return value as null | boolean
    const dict = new PyDict()
    for (const [key, item] of Object.entries(value)) dict.set(key, convert(item), meter)
    return dict
  }
  return { value: convert(JSON.parse(marked)) }
}
const numberOf = (text: string): Value => (/[.eE]/.test(text) ? Number(text) : BigInt(text))
