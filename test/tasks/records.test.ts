import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { benchmark, benchmarkNames } from '../../src/tasks/benchmarks.js'
import { bySchema, loadRecords } from '../../src/tasks/records.js'
import { sharedPath } from '../shared.js'

const folder = mkdtempSync(join(tmpdir(), 'records-'))
const load = (name: string, content: string | Uint8Array, key?: string) => {
  writeFileSync(join(folder, name), content)
  return loadRecords(join(folder, name), bySchema(z.object({ n: z.int() })), key)
}

describe('loadRecords', () => {
  it('reads lines, arrays, and arrays inside an object', async () => {
    const expected = { records: [{ n: 1 }, { n: 2 }], errors: [] }
    expect(await load('a.jsonl', '{"n": 1}\n\n{"n": 2, "more": true}\n')).toEqual(expected)
    expect(await load('a.json', '[{"n": 1}, {"n": 2}]')).toEqual(expected)
    expect(await load('b.json', '{"rows": [{"n": 1}, {"n": 2}]}', 'rows')).toEqual(expected)
  })

  it('reports what is wrong with single records, by number, and keeps the others', async () => {
    const { records, errors } = await load('bad.jsonl', Buffer.concat([Buffer.from('{"n": 1}\n{"n"\n{"n": 0.5}\n'), Buffer.from([0xc3, 10]), Buffer.from('{"n": 2}')]))
    expect(records).toEqual([{ n: 1 }, { n: 2 }])
    expect(errors.map(({ line, error }) => [line, error.slice(0, 20)])).toEqual([[2, 'is not JSON: Expecte'], [3, 'record: n: holds 0.5'], [4, 'is not UTF-8 text']])
    expect((await load('bad.json', '[{"n": 1}, null]')).errors).toMatchObject([{ line: 2 }])
  })

  it('says in one line why a file cannot be read at all', async () => {
    await expect(load('c.json', '{"rows": 3}', 'rows')).rejects.toThrow(/c\.json: holds .*; expected an array of records, or an object with one under "rows"/)
    await expect(load('d.json', 'null')).rejects.toThrow(/expected an array of records$/)
    await expect(load('e.json', '[')).rejects.toThrow(/e\.json: is not valid JSON/)
    await expect(load('f.parquet', 'PAR1 but not really PAR1')).rejects.toThrow(/f\.parquet: cannot be read as parquet: /)
    await expect(loadRecords(join(folder, 'none.parquet'), (x) => x)).rejects.toThrow(/cannot be read as parquet: .*no such file/)
  })

  it.skipIf(!sharedPath('benchmarks'))('reads parquet as the JSONL of the same rows', async () => {
    const rows = async (file: string) => (await loadRecords(sharedPath(`benchmarks/zebralogic/sample.${file}`)!, (value) => value as Record<string, unknown>)).records
    const [parquet, lines] = [await rows('parquet'), await rows('jsonl')]
    expect(parquet).toHaveLength(25)
    expect(parquet.map(({ id, puzzle, solution }) => ({ id, puzzle, solution }))).toEqual(lines.map(({ id, puzzle, solution }) => ({ id, puzzle, solution })))
  })
})

describe('the registry', () => {
  it('finds each benchmark under its own name', async () => {
    for (const name of benchmarkNames) expect((await benchmark(name)).name).toBe(name)
    await expect(benchmark('planbensh')).rejects.toThrow(/^--benchmark: holds "planbensh" \(did you mean "planbench"\?\); expected one of aime2024, /)
    await expect(benchmark('toString')).rejects.toThrow(/^--benchmark: /)
  })
})
