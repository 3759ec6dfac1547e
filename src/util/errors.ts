/**
 * An error in what the user gave: a file, a field, an option. The command line prints its message
 * alone (no stack) and exits with code 2.
 *
 * Write the message as `FILE: FIELD: what it holds; what would be right`.
 */
export class InputError extends Error {
  override name = 'InputError'
}

/** The message of anything that was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** `text` as it may be shown on a terminal and counted on to be one line: control characters and those that turn the direction of writing, which a file's own words may hold, as escapes. */
export const oneLine = (text: string): string =>
  text.replace(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, (c) => (c === '\n' ? '\\n' : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`))
