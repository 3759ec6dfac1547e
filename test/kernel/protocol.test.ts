import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, it } from 'vitest'
import { jupyterEnvironment, jupyterPython, noJupyter } from '../jupyter.js'

interface Step { code?: string; complete?: string; inspect?: string; interrupt?: number; stop_on_error?: boolean; queue?: boolean }
interface Result {
  reply: { status: string; execution_count: number; ename?: string; evalue?: string; traceback?: string[]; matches?: string[]; data?: Record<string, string> }
  outputs: { type: string; content: Record<string, unknown> & { data?: Record<string, unknown>; transient?: { display_id?: string } } }[]
}

const python = jupyterPython()
const steps: Step[] = [
  // 0 … 3: errors
  { code: 'const kept = 41' },
  { code: "\nconst fail = (): never => { throw new RangeError('too far') }\nfail()" },
  { code: 'const s: string = 5' },
  { code: 'kept + 1' },
  // 4 … 6: what is queued behind an error is aborted
  { code: "throw new Error('stop')" },
  { code: 'console.log("never")', queue: true },
  { code: 'console.log("again")' },
  // 7, 8: unless the client says otherwise
  { code: "throw new Error('go on')", stop_on_error: false },
  { code: 'console.log("still")', queue: true },
  // 9 … 11: interrupts, of a loop and of a wait
  { code: 'while (true) {}', interrupt: 2 },
  { code: 'await new Promise((resolve) => setTimeout(resolve, 50_000))', interrupt: 1 },
  { code: 'kept' },
  // 12, 13: displays
  {
    code: "import { show, progressBar, showTable } from 'teamtr/notebook'\nimport { growth } from 'teamtr/figures'\n" +
      "await show(growth([{ n: 2, series: 'a', value: 1 }, { n: 4, series: 'a', value: 2 }], { title: 'Doubling', y: 'value' }))",
  },
  {
    code: "const bar = progressBar('work', 3)\nfor (let k = 1; k <= 3; k++) { await new Promise((resolve) => setTimeout(resolve, 250)); bar.update(k) }\nbar.end()\nshowTable([{ a: 1, b: 'x<y' }])",
  },
  // 14 … 16: what an editor asks
  { complete: "import { ring } from 'teamtr/theory'\nring({ ag" },
  { complete: "import * as theory from './src/theory/bounds.js'\ntheory.penaltyC" },
  { inspect: "import { ring } from 'teamtr/theory'\nring" },
]

describe.skipIf(python === undefined)(`the kernel, spoken to by jupyter_client${python === undefined ? `: skipped, ${noJupyter}` : ''}`, () => {
  let results: Result[] = []
  beforeAll(() => {
    const { status, stdout, stderr } = spawnSync(python!, ['test/kernel/client.py'], { input: JSON.stringify(steps), encoding: 'utf8', env: jupyterEnvironment(), timeout: 120_000 })
    expect(status, stderr).toBe(0)
    results = stdout.trim().split('\n').map((line) => JSON.parse(line) as Result)
    expect(results).toHaveLength(steps.length)
  }, 130_000)

  const streams = ({ outputs }: Result): string => outputs.filter(({ type }) => type === 'stream').map(({ content }) => String(content.text)).join('')

  it('reports a failing cell as an error with name, message, the cell’s line, and the execution count', () => {
    const { reply, outputs } = results[1]
    expect(reply).toMatchObject({ status: 'error', ename: 'RangeError', evalue: 'too far', execution_count: 2 })
    expect(outputs.map(({ type }) => type)).toEqual(['error'])
    expect(outputs[0].content).toMatchObject({ ename: 'RangeError', evalue: 'too far' })
    expect(outputs[0].content.traceback).toContain('    at cell, line 3: fail()')
  })

  it('reports a compiler’s complaint the same way', () => {
    expect(results[2].reply).toMatchObject({ status: 'error', ename: 'TypeScriptError', execution_count: 3 })
    expect(results[2].reply.evalue).toContain("Type 'number' is not assignable to type 'string'")
  })

  it('keeps the session after an error', () => {
    expect(results[3].reply).toMatchObject({ status: 'ok', execution_count: 4 })
    expect(streams(results[3])).toBe('42\n')
  })

  it('aborts what was queued behind a failing cell, says so, and goes on with the next', () => {
    expect(results[5].reply.status).toBe('aborted')
    expect(streams(results[5])).toBe('')
    expect(streams(results[6])).toBe('again\n')
  })

  it('runs what was queued where the client asked for that', () => {
    expect(results[7].reply.status).toBe('error')
    expect(results[8].reply.status).toBe('ok')
    expect(streams(results[8])).toBe('still\n')
  })

  it.each([['a loop', 9], ['a wait', 10]])('an interrupt ends %s as an error', (_, at) => {
    expect(results[at].reply.status).toBe('error')
    expect(`${results[at].reply.ename} ${results[at].reply.evalue}`).toMatch(/interrupt/i)
  })

  it('and the session lives on', () => {
    expect(streams(results[11])).toBe('41\n')
  })

  it('shows a chart once, in every format, with the specification as the richest', () => {
    const displays = results[12].outputs.filter(({ type }) => type === 'display_data')
    expect(displays).toHaveLength(1)
    const data = displays[0].content.data!
    expect(Object.keys(data).sort()).toEqual(['application/vnd.vegalite.v5+json', 'image/png', 'image/svg+xml', 'text/plain'])
    expect(data['text/plain']).toBe('figure: Doubling')
    expect(String(data['image/svg+xml'])).toMatch(/^<svg/)
    expect(Buffer.from(String(data['image/png']), 'base64').subarray(1, 4).toString()).toBe('PNG')
    expect(results[12].outputs.filter(({ type }) => type === 'stream')).toEqual([])
  })

  it('shows one progress bar that is updated in place, then a table', () => {
    const { outputs } = results[13]
    const bar = outputs.filter(({ content }) => JSON.stringify(content.data ?? '').includes('progress'))
    expect(bar[0].type).toBe('display_data')
    const id = bar[0].content.transient!.display_id
    expect(id).toBeTruthy()
    expect(bar.length).toBeGreaterThan(2)
    for (const { type, content } of bar.slice(1)) {
      expect(type).toBe('update_display_data')
      expect(content.transient!.display_id).toBe(id)
    }
    expect(bar.at(-1)!.content.data!['text/plain']).toBe('work: done')
    expect(outputs.at(-1)!.content.data!['text/html']).toContain('<td>x&lt;y</td>')
  })

  it('completes names and options of the library and of the sources, and says what a name is', () => {
    expect(results[14].reply.matches).toEqual(['agents'])
    expect(results[15].reply.matches).toEqual(['penaltyConstant'])
    expect(results[16].reply.data!['text/plain']).toMatch(/const ring: \(size: RingSize, random: Random\) => TeamMdp[^]*Fixed rotation/)
  })
})
