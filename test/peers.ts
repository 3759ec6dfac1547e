import { existsSync } from 'node:fs'
import { join } from 'node:path'
// @ts-expect-error a script without types
import { peerFolder, setUp } from '../scripts/peers.mjs'

type Peer = 'hf' | 'llama'
const folderOf = peerFolder as (name: Peer) => string | undefined

/**
 * Where the software that a test compares with lies (scripts/peers.mjs); undefined where it is not.
 *
 * @param install fetch it where it is missing; where it cannot be fetched, say so and do without
 */
export const peer = (name: Peer, install: boolean): string | undefined => {
  const present = folderOf(name)
  if (present !== undefined || !install) return present
  try {
    return (setUp as (name: Peer) => string)(name)
  } catch (error) {
    console.warn(`comparisons with ${name} are skipped: ${(error as Error).message}`)
    return undefined
  }
}

/** The Python of the `hf` peer: transformers, peft, gguf. */
export const hubPython = (install: boolean): string | undefined => {
  const folder = peer('hf', install)
  const python = folder && join(folder, 'bin/python')
  return python && existsSync(python) ? python : undefined
}
