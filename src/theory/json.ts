import { z } from 'zod'
import { show, validate } from '../util/validate.js'
import { pairs, replaceAgent, requireDistribution, requireLength, teamMdp, teamPolicy, TheoryError, type TeamMdp, type TeamPolicy } from './mdp.js'

/** One stage of updates on a team MDP: what `../shared/theory-cases` calls the input. */
export interface StageInput {
  readonly mdp: TeamMdp
  /** π̂⁰ … π̂ⁿ: the team after i replacements; teams[i+1] differs from teams[i] in the rows of agent order[i] alone */
  readonly teams: readonly TeamPolicy[]
  /** σ: the agent replaced at step i */
  readonly order: readonly number[]
  /** δ_i, occupancy radii */
  readonly radii: readonly number[]
  /** Â of step i, over pairs */
  readonly advantageEstimate: readonly Float64Array[]
}

/** A file of `../shared/theory-cases`. */
export interface TheoryCase {
  readonly id: string
  readonly family: string
  readonly note: string
  readonly input: StageInput
  /** as in the file, unread; undefined when there is none */
  readonly expected: unknown
}

export const CASE_FORMAT = 'teamtr-theory-case/1'

// Outer shapes are zod's; the long arrays inside are read by the loops below, which name the place and are quick on a million entries.
const list = z.array(z.unknown())
const mdpFields = { n: z.unknown(), gamma: z.unknown(), mu: list, activeAgent: list, numActions: list, P: list, r: list }
const mdpSchema = z.strictObject(mdpFields)
const inputSchema = z.strictObject({
  ...mdpFields,
  policy: list,
  order: list,
  targets: z.array(z.strictObject({ agent: z.unknown(), states: list, probs: list, rule: z.string().optional(), eta: z.unknown().optional() })),
  radii: list,
  advantageEstimate: list,
})
const caseSchema = z.strictObject({
  format: z.literal(CASE_FORMAT),
  id: z.string(),
  family: z.string().default(''),
  note: z.string().default(''),
  input: z.unknown(),
  expected: z.unknown().optional(),
})

/**
 * Read a theory case (parsed JSON; the strings "Infinity", "-Infinity" and "NaN" are numbers).
 *
 * @param where what it came from, usually a file name: it opens every message
 * @throws InputError for an unknown or missing field; TheoryError for a wrong number, with kind and place
 */
export const parseTheoryCase = (value: unknown, where: string): TheoryCase => {
  const { id, family, note, input, expected } = validate(caseSchema, value, where)
  return { id, family, note, input: parseStageInput(input, where), expected }
}

/** Read the `input` object of a theory case. @throws as `parseTheoryCase` */
export const parseStageInput = (value: unknown, where: string): StageInput => naming(where, () => {
  const raw = validate(inputSchema, value, where)
  const mdp = readMdp(raw)
  const policy = teamPolicy(mdp, readRows('policy', raw.policy, mdp))
  const order = readIntegers('order', raw.order)
  requireLength('order', order, mdp.n)
  if (new Set(order).size !== mdp.n || order.some((j) => j < 0 || j >= mdp.n)) {
    throw new TheoryError('order', 'order', `holds ${show([...order])}; each of the agents 0 to ${mdp.n - 1} once`)
  }
  requireLength('targets', raw.targets, mdp.n)
  const teams = [policy]
  raw.targets.forEach((target, i) => {
    const agent = readNumber(`targets[${i}].agent`, target.agent)
    if (agent !== order[i]) throw new TheoryError('order', `targets[${i}].agent`, `holds ${agent}; order[${i}] is ${order[i]}`)
    teams.push(replaceAgent(mdp, teams[i], agent, readTarget(`targets[${i}]`, target, agent, mdp)))
  })
  const radii = readNumbers('radii', raw.radii)
  requireLength('radii', radii, mdp.n)
  radii.forEach((radius, i) => {
    if (!Number.isFinite(radius)) throw new TheoryError('not-finite', `radii[${i}]`, `holds ${radius}; a finite radius`)
    if (radius < 0) throw new TheoryError('radius', `radii[${i}]`, `holds ${radius}; at least 0`)
  })
  requireLength('advantageEstimate', raw.advantageEstimate, mdp.n)
  const advantageEstimate = raw.advantageEstimate.map((rows, i) => readFinite(`advantageEstimate[${i}]`, rows, mdp))
  return { mdp, teams, order: [...order], radii: [...radii], advantageEstimate }
})

/** Read the MDP part alone: n, gamma, mu, activeAgent, numActions, P, r. @throws as `parseTheoryCase` */
export const parseMdp = (value: unknown, where: string): TeamMdp => naming(where, () => readMdp(validate(mdpSchema, value, where)))

