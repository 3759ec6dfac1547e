import type { Command } from 'commander'
import type { StaleGap } from '../theory/stale-families.js'
import type { Instance, WorstCase, WorstCaseStatement } from '../theory/worst-case.js'
import { InputError } from '../util/errors.js'
import { textTable } from '../util/table.js'

interface Options {
  gamma: string
  evaluations: string
  seed: string
  json?: boolean
  out?: string
}

/** What is searched: the statements on two agents (one update is the first agent's), the stale ones on four as well. */
const SEARCHES: readonly { readonly statement: WorstCaseStatement; readonly agents: number }[] = [
  ...(['thm34', 'activeMass', 'tv', 'halfSpanTv', 'thm36', 'thm37Paper', 'thm37Exact', 'staleOwnStates'] as const).map((statement) => ({
    statement,
    agents: 2,
  })),
  ...(['thm37Paper', 'thm37Exact', 'staleOwnStates'] as const).map((statement) => ({ statement, agents: 4 })),
]

const FAMILY_SIZES = [2, 4, 8, 16, 32]
const FAMILY_GAMMA = 0.99

/** `teamtr worst-case`: how nearly each bound can be reached, and how fast the stale gap can really grow. */
export const addWorstCase = (program: Command): void => {
  program
    .command('worst-case')
    .description(
      'search small MDPs and updates for the largest (actual loss)/(penalty) of each bound, and families for the fastest growing stale gap',
    )
    .option('--gamma <list>', 'discounts, separated by commas: the slack of a constant depends on γ', '0.001,0.01,0.1,0.5,0.9,0.99')
    .option('--evaluations <k>', 'stages tried per statement and discount', '6000')
    .option('--seed <s>', 'seed of the search', '1')
    .option('--json', 'print everything as JSON, the instances found included')
    .option('--out <dir>', 'also write worst-case.csv and stale-family.csv there')
    .addHelpText(
      'after',
      `
A ratio of 1 means that the penalty cannot be made smaller; above 1 would be a violated bound. What is printed was reached, so the largest
possible ratio lies between it and 1 (–: every penalty was too near the rounding of the loss). The second table shows the family on which
the search made the stale gap Σ|L_seq − L_stale| (exact advantages) largest.

Exit codes: 0 done, 1 a ratio above 1 was found, 2 a wrong option.

Example: teamtr worst-case --gamma 0.9,0.99 --evaluations 20000`,
    )
    .action(async ({ gamma, evaluations, seed, json, out }: Options) => {
      const gammas = gamma.split(',').map((text) => inside('gamma', text, 0, 1))
      const [tries, start] = [whole('evaluations', evaluations, 100), whole('seed', seed, 0)]
      if (out !== undefined) (await import('../util/files.js')).writableFolder(out)
      const result = await search(gammas, tries, start)
      if (out !== undefined) await writeTables(out, result)
      process.stdout.write(`${json ? JSON.stringify(result, plain, 2) : await readable(gammas, result)}\n`)
      if (result.worst.some(({ ratio }) => ratio > 1 + 1e-6)) process.exitCode = 1
    })
}

interface Found extends WorstCase {
  agents: number
  gamma: number
}

interface Result {
  worst: Found[]
  family: { share: number; template: object; sizes: StaleGap[] }
}

const search = async (gammas: readonly number[], evaluations: number, seed: number): Promise<Result> => {
  const { lossOverPenalty, searchWorstCase } = await import('../theory/worst-case.js')
  const { searchStaleFamily, staleGapOf } = await import('../theory/stale-families.js')
  const { progress } = await import('../util/progress.js')
  const { random } = await import('../util/random.js')
  const bar = progress('worst-case', SEARCHES.length * gammas.length, 'searches')
  const worst: Found[] = []
  SEARCHES.forEach(({ statement, agents }, k) => {
    let earlier: Instance[] = []
    gammas.forEach((gamma, at) => {
      // what was found for this statement at the discount before is worth a start, and so is the best for it of what was found for others
      const neighbours = worst
        .filter((other) => other.gamma === gamma && other.agents === agents)
        .map(({ instance }) => ({ instance, ratio: lossOverPenalty(statement, instance) }))
        .sort((a, b) => b.ratio - a.ratio)
        .slice(0, 1)
        .map(({ instance }) => instance)
      const setup = { statement, gamma, agents, states: agents + 3, evaluations, restarts: 15, from: [...earlier, ...neighbours] }
      const found = searchWorstCase(setup, random(seed).fork(k).fork(at))
      earlier = [found.instance]
      worst.push({ ...found, agents, gamma })
      bar.update(worst.length, statement)
    })
  })
  bar.end()
  const { template, share } = searchStaleFamily(
    { n: 8, gamma: FAMILY_GAMMA, states: 1, evaluations: Math.min(evaluations, 4000), restarts: 10 },
    random(seed),
  )
  return { worst, family: { share, template, sizes: FAMILY_SIZES.map((n) => staleGapOf(template, n, FAMILY_GAMMA)) } }
}

