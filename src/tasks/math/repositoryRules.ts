import { lastBoxed } from './extract.js'

/**
 * The string rules by which the paper's repository scores mathematics (described in
 * ../shared/benchmarks/aime2024 and math500). They are stricter than `equivalent` on spelling and know no
 * mathematics; they are reported beside it, so that figures can be set against the paper's.
 */

/** Rule `math_dapo`, for AIME and DAPO: the last `Answer:` within the last 300 characters, normalised, as a string. */
export const dapoRule = (response: string, truth: string): boolean => {
  const stated = [...response.slice(-300).matchAll(/Answer\s*:\s*([^\n]+)/gi)].at(-1)?.[1] ?? '[INVALID]'
  return normalise(stated) === normalise(truth)
}

/** Rule `math`, for MATH-500: the last box, stripped, as a string. */
export const mathRule = (response: string, truth: string): boolean => {
  const stated = lastBoxed(response)
  return stated !== undefined && strip(stated.slice(0, LONGEST)) === strip(truth)
}

/** No right answer is longer; the regular expressions below see no more. */
const LONGEST = 1000

const REPLACED: readonly [string, string][] = [
  ['an ', ''],
  ['a ', ''],
  ['.$', '$'],
  ['\\$', ''],
  ['\\ ', ''],
  [' ', ''],
  ['mbox', 'text'],
  [',\\text{and}', ','],
  ['\\text{and}', ','],
  ['\\text{m}', '\\text{}'],
]
const REMOVED = [
  ...(
    'square ways integers dollars mph inches hours km units \\ldots sue points feet minutes digits cents degrees cm gm pounds meters ' +
    'meals edges students childrentickets multiples \\text{s} \\text{.}'
  ).split(' '),
  '\\text{\ns}',
  '\\text{}^2',
  '\\text{}^3',
  '\\text{\n}',
  '\\text{}',
  '\\mathrm{th}',
  '^\\circ',
  '^{\\circ}',
  '\\;',
  ',\\!',
  '{,}',
  '"',
  '\\dots',
]

const normalise = (answer: string): string => {
  let text = answer.split('=').at(-1)!
  for (const [from, to] of REPLACED) text = text.replaceAll(from, to)
  for (const word of REMOVED) text = text.replaceAll(word, '')
  text = text
    .replace(/^[^$]*\$([^$]*)\$.*$/s, '$$$1$$')
    .replace(/\\text\{(.*?)\}/g, '$1')
    .replace(/\\textbf\{(.*?)\}/g, '$1')
    .replace(/\\overline\{(.*?)\}/g, '$1')
    .replace(/\\boxed\{(.*)\}/g, '$1')
    .replace(/(frac)([^{])(.)/g, 'frac{$2}{$3}')
    .replace(/(sqrt)([^{])/g, 'sqrt{$2}')
    .replaceAll('$', '')
    .trim()
  return /^[\d,]+$/.test(text) && /\d/.test(text) ? text.replaceAll(',', '') : text
}

const strip = (answer: string): string => {
  let text = answer
    .replaceAll('\n', '')
    .replaceAll('\\!', '')
    .replaceAll('\\\\', '\\')
    .replaceAll('tfrac', 'frac')
    .replaceAll('dfrac', 'frac')
  for (const gone of ['\\left', '\\right', '^{\\circ}', '^\\circ', '\\$']) text = text.replaceAll(gone, '')
  text = text.split('\\text{ ')[0].replaceAll('\\%', '').replaceAll('%', '')
  text = text.replaceAll(' .', ' 0.').replaceAll('{.', '{0.').replace(/^\./, '0.')
  const sides = text.split('=')
  if (sides.length === 2 && sides[0].length <= 2) text = sides[1]
  text = text
    .replace(/\\sqrt([^{])/g, '\\sqrt{$1}')
    .replaceAll(' ', '')
    .replace(/\\frac([^{])([^{])/g, '\\frac{$1}{$2}')
    .replace(/\\frac([^{])\{/g, '\\frac{$1}{')
  if (text === '0.5') text = '\\frac{1}{2}'
  return text.replace(/^(-?\d+)\/(-?\d+)$/, '\\frac{$1}{$2}')
}
