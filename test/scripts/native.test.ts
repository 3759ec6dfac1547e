import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { nativeEngine } from '../native.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Cache {
  ensureFolder(root: string, name: string, fill: (folder: string) => void): string
  fault(folder: string): string | undefined
}
const cacheModule = join(root, 'scripts/native/cache.mjs')
const { ensureFolder, fault } = await import(cacheModule) as Cache

let scratch: string
beforeAll(() => { scratch = mkdtempSync(join(tmpdir(), 'teamtr-native-')) })
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

describe('the cache', () => {
  const content = 'library '.repeat(1000)
  let fills = 0
  const fill = (folder: string): void => {
    fills++
    mkdirSync(join(folder, 'lib'))
    writeFileSync(join(folder, 'lib/a.so'), content)
    writeFileSync(join(folder, 'b.h'), '')
  }

  test('fills a folder once; whatever is altered, cut, missing or unreadable is found, and filled anew', () => {
    const cache = join(scratch, 'cache')
    const ensure = (): string => ensureFolder(cache, 'tool-1', fill)
    const folder = ensure()
    ensure()
    expect(fills).toBe(1)

    const damages: [RegExp, () => void][] = [
      [/a\.so is altered/, () => writeFileSync(join(folder, 'lib/a.so'), content.replace(/y $/, 'z '))],
      [/a\.so has 10 bytes, not 8000/, () => truncateSync(join(folder, 'lib/a.so'), 10)],
      [/b\.h is missing/, () => rmSync(join(folder, 'b.h'))],
      [/cannot be checked/, () => writeFileSync(join(folder, 'manifest.json'), '{"lib/a.so": nul')],
      [/cannot be checked/, () => writeFileSync(join(folder, 'manifest.json'), '{"lib/a.so": null}')],
      [/names no file/, () => writeFileSync(join(folder, 'manifest.json'), '{}')],
    ]
    damages.forEach(([found, damage], i) => {
      damage()
      expect(fault(folder)).toMatch(found)
      ensure()
      expect(fills).toBe(i + 2)
      expect(fault(folder)).toBeUndefined()
      expect(readFileSync(join(folder, 'lib/a.so'), 'utf8')).toBe(content)
    })
    expect(readdirSync(cache)).toEqual(['tool-1'])
  })

  test('a fill that fails leaves nothing behind, and what was there as it was', () => {
    const cache = join(scratch, 'failing')
    const fails = (folder: string): void => {
      writeFileSync(join(folder, 'half'), 'x')
      throw new Error('no network')
    }
    expect(() => ensureFolder(cache, 'tool-1', fails)).toThrow('no network')
    expect(readdirSync(cache)).toEqual([])
    ensureFolder(cache, 'tool-1', fill)
    rmSync(join(cache, 'tool-1/b.h'))
    expect(() => ensureFolder(cache, 'tool-1', fails)).toThrow('no network')
    expect(readdirSync(cache)).toEqual(['tool-1'])
  })

  test('processes that fill one folder at once all get a sound one', async () => {
    const cache = join(scratch, 'crowd')
    const program = `
      import { ensureFolder, fault } from ${JSON.stringify(cacheModule)}
      import { writeFileSync } from 'node:fs'
      for (let round = 0; round < 20; round++) {
        const folder = ensureFolder(process.argv[1], 'tool-' + round, (folder) => writeFileSync(folder + '/a', 'a'.repeat(100000)))
        const wrong = fault(folder)
        if (wrong) throw new Error(wrong)
      }`
    const codes = await Promise.all([1, 2, 3, 4].map(() => new Promise((resolve) => {
      spawn(process.execPath, ['--input-type=module', '-e', program, cache], { stdio: 'inherit' }).on('close', resolve)
    })))
    expect(codes).toEqual([0, 0, 0, 0])
    expect(readdirSync(cache)).toHaveLength(20)
  })
})

