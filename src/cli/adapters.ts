import type { Command } from 'commander'

/** `teamtr adapters`: what a run has trained so far, for other programs. */
export const addAdapters = (program: Command): void => {
  program
    .command('adapters')
    .description('write the language models of a training run as PEFT adapters, and the team.json that teamtr eval takes')
    .argument('<run>', 'a run folder of teamtr train, finished or not')
    .requiredOption('--out <folder>', 'where adapters/agent-0 … and team.json go')
    .option('--checkpoint <number>', 'after so many updates, of the checkpoints that the run still has (default: the latest)')
    .addHelpText('after', `
A run that ends writes the same into its own folder. Fully tuned models come as Hugging Face folders models/agent-0 … in place of adapters.

Exit codes: 0 done, 2 wrong input.

Example: teamtr adapters runs/smollm2-team-teamtr-0 --out smollm2-team`)
    .action(adapters)
}

const adapters = async (run: string, { out, checkpoint }: { out: string; checkpoint?: string }): Promise<void> => {
  const { checkpointNames, readCheckpoint } = await import('../train/checkpoints.js')
  const { exportTeam } = await import('../train/exportTeam.js')
  const { readRun } = await import('../train/runFolder.js')
  const { disposeTeam } = await import('../train/team.js')
  const { initEngine } = await import('../train/backend.js')
  const { InputError } = await import('../util/errors.js')
  const { writableFolder } = await import('../util/files.js')
  const { config } = readRun(run)
  const names = checkpointNames(run)
  const name = checkpoint === undefined ? names.at(-1) : names.find((each) => Number(each) === Number(checkpoint))
  if (name === undefined) throw new InputError(`${run}: holds ${names.length === 0 ? 'no checkpoint yet' : `the checkpoints ${names.map(Number).join(' and ')}`}`)
  writableFolder(out)
  await initEngine()
  const { team } = readCheckpoint(run, config, name)!
  try {
    process.stdout.write(`${await exportTeam(out, config, team)}\n`)
  } finally {
    disposeTeam(team)
  }
}
