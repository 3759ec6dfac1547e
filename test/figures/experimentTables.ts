/** Small tables of every declared experiment, as `teamtr experiment` would write them: its own grid and summaries, made-up runs. For tests of what is drawn. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { expandGrid, parseGrid } from '../../src/experiments/grid.js'
import { growthRows, summaryRows } from '../../src/experiments/results.js'
import { toCsv, type Row } from '../../src/figures/csv.js'
import { tableRows } from '../../src/figures/table.js'

/** What is measured of a run: 0.6 + 0.01 for every seed and 0.02 for every variant before it; the gap like n², the drift like n. */
const measured = (at: number, seed: number, agents: number): Row => {
  const reward = 0.6 + 0.01 * seed - 0.02 * at
  return {
    updates: 90, reward_before: 0.3, reward_after: reward, gain: reward - 0.3, stale_gap: 0.01 * (1 + 0.1 * seed) * agents ** 2,
    stale_gap_corrected: 0.002 * agents ** 2 - 0.01, drift: 0.1 * agents * (1 + 0.1 * seed), stability: 0.01 * agents, out_of_region: 0.3, out_of_region_kept: 0.1, violation_rate: 0,
    tokens_over_stale: 2, rollouts_over_stale: 2, seconds_over_stale: 0.5,
  }
}

const swap = (variant: string, seed: number): Row => ({
  variant, level: variant, seed, method: 'teamtr', agents: 3, reward_was: 0.9, reward_swapped: 0.7, reward_aligned: variant === 'direct' ? null : 0.85 + 0.01 * seed, reward_recovered: 0.88,
  shock: 0.2, shock_low: 0.15, shock_high: 0.26, shock_aligned: variant === 'direct' ? null : 0.05 - 0.01 * seed, shock_aligned_low: -0.01, shock_aligned_high: 0.08, left: 0.02, left_low: -0.02, left_high: 0.06,
  exact_reward_was: 0.91, exact_reward_swapped: 0.69, exact_reward_aligned: 0.87,
})

/** Tables by their path below data/. */
export const experimentTables = (): Map<string, Row[]> => {
  const tables = new Map<string, Row[]>()
  // through CSV, as the figures get them
  const add = (name: string, rows: readonly Row[]): void => void tables.set(`experiments/${name}.csv`, tableRows(toCsv(rows), name, `experiments/${name}.csv`))
  for (const name of ['main', 'ablations', 'delta', 'order', 'overhead', 'team-size', 'importance-weights', 'plug-and-play', 'plug-and-play-exact']) {
    const file = join(process.cwd(), 'configs', 'experiments', `${name}.yaml`)
    const grid = parseGrid(parse(readFileSync(file, 'utf8')), file)
    const cells = expandGrid(grid, { quick: false, seeds: 3 }, file)
    const variants = [...new Set(cells.map(({ variant }) => variant))]
    const runs = cells.map(({ variant, levels, seed, config }): Row => ({
      variant, level: levels[0], seed, method: config.method.name, agents: config.team.agents, ...measured(variants.indexOf(variant), seed, config.team.agents),
    }))
    const protocols = grid.protocols.flatMap((variant) => runs.filter((row) => row.variant === variant).map((row): Row => ({ ...row, variant: `${variant}.pass-at-n-oracle`, updates: null, reward_after: 0.95 })))
    const swaps = name === 'plug-and-play' ? ['direct', 'aligned'].flatMap((variant) => [0, 1].map((seed) => swap(variant, seed))) : []
    if (swaps.length > 0) add(`${name}-swaps`, swaps)
    add(`${name}-runs`, runs)
    add(`${name}-summary`, [...summaryRows([...runs, ...protocols], cells, grid), ...summaryRows(swaps, cells, {})])
    if (grid.growth) add(`${name}-growth`, growthRows(runs))
  }
  add('plug-and-play-exact-swaps', [0, 1].map((seed) => swap('aligned', seed)))
  add('importance-weights-weights', [3, 5].flatMap((agents) => ['importance', 'importance-unbounded'].flatMap((level) => [0, 1].flatMap((seed) =>
    Array.from({ length: agents }, (_, position): Row => ({ variant: `${level}-${agents}`, level, seed, method: 'importance', agents, position, stages: 30, ess: 0.8 ** position + 0.01 * seed, p99: 3, max: 9 }))))))
  return tables
}
