import { z } from 'zod'
import type { Benchmark, BenchmarkScore, InteractiveState, InteractiveTask, Respond } from '../benchmark.js'
import { bySchema, loadRecords } from '../records.js'
import { judgeKeyPoints, type KeyPoints } from './keyPoints.js'

/** AR-Bench SP: explain a strange situation after yes/no questions about it. */
const situationPuzzle = z.object({
  index: z.int(),
  /** What is shown. */
  surface: z.string().min(1),
  /** The truth. */
  bottom: z.string().min(1),
  key_question: z.array(z.string()).optional(),
})
export type SituationPuzzle = z.output<typeof situationPuzzle>

export const situationPuzzles: Benchmark<SituationPuzzle> = {
  name: 'ar-bench-sp',
  summary: 'AR-Bench situation puzzles: F1 of the explanation\'s words (and characters) against the truth',
  load: (file) => loadRecords(file, bySchema(situationPuzzle)),
  id: ({ index }) => String(index),
  prompt: ({ surface }) => `${surface}\n\n${EXPLANATION_REQUEST}`,
  score: scoreExplanation,
  game: questioning,
}

/**
 * F1 over the multisets of words (split at white space; case and punctuation kept) and of characters
 * (every one, blanks too). AR-Bench reports both; the score is that of the words, because almost any
 * English text has a high F1 of characters.
 */
function scoreExplanation({ bottom }: SituationPuzzle, response: string): BenchmarkScore {
  const words = f1(response.match(/\S+/g) ?? [], bottom.match(/\S+/g) ?? [])
  const characters = f1([...response], [...bottom])
  return {
    score: words,
    verdict: words === 1 ? 'correct' : words > 0 ? 'partial' : response.trim() === '' ? 'invalid' : 'wrong',
    reason: `F1 of words ${words.toFixed(3)}, of characters ${characters.toFixed(3)}`,
    measures: { 'word F1': [words, 1], 'character F1': [characters, 1] },
  }
}

/** 2PR / (P + R), with precision and recall from the intersection of the multisets; 0 when it is empty. */
export const f1 = (predicted: readonly string[], truth: readonly string[]): number => {
  const left = new Map<string, number>()
  for (const item of truth) left.set(item, (left.get(item) ?? 0) + 1)
  let common = 0
  for (const item of predicted) {
    const count = left.get(item) ?? 0
    if (count === 0) continue
    common++
    left.set(item, count - 1)
  }
  return common === 0 ? 0 : (2 * common) / (predicted.length + truth.length)
}

export interface QuestioningState extends InteractiveState {
  readonly record: SituationPuzzle
  readonly asked: readonly { readonly question: string; readonly answer: string }[]
}

/**
 * One message = one question, which `respond`, as the referee, answers with Yes, No or Unknown (or
 * that it was no question). After `turns` questions the next message is the explanation.
 */
function questioning(turns: number, respond: Respond): InteractiveTask<SituationPuzzle, QuestioningState> {
  const request = (asked: number): string =>
    asked < turns ? `\n\nQuestion ${asked + 1} of ${turns}, to be answered with yes or no:\n` : `\n\n${EXPLANATION_REQUEST}\n`
  return {
    name: 'ar-bench-sp',
    start: ({ record }) => ({ record, context: record.surface + request(0), turn: 0, done: false, reward: 0, asked: [] }),
    step: async (before, message) => {
      if (before.done) return { ...before, reward: 0 }
      const state = { ...before, turn: before.turn + 1 }
      if (state.asked.length === turns) {
        const final = scoreExplanation(state.record, message)
        return { ...state, context: state.context + message, done: true, reward: final.score, final }
      }
      const answer = (await respond(refereePrompt(state.record, message))).trim().replace(/\.+$/, '')
      const asked = [...state.asked, { question: message, answer }]
      return { ...state, asked, context: `${state.context}${message}\n\n${answer}${request(asked.length)}` }
    },
    rolePrompt: (_, agent, agents) =>
      `You are agent ${agent + 1} of ${agents} who solve a puzzle together, speaking in turns: reply to the last request only.`,
  }
}

/** The process score: which key points the explanation meets, in the judge's opinion. */
export const keyPointsMet = (record: SituationPuzzle, explanation: string, judge: Respond): Promise<KeyPoints> =>
  judgeKeyPoints(
    judge,
    `A puzzle:\n${record.surface}\n\nIts solution:\n${record.bottom}\n\nA player's explanation:\n${explanation}\n\n` +
      'Which of these key points does the explanation meet?',
    record.key_question ?? [],
  )

const EXPLANATION_REQUEST = 'Explain the whole situation as completely as you can. Reply with the explanation only.'

const refereePrompt = ({ surface, bottom }: SituationPuzzle, question: string): string =>
  `You are the referee of a puzzle.\n\nPuzzle:\n${surface}\n\nSolution, known to you only:\n${bottom}\n\n` +
  'A player asks a question. Answer with one word: Yes or No if the solution says so or it follows from it, Unknown if it does not. ' +
  `If it is no question that yes or no can answer, reply: This is not a question.\n\nQuestion: ${question}\nAnswer:`