const plain = (_: string, value: unknown): unknown => (ArrayBuffer.isView(value) ? Array.from(value as Float64Array) : value)

const writeTables = async (out: string, { worst, family }: Result): Promise<void> => {
  const { join } = await import('node:path')
  const { toCsv } = await import('../figures/csv.js')
  const { writeAtomic } = await import('../util/files.js')
  const six = (x: number): number => Number(x.toPrecision(6))
  writeAtomic(
    join(out, 'worst-case.csv'),
    toCsv(worst.map(({ statement, agents, gamma, ratio, evaluations }) => ({ statement, agents, gamma, ratio: six(ratio), evaluations }))),
  )
  writeAtomic(
    join(out, 'stale-family.csv'),
    toCsv(
      family.sizes.map((row) => ({
        n: row.n,
        gap: six(row.gap),
        drift: six(row.drift),
        shifts: six(row.shifts),
        mass: six(row.mass),
        a_max: six(row.aMax),
        paper_bound: six(row.paperBound),
        own_states_bound: six(row.ownStatesBound),
      })),
    ),
  )
}

const readable = async (gammas: readonly number[], { worst, family }: Result): Promise<string> => {
  const { WORST_CASE_STATEMENTS } = await import('../theory/worst-case.js')
  const { fitPowerLaw, localExponents } = await import('../theory/growth.js')
  const rows = SEARCHES.map(({ statement, agents }) => {
    const { label, steps } = WORST_CASE_STATEMENTS[statement]
    const ratios = worst.filter((found) => found.statement === statement && found.agents === agents).map(({ ratio }) => (ratio > -Infinity ? ratio.toFixed(4) : '–'))
    return [steps === 'all' ? `${label}, n = ${agents}` : label, ...ratios]
  })
  const growth = (label: string, of: (row: StaleGap) => number): string[] => {
    const points = family.sizes.map((row) => ({ n: row.n, y: of(row) }))
    const local = localExponents(points)
    return [
      label,
      ...points.map(({ y }) => y.toPrecision(3).replace(/e\+?/, 'e')),
      fitPowerLaw(points).alpha.toFixed(2),
      local[local.length - 1].alpha.toFixed(2),
    ]
  }
  const [from, to] = FAMILY_SIZES.slice(-2)
  return [
    'largest (actual loss)/(penalty) reached',
    '',
    textTable(['bound', ...gammas.map((gamma) => `γ = ${gamma}`)], rows),
    '',
    `the family with the largest stale gap found (γ = ${FAMILY_GAMMA})`,
    '',
    textTable(
      ['', ...FAMILY_SIZES.map((n) => `n = ${n}`), 'α', `${from}→${to}`],
      [
        growth('Δ_stale = Σ|L_seq − L_stale|', (row) => row.gap),
        growth('own-states bound, exact shifts (ours)', (row) => row.ownStatesBound),
        growth('Proposition 3.3, added', (row) => row.paperBound),
        growth('D_occ = Σ‖dⁱ⁻¹ − d⁰‖₁', (row) => row.drift),
        growth('Σ own shifts', (row) => row.shifts),
        growth('Σ ρ_i', (row) => row.mass),
      ],
    ),
  ].join('\n')
}

const inside = (name: string, text: string, low: number, high: number): number => {
  const value = Number(text)
  if (!(text.trim() !== '' && value > low && value < high))
    throw new InputError(`--${name}: holds "${text}"; strictly between ${low} and ${high}`)
  return value
}

const whole = (name: string, text: string, least: number): number => {
  const value = Number(text)
  if (!(text.trim() !== '' && Number.isInteger(value) && value >= least))
    throw new InputError(`--${name}: holds "${text}"; a whole number, at least ${least}`)
  return value
}
