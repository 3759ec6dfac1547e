import { createRequire } from 'node:module'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { mends } from '../../src/kernel/mends.js'
import { loadTslab, packageRoot } from '../../src/kernel/tslab.js'
import type { Tslab } from '../../src/kernel/tslab.js'

const home = process.cwd()
const runner = join(home, 'test', 'kernel', 'run-cells.mjs')
// The runner uses the compiled library: bin/teamtr.js compiles it when it is older than the sources.
beforeAll(() => { execFileSync(process.execPath, [join(home, 'bin', 'teamtr.js'), '--version']) })

/** Run cells one after the other in a folder; what each printed, or the stack of what it threw. */
const runIn = (folder: string, cells: readonly string[]): string[] =>
  JSON.parse(execFileSync(process.execPath, [runner], { cwd: folder, input: JSON.stringify(cells), encoding: 'utf8' })) as string[]

describe('the kernel', () => {
  it('keeps values and types from cell to cell, and awaits at the top', () => {
    expect(runIn(home, ['const x: number = await Promise.resolve(20)', 'x + 1'])).toEqual(['', '21'])
  })

  it('knows a value of an earlier cell in every form of use', () => {
    const cells = ['const x = 20\nlet y = 1', 'const wrap = () => ({ x, y: y })\nJSON.stringify(wrap())', '({ y } = { y: 5 })\nconst f = ({ z }: { z: number }) => ({ z, ...{ y } })\nJSON.stringify(f({ z: x }))']
    expect(runIn(home, cells)).toEqual(['', '{"x":20,"y":1}', '{"z":20,"y":5}'])
  })

  it('imports TypeScript sources from above the notebook’s folder', () => {
    const cell = "import { duration } from '../src/util/progress.js'\nduration(65)"
    expect(runIn(join(home, 'notebooks'), [cell])).toEqual(['1 m 05 s'])
  })

  it('knows the library by name, with types, in a folder that has no packages', () => {
    const folder = mkdtempSync(join(tmpdir(), 'teamtr-kernel-'))
    try {
      const [value, wrong] = runIn(folder, [
        "import { penaltyConstant } from 'teamtr/theory'\npenaltyConstant({ gamma: 0.5, aMax: 1 })",
        "penaltyConstant({ gamma: '0.5', aMax: 1 })",
      ])
      expect(Number(value)).toBeCloseTo(2 * Math.SQRT2, 12)
      expect(wrong).toContain("Type 'string' is not assignable to type 'number'")
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('checks strictly and knows ES2023', () => {
    const [loose, library] = runIn(home, ['const f = (x) => x', '[3, 1].findLast((x) => x > 2)'])
    expect(loose).toContain('implicitly has an \'any\' type')
    expect(library).toBe('3')
  })

  it('names the lines of the cell that threw, types and blank lines counted', () => {
    const code = ['', 'interface A { a: number }', '', 'const f = async (v: A): Promise<number> => {', '  if (v.a > 1) throw new RangeError(`too large`)', '  return v.a', '}', 'await f({ a: 1 })', '', 'await f({ a: 2 })'].join('\n')
    const [stack] = runIn(home, [code])
    expect(stack.split('\n')).toEqual(['RangeError: too large', '    at cell, line 5: if (v.a > 1) throw new RangeError(`too large`)', '    at cell, line 10: await f({ a: 2 })'])
  })
})

describe('loadTslab', () => {
  it('refuses a mend whose text is not there: tslab would be another version', () => {
    const mend = { file: 'executor.js', why: 'test', find: 'no such text in tslab', replace: '' } as const
    expect(() => loadAgain([mend])).toThrow(/tslab\/dist\/executor\.js: expected once, found 0 times/)
  })

  it('loads without any one group of mends', () => {
    const all = mends(packageRoot)
    for (const group of new Set(all.map(({ why }) => why.split(':')[0]))) {
      // The maps go on top of the root folder's mend.
      if (group === 'sources above the notebook’s folder') continue
      expect(() => loadAgain(all.filter(({ why }) => !why.startsWith(group)))).not.toThrow()
    }
  })
})

/** `loadTslab` as in a fresh process: forget what Node has loaded of tslab. */
const loadAgain = (list: Parameters<typeof loadTslab>[0]): Tslab => {
  const require = createRequire(import.meta.url)
  for (const key of Object.keys(require.cache)) if (/[\\/]tslab[\\/]dist[\\/]/.test(key)) delete require.cache[key]
  return loadTslab(list)
}
