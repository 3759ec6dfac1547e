import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { ConfigInput } from '../train/config.js'
import type { Engine } from '../train/backend.js'
import type { Team } from '../train/team.js'
import type { GuessingConfig } from '../tasks/guessing.js'
import type { Task } from '../tasks/task.js'
import { numberIn } from './promptOptions.js'
import type { DemoResults, GuessingPlayer } from './demoReport.js'
import type { TrainedRun } from './trainingReport.js'

interface Options {
  out?: string
  quick?: boolean
  gn?: string
  engine?: string
  seed: number
}

/** How large the demo is. */
interface Size {
  readonly relay: ConfigInput
  readonly guessing: ConfigInput
  readonly games: number
  readonly scalingSeeds: number
}

const full: Size = {
  relay: {},
  guessing: {
    warmup: { steps: 300, episodes: 48 }, stages: 8, rollout: { prompts: 16, group: 8 }, evaluation: { problems: 100, every: 0 },
  },
  games: 100,
  scalingSeeds: 20,
}
const quick: Size = {
  relay: {
    model: { layers: 1, hidden: 128, intermediate: 256 }, warmup: { steps: 400, episodes: 256, learningRate: 2e-3 },
    stages: 10, rollout: { prompts: 32 }, evaluation: { problems: 300, every: 5 },
  },
  guessing: {
    warmup: { steps: 60, episodes: 32 }, stages: 1, rollout: { prompts: 4, group: 4 }, evaluation: { problems: 10, every: 0 },
  },
  games: 30,
  scalingSeeds: 5,
}

/** Messages in a game: AR-Bench asks 25 times and then takes a last guess. */
const GAME_TURNS = 26
/** In training games are cut earlier: the weak player is done in 6 messages on average. */
const TRAINING_TURNS = 10

/** `teamtr demo`: the main job, end to end. */
export const addDemo = (program: Command): void => {
  program.command('demo')
    .description(
      'the main job, end to end: train a team of three with TeamTR and with stale rollouts, play guessing games, ' +
      'compute how the guarantees scale, and write a report')
    .option('--quick', 'a small version of all of it')
    .option('--out <dir>', 'where runs and report go (default: runs/demo, or runs/demo-quick)')
    .option('--gn <file>', 'play AR-Bench\'s own guessing numbers instead of generated ones')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: the fastest that is set up)')
    .option('--seed <n>', 'seed of everything', numberIn(0, 2 ** 31 - 1, true), 0)
    .addHelpText('after', `
The report is DIR/report/index.html, a page that opens offline; DIR/teamtr, DIR/stale and DIR/guessing are run folders (teamtr train --help).
What is trained already is not trained again: an interrupted demo goes on where it was, and a finished one only writes its report anew.

Exit codes: 0 done, 2 a wrong option or file.`)
    .action(demo)
}

const demo = async (options: Options): Promise<void> => {
  const [{ writableFolder }, { initEngine }, { checkTemporaryFolder }] = await Promise.all([
    import('../util/files.js'), import('../train/backend.js'), import('../train/graph.js'),
  ])
  const { seed } = options
  const out = options.out ?? join('runs', options.quick ? 'demo-quick' : 'demo')
  const size = options.quick ? quick : full
  const codes = options.gn === undefined ? undefined : { secrets: await readCodes(options.gn), source: `AR-Bench, ${options.gn}` }
  const engine = await initEngine(options.engine)
  checkTemporaryFolder()
  await checkFolder(size, seed, out)
  for (const name of [...runNames, 'report']) writableFolder(join(out, name))
  const note = (text: string): void => { process.stdout.write(`${text}\n`) }
  note(`engine: ${engine.name} (${engine.why})`)

  const runs = await trainRelay(size, seed, out, engine)
  const guessing = await playGuessing(size, seed, out, engine, codes)
  const scaling = await measureScaling(size)
  const results: DemoResults = {
    command: `npx teamtr demo${options.quick ? ' --quick' : ''}${options.gn ? ` --gn ${options.gn}` : ''}${seed ? ` --seed ${seed}` : ''}`,
    engine: `Engine: ${engine.name}, ${engine.device}, ${engine.threads} threads`,
    runs, guessing, scaling,
  }
  const { demoText, writeDemoReport } = await import('./demoReport.js')
  const page = await writeDemoReport(join(out, 'report'), results)
  note(`\n${demoText(results)}\n\nreport: ${page}\nruns:   ${runs.map(({ folder }) => folder).join(', ')}`)
}

const runNames = ['teamtr', 'stale', 'guessing'] as const

