import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:net'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { rawClient, requestHead, until } from '../transport/raw-server.ts'

/** A client that keeps its connection open and takes nothing from it. */

const CHUNK = `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content: 'y'.repeat(1_000) } }] })}\n\n`
const BLOCK = CHUNK.repeat(64)

let provider: Server
let cancelled = 0
let gateway: GatewayProcess
beforeAll(async () => {
  provider = createServer((socket) => {
    const write = (): void => {
      while (socket.write(BLOCK)) continue
    }
    socket
      .on('drain', write)
      .on('error', () => {})
      .on('close', () => cancelled++)
      .once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n')
        write()
      })
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const { port } = provider.address() as { port: number }
  gateway = await startGatewayProcess({
    config:
      'timeouts: { clientStalled: 1s }\nkeepAlive: 500ms\nproviders: { up: { protocol: chat.completions, ' +
      `baseUrl: "http://127.0.0.1:${port}/v1", unlisted: true, quirks: { stopsOnCancel: streams } } }\n`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  provider.close()
})

test('the stream of a client that takes nothing ends, is recorded, and is cancelled at the provider', async () => {
  const client = await rawClient(Number(new URL(gateway.url).port))
  client.pause()
  const body = JSON.stringify({ model: 'up/m', stream: true, messages: [{ role: 'user', content: 'go on' }] })
  const headers = [`authorization: Bearer ${gateway.key}`, `content-length: ${body.length}`]
  client.write(requestHead('POST /v1/chat/completions', ...headers) + body)
  await until(() => cancelled === 1)
  await until(() => /up\/m .*client-left/.test(gateway.output().stderr))
  client.resume()
  await until(() => client.closed())
  expect(client.end()).not.toContain('[DONE]')
}, 30_000)
