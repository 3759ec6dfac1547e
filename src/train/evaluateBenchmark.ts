/** A team of language models on a benchmark: k conversations about each record, in a folder that survives being killed. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { scoreResponse, teamTask, unscored, type Benchmark, type BenchmarkScore, type InteractiveState, type RecordProblem, type Respond } from '../tasks/benchmark.js'
import { InputError } from '../util/errors.js'
import { readJson, writableFolder, writeAtomic } from '../util/files.js'
import { random, type Random } from '../util/random.js'
import { show } from '../util/validate.js'
import { tf } from './backend.js'
import { generate, type Generated } from './generate.js'
import { readAdapter, type LanguageModel } from './languageModel.js'
import { promptFor } from './languageVoice.js'
import { adapterPolicy, frozenPolicy } from './model/decoderPolicy.js'
import { openBases } from './model/bases.js'
import { appendLine, cutTo, firstDifference, lengthOf, lock, readRecords } from './runFolder.js'
import { speaker } from './team.js'
import type { TeamFile, TeamFileAgent } from './teamFile.js'

type Speaker = Pick<LanguageModel, 'source' | 'tokenizer' | 'policy' | 'theta'> & Pick<TeamFileAgent, 'name' | 'role'>

/** A team ready to speak. Agents on the same model share its weights. */
export interface SpeakingTeam {
  readonly agents: readonly Speaker[]
  readonly router: readonly number[]
  dispose(): void
}

/** @throws InputError naming file, field or tensor */
export const loadTeam = ({ agents, router }: TeamFile): SpeakingTeam => {
  const bases = openBases()
  try {
    const speakers = agents.map(({ name, role, model, adapter }): Speaker => {
      const { source, tokenizer, weights } = bases.open(model)
      const read = adapter === undefined ? undefined : readAdapter(adapter, source)
      const policy = read ? adapterPolicy(source.config, weights(), read.lora) : frozenPolicy(source.config, weights())
      return { name, role, source, tokenizer, policy, theta: tf.tensor1d(read?.values ?? []) }
    })
    return {
      agents: speakers,
      router,
      dispose: () => {
        tf.dispose(speakers.map(({ theta }) => theta))
        bases.dispose()
      },
    }
  } catch (error) {
    bases.dispose()
    throw error
  }
}

/** What decides the numbers. A folder is only continued with the same. */
export interface EvaluationSettings {
  /** Conversations about each record. */
  readonly k: number
  /** Messages in a conversation, at most; in a game with a judge, questions to it. */
  readonly turns: number
  readonly temperature: number
  readonly topP: number
  /** Longest message. */
  readonly maxTokens: number
  readonly seed: number
  /** Conversations that are held at once. */
  readonly batch: number
}

const verdicts = ['correct', 'partial', 'wrong', 'invalid'] as const

const transcriptSchema = z.object({
  id: z.string(),
  sample: z.int().min(0),
  /** The last message: what is scored, where no game scored it. */
  response: z.string(),
  score: z.number().min(0).max(1),
  verdict: z.enum(verdicts),
  reason: z.string(),
  measures: z.record(z.string(), z.tuple([z.number(), z.number()])).optional(),
  /** `finish`: what ended the message, as `generate` says. */
  messages: z.array(z.object({ agent: z.int(), name: z.string().optional(), text: z.string(), tokens: z.int(), finish: z.string() })),
  /** All that was said, the environment's words included. */
  context: z.string(),
})

/** One conversation: a line of transcripts.jsonl, which is also one of `teamtr score --responses`. */
export type Transcript = z.output<typeof transcriptSchema>

/**
 * Take a folder for an evaluation, new or begun.
 *
 * @returns the conversations that it holds; a last line that was cut off is removed
 * @throws InputError when another process works on it, it holds something else, or an evaluation of another team, benchmark or settings
 */
export const openEvaluation = (folder: string, benchmark: Benchmark, records: readonly unknown[], team: TeamFile, settings: EvaluationSettings & { judge?: string }) => {
  const config = join(folder, 'evaluation.json')
  const transcripts = join(folder, 'transcripts.jsonl')
  const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex')
  const agents = team.agents.map(({ adapter, ...agent }) =>
    ({ ...agent, ...(adapter !== undefined && { adapter, sha256: digest(Buffer.concat(readdirSync(adapter).sort().filter(isAdapterFile).map((name) => readFileSync(join(adapter, name))))) }) }))
  const wanted: unknown = JSON.parse(JSON.stringify({ benchmark: benchmark.name, records: digest(JSON.stringify(records)), team: { agents, router: team.router }, ...settings }))
  writableFolder(folder)
  if (!existsSync(config) && readdirSync(folder).some((name) => name !== 'lock' && !name.endsWith('.tmp'))) {
    throw new InputError(`${folder}: is not empty and holds no evaluation; choose another --out`)
  }
  const unlock = lock(folder)
  try {
    if (lengthOf(transcripts) > 0) cutTo(transcripts, readFileSync(transcripts).lastIndexOf('\n') + 1)
    const done = readRecords(transcripts, transcriptSchema)
    const other = done.length > 0 ? firstDifference(wanted, readJson(config)) : undefined
    if (other) throw new InputError(`${config}: ${other.path}: holds ${show(other.b)}; this evaluation has ${show(other.a)}: choose another --out`)
    if (done.length === 0) writeAtomic(config, `${JSON.stringify(wanted, null, 2)}\n`) // nothing that another setting could spoil
    return { transcripts, done, unlock }
  } catch (error) {
    unlock()
    throw error
  }
}

