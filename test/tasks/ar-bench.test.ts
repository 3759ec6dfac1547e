import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { detectiveCases, keyQuestionsHit, type DetectiveCase, type InterrogationState } from '../../src/tasks/ar-bench/detectiveCases.js'
import { guessingNumbers } from '../../src/tasks/ar-bench/guessingNumbers.js'
import { judgeKeyPoints } from '../../src/tasks/ar-bench/keyPoints.js'
import { f1, keyPointsMet, situationPuzzles } from '../../src/tasks/ar-bench/situationPuzzles.js'
import { playAlone, scoreResponse, teamTask, type Benchmark } from '../../src/tasks/benchmark.js'
import { sharedPath } from '../shared.js'

const load = async <R>(benchmark: Benchmark<R>, file: string): Promise<R[]> => {
  const { records, errors } = await benchmark.load(sharedPath(`benchmarks/ar-bench/${file}`)!)
  expect(errors).toEqual([])
  return records
}
const there = sharedPath('benchmarks/ar-bench') !== undefined

/** Any text is scored, within [0, 1]. */
const fuzz = <R>(benchmark: Benchmark<R>, record: R): void => {
  fc.assert(fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string().map((text) => `Answer: ${text}`)), (text) => {
    const { score, reason } = benchmark.score(record, text)
    expect(score >= 0 && score <= 1 && reason.length > 0).toBe(true)
  }))
  expect(scoreResponse(benchmark, record, 'A'.repeat(2 ** 22 + 1))).toMatchObject({ score: 0, verdict: 'invalid' })
  expect(benchmark.score(record, 'Answer: A '.repeat(4e5)).score).toBeLessThanOrEqual(1)
}

describe.skipIf(!there)('AR-Bench guessing numbers', () => {
  it('loads every record; the code scores 1, another 0', async () => {
    const records = await load(guessingNumbers, 'gn/sample.json')
    expect(records).toHaveLength(30)
    for (const record of records) {
      const wrong = record.secret.slice(1) + record.secret[0]
      expect(guessingNumbers.score(record, `Guess: ${wrong}, no: Guess: ${record.secret}`)).toMatchObject({ score: 1, verdict: 'correct' })
      expect(guessingNumbers.score(record, `Guess: ${record.secret}, no: ${wrong}`)).toMatchObject({ score: 0, verdict: 'wrong' })
      expect(guessingNumbers.score(record, wrong).measures).toMatchObject({ 'inner score (2A + B)': [4, 8] })
    }
    expect(guessingNumbers.score(records[0], 'no idea: 123')).toMatchObject({ score: 0, verdict: 'invalid' })
    fuzz(guessingNumbers, records[0])
  })

  it('is played in turns, and answers in the benchmark\'s words', async () => {
    const [record] = await load(guessingNumbers, 'gn/sample.json')
    const task = teamTask(guessingNumbers, 26)
    const first = task.step(task.start({ id: '1', record }), 'Guess: 0123')
    expect(first.context).toMatch(/0 digits are present in the answer and in the correct positions\n2 digits are present in the answer but in the different/)
    expect(task.step(first, `Guess: ${record.secret}`)).toMatchObject({ done: true, reward: 1 })
  })
})

describe.skipIf(!there)('AR-Bench detective cases', () => {
  const letter = (record: DetectiveCase, shift = 0): string => 'ABCDE'[(record.label + shift) % 5]

  it('loads every record; the murderer scores 1, anyone else 0', async () => {
    const records = await load(detectiveCases, 'dc/sample.json')
    expect(records).toHaveLength(20)
    for (const record of records) {
      expect(detectiveCases.score(record, `Reason: a hunch\nAnswer: ${letter(record)}`)).toMatchObject({ score: 1, verdict: 'correct' })
      for (let shift = 1; shift < 5; shift++) expect(detectiveCases.score(record, `Answer: ${letter(record, shift)}`).score).toBe(0)
      expect(detectiveCases.score(record, letter(record))).toMatchObject({ score: 0, verdict: 'invalid' })
      expect(detectiveCases.prompt(record)).toContain(`${letter(record)}. ${record.initial_information.suspect[record.label].name}`)
    }
    fuzz(detectiveCases, records[0])
  })

  it('takes the last capital A to E of the first answer line', async () => {
    const [record] = await load(detectiveCases, 'dc/sample.json')
    const answered = (text: string) => detectiveCases.score(record, text).reason
    expect(answered('Answer: A or B.\nAnswer: C')).toMatch(/^B is /)
    expect(answered('Answer:\n\n  D')).toMatch(/^D is |^D is the/)
    expect(answered('Answer: Blake')).toMatch(/^B is /)
    expect(answered('Answer: none')).toBe('no letter A to E after "Answer:"')
    expect(answered('answer: A')).toBe('no "Answer:"')
  })

  it('is an interrogation: suspects answer in their roles, a wrong name loses the turn', async () => {
    const [record] = await load(detectiveCases, 'dc/sample.json')
    const prompts: string[] = []
    const game = detectiveCases.game!(3, async (prompt) => {
      prompts.push(prompt)
      return 'I was in bed.'
    })
    const script = ['"Dr. Margaret Langley"', 'Where were you?', 'the butler', ' Dr. Margaret Langley.', 'Really?', `Answer: ${letter(record)}`]
    const requests: string[] = []
    const end = (await playAlone(game, { id: '1', record }, async (context) => {
      requests.push(context.slice(-400))
      return script.shift()!
    })) as InterrogationState
    expect(end).toMatchObject({ done: true, reward: 1, turn: 6, final: { score: 1 } })
    expect(end.asked.map(({ question }) => question)).toEqual(['Where were you?', 'Really?'])
    expect(end.context).toContain('Dr. Margaret Langley: I was in bed.')
    expect(requests[3]).toContain('the butler\n\nThat is not the name of a suspect: the turn is lost.')
    expect(requests[5]).toMatch(/Answer: X\n$/)
    const { story, task } = record.suspects.find(({ name }) => name === 'Dr. Margaret Langley')!
    expect(prompts[1]).toContain(story)
    expect(prompts[1]).toContain(task)
    expect(prompts[1]).toContain('Detective: Where were you?\nDr. Margaret Langley: I was in bed.\nDetective: Really?')
    // What a suspect knows must not leak into the context of the detectives.
    expect(end.context).not.toContain(story.slice(0, 60))
    expect(await game.step(end, 'Answer: A')).toMatchObject({ reward: 0, final: { score: 1 } })
  })

  it('asks a judge which key questions were hit', async () => {
    const [record] = await load(detectiveCases, 'dc/sample.json')
    const asked = [
      { suspect: 'Dr. Margaret Langley', question: 'Had you the weapon?', answer: 'No.' },
      { suspect: 'Mr. Theodore Blake', question: 'And you?', answer: 'No.' },
    ]
    const points = await keyQuestionsHit(record, asked, async (prompt) => (prompt.includes('Langley: Had you') ? 'Match point: 1, Match count: 1' : ''))
    expect(points.met).toEqual([record.suspects.find(({ name }) => name.includes('Langley'))!.key_question![0]])
    expect(points.of).toBeGreaterThan(1)
  })

  it('fails when the model fails, and with nothing else', async () => {
    const [record] = await load(detectiveCases, 'dc/sample.json')
    const game = detectiveCases.game!(1, async () => Promise.reject(new Error('out of order')))
    const state = await game.step(game.start({ id: '1', record }), record.suspects[0].name)
    await expect(game.step(state, 'Why?')).rejects.toThrow('out of order')
  })
})

