import type { Command } from 'commander'
import type { Row } from '../figures/csv.js'
import type { RadiusReading } from '../theory/certificates.js'
import type { Quantity, ScalingExponent, ScalingSetup } from '../theory/scaling.js'
import { InputError } from '../util/errors.js'
import { textTable } from '../util/table.js'

interface Options {
  n: string
  radius?: string
  family: string
  seeds: string
  delta: string
  gamma: string
  levels: string
  actions: string
  seed: string
  json?: boolean
  out?: string
}

/** `teamtr scaling`: how penalties, occupancy drift and surrogate gaps grow with the team. */
export const addScaling = (program: Command): void => {
  program
    .command('scaling')
    .description(
      'run one exact stage on random teams of growing size: how actual gaps and guaranteed penalties grow with n, each with its exponent α',
    )
    .option('--n <sizes>', 'team sizes, ascending, separated by commas', '2,3,4,5,6,8')
    .option(
      '--radius <reading>',
      "what δ is an average over: occupancy (all states) or message (the agent's own states); both one after the other by default",
    )
    .option(
      '--family <family>',
      'ring (fixed rotation), routed (any agent may follow) or tree (a shared context that grows by n messages)',
      'ring',
    )
    .option('--seeds <k>', 'random MDPs per size; figures are means over them', '20')
    .option('--delta <δ>', 'radius of every update, used up exactly', '0.001')
    .option('--gamma <γ>', 'discount', '0.95')
    .option('--levels <k>', 'states per agent (ring, routed)', '4')
    .option('--actions <k>', 'actions per state', '3')
    .option('--seed <s>', 'seed of everything', '1')
    .option('--json', 'print everything as JSON')
    .option('--out <dir>', 'also write scaling-FAMILY.csv (means) and scaling-FAMILY-exponents.csv there')
    .addHelpText(
      'after',
      `
α is a least-squares slope on logarithms over these n, not a limit. The interval beside it draws the seeds of every n anew (95 %); the last
column is the slope between the two largest n, towards which a sum such as n(n+1)/2 is still moving. Penalties are in units of
c = √2γA_max/(1−γ)², whose own growth has its row.

Exit codes: 0 done, 2 a wrong option.

Example: teamtr scaling --n 2,4,8,16,32 --out data`,
    )
    .action(async (options: Options) => {
      const { checkScalingSetup, measureScaling, scalingExponents } = await import('../theory/scaling.js')
      const { progress } = await import('../util/progress.js')
      const setups = readSetups(options)
      setups.forEach(checkScalingSetup)
      if (options.out !== undefined) (await import('../util/files.js')).writableFolder(options.out)
      const bar = progress('scaling', setups.length * setups[0].sizes.length * setups[0].seeds, 'stages')
      let done = 0
      const results = setups.map((setup) => ({
        setup,
        quantities: scalingExponents(
          measureScaling(setup, () => bar.update(++done)),
          { seed: setup.seed },
        ),
      }))
      bar.end()
      if (options.out !== undefined) await writeTables(options.out, results)
      process.stdout.write(`${options.json ? JSON.stringify(results, null, 2) : (await Promise.all(results.map(readable))).join('\n\n')}\n`)
    })
}

interface Result {
  setup: ScalingSetup
  quantities: Record<Quantity, ScalingExponent>
}

const readSetups = (options: Options): ScalingSetup[] => {
  const { radius, family } = options
  if (family !== 'ring' && family !== 'routed' && family !== 'tree')
    throw new InputError(`--family: holds "${family}"; ring, routed or tree`)
  if (radius !== undefined && radius !== 'occupancy' && radius !== 'message')
    throw new InputError(`--radius: holds "${radius}"; occupancy or message`)
  const readings: RadiusReading[] = radius ? [radius] : ['occupancy', 'message']
  return readings.map((reading) => ({
    family,
    radius: reading,
    sizes: options.n.split(',').map((text) => number('n', text)),
    seeds: number('seeds', options.seeds),
    delta: number('delta', options.delta),
    gamma: number('gamma', options.gamma),
    levels: number('levels', options.levels),
    actions: number('actions', options.actions),
    seed: number('seed', options.seed),
  }))
}

/** The range is measureScaling's to check. */
const number = (name: string, text: string): number => {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new InputError(`--${name}: holds "${text}"; a number`)
  return value
}

const writeTables = async (out: string, results: readonly Result[]): Promise<void> => {
  const { join } = await import('node:path')
  const { toCsv } = await import('../figures/csv.js')
  const { writeAtomic } = await import('../util/files.js')
  const entries = results.flatMap(({ setup, quantities }) =>
    Object.entries(quantities).map(([quantity, exponent]) => ({ radius: setup.radius, quantity, exponent })),
  )
  const means: Row[] = entries.flatMap(({ radius, quantity, exponent }) =>
    exponent.means.map(({ n, interval }) => ({
      radius,
      quantity,
      n,
      ...rounded({ mean: interval.estimate, low: interval.low, high: interval.high }),
    })),
  )
  const exponents: Row[] = entries.flatMap(({ radius, quantity, exponent: { fit, bootstrap, local } }) =>
    fit && bootstrap
      ? [
          {
            radius,
            quantity,
            ...rounded({
              alpha: fit.alpha,
              fit_low: fit.low,
              fit_high: fit.high,
              seeds_low: bootstrap.low,
              seeds_high: bootstrap.high,
              last_slope: local[local.length - 1].alpha,
            }),
          },
        ]
      : [],
  )
  const { family } = results[0].setup
  writeAtomic(join(out, `scaling-${family}.csv`), toCsv(means))
  writeAtomic(join(out, `scaling-${family}-exponents.csv`), toCsv(exponents))
}

/** Six digits: the last ones of a double depend on the order of a sum, and a file should not. */
const rounded = (cells: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(cells).map(([name, x]) => [name, Math.abs(x) < 1e-9 ? 0 : Number(x.toPrecision(6))]))

const readable = async ({ setup, quantities }: Result): Promise<string> => {
  const { QUANTITIES } = await import('../theory/scaling.js')
  const { family, sizes, radius, delta, gamma, levels, actions, seeds } = setup
  const [from, to] = sizes.slice(-2)
  const header = (title: string): string[] => [title, ...sizes.map((n) => `n = ${n}`)]
  const growing = (title: string): string[] => [...header(title), 'α', '95 %', `${from}→${to}`]
  const rows = (kind: string): string[][] =>
    (Object.keys(QUANTITIES) as Quantity[])
      .filter((name) => QUANTITIES[name].kind === kind)
      .map((name) => {
        const { means, fit, bootstrap, local } = quantities[name]
        const growth =
          fit && bootstrap
            ? [signed(fit.alpha), `${signed(bootstrap.low)} … ${signed(bootstrap.high)}`, signed(local[local.length - 1].alpha)]
            : []
        return [QUANTITIES[name].label, ...means.map(({ interval }) => interval.estimate.toPrecision(3).replace(/e\+?/, 'e')), ...growth]
      })
  const shape = family === 'tree' ? `${actions} messages a turn` : `${levels} states per agent, ${actions} actions`
  return [
    `${family}: ${shape}, γ = ${gamma}; ${radius} radius δ = ${delta}; means over ${seeds} seeds`,
    '',
    textTable(growing('what happens (exact)'), rows('exact')),
    '',
    textTable(growing('what is guaranteed (penalty/c)'), rows('penalty')),
    '',
    textTable(header('reweighting instead'), rows('weights')),
  ].join('\n')
}

/** Two decimals, and never "-0.00". */
const signed = (x: number): string => (Math.abs(x) < 0.005 ? '0.00' : x.toFixed(2))
