import { z } from 'zod'
import { InputError, messageOf } from './errors.js'
import { show, validate } from './validate.js'

/** How to reach a model behind an OpenAI-compatible server. */
export interface ChatOptions {
  /** Up to and without `/chat/completions`, for example `http://localhost:8000/v1`. http or https. */
  readonly baseUrl: string
  readonly model: string
  /** Sent as a bearer token, and nowhere else: no message holds it. */
  readonly apiKey?: string
  readonly temperature?: number
  readonly topP?: number
  readonly maxTokens?: number
  /** For one attempt. Default 120 s. */
  readonly timeoutSeconds?: number
  /** Attempts after the first, for what may pass: no connection, a time-out, statuses 408, 429 and 5xx. Default 3. */
  readonly retries?: number
  /** The first pause between attempts, doubled each time, 30 s at most. Default 1 s. */
  readonly pauseSeconds?: number
}

/** Largest answer of the server that is read, in bytes. */
const MAX_ANSWER = 16 * 2 ** 20
const LONGEST_PAUSE = 30

const completion = z.object({ choices: z.array(z.object({ message: z.object({ content: z.string() }) })).min(1) })

/**
 * A model as text in, text out: one user message, one completion.
 *
 * @throws InputError at once for a base URL that is none; from a call when the server refuses, answers
 * in another form, or cannot be reached in any attempt
 */
export const chat = (options: ChatOptions): ((prompt: string) => Promise<string>) => {
  const { model, temperature, topP, maxTokens, retries = 3, pauseSeconds = 1 } = options
  const url = endpoint(options.baseUrl)
  return async (prompt) => {
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: prompt }], temperature, top_p: topP, max_tokens: maxTokens })
    for (let attempt = 0; ; attempt++) {
      const outcome = await post(url, body, options)
      if (typeof outcome === 'string') return outcome
      if (!outcome.mayPass || attempt >= retries) {
        throw new InputError(`${url}: ${outcome.error}${attempt > 0 ? ` (after ${attempt + 1} attempts)` : ''}`)
      }
      const pause = Math.min(LONGEST_PAUSE, Math.max(outcome.retryAfter ?? 0, pauseSeconds * 2 ** attempt))
      await new Promise((resolve) => setTimeout(resolve, pause * 1000))
    }
  }
}

interface Failure {
  readonly error: string
  readonly mayPass: boolean
  /** Seconds that the server asked to wait. */
  readonly retryAfter?: number
}

const post = async (url: string, body: string, { apiKey, timeoutSeconds = 120 }: ChatOptions): Promise<string | Failure> => {
  let text: string
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutSeconds * 1000),
    })
    text = await readBounded(response)
    if (!response.ok) {
      const { status } = response
      const retryAfter = Number(response.headers.get('retry-after')) || undefined
      return { error: `answers ${status}: ${show(text.trim())}`, mayPass: status === 408 || status === 429 || status >= 500, retryAfter }
    }
  } catch (error) {
    if (error instanceof InputError) return { error: error.message, mayPass: false }
    const timedOut = (error as Error).name === 'TimeoutError'
    const cause = (error as Error).cause
    return { error: timedOut ? `no answer within ${timeoutSeconds} s` : `cannot be reached: ${messageOf(cause ?? error)}`, mayPass: true }
  }
  try {
    return validate(completion, JSON.parse(text), 'answer').choices[0].message.content
  } catch (error) {
    return { error: `answers something else than a chat completion: ${messageOf(error)}`, mayPass: false }
  }
}

const readBounded = async (response: Response): Promise<string> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.length
    if (length > MAX_ANSWER) throw new InputError(`answers more than ${MAX_ANSWER} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

const endpoint = (baseUrl: string): string => {
  let url: URL
  try {
    url = new URL(`${baseUrl.replace(/\/+$/, '')}/chat/completions`)
  } catch {
    throw new InputError(`base URL: holds ${show(baseUrl)}; expected something like http://localhost:8000/v1`)
  }
  if (!['http:', 'https:'].includes(url.protocol) || url.username || url.password) {
    throw new InputError(`base URL: holds ${show(baseUrl.replace(/\/\/.*@/, '//…@'))}; expected http or https, without user or password`)
  }
  return url.href
}
