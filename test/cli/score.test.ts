import { mkdtempSync, readFileSync, writeFileSync, createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { addScore } from '../../src/cli/score.js'
import { statementText } from '../../src/tasks/planbench/language.js'
import { planningRecords } from '../../src/tasks/planbench/index.js'
import { shortestPlan } from '../../src/tasks/planbench/shortestPlan.js'
import { random } from '../../src/util/random.js'
import { sharedPath } from '../shared.js'

const folder = mkdtempSync(join(tmpdir(), 'score-'))
const data = join(folder, 'task.json')
const responses = join(folder, 'responses.jsonl')
const problems = planningRecords(4, 'train', 4, random(1)).map(({ problem }) => problem)
const plans = problems.map((problem) => shortestPlan(problem)!.map((step) => step.join(' ')).join('\n'))
writeFileSync(data, JSON.stringify({ instances: problems.map((problem, i) => ({ instance_id: i, query: `[STATEMENT]\n${statementText(problem)}` })) }))

afterEach(() => void vi.restoreAllMocks())

/** Runs `teamtr score`, and returns what it wrote. */
const score = async (...args: string[]): Promise<{ out: string; err: string }> => {
  const written = { out: '', err: '' }
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((written.out += String(text)), true))
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => ((written.err += String(text)), true))
  const program = new Command().exitOverride()
  addScore(program)
  await program.parseAsync(['score', '--benchmark', 'planbench', '--data', data, '--responses', responses, ...args], { from: 'user' })
  return written
}
const give = (...lines: (object | string)[]): void =>
  writeFileSync(responses, lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
const json = async (...args: string[]) => JSON.parse((await score('--json', ...args)).out) as Record<string, never> & {
  items: { id: string; score: number; reason: string }[]
  totals: Record<string, { estimate: number; low: number; high: number }>
  errors: { responses: { line: number; error: string }[] }
}

describe('teamtr score', () => {
  it('scores each response and the total', async () => {
    give({ id: 0, response: plans[0] }, { id: '1', response: 'no plan' }, { id: 2, response: plans[2] })
    const { out, err } = await score()
    expect(out).toMatch(/^0 +1\.000 +correct +the plan of \d+ steps reaches the goal$/m)
    expect(out).toMatch(/^1 +0\.000 +invalid +no action found$/m)
    expect(out).toContain('planbench: 3 of 4 records answered, 3 responses scored\n')
    expect(out).toMatch(/^score +0\.6667 +0\.0000 … 1\.0000$/m)
    expect(err).toBe('')
  })

  it('estimates pass@k and avg@k from several samples of each record', async () => {
    give(...[0, 1].flatMap((id) => [0, 1, 2, 3].map((sample) => ({ id, sample, response: sample < 1 + id ? plans[id] : '' }))))
    // One of 4 correct, and two of 4: pass@2 is 1 − C(3,2)/C(4,2) = 1/2, and 1 − 1/6.
    const { totals } = await json('-k', '2')
    expect(totals['pass@2'].estimate).toBeCloseTo((1 / 2 + 5 / 6) / 2, 12)
    expect(totals['avg@2'].estimate).toBeCloseTo((1 / 4 + 2 / 4) / 2, 12)
    expect(totals['pass@2'].low).toBeCloseTo(1 / 2, 12)
    expect((await json()).totals['pass@4'].estimate).toBe(1)
    await expect(score('-k', '5')).rejects.toThrow('-k: holds 5; record "0" has 4 responses')
    await expect(score('-k', 'two')).rejects.toThrow(/whole number/)
  })

  it('reports every line that cannot be read, by number, and loses no other', async () => {
    give({ id: 0, response: plans[0] }, 'not json', { id: 99, response: '' }, { id: 1 }, { id: 1, response: 7 }, { response: 'x' },
      { id: 0, response: 'again' }, '[1]', 'null', { id: 3, response: plans[3] })
    const { items, errors } = await json('--out', join(folder, 'out', 'scores.json'))
    expect(items.map(({ id, score: points }) => [id, points])).toEqual([['0', 1], ['3', 1]])
    expect(errors.responses.map(({ line, error }) => `${line} ${error}`)).toEqual([
      expect.stringMatching(/^2 is not JSON/), '3 id: no record has "99"', expect.stringMatching(/^4 line: response: missing/),
      expect.stringMatching(/^5 line: response: holds 7/), expect.stringMatching(/^6 line: id: missing/),
      '7 id: "0" occurred before with sample 0; the first counts', expect.stringMatching(/^8 line: holds \[1\]/), expect.stringMatching(/^9 line: holds null/),
    ])
    expect(JSON.parse(readFileSync(join(folder, 'out', 'scores.json'), 'utf8'))).toMatchObject({ answered: 2, unreadable: { lines: 8 } })
    const { err, out } = await score()
    expect(err).toContain(`${responses}:2: is not JSON`)
    expect(out).toContain(', 8 lines and 0 records unreadable')
  })

  it('fails in one line when nothing can be read', async () => {
    writeFileSync(responses, Buffer.from('{"id": 0, "response": "x"}\n', 'utf16le'))
    await expect(score()).rejects.toThrow(/responses\.jsonl: holds no response that can be read; the first, line 1: is not JSON/)
    give('')
    await expect(score()).rejects.toThrow(/holds no response that can be read$/)
    await expect(score('--responses', '/nowhere')).rejects.toThrow('/nowhere: no such file')
    await expect(score('--data', '/nowhere.json')).rejects.toThrow('/nowhere.json: no such file')
    give({ id: 0, response: '' })
    writeFileSync(join(folder, 'empty.json'), '[{"instance_id": 1}]')
    await expect(score('--data', join(folder, 'empty.json'))).rejects.toThrow(/holds no record of planbench that can be read; the first, line 1: record: query: missing/)
  })

  it('gives a response of 100 MB score 0 with a reason, in bounded time and memory', async () => {
    const stream = createWriteStream(responses)
    const megabyte = 'stack '.repeat(2 ** 20 / 6)
    for (const [before, after] of [['{"id": 0, "response": "', '"}\n'], ['{"response": "', '", "id": "1"}\n'], ['{"sample": 0, "id": 2, "response": "', '"}\n']]) {
      stream.write(before)
      for (let i = 0; i < 100; i++) if (!stream.write(megabyte)) await once(stream, 'drain')
      stream.write(after)
    }
    stream.end(`${JSON.stringify({ id: 3, response: plans[3] })}\n`)
    await once(stream, 'close')
    const start = performance.now()
    const memory = process.memoryUsage().rss
    const { items, errors } = await json()
    expect(items.map(({ id, score: points, reason }) => [id, points, reason.replace(/\d{9}/, 'N')])).toEqual([
      ['0', 0, 'the line is N bytes long; at most 33554432 are read'], ['1', 0, 'the line is N bytes long; at most 33554432 are read'],
      ['3', 1, expect.stringContaining('reaches the goal')],
    ])
    // Its id is neither the first nor the last field.
    expect(errors.responses).toMatchObject([{ line: 3, error: expect.stringMatching(/bytes long; at most/) as string }])
    expect(performance.now() - start).toBeLessThan(20_000)
    expect(process.memoryUsage().rss - memory).toBeLessThan(400 * 2 ** 20)
  })

  it.skipIf(!sharedPath('benchmarks'))('gives the ground truth of each of AR-Bench\'s samples a total of 1', async () => {
    for (const [name, file, truth] of [
      ['ar-bench-gn', 'gn', (record: string) => record],
      ['ar-bench-dc', 'dc', (record: { label: number }) => `Answer: ${'ABCDE'[record.label]}`],
      ['ar-bench-sp', 'sp', (record: { bottom: string }) => record.bottom],
    ] as [string, string, (record: unknown) => string][]) {
      const source = sharedPath(`benchmarks/ar-bench/${file}/sample.json`)!
      const records = JSON.parse(readFileSync(source, 'utf8')) as { index?: number }[]
      give(...records.map((record, i) => ({ id: record.index ?? i + 1, response: truth(record) })))
      const { totals } = await json('--benchmark', name, '--data', source)
      expect(Object.values(totals).map(({ estimate }) => estimate)).toEqual(Object.keys(totals).map(() => 1))
    }
  })
})
