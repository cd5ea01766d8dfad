import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import type { Loss } from '../../src/protocols/translation.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Checks before any provider is called: keys, limits, paths and bodies, with errors in the format of each protocol. */

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `
limits: { requestsPerMinute: 5, body: 64KiB }
keys: [{ key: ${HIGH_LIMIT_KEY}, requestsPerMinute: 100000 }]
`,
  })
})
afterAll(() => gateway?.stop())

const HIGH_LIMIT_KEY = 'sk-ai-v1-plentyplentyplenty1'
const CHAT = { model: 'sandbox/chat', messages: [{ role: 'user', content: 'Hello' }] }

const call = (
  path: string,
  options: { method?: string; key?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<Response> =>
  fetch(gateway.url + path, {
    method: options.method ?? 'POST',
    headers: { authorization: `Bearer ${options.key ?? HIGH_LIMIT_KEY}`, ...options.headers },
    ...(options.body === undefined
      ? {}
      : { body: typeof options.body === 'string' ? options.body : JSON.stringify(options.body) }),
  })

type Failure = { error: { message: string; type: string; param: string | null; code: string; status: string } }
const failure = async (response: Response): Promise<Failure['error']> => ((await response.json()) as Failure).error

/** Sends these bytes. Returns what was received until the server closed the connection. */
const raw = (text: string): Promise<string> =>
  new Promise((resolve) => {
    const { port, hostname } = new URL(gateway.url)
    const socket = connect(Number(port), hostname, () => socket.write(text))
    let received = ''
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.end()
    })
    socket.on('close', () => resolve(received))
    socket.on('error', () => resolve(received))
  })

describe('keys', () => {
  test('every protocol refuses a missing or wrong key in its own error format', async () => {
    const bodies = [
      await call('/v1/chat/completions', { key: 'wrong', body: CHAT }),
      await call('/v1/responses', { key: 'wrong', body: {} }),
      await call('/v1/messages', { key: 'wrong', body: {} }),
      await call('/v1beta/models/sandbox/gemini:generateContent', { key: 'wrong', body: {} }),
    ]
    expect(bodies.map(({ status }) => status)).toEqual([401, 401, 401, 401])
    expect((await failure(bodies[0]!)).code).toBe('invalid_api_key')
    expect((await failure(bodies[1]!)).code).toBe('invalid_api_key')
    expect((await failure(bodies[2]!)).type).toBe('authentication_error')
    expect((await failure(bodies[3]!)).status).toBe('UNAUTHENTICATED')
  })

  test('a key is accepted in each of three headers and not in the query', async () => {
    for (const [name, value] of [
      ['x-api-key', HIGH_LIMIT_KEY],
      ['x-goog-api-key', HIGH_LIMIT_KEY],
      ['authorization', `bearer ${HIGH_LIMIT_KEY}`],
    ] as const) {
      expect((await fetch(`${gateway.url}/v1/models`, { headers: { [name]: value } })).status).toBe(200)
    }
    expect((await fetch(`${gateway.url}/v1/models?key=${HIGH_LIMIT_KEY}`)).status).toBe(401)
  })

  test('a management key is refused for inference with 403', async () => {
    const response = await call('/v1/chat/completions', { key: gateway.createdKeys.management!, body: CHAT })
    expect(response.status).toBe(403)
    expect((await failure(response)).code).toBe('permission_denied')
  })
})

describe('the per-minute limit', () => {
  test('a request over the limit of an endpoint is refused with a time to wait and is not counted', async () => {
    const statuses = []
    for (let n = 0; n < 7; n++)
      statuses.push((await call('/v1/chat/completions', { key: gateway.key, body: CHAT })).status)
    expect(statuses).toEqual([200, 200, 200, 200, 200, 422, 422])
    const refused = await call('/v1/chat/completions', { key: gateway.key, body: CHAT })
    expect(refused.headers.get('x-should-retry')).toBe('true')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await failure(refused)).code).toBe('rate_limit_exceeded')
    expect((await call('/relay/v1/chat/completions', { key: gateway.key, body: CHAT })).status).toBe(200)
    expect((await call('/v1/models', { method: 'GET', key: gateway.key })).status).toBe(200)
  })
})

