import { join } from 'node:path'
import type { Command } from 'commander'
import type { Cell, Row } from '../figures/csv.js'
import { InputError } from '../util/errors.js'
import { progress } from '../util/progress.js'

/** `teamtr tables`: the small tables that figures are drawn from. */
export const addTables = (program: Command): void => {
  program.command('tables')
    .description('compute the small tables that figures are drawn from (the large ones have their own commands: scaling, worst-case)')
    .argument('[names...]', `which ones: ${Object.keys(tables).join(', ')}; all by default`)
    .option('--out <dir>', 'folder to write NAME.csv to', 'data')
    .addHelpText('after', `
Exact examples on small teams, with fixed seeds: a run gives the same files every time. data/README.md says what is in each.

Exit codes: 0 done, 2 no such table, or the folder cannot be written.`)
    .action(async (names: string[], { out }: { out: string }) => {
      const unknown = names.find((name) => !(name in tables))
      if (unknown !== undefined) throw new InputError(`tables: "${unknown}"; one of ${Object.keys(tables).join(', ')}`)
      const { toCsv } = await import('../figures/csv.js')
      const { writableFolder, writeAtomic } = await import('../util/files.js')
      writableFolder(out)
      const wanted = names.length ? names : Object.keys(tables)
      const bar = progress('tables', wanted.length)
      for (const [k, name] of wanted.entries()) {
        bar.update(k, name)
        const file = join(out, `${name}.csv`)
        writeAtomic(file, toCsv((await tables[name]()).map(rounded)))
        process.stdout.write(`${file}\n`)
      }
      bar.end()
    })
}

/** Six digits: the last ones of a double depend on the order of a sum, and a file should not. */
const rounded = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).map(([name, cell]): [string, Cell] =>
    [name, typeof cell !== 'number' || Number.isInteger(cell) ? cell : Math.abs(cell) < 1e-9 ? 0 : Number(cell.toPrecision(6))]))

const theory = (): Promise<typeof import('../theory/index.js')> => import('../theory/index.js')
const chance = async () => (await import('../util/random.js')).random

/** Infinite limits are no cell. */
const finite = (x: number): number | null => (Number.isFinite(x) ? x : null)

/** A team in rotation and a random policy: n agents, four contexts each, three messages. */
const rotation = async (agents: number, gamma: number) => {
  const { randomPolicy, ring } = await theory()
  const random = await chance()
  const mdp = ring({ agents, levels: 4, actions: 3, gamma, reach: 3 }, random(1))
  return { mdp, policy: randomPolicy(mdp, random(2)), order: Array.from({ length: agents }, (_, j) => j) }
}

const rotationStage = async (agents: number, gamma: number, radius: number) => {
  const { runStage, tiltToRadius } = await theory()
  const { mdp, policy, order } = await rotation(agents, gamma)
  return runStage(mdp, policy, { order, update: (input) => tiltToRadius(input, radius).policy })
}

/** What Figure 1 plays (notebook 7): a message is rewarded when it differs from the one before. */
const dividedWork = async () => (await theory()).twoAgentGame({ payoff: [[0, 1], [1, 0]], gamma: 0.8 })
const methods = [['joint', 'joint'], ['stale', 'stale'], ['intermediate', 'TeamTR']] as const

