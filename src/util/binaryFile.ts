/** Parts of large binary files. Whoever reads an untrusted file compares what it says with `fileSize` before asking for bytes. */
import { constants } from 'node:buffer'
import { createHash, type Hash } from 'node:crypto'
import { closeSync, constants as flags, fstatSync, openSync, readSync } from 'node:fs'
import { InputError, messageOf } from './errors.js'

/** Bytes of a file. @throws InputError when it is missing, no regular file, or unreadable */
export const fileSize = (file: string): number =>
  withFile(file, (descriptor) => {
    const status = fstatSync(descriptor)
    if (!status.isFile()) throw new InputError(`${file}: is ${status.isDirectory() ? 'a folder' : 'no regular file'}; a file is needed`)
    return status.size
  })

/** @param where what is read, for messages @throws InputError when the file ends before, is missing or unreadable */
export const readBytes = (file: string, position: number, length: number, where: string): Buffer =>
  withFile(file, (descriptor) => {
    if (length > constants.MAX_LENGTH) throw new InputError(`${where}: ${length} bytes; at most ${constants.MAX_LENGTH} are read at once`)
    const bytes = Buffer.alloc(length)
    for (let at = 0; at < length; ) {
      const read = readSync(descriptor, bytes, at, Math.min(length - at, 2 ** 30), position + at)
      if (read === 0) throw new InputError(`${where}: the file ends after ${at} of ${length} bytes`)
      at += read
    }
    return bytes
  })

/** SHA-256 of the first bytes of a file, of all by default: a hash that may go on. @throws InputError when it ends before, is missing or unreadable */
export const hashOf = (file: string, length = fileSize(file)): Hash => {
  const hash = createHash('sha256')
  for (let at = 0; at < length; at += PIECE) hash.update(readBytes(file, at, Math.min(PIECE, length - at), file))
  return hash
}

/** Bytes that are hashed at once. */
const PIECE = 2 ** 24

const { O_RDONLY, O_NONBLOCK } = flags as { O_RDONLY: number; O_NONBLOCK?: number }

const withFile = <T>(file: string, f: (descriptor: number) => T): T => {
  let descriptor: number
  try {
    descriptor = openSync(file, O_RDONLY | (O_NONBLOCK ?? 0)) // a named pipe is opened at once, and refused, instead of waited for
  } catch (error) {
    throw new InputError(
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? `${file}: no such file` : `${file}: cannot be read: ${messageOf(error)}`,
    )
  }
  try {
    return f(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
