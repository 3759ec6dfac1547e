import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allCodes, compare, drawConsistent, guessing, guessingAlphabet, guessingConfig, guessingProblem, guessingProblems, isConsistent, readGuess,
} from '../../src/tasks/guessing.js'
import { random } from '../../src/util/random.js'

const defaults = guessingConfig.parse({})

/** The definition, word for word: places that agree; then the multiset intersection less those. */
const compareByDefinition = (secret: string, guess: string) => {
  const a = [...secret].filter((digit, i) => digit === guess[i]).length
  const count = (text: string, digit: string) => text.split(digit).length - 1
  const common = [...'0123456789'].reduce((sum, digit) => sum + Math.min(count(secret, digit), count(guess, digit)), 0)
  return { a, b: common - a }
}

describe('guessing numbers', () => {
  it('counts places and digits', () => {
    expect(compare('1234', '1243')).toEqual({ a: 2, b: 2 })
    expect(compare('1234', '1111')).toEqual({ a: 1, b: 0 })
    expect(compare('1123', '3111')).toEqual({ a: 1, b: 2 })
    const code = fc.stringMatching(/^[0-4]{4}$/)
    fc.assert(fc.property(code, code, (secret, guess) => {
      expect(compare(secret, guess)).toEqual(compareByDefinition(secret, guess))
    }))
  })

  it('plays a game', () => {
    const task = guessing()
    const state = ['Guess: 1243', 'no idea', 'I say 0000 or rather 1234.'].reduce(task.step, task.start(guessingProblem('1234')))
    expect(state).toMatchObject({ context: ';1243:2A2B;?;1234:4A0B;', turn: 3, done: true, reward: 1 })
    expect(task.step(state, '1234')).toEqual({ ...state, reward: 0 })
    const sentences = guessing({ ...defaults, feedback: 'sentences' })
    expect(sentences.step(sentences.start(guessingProblem('1234')), '1243').context).toContain(
      '\nGuess: 1243\n2 digits are present in the answer and in the correct positions\n' +
      '2 digits are present in the answer but in the different positions\n')
  })

  it('ends when the turns are over', () => {
    const task = guessing({ ...defaults, turns: 2 })
    expect(['5678', 'x'].reduce(task.step, task.start(guessingProblem('1234')))).toMatchObject({ done: true, reward: 0 })
  })

  it('finds the guess by the benchmark\'s rule: the last run of four digits', () => {
    expect(readGuess('Guess: 1234', defaults)).toBe('1234')
    expect(readGuess('1234 then 56789', defaults)).toBe('5678')
    expect(readGuess('12 34', defaults)).toBeNull()
    expect(readGuess('1239', { digits: 4, alphabet: 6 })).toBeNull()
  })

  it('takes any text as a message; the return is 1 when the code is found, else at most the shaping', () => {
    for (const shaping of ['none', 'score', 'information'] as const) {
      const task = guessing(guessingConfig.parse({ digits: 2, alphabet: 5, turns: 4, shaping, shapingWeight: 0.3 }))
      fc.assert(fc.property(fc.array(fc.oneof(fc.string(), fc.stringMatching(/^[0-4]{2}$/)), { minLength: 4, maxLength: 4 }), (messages) => {
        let state = task.start(guessingProblem('31'))
        let total = 0
        for (const message of messages) {
          state = task.step(state, message)
          expect(state.reward).toBeGreaterThanOrEqual(0)
          total += state.reward
        }
        expect(state.done).toBe(true)
        expect([...state.context].every((character) => guessingAlphabet.includes(character))).toBe(true)
        if (state.context.includes('31:')) expect(total).toBeCloseTo(1, 12)
        else expect(total).toBeLessThanOrEqual(shaping === 'none' ? 0 : 0.3 + 1e-12)
      }))
    }
  })

  it('measures information: halving the candidates is one bit of log2(candidates)', () => {
    const task = guessing(guessingConfig.parse({ digits: 1, alphabet: 4, shaping: 'information', shapingWeight: 1 }))
    const state = task.step(task.start(guessingProblem('0')), '3')
    expect(state.reward).toBeCloseTo(1 - Math.log(3) / Math.log(4), 12)
  })

  it('enumerates and splits the codes', () => {
    expect(allCodes(defaults)).toHaveLength(5040)
    expect(allCodes({ digits: 3, alphabet: 4, repeats: true })).toHaveLength(64)
    const test = new Set(guessingProblems(defaults, 'test', 3000, random(1)).map(({ id }) => id))
    expect(guessingProblems(defaults, 'train', 3000, random(2)).some(({ id }) => test.has(id))).toBe(false)
    expect(() => guessingConfig.parse({ digits: 4, alphabet: 3 })).toThrow(/at most alphabet/)
  })

  it('has a weak player that is consistent when it does not slip', () => {
    const task = guessing({ ...defaults, slip: 0 })
    const draw = random(3)
    let state = task.start(guessingProblem('0367'))
    while (!state.done) {
      const guess = task.demonstrate!(state, draw)
      expect(isConsistent(guess, state.history)).toBe(true)
      state = task.step(state, guess)
    }
    expect(state.reward).toBe(1)
    expect(drawConsistent(defaults, [{ guess: '1234', a: 0, b: 0 }], draw)).not.toMatch(/[1234]/)
  })
})