/** What each run trains. */
const configOf = (size: Size, seed: number, run: typeof runNames[number]): ConfigInput =>
  run === 'guessing'
    ? { ...size.guessing, seed, task: { name: 'guessing', turns: TRAINING_TURNS, shaping: 'score' } }
    : { ...size.relay, seed, method: run }

/** @throws InputError when the folder, or one of the runs' below it, holds what is not this demo's */
const checkFolder = async (size: Size, seed: number, out: string): Promise<void> => {
  const [{ InputError }, { show }, { parseConfig }, { checkVacant, fileIn, resumedConfig }] = await Promise.all([
    import('../util/errors.js'), import('../util/validate.js'), import('../train/config.js'), import('../train/runFolder.js'),
  ])
  const own: readonly string[] = [...runNames, 'report']
  const other = existsSync(out) && statSync(out).isDirectory() ? readdirSync(out).find((name) => !own.includes(name) && !name.startsWith('.')) : undefined
  if (other !== undefined) throw new InputError(`${out}: holds ${show(other)}, which is not the demo's; choose another --out`)
  for (const name of runNames) {
    const folder = join(out, name)
    if (existsSync(fileIn.config(folder))) resumedConfig(folder, parseConfig(configOf(size, seed, name), 'demo'), 'demo')
    else if (existsSync(folder)) checkVacant(folder)
  }
}

/** The codes of AR-Bench's file. @throws InputError when it cannot be read */
const readCodes = async (file: string): Promise<string[]> => {
  const [{ InputError }, { guessingNumbers }] = await Promise.all([
    import('../util/errors.js'), import('../tasks/ar-bench/guessingNumbers.js'),
  ])
  const { records, errors } = await guessingNumbers.load(file)
  if (errors.length > 0) throw new InputError(`${file}: line ${errors[0].line}: ${errors[0].error}`)
  if (records.length === 0) throw new InputError(`${file}: holds no codes`)
  return records.map(({ secret }) => secret)
}

/** Run, or resume, or only read back, one training run below the demo's folder. */
const train = async (label: string, config: ConfigInput, folder: string, engine: Engine, base?: Team) => {
  const [{ parseConfig }, { runTraining }, { progress }] = await Promise.all([
    import('../train/config.js'), import('../train/run.js'), import('../util/progress.js'),
  ])
  let bar: ReturnType<typeof progress> | undefined
  let phase = ''
  const started = performance.now()
  const result = await runTraining(parseConfig(config, 'demo'), {
    folder,
    base,
    engine: engine.name,
    resume: existsSync(join(folder, 'config.json')),
    where: 'demo',
    onProgress: (now, done, total, text) => {
      if (now !== phase) {
        bar?.end()
        bar = progress(`${label}: ${now}`, total, now === 'training' ? 'updates' : 'steps')
        phase = now
      }
      bar?.update(done, text)
    },
    onNotice: (text) => process.stderr.write(`${label}: ${text}\n`),
  })
  bar?.end()
  return { ...result, elapsed: (performance.now() - started) / 1000 }
}

const trainRelay = async (size: Size, seed: number, out: string, engine: Engine): Promise<TrainedRun[]> => {
  const [{ parseConfig }, { warmUp }, { compareEvaluations }, { stream }, { disposeTeam }, { progress }] = await Promise.all([
    import('../train/config.js'), import('../train/warmup.js'), import('../train/evaluateTeam.js'), import('../train/streams.js'),
    import('../train/team.js'), import('../util/progress.js'),
  ])
  const folders = (['teamtr', 'stale'] as const).map((method) => ({ method, folder: join(out, method) }))
  // Both start from one untrained team; where both are begun already, nobody needs it.
  const isBegun = folders.every(({ folder }) => existsSync(join(folder, 'checkpoints')))
  const settings = parseConfig({ ...size.relay, seed }, 'demo')
  const bar = progress('relay: warm-up', settings.warmup.steps, 'steps')
  const base = isBegun ? undefined : await warmUp(settings, { onProgress: (done, _, loss) => bar.update(done, `loss ${loss.toFixed(3)}`) })
  bar.end()
  const runs: TrainedRun[] = []
  for (const { method, folder } of folders) {
    const { team, updates, evaluations } = await train(`relay, ${method}`, configOf(size, seed, method), folder, engine, base)
    disposeTeam(team)
    runs.push({
      method, folder, evaluations,
      records: updates,
      gain: compareEvaluations(evaluations[0], evaluations.at(-1)!, stream(seed, 'bootstrap', 1, 1)),
      seconds: updates.reduce((sum, { seconds }) => sum + seconds.update + seconds.rollouts, 0),
    })
  }
  if (base) disposeTeam(base)
  return runs
}

