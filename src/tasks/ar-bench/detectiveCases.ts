import { z } from 'zod'
import type { Benchmark, BenchmarkScore, InteractiveState, InteractiveTask, Respond } from '../benchmark.js'
import { bySchema, loadRecords } from '../records.js'
import { judgeKeyPoints, type KeyPoints } from './keyPoints.js'

/** AR-Bench DC: find the murderer among five suspects by questioning them. */
const detectiveCase = z
  .object({
    index: z.int(),
    /** Position of the murderer in `initial_information.suspect`. */
    label: z.int().min(0).max(4),
    /** What the detective is told. */
    initial_information: z.object({
      time: z.string(),
      location: z.string(),
      victim: z.object({ name: z.string(), introduction: z.string(), cause_of_death: z.string(), murder_weapon: z.string() }),
      suspect: z.array(z.object({ name: z.string().min(1), introduction: z.string() })).length(5),
    }),
    /** Whom a model plays: what each lived through, and how to answer. In another order than above. */
    suspects: z
      .array(z.object({ name: z.string(), story: z.string(), task: z.string(), key_question: z.array(z.string()).optional() }))
      .length(5),
  })
  .refine(
    ({ initial_information: { suspect }, suspects }) => suspect.every(({ name }) => suspects.some((other) => other.name === name)),
    'suspects must have the names of initial_information.suspect',
  )
export type DetectiveCase = z.output<typeof detectiveCase>

const LETTERS = 'ABCDE'

export const detectiveCases: Benchmark<DetectiveCase> = {
  name: 'ar-bench-dc',
  summary: 'AR-Bench detective cases: the letter after "Answer:" must be the murderer\'s',
  load: (file) => loadRecords(file, bySchema(detectiveCase)),
  id: ({ index }) => String(index),
  prompt: (record) => `${caseText(record)}\n\n${verdictRequest(record)}`,
  score: scoreVerdict,
  game: interrogation,
}

/**
 * The first `Answer:`, and the last letter A–E on what follows it up to the end of the line (any
 * capital A–E counts, even within a word, as in AR-Bench).
 */
function scoreVerdict({ label, initial_information: { suspect } }: DetectiveCase, response: string): BenchmarkScore {
  const line = /Answer:\s*([^\n]*)/.exec(response)?.[1]
  const letter = line?.match(/[A-E](?=[^A-E]*$)/)?.[0]
  if (line === undefined) return { score: 0, verdict: 'invalid', reason: 'no "Answer:"' }
  if (letter === undefined) return { score: 0, verdict: 'invalid', reason: 'no letter A to E after "Answer:"' }
  return LETTERS.indexOf(letter) === label
    ? { score: 1, verdict: 'correct', reason: `${letter} is the murderer` }
    : { score: 0, verdict: 'wrong', reason: `${letter} is ${suspect[LETTERS.indexOf(letter)].name}; the murderer is ${LETTERS[label]}` }
}

export interface InterrogationState extends InteractiveState {
  readonly record: DetectiveCase
  /** What the next message is taken for. */
  readonly awaits: 'suspect' | 'question' | 'verdict'
  /** Who is asked next, when a question is awaited. */
  readonly suspect?: string
  readonly asked: readonly { readonly suspect: string; readonly question: string; readonly answer: string }[]
  /** Turns used, lost ones included. */
  readonly used: number
}

/**
 * A turn is two messages: a suspect's name, exactly (blanks and one punctuation mark at each end
 * aside; else the turn is lost), then a question, which `respond` answers in that suspect's role.
 * After `turns` turns the next message is the verdict, and its score the reward.
 */
