import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { TheoryError } from '../../src/theory/mdp.js'
import { caseReport } from '../../src/theory/report.js'
import { sharedPath } from '../shared.js'

const folder = sharedPath('theory-cases')

/** Every number, null and string of `expected`, with its path, against the same place of `actual`. */
const compare = (actual: unknown, expected: unknown, tolerance: number, path: string, misses: string[]): void => {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return void misses.push(`${path}: length`)
    return expected.forEach((value, i) => compare(actual[i], value, tolerance, `${path}[${i}]`, misses))
  }
  if (expected !== null && typeof expected === 'object') {
    if (actual === null || typeof actual !== 'object') return void misses.push(`${path}: no object`)
    return Object.entries(expected).forEach(([key, value]) =>
      compare((actual as Record<string, unknown>)[key], value, tolerance, `${path}.${key}`, misses),
    )
  }
  if (expected === null) return void (actual === null || misses.push(`${path}: ${actual}, not null`))
  const y = typeof expected === 'string' ? Number(expected) : (expected as number)
  const x = actual as number
  const relative = /\.(dTok|klMax)$/.test(path)
  const near =
    x === y || (Number.isFinite(y) && Math.abs(x - y) <= tolerance * Math.max(1, Math.abs(y)) && (!relative || Math.abs(x - y) <= 1e-9 * y))
  if (!near) misses.push(`${path}: ${x}, not ${y}`)
}

describe.skipIf(!folder)('the reference cases of ../shared/theory-cases', () => {
  const read = (file: string) => JSON.parse(readFileSync(join(folder!, file), 'utf8'))
  const files = folder ? readdirSync(folder).filter((file) => file.endsWith('.json') && file !== 'invalid.json') : []

  test('fourteen cases are there', () => expect(files).toHaveLength(14))

  test.each(files)('%s: every number of `expected`', (file) => {
    const { theoryCase, report } = caseReport(read(file), file)
    const misses: string[] = []
    compare(report, theoryCase.expected, file.startsWith('gamma-0999') ? 1e-9 : 1e-10, '', misses)
    expect(misses).toEqual([])
  })

  const invalid: { id: string; error: string; at: string; input: unknown }[] = folder ? read('invalid.json').cases : []
  test.each(invalid.map((one) => [one.id, one] as const))('invalid: %s', (_, { error, at, input }) => {
    let thrown: unknown
    try {
      caseReport({ format: 'teamtr-theory-case/1', id: 'invalid', input }, 'invalid.json')
    } catch (fault) {
      thrown = fault
    }
    expect(thrown).toBeInstanceOf(TheoryError)
    const { kind, place, message } = thrown as TheoryError
    expect(kind).toBe(error)
    expect(place).toBe(at)
    expect(message).toContain('invalid.json: ')
    expect(message).toContain(`${at}: `)
    expect(message).toContain(error)
  })
})
