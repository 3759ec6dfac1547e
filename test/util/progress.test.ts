import { describe, expect, it } from 'vitest'
import { progress } from '../../src/util/progress.js'

/** What is written over `seconds` updates, one a second, of 60 s of work. */
const written = (isTTY: boolean, seconds: number, note = ''): string[] => {
  const lines: string[] = []
  let time = 5000
  const stream = { isTTY, columns: 80, write: (text: string) => lines.push(text) > 0 }
  const bar = progress('relay, teamtr: training', 60, 'updates', stream as never, () => time)
  for (let done = 1; done <= seconds; done++) {
    time += 1000
    bar.update(done, note)
  }
  bar.end()
  return lines
}

describe('progress', () => {
  it('says nothing in the first two seconds, and has nothing to clear then', () => {
    for (const isTTY of [true, false]) expect(written(isTTY, 1)).toEqual([])
  })

  it('is on a terminal one line that is rewritten, and cleared at the end', () => {
    const lines = written(true, 4, 'return 0.5')
    expect(lines).toHaveLength(4)
    expect(lines[0]).toBe('\r\x1b[Krelay, teamtr: training 2/60 updates · 1.0/s · 58 s left · return 0.5')
    expect(lines.at(-1)).toBe('\r\x1b[K')
  })

  it('is elsewhere a plain line soon after the start and every half minute, without control characters', () => {
    expect(written(false, 60, 'return 0.5')).toEqual([
      'relay, teamtr: training 2/60 updates, 58 s left, return 0.5\n',
      'relay, teamtr: training 32/60 updates, 28 s left, return 0.5\n',
    ])
  })
})
