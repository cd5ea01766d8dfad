import { expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { inScene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'

/** A server that allows 20 connections per address, except from 127.0.0.3. */

const LIMIT = 20

type Client = { socket: Socket; received: string; closed: boolean }

class Scene {
  gateway!: GatewayProcess
  readonly #sockets: Socket[] = []

  async start(): Promise<void> {
    const config = `limits: { connectionsPerAddress: ${LIMIT} }\nlisten: { proxies: [127.0.0.3] }\n`
    this.gateway = await startGatewayProcess({ config })
  }

  async open(localAddress: string): Promise<Client> {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(this.gateway.url).port), localAddress })
    const client: Client = { socket, received: '', closed: false }
    this.#sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => void (client.received += bytes))
    socket.on('close', () => void (client.closed = true))
    await new Promise((resolve) => socket.once('connect', resolve))
    return client
  }

  openMany(count: number, address: string): Promise<Client[]> {
    return Promise.all(Array.from({ length: count }, () => this.open(address)))
  }

  async openStream(address: string, length: number): Promise<Client> {
    const body = JSON.stringify({
      model: 'sandbox/chat',
      stream: true,
      messages: [{ role: 'user', content: `[[pace: 100ms]] [[length: ${length}]]` }],
    })
    const client = await this.open(address)
    client.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${this.gateway.key}\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    )
    await until(() => client.received.includes('data: '))
    return client
  }

  async end(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await this.gateway?.stop()
  }
}

const closedOf = (clients: Client[]): number => clients.filter(({ closed }) => closed).length

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: sluice\r\n\r\n`

/** Looks at connections are a second apart, and streams are waited for: both tests run at the same time. */
function connectionTest(name: string, run: (at: Scene) => Promise<void>): void {
  test.concurrent.skipIf(process.platform !== 'linux')(
    name,
    inScene(
      () => new Scene(),
      (at) => at.start().then(() => run(at)),
    ),
    90_000,
  )
}

connectionTest(
  'the surplus of one address is closed, silent connections first, and requests under way for longer go on',
  async (at) => {
    const stream = await at.openStream('127.0.0.2', 100)
    const proxied = await at.openMany(3 * LIMIT, '127.0.0.3')
    const other = await at.openMany(LIMIT, '127.0.0.4')
    const asking = await at.openMany(5, '127.0.0.2')
    for (const { socket } of asking) socket.write('GET /livez HTTP/1.1\r\nhost: slu')
    const silent = await at.openMany(2 * LIMIT, '127.0.0.2')
    await until(() => closedOf(silent) === 2 * LIMIT - (LIMIT - 1 - asking.length))
    expect([stream, ...asking, ...proxied, ...other].filter(({ closed }) => closed)).toHaveLength(0)
    for (const { socket } of asking) socket.write('ice\r\n\r\n')
    await until(() => asking.every(({ received }) => received.startsWith('HTTP/1.1 200')))
    await until(() => stream.received.includes('[DONE]'))
    expect(at.gateway.output().stderr).toContain('connections of 127.0.0.2, which had more than')
  },
)

connectionTest('connections that have sent a request are bounded, too, and the newest are closed', async (at) => {
  const stream = await at.openStream('127.0.0.5', 100)
  const asking = await at.openMany(2 * LIMIT, '127.0.0.5')
  for (const { socket } of asking) socket.write(get('/livez'))
  await until(() => closedOf(asking) === LIMIT + 1)
  expect(stream.closed).toBe(false)
  await until(() => stream.received.includes('[DONE]'))
  const [next] = await at.openMany(1, '127.0.0.6')
  next!.socket.write(get('/livez'))
  await until(() => next!.received.startsWith('HTTP/1.1 200'))
})
