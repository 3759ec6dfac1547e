import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import { methodList, methodNames } from '../train/methods.js'
import type { Estimate } from '../train/estimate.js'
import type { RunSummary } from '../train/summary.js'
import { duration, progress, type Progress } from '../util/progress.js'
import { textTable } from '../util/table.js'
import { withOptions } from './configOptions.js'
import { numberIn } from './promptOptions.js'

interface Options {
  readonly out?: string
  readonly resume?: boolean
  readonly method?: string
  readonly seed?: number
  readonly stages?: number
  readonly base?: string
  readonly engine?: string
  readonly json?: boolean
}

/** `teamtr train`: train a team in a run folder. */
export const addTrain = (program: Command): void => {
  program
    .command('train')
    .description('train a team inside its trust regions (Algorithm 1), in a run folder that survives being killed')
    .argument('[config]', 'YAML or JSON; every field has a default, and without a file all are used: the relay team of three')
    .option('--out <folder>', 'the run folder (default: runs/CONFIG-METHOD-SEED)')
    .option('--resume', 'continue the run in the folder; more --stages may be asked for')
    .option('--method <name>', 'one of those below', method)
    .option('--seed <number>', 'everything random follows from it', numberIn(0, 2 ** 31 - 1, true))
    .option('--stages <number>', 'stages; in each, every agent is updated once', numberIn(0, 1e6, true))
    .option('--base <folder>', 'start from the warmed-up team of this run folder of no updates (--stages 0) instead of warming one up')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print the summary as one line of JSON')
    .addHelpText('after', `
The folder holds config.json (complete: it can be trained again), log.jsonl (one line per update), evaluations.jsonl (held-out
problems) and the latest two checkpoints. Stopped by Ctrl-C or killed, the run continues with --resume and the same numbers as if it
had not been. A repeated run writes the same log but for "seconds", the last entry of each line.

A team of language models (team.agents: a list of {model, adapter, name, role}, or team: {file: team.json}) leaves adapters/agent-0 … as PEFT
folders and a team.json for teamtr eval. rollout.server lets an inference server (vLLM) do the sampling.
configs/reference-language.yaml has every field of such a run, its default and what it says, a line each.

Methods, all of them settings of one loop; what a method brings for other sections stands beneath what the configuration says there:
${methodList()}

Exit codes: 0 done, 2 wrong input (nothing is changed then), 130 stopped by Ctrl-C.

Examples:
  teamtr train
  teamtr train configs/relay-3.yaml --seed 1
  teamtr train configs/smollm2-team.yaml
  teamtr train configs/relay-3.yaml --method stale --out runs/stale
  teamtr train --resume --out runs/stale --stages 80`)
    .action(train)
}

const method = (name: string): string => {
  if (!methodNames.includes(name)) throw new InvalidArgumentError(`expected one of ${methodNames.join(', ')}`)
  return name
}

const train = async (file: string | undefined, options: Options): Promise<void> => {
  const { parseConfig } = await import('../train/config.js')
  const where = file ?? 'train'
  const config = parseConfig(withOptions(await given(file, options), options), where)
  const name = file ? basename(file).replace(/\.[^.]*$/, '') : config.task.name
  const folder = options.out ?? join('runs', `${name}-${config.method.name}-${config.seed}`)

  const { initEngine } = await import('../train/backend.js')
  const { runTraining } = await import('../train/run.js')
  const { summarise } = await import('../train/summary.js')
  const { disposeTeam } = await import('../train/team.js')
  const engine = await initEngine(options.engine)
  const base = options.base === undefined ? undefined : (await import('../train/base.js')).readBase(options.base, config)
  const started = performance.now()
  const { signal, whileTraining, done } = stopOnInterrupt()
  const { method, team, task, stages, seed } = config
  const show = phases(() =>
    say(`${method.name}: ${team.agents} agents, ${task.name}, ${stages} stages, seed ${seed}, engine ${engine.name}, in ${folder}`))
  const run = await runTraining(config, {
    folder,
    resume: options.resume,
    engine: engine.name,
    where,
    base,
    signal,
    onNotice: say,
    onProgress: (phase, ...rest) => {
      whileTraining(phase === 'training')
      show.update(phase, ...rest)
    },
  }).finally(() => {
    show.end()
    done()
  })
  disposeTeam(run.team)
  if (base) disposeTeam(base)

  const summary = summarise(run)
  const json = (): string => JSON.stringify({ folder, engine: engine.name, finished: run.finished, ...summary })
  process.stdout.write(`${options.json ? json() : readable(summary)}\n`)
  say(`${duration((performance.now() - started) / 1000)}; ${folder} holds log.jsonl, evaluations.jsonl, config.json and checkpoints/`)
  if (!run.finished) {
    say(`stopped after ${summary.updates} of ${summary.planned} updates; continue with: teamtr train --resume --out ${folder}`)
    process.exitCode = 130
  }
}

