import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { methodNames } from '../../src/train/methods.js'
import { nativeEngine } from '../native.js'
import { program, teamtrWith } from '../teamtr.js'

/** Long enough to start, far too short to compute: what is refused here is refused first. */
const LIMIT = 15_000

const folder = mkdtempSync(join(tmpdir(), 'out-'))
const file = join(folder, 'file')
writeFileSync(file, 'kept')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const teamtr = (args: readonly string[], env: Record<string, string> = {}) =>
  teamtrWith({ cwd: folder, timeout: LIMIT, env: { ...process.env, TEAMTR_ENGINE: '', ...env } }, args)

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

it.skipIf(!existsSync('/dev/full'))('a standard output that is full is one line, and an error', () => {
  const { status, stderr } = spawnSync(process.execPath, [program, '--help'], { stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'], encoding: 'utf8' })
  expect({ status, stderr }).toEqual({ status: 2, stderr: 'teamtr: standard output: cannot be written: ENOSPC: no space left on device, write\n' })
})

describe('before a run', () => {
  /** What is said of a run that is refused; its folder is not made. */
  const refused = async (args: readonly string[], said: RegExp, env: Record<string, string> = {}): Promise<void> => {
    const { status, stdout, stderr } = await teamtr([...args, '--out', 'never'], env)
    expect({ status, stdout, lines: stderr.split('\n').length - 1 }, stderr).toEqual({ status: 2, stdout: '', lines: 1 })
    expect(stderr).toMatch(said)
    expect(existsSync(join(folder, 'never'))).toBe(false)
  }
  const given = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return name
  }
  afterAll(() => ['big.json', 'function.yaml', 'pipe.yaml'].forEach((name) => rmSync(join(folder, name), { force: true })))

  it('sizes that no decoder may have, and a team that no memory holds', async () => {
    await refused(['train', given('big.json', '{"model":{"hidden":1000000,"heads":2}}')], /^teamtr: big\.json: model\.hidden: holds 1000000; /)
    await refused(['train', given('big.json', '{"model":{"hidden":65536,"heads":64,"layers":1024}}')],
      /^teamtr: big\.json: model: [\d,]{15,} parameters in 3 agents need at least [\d,]+ GiB of memory; this machine has [\d,]+ GiB\n$/)
  }, 2 * LIMIT)

  it.skipIf(!nativeEngine)('a folder for temporary files that is not there', async () => {
    for (const args of [['train'], ['demo', '--quick']]) await refused(args, /^teamtr: \/nope: cannot be written: ENOENT.* TMPDIR names a folder/, { TMPDIR: '/nope' })
  }, 2 * LIMIT)

  it('a value with a tag of YAML that is not known, and a pipe in place of a file', async () => {
    await refused(['train', given('function.yaml', 'seed: !!js/function "x"')], /^teamtr: function\.yaml: seed: holds "x"; /)
    execFileSync('mkfifo', [join(folder, 'pipe.yaml')])
    await refused(['train', 'pipe.yaml'], /^teamtr: pipe\.yaml: is a named pipe; a file is needed\n$/)
  }, 2 * LIMIT)

  it('a folder that holds what is not the demo’s, itself or below', async () => {
    const out = join(folder, 'demo')
    const demo = async (said: RegExp): Promise<void> => {
      const { status, stdout, stderr } = await teamtr(['demo', '--quick', '--out', out])
      expect({ status, stdout, lines: stderr.split('\n').length - 1 }, stderr).toEqual({ status: 2, stdout: '', lines: 1 })
      expect(stderr).toMatch(said)
    }
    mkdirSync(join(out, 'guessing'), { recursive: true })
    writeFileSync(join(out, 'guessing', 'thesis.tex'), '')
    await demo(/demo\/guessing: is not empty and holds no run; choose another --out/)
    rmSync(join(out, 'guessing', 'thesis.tex'))
    writeFileSync(join(out, 'guessing', 'config.json'), '{}')
    await demo(/^teamtr: demo: seed|^teamtr: demo: .*holds .*; the run in .*guessing has /)
    writeFileSync(join(out, 'config.json'), '{}')
    await demo(/demo: holds "config\.json", which is not the demo's; choose another --out/)
    expect(readdirSync(out).sort()).toEqual(['config.json', 'guessing'])
    rmSync(out, { recursive: true })
  }, 2 * LIMIT)
})

describe('a wrong option', () => {
  it.each([
    ['demo --quik', "unknown option '--quik' (Did you mean --quick?)"],
    ['trian', "unknown command 'trian' (Did you mean train?)"],
    ['bogus', "unknown command 'bogus'"],
    ['train --method nonsense', `option '--method <name>' argument 'nonsense' is invalid. expected one of ${methodNames.join(', ')}`],
    ['train --seed 3000000000', "option '--seed <number>' argument '3000000000' is invalid. expected a whole number, 0 to 2147483647"],
    ['train a b', "too many arguments for 'train'. Expected 1 argument but got 2"],
    ['train --seed 1.5', "option '--seed <number>' argument '1.5' is invalid. expected a whole number, 0 to 2147483647"],
    ['demo --seed x', "option '--seed <n>' argument 'x' is invalid. expected a whole number, 0 to 2147483647"],
    ['doctor --require luck', "option '--require <what>' argument 'luck' is invalid. Allowed choices are native, gpu"],
    ['score', "required option '--benchmark <name>' not specified"],
  ])('is one line with code 2: %s', async (args, said) => {
    expect(await teamtr(args.split(' '))).toEqual({ status: 2, stdout: '', stderr: `teamtr: ${said}; --help lists the options\n` })
  })

  it.each([
    ['demo --quick --gn nowhere.json', /^teamtr: nowhere\.json: no such file\n$/],
    ['demo --quick --engine abacus', /^teamtr: --engine: holds "abacus"; one of tensorflow, /],
    ['exact nowhere.yaml --out=', /^teamtr: --out: is empty; expected a path\n$/],
    ['figures --only nope', /^teamtr: --only: no figure "nope"; there are /],
    ['tables nope', /^teamtr: tables: "nope"; one of /],
  ])('is refused before anything is computed: %s', async (args, said) => {
    const { status, stdout, stderr } = await teamtr(args.split(' '))
    expect({ status, stdout, lines: stderr.split('\n').length - 1 }).toEqual({ status: 2, stdout: '', lines: 1 })
    expect(stderr).toMatch(said)
    expect(readdirSync(folder)).toEqual(['file'])
  }, 2 * LIMIT)
})
