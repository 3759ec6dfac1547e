#!/usr/bin/env node
// In a checkout the compiled library may be missing or older than the sources: build it first.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const newest = (dir) => Math.max(0, ...readdirSync(dir, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => statSync(`${entry.parentPath}/${entry.name}`).mtimeMs))

if (existsSync(`${root}src`)) {
  const stamp = `${root}dist/.tsbuildinfo`
  if (!existsSync(stamp) || statSync(stamp).mtimeMs < newest(`${root}src`)) {
    if (process.stderr.isTTY) process.stderr.write('building teamtr …\n')
    const tsc = spawnSync(process.execPath, [`${root}node_modules/typescript/bin/tsc`, '-p', `${root}tsconfig.build.json`], { stdio: ['ignore', 2, 2] })
    if (tsc.status !== 0) {
      process.stderr.write('teamtr: the sources do not compile (see above)\n')
      process.exit(1)
    }
  }
}
await import('../dist/cli/main.js')
