import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { addWorstCase } from '../../src/cli/worstCase.js'
import { InputError } from '../../src/util/errors.js'

const run = async (...args: string[]): Promise<string> => {
  const written: string[] = []
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => (written.push(String(text)), true))
  try {
    const program = new Command().exitOverride()
    addWorstCase(program)
    await program.parseAsync(['worst-case', ...args], { from: 'user' })
  } finally {
    spy.mockRestore()
  }
  return written.join('')
}

describe('teamtr worst-case', () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-worst-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('prints a ratio per bound and discount, the family, and writes both tables', async () => {
    const text = await run('--gamma', '0.5', '--evaluations', '150', '--out', folder)
    expect(text).toMatch(/Theorem 3\.4 \(Pinsker, A_max\) +0\.\d{4}\n/)
    expect(text).toContain('the family with the largest stale gap found')
    expect(readdirSync(folder).sort()).toEqual(['stale-family.csv', 'worst-case.csv'])
    expect(readFileSync(join(folder, 'worst-case.csv'), 'utf8').trim().split('\n')).toHaveLength(12)
  })

  it('says in one line what is wrong', async () => {
    for (const [args, message] of [
      [['--gamma', '1'], '--gamma: holds "1"; strictly between 0 and 1'],
      [['--gamma', '0.5,,'], '--gamma: holds ""'],
      [['--evaluations', '10'], '--evaluations: holds "10"; a whole number, at least 100'],
      [['--seed', 'x'], '--seed: holds "x"'],
    ] as const) {
      const error = await run(...args).catch((e: unknown) => e)
      expect(error).toBeInstanceOf(InputError)
      expect((error as Error).message).toContain(message)
    }
  })
})
