import { describe, expect, it } from 'vitest'
import { MAX_RESPONSE, scoreResponse, teamTask, type Benchmark } from '../../src/tasks/benchmark.js'

const parity: Benchmark<number> = {
  name: 'parity',
  summary: 'odd or even',
  load: async () => ({ records: [1, 2], errors: [] }),
  id: String,
  prompt: (record) => `Is ${record} odd?`,
  score: (record, response) =>
    response === (record % 2 ? 'yes' : 'no') ? { score: 1, verdict: 'correct', reason: 'so it is' } : { score: 0, verdict: 'wrong', reason: 'no' },
}

describe('a benchmark as a task for a team', () => {
  it('is a discussion of the prompt, whose last message is scored', () => {
    const task = teamTask(parity, 3)
    const play = (...messages: string[]) => messages.reduce(task.step, task.start({ id: '1', record: 1 }))
    expect(play('no', 'hm', 'yes')).toMatchObject({ context: 'Is 1 odd?\n\nMessage 1:\nno\n\nMessage 2:\nhm\n\nMessage 3:\nyes', turn: 3, done: true, reward: 1 })
    expect(play('yes', 'yes', 'no')).toMatchObject({ done: true, reward: 0 })
    expect(play('yes', 'yes')).toMatchObject({ done: false, reward: 0 })
    expect(play('yes', 'yes', 'yes', 'no')).toMatchObject({ turn: 3, done: true, reward: 0 })
    expect(task.rolePrompt!({ id: '1', record: 1 }, 0, 2)).toContain('agent 1 of 2')
  })

  it('reads no response beyond the limit', () => {
    expect(scoreResponse(parity, 1, 'yes')).toMatchObject({ score: 1 })
    expect(scoreResponse(parity, 1, ' '.repeat(MAX_RESPONSE + 1))).toMatchObject({ score: 0, verdict: 'invalid' })
    const [end] = [' '.repeat(MAX_RESPONSE + 1)].map((message) => teamTask(parity, 1).step(teamTask(parity, 1).start({ id: '1', record: 1 }), message))
    expect(end).toMatchObject({ done: true, reward: 0 })
    expect(end.context.length).toBeLessThan(MAX_RESPONSE + 100)
  })
})
