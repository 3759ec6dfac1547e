/**
 * Where a response states its final answer. The forms, in the order they are tried:
 *
 * - `boxed`: the last `\boxed{…}` (braces matched, any depth), `\boxed 5` up to `$`, `\fbox{…}`, `\framebox{…}`;
 * - `line`: the last `Answer: …` (also `**Answer:** …`, `Final answer: …`, `答案:…`), to the end of its line;
 * - `phrase`: the last `the answer is …`, to the end of its sentence;
 * - `number`: the last plain number, when nothing is announced.
 *
 * A problem asks for one of the first two (../shared/benchmarks: MATH-500 asks for a box, AIME and DAPO for an
 * `Answer:` line). Where a line is asked for, it goes before a box that comes earlier, not before one that comes later.
 * Every step is linear in the response.
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
  const line = lastMatchEnd(response, ANSWER_LINE)
  const lineFirst = asked === 'line' && lastBoxAt(response) < line
  const tries: [Extracted['form'], () => string | undefined][] = [
    ['boxed', () => lastBoxed(response)],
    ['line', () => announced(response, line, false)],
    ['phrase', () => announced(response, lastMatchEnd(response, ANSWER_IS), true)],
    ['number', () => lastNumber(response)],
  ]
  if (lineFirst) [tries[0], tries[1]] = [tries[1], tries[0]]
  for (const [form, attempt] of tries) {
    const answer = attempt()?.trim()
    if (answer) return { answer, form }
  }
  return { answer: '', form: 'none' }
}

const BOXES = ['\\boxed', '\\fbox', '\\framebox']

const lastBoxAt = (text: string): number => Math.max(...BOXES.map((command) => text.lastIndexOf(command)))

/** The argument of the last box; undefined when there is none or when its braces never close (a response cut short). */
export const lastBoxed = (text: string): string | undefined => {
  for (const command of BOXES) {
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

const lastMatchEnd = (text: string, marker: RegExp): number => {
  let end = -1
  for (const match of text.matchAll(marker)) end = match.index! + match[0].length
  return end
}

/** What is said from `end` on: to the end of the line or of the sentence, or a display. */
const announced = (text: string, end: number, sentence: boolean): string | undefined => {
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
