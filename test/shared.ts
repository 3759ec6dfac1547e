import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Absolute path of something in ../shared (independent oracles beside the repository); undefined where it is missing, an error in CI. */
export const sharedPath = (relative: string): string | undefined => {
  const path = fileURLToPath(new URL(`../../shared/${relative}`, import.meta.url))
  if (existsSync(path)) return path
  if (process.env.CI === 'true') throw new Error(`${path}: missing; CI needs ../shared`)
  return undefined
}
