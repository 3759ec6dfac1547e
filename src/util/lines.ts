import { createReadStream } from 'node:fs'
import { InputError, messageOf } from './errors.js'

/** One line of a file: its text, or why there is none. */
export interface Line {
  /** 1-based. */
  readonly line: number
  /** Absent when the line is not UTF-8 or too long. */
  readonly text?: string
  readonly error?: string
  /** Of a line that is too long: its first and last 4 KiB (latin1), so that a reader can still tell what it was. */
  readonly head?: string
  readonly tail?: string
}

const ENDS = 4096

/**
 * The non-empty lines of a file, streamed: memory is bounded by `maxBytes`, however large the file
 * or a line of it. A byte order mark is dropped, `\r\n` ends a line as `\n` does.
 *
 * @param maxBytes the longest line that is kept
 * @throws InputError when the file cannot be read
 */
export async function* readLines(file: string, maxBytes: number): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let line = 1
  let parts: Buffer[] = []
  let length = 0
  let head = Buffer.alloc(0)
  let tail = Buffer.alloc(0)

  const add = (bytes: Buffer): void => {
    length += bytes.length
    if (length <= maxBytes) {
      parts.push(bytes)
      return
    }
    if (parts.length) {
      const whole = Buffer.concat(parts)
      head = Buffer.from(whole.subarray(0, ENDS))
      tail = Buffer.from(whole.subarray(-ENDS))
      parts = []
    }
    if (head.length < ENDS) head = Buffer.concat([head, bytes.subarray(0, ENDS - head.length)])
    tail = Buffer.from(Buffer.concat([tail, bytes.subarray(-ENDS)]).subarray(-ENDS))
  }
  const take = (): Line | undefined => {
    const taken = ((): Line | undefined => {
      if (length > maxBytes) {
        const error = `${length} bytes long; at most ${maxBytes} are read`
        return { line, error, head: head.toString('latin1'), tail: tail.toString('latin1') }
      }
      try {
        const text = decoder.decode(Buffer.concat(parts))
        return text.trim() === '' ? undefined : { line, text }
      } catch {
        return { line, error: 'is not UTF-8 text' }
      }
    })()
    line++
    parts = []
    length = 0
    head = tail = Buffer.alloc(0)
    return taken
  }

  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        add(chunk.subarray(from, end))
        const taken = take()
        if (taken) yield taken
        from = end + 1
      }
      if (from < chunk.length) add(chunk.subarray(from))
    }
  } catch (error) {
    throw fileError(file, error)
  }
  const last = length ? take() : undefined
  if (last) yield last
}

const fileError = (file: string, error: unknown): Error => {
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'ENOENT') return new InputError(`${file}: no such file`)
  if (code === 'EISDIR') return new InputError(`${file}: is a folder; a file is needed`)
  if (code) return new InputError(`${file}: cannot be read: ${messageOf(error)}`)
  return error as Error
}