const readMdp = (raw: z.output<typeof mdpSchema>): TeamMdp => {
  const n = readNumber('n', raw.n)
  const gamma = readNumber('gamma', raw.gamma)
  const states = raw.activeAgent.length
  const mu = Float64Array.from(readNumbers('mu', raw.mu))
  const activeAgent = Int32Array.from(readIntegers('activeAgent', raw.activeAgent))
  const numActions = readIntegers('numActions', raw.numActions)
  requireLength('numActions', numActions, states)
  const actionStart = new Int32Array(states + 1)
  for (let s = 0; s < states; s++) {
    if (numActions[s] < 1) throw new TheoryError('size', `numActions[${s}]`, `holds ${numActions[s]}; at least 1`)
    actionStart[s + 1] = actionStart[s] + numActions[s]
    if (actionStart[s + 1] < 0) throw new TheoryError('size', `numActions[${s}]`, `holds ${numActions[s]}; at most 2147483647 actions in all`)
  }
  const reward = readFinite('r', raw.r, { states, actionStart })
  const { rowStart, next, prob } = readTransitions(raw.P, states, actionStart)
  return teamMdp({ n, gamma, states, mu, activeAgent, actionStart, rowStart, next, prob, reward })
}

/** [s, a, s', p] in any order → compressed rows: count, then place. */
const readTransitions = (P: readonly unknown[], states: number, actionStart: Int32Array) => {
  const count = actionStart[states]
  const pair = new Int32Array(P.length)
  const to = new Int32Array(P.length)
  const p = new Float64Array(P.length)
  const rowStart = new Int32Array(count + 1)
  P.forEach((entry, i) => {
    const place = `P[${i}]`
    const [s, a, next, probability] = readNumbers(place, entry)
    requireLength(place, entry as unknown[], 4)
    const within = Number.isInteger(s) && s >= 0 && s < states && Number.isInteger(next) && next >= 0 && next < states
    if (!within) throw new TheoryError('size', place, `holds ${show(entry)}; [s, a, s', p] with states 0 to ${states - 1}`)
    const actions = actionStart[s + 1] - actionStart[s]
    if (!Number.isInteger(a) || a < 0 || a >= actions) {
      throw new TheoryError('size', place, `holds action ${a} of state ${s}; an action, 0 to ${actions - 1}`)
    }
    pair[i] = actionStart[s] + a
    to[i] = next
    p[i] = probability
    rowStart[pair[i] + 1]++
  })
  for (let k = 0; k < count; k++) rowStart[k + 1] += rowStart[k]
  const at = rowStart.slice(0, count)
  const next = new Int32Array(P.length)
  const prob = new Float64Array(P.length)
  for (let i = 0; i < P.length; i++) {
    const e = at[pair[i]]++
    next[e] = to[i]
    prob[e] = p[i]
  }
  requireNoRepeats(rowStart, next, states, actionStart)
  return { rowStart, next, prob }
}

const requireNoRepeats = (rowStart: Int32Array, next: Int32Array, states: number, actionStart: Int32Array): void => {
  const seen = new Int32Array(states).fill(-1)
  for (let s = 0; s < states; s++) {
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) {
        if (seen[next[e]] === k) throw new TheoryError('size', `P[s=${s},a=${k - actionStart[s]}]`, `names state ${next[e]} twice; once`)
        seen[next[e]] = k
      }
    }
  }
}

type Rows = Pick<TeamMdp, 'states' | 'actionStart'>

/** One row per state, flattened over pairs. */
const readRows = (place: string, value: unknown, { states, actionStart }: Rows): Float64Array => {
  const rows = readList(place, value)
  requireLength(place, rows, states)
  // all lengths first: nothing is allocated that the file does not hold
  rows.forEach((row, s) => requireLength(`${place}[${s}]`, readList(`${place}[${s}]`, row), actionStart[s + 1] - actionStart[s]))
  const flat = new Float64Array(actionStart[states])
  rows.forEach((row, s) => flat.set(readNumbers(`${place}[${s}]`, row), actionStart[s]))
  return flat
}

const readFinite = (place: string, value: unknown, rows: Rows): Float64Array => {
  const flat = readRows(place, value, rows)
  for (let s = 0; s < rows.states; s++) {
    for (let k = rows.actionStart[s]; k < rows.actionStart[s + 1]; k++) {
      if (!Number.isFinite(flat[k])) {
        throw new TheoryError('not-finite', `${place}[${s}][${k - rows.actionStart[s]}]`, `holds ${flat[k]}; a finite number`)
      }
    }
  }
  return flat
}

