import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { rawServer, requestHead, until, type RawServer } from '../transport/raw-server.ts'

/** A server with 256 descriptors under connections that send nothing, and under requests that hang. */

let gateway: GatewayProcess
let provider: RawServer
const sockets: Socket[] = []
beforeAll(async () => {
  const group = { command: ['sh', '-c', 'ulimit -n 256 && exec "$@"', 'sh'] }
  provider = rawServer(() => {})
  const config =
    `providers: { up: { protocol: chat.completions, baseUrl: "${provider.url}/v1", unlisted: true } }\n` +
    'limits: { requestsPerMinute: 100000 }\ntimeouts: { clientLeft: 0s }\n'
  gateway = await startGatewayProcess({ group, config })
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await gateway?.stop()
  provider.stop()
})

const port = (): number => Number(new URL(gateway.url).port)

async function openSilent(count: number): Promise<void> {
  const opened = Array.from({ length: count }, () => {
    const socket = connect(port(), '127.0.0.1')
    sockets.push(socket)
    return new Promise((resolve) => socket.once('connect', resolve).on('error', resolve))
  })
  await Promise.all(opened)
}

const isAlive = async (): Promise<void> => {
  // The runtime closes connections without a request after twelve seconds.
  const signal = AbortSignal.timeout(7_000)
  expect((await fetch(`${gateway.url}/livez`, { signal, headers: { connection: 'close' } })).status).toBe(200)
}

const startStream = (): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({
      model: 'sandbox/chat',
      stream: true,
      messages: [{ role: 'user', content: '[[pace: 100ms]] [[length: 200]]' }],
    }),
  })

/** Sends requests that get no answer from their provider; the beginnings of the answers of Sluice. */
function openHanging(count: number): string[] {
  const body = JSON.stringify({ model: 'up/m', messages: [{ role: 'user', content: 'hi' }] })
  const head = [`authorization: Bearer ${gateway.key}`, `content-length: ${body.length}`]
  const request = requestHead('POST /v1/chat/completions', ...head) + body
  const answers: string[] = []
  for (let n = 0; n < count; n++) {
    const socket = connect(port(), '127.0.0.1', () => socket.write(request))
    sockets.push(socket)
    socket.once('data', (bytes) => answers.push(String(bytes))).on('error', () => {})
  }
  return answers
}

test.skipIf(process.platform !== 'linux')(
  'requests that hang are refused above what descriptors suffice for; all others go on',
  async () => {
    const stream = await startStream()
    const answers = openHanging(300)
    await until(() => answers.length + provider.open === 300)
    await isAlive()
    expect(provider.open).toBeGreaterThan(60)
    expect(new Set(answers.map((answer) => answer.split('\r\n')[0]))).toEqual(
      new Set(['HTTP/1.1 503 Service Unavailable']),
    )
    for (const answer of answers) expect(answer).toMatch(/retry-after: 1\r\n/i)
    for (const socket of sockets.splice(0)) socket.destroy()
    await until(() => provider.open === 0)
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)

test.skipIf(process.platform !== 'linux')(
  'questions for life and streams under way are answered although connections use up all descriptors',
  async () => {
    const stream = await startStream()
    for (let round = 0; round < 2; round++) {
      await openSilent(400)
      // The system hands connections without a request over after a second.
      while (readdirSync(`/proc/${gateway.pid}/fd`).length < 240) await Bun.sleep(5)
      await isAlive()
    }
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)