describe('paths', () => {
  test('every spelling of a Google method path reaches the model', async () => {
    const body = { contents: [{ parts: [{ text: 'Hello' }] }] }
    for (const path of [
      '/v1/publishers/sandbox/models/gemini',
      '/v1beta1/publishers/sandbox/models/gemini',
      '/v1/projects/p/locations/l/publishers/sandbox/models/gemini',
      '/v1beta/models/sandbox/gemini',
      '/v1/models/sandbox/gemini',
      '/v1/models/sandbox%2Fgemini',
      '/v1/sandbox/gemini',
    ]) {
      const response = await call(`${path}:generateContent`, { body })
      expect([path, response.status]).toEqual([path, 200])
      expect(((await response.json()) as { responseId: string }).responseId).toBe(
        response.headers.get('x-generation-id')!,
      )
    }
  })

  test('an unknown path is refused with 404, another method with 405', async () => {
    expect((await call('/v1/nothing', { method: 'GET' })).status).toBe(404)
    expect((await call('/v1/chat/completions', { method: 'GET' })).status).toBe(405)
    for (const path of ['/V1/models', '/v1/models/../x', '/v1/chat%2fcompletions', '/v1/%00', '/v1/responses/%ff']) {
      expect((await call(path, { method: 'GET' })).status, path).toBe(404)
    }
  })

  test('an invalid Host header is refused before routing', async () => {
    for (const host of ['x/#@y', 'a b', 'user@host', 'host:99x']) {
      expect(await raw(`GET /livez HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400/)
    }
  })

  test('health, preconnect and WebSocket probes are answered', async () => {
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
    expect((await fetch(`${gateway.url}/api/hello`, { method: 'HEAD' })).status).toBe(200)
    expect(
      (await call('/v1/responses', { method: 'GET', headers: { upgrade: 'websocket', connection: 'upgrade' } })).status,
    ).toBe(426)
    // Proxies may drop the headers of an upgrade; on another status, a client would try again and again.
    expect((await call('/v1/responses', { method: 'GET' })).status).toBe(426)
  })

  test('HEAD gets the status and the headers of GET, without its body', async () => {
    for (const path of ['/livez', '/readyz', '/openapi.json', '/v1/models', '/v1/models/sandbox/chat', '/v1/files']) {
      const [got, head] = await Promise.all(['GET', 'HEAD'].map((method) => call(path, { method })))
      const bytes = (await got!.bytes()).length
      expect([path, head!.status, await head!.text()]).toEqual([path, got!.status, ''])
      expect([path, head!.headers.get('content-length')]).toEqual([path, String(bytes)])
    }
    const { status, headers } = await call('/v1/models/sandbox/none', { method: 'HEAD' })
    expect([status, headers.get('content-type')]).toEqual([404, 'application/json'])
  })

  test('HEAD of a prediction that is streamed is answered at once, and ends nothing', async () => {
    const input = { prompt: 'a', hang: true }
    const created = await call('/v1/predictions', { body: JSON.stringify({ model: 'sandbox/prediction', input }) })
    const { id, urls } = (await created.json()) as { id: string; urls: { stream: string } }
    const head = await raw(`HEAD ${new URL(urls.stream).pathname} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    expect(head).toStartWith('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream')
    expect(head).toEndWith('\r\n\r\n')
    const { status } = (await (await call(`/v1/predictions/${id}`, { method: 'GET' })).json()) as { status: string }
    expect(['starting', 'processing']).toContain(status)
    await call(`/v1/predictions/${id}/cancel`, {})
  })

  test('a model is found with a raw or encoded slash, and the list is served in three formats', async () => {
    for (const id of ['sandbox/chat', 'sandbox%2Fchat'])
      expect(await (await call(`/v1/models/${id}`, { method: 'GET' })).json()).toMatchObject({
        id: 'sandbox/chat',
        object: 'model',
      })
    expect((await call('/v1/models/sandbox/none', { method: 'GET' })).status).toBe(404)
    expect(await (await call('/v1/models', { method: 'GET' })).json()).toMatchObject({
      object: 'list',
      has_more: false,
    })
    expect(
      await (await call('/v1/models', { method: 'GET', headers: { 'anthropic-version': '2023-06-01' } })).json(),
    ).toMatchObject({ has_more: false, first_id: 'sandbox/chat' })
    expect(await (await call('/v1beta/models', { method: 'GET' })).json()).toHaveProperty('models')
  })
})

describe('bodies', () => {
  test('a body that is not a JSON object is refused with 400', async () => {
    for (const body of [
      '',
      '{',
      '[]',
      '"text"',
      'null',
      '{"model":"a","model":"b"}',
      '['.repeat(100_000),
      '{"a":'.repeat(100_000),
      '\u0000',
    ]) {
      const response = await call('/v1/chat/completions', { body })
      expect([body.slice(0, 20), response.status]).toEqual([body.slice(0, 20), body.length > 65_536 ? 413 : 400])
      expect((await failure(response)).message).not.toBe('')
    }
  })

  test('deeply nested brackets are refused before they are parsed', async () => {
    const { error } = (await (await call('/v1/chat/completions', { body: '['.repeat(60_000) })).json()) as Failure
    expect(error.message).toContain('64 levels')
  })

  test('a header that cannot be forwarded is refused with 400', async () => {
    const response = await call('/v1/messages', {
      body: { model: 'sandbox/messages', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] },
      headers: { 'anthropic-beta': 'caf\u00e9' },
    })
    expect(response.status).toBe(400)
    expect((await failure(response)).message).toContain('anthropic-beta')
  })

  test('a body over the limit is refused with 413, declared or chunked, and the connection stays usable', async () => {
    const big = JSON.stringify({ ...CHAT, user: 'x'.repeat(70_000) })
    expect((await call('/v1/chat/completions', { body: big })).status).toBe(413)
    const chunked = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode(big))
        controller.close()
      },
    })
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': HIGH_LIMIT_KEY },
      body: chunked,
      duplex: 'half',
    } as RequestInit)
    expect([response.status, (await failure(response)).type]).toEqual([413, 'request_too_large'])
  })

  test('a compressed body is refused with 415', async () => {
    expect((await call('/v1/chat/completions', { body: CHAT, headers: { 'content-encoding': 'gzip' } })).status).toBe(
      415,
    )
  })

  test('names of Object.prototype members are treated as unknown names', async () => {
    for (const model of ['__proto__', 'constructor', 'toString/x', '__proto__/x']) {
      const response = await call('/v1/chat/completions', { body: { ...CHAT, model } })
      expect([model, response.status]).toEqual([model, 404])
    }
    expect(
      (
        await call('/v1/chat/completions', {
          body:
            '{"model":"sandbox/chat","messages":[{"role":"user","content":"Hello"}],' +
            '"__proto__":{"stream":true},"metadata":{"__proto__":"x"}}',
        })
      ).status,
    ).toBe(200)
  })
})

