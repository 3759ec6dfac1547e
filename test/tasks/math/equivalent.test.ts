import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { equivalent } from '../../../src/tasks/math/equivalent.js'

/** One answer in different clothes. */
const equal: Record<string, [string, string][]> = {
  integers: [
    ['7', '7'], ['007', '7'], ['+7', '7'], ['-50', '-50'], ['\\text{7}', '7'], ['7.', '7'], ['7.0', '7'], ['$7$', '7'], ['\\(7\\)', '7'], ['\\[ 7 \\]', '7'],
    ['(7)', '7'], ['{7}', '7'], ['−7', '-7'], ['2^{10}', '1024'], ['2^10', '1024'], ['5!', '120'], ['\\binom{5}{2}', '10'], ['{5 \\choose 2}', '10'], ['0', '-0'],
    ['\\boxed{7}', '7'], ['**7**', '7'], ['3 \\times 4', '12'], ['3 \\cdot 4', '12'], ['10 - 3', '7'], ['10^{20}+1', '100000000000000000001'],
  ],
  thousands: [
    ['1,234', '1234'], ['1{,}234', '1234'], ['1\\,234', '1234'], ['1,\\!234', '1234'], ['1,234,567', '1234567'], ['12,345.5', '12345.5'], ['\\$1,000', '1000'],
    ['5 million', '5000000'], ['2.5 \\text{ billion}', '2500000000'], ['1.5 \\times 10^3', '1500'], ['1.5e3', '1500'], ['6.02 \\times 10^{23}', '602000000000000000000000'],
  ],
  fractions: [
    ['\\frac{1}{2}', '1/2'], ['\\dfrac{1}{2}', '\\tfrac12'], ['\\frac12', '\\frac{1}{2}'], ['\\frac1{72}', '\\frac{1}{72}'], ['\\frac{1}2', '0.5'], ['.5', '\\frac{1}{2}'],
    ['0.50', '.5'], ['-\\frac{2}{3}', '\\frac{-2}{3}'], ['\\frac{2}{-3}', '-\\frac{2}{3}'], ['-\\frac{-2}{3}', '2/3'], ['\\frac{4}{6}', '\\frac{2}{3}'], ['14/3', '\\frac{14}{3}'],
    ['1\\frac{1}{2}', '\\frac{3}{2}'], ['1 \\frac12', '1.5'], ['1 1/2', '3/2'], ['-1\\frac12', '-1.5'], ['2 3/4', '2.75'], ['0.\\overline{3}', '\\frac{1}{3}'],
    ['0.1\\overline{6}', '\\frac{1}{6}'], ['.\\overline{27}', '3/11'], ['\\frac{\\frac{1}{2}}{3}', '\\frac{1}{6}'], ['3.5', '\\frac{7}{2}'], ['1.20', '6/5'], ['{1 \\over 2}', '\\frac12'],
  ],
  roots: [
    ['\\sqrt{51}', '\\sqrt{51}'], ['\\sqrt3', '\\sqrt{3}'], ['11\\sqrt2', '11 \\sqrt{2}'], ['\\sqrt{8}', '2\\sqrt{2}'], ['\\frac{1}{\\sqrt{2}}', '\\frac{\\sqrt{2}}{2}'],
    ['sqrt(2)', '\\sqrt{2}'], ['2*sqrt(3)', '2\\sqrt{3}'], ['2^{1/2}', '\\sqrt{2}'], ['\\sqrt[3]{8}', '2'], ['\\sqrt[3]{-8}', '-2'], ['\\sqrt[3]{2}', '2^{1/3}'], ['√5', '\\sqrt{5}'],
    ['\\sqrt{3+2\\sqrt{2}}', '1+\\sqrt{2}'], ['\\frac{3+\\sqrt5}{2}', '\\frac{\\sqrt{5}+3}{2}'], ['\\sqrt{4}', '2'], ['\\sqrt[4]{16}', '2'], ['\\sqrt{12} - \\sqrt{3}', '\\sqrt{3}'],
  ],
  constants: [
    ['\\pi', 'pi'], ['2\\pi', '\\pi \\cdot 2'], ['\\frac{\\pi}{2}', '\\pi/2'], ['\\frac{1}{2}\\pi', 'pi/2'], ['e^2', 'e^{2}'], ['\\ln e', '1'], ['\\log_{2} 8', '3'], ['\\log_2(8)', '3'],
    ['\\log 100', '2'], ['\\sin 30^\\circ', '\\frac12'], ['\\sin\\frac{\\pi}{6}', '0.5'], ['\\cos(\\pi)', '-1'], ['\\sin^2 1 + \\cos^2 1', '1'], ['\\arctan 1', '\\frac{\\pi}{4}'],
    ['\\tan^{-1}(1)', '\\pi/4'], ['\\ln 8', '3 \\ln 2'], ['\\infty', '+\\infty'], ['-\\infty', '-\\infty'], ['\\log_2 3', '\\frac{\\ln 3}{\\ln 2}'], ['e^{i\\pi}', '-1'],
  ],
  complex: [['6 - 5i', '-5i + 6'], ['(1+i)^2', '2i'], ['\\frac{1}{i}', '-i'], ['\\sqrt{-4}', '2i'], ['\\frac{1+i\\sqrt{3}}{2}', '\\frac12 + \\frac{\\sqrt3}{2}i']],
  formulas: [
    ['p - q', '-q+p'], ['x^2+2x+1', '(x+1)^2'], ['\\frac{10a}{r}', '10a/r'], ['100\\left(\\frac{A-B}{B}\\right)', '\\frac{100(A-B)}{B}'], ['xy', 'yx'], ['2(x+3)', '2x+6'],
    ['x^{-1}', '\\frac{1}{x}'], ['\\frac{x^2-1}{x-1}', 'x+1'], ['\\sqrt{x^2}', '|x|'], ['\\sin 2x', '2 \\sin x \\cos x'], ['a_1 + a_2', 'a_{2} + a_{1}'], ['3^{n+1}', '3 \\cdot 3^n'],
    ['\\frac{n(n+1)}{2}', '\\binom{n+1}{2}'], ['\\frac{n!}{(n-2)!}', 'n(n-1)'], ['-(x-y)', 'y-x'], ['4t^2', '(2t)^2'], ['\\log_{10} x', '\\log x'], ['\\lfloor 2.5 \\rfloor', '2'],
    ['e^{x+y}', 'e^x e^y'], ['\\alpha\\beta', '\\beta \\alpha'], ['|x - 1|', '|1 - x|'], ['(x-1)(x+1)(x^2+1)', 'x^4-1'], ['\\frac{a}{b}+\\frac{c}{d}', '\\frac{ad+bc}{bd}'],
  ],
  equations: [
    ['x=5', '5'], ['5', 'x = 5'], ['x = \\frac{3}{4} = 0.75', '0.75'], ['y = 2x+1', '2x + 1'], ['f(x) = x^2', 'x^2'], ['y=2x+1', '2x - y + 1 = 0'], ['x^2+y^2=1', '1 - x^2 - y^2 = 0'],
    ['m+n = 116', '116'], ['\\text{Area} = 12', '12'], ['\\angle ABC = 90^\\circ', '90'], ['x = 2y', 'y = \\frac{x}{2}'], ['2x+4y=6', 'x+2y=3'], ['x \\approx 2', '2'], ['x_1 = 4', '4'],
    ['AB = 5', '5'], ['\\sqrt{2} \\approx 1.414', '\\sqrt{2}'],
  ],
  inequalities: [
    ['x > 5', '5 < x'], ['x \\ge 5', '[5, \\infty)'], ['1 \\le x < 3', '[1,3)'], ['x<3', '(-\\infty,3)'], ['x \\in [1,3)', '[1,3)'], ['3 > x \\geq 1', '1 \\leq x < 3'], ['x+y<2', '2 > y + x'],
    ['x \\ne 2', 'x \\neq 2'],
  ],
  intervals: [
    ['[0,1)', '[0, 1)'], ['\\left[0,1\\right)', '[0,1)'], ['(-\\infty, 2]', '(-\\infty,2]'], ['(0,\\frac12)', '(0, 0.5)'], ['(-\\infty,0)\\cup(1,\\infty)', '(1,\\infty) \\cup (-\\infty,0)'],
    ['[-\\sqrt{2}, \\sqrt2]', '[-2^{1/2}, \\frac{2}{\\sqrt{2}}]'],
  ],
  tuples: [
    ['(1,2)', '(1, 2)'], ['(-2,0)', '\\left(-2, 0\\right)'], ['\\left(\\frac{1}{2}, 3\\right)', '(0.5,3)'], ['(1,2,3)', '( 1 , 2 , 3 )'], ['(3, \\frac{\\pi}{2})', '\\left( 3, \\pi/2 \\right)'],
    ['(x,y) = (1,2)', '(1,2)'], ['\\langle 1,2 \\rangle', '(1,2)'], ['(1,2),(3,4)', '(3,4), (1,2)'],
  ],
  sets: [
    ['\\{1,2,3\\}', '\\{3,2,1\\}'], ['{1, 2}', '1,2'], ['1,2', '2, 1'], ['1, -2', '-2, 1'], ['1 \\text{ or } 2', '2, 1'], ['x=1 \\text{ or } x=2', '1,2'], ['1 and 2', '1,2'], ['\\pm 2', '2,-2'],
    ['\\pm 2', '-2, 2'], ['1 \\pm \\sqrt{19}', '1+\\sqrt{19}, 1-\\sqrt{19}'], ['x = \\pm 3', '\\{-3, 3\\}'], ['\\{5\\}', '5'], ['\\emptyset', '\\varnothing'], ['\\{\\}', '\\emptyset'],
    ['\\pm 1 \\pm i', '1+i, 1-i, -1+i, -1-i'], ['x=1, y=2', 'y=2, x=1'], ['\\frac{-3 \\pm \\sqrt{5}}{2}', '\\frac{-3-\\sqrt5}{2}, \\frac{-3+\\sqrt5}{2}'], ['1, 1, 2', '1, 2'],
  ],
  units: [
    ['5 \\text{ cm}', '5'], ['5 cm', '5\\text{ cm}'], ['5\\text{ centimeters}', '5\\,\\mathrm{cm}'], ['12 \\text{ square units}', '12'], ['3\\text{ m}^2', '3 \\text{ square meters}'],
    ['100 \\text{ cm}', '1 \\text{ m}'], ['30 \\text{ mph}', '30 miles per hour'], ['5 apples', '5'], ['5 \\text{ apples}', '5 \\text{ apple}'], ['90^\\circ', '90'], ['90^{\\circ}', '90 \\text{ degrees}'],
    ['145°', '145^\\circ'], ['\\$5', '5 \\text{ dollars}'], ['$5.00', '5'], ['50\\%', '50'], ['50%', '0.5'], ['0.5', '50\\%'], ['50 percent', '50\\%'], ['\\$0.50', '50 \\text{ cents}'],
    ['2 \\text{ hours}', '120 \\text{ minutes}'], ['7^{\\text{th}}', '7'], ['\\frac{1}{2} \\text{ inch}', '0.5'], ['72 \\mbox{ ft}', '72'], ['-40^\\circ\\text{C}', '-40'],
  ],
  text: [
    ['\\text{Evelyn}', 'Evelyn'], ['\\text{ellipse}', 'an ellipse'], ['Yes', '\\text{yes}'], ['\\text{(C)}', 'C'], ['(C)', 'C'], ['\\textbf{(B)}\\ 250', '250'], ['\\text{no solution}', 'No solution.'],
    ['\\text{odd}', 'odd'], ['\\mathrm{B}', 'B'], ['B.', 'B'],
  ],
  matrices: [
    ['\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}', '\\begin{pmatrix} -\\frac13 \\\\ \\frac{2}{3} \\\\ \\frac53 \\end{pmatrix}'],
    ['\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}'], ['\\left(\\begin{array}{cc} 1 & 2 \\\\ 3 & 4 \\end{array}\\right)', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}'],
    ['\\frac12 \\begin{pmatrix} 2 \\\\ 4 \\end{pmatrix}', '\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}'], ['\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\\\ \\end{pmatrix}', '\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}'],
  ],
  'as in the data sets': [
    ['\\$32,\\!348', '32348'], ['11,\\! 111,\\! 111,\\! 100', '11111111100'], ['\\text{June 20}', 'June 20'], ['\\frac{270}7\\text{ degrees}', '\\frac{270}{7}'], ['\\{1\\pm\\sqrt{5},-2\\}', '-2, 1-\\sqrt5, 1+\\sqrt5'],
    ['\\frac 59', '\\frac{5}{9}'], ['15\\mbox{ cm}^2', '15'], ['(x, y) = (0,1), (1,0)', '(1,0),(0,1)'], ['(0,1) \\text{ or } (1,0)', '(1,0), (0,1)'], ['n = 1, 3', '3, 1'], ['33 \\frac{1}{3}\\%', '33\\tfrac13'], ['33\\frac13\\%', '\\frac13'],
    ['e^{-1}', '\\frac{1}{e}'], ['-\\ln{2}', '\\ln \\frac{1}{2}'], ['\\{(1,2),(2,1)\\}', '\\{(2,1),(1,2)\\}'], ['\\text{no real solutions}', 'No real solutions'], ['f(2) < f(1) < f(4)', 'f(2)<f(1)<f(4)'], ['\\approx 3.14', '3.14'], ['||x|-1|', '|1-|x||'],
    ['\\frac12x', '\\frac{x}{2}'], ['x^2y^3', 'y^3 x^2'], ['5\\,\\text{m/s}', '5 \\text{ meters per second}'], ['±\\frac12', '\\pm 0.5'], ['\\theta = \\frac{\\pi}{4}', '\\pi/4'], ['10\\text{ units}^2', '10'], ['\\mathrm{No}', 'no'], ['2\\cdot(7!)', '10080'],
    ['x^4 + 4', '(x^2-2x+2)(x^2+2x+2)'], ['\\sqrt{2 + \\sqrt{3}}', '\\frac{\\sqrt{6}+\\sqrt{2}}{2}'], ['\\cos 36^\\circ', '\\frac{1+\\sqrt5}{4}'], ['y = -\\frac{1}{2}x + 3', 'x + 2y = 6'], ['a = 3, b = -2', 'b=-2, a=3'], ['\\dbinom{7}{2}', '21'], ['(-3)^{3}', '-27'],
  ],
  bases: [['2516_8', '2516_{8}'], ['4210_{5}', '4210_5'], ['1A3_{16}', '1A3_{16}'], ['0101_2', '101_2']],
  times: [['3:45', '3:45'], ['3:45 \\text{ p.m.}', '3:45 PM'], ['06:30', '6:30'], ['2:3', '2 : 3'], ['\\sqrt{2}:1', '\\sqrt2 : 1']],
  unreadable: [['\\sum_{k=1}^n k', '\\sum_{k=1}^n k'], ['\\int_0^1 x\\,dx', '\\int_0^1 x dx'], ['9^{9^{9^9}}', '9^{9^{9^9}}']],
}

