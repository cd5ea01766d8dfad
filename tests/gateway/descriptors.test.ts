import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { rawServer, requestHead, until, type RawServer } from '../transport/raw-server.ts'

/** A server with 256 descriptors under connections that send nothing or too slowly, and under requests that hang. */

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

// Requests of one test must not be in flight in the next one.
afterEach(async () => {
  endHold()
  if (process.platform === 'linux') await until(() => descriptors() < 125)
})

const descriptors = (): number => readdirSync(`/proc/${gateway.pid}/fd`).length

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

const startStream = (length: number): Promise<Response> =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({
      model: 'sandbox/chat',
      stream: true,
      messages: [{ role: 'user', content: `[[pace: 100ms]] [[length: ${length}]]` }],
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
  'requests without a key that follow one another are all answered',
  async () => {
    const statuses = new Set<number>()
    for (let n = 0; n < 300; n++) {
      const response = await fetch(`${gateway.url}/api/hello`, { method: 'HEAD' })
      statuses.add(response.status)
    }
    expect([...statuses]).toEqual([200])
  },
)

test.skipIf(process.platform !== 'linux')(
  'requests that hang are refused above what descriptors suffice for; all others go on',
  async () => {
    const stream = await startStream(60)
    // In the second round the descriptors of the first one are free again.
    for (let round = 0; round < 2; round++) {
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
    }
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)

test.skipIf(process.platform !== 'linux')(
  'questions for life and streams under way are answered although connections use up all descriptors',
  async () => {
    const stream = await startStream(120)
    for (let round = 0; round < 2; round++) {
      await openSilent(400)
      // The system hands connections without a request over after a second.
      while (descriptors() < 240) await Bun.sleep(5)
      await isAlive()
    }
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)

let endHold = (): void => {
  for (const socket of sockets.splice(0)) socket.destroy()
}

/** A shorter time costs more and fills no more descriptors: there are always more connections than these. */
const REOPENED_MS = 100

/**
 * Keeps so many connections open until the end of the test, each of which sends the head and then a byte every 300 ms.
 * One that the server closes is opened again.
 */
function hold(count: number, head: string, onAnswer: (answer: string) => void = () => {}): void {
  let isOver = false
  const open = (): void => {
    if (isOver) return
    const socket = connect(port(), '127.0.0.1', () => socket.write(head))
    const dripping = setInterval(() => socket.write('x'), 300)
    sockets.push(socket)
    socket.on('error', () => {}).once('data', (bytes) => onAnswer(String(bytes)))
    socket.on('close', () => {
      clearInterval(dripping)
      setTimeout(open, REOPENED_MS)
    })
  }
  for (let n = 0; n < count; n++) open()
  endHold = () => {
    isOver = true
    for (const socket of sockets.splice(0)) socket.destroy()
  }
}

const start = (line: string, ...headers: string[]): string => requestHead(line, 'content-length: 2000', ...headers)

const consoleHeaders = (): string[] => [
  `host: ${new URL(gateway.url).host}`,
  `origin: ${gateway.url}`,
  'x-sluice-console: 1',
  'content-type: application/json',
]

const FORM = 'content-type: multipart/form-data; boundary=b'
const FORM_BEGINNING = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'

const HOLDERS: [name: string, head: () => string][] = [
  ['connections whose heads do not end', () => 'GET /livez HTTP/1.1\r\nhost: x\r\nx: '],
  ['bodies of requests that were refused', () => start('POST /v1/chat/completions')],
  ['bodies of sign-ins', () => start('POST /v1/management/session', ...consoleHeaders()).replace('host: x\r\n', '')],
  [
    'bodies of requests to the management API',
    () =>
      start(
        'POST /v1/management/keys',
        `authorization: Bearer ${gateway.createdKeys.management}`,
        'content-type: application/json',
      ),
  ],
  ['uploads', () => start('POST /v1/files', `authorization: Bearer ${gateway.key}`, FORM) + FORM_BEGINNING],
]

test.skipIf(process.platform !== 'linux').each(HOLDERS)(
  '%s use up all descriptors, and questions for life and streams under way are answered',
  async (_name, head) => {
    const stream = await startStream(50)
    hold(400, head())
    for (let round = 0; round < 3; round++) {
      await Bun.sleep(300)
      await isAlive()
    }
    // Without free descriptors the server asks the system for connections all the time, which takes a processor.
    endHold()
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)

test.skipIf(process.platform !== 'linux')(
  'requests with a key are served beside as many slow sign-ins as a client can open',
  async () => {
    const answers: string[] = []
    const head = start('POST /v1/management/session', ...consoleHeaders()).replace('host: x\r\n', '')
    hold(120, head, (answer) => answers.push(answer))
    await until(() => answers.some((answer) => answer.startsWith('HTTP/1.1 503')))
    const stream = await startStream(20)
    expect(answers.some((answer) => answer.startsWith('HTTP/1.1 408'))).toBe(false)
    expect(stream.status).toBe(200)
    expect(await stream.text()).toContain('[DONE]')
  },
  60_000,
)
