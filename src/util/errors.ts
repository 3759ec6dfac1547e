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