/** Nearly the same, but wrong. */
const different: Record<string, [string, string][]> = {
  integers: [
    ['7', '8'], ['-7', '7'], ['70', '7'], ['7.1', '7'], ['10^{20}', '10^{20}+1'], ['2^{100}', '2^{100}+1'], ['12', '1,2'], ['', '7'], ['7 8', '78'], ['-5^2', '25'], ['0.07', '7'],
    ['7!', '7'], ['17', '7'], ['100', '1000'],
  ],
  thousands: [['1,23', '123'], ['1,234', '1.234'], ['1,2345', '12345'], ['(1,234)', '1234'], ['5 million', '5'], ['1.5 \\times 10^3', '150'], ['1234', '12,34']],
  fractions: [
    ['\\frac{1}{2}', '\\frac{2}{1}'], ['0.33', '\\frac{1}{3}'], ['0.3333333333', '\\frac13'], ['1\\frac12', '\\frac12'], ['\\frac{1}{2}', '-\\frac{1}{2}'], ['\\frac{14}{3}', '\\frac{14}{30}'],
    ['\\frac{243}{625}', '\\frac{243}{626}'], ['2\\frac13', '\\frac{2}{3}'], ['1/2x', '\\frac{1}{2x}'], ['1/0', '0'], ['0.\\overline{3}', '0.3'], ['0.1\\overline{6}', '0.\\overline{16}'], ['1.5', '1\\frac15'],
  ],
  roots: [
    ['\\sqrt{2}', '1.414'], ['\\sqrt{2}', '2'], ['\\sqrt{51}', '\\sqrt{15}'], ['2\\sqrt{3}', '3\\sqrt{2}'], ['\\sqrt[3]{2}', '\\sqrt{2}'], ['\\sqrt[3]{2}', '3\\sqrt{2}'], ['\\sqrt{2+3}', '\\sqrt2+\\sqrt3'],
    ['11\\sqrt2', '11\\sqrt{20}'], ['\\sqrt{4}', '\\pm 2'], ['-\\sqrt{2}', '\\sqrt{2}'],
  ],
  constants: [
    ['\\pi', '3.14'], ['\\pi', '\\frac{22}{7}'], ['3.14159265358979', '\\pi'], ['2\\pi', '\\pi^2'], ['e', '2.718281828'], ['\\log_2 8', '\\log_8 2'], ['\\ln 2', '\\log 2'], ['\\infty', '-\\infty'],
    ['\\frac{355}{113}', '\\pi'], ['10^{-12}\\pi', '2 \\cdot 10^{-12}\\pi'], ['e^{\\pi\\sqrt{163}}', '262537412640768744'], ['\\sin 30', '\\frac12'],
  ],
  complex: [['6-5i', '6+5i'], ['6 - 5i', '5 - 6i'], ['i', '-i'], ['(6,-5)', '6-5i'], ['2i', '2']],
  formulas: [
    ['p - q', 'q - p'], ['x^2', '2x'], ['x+1', 'x-1'], ['x', 'X'], ['x', 'y'], ['\\sqrt{x^2}', 'x'], ['(x+1)^2', 'x^2+1'], ['x^{12}', 'x^{2}'], ['\\frac{a}{b}', '\\frac{b}{a}'], ['a_1', 'a_2'],
    ['\\sin x^2', '\\sin^2 x'], ['x^2+0.0000001', 'x^2'], ['2x', '2'], ['\\frac{10a}{r}', '\\frac{10r}{a}'], ['n!', 'n'], ['3^{n}', '3^{n+1}'], ['|x|', 'x'], ['x', 'x\''], ['\\binom{n}{2}', '\\binom{n}{3}'],
    ['e^{xy}', 'e^x e^y'], ['\\sin(x+y)', '\\sin x + \\sin y'],
  ],
  equations: [
    ['x=5', 'x=6'], ['x=2', 'y=2'], ['y=2x+1', 'y=2x-1'], ['x^2+y^2=1', 'x^2+y^2=2'], ['x+3=7', '7'], ['x=1, y=2', 'x=2, y=1'], ['y = 2x', 'x = 2y'], ['x^2 = 4', '4'], ['2x+4y=6', 'x+2y=6'], ['x = 5', '-5'],
  ],
  inequalities: [['x>5', 'x \\ge 5'], ['x>5', 'x<5'], ['x+y<2', 'x+y>2'], ['x \\ne 2', 'x = 2'], ['1<x<3', '1<x\\le3'], ['x > 5', '5'], ['x<y', 'y<x']],
  intervals: [
    ['[0,1]', '(0,1)'], ['[0,1)', '(0,1]'], ['[0,1]', '[1,0]'], ['(-\\infty,2]', '(-\\infty,2)'], ['(0,1)\\cup(2,3)', '(0,1)'], ['(0,1)\\cup(2,3)', '(0,3)'], ['[0,1)', '0, 1'], ['(2,\\infty)', '(-\\infty,2)'],
  ],
  tuples: [['(1,2)', '(2,1)'], ['(1,2)', '(1,2,3)'], ['(1,2)', '1,2'], ['(1,2)', '\\{1,2\\}'], ['(1,2)', '(1,-2)'], ['(12)', '(1,2)'], ['(1,2)', '(1,3)'], ['(1,2),(3,4)', '(1,4),(3,2)'], ['(x,y)=(1,2)', '(2,1)']],
  sets: [
    ['\\{1,2\\}', '\\{1,3\\}'], ['\\{1,2\\}', '\\{1,2,3\\}'], ['1', '1,2'], ['1,2,3', '1,2'], ['\\pm 2', '2'], ['\\pm 2', '\\pm 3'], ['1 \\pm \\sqrt{2}', '-1 \\pm \\sqrt{2}'], ['\\emptyset', '0'], ['\\{0\\}', '\\emptyset'],
    ['1 \\text{ or } 2', '12'], ['1, 1', '1, 2'],
  ],
  units: [
    ['5 \\text{ cm}', '5 \\text{ m}'], ['5 \\text{ cm}', '6 \\text{ cm}'], ['5 apples', '5 oranges'], ['5\\text{ cm}', '5\\text{ cm}^2'], ['90^\\circ', '\\frac{\\pi}{2}'], ['90^\\circ', '9^\\circ'], ['\\$5', '5 \\text{ cents}'],
    ['50\\%', '5'], ['50\\%', '0.5\\%'], ['0.5', '0.5 \\cdot 100'], ['30 \\text{ mph}', '30 \\text{ m}'], ['2 \\text{ hours}', '2 \\text{ minutes}'], ['145^\\circ', '35^\\circ'], ['5\\%', '50'],
  ],
  text: [
    ['\\text{Evelyn}', 'Eve'], ['east', 'seat'], ['\\text{yes}', '\\text{no}'], ['(C)', '(D)'], ['\\text{odd}', '\\text{even}'], ['ellipse', 'eclipse'], ['\\text{Monday}', '\\text{Sunday}'], ['ABC', 'CBA'],
    ['Adam, Bob', 'Bob, Adam'], ['A', '5'], ['infinite', '\\infty'],
  ],
  matrices: [
    ['\\begin{pmatrix}1\\\\2\\end{pmatrix}', '\\begin{pmatrix}2\\\\1\\end{pmatrix}'], ['\\begin{pmatrix}1\\\\2\\end{pmatrix}', '\\begin{pmatrix}1&2\\end{pmatrix}'], ['\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}', '\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}'],
    ['\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}', '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}'], ['\\begin{pmatrix} -1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}', '\\begin{pmatrix} 1/3 \\\\ 2/3 \\\\ 5/3 \\end{pmatrix}'],
  ],
  'as in the data sets': [
    ['\\frac 59', '\\frac{9}{5}'], ['(0,1), (1,0)', '(0,1)'], ['33\\frac13\\%', '33'], ['a = 3, b = -2', 'a = -2, b = 3'], ['\\text{June 20}', '\\text{June 2}'], ['f(2) < f(1) < f(4)', 'f(1) < f(2) < f(4)'], ['e^{-1}', 'e'], ['\\ln 2', '\\ln 3'],
    ['5\\text{ m/s}', '5 \\text{ km/h}'], ['||x|-1|', '|x-1|'], ['x^2y^3', 'x^3y^2'], ['y = -\\frac{1}{2}x + 3', 'x + 2y = 3'], ['(-3)^{2}', '-9'], ['\\{(1,2),(2,1)\\}', '\\{(1,2)\\}'], ['x^4 + 4', '(x^2+2)^2'], ['\\frac{\\sqrt6+\\sqrt2}{4}', '\\sqrt{2+\\sqrt3}'],
    ['\\frac{2}{3}1', '\\frac{2}{3}'], ['p - q1', 'p - q'], ['2000.0001', '2000'], ['0.9999999999', '1'], ['\\sqrt{51}', '7.14142842854285'],
  ],
  bases: [['2516_8', '2516_9'], ['2516_8', '2516'], ['2516_8', '2516_{80}'], ['101_2', '5'], ['2516_8', '2561_8'], ['101_2', '5_{10}']],
  times: [['3:45', '3:54'], ['3:45 \\text{ p.m.}', '3:45 \\text{ a.m.}'], ['2:3', '3:2'], ['2:3', '23'], ['12:05', '12:50']],
  unreadable: [['\\sum_{k=1}^n k', '\\sum_{k=1}^m k'], ['9^{9^{9^9}}', '9^{9^{9^8}}'], ['\\int_0^1 x dx', '\\int_0^2 x dx'], ['\\{x | x > 0\\}', '\\{x | x < 0\\}']],
}

