import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { fileSize } from '../../src/util/binaryFile.js'
import { InputError, oneLine } from '../../src/util/errors.js'
import { readJson, readText, writableFolder, writeAtomic } from '../../src/util/files.js'
import { show } from '../../src/util/validate.js'

const folder = mkdtempSync(join(tmpdir(), 'teamtr-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('readJson', () => {
  it('refuses what nests deep before anything is made of it, and takes brackets in strings for what they are', () => {
    const file = join(folder, 'deep.json')
    const content = { 'a"[[\\': Array.from({ length: 2000 }, () => '[{"\\') }
    writeFileSync(file, JSON.stringify(content))
    expect(readJson(file)).toEqual(content)
    writeFileSync(file, '['.repeat(2 ** 20))
    expect(() => readJson(file)).toThrow(/deep\.json: is not valid JSON: nests deeper than 1000 levels at position 1000$/)
  })
})

describe('a named pipe', () => {
  it.skipIf(process.platform === 'win32')('in the place of a binary file is refused, not waited for', () => {
    const file = join(folder, 'model.safetensors')
    execFileSync('mkfifo', [file])
    expect(() => fileSize(file)).toThrow(/model\.safetensors: is no regular file; a file is needed$/)
  })
})

describe('writeAtomic', () => {
  it('makes the folders, writes, replaces, and leaves nothing else', () => {
    const file = join(folder, 'a', 'b', 'c.txt')
    writeAtomic(file, 'one')
    writeAtomic(file, 'two')
    expect(readFileSync(file, 'utf8')).toBe('two')
    expect(readdirSync(join(folder, 'a', 'b'))).toEqual(['c.txt'])
  })

  it('where it cannot write it says so in one line, and returns: below a file, below a device, below /proc', () => {
    const file = join(folder, 'plain')
    writeFileSync(file, '')
    const places = [join(file, 'x'), join(file, 'y', 'x'), '/dev/null/x', ...(existsSync('/proc/self') ? ['/proc/teamtr/x'] : [])]
    for (const place of places) {
      expect(() => writeAtomic(place, 'text'), place).toThrow(InputError)
      expect(() => writeAtomic(place, 'text'), place).toThrow(/^.*x: cannot be written: [^']*$/) // without the temporary name
    }
  })
})

describe('writableFolder', () => {
  it('makes the folders and leaves nothing in them, and what is in them', () => {
    const deep = join(folder, 'p', 'q', 'r')
    writableFolder(deep)
    expect(readdirSync(deep)).toEqual([])
    writeFileSync(join(deep, 'kept'), '')
    writableFolder(deep)
    expect(readdirSync(deep)).toEqual(['kept'])
  })

  it('says in one line what cannot be made or written, and returns: a file, below a file, a device, in and below /proc', () => {
    const file = join(folder, 'no folder')
    writeFileSync(file, 'kept')
    const proc = existsSync('/proc/self') ? [['/proc', 'written'], ['/proc/teamtr', 'made'], ['/proc/teamtr/deep/er', 'made']] : []
    const places = [[file, 'written'], [join(file, 'x'), 'made'], ['/dev/null', 'written'], ['/dev/null/x', 'made'], ...proc]
    for (const [place, what] of places) {
      expect(() => writableFolder(place), place).toThrow(InputError)
      expect(() => writableFolder(place), place).toThrow(new RegExp(`^${place}: cannot be ${what}: E.*$`))
    }
    expect(readFileSync(file, 'utf8')).toBe('kept')
  })
})

describe('readText', () => {
  it('refuses folders and devices, which never end', () => {
    expect(() => readText(folder)).toThrow(`${folder}: is a folder`)
    if (existsSync('/dev/zero')) expect(() => readText('/dev/zero')).toThrow('/dev/zero: is a device; a file is needed')
  })
})

describe('messages', () => {
  it('stay one line, whatever a file holds', () => {
    const file = join(folder, 'bad.json')
    writeFileSync(file, 'a\n\u001b[31mb')
    expect(() => readJson(file)).toThrow(InputError)
    expect(oneLine('a\nb\u001b[31m\u009bc\u2028ü')).toBe('a\\nb\\u001b[31m\\u009bc\\u2028ü')
  })

  it('name what nests too deep to be shown', () => {
    const deep = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000)) as unknown
    expect(show(deep)).toBe('a list')
  })
})