/** A project of its own, in which the script finds the package without a binding. */
const project = (name: string): { folder: string; binding: string } => {
  const folder = join(scratch, name)
  const home = join(folder, 'node_modules/@tensorflow/tfjs-node-gpu')
  const real = dirname(createRequire(import.meta.url).resolve('@tensorflow/tfjs-node-gpu/package.json'))
  mkdirSync(home, { recursive: true })
  cpSync(join(real, 'package.json'), join(home, 'package.json'))
  cpSync(join(real, 'binding'), join(home, 'binding'), { recursive: true })
  for (const linked of ['@mapbox', 'node-api-headers']) symlinkSync(join(root, 'node_modules', linked), join(folder, 'node_modules', linked))
  cpSync(join(root, 'scripts'), join(folder, 'scripts'), { recursive: true })
  return { folder, binding: join(home, 'lib/napi-v8/tfjs_binding.node') }
}

const run = (folder: string, env: Record<string, string>, ...args: string[]) =>
  spawnSync(process.execPath, [join(folder, 'scripts/native.mjs'), ...args], { encoding: 'utf8', env: { ...process.env, ...env } })

describe('npm run native', () => {
  test('says in one line why there is no native engine, and does not fail', () => {
    const { folder, binding } = project('without')
    const env = { XDG_CACHE_HOME: join(scratch, 'empty') }
    for (const [why, more] of [
      [/python3 with pip is needed/, { PATH: '/nonexistent' }],
      [/pip cannot fetch TensorFlow: /, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: '' }],
    ] as const) {
      const { status, stdout } = run(folder, { ...env, ...more })
      expect(status).toBe(0)
      expect(stdout).toMatch(/^native engine: none \(.*\); the embedded wasm engine is used: same commands, slower\n$/)
      expect(stdout).toMatch(why)
      expect(stdout).not.toMatch(/https?:/)
    }
    expect(existsSync(binding)).toBe(false)
    expect(readdirSync(join(scratch, 'empty/teamtr'))).toEqual([])
  })

  test.skipIf(!existsSync('/proc/self'))('a cache that cannot be made is one line, at once: here and where peers and Jupyter are set up', () => {
    const { folder } = project('no-cache')
    const start = (script: string, ...args: string[]) => spawnSync(process.execPath, [join(folder, 'scripts', script), ...args], {
      encoding: 'utf8', timeout: 20_000, env: { ...process.env, XDG_CACHE_HOME: '/proc/nope' },
    })
    const reason = /ENOENT: no such file or directory, mkdir '\/proc\/nope'/
    expect(start('native.mjs')).toMatchObject({ status: 0, stdout: expect.stringMatching(reason) as string })
    expect(start('peers.mjs', 'hf')).toMatchObject({ status: 1, stderr: expect.stringMatching(reason) as string })
    expect(start('notebooks-check.mjs')).toMatchObject({ status: 1, stderr: expect.stringMatching(reason) as string })
  })

  test('rejects an option it does not know', () => {
    const { status, stderr } = run(root, {}, '--gup')
    expect(status).toBe(2)
    expect(stderr).toMatch(/^native: Unknown option '--gup'/)
  })

  test.skipIf(!nativeEngine)('builds the binding, keeps it, and mends a damaged one from the cache', () => {
    const { folder, binding } = project('with')
    // TensorFlow's libraries, as they are in the user's cache: the binding alone is built anew.
    const cache = join(scratch, 'xdg/teamtr')
    mkdirSync(cache, { recursive: true })
    const user = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'teamtr')
    for (const name of readdirSync(user).filter((name) => /^tensorflow-.*-cpu-/.test(name))) symlinkSync(join(user, name), join(cache, name))

    const env = { XDG_CACHE_HOME: join(scratch, 'xdg') }
    const first = run(folder, env)
    expect(first.stdout).toMatch(/^native engine: TensorFlow 2\.\d+\.\d+ \(CPU build\) is ready/)
    expect(first.stderr).toMatch(/compiling/)

    truncateSync(binding, 1000)
    const mended = run(folder, env)
    expect(mended.stdout).toMatch(/is ready/)
    expect(mended.stderr).toBe('')
    const cached = join(cache, readdirSync(cache).find((name) => name.startsWith('binding-'))!, 'tfjs_binding.node')
    expect(readFileSync(binding).equals(readFileSync(cached))).toBe(true)
  })
})