describe('equal in different clothes', () => {
  for (const [kind, pairs] of Object.entries(equal)) test.each(pairs)(`${kind}: %s = %s`, (a, b) => {
    expect(equivalent(a, b)).toMatchObject({ equal: true })
    expect(equivalent(b, a)).toMatchObject({ equal: true })
  })
})

describe('nearly equal, but wrong', () => {
  for (const [kind, pairs] of Object.entries(different)) test.each(pairs)(`${kind}: %s ≠ %s`, (a, b) => {
    expect(equivalent(a, b)).toMatchObject({ equal: false })
    expect(equivalent(b, a)).toMatchObject({ equal: false })
  })
})

test('the same, whichever way round; and every answer equals itself', () => {
  const piece = fc.constantFrom(...'1 2 10 0.5 x y n a_1 \\pi e i + - * / ^2 ^{n} \\frac12 \\frac{x}{3} \\sqrt{2} \\sqrt{x} ( ) [ ] , \\{ \\} = < \\le \\pm ! | \\sin \\ln % ^\\circ \\text{cm} \\text{or} \\infty \\cup : _5 cm apples'.split(' '))
  const answer = fc.array(piece, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(' '))
  fc.assert(fc.property(answer, answer, (a, b) => {
    expect(equivalent(a, a).equal).toBe(true)
    expect(equivalent(a, b).equal).toBe(equivalent(b, a).equal)
  }), { seed: 3, numRuns: 1500 })
})

test('a random polynomial equals its expansion, and not another', () => {
  const coefficient = fc.integer({ min: -9, max: 9 })
  fc.assert(fc.property(coefficient, coefficient, coefficient, coefficient, (a, b, c, d) => {
    const factored = `(${a}x + ${b})(${c}x + ${d})`
    const expanded = `${a * c}x^2 + ${a * d + b * c}x + ${b * d}`
    expect(equivalent(factored, expanded)).toMatchObject({ equal: true })
    expect(equivalent(factored, `${a * c}x^2 + ${a * d + b * c}x + ${b * d + 1}`)).toMatchObject({ equal: false })
  }), { seed: 6, numRuns: 200 })
})
