import { spawn } from 'node:child_process'
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

/** What a program prints. The test's own process goes on meanwhile, as vitest needs. */
export const output = (program: string, args: readonly string[], input: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, HF_HUB_OFFLINE: '1' } })
    const [printed, errors]: [Buffer[], Buffer[]] = [[], []]
    child.stdout.on('data', (chunk: Buffer) => printed.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => errors.push(chunk))
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(Buffer.concat(printed).toString())
      else reject(new Error(`${program} ended with code ${code}: ${Buffer.concat(errors).toString().slice(-2000)}`))
    })
    child.stdin.end(input)
  })
