import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import type { Config } from '../train/config.js'
import type { ProtocolResult } from '../train/protocols.js'
import type { Estimate } from '../train/estimate.js'
import type { Team } from '../train/team.js'
import { InputError } from '../util/errors.js'
import { progress, type Progress } from '../util/progress.js'
import { textTable } from '../util/table.js'
import { wholeFrom } from './promptOptions.js'

interface Options {
  readonly budget?: number
  readonly problems?: number
  readonly judge?: number
  readonly temperature?: number
  readonly seed?: number
  readonly out?: string
  readonly engine?: string
  readonly json?: boolean
}

const whole = wholeFrom(1)
const fromZero = wholeFrom(0)

/** `teamtr protocols`: what a frozen team does under inference-time protocols. */
export const addProtocols = (program: Command): void => {
  program
    .command('protocols')
    .description('what a team gains without training: best-of-N, majority vote, debate, judge, role-play, at one budget of tokens, beside the team as it is')
    .argument('<run>', 'the folder of a run (its latest checkpoint), or a configuration (the untrained team)')
    .option('--budget <tokens>', 'sampled tokens a problem (default: those of eight episodes)', whole)
    .option('--problems <n>', 'only the first n of the held-out problems that the run is evaluated on (default: all)', whole)
    .option('--judge <agent>', 'which agent judges (default: the last)', fromZero)
    .option('--temperature <t>', 'above 0 (default: that of the rollouts)', positive)
    .option('--seed <number>', 'of the sampling (default: that of the run)', fromZero)
    .option('--out <file>', 'also write the table as CSV')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print the results as JSON, with the reward of each problem')
    .addHelpText('after', `
once          one episode by the team as it is
best-of-n     of N episodes the one that the team itself gives the highest mean log-probability per token
pass-at-n     of the same N the one with the highest reward: an oracle, no protocol
majority      of the same N the final answer that most of them give
debate        each agent alone; then each reads what the others said, in their places in the shared context, and says its last message
              anew; majority over the last messages of M debates
debate-judge  of the same last messages the one that the judge, on all contexts of the debates, gives the highest mean log-probability a token
role-play     N episodes with the agents' roles drawn anew; majority

N and M are what comes nearest to the budget. Tokens that are sampled count; tokens that are read or scored do not. "gain" is the mean difference
to "once" on the same problems. 95 % bootstrap intervals over problems.

Exit codes: 0 done, 2 wrong input.

Examples:
  teamtr protocols configs/relay-3.yaml
  teamtr protocols runs/relay-3-teamtr-0 --budget 96 --out protocols.csv`)
    .action(run)
}

const positive = (text: string): number => {
  const value = Number(text)
  if (!(value > 0 && value <= 100)) throw new InvalidArgumentError('expected a number above 0, at most 100')
  return value
}

const run = async (source: string, options: Options): Promise<void> => {
  const [{ initEngine }, { openEnvironment }, { protocols }, { stream }, { disposeTeam }] = await Promise.all([
    import('../train/backend.js'), import('../train/openEnvironment.js'), import('../train/protocols.js'), import('../train/streams.js'), import('../train/team.js'),
  ])
  const { config, open } = await openTeam(source)
  const { judge, budget, problems: count, seed = config.seed, temperature = config.rollout.temperature } = options
  if (judge !== undefined && judge >= config.team.agents) throw new InputError(`--judge: holds ${judge}; expected an agent, 0 to ${config.team.agents - 1}`)
  const all = config.evaluation.problems
  if (count !== undefined && count > all) throw new InputError(`--problems: holds ${count}; expected at most ${all}, those that it is evaluated on (evaluation.problems)`)
  const { testTask, problems } = await openEnvironment(config)
  await initEngine(options.engine)
  const team = await open()
  const drawn = problems('test', all, stream(config.seed, 'evaluation problems')).slice(0, count)
  const bar = progress('playing', 6, 'rounds')
  const { maxTokens, topP, topK, batch } = config.rollout
  const results = await protocols(testTask, team, drawn, {
    budget, judge, temperature, maxTokens, topP, topK, batch,
    random: stream(seed, 'protocols'), bootstrap: stream(seed, 'bootstrap'), onProgress: (done) => bar.update(done),
  }).finally(() => {
    bar.end()
    disposeTeam(team)
  })
  if (options.out !== undefined) {
    const [{ toCsv }, { writeAtomic }] = await Promise.all([import('../figures/csv.js'), import('../util/files.js')])
    writeAtomic(options.out, toCsv(results.map(({ protocol, oracle, n, tokens, reward, gain }) => ({
      protocol, oracle, n, problems: drawn.length, tokens,
      reward: reward.estimate, reward_low: reward.low, reward_high: reward.high, gain: gain.estimate, gain_low: gain.low, gain_high: gain.high,
    }))))
  }
  process.stdout.write(`${options.json ? JSON.stringify({ source, problems: drawn.length, results }) : readable(results, drawn.length)}\n`)
}

/** A run's latest team, or a configuration's untrained one: what is wrong is found before an engine is started. */
const openTeam = async (source: string): Promise<{ config: Config; open: () => Promise<Team> }> => {
  if (existsSync(source) && statSync(source).isDirectory()) {
    if (!existsSync(join(source, 'config.json'))) throw new InputError(`${source}: holds no run (no config.json)`)
    const [{ readRun }, { checkpointNames, readCheckpoint }] = await Promise.all([import('../train/runFolder.js'), import('../train/checkpoints.js')])
    const { config } = readRun(source)
    if (checkpointNames(source).length === 0) throw new InputError(`${source}: holds no checkpoint yet`)
    return { config, open: () => Promise.resolve(readCheckpoint(source, config)!.team) }
  }
  const [{ readTrainingConfig }, { parseConfig }] = await Promise.all([import('../train/readTrainingConfig.js'), import('../train/config.js')])
  const config = parseConfig(readTrainingConfig(source), source)
  return { config, open: () => untrained(config) }
}

const untrained = async (config: Config): Promise<Team> => {
  const { startTeam } = await import('../train/startTeam.js')
  let bar: Progress | undefined
  const team = await startTeam(config, { onProgress: (done, total, loss) => (bar ??= progress('warm-up', total, 'steps')).update(done, `loss ${loss.toFixed(3)}`) })
  bar?.end()
  return team
}

const readable = (results: readonly ProtocolResult[], problems: number): string => {
  const interval = ({ low, high }: Estimate): string => `[${low.toFixed(3)}, ${high.toFixed(3)}]`
  return textTable(
    [`protocol, ${problems} problems`, 'n', 'tokens', 'reward', '95 % interval', 'gain', '95 % interval'],
    results.map(({ protocol, oracle, n, tokens, reward, gain }) => [
      oracle ? `${protocol} (oracle)` : protocol, String(n), tokens.toFixed(1), reward.estimate.toFixed(3), interval(reward),
      ...(protocol === 'once' ? ['–', '–'] : [`${gain.estimate > 0 ? '+' : ''}${gain.estimate.toFixed(3)}`, interval(gain)]),
    ]),
  )
}
