import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { chat, type ChatOptions } from '../../src/util/chat.js'

type Handler = (request: IncomingMessage, response: ServerResponse, body: string, attempt: number) => void

const servers: ReturnType<typeof createServer>[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** A server on a free port of this machine. */
const serve = async (handle: Handler): Promise<string> => {
  let attempts = 0
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => handle(request, response, body, ++attempts))
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}
const answer = (response: ServerResponse, content: string): void => void response.end(JSON.stringify({ choices: [{ message: { content } }] }))
const ask = (baseUrl: string, options: Partial<ChatOptions> = {}): Promise<string> =>
  chat({ baseUrl, model: 'judge', pauseSeconds: 0.01, ...options })('Is it so?')

describe('chat', () => {
  it('sends one message and returns the completion', async () => {
    const seen: { url?: string; key?: string; body: unknown }[] = []
    const url = await serve((request, response, body) => {
      seen.push({ url: request.url, key: request.headers.authorization, body: JSON.parse(body) })
      answer(response, 'Yes. ä')
    })
    expect(await ask(`${url}/`, { apiKey: 'secret', temperature: 0.7 })).toBe('Yes. ä')
    const body = { model: 'judge', messages: [{ role: 'user', content: 'Is it so?' }], temperature: 0.7 }
    expect(seen).toEqual([{ url: '/v1/chat/completions', key: 'Bearer secret', body }])
  })

  it('tries again after what may pass, a bounded number of times', async () => {
    const busy = await serve((_, response, __, attempt) => {
      if (attempt < 3) response.writeHead(attempt === 1 ? 503 : 429).end()
      else answer(response, 'No')
    })
    expect(await ask(busy)).toBe('No')
    let attempts = 0
    const down = await serve((_, response) => {
      attempts++
      response.writeHead(500).end('out of memory')
    })
    await expect(ask(down, { retries: 2 })).rejects.toThrow(/answers 500: "out of memory" \(after 3 attempts\)/)
    expect(attempts).toBe(3)
    await expect(ask('http://127.0.0.1:9', { retries: 1 })).rejects.toThrow(/cannot be reached: .*after 2 attempts/)
  })

  it('does not try again what will not pass, and never shows the key', async () => {
    let attempts = 0
    const url = await serve((_, response) => {
      attempts++
      response.writeHead(401).end('who are you?')
    })
    const error = await ask(url, { apiKey: 'secret' }).catch((e: Error) => e.message)
    expect(error).toContain('answers 401: "who are you?"')
    expect(error).not.toContain('secret')
    expect(attempts).toBe(1)
  })

  it('gives up on a server that stays silent, talks without end, or says something else', async () => {
    const silent = await serve(() => {})
    await expect(ask(silent, { timeoutSeconds: 0.05, retries: 0 })).rejects.toThrow(/no answer within 0.05 s/)
    const endless = await serve((_, response) => {
      const more = (): void => void response.write('x'.repeat(2 ** 20), (error) => error ?? more())
      more()
    })
    await expect(ask(endless)).rejects.toThrow(/answers more than 16777216 bytes/)
    for (const text of ['hello', '{}', '{"choices": []}', '{"choices": [{"message": {"content": null}}]}']) {
      await expect(ask(await serve((_, response) => void response.end(text)))).rejects.toThrow(/something else than a chat completion/)
    }
    const moved = await serve((_, response) => void response.writeHead(302, { location: silent }).end())
    await expect(ask(moved, { retries: 0 })).rejects.toThrow(/cannot be reached/)
  })

  it('wants an http address', () => {
    for (const baseUrl of ['', 'localhost:8000', 'file:///etc', 'http://me:pass@host/v1']) {
      expect(() => chat({ baseUrl, model: 'm' })).toThrow(/^base URL: holds /)
    }
    expect(() => chat({ baseUrl: 'http://me:pass@host/v1', model: 'm' })).not.toThrow(/pass@/)
  })
})
