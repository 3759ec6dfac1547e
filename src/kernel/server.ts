import { cellStack } from './stack.js'
import { mends } from './mends.js'
import { loadTslab, packageRoot } from './tslab.js'
import type { Executor, JupyterMessage, JupyterServer, Tslab } from './tslab.js'

/** How a cell ended. */
type Outcome = { readonly status: 'ok' } | { readonly status: 'error'; readonly ename: string; readonly evalue: string; readonly traceback: string[] }

/**
 * Serve one Jupyter client: tslab's sockets, converter and executor, with what it lacks of the protocol. A failing
 * cell sends an `error` output, every cell its execution count, and cells queued behind a failing one are aborted only
 * where the client asked for that.
 *
 * @param connectionFile the JSON file that Jupyter names on the command line
 */
export const serve = async (connectionFile: string): Promise<void> => {
  const tslab = loadTslab(mends(packageRoot))
  const node = tslab.createConverter({ isJS: false, isBrowser: false })
  let failures: unknown[] = []
  const executor = tslab.createExecutor(process.cwd(), { node, close: () => node.close() }, {
    log: (value) => console.log(value),
    // tslab hands over either what was thrown, or a format and the parts of one compiler message.
    error: (...parts) => failures.push(parts.length === 1 ? parts[0] : compilerMessage(parts)),
  })
  const run = async (code: string): Promise<Outcome> => {
    failures = []
    return await executor.execute(code) ? { status: 'ok' } : failed(failures, code)
  }
  const server = withExecution(tslab, executor, connectionFile, run)
  process.on('SIGINT', () => executor.interrupt())
  process.on('uncaughtException', (error) => console.error(error))
  process.on('unhandledRejection', (reason) => console.error(reason))
  await server.init()
}

const compilerMessage = (parts: unknown[]): Error => {
  const [, file, line, column, text] = parts
  const error = new Error(file ? `${String(file)}line ${String(line)}:${String(column)}: ${String(text)}` : `line ${String(line)}:${String(column)}: ${String(text)}`)
  error.name = 'TypeScriptError'
  error.stack = undefined
  return error
}

const failed = (failures: readonly unknown[], code: string): Outcome => {
  const script = (globalThis as { __teamtrCell?: string }).__teamtrCell ?? ''
  const errors = failures.map((failure) => (failure instanceof Error || isErrorLike(failure) ? failure as Error : new Error(String(failure))))
  const [first = new Error('the cell failed')] = errors
  return { status: 'error', ename: first.name, evalue: first.message, traceback: errors.flatMap((error) => cellStack(error, script, code)) }
}

/** Errors thrown inside `vm` scripts may come from another realm. */
const isErrorLike = (value: unknown): boolean => typeof value === 'object' && value !== null && 'message' in value && 'name' in value

/** A server whose execute requests run one after the other through `run`, by the protocol's rules. */
const withExecution = (tslab: Tslab, executor: Executor, connectionFile: string, run: (code: string) => Promise<Outcome>): JupyterServer => {
  const handler = new tslab.JupyterHandlerImpl(executor, false)
  const server = new tslab.ZmqServer(handler, connectionFile)
  let count = 0
  let queue: Promise<unknown> = Promise.resolve()
  // Cells that were waiting when one failed: all that were queued before this number are aborted.
  let arrived = 0
  let abortedBefore = 0

  const execute = async (socket: unknown, message: JupyterMessage, number: number): Promise<void> => {
    const send = (type: string, content: unknown, to: unknown = server.iopub): void => {
      const reply = message.createReply()
      reply.header.msg_type = type
      reply.content = content
      reply.signAndSend(server.connInfo.key, to)
    }
    if (number < abortedBefore) return send('execute_reply', { status: 'aborted', execution_count: count }, socket)
    const execution_count = ++count
    send('execute_input', { code: message.content.code, execution_count })
    const stream = (name: string, text: string): void => send('stream', { name, text })
    process.stdout.write = handler.createWriteToIopub('stdout', stream)
    process.stderr.write = handler.createWriteToIopub('stderr', stream)
    tslab.jupyter.lastWriteDisplayData = (content, update) => send(update ? 'update_display_data' : 'display_data', content)
    const outcome = await run(message.content.code)
    if (outcome.status === 'error') {
      const { ename, evalue, traceback } = outcome
      send('error', { ename, evalue, traceback })
      if (message.content.stop_on_error ?? true) {
        // Let requests that were already sent arrive first.
        await new Promise((resolve) => setTimeout(resolve, 50))
        abortedBefore = arrived
      }
    }
    send('execute_reply', { ...outcome, execution_count }, socket)
  }

  server.handleExecute = (socket, message) => {
    const number = arrived++
    const done = queue.then(() => execute(socket, message, number))
    queue = done.catch(() => {})
    return done
  }
  return server
}
