import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

/**
 * Whether `npm run native` has been run, so tests of the tensorflow engine can: `describe.skipIf(!nativeEngine)`.
 * In CI a missing engine is an error, not a skip.
 */
export const nativeEngine: boolean = (() => {
  const require = createRequire(import.meta.url)
  try {
    const home = require.resolve('@tensorflow/tfjs-node-gpu/package.json')
    const { find } = createRequire(home)('@mapbox/node-pre-gyp') as { find(file: string): string }
    if (existsSync(find(home))) return true
  } catch {
    // not installed
  }
  if (process.env.CI === 'true') throw new Error('the native engine is missing; CI runs `npm run native` first')
  console.warn('tests of the tensorflow engine are skipped: `npm run native` sets it up')
  return false
})()
