import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuTime } from '../../cpu.js'
import { interpreter, literal, PythonSyntaxError, Raised, Stopped } from '../../../src/tasks/autologi/python/python.js'
import { repr } from '../../../src/tasks/autologi/python/show.js'
import { newMeter, PyDict, PyList, PySet, PyTuple, type Value } from '../../../src/tasks/autologi/python/values.js'

const shown = (value: Value): string => repr(value, newMeter({ steps: 1e6, milliseconds: 1e4, cells: 1e7 }))

/** A value on one line, sets in sorted order, since Python promises none. */
const show = (value: Value): string => {
  if (value instanceof PySet) return `${value.frozen ? 'frozenset' : 'set'}{${[...value.map.values()].map(show).sort().join(', ')}}`
  if (value instanceof PyList && !value.deque) return `[${value.items.map(show).join(', ')}]`
  if (value instanceof PyTuple) return `(${value.items.map(show).join(', ')},)`
  if (value instanceof PyDict && value.kind === 'dict')
    return `{${[...value.map.values()].map(([key, item]) => `${show(key)}: ${show(item)}`).join(', ')}}`
  return shown(value)
}

/** What a program leaves in `result`, or the type of the exception it raises. */
const runHere = (source: string): string => {
  const python = interpreter({ steps: 5e6, milliseconds: 20_000, cells: 5e7 })
  try {
    python.run(source)
    return show(python.get('result') ?? null)
  } catch (error) {
    if (error instanceof Raised) return `raises ${error.exception.type.name}`
    if (error instanceof PythonSyntaxError) return 'raises SyntaxError'
    if (error instanceof Stopped) return 'stopped'
    throw error
  }
}

const DRIVER = `
import io, json, sys
def show(v):
    if isinstance(v, (set, frozenset)):
        return type(v).__name__ + '{' + ', '.join(sorted(map(show, v), key=lambda s: s.encode('utf-16-be', 'surrogatepass'))) + '}'
    if type(v) is list:
        return '[' + ', '.join(map(show, v)) + ']'
    if isinstance(v, tuple):
        return '(' + ', '.join(map(show, v)) + ',)'
    if type(v) is dict:
        return '{' + ', '.join(show(k) + ': ' + show(x) for k, x in v.items()) + '}'
    return repr(v)
real, sys.stdout = sys.stdout, io.StringIO()
out = []
for source in json.load(sys.stdin):
    space = {}
    try:
        exec(source, space)
        out.append(show(space['result']))
    except BaseException as e:
        out.append('raises ' + ('SyntaxError' if isinstance(e, SyntaxError) else type(e).__name__))
json.dump(out, real)
`
const runThere = (sources: readonly string[]): string[] => {
  const { stdout, status, stderr } = spawnSync('python3', ['-W', 'ignore', '-c', DRIVER], {
    input: JSON.stringify(sources),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    timeout: 60_000,
  })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as string[]
}

/** All agree, but for those that run into our limits; and enough of them do not raise. */
const agree = (sources: readonly string[]): void => {
  const expected = runThere(sources)
  const actual = sources.map(runHere)
  const differing = sources.flatMap((source, i) =>
    actual[i] === expected[i] || actual[i] === 'stopped' ? [] : [{ source, python: expected[i], here: actual[i] }],
  )
  expect(differing.slice(0, 10)).toEqual([])
  expect(actual.filter((text) => text === 'stopped').length).toBeLessThan(sources.length / 50)
  expect(expected.filter((text) => !text.startsWith('raises')).length).toBeGreaterThan(sources.length / 10)
}

const hasPython = spawnSync('python3', ['-c', 'import sys; sys.exit(0 if sys.version_info >= (3, 8) else 1)']).status === 0

const here = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8').trimEnd()
/** One a line. */
const expressions = here('expressions.txt').split('\n')
/** Set apart by lines of four dashes. */
const programs = here('programs.txt').split('\n----\n')