describe('responses', () => {
  test('responses name their generation, request and provider in headers', async () => {
    const response = await call('/v1/messages', {
      body: { model: 'sandbox/chat', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] },
    })
    const { id, model } = (await response.json()) as { id: string; model: string }
    expect(model).toBe('sandbox/chat')
    expect(id).toStartWith('msg_')
    expect(response.headers.get('x-generation-id')).toBe(id)
    expect(response.headers.get('request-id')).toBe(response.headers.get('x-request-id')!)
    expect(response.headers.get('x-sluice-provider')).toBe('sandbox')
    expect(response.headers.get('x-sluice-attempts')).toBe('1')
  })

  test('a translation report is cut to a header size that clients accept', async () => {
    const fields = Object.fromEntries([
      ['x'.repeat(30_000), 1],
      ...Array.from({ length: 300 }, (_, n) => [`field\u00e9${n}`, n]),
    ])
    const response = await call('/v1/messages', {
      body: { model: 'sandbox/chat', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }], ...fields },
    })
    const header = response.headers.get('x-sluice-translation')!
    expect(header.length).toBeLessThan(4_100)
    const losses = JSON.parse(header) as Loss[]
    expect(losses.map(({ path }) => path).slice(0, 2)).toEqual(['x'.repeat(200), 'field\u00e90'])
  })

  test('an unknown model is refused with 404 and the nearest names', async () => {
    const response = await call('/v1/chat/completions', { body: { ...CHAT, model: 'sandbox/chatt' } })
    expect(response.status).toBe(404)
    expect((await failure(response)).message).toContain('sandbox/chat')
  })
})
