import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import fc from 'fast-check'
import { startGateway, type Gateway } from '../server.ts'
import { requestHead } from '../transport/raw-server.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: 'providers: { acme: { protocol: messages, baseUrl: "http://127.0.0.1:9/v1", unlisted: true } }',
  })
})
afterAll(() => gateway.stop())

/** Sends a path byte for byte, since clients resolve and encode paths. */
const ask = (path: string, method = 'GET'): Promise<{ status: number; body: string }> =>
  new Promise((resolve) => {
    const { port, hostname } = new URL(gateway.url)
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        requestHead(
          `${method} ${path}`,
          `authorization: Bearer ${gateway.key}`,
          'content-length: 0',
          'connection: close',
        ),
      ),
    )
    let received = ''
    socket.on('data', (bytes) => {
      received += bytes.toString()
    })
    socket.on('error', () => {})
    socket.on('close', () =>
      resolve({
        status: Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1] ?? 0),
        body: received.slice(received.indexOf('\r\n\r\n') + 4),
      }),
    )
  })

/** Path prefixes that are followed by a model name. */
const BELOW = [
  '/v1/models/',
  '/v1beta/models/',
  '/v1beta1/publishers/sandbox/models/',
  '/v1/publishers/sandbox/models/',
  '/v1/projects/p/locations/l/publishers/sandbox/models/',
]

describe.each(BELOW)('paths below %s', (prefix) => {
  const NAMES = [
    '%2e%2e/',
    '%2e%2e%2f',
    '..%2f..%2fetc%2fpasswd',
    '%2F',
    '%2f%2f',
    '%00',
    'chat%00',
    'chat%0d%0ax:%20y',
    '%252e%252e%252f',
    '%252F',
    'chat/',
    'sandbox/chat/',
    '%20',
    'chat%20',
    '%',
    '%zz',
    '%c0%ae',
    '%ff',
    '%F0%9F%92%A9',
    'a'.repeat(8000),
    `${'a/'.repeat(3000)}a`,
    '%41'.repeat(2000),
    '__proto__',
    'constructor',
    'toString',
    'chat;a=b',
    'chat%3Fx',
    'chat%23x',
    '*',
    '.',
    '.%2e',
    'chat\\x',
    'chat%5cx',
    '~',
    '%D1%81hat',
  ]
  test.each(NAMES)('the path %s is refused with 400 or 404 and a message', async (name) => {
    const { status, body } = await ask(prefix + name)
    expect({ name: name.slice(0, 40), known: [400, 404].includes(status), status }).toEqual({
      name: name.slice(0, 40),
      known: true,
      status,
    })
    const { error } = JSON.parse(body) as { error: { message: string } }
    expect(error.message.length).toBeLessThan(1000)
  })
})

test('the slashes of a model name may be raw or encoded once, all or some of them', async () => {
  for (const name of ['acme/a/b', 'acme%2Fa%2Fb', 'acme%2fa/b', 'acme/a%2Fb', '%61cme/a/b']) {
    const { status, body } = await ask(`/v1/models/${name}`)
    expect([status, (JSON.parse(body) as { id: string }).id]).toEqual([200, 'acme/a/b'])
  }
  expect((await ask('/v1/models/acme%252Fa')).status).toBe(400)
})

test('resources below a model are distinguished by their method', async () => {
  expect((await ask('/v1/models/sandbox/chat', 'DELETE')).status).toBe(405)
  expect((await ask('/v1/models/sandbox/chat', 'PUT')).status).toBe(405)
  for (const path of BELOW.slice(1)) expect((await ask(`${path}gemini:generateContent`)).status).toBe(405)
  expect((await ask('/v1/models/sandbox/chat/predictions')).status).toBe(404)
})

test('no model name causes an internal error', async () => {
  const name = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.stringMatching(/^[%.\/:a-f0-9~]{1,60}$/),
    fc.constantFrom('acme/', 'sandbox/').chain((start) => fc.string({ maxLength: 40 }).map((rest) => start + rest)),
  )
  await fc.assert(
    fc.asyncProperty(name, fc.constantFrom(...BELOW), fc.boolean(), async (text, prefix, encoded) => {
      const path = prefix + (encoded ? encodeURIComponent(text.toWellFormed()) : text.replace(/[^\x21-\x7e]|#/g, '_'))
      const { status } = await ask(path)
      expect([200, 400, 404]).toContain(status)
    }),
    { numRuns: 150 },
  )
  expect((await ask('/v1/models')).status).toBe(200)
})
