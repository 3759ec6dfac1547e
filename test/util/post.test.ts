import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { post } from '../../src/util/post.js'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

const serve = async (answer: (response: ServerResponse) => void): Promise<string> => {
  const server = createServer((_, response) => answer(response))
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

it('an answer that comes byte by byte is given up after the whole time, each attempt with a notice', async () => {
  const url = await serve((response) => {
    response.writeHead(200)
    const timer = setInterval(() => response.write('x'), 50)
    response.on('close', () => clearInterval(timer))
  })
  const notices: string[] = []
  const begun = performance.now()
  const posted = await post(url, {}, { timeoutSeconds: 0.4, retries: 1, pauseSeconds: 0.1, onNotice: (text) => notices.push(text) })
  expect(posted).toEqual({ error: 'no answer within 0.4 s (after 2 attempts)' })
  expect(performance.now() - begun).toBeLessThan(4000)
  expect(notices).toEqual([`${url}: attempt 1 of 2 failed: no answer within 0.4 s; next in 0.1 s`])
})

it('an attempt that fails is no notice where none follows, and no failure where the next one is answered', async () => {
  let asked = 0
  const url = await serve((response) => void response.writeHead(asked++ === 0 ? 503 : 200).end('later'))
  const notices: string[] = []
  expect(await post(url, {}, { pauseSeconds: 0.01, onNotice: (text) => notices.push(text) })).toEqual({ text: 'later' })
  expect(notices).toHaveLength(1)
})
