#!/usr/bin/env node
/**
 * node scripts/peers.mjs [hf] [llama]
 *
 * The software that tests compare with, in the per-user cache: `hf`, a Python environment with transformers, peft and gguf; `llama`,
 * llama.cpp as node-llama-cpp. Neither is needed to use this library. Safe to repeat: what is there is kept.
 * Prints the folder of each; where one cannot be had, one line says why and the exit code is 1.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { cacheRoot, makeFolder } from './native/cache.mjs'

const llamaVersion = '3.21.1'
const platform = { linux: 'linux', darwin: 'mac' }[process.platform]
const llamaBinaries = `@node-llama-cpp/${platform}-${process.arch}${platform === 'mac' && process.arch === 'arm64' ? '-metal' : ''}`

const peers = {
  hf: {
    folder: 'venv-hf',
    wants: ['torch==2.13.0', 'transformers==5.18.0', 'peft==0.21.0', 'gguf==0.19.0'],
    fill(folder) {
      run(process.env.PYTHON || 'python3', ['-m', 'venv', folder])
      run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...this.wants])
    },
  },
  llama: {
    folder: 'llama-cpp',
    wants: [`node-llama-cpp@${llamaVersion}`, `${llamaBinaries}@${llamaVersion}`],
    fill(folder) {
      writeFileSync(join(folder, 'package.json'), '{"private": true}')
      // Without the optional packages: they are the binaries of every platform, CUDA's among them. The one that is used is named.
      run('npm', [
        'install',
        '--prefix',
        folder,
        '--silent',
        '--ignore-scripts',
        '--omit=optional',
        '--no-audit',
        '--no-fund',
        ...this.wants,
      ])
    },
  },
}

/** Where a peer lies; undefined when it has not been set up. */
export const peerFolder = (name) => {
  const { folder, wants } = peers[name]
  const path = join(cacheRoot(), folder)
  try {
    return JSON.stringify(JSON.parse(readFileSync(join(path, 'ready.json'), 'utf8'))) === JSON.stringify(wants) ? path : undefined
  } catch {
    return undefined
  }
}

/** Set a peer up unless it is. @returns its folder @throws when it cannot be had */
export const setUp = (name) => {
  const present = peerFolder(name)
  if (present) return present
  const { folder, wants } = peers[name]
  const path = join(cacheRoot(), folder)
  const temporary = `${path}.${process.pid}.tmp`
  const old = `${path}.${process.pid}.old.tmp`
  try {
    rmSync(temporary, { recursive: true, force: true })
    makeFolder(temporary)
    peers[name].fill(temporary)
    writeFileSync(join(temporary, 'ready.json'), JSON.stringify(wants))
    // Another process may have been faster.
    if (!peerFolder(name)) {
      if (existsSync(path)) renameSync(path, old)
      renameSync(temporary, path)
    }
  } finally {
    for (const left of [temporary, old]) rmSync(left, { recursive: true, force: true })
  }
  return path
}

const run = (program, args) => {
  const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] })
  if (status === 0) return
  const lines = (error ? error.message : stderr).trim().split('\n')
  const last = lines.filter((line) => /^(ERROR:|npm error)/i.test(line)).at(-1) ?? lines.at(-1)
  throw new Error(`${program} ${args.slice(0, 3).join(' ')}: ${last.replace(/\b(https?|file):\/\/\S+/g, '…')}`)
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const names = process.argv.slice(2)
  const unknown = names.find((name) => !Object.hasOwn(peers, name))
  if (unknown !== undefined) {
    console.error(`peers: ${JSON.stringify(unknown)}; one of ${Object.keys(peers).join(', ')}`)
    process.exit(2)
  }
  for (const name of names.length ? names : Object.keys(peers)) {
    try {
      const start = performance.now()
      console.log(`${name}: ${setUp(name)} (${((performance.now() - start) / 1000).toFixed(1)} s)`)
    } catch (error) {
      console.error(`${name}: cannot be had: ${error.message}`)
      process.exitCode = 1
    }
  }
}
