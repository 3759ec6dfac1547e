/**
 * Progress on standard error, nothing in the first two seconds. On a terminal one line, rewritten in place, with rate and time left; elsewhere a plain
 * line after these two seconds, and one every half minute, so that a log tells that something goes on.
 */
export interface Progress {
  /** `done` of `total` units; `note` is appended (for example the current return). */
  update(done: number, note?: string): void
  /** Clears the line. */
  end(): void
}

/** Of a terminal's line, and of a log's, in ms. */
const [REDRAWN, REPEATED] = [200, 30_000]

/** @param label one line: what is counted @param now the time in ms */
export const progress = (
  label: string, total: number, unit = '', stream: Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'> = process.stderr, now = () => performance.now(),
): Progress => {
  const start = now()
  let said: number | undefined
  return {
    update(done, note = '') {
      const time = now()
      if (time - start < 2000 || time - (said ?? -Infinity) < (stream.isTTY ? REDRAWN : REPEATED)) return
      said = time
      const rate = done / ((time - start) / 1000)
      const left = rate > 0 ? duration((total - done) / rate) : '?'
      const state = `${label} ${count(done)}/${count(total)}${unit && ` ${unit}`}`
      if (!stream.isTTY) {
        stream.write(`${state}, ${left} left${note && `, ${note}`}\n`)
        return
      }
      const text = `${state} · ${significant(rate)}/s · ${left} left${note && ` · ${note}`}`
      stream.write(`\r\x1b[K${text.slice(0, (stream.columns || 80) - 1)}`)
    },
    end() {
      if (stream.isTTY && said !== undefined) stream.write('\r\x1b[K')
    },
  }
}

/** 65 → `1 m 05 s`. */
export const duration = (seconds: number): string => {
  const s = Math.round(seconds)
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(s % 60).padStart(2, '0')} s`
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, '0')} m`
}

const count = (x: number): string => x.toLocaleString('en')
const significant = (x: number): string => (x >= 100 ? String(Math.round(x)) : x.toPrecision(2))
