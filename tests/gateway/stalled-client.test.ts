import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:net'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { type RawClient, rawClient, requestHead, until } from '../transport/raw-server.ts'

/** Clients that keep their connection open and take nothing from it. */

const CHUNK = `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content: 'y'.repeat(1_000) } }] })}\n\n`
const BLOCK = CHUNK.repeat(64)

let provider: Server
let cancelled = 0
let gateway: GatewayProcess
/** With time for stalled clients, but memory for few of them. */
let small: GatewayProcess
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
  const up =
    'providers: { up: { protocol: chat.completions, ' +
    `baseUrl: "http://127.0.0.1:${port}/v1", unlisted: true, quirks: { stopsOnCancel: streams } } }\n`
  gateway = await startGatewayProcess({ config: `timeouts: { clientStalled: 1s }\nkeepAlive: 500ms\n${up}` })
  small = await startGatewayProcess({ config: `limits: { memory: 16MiB }\n${up}` })
})
afterAll(async () => {
  await gateway?.stop()
  await small?.stop()
  provider.close()
})

async function stalledClient({ url, key }: GatewayProcess): Promise<RawClient> {
  const client = await rawClient(Number(new URL(url).port))
  client.pause()
  const body = JSON.stringify({ model: 'up/m', stream: true, messages: [{ role: 'user', content: 'go on' }] })
  const headers = [`authorization: Bearer ${key}`, `content-length: ${body.length}`]
  client.write(requestHead('POST /v1/chat/completions', ...headers) + body)
  return client
}

test('the stream of a client that takes nothing ends, is recorded, and is cancelled at the provider', async () => {
  const client = await stalledClient(gateway)
  await until(() => cancelled === 1)
  await until(() => /up\/m .*client-left/.test(gateway.output().stderr))
  client.resume()
  await until(() => client.closed())
  expect(client.end()).not.toContain('[DONE]')
}, 30_000)

test('of many clients that take nothing, as many are kept as the memory suffices for', async () => {
  cancelled = 0
  const memoryUsed = async (): Promise<number> => {
    const metrics = await (await fetch(`${small.url}/metrics`)).text()
    return Number(/^sluice_request_memory_bytes (\S+)/m.exec(metrics)?.[1])
  }
  const clients = await Promise.all(Array.from({ length: 30 }, () => stalledClient(small)))
  // On a busy machine, looks at clients are late.
  while (cancelled < 9) await Bun.sleep(20)
  // Longer than after which others would be ended.
  await Bun.sleep(6_000)
  expect(cancelled).toBe(9)
  expect(await memoryUsed()).toBe(21 * 384 * 1024)
  for (const client of clients) client.close()
  while (cancelled < 30) await Bun.sleep(20)
  while ((await memoryUsed()) > 0) await Bun.sleep(10)
}, 60_000)
