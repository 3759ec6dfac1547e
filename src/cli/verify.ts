import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { InvalidArgumentError, Option, type Command } from 'commander'
import type { Mutation } from '../theory/checks.js'
import type { VerifyResult } from '../theory/verify.js'
import { progress } from '../util/progress.js'
import { textTable } from '../util/table.js'
import { inReadingOrder, statementName } from './statement-names.js'

interface Options {
  cases: number
  seed: number
  first: number
  jobs: number
  json?: boolean
  broken?: Mutation
}

/** `teamtr verify`: every statement on random team MDPs. */
export const addVerify = (program: Command): void => {
  program
    .command('verify')
    .description('check every lemma, proposition, theorem and certificate on random team MDPs, both sides computed exactly')
    .option('--cases <n>', 'number of cases', whole(1), 10_000)
    .option('--seed <s>', 'seed of the cases', whole(0), 1)
    .option('--first <k>', 'number of the first case (to run one again: --first K --cases 1)', whole(0), 0)
    .option('--jobs <j>', 'worker threads; the result does not depend on it', whole(1, 256), availableParallelism())
    .option('--json', 'print the tallies as JSON')
    // a wrong constant on purpose, to see that the check notices: not for general use
    .addOption(new Option('--broken <how>').choices(['halfConstant', 'horizonDropped', 'klSwapped'] satisfies Mutation[]).hideHelp())
    .addHelpText(
      'after',
      `
Cases come from every family (ring, routed, tree), from degenerate inputs (agents that never act, one action, no reward, nearly
deterministic policies, lost support, identical and tiny updates, discounts from 0.01 to 0.999) and from adversarial ones that come near
the bounds. Each statement is checked with the true advantage and, where it knows an estimate, with estimated ones.

A statement is violated when its left side falls below its right side by more than rounding can explain (relative to the sizes of all
terms). Smallest slack: left − right, of an equality minus the absolute difference. Tightest ratio: actual loss over penalty, 1 would be
tight.

Exit codes: 0 no violation, 1 a violation (its seed and case are printed), 2 wrong options.`,
    )
    .action(async (options: Options) => {
      const { cases, jobs, json } = options
      const bar = progress('verify', cases, 'cases')
      const started = performance.now()
      const result = await inWorkers(options, (done) => bar.update(done))
      bar.end()
      const seconds = (performance.now() - started) / 1000
      const rate = `${cases} cases in ${seconds.toFixed(1)} s (${Math.round(cases / seconds)} a second, ${jobs} jobs)`
      process.stdout.write(json ? `${toJson(result)}\n` : `${readable(result)}\n\n${rate}\n`)
      if (result.violations.length) process.exitCode = 1
    })
}

const whole =
  (least: number, most = 2 ** 31) =>
  (text: string): number => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`A whole number, ${least} to ${most}.`)
    return value
  }

/** Cases handed to a worker at once: about a tenth of a second. */
const CHUNK = 250

/** Hand ranges of cases to `jobs` workers as they get free; tallies merge in any order to the same result. */
const inWorkers = async ({ cases, seed, first, jobs, broken }: Options, onDone: (done: number) => void): Promise<VerifyResult> => {
  const { mergeResults } = await import('../theory/verify.js')
  const results: VerifyResult[] = []
  let next = first
  let done = 0
  const work = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL('./verify-worker.js', import.meta.url))
      const more = (): void => {
        if (next >= first + cases) return void worker.terminate().then(() => resolve(), reject)
        const from = next
        next = Math.min(next + CHUNK, first + cases)
        worker.postMessage({ seed, from, to: next, mutation: broken })
      }
      worker.on('message', (result: VerifyResult) => {
        results.push(result)
        done += result.cases
        onDone(done)
        more()
      })
      worker.on('error', reject)
      more()
    })
  await Promise.all(Array.from({ length: Math.min(jobs, Math.ceil(cases / CHUNK)) }, work))
  return mergeResults(results)
}

const toJson = (result: VerifyResult): string => {
  const statements = Object.fromEntries(inReadingOrder(Object.keys(result.statements)).map((id) => [id, result.statements[id]]))
  return JSON.stringify(
    { ...result, statements },
    (_, value) => (typeof value === 'number' && !Number.isFinite(value) ? String(value) : value),
    1,
  )
}

const readable = ({ seed, statements, violations }: VerifyResult): string =>
  [
    textTable(
      ['statement', 'cases', 'violations', 'smallest slack', 'tightest ratio'],
      inReadingOrder(Object.keys(statements)).map((id) => {
        const { cases, violations, smallestSlack, tightestRatio } = statements[id]
        return [
          statementName(id),
          String(cases),
          String(violations),
          smallestSlack.toExponential(2),
          tightestRatio === -Infinity ? '' : tightestRatio.toFixed(4),
        ]
      }),
    ),
    ...violations.map(
      (one) =>
        `violation: ${statementName(one.statement)}: left ${one.left}, right ${one.right}, slack ${one.slack}, rounding ${one.tolerance} ` +
        `(${one.kind}; again: teamtr verify --seed ${seed} --first ${one.case} --cases 1)`,
    ),
  ].join('\n')
