import { describe, expect, test } from 'vitest'
import { extractAnswer, lastBoxed, type AnswerForm } from '../../../src/tasks/math/extract.js'

const cases: [AnswerForm, string, string, string][] = [
  ['boxed', 'So the answer is $\\boxed{\\frac{1}{2}}$.', 'boxed', '\\frac{1}{2}'],
  ['boxed', 'First \\boxed{1}, then $\\boxed{2}$', 'boxed', '2'],
  ['boxed', '\\boxed{\\begin{pmatrix} 1 \\\\ \\frac{2}{3} \\end{pmatrix}}', 'boxed', '\\begin{pmatrix} 1 \\\\ \\frac{2}{3} \\end{pmatrix}'],
  ['boxed', '\\boxed{\\{1, 2\\}}', 'boxed', '\\{1, 2\\}'],
  ['boxed', '$\\boxed 5$ and so on', 'boxed', '5'],
  ['boxed', '$\\boxed  {5}$', 'boxed', '5'],
  ['boxed', '\\fbox{7}', 'boxed', '7'],
  ['boxed', 'minutes: $\\framebox{204}$', 'boxed', '204'],
  ['boxed', '\\boxed{\\boxed{5}}', 'boxed', '5'],
  ['boxed', '\\boxed{5}\nCheck the answer: it works.', 'boxed', '5'],
  ['boxed', 'Answer: 7', 'line', '7'],
  ['boxed', 'cut short: \\boxed{12', 'number', '12'],
  ['line', '\\boxed{12}\n\nAnswer: 34', 'line', '34'],
  ['line', 'Answer: 12\nno,\nAnswer: 34', 'line', '34'],
  ['line', 'answer : $34$.', 'line', '34'],
  ['line', '**Answer:** 34', 'line', '34'],
  ['line', '**Answer**: 34', 'line', '34'],
  ['line', '**Final Answer: 34**', 'line', '34'],
  ['line', 'Answer: \\boxed{34}', 'boxed', '34'],
  ['line', 'Answer: $\\boxed{\\frac{3}{4}}$', 'boxed', '\\frac{3}{4}'],
  ['line', 'Check the answer: it works.\n\n\\boxed{34}', 'boxed', '34'],
  ['line', 'Answer:\n\n$34$', 'line', '34'],
  ['line', 'Answer:\n\\[\n\\frac{1}{2}\n\\]', 'line', '\\frac{1}{2}'],
  ['line', 'Answer: the least value is $34$', 'line', '34'],
  ['line', 'Answer: $x=1$ or $x=2$', 'line', 'x=1  or  x=2'],
  ['line', 'Answer: 34 $\\text{cm}$', 'line', '34  \\text{cm}'],
  ['line', '答案:34', 'line', '34'],
  ['line', 'It follows that \\boxed{34}', 'boxed', '34'],
  ['line', 'Hence the final answer is 34. That is all.', 'phrase', '34'],
  ['line', 'The answer is: $\\frac{1}{2}$', 'phrase', '\\frac{1}{2}'],
  ['line', 'so the answer is **2.5**', 'phrase', '2.5'],
  ['line', 'We get 3 + 4 = 7', 'number', '7'],
  ['line', 'that makes 12,345.', 'number', '12,345'],
  ['line', 'from -3', 'number', '-3'],
  ['line', '5-3', 'number', '3'],
  ['line', 'I do not know', 'none', ''],
  ['line', '', 'none', ''],
  ['boxed', '\\boxed{}', 'none', ''],
]

describe('the final answer', () => {
  test.each(cases)('%s: %j', (asked, response, form, answer) => {
    expect(extractAnswer(response, asked)).toEqual({ form, answer })
  })

  test('braces are matched to any depth', () => {
    const nested = '{'.repeat(100_000) + '5' + '}'.repeat(100_000)
    expect(lastBoxed(`\\boxed{${nested}}`)).toBe(nested)
    expect(lastBoxed('\\boxed{' + '{'.repeat(1_000_000))).toBeUndefined()
  })
})
