import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { benchmark } from '../../src/tasks/benchmarks.js'
import { initEngine, tf } from '../../src/train/backend.js'
import { evaluateBenchmark, keepTranscript, keyOf, loadTeam, openEvaluation, type SpeakingTeam, type Transcript } from '../../src/train/evaluateBenchmark.js'
import { readTeamFile } from '../../src/train/teamFile.js'
import { sharedPath } from '../shared.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-eval-'))
afterAll(() => rmSync(folder, { recursive: true }))
await initEngine('wasm')
const models = sharedPath('models')
const settings = { k: 2, turns: 2, temperature: 1, topP: 1, maxTokens: 3, seed: 3, batch: 3 }

const data = join(folder, 'data.jsonl')
writeFileSync(data, [[1, '2+2?', '4'], [2, '3*7?', '21']].map(([id, problem, answer]) => JSON.stringify({ id, problem, answer })).join('\n'))
const aime = await benchmark('aime2024')
const { records } = await aime.load(data)

const teamFile = () => {
  const file = join(folder, 'team.json')
  writeFileSync(file, JSON.stringify({
    agents: [{ model: join(models!, 'tiny-qwen3'), adapter: join(models!, 'tiny-qwen3/adapter'), role: 'You solve.' }, { model: join(models!, 'tiny-qwen3') }],
  }))
  return readTeamFile(file)
}

const all = async (team: SpeakingTeam, has: (key: string) => boolean = () => false): Promise<Transcript[]> => {
  const held: Transcript[] = []
  for await (const transcript of evaluateBenchmark(aime, records, team, settings, has)) held.push(transcript)
  return held
}

test.skipIf(!models)('each agent reads its role and all that was said in its template; the last message is scored', async () => {
  const team = loadTeam(teamFile())
  const read: string[] = []
  // Speakers with known words in place of the models' own.
  const saying = (text: string, { policy, tokenizer, ...rest }: SpeakingTeam['agents'][number]): SpeakingTeam['agents'][number] => ({
    ...rest,
    tokenizer,
    policy: {
      ...policy,
      sample: async (_, prompts) => prompts.map((prompt) => {
        read.push(tokenizer.decode(prompt, { specials: true }))
        const tokens = [...tokenizer.encode(text), tokenizer.endToken]
        return { tokens, logProbs: tokens.map(() => 0), samplingLogProbs: tokens.map(() => 0) }
      }),
    },
  })
  const held = await all({ ...team, agents: [saying('I think it is 5.', team.agents[0]), saying('Answer: 21', team.agents[1])] })
  expect(held.map(({ id, sample, score }) => [id, sample, score])).toEqual([['1', 0, 0], ['1', 1, 0], ['2', 0, 1], ['2', 1, 1]])
  expect(held[2].messages.map(({ agent, text, finish }) => [agent, text, finish])).toEqual([[0, 'I think it is 5.', 'end'], [1, 'Answer: 21', 'end']])
  expect(read[0]).toContain('You solve.')
  expect(read[0]).toContain('2+2?')
  expect(read[3]).toContain('I think it is 5.')
  expect(read[3]).not.toContain('You solve.')
  team.dispose()
})

test.skipIf(!models)('continued at any place, an evaluation has the conversations of one that was never stopped; the base is held once', async () => {
  const before = tf.memory().numTensors
  const file = teamFile()
  const team = loadTeam(file)
  expect(team.agents[0].source).toBe(team.agents[1].source)
  const whole = await all(team)
  const out = join(folder, 'run')
  const first = openEvaluation(out, aime, records, file, settings)
  keepTranscript(first.transcripts, whole[0])
  expect(() => openEvaluation(out, aime, records, file, settings)).toThrow('works on this run')
  first.unlock()
  appendFileSync(first.transcripts, Buffer.from([...Buffer.from('{"id":"to'), 0xe2]))

  expect(() => openEvaluation(out, aime, records, file, { ...settings, k: 3 })).toThrow('k: holds 2; this evaluation has 3')
  expect(() => openEvaluation(out, aime, records.slice(1), file, settings)).toThrow('records: holds')
  expect(() => openEvaluation(out, aime, records, { ...file, router: [0] }, settings)).toThrow('team.router')
  expect(() => openEvaluation(join(first.transcripts, 'below'), aime, records, file, settings)).toThrow('below: cannot be made: ENOTDIR')

  const again = openEvaluation(out, aime, records, file, settings)
  expect(again.done).toHaveLength(1)
  const has = new Set(again.done.map(keyOf))
  for (const transcript of await all(team, (key) => has.has(key))) keepTranscript(again.transcripts, transcript)
  again.unlock()
  expect(readFileSync(again.transcripts, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as unknown)).toEqual(JSON.parse(JSON.stringify(whole)))
  team.dispose()
  expect(tf.memory().numTensors).toBe(before)
})

test.skipIf(!models)('a conversation that outgrows the model ends with a reason and loses no other', async () => {
  const team = loadTeam(teamFile())
  const long = { ...(records[0] as object), id: 'long', problem: 'word '.repeat(3000) }
  const held: Transcript[] = []
  for await (const each of evaluateBenchmark(aime, [long, records[1]], team, { ...settings, k: 1 }, () => false)) held.push(each)
  expect(held[0]).toMatchObject({ id: 'long', score: 0, verdict: 'invalid', messages: [] })
  expect(held[0].reason).toMatch(/^message 1: \d+ tokens, and 3 to come, are more than the model's 1024 positions$/)
  expect(held[1].messages).toHaveLength(2)
  team.dispose()
})
