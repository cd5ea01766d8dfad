import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { readFileSync } from 'node:fs'
import { MemoryGroup } from '../memory-group.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'

/** A server with 512 MB of memory under large bodies and responses: it lives, and serves others meanwhile. */

const MEMORY_MB = 512
const BODY_BYTES = 31_000_000
const RESPONSE_BYTES = 30_000_000
const MINUTES = 60_000
/** Between two requests of those who are served meanwhile: without it, they would take half of the processor. */
const PAUSE_MS = 100

const group = MemoryGroup.open(MEMORY_MB)
let upstream: ReturnType<typeof Bun.serve>
let gateway: GatewayProcess

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    // Responses wait with the provider for their turn.
    idleTimeout: 255,
    async fetch(request) {
      let length = 0
      for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) length += chunk.length
      const text = request.url.includes('/long/') ? 'a'.repeat(RESPONSE_BYTES) : `received ${length}`
      const message = { role: 'assistant', content: text }
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      return Response.json({
        id: 'theirs',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage,
      })
    },
  })
  const provider = (path: string): string =>
    `{ protocol: chat.completions, baseUrl: 'http://127.0.0.1:${upstream.port}/${path}', apiKey: x }`
  // Without a control group the limit of the server has to be set here, and only its memory is watched.
  const memory = group === undefined ? `, memory: ${MEMORY_MB / 4}MiB` : ''
  const limits = `limits: { requestsPerMinute: 1000000${memory} }\n`
  gateway = await startGatewayProcess({
    group,
    config: `providers:\n  plain: ${provider('v1')}\n  long: ${provider('long')}\n${limits}`,
  })
}, MINUTES)

afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
  group?.close()
}, MINUTES)

/** The most memory that the server ever had. */
function expectSmall(): void {
  if (process.platform !== 'linux') return
  const kilobytes = Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))![1])
  expect(kilobytes / 1024).toBeLessThan(MEMORY_MB)
}

type Ask = { path?: string; model: string; text: string }

const requestOf = ({ path = '/v1/chat/completions', model, text }: Ask): { head: string; body: Buffer } => {
  const body = Buffer.from(JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: text }] }))
  const lines = ['host: sluice', `authorization: Bearer ${gateway.key}`, `content-length: ${body.length}`, '', '']
  return { head: `POST ${path} HTTP/1.1\r\n${lines.join('\r\n')}`, body }
}

const longText = (): string => 'word '.repeat(BODY_BYTES / 5)

/**
 * A client that sends its request as fast as it is taken. `first`: the first bytes of the response, or how its
 * connection ended instead. Not all clients of a test are asked for it, so it never rejects.
 */
function client(head: string, body: Buffer): { socket: Socket; first: Promise<string> } {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => {
    socket.write(head)
    socket.write(body)
  })
  const first = new Promise<string>((resolve) => {
    let text = ''
    socket.on('data', (bytes) => {
      if (text.length < 12) text += bytes.toString('latin1', 0, 12)
      if (text.length >= 12) resolve(text)
    })
    socket.once('error', (error) => resolve(`${error.message} after ${socket.bytesWritten} bytes`))
    socket.once('close', () => resolve('closed'))
  })
  return { socket, first }
}

/** Others are served: a small request, and the question for life. */
async function expectServing(): Promise<void> {
  expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
  const { body } = requestOf({ model: 'plain/m', text: 'Hello' })
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: new Uint8Array(body),
  })
  expect(response.status).toBe(200)
  await response.text()
}

async function serveWhile(work: Promise<unknown>): Promise<void> {
  let isOver = false
  const over = work.then(() => (isOver = true))
  do {
    await expectServing()
    await Promise.race([over, Bun.sleep(PAUSE_MS)])
  } while (!isOver)
}

// So many need more memory than there is, if nothing limits them: the translated ones wait in several copies.
test.each([
  ['/v1/chat/completions', 'passed on', 10],
  ['/v1/messages', 'translated', 9],
])(
  'large bodies that come at once are served one after the other: %s, %s',
  async (path, _lane, count) => {
    const { head, body } = requestOf({ path, model: 'plain/m', text: longText() })
    const clients = Array.from({ length: count }, () => client(head, body))
    const answers = Promise.all(clients.map(({ first }) => first))
    await serveWhile(answers)
    for (const { socket } of clients) socket.destroy()
    // On a slow machine the last ones may wait too long.
    for (const answer of await answers) expect(answer).toMatch(/^HTTP\/1.1 (?:200|503|529)/)
    expect((await answers).filter((answer) => answer.startsWith('HTTP/1.1 200')).length).toBeGreaterThan(1)
    expectSmall()
  },
  3 * MINUTES,
)

test(
  'large bodies without their last byte take no more memory than there is',
  async () => {
    const { head, body } = requestOf({ model: 'plain/m', text: longText() })
    const clients = Array.from({ length: 20 }, () => client(head, body.subarray(0, -1)))
    // The first body has all but its last byte in the server; the others are left with their clients.
    const hasSent = ({ socket }: (typeof clients)[number]): boolean =>
      !socket.destroyed && socket.bytesWritten > 0 && socket.writableLength === 0
    while (!clients.some(hasSent)) {
      await expectServing()
      await Bun.sleep(PAUSE_MS)
    }
    for (let round = 0; round < 5; round++) await expectServing()
    for (const { socket } of clients) socket.destroy()
    expectSmall()
  },
  2 * MINUTES,
)

test(
  'large responses that come at once are served one after the other',
  async () => {
    const { head, body } = requestOf({ model: 'long/m', text: 'Hello' })
    const clients = Array.from({ length: 7 }, () => client(head, body))
    const answers = Promise.all(clients.map(({ first }) => first))
    await serveWhile(answers)
    for (const answer of await answers) expect(answer).toMatch(/^HTTP\/1.1 (?:200|503)/)
    for (const { socket } of clients) socket.destroy()
    expectSmall()
  },
  2 * MINUTES,
)

test(
  'an echo of a large body is refused',
  async () => {
    const { head, body } = requestOf({ model: 'sandbox/chat', text: `[[echo: body]] ${longText()}` })
    const clients = Array.from({ length: 3 }, () => client(head, body))
    const answers = Promise.all(clients.map(({ first }) => first))
    await serveWhile(answers)
    for (const answer of await answers) expect(answer).toMatch(/^HTTP\/1.1 400/)
    for (const { socket } of clients) socket.destroy()
    expectSmall()
  },
  2 * MINUTES,
)
