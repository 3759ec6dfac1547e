/**
 * Where a response states its final answer. The forms, in the order they are tried:
 *
 * - `boxed`: the last `\boxed{…}` (braces matched, any depth), `\boxed 5` up to `$`, `\fbox{…}`, `\framebox{…}`;
 * - `line`: the last `Answer: …` (also `**Answer:** …`, `Final answer: …`, `答案:…`), to the end of its line;
 * - `phrase`: the last `the answer is …`, to the end of its sentence;
 * - `number`: the last plain number, when nothing is announced.
 *
 * A problem asks for one of the first two; that one is tried first (../shared/benchmarks: MATH-500 asks
 * for a box, AIME and DAPO for an `Answer:` line). Every step is linear in the response.
 */
export type AnswerForm = 'boxed' | 'line'

export interface Extracted {
  /** LaTeX or plain text, delimiters removed; '' when there is none. */
  readonly answer: string
  readonly form: AnswerForm | 'phrase' | 'number' | 'none'
}

/** The last number of a response is looked for in this many last characters. */
const TAIL = 4096

export const extractAnswer = (response: string, asked: AnswerForm): Extracted => {
  const tries: [Extracted['form'], () => string | undefined][] = [
    ['boxed', () => lastBoxed(response)],
    ['line', () => lastAnnounced(response, ANSWER_LINE, false)],
    ['phrase', () => lastAnnounced(response, ANSWER_IS, true)],
    ['number', () => lastNumber(response)],
  ]
  if (asked === 'line') [tries[0], tries[1]] = [tries[1], tries[0]]
  for (const [form, attempt] of tries) {
    const answer = attempt()?.trim()
    if (answer) return { answer, form }
  }
  return { answer: '', form: 'none' }
}

/** The argument of the last box; undefined when there is none or when its braces never close (a response cut short). */
export const lastBoxed = (text: string): string | undefined => {
  for (const command of ['\\boxed', '\\fbox', '\\framebox']) {
    const at = text.lastIndexOf(command)
    if (at < 0) continue
    let start = at + command.length
    while (/\s/.test(text[start] ?? '')) start++
    if (text[start] !== '{') return text.slice(start, start + TAIL).split(/[$\n]/, 1)[0]
    const end = closingBrace(text, start)
    return end < 0 ? undefined : text.slice(start + 1, end)
  }
  return undefined
}

/** Index of the brace that closes the one at `open`, escapes skipped; −1 when it never closes. */
export const closingBrace = (text: string, open: number): number => {
  let depth = 0
  for (let i = open; i < text.length; i++) {
    const c = text[i]
    if (c === '\\') i++
    else if (c === '{') depth++
    else if (c === '}' && --depth === 0) return i
  }
  return -1
}

const ANSWER_LINE = /(?:answer|答案)[*_]{0,2}\s*[::]/gi
const ANSWER_IS = /answer\s+is\b[*_]{0,2}\s*[::]?/gi

const lastAnnounced = (text: string, marker: RegExp, sentence: boolean): string | undefined => {
  let end = -1
  for (const match of text.matchAll(marker)) end = match.index! + match[0].length
  if (end < 0) return undefined
  const rest = text.slice(end, end + TAIL).replace(/^[\s*_`]+/, '')
  const display = displayMath(rest)
  if (display !== undefined) return lastBoxed(display) ?? display
  const line = rest.split('\n', 1)[0]
  return lastBoxed(line) ?? statement(sentence ? line.split(/[.。!?](?=\s|$)/, 1)[0] : line)
}

/** The content of a display that opens the text: `\[ … \]` or `$$ … $$`, over several lines. */
const displayMath = (text: string): string | undefined => {
  for (const [open, close] of [['\\[', '\\]'], ['$$', '$$']]) {
    if (!text.startsWith(open)) continue
    const end = text.indexOf(close, open.length)
    if (end > 0) return text.slice(open.length, end)
  }
  return undefined
}

/**
 * What a line like `**$x=2$ or $x=3$.**` states. Delimiters go. When words surround the mathematics, the first
 * formula is the answer, unless the words hold digits themselves or only join formulas.
 */
const statement = (line: string): string => {
  const text = line.replace(/[\s*_`]+$/, '').replace(/(?<!\\)[.。,;]$/, '').replace(/[\s*_`]+$/, '')
  const formula = /\$([^$]+)\$|\\\(([^$]*?)\\\)/g
  const formulas = [...text.matchAll(formula)].map((match) => match[1] ?? match[2])
  if (formulas.length === 0) return text
  const words = text.replace(formula, ' ')
  if (/\d/.test(words) || /^(?:\s|,|;|and|or|和|或)*$/.test(words)) return text.replace(formula, (_, a, b) => ` ${a ?? b} `)
  return formulas[0]
}

const lastNumber = (text: string): string | undefined => {
  const numbers = text.slice(-TAIL).match(/(?<![\w)\]}])[-−]?\d[\d,]*(?:\.\d+)?|\d[\d,]*(?:\.\d+)?/g)
  return numbers?.at(-1)?.replace(/,+$/, '')
}
