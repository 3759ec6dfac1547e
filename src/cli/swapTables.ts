import type { Recovery } from '../train/recovery.js'
import type { Replacement, Swapped } from '../train/replacement.js'
import type { Estimate } from '../train/estimate.js'
import { textTable } from '../util/table.js'

/** What a swap cost, and how far the team is back, as tables. */
export const swapTables = (swap: Replacement, after: Recovery): string => {
  const { agent, added, from, with: other, contexts, before, direct, aligned, exact } = swap
  const team = (name: string, { reward, shock, kl }: Swapped): string[] => [name, interval(reward), interval(shock, '+'), interval(kl)]
  const who = other ? `agent ${other.agent} of ${other.run} after ${other.updates} updates` : 'a new one, warmed up'
  const parts = [
    `${added ? `agent ${agent} added to` : `agent ${agent} replaced in`} ${from.run} after ${from.updates} updates: ${who}`,
    textTable([`${before.rewards.length} held-out problems`, 'reward', 'swap shock', 'KL(new‖old), nats a message'], [
      ['as it was', interval(before.reward)],
      team('swapped', direct),
      ...(aligned ? [team(`aligned on ${contexts} contexts`, aligned)] : []),
      ...(after.stages > 0 ? [[`after ${after.stages} stages`, interval(after.latest), interval(after.left, '+')]] : []),
    ]),
  ]
  if (exact) {
    const row = (name: string, x: NonNullable<typeof exact>['direct']): string[] => [name, number(x.reward), number(x.J), number(x.kl.message), number(x.kl.occupancy), number(x.shift)]
    parts.push(textTable([`exactly, ${exact.states} states`, 'reward', 'J', 'KL a message', 'D_tok', '‖Δd‖₁'], [
      ['as it was', number(exact.before.reward), number(exact.before.J)], row('swapped', exact.direct), ...(exact.aligned ? [row('aligned', exact.aligned)] : []),
    ]))
  }
  if (after.stages > 0) parts.push(after.recoveredAfter === null ? 'not back yet: the loss is still told from 0' : `back after ${after.recoveredAfter} stages: a loss is no longer told from 0`)
  if (after.certificates) {
    const { before, after: now, change } = after.certificates
    const row = (name: string, { surrogate, penalty, error, bound }: typeof before): string[] => [name, number(surrogate), number(penalty), number(error), number(bound)]
    parts.push(textTable(['certificate of a stage, from logs', 'Σ L', 'penalty', 'error', 'bound'], [
      row('last before the swap', before), row('first after it', now), ['part in the change (Prop. 3.9)', number(change.surrogate), number(change.penalty), number(change.error), number(change.total)],
    ]))
  }
  if (after.bound) parts.push(`Proposition 3.8, from logs: J after the first stage ${interval(after.bound.reached)}; certified to reach ${number(after.bound.bound)}, from ${number(after.bound.alignedReturn)}`)
  return parts.join('\n\n')
}

const number = (x: number): string => (Number.isFinite(x) ? x.toFixed(4) : String(x).replace('Infinity', '∞'))
const interval = (x: Estimate, sign = ''): string => `${x.estimate > 0 ? sign : ''}${x.estimate.toFixed(3)} [${x.low.toFixed(3)}, ${x.high.toFixed(3)}]`