describe.skipIf(!hasPython)('agrees with CPython (needs python3)', () => {
  test('on handmade programs', () => agree([...expressions.map((expression) => `result = (${expression})`), ...programs]))

  test('on random expressions', () => {
    const leaf = fc.constantFrom(
      '0',
      '1',
      '-1',
      '2',
      '3',
      '7',
      '-4',
      '10',
      'True',
      'False',
      'None',
      '0.5',
      '-1.5',
      '2.0',
      '""',
      '"a"',
      '"ab"',
      '"Ba"',
      '[]',
      '[1, 2, 3]',
      '(1, 2)',
      '{"a": 1}',
      '{1, 2}',
      'x',
      'y',
      's',
      'l',
      'd',
      '10**20',
    )
    const { expression } = fc.letrec<{ expression: string }>((tie) => {
      const e = tie('expression')
      const all = (template: (...parts: string[]) => string, count: number) =>
        fc.tuple(...Array.from({ length: count }, () => e)).map((parts) => template(...parts))
      return {
        expression: fc.oneof(
          { depthSize: 'small', withCrossShrink: true },
          leaf,
          fc.tuple(e, fc.constantFrom('+', '-', '*', '//', '%', '/', '&', '|', '^'), e).map(([a, o, b]) => `(${a} ${o} ${b})`),
          fc.tuple(e, fc.constantFrom('==', '!=', '<', '<=', '>', '>=', 'in', 'not in'), e).map(([a, o, b]) => `(${a} ${o} ${b})`),
          fc
            .tuple(e, fc.constantFrom('<', '<=', '==', '!='), e, fc.constantFrom('<', '>='), e)
            .map(([a, o, b, p, c]) => `(${a} ${o} ${b} ${p} ${c})`),
          all((a, b) => `(${a} and ${b})`, 2),
          all((a, b) => `(${a} or ${b})`, 2),
          all((a) => `(not ${a})`, 1),
          all((a) => `(-${a})`, 1),
          all((a) => `(+${a})`, 1),
          all((a, b, c) => `(${a} if ${b} else ${c})`, 3),
          all((a, b) => `[${a}, ${b}]`, 2),
          all((a, b) => `(${a}, ${b})`, 2),
          all((a, b) => `{${a}: ${b}}`, 2),
          all((a, b) => `{${a}, ${b}}`, 2),
          all((a, b) => `(${a})[${b}]`, 2),
          all((a, b, c) => `(${a})[${b}:${c}]`, 3),
          all((a, b, c) => `(${a})[${b}::${c}]`, 3),
          fc
            .tuple(
              fc.constantFrom('len', 'abs', 'bool', 'int', 'float', 'sum', 'min', 'max', 'sorted', 'any', 'all', 'repr', 'tuple', 'round'),
              e,
            )
            .map(([f, a]) => `${f}(${a})`),
          all((a, b) => `[x for x in ${a} if ${b}]`, 2),
          all((a, b) => `sum(1 for x in ${a} if x == ${b})`, 2),
          all((a) => `(lambda x: ${a})(2)`, 1),
          all((a) => `f"{${a}}"`, 1).filter((text) => !/["'\\].*["'\\]/.test(text.slice(2, -1)) && !text.slice(2, -1).includes('"')),
          all((a, b) => `isinstance(${a}, type(${b}))`, 2),
          all((a, b) => `divmod(${a}, ${b})`, 2),
          all((a, b) => `max(${a}, ${b})`, 2),
          all((a) => `list(enumerate(${a}))`, 1),
          all((a, b) => `list(zip(${a}, ${b}))`, 2),
        ),
      }
    })
    // what depends on the order of a set is Python's own business
    const ordered = (source: string): boolean =>
      !/[&|^]|\{.*,/.test(source) || !/(list|tuple|zip|enumerate|sum|min|max|sorted|repr|f"|for x in|any|all|<|>)/.test(source)
    const sources = fc
      .sample(expression, { numRuns: 2500, seed: 14 })
      .filter(ordered)
      .map((text) => `x = 3\ny = -2.5\ns = "hello"\nl = [4, 1, 3]\nd = {"a": [1], 2: "b"}\nresult = ${text}`)
    agree(sources)
  })

  test('on random programs', () => {
    const name = fc.constantFrom('a', 'b', 'c')
    const atom = fc.oneof(name, fc.constantFrom('0', '1', '2', '5', '-3', 'len(l)', 'sum(l)', 'i', 'l[a]', 'l[-1]', 'f(b)', 'g(a, c)'))
    const value = fc.oneof(atom, fc.tuple(atom, fc.constantFrom('+', '-', '*', '//', '%'), atom).map((parts) => parts.join(' ')))
    const condition = fc.tuple(value, fc.constantFrom('<', '==', '!=', '>=', 'in [1, 2] or 1 <'), value).map((parts) => parts.join(' '))
    // Python itself has no limit of steps or size
    const FUEL = ['fuel -= 1', 'if fuel < 0: raise RuntimeError']
    const indent = (lines: string[]): string[] => lines.map((line) => `  ${line}`)
    const { block } = fc.letrec<{ statement: string[]; block: string[] }>((tie) => ({
      block: fc.array(tie('statement'), { minLength: 1, maxLength: 3 }).map((statements) => statements.flat()),
      statement: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc
          .tuple(name, fc.constantFrom('=', '+=', '-=', '*=', '//=', '%='), value)
          .map((parts) => [parts.join(' '), `${parts[0]} = h(${parts[0]})`]),
        fc.oneof<fc.Arbitrary<string[]>[]>(
          value.map((v) => [`l.append(${v})`]),
          fc.constantFrom<string[][]>(
            ['pass'],
            ['a, b = b, a'],
            ['l = l[:9]'],
            ['del l[0]'],
            ['a, *c_ = l'],
            ['l = [x * 2 for x in l if x != b][:8]'],
            ['a = max(l)'],
          ),
        ),
        fc
          .constantFrom<string[][]>(['break'], ['continue'], ['raise ValueError(a)'], ['assert a > b'], ['return a'], ['1 / 0'])
          .map((lines) => ['if a % 3 == 0:', ...indent(lines)]),
        fc.tuple(condition, tie('block'), tie('block')).map(([test, x, y]) => [`if ${test}:`, ...indent(x), 'else:', ...indent(y)]),
        fc
          .tuple(fc.constantFrom('range(3)', 'l[:3]', 'range(a % 5)', '(1, 2)'), tie('block'), tie('block'))
          .map(([over, x, y]) => [`for i in ${over}:`, ...indent(FUEL), ...indent(x), 'else:', ...indent(y)]),
        fc
          .tuple(condition, tie('block'))
          .map(([test, x]) => ['n = 0', `while n < 4 and (${test}):`, '  n += 1', ...indent(FUEL), ...indent(x)]),
        fc
          .tuple(
            tie('block'),
            fc.constantFrom('ZeroDivisionError', '(IndexError, ValueError)', 'Exception as e', 'LookupError'),
            tie('block'),
            tie('block'),
          )
          .map(([x, type, y, z]) => ['try:', ...indent(x), `except ${type}:`, ...indent(y), 'finally:', ...indent(z)]),
      ),
    }))
    const sources = fc
      .sample(block, { numRuns: 1000, seed: 5 })
      .map((lines) =>
        [
          'def f(x):',
          '  return x % 7 if x > 0 else -x',
          'def g(x, y=2):',
          '  if x > y: return g(y, x - 1) if x < 6 else y',
          '  return x',
          'def h(x): return x if -10**9 < x < 10**9 else x % 1009',
          'l = [3, 1, 2]',
          'fuel = 60',
          'def run(a, b, c):',
          '  global l, fuel',
          '  i = 0',
          ...indent(lines),
          '  return a, b, c, l',
          'result = (run(1, 2, 3), l)',
        ].join('\n'),
      )
    agree(sources)
  })
})

describe('limits', () => {
  const small = { steps: 2_000_000, milliseconds: 5000, cells: 20_000_000 }
  test.each<[string, string]>([
    ['an endless loop', 'while True: pass'],
    ['an endless generator', 'from itertools import count\nsum(count())'],
    ['an endless cycle', 'from itertools import cycle\nlist(cycle([1]))'],
    ['a long string', 'x = "a" * 10**9'],
    ['a doubling string', 'x = "a"\nwhile True: x += x'],
    ['a doubling list', 'x = [1]\nwhile True: x += x'],
    ['a long range as a list', 'list(range(10**12))'],
    ['a power', '9 ** 9 ** 9'],
    ['squares of squares', 'x = 3\nwhile True: x *= x'],
    ['a shift', '1 << 10**9'],
    ['a factorial', 'import math\nmath.factorial(10**7)'],
    ['equal structures that share their parts', 'a = b = [1]\nc = [1]\nfor _ in range(60):\n  a = [a, a]\n  c = [c, c]\na == c'],
    ['a key that shares its parts', 't = (1,)\nfor _ in range(60): t = (t, t)\n{t: 1}'],
    ['showing what shares its parts', 't = [1]\nfor _ in range(60): t = [t, t]\nrepr(t)'],
    ['many permutations', 'from itertools import permutations\nfor p in permutations(range(12)): pass'],
    ['a wide format', 'f"{1:999999999}"'],
    ['padding', '"a".ljust(10**10)'],
    ['catching everything', 'while True:\n  try:\n    while True: pass\n  except BaseException: pass\n  except: pass'],
    ['returning from finally', 'def f():\n  try:\n    while True: pass\n  finally:\n    return 1\nf()'],
    ['exponential calls', 'def f(n): return f(n - 1) + f(n - 1) if n else 1\nf(100)'],
    ['deep data', 'x = []\ny = []\nfor _ in range(10**4):\n  x = [x]\n  y = [y]\nx == y\n'],
    ['replacing', '("a" * 10**6).replace("a", "b" * 10**6)'],
    ['joining', '("a" * 10**6).join(["b"] * 10**6)'],
    ['many sets', 's = []\nwhile True: s.append({1, 2, 3, (4, 5)})'],
    ['unsupported modules', 'import os'],
    ['unsupported members', 'from itertools import tee'],
  ])('%s is stopped', (_, source) => {
    const start = cpuTime()
    let caught: unknown
    try {
      interpreter(small).run(source)
    } catch (error) {
      caught = error
    }
    // RecursionError is Python's own limit
    expect(caught instanceof Stopped || (caught instanceof Raised && caught.exception.type.name === 'RecursionError')).toBe(true)
    expect(cpuTime() - start).toBeLessThan(4000)
  })

  test.each([
    '('.repeat(1e5),
    '['.repeat(199) + ']'.repeat(199),
    `x = ${'-'.repeat(1e5)}1`,
    `x = ${'1+'.repeat(1e5)}1`,
    `x = ${'not '.repeat(1e5)}1`,
    `x${'.a'.repeat(1e5)}`,
    ' '.repeat(2e6),
    `a${'[0]'.repeat(1e5)}`,
    `f"${'{'.repeat(1e5)}`,
    Array.from({ length: 300 }, (_, i) => `${' '.repeat(i)}if 1:`).join('\n'),
    `${'lambda: '.repeat(1e5)}1`,
    `"""${'x'.repeat(1e5)}`,
    `x = ${'1 if 1 else '.repeat(1e5)}1`,
    `x = 1${' if 1 else 1'.repeat(1e5)}`,
    '\\'.repeat(1e5),
    `${'#'.repeat(1e5)}\n`,
    `if 1: pass\n${'elif 1: pass\n'.repeat(1e4)}`,
  ])('source that goes too deep or too long: no other error than ours (%#)', (source) => {
    try {
      interpreter(small).run(source)
    } catch (error) {
      expect(error instanceof PythonSyntaxError || error instanceof Stopped || error instanceof Raised).toBe(true)
    }
  })
})

describe('what a program cannot reach', () => {
  test.each([
    '().__class__',
    '"".__class__.__mro__',
    'int.__subclasses__()',
    '(lambda: 0).__globals__',
    '"{0.__class__}".format(1)',
    'len.call',
    'len.constructor',
    '[].constructor',
    '{}.__proto__',
    '"".toString',
    '[].items',
    '(1).constructor',
    'dict.map',
    'Exception("x").type',
    'eval("1")',
    'exec("1")',
    'open("/etc/passwd")',
    '__import__("os")',
    'globals()',
    'getattr([], "items")',
    'compile("1", "", "eval")',
    'process',
    'globalThis',
    'constructor',
    '__proto__',
    'toString',
    'input()',
    'isinstance.__self__',
    'dict.fromkeys.constructor',
    'sorted.name',
    '(x for x in [1]).iterator',
    '(x for x in [1]).gi_frame',
    'range(3).start.constructor',
    'print.__call__',
    'slice(1).start.a',
  ])('%s', (expression) => {
    let caught: unknown
    try {
      interpreter().run(expression)
    } catch (error) {
      caught = error
    }
    expect(caught).toBeInstanceOf(Raised)
    expect(['AttributeError', 'NameError']).toContain((caught as Raised).exception.type.name)
  })

  test('names of JavaScript\'s own are ordinary names', () => {
    const python = interpreter()
    python.run(
      [
        'd = {"__proto__": 1, "constructor": 2}',
        'constructor = 3',
        'def hasOwnProperty(toString): return toString + constructor',
        'x = [d["__proto__"], d.get("toString"), hasOwnProperty(4), hasOwnProperty(toString=5)]',
      ].join('\n'),
    )
    expect(shown(python.get('x')!)).toBe('[1, None, 7, 8]')
  })
})

describe('literals', () => {
  test.each([
    ['[1, -2, +3, 1.5, -0.5, 1e3]', '[1, -2, 3, 1.5, -0.5, 1000.0]'],
    ['{"a": {1, 2}, \'b\': (1,), "c": ()}', "{'a': {1, 2}, 'b': (1,), 'c': ()}"],
    ['set()', 'set()'],
    ['  [True, False, None]\n', '[True, False, None]'],
    ['"a" "b"', "'ab'"],
    ['1, 2', '(1, 2)'],
    ['[1,\n 2, # two\n]', '[1, 2]'],
    ['{}', '{}'],
    ['"中\\u4e2d"', "'中中'"],
    ['...', 'Ellipsis'],
    [`${'['.repeat(190)}${']'.repeat(190)}`, `${'['.repeat(190)}${']'.repeat(190)}`],
  ])('%s', (source, expected) => expect(shown(literal(source))).toBe(expected))
  test.each([
    'x',
    '1 + 1',
    'f()',
    'set([1])',
    '[x for x in []]',
    '{**{}}',
    '[*[]]',
    '-"a"',
    'not True',
    'f"a"',
    '',
    '[1',
    '1 2',
    'a = 1',
    'lambda: 1',
    '"a" if 1 else 2',
    '\n  1',
    '"a".upper()',
    '[1][0]',
    '~1',
  ])('%s is none', (source) => {
    expect(() => literal(source)).toThrow(PythonSyntaxError)
  })
  test('an unhashable member raises', () => {
    expect(() => literal('{[]}')).toThrow(Raised)
    expect(() => literal('{{}: 1}')).toThrow(Raised)
  })
  test.skipIf(!hasPython)('random text is a literal here if and only if it is one there (needs python3)', () => {
    const token = fc.constantFrom(
      '[',
      ']',
      '{',
      '}',
      '(',
      ')',
      ',',
      ':',
      ' ',
      '1',
      '-',
      '"a"',
      "'b'",
      'True',
      'None',
      'x',
      '1.5',
      '\n',
      'set()',
      '+',
      '1e5',
      '0',
      '#c',
    )
    const texts = fc.sample(fc.array(token, { maxLength: 12 }).map((parts) => parts.join('')), { numRuns: 3000, seed: 9 })
      // CPython 3.11 stumbles over blanks in a last line of their own; we read on
      .filter((text) => !/\n +$/.test(text))
    const driver =
      [
        'import ast, json, sys',
        'out = []',
        'for t in json.load(sys.stdin):',
        '  try: out.append(repr(ast.literal_eval(t)))',
        '  except Exception: out.append(None)',
        'json.dump(out, sys.stdout)',
      ].join('\n')
    const { stdout } = spawnSync('python3', ['-W', 'ignore', '-c', driver], { input: JSON.stringify(texts), encoding: 'utf8' })
    const there = JSON.parse(stdout) as (string | null)[]
    const mine = texts.map((text) => {
      try {
        return shown(literal(text))
      } catch {
        return null
      }
    })
    expect(texts.flatMap((text, i) => (mine[i] === there[i] ? [] : [{ text, here: mine[i], there: there[i] }]))).toEqual([])
  })
})
