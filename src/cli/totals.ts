/** Totals over a benchmark's problems, as `score` and `eval` print them. */
import type { Interval } from '../theory/intervals.js'
import type { ProblemTotal } from '../tasks/responses.js'
import { textTable } from '../util/table.js'

export type Totals = Readonly<Record<string, Pick<Interval, 'estimate' | 'low' | 'high'>>>

/** Each statistic with its 95 % interval: percentile bootstrap over the problems, 2000 resamples, a fixed seed. @param k at most the responses to any problem */
export const totalsOf = async (problems: readonly ProblemTotal[], k: number): Promise<Totals> => {
  const { statistics } = await import('../tasks/responses.js')
  const { bootstrapInterval } = await import('../theory/intervals.js')
  const { random } = await import('../util/random.js')
  return Object.fromEntries(Object.entries(statistics(problems, k)).flatMap(([name, statistic]) => {
    // A resample without any problem that the measure is about would be 0/0.
    const counted = problems.filter((problem) => Number.isFinite(statistic([problem])))
    if (counted.length === 0) return []
    const { estimate, low, high } = bootstrapInterval(counted.map((_, i) => i), {
      random: random(1),
      statistic: (some) => statistic(Array.from(some, (i) => counted[i])),
    })
    return [[name, { estimate, low, high }]]
  }))
}

export const totalsTable = (totals: Totals): string => textTable(
  ['total', 'value', '95 % interval'],
  Object.entries(totals).map(([name, { estimate, low, high }]) => [name, estimate.toFixed(4), `${low.toFixed(4)} … ${high.toFixed(4)}`]),
)
