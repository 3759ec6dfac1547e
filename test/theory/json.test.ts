import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { randomPolicy, ring, routed, tree } from '../../src/theory/families.js'
import { jsonNumber, mdpToJson, parseMdp, parseStageInput, parseTheoryCase, stageInputToJson, type StageInput } from '../../src/theory/json.js'
import { pairs, replaceAgent, TheoryError } from '../../src/theory/mdp.js'
import { InputError } from '../../src/util/errors.js'
import { random } from '../../src/util/random.js'
import { SHAPES, smallCase } from './oracle.js'

const stage = (seed: number): StageInput => {
  const mdp = routed({ agents: 3, states: 6, actions: [1, 3], successors: 3, gamma: 0.9 }, random(seed))
  const order = random(seed).permutation(3)
  const teams = [randomPolicy(mdp, random(seed))]
  order.forEach((agent, i) => teams.push(replaceAgent(mdp, teams[i], agent, randomPolicy(mdp, random(seed + i)))))
  return { mdp, teams, order, radii: [0.1, 0, 2.5], advantageEstimate: order.map(() => new Float64Array(pairs(mdp)).fill(0.25)) }
}

type Json = ReturnType<typeof stageInputToJson> & Record<string, unknown>
const json = (): Json => JSON.parse(JSON.stringify(stageInputToJson(stage(1)))) as Json

const refusal = (spoil: (input: Json) => void): TheoryError => {
  const input = json()
  spoil(input)
  try {
    parseStageInput(input, 'case.json')
  } catch (error) {
    expect(error).toBeInstanceOf(InputError)
    expect((error as Error).message.startsWith('case.json: ')).toBe(true)
    expect((error as Error).message).not.toContain('\n')
    return error as TheoryError
  }
  throw new Error('accepted')
}

describe('what is written is read back to the same numbers', () => {
  it('MDPs', () => {
    for (const mdp of [ring({ agents: 3, levels: 3, actions: 2, gamma: 0.9 }, random(1)), tree({ agents: 2, actions: 2, depth: 3, gamma: 0.5 }, random(1))]) {
      expect(parseMdp(JSON.parse(JSON.stringify(mdpToJson(mdp))), 'x')).toEqual(mdp)
    }
    fc.assert(fc.property(fc.integer(), fc.constantFrom(...SHAPES.filter((shape) => shape !== 'repeated')), (seed, shape) => {
      const { mdp } = smallCase(shape, 0.9, random(seed))
      expect(parseMdp(mdpToJson(mdp), 'x')).toEqual(mdp)
    }), { seed: 1, numRuns: 50 })
  })

  it('repeated successors are written once, with the sum of their probabilities', () => {
    const { mdp } = smallCase('repeated', 0.9, random(4))
    const again = parseMdp(mdpToJson(mdp), 'x')
    expect(again.next.length).toBeLessThan(mdp.next.length)
    expect(again.reward).toEqual(mdp.reward)
  })

  it('stages', () => expect(parseStageInput(json(), 'x')).toEqual(stage(1)))

  it('transitions may come in any order', () => {
    const input = json()
    input.P.reverse()
    const { mdp } = parseStageInput(input, 'x')
    expect(mdpToJson(mdp).P.sort()).toEqual(mdpToJson(stage(1).mdp).P.sort())
  })

  it('cases keep what is expected as it is', () => {
    const file = { format: 'teamtr-theory-case/1', id: 'a', family: 'routed', note: '', input: json(), expected: { teams: [] } }
    expect(parseTheoryCase(file, 'x')).toEqual({ id: 'a', family: 'routed', note: '', input: stage(1), expected: { teams: [] } })
  })
})

describe('refusals', () => {
  it.each<[string, string, (input: Json) => void]>([
    ['not-finite', 'r[0][0]', (x) => ((x.r as unknown[][])[0][0] = 'NaN')],
    ['not-finite', 'r[0][0]', (x) => ((x.r as unknown[][])[0][0] = '-Infinity')],
    ['not-finite', 'r[0][0]', (x) => ((x.r as unknown[][])[0][0] = '1')],
    ['not-finite', 'r[0][0]', (x) => ((x.r as unknown[][])[0][0] = null)],
    ['not-finite', 'advantageEstimate[2][1][0]', (x) => ((x.advantageEstimate as unknown[][][])[2][1][0] = 'Infinity')],
    ['size', 'advantageEstimate', (x) => x.advantageEstimate.pop()],
    ['size', 'radii', (x) => x.radii.pop()],
    ['radius', 'radii[1]', (x) => (x.radii[1] = -1e-30)],
    ['not-finite', 'radii[1]', (x) => ((x.radii as unknown[])[1] = 'Infinity')],
    ['order', 'order', (x) => (x.order[0] = x.order[1])],
    ['order', 'order', (x) => (x.order[0] = 3)],
    ['size', 'order[0]', (x) => (x.order[0] = 0.5)],
    ['order', 'targets[0].agent', (x) => (x.targets[0].agent = (x.targets[0].agent + 1) % 3)],
    ['size', 'targets[1].states', (x) => x.targets[1].states.push(0)],
    ['size', 'targets', (x) => x.targets.pop()],
    ['size', 'P[2]', (x) => x.P[2].pop()],
    ['size', 'P[1]', (x) => (x.P[1][1] = 99)],
    ['size', 'P[1]', (x) => ((x.P as unknown[])[1] = 'row')],
    ['size', 'P[s=0,a=0]', (x) => x.P.push([...x.P[0]])],
    ['size', 'numActions[0]', (x) => (x.numActions[0] = 0)],
    ['size', 'numActions[0]', (x) => (x.numActions[0] = 2 ** 40)],
    ['size', 'r[0]', (x) => (x.numActions[0] = 2 ** 30)],
    ['size', 'activeAgent[0]', (x) => (x.activeAgent[0] = 2 ** 32)],
    ['size', 'n', (x) => (x.n = 0)],
    ['discount-range', 'gamma', (x) => ((x as Record<string, unknown>).gamma = 'NaN')],
  ])('%s at %s', (kind, place, spoil) => expect(refusal(spoil)).toMatchObject({ kind, place }))

  it('unknown and missing fields are named', () => {
    expect(refusal((x) => (x.gama = 0.9)).message).toMatch(/unknown key "gama" \(did you mean "gamma"\?\)/)
    expect(refusal((x) => delete (x as Partial<Json>).mu).message).toMatch(/mu: missing/)
    expect(refusal((x) => delete (x as Partial<Json>).gamma).message).toMatch(/gamma: missing/)
    expect(() => parseTheoryCase({ format: 'other', id: 'a', input: {} }, 'x.json')).toThrow(/^x\.json: format: holds "other"/)
    expect(() => parseTheoryCase(null, 'x.json')).toThrow(/^x\.json: /)
  })
})

it('jsonNumber writes what JSON cannot hold as a string', () => {
  expect([1.5, Infinity, -Infinity, NaN].map(jsonNumber)).toEqual([1.5, 'Infinity', '-Infinity', 'NaN'])
})
