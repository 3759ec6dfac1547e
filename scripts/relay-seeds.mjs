#!/usr/bin/env node
/**
 * node scripts/relay-seeds.mjs
 *
 * Trains the relay team of three (configs/relay-3.yaml) with TeamTR and with stale rollouts, three seeds each, and writes
 * data/relay-seeds.csv: held-out reward before and after, their paired difference, each with its 95 % bootstrap interval over 500 problems.
 * Runs are kept in runs/relay-seeds; what is trained already is not trained again.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const rows = []
for (const method of ['teamtr', 'stale']) {
  for (const seed of [0, 1, 2]) {
    const out = `runs/relay-seeds/${method}-${seed}`
    const resume = existsSync(`${root}${out}/config.json`) ? ['--resume'] : []
    const { status, stdout } = spawnSync(process.execPath,
      ['bin/teamtr.js', 'train', 'configs/relay-3.yaml', '--method', method, '--seed', String(seed), '--out', out, '--json', ...resume],
      { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    if (status !== 0) process.exit(status ?? 1)
    const run = JSON.parse(stdout)
    const interval = (name, { estimate, low, high }) => ({ [name]: estimate, [`${name}_low`]: low, [`${name}_high`]: high })
    rows.push({
      method, seed, problems: run.problems, updates: run.updates,
      ...interval('untrained', run.untrained), ...interval('trained', run.trained), ...interval('gain', run.gain),
      largest_kl_over_delta: run.largestKl, ...run.outcomes, violations: run.violations, rollouts: run.rollouts, tokens: run.tokens,
      seconds: run.seconds.update + run.seconds.rollouts, engine: run.engine, machine: `${cpus().length} × ${cpus()[0].model}`,
    })
  }
}
const cell = (value) => (typeof value === 'number' ? String(Number(value.toPrecision(6))) : value)
const lines = [Object.keys(rows[0]), ...rows.map((row) => Object.values(row).map(cell))]
writeFileSync(`${root}data/relay-seeds.csv`, `${lines.map((line) => line.join(',')).join('\n')}\n`)