/** @param given codes to play, and where they are from; else as many as `size` says are generated */
const playGuessing = async (
  size: Size, seed: number, out: string, engine: Engine, given?: { secrets: string[]; source: string },
): Promise<DemoResults['guessing']> => {
  const [tasks, { rollout }, { warmUp }, { stream }, { parseConfig }, { disposeTeam }] = await Promise.all([
    import('../tasks/index.js'), import('../train/rollout.js'), import('../train/warmup.js'), import('../train/streams.js'),
    import('../train/config.js'), import('../train/team.js'),
  ])
  const form = tasks.guessingConfig.parse({ turns: GAME_TURNS })
  const problems = given
    ? given.secrets.map(tasks.guessingProblem)
    : tasks.guessingProblems(form, 'test', size.games, stream(seed, 'evaluation problems'))
  const secrets = problems.map(({ secret }) => secret)
  const config = configOf(size, seed, 'guessing')
  const game = tasks.guessing(form)
  const play = async (name: string, team: Team): Promise<GuessingPlayer> => {
    const { episodes } = await rollout(game as unknown as Task, team, problems, {
      group: 1, temperature: 1, maxTokens: form.digits + 1, gamma: 1, random: stream(seed, 'evaluation', 0),
    })
    let [messages, valid, consistent] = [0, 0, 0]
    for (const episode of episodes) {
      let state = game.start(problems[episode.problem])
      for (const { agent, tokens } of episode.messages) {
        const message = team.agents[agent].voice.text(tokens)
        const guess = tasks.readGuess(message, form)
        messages++
        if (guess !== null) valid++
        if (guess !== null && tasks.isConsistent(guess, state.history)) consistent++
        state = game.step(state, message)
      }
    }
    return {
      name,
      found: episodes.reduce((sum, { reward }) => sum + reward, 0) / episodes.length,
      turns: messages / episodes.length,
      valid: valid / messages,
      consistent: consistent / messages,
    }
  }
  const untrained = await warmUp(parseConfig(config, 'demo'))
  const before = await play('team, untrained', untrained)
  const { team } = await train('guessing', config, join(out, 'guessing'), engine, untrained)
  const after = await play('team, trained (TeamTR)', team)
  disposeTeam(untrained)
  disposeTeam(team)
  return {
    source: given?.source ?? 'generated, AR-Bench\'s form: 4 different digits of 10',
    games: problems.length,
    turns: GAME_TURNS,
    players: [before, after, ...await referencePlayers(form, secrets, seed)],
  }
}

/** Players that need no training, on the same codes. */
const referencePlayers = async (form: GuessingConfig, secrets: readonly string[], seed: number): Promise<GuessingPlayer[]> => {
  const { allCodes, entropyPlayer, randomConsistentPlayer } = await import('../tasks/index.js')
  const { stream } = await import('../train/streams.js')
  const codes = allCodes(form)
  const counted = (name: string, counts: readonly number[], consistent: number | null): GuessingPlayer => ({
    name, consistent,
    valid: 1,
    found: counts.filter((count) => count <= GAME_TURNS).length / counts.length,
    turns: counts.reduce((sum, count) => sum + Math.min(count, GAME_TURNS), 0) / counts.length,
  })
  const missed = (1 - 1 / codes.length) ** GAME_TURNS
  const best = entropyPlayer(form)
  const index = new Map(codes.map((code, i) => [code, i]))
  return [
    { name: 'random (exact)', found: 1 - missed, turns: (1 - missed) * codes.length, valid: 1, consistent: null },
    counted('random-consistent', randomConsistentPlayer(form, secrets, stream(seed, 'evaluation', 1)), 1),
    counted('most informative guess', secrets.map((secret) => best[index.get(secret)!]), null),
  ]
}

const measureScaling = async (size: Size): Promise<DemoResults['scaling']> => {
  const [{ measureScaling, scalingExponents }, { progress }] = await Promise.all([
    import('../theory/scaling.js'), import('../util/progress.js'),
  ])
  const setup = {
    family: 'ring', radius: 'occupancy', sizes: [2, 3, 4, 5, 6, 8], seeds: size.scalingSeeds,
    delta: 0.001, gamma: 0.95, levels: 4, actions: 3, seed: 1,
  } as const
  const bar = progress('scaling', setup.sizes.length * setup.seeds, 'stages')
  let done = 0
  const table = measureScaling(setup, () => bar.update(++done))
  bar.end()
  return { setup, quantities: scalingExponents(table, { seed: setup.seed }) }
}
