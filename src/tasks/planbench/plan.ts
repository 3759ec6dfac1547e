import type { Action, Atom, Domain, PlanningProblem } from './pddl.js'

/** One step: an action's name and its objects, `['stack', 'a', 'b']`. */
export type Step = readonly string[]

export interface PlanVerdict {
  readonly valid: boolean
  /** Steps that could be carried out. */
  readonly steps: number
  /** Of an invalid plan: what first went wrong. */
  readonly failure?: Failure
}

export type Failure =
  | { readonly kind: 'step'; readonly step: Step; readonly because: 'unknown action' | 'wrong number of objects' | 'unknown object' }
  | { readonly kind: 'precondition'; readonly step: Step; readonly missing: Atom }
  | { readonly kind: 'goal'; readonly missing: Atom }

/** The atoms that hold, each as text: `on a b`. */
export type State = ReadonlySet<string>
export const stateOf = (atoms: readonly Atom[]): State => new Set(atoms.map(keyOf))

/** Carry out a plan step by step: every precondition must hold in its turn, and the goal at the end. */
export const validatePlan = (domain: Domain, problem: PlanningProblem, plan: readonly Step[]): PlanVerdict => {
  let state = stateOf(problem.init)
  for (let steps = 0; steps < plan.length; steps++) {
    const next = carryOut(domain, problem.objects, state, plan[steps])
    if ('kind' in next) return { valid: false, steps, failure: next }
    state = next
  }
  const missing = missingGoal(problem, state)
  return missing ? { valid: false, steps: plan.length, failure: { kind: 'goal', missing } } : { valid: true, steps: plan.length }
}

/** The state after a step, or why it cannot be done. */
export const carryOut = (domain: Domain, objects: readonly string[], state: State, step: Step): State | Failure => {
  const action = domain.actions.find(({ name }) => name === step[0])
  if (!action) return { kind: 'step', step, because: 'unknown action' }
  if (step.length - 1 !== action.parameters.length) return { kind: 'step', step, because: 'wrong number of objects' }
  if (step.slice(1).some((object) => !objects.includes(object))) return { kind: 'step', step, because: 'unknown object' }
  const missing = action.needs.map((atom) => ground(atom, action, step)).find((atom) => !state.has(keyOf(atom)))
  if (missing) return { kind: 'precondition', step, missing }
  const next = new Set(state)
  for (const atom of action.deletes) next.delete(keyOf(ground(atom, action, step)))
  for (const atom of action.adds) next.add(keyOf(ground(atom, action, step)))
  return next
}

/** The first atom of the goal that does not hold. */
export const missingGoal = ({ goal }: PlanningProblem, state: State): Atom | undefined => goal.find((atom) => !state.has(keyOf(atom)))

const ground = (atom: Atom, { parameters }: Action, step: Step): Atom =>
  atom.map((term, i) => (i === 0 ? term : step[parameters.indexOf(term) + 1]))

const keyOf = (atom: Atom): string => atom.join(' ')
