import { createRequire } from 'node:module'
import Module from 'node:module'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Mend } from './mends.js'

/** The package's own root folder. */
export const packageRoot = fileURLToPath(new URL('../../', import.meta.url))

const require = createRequire(import.meta.url)
const dist = join(dirname(require.resolve('tslab/package.json')), 'dist')

/** What the kernel uses of tslab (pinned exactly in package.json), as far as it uses it. */
export interface Tslab {
  createConverter(options: { isJS: boolean; isBrowser: boolean }): Converter
  createExecutor(folder: string, converters: { node: Converter; close(): void }, console: TslabConsole): Executor
  JupyterHandlerImpl: new (executor: Executor, isJs: boolean) => JupyterHandler
  ZmqServer: new (handler: JupyterHandler, connectionFile: string) => JupyterServer
  /** tslab keeps the cell's writer of display data here; it is the only way to send several formats in one output. */
  jupyter: { lastWriteDisplayData: ((content: DisplayData, update?: boolean) => void) | null }
}
export interface TslabConsole { log(...values: unknown[]): void; error(...values: unknown[]): void }
export interface Converter { close(): void }
export interface Executor { execute(code: string): Promise<boolean>; interrupt(): void; close(): void; readonly locals: Record<string, unknown> }
export interface JupyterHandler { createWriteToIopub(name: 'stdout' | 'stderr', write: (name: string, text: string) => void): typeof process.stdout.write }
export interface JupyterMessage {
  readonly content: { code: string; stop_on_error?: boolean; silent?: boolean }
  header: { msg_type: string }
  createReply(): JupyterReply
}
export interface JupyterReply { header: { msg_type: string }; content: unknown; signAndSend(key: string, socket: unknown): void }
export interface JupyterServer {
  connInfo: { key: string }
  iopub: unknown
  init(): Promise<void>
  close(): void
  handleExecute(socket: unknown, message: JupyterMessage): Promise<void>
}
export interface DisplayData {
  readonly data: Readonly<Record<string, unknown>>
  readonly metadata: object
  readonly transient: { readonly display_id?: string | null }
}

/**
 * Load tslab with its sources mended.
 *
 * @throws Error when the text that a mend replaces is not there exactly once: tslab is no longer the version the mends were written for
 */
export const loadTslab = (mends: readonly Mend[]): Tslab => {
  const loaders = (Module as unknown as { _extensions: Record<string, Loader> })._extensions
  const plain = loaders['.js']
  loaders['.js'] = (module, filename) => {
    const own = mends.filter((mend) => filename === join(dist, mend.file))
    if (own.length === 0) return plain(module, filename)
    module._compile(own.reduce(applyMend, readFileSync(filename, 'utf8')), filename)
  }
  try {
    return {
      ...require('tslab/dist/converter.js'),
      ...require('tslab/dist/executor.js'),
      ...require('tslab/dist/jupyter.js'),
      jupyter: require('tslab/dist/jupyter.js'),
    } as Tslab
  } finally {
    loaders['.js'] = plain
  }
}

type Loader = (module: { _compile(source: string, filename: string): void }, filename: string) => void

const applyMend = (source: string, { file, find, replace }: Mend): string => {
  const parts = source.split(find)
  if (parts.length !== 2) throw new Error(`tslab/dist/${file}: expected once, found ${parts.length - 1} times: ${find}`)
  return parts.join(replace)
}
