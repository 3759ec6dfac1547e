import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'

/** Long enough to start, far too short to compute: what is refused here is refused first. */
const LIMIT = 15_000

const program = fileURLToPath(new URL('../../bin/teamtr.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'out-'))
const file = join(folder, 'file')
writeFileSync(file, 'kept')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const teamtr = (args: readonly string[], env: Record<string, string> = {}) =>
  new Promise<{ status: number | null; stdout: string; stderr: string }>((resolve) => {
    const options = { cwd: folder, timeout: LIMIT, env: { ...process.env, TEAMTR_ENGINE: '', ...env } }
    const child = execFile(process.execPath, [program, ...args], options, (_, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }))
  })

/** Folders that not even root can make: below a file, and in /proc, where mkdir fails in a way of its own. */
const places = [join(file, 'below'), ...(existsSync('/proc/self') ? ['/proc/teamtr'] : [])]

/** A line each; what follows `--out`-like options is the folder. */
const writers = [
  ['demo', '--quick', '--out'],
  ['exact', fileURLToPath(new URL('../../configs/relay-tiny.yaml', import.meta.url)), '--out'],
  ['figures', '--out'],
  ['figures', '--recompute', '--data'],
  ['kernel', 'install', '--prefix'],
  ['scaling', '--out'],
  ['tables', '--out'],
  ['token-shifts', '--out'],
  ['train', '--out'],
  ['worst-case', '--out'],
]

describe('a folder that cannot be made or written', () => {
  it.each(writers.map((args) => ({ args })))('is one line with code 2 before anything is computed: $args', async ({ args }) => {
    await Promise.all(places.map(async (place) => {
      const { status, stdout, stderr } = await teamtr([...args, place])
      expect({ status, stdout, lines: stderr.split('\n').length - 1 }, stderr).toEqual({ status: 2, stdout: '', lines: 1 })
      expect(stderr).toMatch(/^teamtr: .* cannot be (made|written): E/)
      expect(stderr).toContain(place)
    }))
    expect(readdirSync(folder)).toEqual(['file'])
  }, 2 * LIMIT)

  it('the cache likewise, before a model is fetched', async () => {
    await Promise.all(places.map(async (place) => {
      const { status, stdout, stderr } = await teamtr(['pull', 'smollm2'], { XDG_CACHE_HOME: place, PYTHON: 'never-called' })
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
      expect(stderr).toMatch(/^teamtr: .*models: cannot be made: E[^\n]*\n$/)
    }))
  }, 2 * LIMIT)
})

it('a reader that has seen enough ends the command quietly', async () => {
  const child = spawn(process.execPath, [program, '--help'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (text) => (stderr += String(text)))
  const [status] = await once(child, 'close') as [number]
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
})

describe('a wrong option', () => {
  it.each([
    ['demo --quik', "unknown option '--quik' (Did you mean --quick?)"],
    ['trian', "unknown command 'trian' (Did you mean train?)"],
    ['train a b', "too many arguments for 'train'. Expected 1 argument but got 2"],
    ['train --seed 1.5', "option '--seed <number>' argument '1.5' is invalid. expected a whole number"],
    ['demo --seed x', "option '--seed <n>' argument 'x' is invalid. expected a whole number, 0 to 2147483647"],
    ['doctor --require luck', "option '--require <what>' argument 'luck' is invalid. Allowed choices are native, gpu"],
    ['score', "required option '--benchmark <name>' not specified"],
  ])('is one line with code 2: %s', async (args, said) => {
    expect(await teamtr(args.split(' '))).toEqual({ status: 2, stdout: '', stderr: `teamtr: ${said}; --help lists the options\n` })
  })

  it.each([
    ['demo --quick --gn nowhere.json', /^teamtr: nowhere\.json: no such file\n$/],
    ['demo --quick --engine abacus', /^teamtr: --engine: holds "abacus"; one of tensorflow, /],
    ['figures --only nope', /^teamtr: --only: no figure "nope"; there are /],
    ['tables nope', /^teamtr: tables: "nope"; one of /],
  ])('is refused before anything is computed: %s', async (args, said) => {
    const { status, stdout, stderr } = await teamtr(args.split(' '))
    expect({ status, stdout, lines: stderr.split('\n').length - 1 }).toEqual({ status: 2, stdout: '', lines: 1 })
    expect(stderr).toMatch(said)
    expect(readdirSync(folder)).toEqual(['file'])
  }, 2 * LIMIT)
})
