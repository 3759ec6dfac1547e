import { isUnit } from './units.js'

/** Answers as tokens: LaTeX, or the plain notation that models write without it. */

/** An answer that is not mathematics we know how to read, or too large a piece of it. It is then compared as text. */
export class Unreadable extends Error {
  override name = 'Unreadable'
}

export type Token =
  /** An unsigned decimal, thousands separators removed; `repeating` are the digits under a bar. */
  | { readonly type: 'number'; readonly text: string; readonly repeating?: string }
  /** One letter, or a Greek one by name. */
  | { readonly type: 'symbol'; readonly text: string }
  /** A control sequence without its backslash, spelled in one way; `sin` and `sqrt` come here without one, too. */
  | { readonly type: 'command'; readonly text: string }
  /** Words: the argument of \text and its like, or a plain run of letters that is no formula. Blanks single. */
  | { readonly type: 'words'; readonly text: string }
  /** One character: an operator, a bracket, a brace, a separator; `\{` and `\}` are '⦃' and '⦄'. */
  | { readonly type: 'mark'; readonly text: string }

/** Longer answers are compared as text alone. */
export const MAX_ANSWER = 1000

/**
 * @param merge read commas between groups of three digits as thousands separators (`1,234`), except inside brackets
 * @throws Unreadable on characters that no formula has
 */
export const tokenise = (source: string, merge: boolean): Token[] => {
  if (source.length > MAX_ANSWER)
    throw new Unreadable(`the answer has ${source.length} characters; up to ${MAX_ANSWER} are read as mathematics`)
  const text = toLatex(source)
  const tokens: Token[] = []
  let brackets = 0
  let at = 0
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    at += found?.length ?? 0
    return found
  }
  const takeCommand = (written: string): void => {
    const name = SYNONYMS[written] ?? written
    if (TEXT.has(name)) tokens.push(...textTokens(take(ARGUMENT), name, merge))
    else if (name in MARK_COMMANDS) {
      tokens.push({ type: 'mark', text: MARK_COMMANDS[name] })
      if (name === '{') brackets++
      else if (name === '}') brackets--
    } else if (GREEK.has(name)) tokens.push({ type: 'symbol', text: name })
    else if (!IGNORED.has(name)) tokens.push({ type: 'command', text: name })
  }
  while (at < text.length) {
    if (take(SPACE) !== undefined) continue
    const glued = at > 0 && /[\w)}]/.test(text[at - 1])
    const number = take(merge && brackets === 0 ? MERGED_NUMBER : NUMBER)
    if (number !== undefined) {
      const plain = number.replace(/\\[,!]|[{}, ]/g, '')
      const repeating = plain.includes('.') ? take(REPEATING) : undefined
      tokens.push({ type: 'number', text: plain, ...(repeating && { repeating: repeating.replace(/\D/g, '') }) })
      continue
    }
    const command = take(COMMAND)
    if (command !== undefined) {
      takeCommand(command.slice(1))
      continue
    }
    const letters = take(LETTERS)
    if (letters !== undefined) {
      tokens.push(...letterTokens(letters, glued, tokens.at(-1)?.type === 'words'))
      continue
    }
    const c = text[at++]
    if (!MARKS.includes(c)) throw new Unreadable(`the answer holds ${JSON.stringify(c)}`)
    if ('(['.includes(c)) brackets++
    else if (')]'.includes(c)) brackets--
    tokens.push({ type: 'mark', text: c })
  }
  return foldDegrees(tokens)
}

/** `^\circ`, `^{\circ}`, `\circ` → `°`. */
const foldDegrees = (tokens: readonly Token[]): Token[] => {
  const folded: Token[] = []
  const is = (token: Token | undefined, text: string): boolean => token?.type === 'mark' && token.text === text
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]
    if (token.type !== 'command' || token.text !== 'circ') {
      folded.push(token)
      continue
    }
    if (is(folded.at(-1), '{') && is(folded.at(-2), '^') && is(tokens[i + 1], '}')) {
      folded.splice(-2)
      i++
    } else if (is(folded.at(-1), '^')) folded.pop()
    folded.push({ type: 'mark', text: '°' })
  }
  return folded
}

const SPACE = /(?:\s|~|\\[\s,;:!>]|\\(?:quad|qquad|displaystyle|limits|hfill)(?![a-zA-Z]))+/y
/** Thousands in LaTeX: `10{,}000`, `10\,000`, `10,\!000`; with `merge` also `10,000`. */
const LATEX_GROUPS = String.raw`\d{1,3}(?:(?:\{,\}|,?\\[,!]) ?\d{3})+(?!\d)`
const COMMA_GROUPS = String.raw`\d{1,3}(?:,\d{3})+(?!\d|,\d)`
const FRACTION = String.raw`(?:\.\d+|\.(?=\\overline))?(?:[eE][+-]?\d{1,5}(?![\w.]))?`
const NUMBER = new RegExp(String.raw`(?:${LATEX_GROUPS}|\d+)${FRACTION}|\.\d+|\.(?=\\overline)`, 'y')
const MERGED_NUMBER = new RegExp(String.raw`(?:${COMMA_GROUPS}|${LATEX_GROUPS}|\d+)${FRACTION}|\.\d+|\.(?=\\overline)`, 'y')
const REPEATING = /\\overline\{?\d+\}?/y
const COMMAND = /\\(?:[a-zA-Z]+|[^\s])/y
const ARGUMENT = /\s*\{[^{}]*\}/y
const LETTERS = /[a-zA-Z]+/y
const MARKS = '+-*/^_=<>()[]{},;:!|%$&±∓≠≤≥∪°\'¢£€'