const isAdapterFile = (name: string): boolean => /^adapter_(config\.json|model\.safetensors)$/.test(name)

/** The name by which a conversation is known. */
export const keyOf = ({ id, sample }: Pick<Transcript, 'id' | 'sample'>): string => JSON.stringify([id, sample])

/**
 * Hold the conversations that are still missing, batch after batch. What a batch holds and draws depends on the settings alone, so a
 * continued evaluation has the numbers of one that was never stopped.
 *
 * @param has which conversations are there already
 * @param judge the model through which the benchmark's environment speaks; none: its game without one, or a discussion of the prompt
 * @yields each conversation when it is over
 * @throws what the judge throws, and InputError of a chat template
 */
export async function* evaluateBenchmark<R>(
  benchmark: Benchmark<R>, records: readonly R[], team: SpeakingTeam, settings: EvaluationSettings, has: (key: string) => boolean, judge?: Respond,
): AsyncGenerator<Transcript> {
  const all = records.flatMap((record) => Array.from({ length: settings.k }, (_, sample) => ({ record, id: benchmark.id(record), sample })))
  for (let from = 0; from < all.length; from += settings.batch) {
    const batch = all.slice(from, from + settings.batch)
    if (batch.every((each) => has(keyOf(each)))) continue
    const held = await converse(benchmark, batch, team, settings, random(settings.seed).fork(from), judge)
    yield* held.filter((each) => !has(keyOf(each)))
  }
}

const converse = async <R>(
  benchmark: Benchmark<R>, problems: readonly (RecordProblem<R> & { sample: number })[], team: SpeakingTeam, settings: EvaluationSettings, draws: Random, judge?: Respond,
): Promise<Transcript[]> => {
  const { turns, temperature, topP, maxTokens } = settings
  const task = judge && benchmark.game ? benchmark.game(turns, judge) : teamTask(benchmark, turns)
  const talks = problems.map((problem) => ({ problem, state: task.start(problem) as InteractiveState, messages: [] as Transcript['messages'], stuck: undefined as string | undefined }))
  for (let turn = 0; ; turn++) {
    const index = speaker(team, turn)
    const agent = team.agents[index]
    const asked = talks.filter(({ state, stuck }) => !state.done && stuck === undefined).map((talk) => {
      const roles = [agent.role, task.rolePrompt?.(talk.problem, index, team.agents.length)]
      return { talk, prompt: promptFor(agent.tokenizer, roles.filter((role) => role !== undefined).join('\n\n'), talk.state.context) }
    })
    if (asked.length === 0) break
    const room = agent.source.config.maxPositions - maxTokens
    for (const { talk, prompt } of asked) {
      if (prompt.length > room) talk.stuck = `message ${turn + 1}: ${prompt.length} tokens, and ${maxTokens} to come, are more than the model's ${room + maxTokens} positions`
    }
    const open = asked.filter(({ talk }) => talk.stuck === undefined)
    const said: Generated[] = open.length
      ? await generate(agent, open.map(({ prompt }) => prompt), { maxTokens, temperature, topP, random: draws.fork(turn) })
      : []
    for (const [i, { talk }] of open.entries()) {
      const { text, tokens, finish } = said[i]
      talk.messages.push({ agent: index, name: agent.name, text, tokens: tokens.length, finish })
      talk.state = await (task.step as (state: InteractiveState, message: string) => InteractiveState | Promise<InteractiveState>)(talk.state, text)
    }
  }
  return talks.map(({ problem: { id, sample, record }, state, messages, stuck }) => {
    const response = messages.at(-1)?.text ?? ''
    const score: BenchmarkScore = stuck === undefined
      ? state.final ?? scoreResponse(benchmark, record, response)
      : unscored(benchmark, record, stuck)
    return { id, sample, response, ...score, measures: score.measures as Transcript['measures'], messages, context: state.context }
  })
}

/** Append a conversation to the folder's, and bring it to the disk. */
export const keepTranscript = (file: string, transcript: Transcript): void => void appendLine(file, transcript)
