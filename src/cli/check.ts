import type { Command } from 'commander'
import type { StageReport } from '../theory/report.js'
import { textTable } from '../util/table.js'
import { STATEMENT_NAMES } from './statement-names.js'

/** `teamtr check CASE.json`: every quantity of one theory case. */
export const addCheck = (program: Command): void => {
  program
    .command('check')
    .description(
      'compute every quantity of one stage on a tabular team MDP: occupancies, divergences, surrogates, and every bound with its slack',
    )
    .argument('<case>', 'a JSON file in the format teamtr-theory-case/1 (an MDP, a policy, an order, targets, radii, advantage estimates)')
    .option('--json', 'print the `expected` object of the format (teams, steps, stage) as JSON')
    .addHelpText(
      'after',
      `
Without --json: one table of the steps, one of the bounds on the stage (left side: the exact improvement; right side: the bound; slack:
their difference), with the true advantage and with the estimates of the file. Numbers that JSON cannot hold are the strings "Infinity" and
"-Infinity".

Exit codes: 0 done, 2 the case is malformed (the message names the field and the kind, for example row-sum or outside-radius).

Example: teamtr check ../shared/theory-cases/ring-3.json`,
    )
    .action(async (file: string, { json }: { json?: boolean }) => {
      const { caseReport } = await import('../theory/report.js')
      const { jsonNumber } = await import('../theory/json.js')
      const { oneLine } = await import('../util/errors.js')
      const { readJson } = await import('../util/files.js')
      const { theoryCase, report } = caseReport(readJson(file), file)
      const text = json
        ? JSON.stringify(report, (_, value) => (typeof value === 'number' ? jsonNumber(value) : value))
        : readable(
            `${oneLine(theoryCase.id)}: ${theoryCase.input.mdp.n} agents, ${theoryCase.input.mdp.states} states, γ = ${theoryCase.input.mdp.gamma}`,
            report,
          )
      process.stdout.write(`${text}\n`)
    })
}

const readable = (title: string, { teams, steps, stage }: StageReport): string =>
  [
    title,
    `proven errors: ‖d − exact‖₁ ≤ ${largest(teams, 'dError')}, ‖V − exact‖∞ ≤ ${largest(teams, 'vError')} of every team`,
    '',
    textTable(
      ['step', 'agent', 'ρ', 'D_tok', 'E TV', '‖Δd‖₁', 'L_seq', 'L_stale', 'improvement', 'Thm 3.4', 'slack'],
      steps.map((step, i) => [
        String(i),
        String(step.agent),
        ...[
          step.rho,
          step.dTok,
          step.tvMean,
          step.shift,
          step.exact.lSeq,
          step.exact.lStale,
          step.improvement,
          step.exact.thm34,
          step.improvement - step.exact.thm34,
        ].map(number),
      ]),
    ),
    '',
    `A_max ${number(stage.aMax)}   max|Â| ${number(stage.aHatMax)}   c ${number(stage.c)}   ĉ ${number(stage.cHat)}`,
    '',
    textTable(
      ['bound on the stage', 'left side', 'right side', 'slack', 'estimated', 'slack'],
      STAGE_BOUNDS.map((id) => {
        const exact = (stage.exact as Record<string, number>)[id]
        const estimated = (stage.estimated as Record<string, number>)[id]
        return [STATEMENT_NAMES[id], number(stage.improvement), ...pair(stage.improvement, exact), ...pair(stage.improvement, estimated)]
      }),
    ),
  ].join('\n')

const largest = (teams: StageReport['teams'], error: 'dError' | 'vError'): string =>
  Math.max(...teams.map((team) => team[error])).toExponential(1)

const pair = (left: number, right: number | undefined): string[] => (right === undefined ? ['', ''] : [number(right), number(left - right)])

const number = (x: number): string => (Number.isFinite(x) ? Number(x.toPrecision(6)).toString() : String(x).replace('-', '−').replace('Infinity', '∞'))

const STAGE_BOUNDS = [
  'thm36',
  'thm37Exact',
  'thm37Paper',
  'thm37Split',
  'thm37ZetaStale',
  'staleOwnStates',
  'activeMass',
  'activeMassChanged',
  'activeMassStale',
  'tv',
  'tvCapped',
  'tvStale',
  'maxKl',
  'rangePinsker',
  'rangeActiveMass',
  'rangeTv',
  'halfSpanPinsker',
  'halfSpanActiveMass',
  'halfSpanTv',
  'best',
]