const TEXT = new Set('text mbox textbf textit textrm textnormal mathrm mathsf mathtt operatorname hbox rm'.split(' '))
const IGNORED = new Set(
  (
    'left right big Big bigl bigr Bigl Bigr bigg Bigg biggl biggr mathbf boldsymbol bm mathit vec hat textstyle boxed mathcal mathbb ' +
    'underline bf it phantom mathopen mathclose'
  ).split(' '),
)
const SYNONYMS: Readonly<Record<string, string>> = {
  dfrac: 'frac',
  tfrac: 'frac',
  cfrac: 'frac',
  dbinom: 'binom',
  tbinom: 'binom',
  varnothing: 'emptyset',
  degree: 'circ',
  lbrace: '{',
  rbrace: '}',
  lvert: '|',
  rvert: '|',
  vert: '|',
  mid: '|',
  varphi: 'phi',
  varepsilon: 'epsilon',
  vartheta: 'theta',
  lg: 'log',
  arcsin: 'asin',
  arccos: 'acos',
  arctan: 'atan',
}
/** Commands that are one mark. */
const MARK_COMMANDS: Readonly<Record<string, string>> = {
  '{': '⦃',
  '}': '⦄',
  $: '$',
  '%': '%',
  '&': '&',
  '|': '|',
  cdot: '*',
  times: '*',
  ast: '*',
  div: '/',
  pm: '±',
  mp: '∓',
  le: '≤',
  leq: '≤',
  leqslant: '≤',
  ge: '≥',
  geq: '≥',
  geqslant: '≥',
  lt: '<',
  gt: '>',
  ne: '≠',
  neq: '≠',
  cup: '∪',
  colon: ':',
  lbrack: '[',
  rbrack: ']',
  langle: '(',
  rangle: ')',
  prime: "'",
}
const GREEK = new Set(
  (
    'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega ' +
    'Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell angle triangle'
  ).split(' '),
)
/** Written without a backslash, these are still the commands. */
const PLAIN = new Set(
  'sqrt sin cos tan cot sec csc asin acos atan arcsin arccos arctan sinh cosh tanh log ln exp pi infty infinity theta alpha beta'.split(
    ' ',
  ),
)

const nameToken = (name: string): Token => {
  const spelled = name === 'infinity' ? 'infty' : SYNONYMS[name] ?? name
  return { type: GREEK.has(spelled) ? 'symbol' : 'command', text: spelled }
}

/** Letters without a command before them: a name we know, words, or a product of one-letter symbols. */
const letterTokens = (run: string, glued: boolean, afterWords: boolean): Token[] => {
  if (PLAIN.has(run)) return [nameToken(run)]
  const lower = run.toLowerCase()
  const isWord = afterWords || lower === 'or' || lower === 'and' || isUnit(lower) || (run.length > 3 && !glued)
  if (run.length > 1 && isWord) return [{ type: 'words', text: lower }]
  return [...run].map((text) => ({ type: 'symbol', text }))
}

const textTokens = (argument: string | undefined, command: string, merge: boolean): Token[] => {
  if (argument === undefined) throw new Unreadable(`the answer holds \\${command} without {…}`)
  const content = argument.replace(/^\s*\{|\}$/g, '').replace(/~|\\./g, ' ').trim()
  if (!/[a-zA-Z]/.test(content) || /^\(?[a-zA-Z]\)\.?$|^\d/.test(content)) return tokenise(content, merge)
  if (PLAIN.has(content)) return [nameToken(content)]
  if (command === 'mathrm' && /^[eidPEC]$/.test(content)) return [{ type: 'symbol', text: content }]
  const joined = /^([,;]?)\s*(or|and)$/i.exec(content)
  if (joined) return [{ type: 'words', text: joined[2].toLowerCase() }]
  return [{ type: 'words', text: content.replace(/\s+/g, ' ') }]
}

const UNICODE: Readonly<Record<string, string>> = {
  '−': '-',
  '–': '-',
  '—': '-',
  '×': '*',
  '·': '*',
  '⋅': '*',
  '∗': '*',
  '÷': '/',
  '√': '\\sqrt ',
  '∞': '\\infty ',
  '∈': '\\in ',
  '∅': '\\emptyset ',
  '≈': '\\approx ',
  '²': '^{2}',
  '³': '^{3}',
  '½': '\\frac{1}{2}',
  '¼': '\\frac{1}{4}',
  '¾': '\\frac{3}{4}',
  '′': "'",
  '’': "'",
  '“': '',
  '”': '',
  '"': '',
  '⟨': '(',
  '⟩': ')',
  '，': ',',
  '（': '(',
  '）': ')',
  '：': ':',
  '；': ';',
  '。': '',
  º: '°',
  π: '\\pi ',
  θ: '\\theta ',
  α: '\\alpha ',
  β: '\\beta ',
  γ: '\\gamma ',
  λ: '\\lambda ',
  φ: '\\phi ',
  ω: '\\omega ',
  μ: '\\mu ',
  σ: '\\sigma ',
  ρ: '\\rho ',
  δ: '\\delta ',
  Δ: '\\Delta ',
  '∠': '\\angle ',
  '⁡': '',
}

/** Unicode signs as LaTeX; a doubled backslash before a command (over-escaped JSON) as one. */
const toLatex = (source: string): string => {
  const text = [...source].map((c) => UNICODE[c] ?? c).join('').replace(/\b([ap])\.\s?m\b\.?/gi, '$1m')
  return text.includes('\\begin') ? text : text.replace(/\\\\(?=[a-zA-Z])/g, '\\')
}
