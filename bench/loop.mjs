#!/usr/bin/env node
/**
 * Tokens per second of rollouts and of updates, per engine: the relay team of three, as `teamtr train` runs it.
 *
 *     npm run build && node bench/loop.mjs [ENGINE …]      (default: tensorflow wasm cpu)
 *
 * Each engine in a process of its own; the first stage warms up, the median of the updates after it counts.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const STAGES = { tensorflow: 6, wasm: 3, cpu: 2 }
const cli = fileURLToPath(new URL('../bin/teamtr.js', import.meta.url))
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)]
const asked = process.argv.slice(2)
const unknown = asked.find((engine) => !(engine in STAGES))
if (unknown) {
  console.error(`bench/loop.mjs: unknown engine "${unknown}"; ${Object.keys(STAGES).join(', ')}`)
  process.exit(2)
}

console.log('engine      rollouts, tokens/s  updates, tokens/s')
for (const engine of asked.length ? asked : Object.keys(STAGES)) {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-bench-'))
  try {
    // Modulo 2 an untrained team is right half the time: every group has something to learn from.
    const config = { stages: STAGES[engine], task: { name: 'relay', modulus: 2 }, warmup: { steps: 0 }, evaluation: { problems: 1, every: 0 }, rollout: engine === 'cpu' ? { prompts: 32 } : {} }
    const { readRun } = await import('../dist/train/runFolder.js')
    const file = join(folder, 'config.json')
    const { writeAtomic } = await import('../dist/util/files.js')
    writeAtomic(file, JSON.stringify(config))
    const { status, stderr } = spawnSync(process.execPath, [cli, 'train', file, '--out', join(folder, 'run'), '--engine', engine], { encoding: 'utf8' })
    if (status !== 0) {
      console.log(`${engine.padEnd(10)}  ${stderr.trim().split('\n').pop()}`)
      continue
    }
    const updates = readRun(join(folder, 'run')).updates.filter(({ stage, outcome }) => stage > 0 && outcome !== 'skipped')
    const rollouts = median(updates.map(({ tokens, seconds }) => tokens / seconds.rollouts))
    // An update reads every message of its agent once a gradient step and once a measurement; counted here: sampled tokens of the agent, each once.
    const learned = median(updates.map(({ messages, seconds }) => (2 * messages) / seconds.update))
    console.log(`${engine.padEnd(10)}  ${Math.round(rollouts).toLocaleString('en').padStart(18)}  ${Math.round(learned).toLocaleString('en').padStart(17)}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
