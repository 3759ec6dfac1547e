import type { Command } from 'commander'
import { benchmark as findBenchmark, benchmarkNames } from '../tasks/benchmarks.js'
import type { Respond } from '../tasks/benchmark.js'
import { InputError, oneLine } from '../util/errors.js'
import { numberIn } from './promptOptions.js'
import { totalsOf, totalsTable, type Totals } from './totals.js'

interface Options {
  readonly team: string
  readonly benchmark: string
  readonly data: string
  readonly k: number
  readonly limit?: number
  readonly out?: string
  readonly turns?: number
  readonly maxTokens: number
  readonly temperature: number
  readonly topP: number
  readonly batch: number
  readonly seed: number
  readonly judge?: string
  readonly judgeModel?: string
  readonly engine?: string
  readonly json?: boolean
}

/** `teamtr eval`: a team of language models on a benchmark. */
export const addEval = (program: Command): void => {
  program.command('eval')
    .description('let a team of language models work on a benchmark, and score it: avg@k and pass@k with 95 % intervals')
    .requiredOption('--team <file>', 'team.json: {"agents": [{"model", "adapter", "role", "name"}, …], "router": [0, 1, …]}; all but "model" may be left out')
    .requiredOption('--benchmark <name>', 'which benchmark (the names are below)')
    .requiredOption('--data <file>', 'its records in their public format, as for teamtr score')
    .option('-k <number>', 'conversations about each record', numberIn(1, 10_000, true), 1)
    .option('--limit <number>', 'only the first records; may be raised later', numberIn(1, 1e9, true))
    .option('--out <folder>', 'where the conversations go (default: runs/eval-BENCHMARK-k-SEED)')
    .option('--turns <number>', 'messages in a conversation, at most; with a judge, questions to it (default: each agent once; in a game 25)', numberIn(1, 1000, true))
    .option('--max-tokens <n>', 'longest message, in tokens', numberIn(1, 1_000_000, true), 512)
    .option('--temperature <t>', '0 takes the most probable token each time', numberIn(0, 100), 0.7)
    .option('--top-p <p>', 'only the most probable tokens that together have this probability', numberIn(1e-9, 1), 1)
    .option('--batch <n>', 'conversations held at once', numberIn(1, 100_000, true), 8)
    .option('--seed <n>', 'the same seed gives the same conversations on the same engine', numberIn(0, 2 ** 31 - 1, true), 0)
    .option('--judge <model>', 'ar-bench-dc and -sp as games: the model that plays suspects or referee, local as in team.json, or http://… up to /v1')
    .option('--judge-model <name>', 'its name at that address; a key is read from $TEAMTR_JUDGE_KEY')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print the results as JSON')
    .addHelpText('after', `
Benchmarks: ${benchmarkNames.join(', ')}.

The agents speak in turns, each reading its role and all that was said, in its model's chat template. The last message is the answer that is
scored. ar-bench-gn is played as the game it is; ar-bench-dc and -sp are with --judge, and a discussion of the opening otherwise.
A conversation that outgrows a model's positions ends there with score 0.

The folder holds evaluation.json (what was evaluated), transcripts.jsonl (a conversation a line, written as it ends; also input of
teamtr score --responses) and results.json. The same command continues where it was stopped; another team, benchmark or setting is refused.

Exit codes: 0 done, 2 wrong input.

Example: teamtr eval --team team.json --benchmark math500 --data test.jsonl -k 4 --limit 50`)
    .action(run)
}

interface Result {
  readonly benchmark: string
  readonly records: number
  readonly unreadable: number
  readonly k: number
  readonly totals: Totals
  readonly verdicts: Readonly<Record<string, number>>
  readonly tokens: number
  /** Why the first invalid answer is. */
  readonly firstInvalid?: string
}

