import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parseCsv, type Row } from '../../src/figures/csv.js'
import { nameOf, verdict } from '../../src/figures/experimentFigures.js'

it('the README’s table of methods, and what it says of it, are data/experiments/main-summary.csv', () => {
  const read = (path: string): string => readFileSync(join(process.cwd(), path), 'utf8')
  const table = parseCsv(read('data/experiments/main-summary.csv'))
  const meanOf = (variant: unknown, measure: string): number => Number(table.find((row) => row.variant === variant && row.measure === measure)?.mean ?? NaN)
  const signed = (x: unknown): string => `${Number(x) < 0 ? '' : '+'}${(100 * Number(x)).toFixed(1)}`
  const shown = table.filter(({ variant, measure }) => measure === 'reward_after' && (!String(variant).includes('.') || variant === 'untrained.best-of-n'))
  expect(shown.length).toBe(11)
  for (const { variant, mean, difference, difference_low, difference_high } of shown) {
    const trained = meanOf(variant, 'updates') > 0
    const cells = [
      nameOf(variant), (100 * Number(mean)).toFixed(1), difference === null ? '' : `${signed(difference)} [${signed(difference_low)}, ${signed(difference_high)}]`,
      trained ? `${(100 * meanOf(variant, 'out_of_region_kept')).toFixed(0)} %` : '', trained ? `${(meanOf(variant, 'tokens') / 1000).toFixed(0)},000` : '',
    ]
    expect(read('README.md')).toContain(`| ${cells.join(' | ')} |`)
  }
  const verdicts = Object.fromEntries(shown.map((row) => [row.variant, verdict(row)]))
  for (const variant of ['stale', 'joint', 'grpo', 'dapo', 'happo', 'single-grpo']) expect(verdicts[variant]).toBe('not told apart')
  expect(verdicts.ppo).toBe('below')
  for (const variant of ['single-dapo', 'untrained.best-of-n']) expect(verdicts[variant]).toBe('above')
  for (const { measure, mean } of table) if (measure === 'violation_rate') expect(mean).toBe(0)
  for (const variant of ['teamtr', 'stale']) expect(meanOf(variant, 'out_of_region_kept')).toBe(0)
})

it('the README’s table of team sizes is data/experiments/team-size-growth.csv and team-size-summary.csv', () => {
  const read = (path: string): string => readFileSync(join(process.cwd(), path), 'utf8')
  const growth = parseCsv(read('data/experiments/team-size-growth.csv'))
  const summary = parseCsv(read('data/experiments/team-size-summary.csv'))
  const at = (level: string, agents: number, measure: string) => summary.find((row) => row.level === level && row.agents === agents && row.measure === measure)!
  const points = (row: Row): string => {
    const text = `${Number(row.difference) < 0 ? '' : '+'}${(100 * Number(row.difference)).toFixed(1)}`
    return verdict(row) === 'not told apart' ? text : `**${text}**`
  }
  for (const [level, name, paper] of [['teamtr', 'TeamTR', '1.05'], ['stale', 'naive sequential (stale, no acceptance)', '1.91'], ['stale-accepted', 'stale, same trust region', '']] as const) {
    const fit = growth.find((row) => row.level === level && row.measure === 'drift' && row.fit === 'log-log')!
    const [alpha, low, high] = [fit.alpha, fit.seeds_low, fit.seeds_high].map((x) => Number(x).toFixed(2))
    const drifts = [2, 8].map((n) => Number(at(level, n, 'drift').mean).toFixed(3)).join(', ')
    const differences = level === 'teamtr' ? '' : [2, 4, 6, 8].map((n) => points(at(level, n, 'reward_after'))).join(', ')
    expect(read('README.md')).toContain(`| ${name} | ${alpha} [${low}, ${high}] | ${drifts} | ${differences} | ${paper} |`)
  }
})