describe.skipIf(!there)('AR-Bench situation puzzles', () => {
  /** F1 from its definition: precision and recall of the multiset intersection. */
  const f1ByDefinition = (predicted: readonly string[], truth: readonly string[]): number => {
    const rest = [...truth]
    const common = predicted.filter((item) => rest.includes(item) && rest.splice(rest.indexOf(item), 1)).length
    if (common === 0) return 0
    const precision = common / predicted.length
    const recall = common / truth.length
    return (2 * precision * recall) / (precision + recall)
  }

  it('loads every record; the truth scores 1, half of it less, another truth little', async () => {
    const records = await load(situationPuzzles, 'sp/sample.json')
    expect(records).toHaveLength(25)
    records.forEach((record, i) => {
      const { bottom } = record
      expect(situationPuzzles.score(record, bottom)).toMatchObject({ score: 1, verdict: 'correct' })
      expect(situationPuzzles.score(record, bottom.slice(0, bottom.length / 2))).toMatchObject({ verdict: 'partial' })
      expect(situationPuzzles.score(record, records[(i + 1) % records.length].bottom).score).toBeLessThan(0.5)
      expect(situationPuzzles.score(record, 'Xyzzy')).toMatchObject({ score: 0, verdict: 'wrong' })
    })
    fuzz(situationPuzzles, records[0])
  })

  it('computes F1 as defined', () => {
    const items = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 12 })
    fc.assert(fc.property(items, items, (x, y) => {
      expect(f1(x, y)).toBeCloseTo(f1ByDefinition(x, y), 12)
    }))
  })

  it('is a round of yes/no questions to a referee', async () => {
    const [record] = await load(situationPuzzles, 'sp/sample.json')
    const referee = async (prompt: string) => (prompt.includes(record.bottom) && prompt.includes('alive?') ? ' Yes.\n' : 'Unknown')
    const script = ['Is he alive?', 'Is it Tuesday?', record.bottom]
    const end = await playAlone(situationPuzzles.game!(2, referee), { id: '1', record }, async () => script.shift()!)
    expect(end).toMatchObject({ done: true, reward: 1, turn: 3 })
    expect(end.context).toContain('Is he alive?\n\nYes\n\nQuestion 2 of 2')
    expect(end.context).toContain('Is it Tuesday?\n\nUnknown\n\nExplain')
    const points = await keyPointsMet(record, record.bottom, async () => 'Match point: 1, 3, 99, Match count: 3')
    expect(points).toEqual({ met: [record.key_question![0], record.key_question![2]], of: record.key_question!.length })
  })

  it('reads a judge\'s list whatever it holds', async () => {
    const met = async (reply: string) => (await judgeKeyPoints(async () => reply, 'q', ['a', 'b'])).met
    expect(await met('match point: 2,2 , 1')).toEqual(['a', 'b'])
    expect(await met('Match point: none, Match count: 0')).toEqual([])
    expect(await met(`Match point: ${'1'.repeat(1e6)}`)).toEqual([])
    await fc.assert(fc.asyncProperty(fc.string(), async (reply) => void (await met(reply))))
  })
})

describe('AR-Bench records', () => {
  it('one bad record never loses the others', async () => {
    const { mkdtempSync, writeFileSync } = await import('node:fs')
    const file = `${mkdtempSync('/tmp/ar-bench-')}/gn.json`
    writeFileSync(file, '["1234", "1224", 1234, "0987", null]')
    const { records, errors } = await guessingNumbers.load(file)
    expect(records).toEqual([{ id: '1', secret: '1234' }, { id: '4', secret: '0987' }])
    expect(errors.map(({ line }) => line)).toEqual([2, 3, 5])
    expect(errors[0].error).toBe('record: holds "1224"; expected a string of 4 different digits')
    writeFileSync(file, '{"no": "array"}')
    await expect(guessingNumbers.load(file)).rejects.toThrow(/expected an array of records/)
  })
})
