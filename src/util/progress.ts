/** Progress on standard error: one line, rewritten in place, with rate and time left; nothing when it is not a terminal, nothing in the first two seconds. */
export interface Progress {
  /** `done` of `total` units; `note` is appended (for example the current return). */
  update(done: number, note?: string): void
  /** Clears the line. */
  end(): void
}

export const progress = (label: string, total: number, unit = '', stream: NodeJS.WriteStream = process.stderr): Progress => {
  const start = performance.now()
  let drawn = start
  let visible = false
  return {
    update(done, note = '') {
      const now = performance.now()
      if (!stream.isTTY || now - start < 2000 || now - drawn < 200) return
      drawn = now
      visible = true
      const rate = done / ((now - start) / 1000)
      const left = rate > 0 ? duration((total - done) / rate) : '?'
      const text = `${label} ${count(done)}/${count(total)}${unit && ` ${unit}`} · ${significant(rate)}/s · ${left} left${note && ` · ${note}`}`
      stream.write(`\r\x1b[K${text.slice(0, (stream.columns || 80) - 1)}`)
    },
    end() {
      if (visible) stream.write('\r\x1b[K')
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
