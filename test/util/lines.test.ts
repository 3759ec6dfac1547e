import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readLines, type Line } from '../../src/util/lines.js'

const file = join(mkdtempSync(join(tmpdir(), 'lines-')), 'text')
const linesOf = async (content: string | Uint8Array, maxBytes = 1000): Promise<Line[]> => {
  writeFileSync(file, content)
  const lines: Line[] = []
  for await (const line of readLines(file, maxBytes)) lines.push(line)
  return lines
}

describe('readLines', () => {
  it('gives every line that is not blank, with its number', async () => {
    expect(await linesOf('a\r\n\n  \nä\nlast')).toEqual([{ line: 1, text: 'a\r' }, { line: 4, text: 'ä' }, { line: 5, text: 'last' }])
    expect(await linesOf('\ufeffa\n')).toEqual([{ line: 1, text: 'a' }])
    expect(await linesOf('')).toEqual([])
  })

  it('says which lines are too long or not UTF-8, and goes on', async () => {
    const lines = await linesOf(Buffer.concat([Buffer.from(`${'x'.repeat(1001)}\n`), Buffer.from([0xff, 10]), Buffer.from('ok')]))
    expect(lines[0]).toMatchObject({ line: 1, error: '1001 bytes long; at most 1000 are read', head: 'x'.repeat(1001), tail: 'x'.repeat(1001) })
    expect(lines.slice(1)).toEqual([{ line: 2, error: 'is not UTF-8 text' }, { line: 3, text: 'ok' }])
  })

  it('keeps head and tail of a line of many chunks', async () => {
    const [line] = await linesOf(`HEAD${'-'.repeat(500_000)}TAIL\n`)
    expect(line.head).toMatch(/^HEAD-{4092}$/)
    expect(line.tail).toMatch(/^-{4092}TAIL$/)
    await expect(readLines('/nowhere', 10).next()).rejects.toThrow('/nowhere: no such file')
    await expect(readLines('/tmp', 10).next()).rejects.toThrow('/tmp: is a folder; a file is needed')
  })

  it('agrees with splitting', async () => {
    const text = fc.array(fc.constantFrom('a', 'é', '\n', ' ', 'long'.repeat(50)), { maxLength: 40 }).map((parts) => parts.join(''))
    await fc.assert(fc.asyncProperty(text, async (content) => {
      const expected = content.split('\n').flatMap((part, i) => (part.trim() === '' ? [] : [{ line: i + 1, text: part }]))
      expect(await linesOf(content, 1e6)).toEqual(expected)
    }), { numRuns: 50 })
  })
})
