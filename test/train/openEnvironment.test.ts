import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/train/config.js'
import { openEnvironment } from '../../src/train/openEnvironment.js'
import { readTrainingConfig } from '../../src/train/readTrainingConfig.js'
import { random } from '../../src/util/random.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-environment-'))
afterAll(() => rmSync(folder, { recursive: true }))
const write = (name: string, content: string): string => {
  const file = join(folder, name)
  writeFileSync(file, content)
  return file
}
const records = (name: string, count: number, from = 0): string =>
  write(name, Array.from({ length: count }, (_, i) => JSON.stringify({ id: from + i, problem: `${from + i} + 1`, answer: String(from + i + 1) })).join('\n'))
const config = (task: object) => parseConfig({ team: { agents: [{ model: 'a' }, { model: 'a' }] }, task: { name: 'benchmark', benchmark: 'math500', ...task } })

describe('a benchmark’s records', () => {
  const file = records('sums.jsonl', 100)

  it('are split by what they ask, so that nothing that is evaluated on is trained on, in whichever order they stand', async () => {
    const ids = async (path: string, side: 'train' | 'test') => {
      const { problems } = await openEnvironment(config({ file: path }))
      return problems(side, 1000, random(1)).map(({ id }) => id).sort()
    }
    const [train, test] = [await ids(file, 'train'), await ids(file, 'test')]
    expect(train.length + test.length).toBe(100)
    expect(test.length).toBeGreaterThan(10)
    expect(test.length).toBeLessThan(35)
    expect(train.filter((id) => test.includes(id))).toEqual([])
    expect(await ids(records('more.jsonl', 50), 'test')).toEqual(test.filter((id) => Number(id) < 50))
  })

  it('are drawn without repetition, and the same ones by the same seed', async () => {
    const { problems } = await openEnvironment(config({ file }))
    const drawn = problems('train', 20, random(3))
    expect(new Set(drawn).size).toBe(20)
    expect(problems('train', 20, random(3))).toEqual(drawn)
    expect(problems('train', 20, random(4))).not.toEqual(drawn)
  })

  it('are discussed, and the last message is scored', async () => {
    const { task, problems } = await openEnvironment(config({ file, turns: 2 }))
    const [problem] = problems('train', 1, random(1))
    const first = await task.step(task.start(problem), 'I guess \\boxed{-7}.')
    expect(first).toMatchObject({ done: false, reward: 0 })
    expect(await task.step(first, `\\boxed{${Number(problem.id) + 1}}`)).toMatchObject({ done: true, reward: 1 })
    expect(await task.step(first, '\\boxed{-7}')).toMatchObject({ done: true, reward: 0 })
    expect(task.rolePrompt!(problem, 0, 2)).toMatch(/agent 1 of 2/)
  })

  it('may have held-out ones in a file of their own, of another benchmark', async () => {
    const test = write('aime.jsonl', JSON.stringify({ id: 'x', problem: 'Six times seven?', answer: '42' }))
    const environment = await openEnvironment(config({ file, test: { benchmark: 'aime2024', file: test } }))
    expect(environment.problems('train', 1000, random(1))).toHaveLength(100)
    const [held, ...others] = environment.problems('test', 1000, random(1))
    expect([held.id, others]).toEqual(['x', []])
    expect(environment.testTask.start(held).context).toMatch(/Answer: \$Answer/)
  })

  it('that cannot be used are refused in one line', async () => {
    await expect(openEnvironment(config({ file: join(folder, 'nowhere.jsonl') }))).rejects.toThrow(/nowhere\.jsonl: /)
    await expect(openEnvironment(config({ file: write('bad.jsonl', '{"id": 1}') }))).rejects.toThrow(/bad\.jsonl: holds no record of math500 that can be read \(line 1: /)
    await expect(openEnvironment(config({ file: records('one.jsonl', 1) }))).rejects.toThrow(/one\.jsonl: holds 1 records, and none for the (train|test) side of the split/)
    await expect(openEnvironment(config({ file, judge: { url: 'http://localhost/v1', model: 'm' } }))).rejects.toThrow(/task\.judge: math500 is scored without one/)
  })
})

describe('a judged game', () => {
  it('waits for the model that judges', async () => {
    const file = write('puzzles.json', JSON.stringify(Array.from({ length: 20 }, (_, i) => ({ index: i, surface: `Riddle ${i}.`, bottom: `Answer ${i}.` }))))
    const asked: string[] = []
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        asked.push(request.url!)
        response.end(JSON.stringify({ choices: [{ message: { content: 'Yes' } }] }))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
    const { task, problems } = await openEnvironment(config({ benchmark: 'ar-bench-sp', file, turns: 3, judge: { url, model: 'judge' } }))
    const state = await task.step(task.start(problems('train', 1, random(1))[0]), 'Was it cold?')
    expect(asked).toHaveLength(1)
    expect(state.context).toMatch(/Was it cold\?[\s\S]*Yes/)
    server.closeAllConnections()
    server.close()
  })
})

describe('readTrainingConfig', () => {
  it('resolves what is relative to the file, and takes a team from its own file', () => {
    write('config.json', '{}')
    const base = join(folder, 'base')
    const agents = [{ model: './base', role: 'Add.' }, { model: 'base' }]
    const at = (name: string, content: object): unknown => readTrainingConfig(write(name, JSON.stringify(content)))
    writeFileSync(join(folder, 'base'), 'GGUF')
    const found = [{ model: base, role: 'Add.' }, { model: base }]
    expect(at('a.json', { team: { agents }, task: { name: 'benchmark', benchmark: 'math500', file: 'sums.jsonl' } }))
      .toEqual({ team: { agents: found }, task: { name: 'benchmark', benchmark: 'math500', file: join(folder, 'sums.jsonl') } })
    write('team.json', JSON.stringify({ agents, router: [1, 0] }))
    expect(at('b.json', { team: { file: 'team.json', frozen: [0] } })).toEqual({ team: { agents: found, router: [1, 0], frozen: [0] } })
    expect(at('c.json', { stages: 3 })).toEqual({ stages: 3 })
    expect(() => at('d.json', { team: { agents: [{ model: 'nowhere' }] } })).toThrow(/d\.json: team\.agents\[0\]\.model: holds "nowhere"; no such folder/)
    expect(() => at('e.json', { team: { file: 'team.json', agents: 2 } })).toThrow(/e\.json: team\.agents: holds 2; team\.file names the agents already/)
    expect(() => at('f.json', { team: { file: 7 } })).toThrow(/f\.json: team\.file: holds 7; expected the path of a team\.json/)
  })
})