const say = (text: string): void => void process.stderr.write(`${text}\n`)

/** What the configuration file says; a run that is resumed without one has its own. */
const given = async (file: string | undefined, { resume, out }: Options): Promise<unknown> => {
  const { readTrainingConfig } = await import('../train/readTrainingConfig.js')
  if (file !== undefined) return readTrainingConfig(file)
  const own = resume && out !== undefined ? join(out, 'config.json') : undefined
  return own !== undefined && existsSync(own) ? readTrainingConfig(own) : {}
}

/** The first Ctrl-C stops between two updates; the second, or one before there is anything to keep, at once. */
const stopOnInterrupt = (): { signal: AbortSignal; whileTraining(is: boolean): void; done(): void } => {
  const controller = new AbortController()
  let training = false
  const interrupt = (): void => {
    if (!training || controller.signal.aborted) process.exit(130)
    controller.abort()
    say('\nstopping after this update; Ctrl-C again stops at once')
  }
  process.on('SIGINT', interrupt)
  return { signal: controller.signal, whileTraining: (is) => void (training = is), done: () => void process.off('SIGINT', interrupt) }
}

/** A progress line for each phase of a run; `begin` is called before the first. */
const phases = (begin: () => void): { update(phase: string, done: number, total: number, note: string): void; end(): void } => {
  let current: { phase: string; line: Progress; before: number } | undefined
  return {
    update: (phase, done, total, note) => {
      if (!current) begin()
      if (current?.phase !== phase) {
        current?.line.end()
        // What an earlier process did takes no time in this one.
        current = { phase, before: done - 1, line: progress(phase, total - done + 1, phase === 'training' ? 'updates' : 'steps') }
      }
      current.line.update(done - current.before, note)
    },
    end: () => current?.line.end(),
  }
}

const interval = (x: Estimate | null, sign = ''): string =>
  x ? `${x.estimate > 0 ? sign : ''}${x.estimate.toFixed(3)}  [${x.low.toFixed(3)}, ${x.high.toFixed(3)}]` : '–'

const readable = (s: RunSummary): string => [
  textTable([`held-out reward, ${s.problems} problems`, '95 % interval'], [
    ['untrained', interval(s.untrained)],
    [`after ${s.updates} updates (${s.method})`, interval(s.trained)],
    ['difference', interval(s.gain, '+')],
  ]),
  '',
  textTable(['updates', 'accepted', 'scaled back', 'refused', 'skipped', 'largest KL / δ', 'rollouts', 'tokens', 'seconds'], [[
    String(s.updates), ...(['accepted', 'scaled', 'refused', 'skipped'] as const).map((outcome) => String(s.outcomes[outcome])),
    s.largestKl.toFixed(4), s.rollouts.toLocaleString('en'), s.tokens.toLocaleString('en'),
    (s.seconds.update + s.seconds.rollouts).toFixed(1),
  ]]),
  ...diagnosed(s),
].join('\n')

/** What the diagnostics measured, where there were any. */
const diagnosed = ({ metrics: { staleGap, drift, stability, coordination }, metrics, seconds }: RunSummary): string[] => {
  const rows = [
    ...(staleGap ? [['Δ_stale, raw', interval(staleGap.raw)], ['Δ_stale, signed', interval(staleGap.signed)], ['Δ_stale without noise', staleGap.corrected.toFixed(4)]] : []),
    ...(drift ? [['D_occ, Σ‖dⁱ − d^b‖₁', interval(drift)]] : []),
    ...(coordination ? [['coordination', interval(coordination)], ['repair', coordination.foreign.toFixed(3)]] : []),
    ...(staleGap && stability ? [['spread of the last stages\' rewards', `${stability.deviation.toFixed(4)}  (sampling: ${stability.noise.toFixed(4)})`]] : []),
    ...(staleGap ? [['tokens and seconds of the diagnostics', `${metrics.tokens.toLocaleString('en')}, ${seconds.diagnostics.toFixed(1)} s`]] : []),
  ]
  return rows.length > 0 ? ['', textTable(['a stage', '95 % interval'], rows)] : []
}
