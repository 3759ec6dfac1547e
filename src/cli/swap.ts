import { existsSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { InvalidArgumentError, type Command } from 'commander'
import type { Config } from '../train/config.js'
import { InputError } from '../util/errors.js'
import { progress, type Progress } from '../util/progress.js'
import { wholeFrom } from './promptOptions.js'

interface Options {
  readonly agent?: number
  readonly add?: boolean
  readonly with?: string
  readonly align?: number
  readonly freeze?: readonly number[]
  readonly stages?: number
  readonly seed?: number
  readonly out?: string
  readonly engine?: string
  readonly json?: boolean
}

const whole = wholeFrom(0)

/** `teamtr swap`: a run that goes on with another agent. */
export const addSwap = (program: Command): void => {
  program
    .command('swap')
    .description('plug and play: put another agent into the team of a run, or add one, align it first (stage 0), and say what it cost; training goes on from there')
    .argument('<run>', 'the folder of a run (teamtr train); its latest team is taken, and it is left as it is')
    .option('--agent <number>', 'whose place is taken, from 0', whole)
    .option('--add', 'add an agent instead: the router gains a turn at its end, a relay one operation a round')
    .option('--with <agent>', 'who takes it: RUN:AGENT, an agent of a run, or a configuration whose seed, model and warmup say how one is made (default: one like those of the run, of another seed)')
    .option('--align <contexts>', 'contexts that it is aligned on; 0: it comes as it is (default: 500; with --add, where no old agent is to be followed, 0)', whole)
    .option('--freeze <agents>', 'agents that are not updated afterwards, such as 0,2', list)
    .option('--stages <number>', 'of the training that follows (default: those of the run)', whole)
    .option('--seed <number>', 'what everything random follows from (default: that of the run + 1, so that other problems are learned from)', whole)
    .option('--out <folder>', 'the new run folder (default: RUN-swap-AGENT or RUN-add)')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print what the swap cost as one line of JSON')
    .addHelpText('after', `
The new folder is a run that has done no update yet: teamtr train --resume --out FOLDER goes on. Its config.json is complete: trained again, the
swap is done again, as long as RUN is there; "start" in it says how, and has what is not an option here (steps and learning rate of stage 0). So a
swap can also be written into a configuration for teamtr train. Afterwards teamtr swap FOLDER, without --agent, says how far the team is back.

Stage 0 minimises KL(new‖old) of the new agent's messages in contexts where the old team would let it speak, weighed with γ^t. The swap shock is the
held-out reward of the team as it was less that of the new one, with a 95 % bootstrap interval of the paired differences. Where agents are added, the team as it
was is the old one with the agent that spoke before speaking once more, in the larger game. Small games are computed exactly, too.

Both agents must have one vocabulary, that of the game: agents of games with other words are refused.

Stopped by Ctrl-C or killed before the folder has a checkpoint, the swap is begun again by the same command.

Exit codes: 0 done, 2 wrong input (nothing is written then), 130 stopped by Ctrl-C.

Examples:
  teamtr train configs/relay-tiny.yaml
  teamtr swap runs/relay-tiny-teamtr-0 --agent 1 --out runs/swapped
  teamtr train --resume --out runs/swapped
  teamtr swap runs/swapped
  teamtr swap runs/relay-tiny-teamtr-0 --agent 1 --with runs/relay-tiny-teamtr-1:1 --align 0
  teamtr swap runs/relay-tiny-teamtr-0 --add --freeze 0,1,2`)
    .action(swap)
}

const list = (text: string): number[] => {
  if (!/^\d{1,3}(,\d{1,3})*$/.test(text)) throw new InvalidArgumentError('expected numbers of agents, such as 0,2')
  return text.split(',').map(Number)
}

const swap = async (run: string, options: Options): Promise<void> => {
  const { readRun } = await import('../train/runFolder.js')
  const { readSwap, recovery } = await import('../train/recovery.js')
  const own = readRun(run)
  const say = async (folder: string): Promise<void> => {
    const report = readSwap(folder)
    const after = recovery(folder === run ? own : readRun(folder), report)
    const { swapTables } = await import('./swapTables.js')
    process.stdout.write(`${options.json ? JSON.stringify({ folder, swap: report, recovery: after }) : swapTables(report, after)}\n`)
  }
  if (options.agent === undefined && !options.add) {
    if (!own.config.start) throw new InputError(`--agent: missing; whose place is taken, 0 to ${own.config.team.agents - 1}, or --add`)
    return say(run)
  }
  if (options.agent !== undefined && options.add) throw new InputError('--add: an agent is added or, with --agent, replaced; not both')
  const agent = options.agent ?? own.config.team.agents
  if (!options.add && agent >= own.config.team.agents) throw new InputError(`--agent: holds ${agent}; ${run} has ${own.config.team.agents} agents, 0 to ${own.config.team.agents - 1} (--add adds one)`)

  const { swappedConfig } = await import('../train/swapConfig.js')
  const config = swappedConfig(own.config, { run: resolve(run), agent, align: options.align ?? (options.add ? 0 : 500), freeze: options.freeze, stages: options.stages, seed: options.seed, ...await newcomer(options.with) })
  const folder = options.out ?? join(dirname(run), `${basename(resolve(run))}-${options.add ? 'add' : `swap-${agent}`}`)
  const [{ initEngine }, { runTraining }, { disposeTeam }, { checkpointNames }, { fileIn }] = await Promise.all([
    import('../train/backend.js'), import('../train/run.js'), import('../train/team.js'), import('../train/checkpoints.js'), import('../train/runFolder.js'),
  ])
  // A swap that was stopped halfway left its configuration, which must be the one that is asked for.
  const resume = existsSync(fileIn.config(folder))
  if (resume && checkpointNames(folder).length > 0) throw new InputError(`${folder}: holds a run already; choose another --out`)
  const engine = await initEngine(options.engine)
  let shown: { phase: string; bar: Progress } | undefined
  const interrupt = (): never => {
    shown?.bar.end()
    process.stderr.write(`stopped; the same command begins the swap in ${folder} again\n`)
    process.exit(130)
  }
  process.on('SIGINT', interrupt)
  const { team } = await runTraining(config, {
    folder,
    resume,
    engine: engine.name,
    where: '--with',
    signal: AbortSignal.abort(), // the run is begun and kept, and no update is done
    onProgress: (phase, done, total, note) => {
      if (shown?.phase !== phase) {
        shown?.bar.end()
        shown = { phase, bar: progress(phase, total, 'steps') }
      }
      shown.bar.update(done, note)
    },
  }).finally(() => {
    shown?.bar.end()
    process.off('SIGINT', interrupt)
  })
  disposeTeam(team)
  await say(folder)
  process.stderr.write(`${folder} holds the new team; it learns on with: teamtr train --resume --out ${folder}\n`)
}

/** What --with names. */
const newcomer = async (given: string | undefined): Promise<{ with?: { run: string; agent: number; config: Config }; like?: Config }> => {
  if (given === undefined) return {}
  const at = /^(.+):(\d{1,3})$/.exec(given)
  if (at) {
    const { readRun } = await import('../train/runFolder.js')
    const [, folder, agent] = at
    return { with: { run: resolve(folder), agent: Number(agent), config: readRun(folder).config } }
  }
  const [{ readTrainingConfig }, { parseConfig }] = await Promise.all([import('../train/readTrainingConfig.js'), import('../train/config.js')])
  return { like: parseConfig(readTrainingConfig(given), given) }
}
