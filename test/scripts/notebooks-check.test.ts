import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jupyterEnvironment, jupyterPython, noJupyter } from '../jupyter.js'

interface Cell { cell_type: string; id: string; metadata: { tags?: string[] }; source: string[]; outputs?: Output[]; execution_count?: number | null }
interface Output { output_type: string; name?: string; text?: string[]; data?: Record<string, unknown> }
interface Notebook { cells: Cell[] }

const python = jupyterPython()
const notebook = (sources: readonly string[]): object => ({
  cells: sources.map((source, k) => ({ cell_type: 'code', id: `c${k}`, metadata: {}, source, outputs: [], execution_count: null })),
  metadata: { kernelspec: { name: 'teamtr', display_name: 'TypeScript (TeamTR)', language: 'typescript' } },
  nbformat: 4,
  nbformat_minor: 5,
})

const figure = (library: string): string[] => [
  `import { doubled } from './${library}.js'\nimport { growth } from 'teamtr/figures'\nimport { show } from 'teamtr/notebook'`,
  'console.log(`twice π is ${doubled(Math.PI).toFixed(6)}`)',
  "await show(growth([{ n: 2, series: 'a', value: doubled(1) }, { n: 4, series: 'a', value: doubled(3) }], { title: 'Two points', y: 'value' }))",
]
const many = [
  "import { showTable, show } from 'teamtr/notebook'\nimport { growth } from 'teamtr/figures'\nconst draw = (title: string) => show(growth([{ n: 2, series: 'a', value: 2 }, { n: 4, series: 'a', value: 6 }], { title, y: 'value' }))",
  "console.log('π is', Math.PI.toFixed(4))",
  "console.log('π is', Math.PI.toFixed(4))",
  "showTable([{ x: Math.SQRT2 }])",
  "await draw('First')",
  "await draw('Second')",
  "await draw('Third')",
  "console.log('as it was')",
  'console.log(performance.now())',
]

describe.skipIf(python === undefined)(`notebooks:check${python === undefined ? `: skipped, ${noJupyter}` : ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-notebooks-'))
  const file = (name: string): string => join(folder, `${name}.ipynb`)
  const write = (name: string, sources: readonly string[]): void => writeFileSync(file(name), JSON.stringify(notebook(sources)))
  const check = (...args: string[]) =>
    promisify(execFile)(python!, ['scripts/check_notebooks.py', '--folder', folder, ...args], { encoding: 'utf8', env: jupyterEnvironment() })
      .then(({ stdout, stderr }) => ({ status: 0, stdout, stderr }), ({ code, stdout, stderr }) => ({ status: code as number, stdout: String(stdout), stderr: String(stderr) }))
  const library = (name: string, factor: number): void => writeFileSync(join(folder, `${name}.ts`), `export const doubled = (x: number): number => ${factor} * x\n`)
  const spoil = (name: string, edit: (outputs: Output[][]) => void): void => {
    const content = JSON.parse(readFileSync(file(name), 'utf8')) as Notebook
    const outputs = content.cells.map((cell) => cell.outputs ?? [])
    edit(outputs)
    content.cells.forEach((cell, k) => { cell.outputs = outputs[k] })
    writeFileSync(file(name), JSON.stringify(content))
  }
  let first: Awaited<ReturnType<typeof check>>

  beforeAll(async () => {
    library('same', 2)
    library('changed', 2)
    write('sound', figure('same'))
    write('constant', figure('changed'))
    write('stale', many)
    // 'sound' shows that --update writes what a check then accepts
    const { status, stderr } = await check('--update')
    expect(status, stderr).toBe(0)
    spoil('stale', (outputs) => {
      outputs[1][0].text = ['π is 3.1516\n']
      outputs[2][0].text = ['π is 3.1415\n']
      outputs[3][0].data!['text/html'] = String([outputs[3][0].data!['text/html']].flat().join('')).replace('1.414', '1.614')
      const spec = outputs[4][0].data!['application/vnd.vegalite.v5+json'] as { data: { values: { value: number }[] } }
      spec.data.values[0].value = 2.001
      const svg = [outputs[5][0].data!['image/svg+xml']].flat().join('')
      outputs[5][0].data!['image/svg+xml'] = svg.replace('Second', 'Last')
      outputs[6] = []
      outputs[8][0].text = ['1\n']
    })
    const stale = JSON.parse(readFileSync(file('stale'), 'utf8')) as Notebook
    stale.cells[7].source = ["console.error('careful')"]
    stale.cells[8].metadata.tags = ['varies']
    writeFileSync(file('stale'), JSON.stringify(stale))
    library('changed', 2.001)
    write('broken', ["const f = (x: number) => x", 'f(1, 2)', 'f(1)'])
    write('failing', ["const π = 3\n\nif (π < 4) throw new Error('no π')"])
    first = await check()
  }, 240_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('passes what holds and fails the rest', () => {
    expect(first.status).toBe(1)
    expect(first.stdout).toMatch(/^ok +sound\.ipynb/m)
    expect(first.stdout).toContain('notebooks: 1 passed, 4 failed')
  })

  it('names notebook, cell and line of a cell that does not compile or fails', () => {
    expect(first.stderr).toContain('broken.ipynb: cell 2: TypeScriptError: line 1:6: Expected 1 arguments, but got 2.')
    expect(first.stderr).toContain('failing.ipynb: cell 1: Error: no π')
    expect(first.stderr).toContain("    at cell, line 3: if (π < 4) throw new Error('no π')")
  })

  it('names every cell whose number, table or figure is not the committed one, and none that is', () => {
    const lines = first.stderr.split('\n').filter((line) => line.startsWith('stale.ipynb'))
    expect(lines).toEqual([
      "stale.ipynb: cell 2: printed 'π is 3.1416', committed is 'π is 3.1516'",
      'stale.ipynb: cell 4: output 1 (table) differs from the committed one',
      'stale.ipynb: cell 5: output 1 (figure) differs from the committed one: "First"',
      'stale.ipynb: cell 6: output 1 (figure) differs from the committed one: "Second"',
      'stale.ipynb: cell 7: shows 1 outputs, committed are 0',
      'stale.ipynb: cell 8: wrote to stderr: careful',
    ])
  })

  it('fails when a constant of the library changes under the notebook', () => {
    expect(first.stderr).toContain("constant.ipynb: cell 2: printed 'twice π is 6.286327', committed is 'twice π is 6.283185'")
    expect(first.stderr).toContain('constant.ipynb: cell 3: output 1 (figure) differs from the committed one: "Two points"')
  })

  it('writes nothing with --update when a cell fails', async () => {
    const before = readFileSync(file('failing'), 'utf8')
    expect((await check('--update', 'failing')).status).toBe(1)
    expect(readFileSync(file('failing'), 'utf8')).toBe(before)
  }, 60_000)

  it('exits with 2 where there is no such notebook', async () => {
    const { status, stderr } = await check('absent')
    expect(status).toBe(2)
    expect(stderr).toContain('none named absent')
  })
})
