import { withDeadline } from './deadline.js'
import { InputError, messageOf } from './errors.js'
import { show } from './validate.js'

/** How a server is asked. */
export interface PostOptions {
  /** Sent as a bearer token, and nowhere else: no message holds it. */
  readonly apiKey?: string
  /** For one attempt, to the last byte of its answer. Default 120 s. */
  readonly timeoutSeconds?: number
  /** Attempts after the first, for what may pass: no connection, a time-out, statuses 408, 429 and 5xx. Default 3. */
  readonly retries?: number
  /** The first pause between attempts, doubled each time, 30 s at most. Default 1 s. */
  readonly pauseSeconds?: number
  /** One line on an attempt that failed, when another follows. */
  readonly onNotice?: (text: string) => void
}

/** The answer's text; or one line on what went wrong at last, with the status where there was one. */
export type Posted = { readonly text: string } | { readonly error: string; readonly status?: number }

/** Largest answer of the server that is read, in bytes. */
const MAX_ANSWER = 16 * 2 ** 20
const LONGEST_PAUSE = 30

/** POST a value as JSON, again where that may help. */
export const post = async (url: string, body: unknown, options: PostOptions = {}): Promise<Posted> => {
  const { retries = 3, pauseSeconds = 1 } = options
  for (let attempt = 0; ; attempt++) {
    const outcome = await once(url, JSON.stringify(body), options)
    if ('text' in outcome) return outcome
    if (!outcome.mayPass || attempt >= retries) {
      return { error: `${outcome.error}${attempt > 0 ? ` (after ${attempt + 1} attempts)` : ''}`, status: outcome.status }
    }
    const pause = Math.min(LONGEST_PAUSE, Math.max(outcome.retryAfter ?? 0, pauseSeconds * 2 ** attempt))
    options.onNotice?.(`${url}: attempt ${attempt + 1} of ${retries + 1} failed: ${outcome.error}; next in ${pause} s`)
    await new Promise((resolve) => setTimeout(resolve, pause * 1000))
  }
}

interface Failure {
  readonly error: string
  readonly status?: number
  readonly mayPass: boolean
  /** Seconds that the server asked to wait. */
  readonly retryAfter?: number
}

const once = async (url: string, body: string, { apiKey, timeoutSeconds = 120 }: PostOptions): Promise<{ text: string } | Failure> => {
  try {
    const { response, text } = await withDeadline(timeoutSeconds, async (signal) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) },
        body,
        redirect: 'error',
        signal,
      })
      return { response, text: await readBounded(response, signal) }
    })
    if (response.ok) return { text }
    const { status } = response
    const retryAfter = Number(response.headers.get('retry-after')) || undefined
    return { error: `answers ${status}: ${show(text.trim())}`, status, mayPass: status === 408 || status === 429 || status >= 500, retryAfter }
  } catch (error) {
    if (error instanceof InputError) return { error: error.message, mayPass: false }
    const timedOut = (error as Error).name === 'TimeoutError'
    const cause = (error as Error).cause
    return { error: timedOut ? `no answer within ${timeoutSeconds} s` : `cannot be reached: ${messageOf(cause ?? error)}`, mayPass: true }
  }
}

const readBounded = async (response: Response, deadline: AbortSignal): Promise<string> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    deadline.throwIfAborted()
    length += chunk.length
    if (length > MAX_ANSWER) throw new InputError(`answers more than ${MAX_ANSWER} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** The address of a path below an OpenAI-compatible server's base. @throws InputError for a base URL that is none */
export const endpoint = (baseUrl: string, path: string): string => {
  let url: URL
  try {
    url = new URL(`${baseUrl.replace(/\/+$/, '')}/${path}`)
  } catch {
    throw new InputError(`base URL: holds ${show(baseUrl)}; expected something like http://localhost:8000/v1`)
  }
  if (!['http:', 'https:'].includes(url.protocol) || url.username || url.password) {
    throw new InputError(`base URL: holds ${show(baseUrl.replace(/\/\/.*@/, '//…@'))}; expected http or https, without user or password`)
  }
  return url.href
}
