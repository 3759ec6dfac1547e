import type { Expression, FormattedPart } from './ast.js'
import { PythonSyntaxError } from './tokens.js'

/** The literal and evaluated parts of an f-string (or of a format specification, at level 1). */
export const formattedParts = (
  text: string,
  line: number,
  parseExpression: (source: string) => Expression,
  level = 0,
): FormattedPart[] => {
  const fail = (what: string): never => {
    throw new PythonSyntaxError(`line ${line}: f-string: ${what}`)
  }
  if (level > 1 && text) fail('nested too deeply')
  const parts: FormattedPart[] = []
  let literal = ''
  for (let i = 0; i < text.length; ) {
    const c = text[i]
    if ((c === '{' || c === '}') && text[i + 1] === c && level === 0) {
      literal += c
      i += 2
    } else if (c === '}') fail('a single "}"')
    else if (c !== '{') {
      literal += c
      i++
    } else {
      if (literal) parts.push(literal)
      literal = ''
      const { source, conversion, spec, end } = replacementField(text, i + 1, fail)
      if (/^\s*$/.test(source)) fail('empty braces')
      const debug = /^(.*[^=!<>])=\s*$/s.exec(source)
      if (debug) parts.push(source)
      const value = parseExpression(`(${debug ? debug[1] : source})`)
      const inner = formattedParts(spec, line, parseExpression, level + 1)
      parts.push({ value, conversion: conversion || (debug && !spec ? 'r' : ''), spec: inner })
      i = end
    }
  }
  if (literal) parts.push(literal)
  return parts
}

/** `expression[!conversion][:specification]}` from `start`. */
const replacementField = (
  text: string,
  start: number,
  fail: (what: string) => never,
): { source: string; conversion: '' | 'r' | 's' | 'a'; spec: string; end: number } => {
  let depth = 0
  let quote = ''
  let at = start
  for (; at < text.length; at++) {
    const c = text[at]
    if (quote) {
      if (c === quote) quote = ''
    } else if (c === "'" || c === '"') quote = c
    else if ('([{'.includes(c)) depth++
    else if (depth > 0 && ')]}'.includes(c)) depth--
    else if (depth === 0 && (c === '}' || c === ':' || (c === '!' && text[at + 1] !== '='))) break
  }
  const source = text.slice(start, at)
  let conversion = ''
  if (text[at] === '!') {
    conversion = text[at + 1] ?? ''
    if (!'rsa'.includes(conversion) || !conversion) fail(`the conversion "!${conversion}"`)
    at += 2
  }
  let spec = ''
  if (text[at] === ':') {
    const from = ++at
    for (let open = 0; at < text.length && (text[at] !== '}' || open > 0); at++) open += text[at] === '{' ? 1 : text[at] === '}' ? -1 : 0
    spec = text.slice(from, at)
  }
  if (text[at] !== '}') fail('"}" is missing')
  return { source, conversion: conversion as '' | 'r' | 's' | 'a', spec, end: at + 1 }
}
