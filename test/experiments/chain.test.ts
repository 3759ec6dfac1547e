import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, vi } from 'vitest'
import { parseCsv } from '../../src/figures/csv.js'
import { readSwap } from '../../src/train/recovery.js'
import { readRun } from '../../src/train/runFolder.js'
import { teamtrWith } from '../teamtr.js'

vi.setConfig({ testTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'chain-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const teamtr = (...args: string[]) => teamtrWith({ cwd: folder }, args)

it('an experiment whose runs start from others’: they come first, and the tables tell of the swaps', async () => {
  writeFileSync(at('swaps.yaml'), `
about: a swap
seeds: 1
base:
  task: {name: relay, modulus: 3}
  team: {agents: 2}
  model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}
  warmup: {steps: 20, episodes: 16}
  stages: 1
  rollout: {prompts: 4, group: 4}
  evaluation: {problems: 20, every: 1}
variants:
  swapped: {start: {run: trained, agent: 1, align: {contexts: 8, steps: 3, batch: 4}}}
  trained: {stages: 2}
`)
  const { status, stdout, stderr } = await teamtr('experiment', 'swaps.yaml', '--out', 'out', '--jobs', '2', '--no-data')
  expect([status, stderr]).toEqual([0, expect.stringMatching(/trained-0: .*\n(.*\n)*.*swapped-0: /)])
  const [row] = parseCsv(readFileSync(at('out', 'swaps', 'swaps-swaps.csv'), 'utf8'))
  const swap = readSwap(at('out', 'swaps', 'swapped-0'))
  expect(row).toMatchObject({
    variant: 'swapped', seed: 0, contexts: 8, stages: 1, reward_was: swap.before.reward.estimate, reward_aligned: swap.aligned!.reward.estimate,
    reward_recovered: readRun(at('out', 'swaps', 'swapped-0')).evaluations.at(-1)!.reward.estimate,
  })
  expect(swap.from.updates).toBe(4)
  expect(row.shock).toBeCloseTo(swap.direct.shock.estimate, 5)
  expect(stdout).toMatch(/^swapped +\d\.\d{3} /m)
  // Elsewhere they are the same runs.
  renameSync(at('out'), at('moved'))
  expect(await teamtr('experiment', 'merge', 'moved', '--out', 'tables')).toMatchObject({ status: 0 })
  expect(readFileSync(at('tables', 'swaps-swaps.csv'), 'utf8')).toBe(readFileSync(at('moved', 'swaps', 'swaps-swaps.csv'), 'utf8'))
})
