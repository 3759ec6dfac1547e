import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { addScaling } from '../../src/cli/scaling.js'
import { InputError } from '../../src/util/errors.js'

const run = async (...args: string[]): Promise<string> => {
  const written: string[] = []
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((text) => (written.push(String(text)), true))
  try {
    const program = new Command().exitOverride()
    addScaling(program)
    await program.parseAsync(['scaling', ...args], { from: 'user' })
  } finally {
    spy.mockRestore()
  }
  return written.join('')
}

describe('teamtr scaling', () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-scaling-'))
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  it('prints both radii with exponents, and writes two tables', async () => {
    const text = await run('--n', '2,4', '--seeds', '2', '--out', folder)
    expect(text).toContain('occupancy radius δ = 0.001')
    expect(text).toContain('message radius δ = 0.001')
    expect(text).toMatch(/active mass \(ours\) .* 0\.50 {2}0\.50 … 0\.50 {2}0\.50\n/)
    expect(text).not.toContain('-0.00')
    expect(readdirSync(folder).sort()).toEqual(['scaling-ring-exponents.csv', 'scaling-ring.csv'])
    expect(readFileSync(join(folder, 'scaling-ring.csv'), 'utf8').split('\n')[0]).toBe('radius,quantity,n,mean,low,high')
  })

  it('--json holds the setup and every quantity', async () => {
    const [{ setup, quantities }] = JSON.parse(await run('--n', '2,3', '--seeds', '2', '--radius', 'message', '--family', 'tree', '--json'))
    expect(setup).toMatchObject({ family: 'tree', radius: 'message', sizes: [2, 3], seeds: 2 })
    expect(quantities.thm36.fit.alpha).toBeGreaterThan(0)
    expect(quantities.ess.fit).toBeUndefined()
  })

  it('says in one line what is wrong, and writes nothing', async () => {
    const wrong: [string[], string][] = [
      [['--n', '2,x'], '--n: holds "x"; a number'],
      [['--n', '4'], 'n: holds 1 sizes; an exponent needs two at least'],
      [['--n', '2,2.5'], 'n: holds 2.5; whole numbers, at least 2'],
      [['--radius', 'token'], '--radius: holds "token"; occupancy or message'],
      [['--family', 'star'], '--family: holds "star"; ring, routed or tree'],
      [['--gamma', '1'], 'gamma: holds 1; strictly between 0 and 1'],
      [['--seeds', '0'], 'seeds: holds 0; a whole number, 1 to 100000'],
      [['--seeds', '1e12'], 'seeds: holds 1000000000000'],
      [['--actions', '1e9'], 'actions: holds 1000000000'],
      [['--delta', ''], '--delta: holds ""; a number'],
      [['--family', 'tree', '--n', '2,40'], 'n: holds 40, which makes about'],
    ]
    for (const [args, message] of wrong) {
      const error = await run(...args, '--out', folder).catch((e: unknown) => e)
      expect(error).toBeInstanceOf(InputError)
      expect((error as Error).message).toContain(message)
      expect((error as Error).message).not.toContain('\n')
    }
    expect(existsSync(folder)).toBe(false)
  })
})
