import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { baseOf, expandGrid, parseGrid, shardOf, configIn, type Cell } from '../../src/experiments/grid.js'
import { weakRelaySuccess } from '../../src/tasks/relay.js'
import { environment } from '../../src/train/environment.js'
import { random } from '../../src/util/random.js'
import { readConfig } from '../../src/util/files.js'

const folder = fileURLToPath(new URL('../../configs/experiments/', import.meta.url))
const names = readdirSync(folder)
const grid = (more: object) => parseGrid({ about: 'a test', variants: { a: {}, b: null }, ...more }, 'g.yaml')
const expand = (more: object, options: { quick?: boolean; seeds?: number } = {}) => expandGrid(grid(more), { quick: false, ...options }, 'g.yaml')

describe('a grid', () => {
  it('is variants times seeds, each over the base', () => {
    const cells = expand({ seeds: 2, base: { stages: 7, rollout: { prompts: 5 } }, variants: { a: { rollout: { group: 3 } }, b: { stages: 1 } } })
    expect(cells.map(({ id, seed }) => [id, seed])).toEqual([['a-0', 0], ['b-0', 0], ['a-1', 1], ['b-1', 1]])
    expect(cells[0].config).toMatchObject({ seed: 0, stages: 7, rollout: { prompts: 5, group: 3 } })
    expect(cells[3].config).toMatchObject({ seed: 1, stages: 1, rollout: { prompts: 5, group: 8 } })
  })

  it('has all combinations of several axes; a later axis stands above; a method is replaced whole', () => {
    const cells = expand({
      seeds: 1, base: { method: { name: 'stale', acceptance: 'none' } },
      variants: [{ x: { method: 'teamtr' }, y: {} }, { two: { team: { agents: 2 } }, three: { method: { name: 'importance' }, team: { agents: 3 } } }],
    })
    expect(cells.map(({ variant, levels }) => [variant, ...levels])).toEqual([['x-two', 'x', 'two'], ['x-three', 'x', 'three'], ['y-two', 'y', 'two'], ['y-three', 'y', 'three']])
    expect(cells.map(({ config: { method, team } }) => [method.name, method.acceptance, team.agents]))
      .toEqual([['teamtr', 'scale', 2], ['importance', 'scale', 3], ['stale', 'none', 2], ['importance', 'scale', 3]])
  })

  it('has a quick version: its own base above, its own seeds and variants', () => {
    const more = { seeds: 4, base: { stages: 9, gamma: 0.7 }, quick: { seeds: 2, base: { stages: 1 }, variants: { c: {} } } }
    expect(expand(more, { quick: true }).map(({ id, config: { stages, gamma } }) => [id, stages, gamma])).toEqual([['c-0', 1, 0.7], ['c-1', 1, 0.7]])
    expect(expand(more)).toHaveLength(8)
    expect(expand(more, { seeds: 1 })).toHaveLength(2)
  })

  it('is refused by field', () => {
    expect(() => grid({ reference: 'c' })).toThrow(/g\.yaml: reference: holds "c"; expected one of the variants/)
    expect(() => grid({ protocols: ['a', 'd'] })).toThrow(/protocols\[1\]: holds "d"/)
    expect(() => grid({ seed: 3 })).toThrow(/unknown key "seed" \(did you mean "seeds"\?\)/)
    expect(() => grid({ variants: { '../x': {} } })).toThrow(/g\.yaml: variants.*holds "..\/x"; expected lower-case letters, digits/)
    expect(() => grid({ variants: {} })).toThrow('g.yaml: variants: holds {}; expected variants by name, at least one')
    expect(() => grid({ variants: [{}, { a: {} }] })).toThrow('g.yaml: variants[0]: holds {}; expected at least one variant')
    expect(() => grid({ variants: { a: { seed: 4 } } })).toThrow('g.yaml: variants.a.seed: holds 4; expected none here')
    expect(() => grid({ base: { seed: 4 } })).toThrow('g.yaml: base.seed: holds 4; expected none here')
    expect(() => grid({ seeds: 1001 })).toThrow(/g\.yaml: seeds: holds 1001/)
    expect(() => expand({ variants: [{ a: {}, 'a-b': {} }, { c: {}, 'b-c': {} }] })).toThrow('g.yaml: variants: a with b-c and a-b with c are both a-b-c;')
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, k) => [k, {}]))
    expect(() => expand({ seeds: 1, variants: Array.from({ length: 9 }, () => many) })).toThrow(/g\.yaml: variants: \d+ runs with 1 seeds; at most 10000/)
    expect(() => expand({ variants: { a: { stage: 3 } } })).toThrow(/g\.yaml: variant a: unknown key "stage" \(did you mean "stages"\?\)/)
  })

  it('falls into shards: every run in exactly one, of nearly one size', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 20 }), (size, k) => {
      const cells = Array.from({ length: size }, (_, seed) => ({ seed, after: [] }) as unknown as Cell)
      const shards = Array.from({ length: k }, (_, i) => shardOf(cells, i + 1, k))
      expect(shards.flat().sort((a, b) => a.seed - b.seed)).toEqual(cells)
      const sizes = shards.map(({ length }) => length)
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
    }))
  })

  it('chains runs: a variant starts from another of the same seed, in the same shard', () => {
    const variants = { first: {}, more: { start: { run: 'first', agent: 1, with: { run: 'first', agent: 0 } } }, apart: {} }
    const cells = expand({ seeds: 3, variants })
    expect(cells.map(({ id, after }) => [id, after]).slice(0, 3)).toEqual([['first-0', []], ['more-0', ['first-0', 'first-0']], ['apart-0', []]])
    expect(configIn('/out', cells[4]).start).toMatchObject({ run: '/out/first-1', agent: 1, with: { run: '/out/first-1', agent: 0 } })
    expect(configIn('/out', cells[3])).toBe(cells[3].config)
    expect([1, 2].map((i) => shardOf(cells, i, 2).map(({ seed }) => seed))).toEqual([[0, 0, 0, 2, 2, 2], [1, 1, 1]])
    expect(() => expand({ variants: { more: { start: { run: 'none', agent: 1 } } } })).toThrow('g.yaml: variant more: start.run: holds "none"; expected a variant that starts from no other run')
    expect(() => expand({ variants: { ...variants, third: { start: { run: 'more', agent: 1 } } } })).toThrow('variant third: start.run: holds "more"')
  })

  it('shares a base among variants that start alike, and only those', () => {
    const cells = expand({
      seeds: 2, variants: { a: {}, b: { method: 'stale', stages: 3, trustRegion: { delta: 0.1 }, order: 'random' }, c: { warmup: { steps: 7 } }, d: { team: { agents: 4 } }, e: { task: { name: 'relay', slip: 0.2 } } },
    })
    const of = (id: string) => baseOf(cells.find((cell) => cell.id === id)!)
    expect(of('b-0')).toEqual(of('a-0'))
    expect(new Set(cells.map((cell) => baseOf(cell).name)).size).toBe(8)
    expect(of('d-0').config).toMatchObject({ stages: 0, team: { agents: 4 } })
  })
})

describe.each(names)('configs/experiments/%s', (file) => {
  it('is valid, full and quick, with different runs in each cell', async () => {
    const declared = parseGrid(await readConfig(`${folder}${file}`), file)
    for (const quick of [true, false]) {
      const cells = expandGrid(declared, { quick }, file)
      expect(new Set(cells.map(({ id }) => id)).size).toBe(cells.length)
      expect(new Set(cells.map(({ config }) => JSON.stringify(config))).size).toBe(cells.length)
    }
  })
})

it('team-size: weak teams of all sizes are right equally often', async () => {
  const cells = expandGrid(parseGrid(await readConfig(`${folder}team-size.yaml`), 'team-size'), { quick: false, seeds: 1 }, 'team-size')
  expect(cells).toHaveLength(18)
  for (const { config: { task, team: { agents } } } of cells) {
    const [problem] = environment(task, agents).problems('test', 1, random(0))
    expect(weakRelaySuccess(problem as never, (task as { slip: number }).slip)).toBeCloseTo(0.1 + 0.9 * 0.65 ** 3, 3)
  }
})
