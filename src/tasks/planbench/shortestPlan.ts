import { InputError } from '../../util/errors.js'
import { blocksOf, HAND, stepsFrom, TABLE } from './blocksworld.js'
import type { PlanningProblem } from './pddl.js'
import type { Step } from './plan.js'

/**
 * A shortest plan, by A*. The estimate: a block must move if a goal says that it lies elsewhere, or if
 * a block below it must move; each such block costs a picking and a placing, and so a placing does the
 * block in the hand if it is wanted elsewhere or another must move. These are different actions for
 * different blocks, so that the estimate is never too high; and an action changes it by at most 1.
 *
 * @param maxStates states looked at, at most
 * @returns null when the search ends without a plan: there is none
 * @throws InputError when maxStates were looked at, or when `init` is no state of blocks
 */
export const shortestPlan = (problem: PlanningProblem, maxStates = 300_000): Step[] | null => {
  const { names, below: start } = blocksOf(problem)
  const n = names.length
  const goal = problem.goal.map(([predicate, x, y]) => ({ predicate, x: names.indexOf(x), y: names.indexOf(y) }))

  const holds = (below: readonly number[]): boolean =>
    goal.every(({ predicate, x, y }) => {
      switch (predicate) {
        case 'on': return below[x] === y
        case 'ontable': return below[x] === TABLE
        case 'holding': return below[x] === HAND
        case 'clear': return below[x] !== HAND && !below.includes(x)
        default: return !below.includes(HAND)
      }
    })
  const wantedBelow = Array<number | undefined>(n).fill(undefined)
  for (const { predicate, x, y } of goal) if (predicate === 'on' || predicate === 'ontable') wantedBelow[x] = predicate === 'on' ? y : TABLE

  const estimate = (below: readonly number[]): number => {
    const moves = Array<boolean | undefined>(n).fill(undefined)
    const isElsewhere = (block: number): boolean => wantedBelow[block] !== undefined && below[block] !== wantedBelow[block]
    const mustMove = (block: number): boolean => (moves[block] ??= isElsewhere(block) || (below[block] >= 0 && mustMove(below[block])))
    let lying = 0
    for (let block = 0; block < n; block++) if (below[block] !== HAND && mustMove(block)) lying++
    const held = below.indexOf(HAND)
    return 2 * lying + (held >= 0 && (lying > 0 || isElsewhere(held)) ? 1 : 0)
  }

  const nodes: { below: readonly number[]; parent: number; step: Step; cost: number }[] = [{ below: start, parent: -1, step: [], cost: 0 }]
  const best = new Map<string, number>([[start.join(), 0]])
  // Open nodes by cost + estimate: a queue each, the last in first out.
  const open: number[][] = []
  const push = (node: number, total: number): void => void (open[total] ??= []).push(node)
  push(0, estimate(start))
  for (let total = 0; total < open.length; total++) {
    for (let node = open[total]?.pop(); node !== undefined; node = open[total].pop()) {
      const { below, cost } = nodes[node]
      if (best.get(below.join())! < cost) continue
      if (holds(below)) return stepsTo(nodes, node)
      for (const { step, next } of stepsFrom({ names, below })) {
        const key = next.join()
        if ((best.get(key) ?? Infinity) <= cost + 1) continue
        best.set(key, cost + 1)
        if (nodes.length >= maxStates) throw new InputError(`blocksworld: no shortest plan found within ${maxStates} states of ${n} blocks`)
        push(nodes.push({ below: next, parent: node, step, cost: cost + 1 }) - 1, cost + 1 + estimate(next))
      }
    }
  }
  return null
}

const stepsTo = (nodes: readonly { parent: number; step: Step }[], node: number): Step[] => {
  const plan: Step[] = []
  for (let at = node; nodes[at].parent >= 0; at = nodes[at].parent) plan.push(nodes[at].step)
  return plan.reverse()
}