const tables: Readonly<Record<string, () => Promise<Row[]>>> = {
  'ring-team': async () => {
    const { evaluate, randomPolicy, ring, transitionFlows } = await theory()
    const random = await chance()
    const mdp = ring({ agents: 3, levels: 4, actions: 3, gamma: 0.9 }, random(3))
    const policy = randomPolicy(mdp, random(4))
    const { d } = evaluate(mdp, policy)
    const nodes = Array.from(d, (occupancy, s) => ({ kind: 'context', agent: mdp.activeAgent[s], level: s % 4, occupancy, from: null, to: null, flow: null }))
    return [...nodes, ...transitionFlows(mdp, policy, d).map((flow) => ({ kind: 'flow', agent: null, level: null, occupancy: null, ...flow }))]
  },
  'trust-region': async () => {
    const { klBoundary } = await theory()
    const behaviour = [0.56, 0.32, 0.12]
    return [
      { series: 'behaviour', order: 0, p0: behaviour[0], p1: behaviour[1], p2: behaviour[2] },
      ...[0.2, 0.05, 0.01].flatMap((delta) => klBoundary(behaviour, delta).map(([p0, p1, p2], order) => ({ series: `KL = ${delta}`, order, p0, p1, p2 }))),
    ]
  },
  'stage-terms': async () => {
    const { measureStage, stageBounds } = await theory()
    const delta = 0.05
    const stage = await rotationStage(3, 0.2, delta)
    const measure = measureStage(stage)
    const bound = stageBounds(measure, { gamma: 0.2, radii: stage.order.map(() => delta), kind: 'exact' }).thm36
    return bound.terms.map(({ surrogate, penalty }, i) => ({ update: i + 1, surrogate, penalty, certificate: bound.bound, improvement: measure.improvement }))
  },
  'penalty-shares': async () => {
    const { penaltyShares } = await theory()
    const { mdp, policy, order } = await rotation(4, 0.9)
    const radii = Array.from({ length: 16 }, (_, k) => 10 ** (-4 + k / 3))
    return penaltyShares(mdp, policy, { order, radii }).map(({ delta, id, statement, penalty, share }) => ({ delta, certificate: id, statement, penalty, share }))
  },
  'sampled-certificate': async () => {
    const { measureStage, sampledCertificate } = await theory()
    const random = await chance()
    const stage = await rotationStage(3, 0.5, 0.001 / 3)
    const { improvement } = measureStage(stage)
    return [1000, 3000, 10_000, 30_000, 100_000].map((rollouts) => {
      const { thm36, activeMass, tvRange } = sampledCertificate({ ...stage, rollouts, random: random(5) })
      return { rollouts, thm36, activeMass, tvRange, improvement }
    })
  },
  'importance-ring': async () => {
    const { importanceCollapse } = await theory()
    const random = await chance()
    const rows = [3, 5].flatMap((n) => [0.01, 0.1, 0.2].map(async (delta) => {
      const stage = await rotationStage(n, 0.9, delta / n)
      return importanceCollapse({ ...stage, rollouts: 4000, turns: 2 * n, random: random(6) })
        .map(({ update, essPerRollout, essLimit, max, topShare }) => ({ n, delta, update, ess_per_rollout: essPerRollout, ess_limit: essLimit, max_weight: max, top_share: topShare }))
    }))
    return (await Promise.all(rows)).flat()
  },
  'paper-fits': async () => {
    const { auditPaperTable } = await theory()
    return auditPaperTable().rows.flatMap(({ quantity, method, publishedAlpha, fits, rounding }) => fits.map(({ name, fit, bootstrap }) => ({
      quantity, method, fit: name, alpha: fit.alpha, low: finite(fit.low), high: finite(fit.high), bootstrap_low: bootstrap.low, bootstrap_high: bootstrap.high,
      rounding_low: rounding[0], rounding_high: rounding[1], published_alpha: publishedAlpha,
    })))
  },
  'landscape': async () => {
    const { landscapeGrid } = await theory()
    return landscapeGrid(await dividedWork(), 31).map(({ theta0, theta1, J }) => ({ theta0, theta1, J }))
  },
  'landscape-paths': async () => {
    const { pathOf } = await theory()
    const mdp = await dividedWork()
    return methods.flatMap(([evaluation, method]) =>
      pathOf(mdp, { theta0: 1.6, theta1: 2 }, { evaluation, delta: 0.05, stages: 12 }).map(({ update, theta0, theta1, J }) => ({ method, update, theta0, theta1, J })))
  },
  'landscape-starts': async () => {
    const { outcomes } = await theory()
    const mdp = await dividedWork()
    return [0.01, 0.02, 0.05, 0.1, 0.2].flatMap((delta) => methods.map(([evaluation, method]) => ({
      delta, method, ...outcomes(mdp, { evaluation, delta, stages: 15, size: 21, within: 2 }),
    })))
  },
}