function interrogation(turns: number, respond: Respond): InteractiveTask<DetectiveCase, InterrogationState> {
  const names = (record: DetectiveCase): string[] => record.initial_information.suspect.map(({ name }) => name)
  const request = (record: DetectiveCase, used: number): string =>
    used < turns
      ? `\n\nTurn ${used + 1} of ${turns}. Whom do you question? Reply with one name only: ${names(record).join(', ')}.\n`
      : `\n\n${verdictRequest(record)}\n`
  /** The turn is over: ask for the next suspect, or for the verdict. */
  const next = (state: InterrogationState, said: string): InterrogationState => {
    const used = state.used + 1
    return {
      ...state,
      used,
      context: state.context + said + request(state.record, used),
      awaits: used < turns ? 'suspect' : 'verdict',
      suspect: undefined,
    }
  }
  return {
    name: 'ar-bench-dc',
    start: ({ record }) => ({
      record,
      context: caseText(record) + request(record, 0),
      turn: 0,
      done: false,
      reward: 0,
      awaits: turns > 0 ? 'suspect' : 'verdict',
      asked: [],
      used: 0,
    }),
    step: async (before, message) => {
      if (before.done) return { ...before, reward: 0 }
      const state = { ...before, turn: before.turn + 1 }
      const { record, suspect } = state
      if (state.awaits === 'verdict') {
        const final = scoreVerdict(record, message)
        return { ...state, context: state.context + message, done: true, reward: final.score, final }
      }
      if (state.awaits === 'suspect') {
        const name = message.trim().replace(PUNCTUATION_AT_ENDS, '$<inner>').trim()
        if (!names(record).includes(name)) return next(state, `${message}\n\nThat is not the name of a suspect: the turn is lost.`)
        return { ...state, context: `${state.context}${message}\n\nYour question to ${name}:\n`, awaits: 'question', suspect: name }
      }
      const answer = await respond(suspectPrompt(record, suspect!, state.asked, message))
      const asked = [...state.asked, { suspect: suspect!, question: message, answer }]
      return next({ ...state, asked }, `${message}\n\n${suspect}: ${answer}`)
    },
    rolePrompt: (_, agent, agents) =>
      `You are agent ${agent + 1} of ${agents} detectives who solve a case together, speaking in turns: reply to the last request only.`,
  }
}

/** One ASCII punctuation mark at each end. */
const PUNCTUATION_AT_ENDS = /^[!-/:-@[-`{-~]?(?<inner>[^]*?)[!-/:-@[-`{-~]?$/

/**
 * The process score: of all key questions of the suspects, which ones the questions that were put to
 * them hit, in the judge's opinion. One call of the judge a question.
 */
export const keyQuestionsHit = async (record: DetectiveCase, asked: InterrogationState['asked'], judge: Respond): Promise<KeyPoints> => {
  const hit = new Set<string>()
  for (const { suspect, question } of asked) {
    const person = record.suspects.find(({ name }) => name === suspect)
    if (!person?.key_question?.length) continue
    const { met } = await judgeKeyPoints(
      judge,
      `${caseText(record)}\n\nWhat ${suspect} lived through:\n${person.story}\n\nThe detective asks ${suspect}: ${question}\n\n` +
        'Which of these key points does that question aim at?',
      person.key_question,
    )
    for (const point of met) hit.add(point)
  }
  return { met: [...hit], of: new Set(record.suspects.flatMap(({ key_question: points }) => points ?? [])).size }
}

const caseText = ({ initial_information: { time, location, victim, suspect } }: DetectiveCase): string =>
  `You are a detective. There has been a murder, and one of five suspects did it.\n\nTime: ${time}\nLocation: ${location}\n` +
  `Victim: ${victim.name}. ${victim.introduction}\nCause of death: ${victim.cause_of_death}\nMurder weapon: ${victim.murder_weapon}\n` +
  `Suspects:\n${suspect.map(({ name, introduction }) => `- ${name}: ${introduction}`).join('\n')}`

const verdictRequest = ({ initial_information: { suspect } }: DetectiveCase): string =>
  `Who is the murderer? ${suspect.map(({ name }, i) => `${LETTERS[i]}. ${name}`).join(', ')}\n` +
  'Reply in this form, with one letter A to E:\nReason: your reasoning\nAnswer: X'

const suspectPrompt = (record: DetectiveCase, name: string, asked: InterrogationState['asked'], question: string): string => {
  const { story, task } = record.suspects.find((suspect) => suspect.name === name)!
  const before = asked.filter(({ suspect }) => suspect === name).map((turn) => `Detective: ${turn.question}\n${name}: ${turn.answer}\n`)
  return (
    `You play ${name}, a suspect in a murder case, whom a detective questions.\n\nYour story:\n${story}\n\nYour task:\n${task}\n\n` +
    `Stay in your role, and answer in a few sentences.\n\n${before.join('')}Detective: ${question}\n${name}:`
  )
}
