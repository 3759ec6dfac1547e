import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { expandGrid, parseGrid, type Cell } from '../../src/experiments/grid.js'
import { folderOf, runGrid, type GridRunOptions } from '../../src/experiments/runGrid.js'
import { sharedPath } from '../shared.js'

vi.setConfig({ testTimeout: 180_000 })

const folder = mkdtempSync(join(tmpdir(), 'runner-'))
const at = (...names: string[]): string => join(folder, ...names)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const cellsOf = (base: object, variants: object = { teamtr: {} }): Cell[] =>
  expandGrid(parseGrid({ about: 'x', seeds: 1, base, variants }, 'x'), { quick: false }, 'x')
const optionsFor = (name: string): GridRunOptions => ({ folder: at(name, 'x'), bases: at(name, 'bases'), jobs: 1, processors: 1 })

const models = sharedPath('models')

describe.skipIf(!models)('language models', () => {
  it('are trained without a base, and exported', async () => {
    const model = join(models!, 'tiny-qwen2')
    const [cell] = cellsOf({
      task: { name: 'relay', modulus: 3 }, team: { agents: [{ model }, { model, role: 'Add.' }] }, protocol: { taskRole: false }, lora: { rank: 2 },
      stages: 1, rollout: { prompts: 2, group: 2, maxTokens: 2 }, evaluation: { problems: 2, every: 0 },
    })
    const options = optionsFor('language')
    expect(await runGrid([cell], options)).toEqual({ failed: [], started: ['teamtr-0'], stopped: false })
    expect(existsSync(options.bases)).toBe(false)
    expect(existsSync(join(folderOf(options.folder, cell), 'team.json'))).toBe(true)
  })
})
