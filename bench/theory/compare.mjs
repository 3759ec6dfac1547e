// Exact evaluation against scipy, on the same MDPs, in the same run, in alternation: `npm run build && node bench/theory/compare.mjs [--rounds N]`.
//
// Both sides start from the same arrays (transitions over state-action pairs, rewards, policies) and end with d, V, Q and A. Ours gets a
// new MDP object each round, so that what it remembers about an MDP is paid for each time. Times are medians; the ratio is scipy's best
// method over ours. scipy comes from PyPI into a virtual environment in the cache folder.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { evaluate, randomPolicy, ring, routed } from '../../dist/theory/index.js'
import { random } from '../../dist/util/random.js'
import { textTable } from '../../dist/util/table.js'

const PACKAGES = ['scipy==1.15.3', 'numpy==2.2.6']
const rounds = Number(parseArgs({ options: { rounds: { type: 'string', default: '15' } } }).values.rounds)

const cases = [
  {
    name: 'one exact stage: ring, n = 8, 50 levels, 5 actions, 400 states, 9 teams',
    mdp: ring({ agents: 8, levels: 50, actions: 5, gamma: 0.95 }, random(1)),
    teams: 9,
    methods: ['splu', 'dense', 'bicgstab', 'centred sweeps'],
    rounds,
  },
  ...[1e4, 1e5].map((states) => ({
    name: `routed, ${states} states, 3 actions, 10 successors, γ = 0.95`,
    mdp: routed({ agents: 4, states, actions: 3, successors: 10, gamma: 0.95 }, random(1)),
    teams: 1,
    methods: ['bicgstab', 'gmres', 'sweeps', 'centred sweeps'],
    rounds: states === 1e4 ? rounds : Math.ceil(rounds / 3),
  })),
]
const TOLERANCE = 1e-10

const environment = () => {
  const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'teamtr', 'bench-scipy')
  const python = join(folder, 'bin', 'python')
  const ready = () => spawnSync(python, ['-c', 'import scipy'], { stdio: 'ignore' }).status === 0
  if (existsSync(python) && ready()) return python
  const run = (command, args) => {
    if (spawnSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status !== 0) throw new Error(`${command} ${args[1]} failed`)
  }
  run('python3', ['-m', 'venv', folder])
  run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES])
  return python
}

const scipy = (python) => {
  const script = fileURLToPath(new URL('scipy_side.py', import.meta.url))
  const child = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, OPENBLAS_NUM_THREADS: '1' } })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    ask: async (command) => {
      child.stdin.write(`${JSON.stringify(command)}\n`)
      const { value, done } = await lines.next()
      if (done) throw new Error('the scipy side ended')
      return JSON.parse(value)
    },
    end: () => child.stdin.end(),
  }
}

const writeMdp = (folder, mdp, policies) => {
  const { gamma, states, mu, reward, actionStart, rowStart, next, prob } = mdp
  writeFileSync(join(folder, 'size.json'), JSON.stringify({ gamma, states, policies: policies.length }))
  for (const [name, array] of Object.entries({ mu, reward, actionStart, rowStart, next, prob })) writeFileSync(join(folder, name), array)
  writeFileSync(join(folder, 'policy'), Buffer.concat(policies.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength))))
}

const ours = (mdp, policies) => {
  const fresh = Object.freeze({ ...mdp })
  const cpu = process.cpuUsage()
  const wall = performance.now()
  const results = policies.map((policy) => evaluate(fresh, policy, { tolerance: TOLERANCE }))
  const seconds = (performance.now() - wall) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const { J, aMax } = results.at(-1)
  return { wall: seconds, cpu: (user + system) / 1e6, error: Math.max(...results.map((one) => one.error)), J, aMax }
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1]
const summary = (runs) => ({ wall: median(runs.map((r) => r.wall)), cpu: median(runs.map((r) => r.cpu)), error: Math.max(...runs.map((r) => r.error)) })
const ms = (seconds) => (seconds * 1000).toPrecision(3)

const peer = scipy(environment())
const folder = mkdtempSync(join(tmpdir(), 'teamtr-bench-'))
try {
  for (const { name, mdp, teams, methods, rounds: count } of cases) {
    const policies = Array.from({ length: teams }, (_, i) => randomPolicy(mdp, random(100 + i)))
    writeMdp(folder, mdp, policies)
    const versions = await peer.ask({ load: folder })
    const runs = Object.fromEntries(['teamtr', ...methods].map((method) => [method, []]))
    const WARM = 3
    for (let round = -WARM; round < count; round++) {
      for (const method of Object.keys(runs)) {
        const result = method === 'teamtr' ? ours(mdp, policies) : await peer.ask({ run: method, tolerance: TOLERANCE })
        if (round >= 0) runs[method].push(result)
      }
    }
    const rows = Object.entries(runs).map(([method, all]) => ({ method, ...summary(all), solving: all[0].solving === undefined ? NaN : median(all.map((r) => r.solving)) }))
    // only what reaches the tolerance competes (errors of scipy's results are measured with its own products)
    const best = rows.slice(1).filter((r) => r.error <= 1.01 * TOLERANCE).reduce((a, b) => (b.wall < a.wall ? b : a))
    const off = Math.abs(runs[best.method][0].J - runs.teamtr[0].J) + Math.abs(runs[best.method][0].aMax - runs.teamtr[0].aMax)
    if (!(off < 1e-8)) throw new Error(`${best.method} disagrees with teamtr by ${off}`)
    console.log(`\n${name}  (scipy ${versions.scipy}, numpy ${versions.numpy}, node ${process.versions.node}, ${count} rounds)`)
    console.log(textTable(
      ['method', 'wall ms', 'CPU ms', 'of it solving', 'error ≤'],
      rows.map((r) => [r.method, ms(r.wall), ms(r.cpu), Number.isNaN(r.solving) ? '' : ms(r.solving), r.error.toExponential(1)]),
    ))
    console.log(`scipy's best (${best.method}) / teamtr: wall ${(best.wall / rows[0].wall).toFixed(2)}, solving alone / teamtr ${(best.solving / rows[0].wall).toFixed(2)}, CPU ${(best.cpu / rows[0].cpu).toFixed(2)}`)
  }
} finally {
  peer.end()
  rmSync(folder, { recursive: true, force: true })
}
