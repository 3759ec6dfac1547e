import { join } from 'node:path'
import type { Command } from 'commander'
import type { Row } from '../figures/csv.js'
import type { TokenShifts } from '../train/tokenShifts.js'
import { InputError } from '../util/errors.js'
import { progress } from '../util/progress.js'
import { textTable } from '../util/table.js'

interface Options {
  steps?: string
  penalty: boolean
  engine?: string
  out?: string
  json?: boolean
}

/** `teamtr token-shifts`: one update, in and out of its trust region. */
export const addTokenShifts = (program: Command): void => {
  program.command('token-shifts')
    .description('one update of a warmed-up team, as proposed and as scaled back into its trust region: how far each moves the log-probability of every token')
    .argument('[config]', 'a training configuration (YAML or JSON); the defaults without one')
    .option('--steps <n>', 'gradient steps of the update, in place of the configuration’s: more of them propose a larger step')
    .option('--no-penalty', 'without the KL penalty in the objective (β = 0), as an update that knows nothing of a trust region')
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: the fastest that is set up)')
    .option('--out <dir>', 'also write token-shifts.csv there: the distribution of the shifts')
    .option('--json', 'print the distribution as JSON')
    .addHelpText('after', `
Exit codes: 0 done, 2 wrong input.

Example: teamtr token-shifts configs/relay-3.yaml --steps 12 --no-penalty --out data`)
    .action(async (file: string | undefined, { steps, penalty, engine, out, json }: Options) => {
      const { writableFolder, writeAtomic } = await import('../util/files.js')
      const { readTrainingConfig } = await import('../train/readTrainingConfig.js')
      const { parseConfig } = await import('../train/config.js')
      const config = parseConfig(file === undefined ? {} : readTrainingConfig(file), file ?? 'token-shifts')
      const objective = { ...config.objective, steps: steps === undefined ? config.objective.steps : whole(steps) }
      const beta = { ...config.trustRegion.beta, ...(penalty ? {} : { initial: 0 }) }
      if (out !== undefined) writableFolder(out)
      const shifts = await measure({ ...config, objective, trustRegion: { ...config.trustRegion, beta } }, engine)
      if (out !== undefined) {
        const { toCsv } = await import('../figures/csv.js')
        writeAtomic(join(out, 'token-shifts.csv'), toCsv(distribution(shifts)))
      }
      process.stdout.write(`${json ? JSON.stringify(distribution(shifts)) : readable(shifts)}\n`)
    })
}

const whole = (text: string): number => {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InputError(`--steps: holds "${text}"; a whole number, at least 1`)
  return Number(text)
}

const measure = async (config: Parameters<typeof import('../train/tokenShifts.js').tokenShifts>[0], engine?: string): Promise<TokenShifts> => {
  const { initEngine } = await import('../train/backend.js')
  const { startTeam } = await import('../train/startTeam.js')
  const { tokenShifts } = await import('../train/tokenShifts.js')
  const { disposeTeam } = await import('../train/team.js')
  await initEngine(engine)
  const bar = progress('warm-up', config.warmup.steps, 'steps')
  const team = await startTeam(config, { onProgress: (done) => bar.update(done) })
  bar.end()
  try {
    return await tokenShifts(config, team)
  } finally {
    disposeTeam(team)
  }
}

const regions = [['proposed', 'as proposed'], ['kept', 'scaled back']] as const

/** Width of a bin of Δ log π, and the largest |Δ| that has one of its own: what lies beyond counts in the last. */
const BIN = 0.1
const LAST = 3

/** Shares of the rollouts' tokens by Δ log π, in bins of width 0.1 named by their middle. */
const distribution = ({ tokens, delta, proposedKl, keptKl }: TokenShifts): Row[] => {
  const total = tokens.reduce((sum, { count }) => sum + count, 0)
  const bins = Math.round((2 * LAST) / BIN) + 1
  return regions.flatMap(([key, region]) => {
    const shares = new Float64Array(bins)
    for (const token of tokens) {
      const inside = Math.min(Math.max(token[key], -LAST), LAST)
      shares[Math.round((inside + LAST) / BIN)] += token.count / total
    }
    return Array.from(shares, (share, k) => ({
      region, kl: Number((key === 'proposed' ? proposedKl : keptKl).toPrecision(4)), delta, shift: Number((k * BIN - LAST).toFixed(2)), share: Number(share.toPrecision(6)),
    }))
  })
}

const readable = (shifts: TokenShifts): string => {
  const rows = regions.map(([key, region]) => {
    const sorted = shifts.tokens.flatMap((token) => Array.from({ length: token.count }, () => Math.abs(token[key]))).sort((a, b) => a - b)
    const quantile = (p: number): string => sorted[Math.floor(p * (sorted.length - 1))].toFixed(3)
    return [region, (key === 'proposed' ? shifts.proposedKl : shifts.keptKl).toFixed(4), quantile(0.5), quantile(0.9), quantile(0.99), quantile(1)]
  })
  return [
    `agent ${shifts.agent}, ${shifts.tokens.reduce((sum, { count }) => sum + count, 0)} tokens, δ = ${shifts.delta}`,
    '',
    textTable(['update', 'KL', 'median |Δ log π|', '90 %', '99 %', 'largest'], rows),
  ].join('\n')
}
