import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { tablesIn } from '../../src/kernel/display.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-tables-'))
afterAll(() => rmSync(folder, { recursive: true }))
mkdirSync(join(folder, 'experiments'))
writeFileSync(join(folder, 'landscape-starts.csv'), 'delta,method,arrived\n0.1,TeamTR,1\n0.2,TeamTR,0.5\n')

const said = async (act: () => unknown): Promise<string> => {
  let text = ''
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((more) => (text += String(more), true))
  try {
    await act()
  } finally {
    spy.mockRestore()
  }
  return text
}

describe('tablesIn', () => {
  const { rows, figure } = tablesIn(folder)

  it('reads a table, and draws a figure from it', async () => {
    expect(rows('landscape-starts.csv')).toEqual([{ delta: 0.1, method: 'TeamTR', arrived: 1 }, { delta: 0.2, method: 'TeamTR', arrived: 0.5 }])
    expect(await said(() => figure('figure-1-starts'))).toBe('figure: Only fresh rollouts reach the optimum from everywhere\n')
  })

  it('says which command writes a table that is not there, and goes on', async () => {
    const line = '*Not recorded yet: `experiments/order-summary.csv`; `npx teamtr experiment order --resume --data data/experiments` writes it.*\n'
    let found: unknown
    expect(await said(() => (found = rows('experiments/order-summary.csv')))).toBe(line)
    expect(found).toEqual([])
    expect(await said(() => figure('order-differences'))).toBe(line)
  })

  it('refuses a figure that the catalogue does not have', async () => {
    await expect(figure('nothing')).rejects.toThrow('no figure "nothing"')
  })
})
