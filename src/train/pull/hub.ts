/** Models from a hub that speaks the Hugging Face protocol, at the address in the environment's HF_ENDPOINT. */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { withDeadline } from '../../util/deadline.js'
import { InputError, messageOf } from '../../util/errors.js'
import { writeAtomic } from '../../util/files.js'
import { show, validate } from '../../util/validate.js'
import { install, type PulledModel } from './models.js'

/** For one file, in seconds. */
const LONGEST = 3600

/** The files of a model that are used here; weights besides. */
const wanted = [
  'config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'model.safetensors.index.json',
]
const isWeights = (path: string): boolean => /^model(-\d{5}-of-\d{5})?\.safetensors$/.test(path)

const revisionSchema = z.object({ sha: z.string().regex(/^[0-9a-f]{40,64}$/) })
const treeSchema = z.array(z.object({
  type: z.string(),
  path: z.string(),
  size: z.int().min(0),
  oid: z.string(),
  lfs: z.object({ oid: z.string().regex(/^(sha256:)?[0-9a-f]{64}$/), size: z.int().min(0) }).optional(),
}))

const noAccess = ' (HF_TOKEN with access to it is needed)'
const hints: Readonly<Record<number, string>> = { 401: noAccess, 403: noAccess, 404: ' (no such model, revision or file)' }

export interface HubOptions {
  /** `owner/name`, with `@revision` where it is not the main one. */
  readonly model: string
  readonly name: string
  /** Address of the hub, http or https. */
  readonly endpoint: string
  /** Sent to that address as a bearer token. */
  readonly token?: string
  readonly onProgress?: (bytes: number, total: number, file: string) => void
}

/**
 * Fetch a model: its configuration, tokenizer and safetensors, each checked by size and hash. `source.json` beside them records where from.
 *
 * @throws InputError in one line when the hub cannot be reached, has no such model, or sends something else
 */
export const pullHub = async ({ model, name, endpoint, token, onProgress }: HubOptions): Promise<PulledModel> => {
  const [, repository, revision = 'main'] = /^([\w.-]+\/[\w.-]+)(?:@([\w./-]+))?$/.exec(model) ?? []
  if (!repository) throw new InputError(`pull: holds ${show(model)}; expected OWNER/NAME or OWNER/NAME@REVISION`)
  const base = address(endpoint)
  const headers = token ? { authorization: `Bearer ${token}` } : undefined
  const get = <T>(path: string, read: (response: Response) => Promise<T>): Promise<T> =>
    withDeadline(LONGEST, async (signal) => {
      let response: Response
      try {
        response = await fetch(`${base}${path}`, { headers, signal })
      } catch (error) {
        throw new InputError(`${model}: HF_ENDPOINT cannot be reached: ${messageOf((error as Error).cause ?? error)}`)
      }
      if (!response.ok) {
        throw new InputError(`${model}: the hub answers ${response.status}${hints[response.status] ?? ''}`)
      }
      return read(response)
    })
  const json = async <S extends z.ZodType>(schema: S, path: string): Promise<z.output<S>> =>
    validate(schema, await get(path, (response) => response.json().catch(() => undefined)), `${model}: the hub's answer`)

  const { sha } = await json(revisionSchema, `/api/models/${repository}/revision/${encodeURIComponent(revision)}`)
  const files = (await json(treeSchema, `/api/models/${repository}/tree/${sha}`)).filter(
    ({ type, path }) => type === 'file' && (wanted.includes(path) || isWeights(path)),
  )
  if (!files.some(({ path }) => isWeights(path))) throw new InputError(`${model}: the hub has no safetensors of it`)
  const total = files.reduce((sum, { size }) => sum + size, 0)

  let done = 0
  const path = await install(name, async (folder) => {
    for (const file of files) {
      await get(`/${repository}/resolve/${sha}/${file.path}`, (response) =>
        download(response, join(folder, file.path), file, `${model}: ${file.path}`, (bytes) => onProgress?.((done += bytes), total, file.path)))
    }
    writeAtomic(join(folder, 'source.json'), `${JSON.stringify({ model: repository, revision: sha }, null, 1)}\n`)
  })
  return { name, path, present: false }
}

/** Save an answer, no more of it than was announced, and check its hash: sha256, or git's hash of a blob. */
const download = async (
  { body }: Response,
  target: string,
  { size, oid, lfs }: z.output<typeof treeSchema>[number],
  where: string,
  onBytes: (bytes: number) => void,
): Promise<void> => {
  const hash = lfs ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`)
  let received = 0
  const checked = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      received += chunk.length
      if (received > size) throw new InputError(`${where}: more than the announced ${size} bytes`)
      hash.update(chunk)
      onBytes(chunk.length)
      yield chunk
    }
  }
  try {
    await pipeline(Readable.fromWeb(body as never), checked, createWriteStream(target))
  } catch (error) {
    throw error instanceof InputError ? error : new InputError(`${where}: the transfer broke off: ${messageOf(error)}`)
  }
  if (received !== size) throw new InputError(`${where}: ${received} of ${size} bytes arrived`)
  const expected = lfs ? lfs.oid.replace('sha256:', '') : oid
  if (hash.digest('hex') !== expected) throw new InputError(`${where}: its hash is not the one that the hub names`)
}

const address = (endpoint: string): string => {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol)) {
    throw new InputError(`HF_ENDPOINT: holds ${show(endpoint)}; expected the http or https address of a hub`)
  }
  return url.href.replace(/\/+$/, '')
}