const run = async (options: Options): Promise<void> => {
  const { keyOf, openEvaluation } = await import('../train/evaluateBenchmark.js')
  const { readTeamFile } = await import('../train/teamFile.js')
  const { uniqueRecords } = await import('../tasks/records.js')
  const { writeAtomic } = await import('../util/files.js')
  const { problemTotals } = await import('../tasks/responses.js')
  const benchmark = await findBenchmark(options.benchmark)
  const team = readTeamFile(options.team)
  const { judge, k, temperature, topP, maxTokens, seed, batch } = options
  if (judge !== undefined && !benchmark.game) throw new InputError(`--judge: ${benchmark.name} is scored without one; ar-bench-dc and ar-bench-sp take one`)
  const loaded = uniqueRecords(await benchmark.load(options.data), benchmark.id)
  for (const { line, error } of loaded.errors.slice(0, 20)) process.stderr.write(`teamtr: ${oneLine(`${options.data}:${line}: ${error}`)}\n`)
  if (loaded.records.length === 0) throw new InputError(`${options.data}: holds no record of ${benchmark.name} that can be read`)
  const records = loaded.records.slice(0, options.limit)

  const turns = options.turns ?? (judge !== undefined || benchmark.task ? 25 : team.router.length)
  const settings = { k, turns, temperature, topP, maxTokens, seed, batch }
  const folder = options.out ?? `runs/eval-${benchmark.name}-${k}-${seed}`
  const judgeName = judge && [judge, options.judgeModel].filter(Boolean).join(' ')
  const { transcripts, done, unlock } = openEvaluation(folder, benchmark, loaded.records, team, { ...settings, judge: judgeName })
  try {
    const held = new Map(done.map((transcript) => [keyOf(transcript), transcript]))
    const wanted = records.flatMap((record) => Array.from({ length: k }, (_, sample) => keyOf({ id: benchmark.id(record), sample })))
    if (!wanted.every((key) => held.has(key))) await holdMissing()
    const items = wanted.map((key) => held.get(key)!)
    const result: Result = {
      benchmark: benchmark.name,
      records: records.length,
      unreadable: loaded.errors.length,
      k,
      totals: await totalsOf(problemTotals(items), k),
      verdicts: Object.fromEntries(['correct', 'partial', 'wrong', 'invalid'].map((verdict) => [verdict, items.filter((item) => item.verdict === verdict).length])),
      firstInvalid: items.find(({ verdict }) => verdict === 'invalid')?.reason,
      tokens: items.reduce((sum, { messages }) => messages.reduce((all, { tokens }) => all + tokens, sum), 0),
    }
    const json = JSON.stringify(result, null, 1)
    writeAtomic(`${folder}/results.json`, `${json}\n`)
    process.stdout.write(`${options.json ? json : readable(result, folder)}\n`)

    async function holdMissing(): Promise<void> {
      const { evaluateBenchmark, keepTranscript, loadTeam } = await import('../train/evaluateBenchmark.js')
      const { initEngine } = await import('../train/backend.js')
      const { progress } = await import('../util/progress.js')
      await initEngine(options.engine)
      const respond = judge === undefined ? undefined : await judgeOf(judge, options)
      const speaking = loadTeam(team)
      const missing = wanted.filter((key) => !held.has(key)).length
      const shown = progress('evaluating', missing, 'conversations')
      let over = 0
      try {
        shown.update(0)
        for await (const transcript of evaluateBenchmark(benchmark, records, speaking, settings, (key) => held.has(key), respond)) {
          keepTranscript(transcripts, transcript)
          held.set(keyOf(transcript), transcript)
          shown.update(++over)
        }
      } finally {
        shown.end()
        speaking.dispose()
      }
    }
  } finally {
    unlock()
  }
}

const judgeOf = async (judge: string, { judgeModel }: Options): Promise<Respond> => {
  if (/^https?:/.test(judge)) {
    if (judgeModel === undefined) throw new InputError('--judge-model: missing; the name of the model at --judge is needed')
    const { chat } = await import('../util/chat.js')
    return chat({ baseUrl: judge, model: judgeModel, apiKey: process.env.TEAMTR_JUDGE_KEY, temperature: 0, maxTokens: 512 })
  }
  const { loadModel } = await import('../train/languageModel.js')
  const { generate } = await import('../train/generate.js')
  const { random } = await import('../util/random.js')
  const model = loadModel(judge)
  return async (prompt) => {
    const ids = model.tokenizer.encode(model.tokenizer.chat([{ role: 'user', content: prompt }]))
    return (await generate(model, [ids], { maxTokens: 128, temperature: 0, random: random(0) }))[0].text
  }
}

const readable = ({ benchmark, records, unreadable, k, totals, verdicts, tokens, firstInvalid }: Result, folder: string): string => {
  const counts = Object.entries(verdicts).filter(([, count]) => count > 0).map(([verdict, count]) => `${count} ${verdict}`).join(', ')
  return [
    `${benchmark}: ${records} records${unreadable ? ` (${unreadable} unreadable)` : ''}, k = ${k}: ${counts}; ${tokens} tokens`,
    ...(firstInvalid === undefined ? [] : [`the first invalid: ${oneLine(firstInvalid)}`]),
    '', totalsTable(totals), '', `conversations: ${folder}/transcripts.jsonl`,
  ].join('\n')
}