/** The rows of a target, over pairs (0 at other agents' states). */
const readTarget = (place: string, target: { states: unknown[]; probs: unknown[] }, agent: number, mdp: TeamMdp): TeamPolicy => {
  const states = readIntegers(`${place}.states`, target.states)
  const own = mdp.activeAgent.reduce((count, j) => count + Number(j === agent), 0)
  if (states.length !== own || new Set(states).size !== own || states.some((s) => mdp.activeAgent[s] !== agent)) {
    throw new TheoryError('size', `${place}.states`, `holds ${show([...states])}; each of the ${own} states of agent ${agent} once`)
  }
  requireLength(`${place}.probs`, target.probs, own)
  const rows = new Float64Array(pairs(mdp))
  states.forEach((s, i) => {
    const at = `${place}.probs[${i}]`
    const row = readNumbers(at, target.probs[i])
    requireLength(at, row, mdp.actionStart[s + 1] - mdp.actionStart[s])
    requireDistribution(row, 0, row.length, () => at)
    rows.set(row, mdp.actionStart[s])
  })
  return rows
}

const readList = (place: string, value: unknown): readonly unknown[] => {
  if (!Array.isArray(value)) throw new TheoryError('size', place, `holds ${show(value)}; a list`)
  return value
}

const readNumbers = (place: string, value: unknown): readonly number[] => {
  const array = readList(place, value)
  for (let i = 0; i < array.length; i++) if (typeof array[i] !== 'number') return array.map((x, at) => readNumber(`${place}[${at}]`, x))
  return array as number[]
}

const readIntegers = (place: string, value: unknown): readonly number[] => {
  const array = readNumbers(place, value)
  const wrong = array.findIndex((x) => x !== (x | 0))
  if (wrong >= 0) throw new TheoryError('size', `${place}[${wrong}]`, `holds ${array[wrong]}; a whole number of 32 bits`)
  return array
}

const NAMED: Readonly<Record<string, number>> = { Infinity, '-Infinity': -Infinity, NaN }

/** A number as a theory case writes it. */
const readNumber = (place: string, value: unknown): number => {
  if (typeof value === 'number') return value
  if (typeof value === 'string' && Object.hasOwn(NAMED, value)) return NAMED[value]
  throw new TheoryError('not-finite', place, `${value === undefined ? 'missing' : `holds ${show(value)}`}; a number`)
}

const naming = <T>(where: string, read: () => T): T => {
  try {
    return read()
  } catch (error) {
    if (error instanceof TheoryError) throw error.in(where)
    throw error
  }
}

/** A number as a theory case writes it: what JSON cannot hold becomes a string. */
export const jsonNumber = (x: number): number | string => (Number.isFinite(x) ? x : String(x))

/** The MDP as plain JSON; `parseMdp` reads it back to the same numbers. */
export const mdpToJson = (mdp: TeamMdp) => {
  const { n, gamma, states, mu, activeAgent, actionStart, rowStart, next, prob, reward } = mdp
  const P: [number, number, number, number][] = []
  for (let s = 0; s < states; s++) {
    for (let k = actionStart[s]; k < actionStart[s + 1]; k++) {
      const row = new Map<number, number>()
      for (let e = rowStart[k]; e < rowStart[k + 1]; e++) row.set(next[e], (row.get(next[e]) ?? 0) + prob[e])
      for (const [to, p] of row) P.push([s, k - actionStart[s], to, p])
    }
  }
  const numActions = Array.from({ length: states }, (_, s) => actionStart[s + 1] - actionStart[s])
  return { n, gamma, mu: [...mu], activeAgent: [...activeAgent], numActions, P, r: rowsOf(mdp, reward) }
}

/** A stage as the `input` object of a theory case; `parseStageInput` reads it back to the same numbers. */
export const stageInputToJson = ({ mdp, teams, order, radii, advantageEstimate }: StageInput) => ({
  ...mdpToJson(mdp),
  policy: rowsOf(mdp, teams[0]),
  order: [...order],
  targets: order.map((agent, i) => {
    const rows = rowsOf(mdp, teams[i + 1])
    const states = [...mdp.activeAgent.keys()].filter((s) => mdp.activeAgent[s] === agent)
    return { agent, states, probs: states.map((s) => rows[s]) }
  }),
  radii: [...radii],
  advantageEstimate: advantageEstimate.map((estimate) => rowsOf(mdp, estimate)),
})

/** An array over pairs as one list per state. */
export const rowsOf = ({ states, actionStart }: Rows, flat: Float64Array): number[][] =>
  Array.from({ length: states }, (_, s) => [...flat.subarray(actionStart[s], actionStart[s + 1])])
