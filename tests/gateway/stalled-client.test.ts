import { expect, test } from 'bun:test'
import { createServer, type Server } from 'node:net'
import { inScene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { type RawClient, rawClient, requestHead, until } from '../transport/raw-server.ts'

/** Clients that keep their connection open and take nothing from it. */

const CHUNK = `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content: 'y'.repeat(1_000) } }] })}\n\n`
const BLOCK = CHUNK.repeat(64)

/** A provider that writes without an end, and a gateway over it. */
class Scene {
  cancelled = 0
  gateway!: GatewayProcess
  readonly #provider: Server

  constructor() {
    this.#provider = createServer((socket) => {
      const write = (): void => {
        while (socket.write(BLOCK)) continue
      }
      socket
        .on('drain', write)
        .on('error', () => {})
        .on('close', () => this.cancelled++)
        .once('data', () => {
          socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n')
          write()
        })
    })
  }

  async start(config: string): Promise<void> {
    await new Promise<void>((resolve) => this.#provider.listen(0, '127.0.0.1', resolve))
    const { port } = this.#provider.address() as { port: number }
    const up =
      'providers: { up: { protocol: chat.completions, ' +
      `baseUrl: "http://127.0.0.1:${port}/v1", unlisted: true, quirks: { stopsOnCancel: streams } } }\n`
    this.gateway = await startGatewayProcess({ config: config + up })
  }

  async end(): Promise<void> {
    await this.gateway?.stop()
    this.#provider.close()
  }
}

/** Both tests wait for limits of time, so they run at the same time. */
function stalledTest(name: string, config: string, run: (at: Scene) => Promise<void>): void {
  test.concurrent(
    name,
    inScene(
      () => new Scene(),
      (at) => at.start(config).then(() => run(at)),
    ),
    90_000,
  )
}

async function stalledClient({ url, key }: GatewayProcess): Promise<RawClient> {
  const client = await rawClient(Number(new URL(url).port))
  client.pause()
  const body = JSON.stringify({ model: 'up/m', stream: true, messages: [{ role: 'user', content: 'go on' }] })
  const headers = [`authorization: Bearer ${key}`, `content-length: ${body.length}`]
  client.write(requestHead('POST /v1/chat/completions', ...headers) + body)
  return client
}

stalledTest(
  'the stream of a client that takes nothing ends, is recorded, and is cancelled at the provider',
  'timeouts: { clientStalled: 1s }\nkeepAlive: 500ms\n',
  async (at) => {
    const client = await stalledClient(at.gateway)
    await until(() => at.cancelled === 1)
    await until(() => /up\/m .*client-left/.test(at.gateway.output().stderr))
    client.resume()
    await until(() => client.closed())
    expect(client.end()).not.toContain('[DONE]')
  },
)

stalledTest(
  'of many clients that take nothing, as many are kept as the memory suffices for',
  'limits: { memory: 16MiB }\n',
  async (at) => {
    const memoryUsed = async (): Promise<number> => {
      const metrics = await (await fetch(`${at.gateway.url}/metrics`)).text()
      return Number(/^sluice_request_memory_bytes (\S+)/m.exec(metrics)?.[1])
    }
    const clients = await Promise.all(Array.from({ length: 30 }, () => stalledClient(at.gateway)))
    // On a busy machine, looks at clients are late.
    while (at.cancelled < 9) await Bun.sleep(20)
    // All have taken nothing for as long, so others would be ended at the next look at them, a second later.
    await Bun.sleep(2_500)
    expect(at.cancelled).toBe(9)
    expect(await memoryUsed()).toBe(21 * 384 * 1024)
    for (const client of clients) client.close()
    while (at.cancelled < 30) await Bun.sleep(20)
    while ((await memoryUsed()) > 0) await Bun.sleep(10)
  },
)
