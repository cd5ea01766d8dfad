import { afterEach, describe, expect, test } from 'bun:test'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { once } from '../stores.ts'
import { requestHead } from '../transport/raw-server.ts'

/**
 * Clients that leave, servers that stop, and providers that fail before or after their first byte.
 */

const cleanUp: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step()
})

type Upstream = { url: string; calls: number; aborted: Promise<number> }

/** A provider that sends one chunk every 20 ms until its call is aborted. `aborted`: that time. */
function endless(): Upstream {
  const { promise: aborted, resolve } = Promise.withResolvers<number>()
  const upstream: Upstream = { url: '', calls: 0, aborted }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: (request) => {
      upstream.calls++
      request.signal.addEventListener('abort', () => resolve(performance.now()))
      const body = new ReadableStream({
        async pull(controller) {
          await Bun.sleep(20)
          controller.enqueue(chunkFrame('word '))
        },
        cancel: () => resolve(performance.now()),
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  cleanUp.push(() => server.stop(true))
  upstream.url = `http://127.0.0.1:${server.port}/v1`
  return upstream
}

const provider = (id: string, url: string, protocol = 'chat.completions'): string =>
  `  ${id}: { protocol: ${protocol}, baseUrl: "${url}", unlisted: true }\n`

async function gatewayWith(config: string): Promise<GatewayProcess> {
  const gateway = await startGatewayProcess({ config })
  cleanUp.push(() => gateway.stop())
  return gateway
}

const PATHS = { 'chat.completions': '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' }

const ask = (
  gateway: GatewayProcess,
  protocol: keyof typeof PATHS,
  options: { stream?: boolean; model?: string; signal?: AbortSignal } = {},
): Promise<Response> => {
  const { stream = true, model = 'up/m', signal } = options
  const content =
    protocol === 'responses'
      ? { input: 'Hello', store: false }
      : { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }
  return fetch(gateway.url + PATHS[protocol], {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model, stream, ...content }),
    ...(signal === undefined ? {} : { signal }),
  })
}

describe('a client that leaves', () => {
  const cancelled = 'timeouts: { clientLeft: 0s }\n'

  for (const protocol of ['chat.completions', 'messages'] as const) {
    once(`a client that leaves ends the provider's stream at once (${protocol})`, async () => {
      const upstream = endless()
      const gateway = await gatewayWith(`${cancelled}providers:\n${provider('up', upstream.url)}`)
      const leave = new AbortController()
      const response = await ask(gateway, protocol, { signal: leave.signal })
      await response.body!.getReader().read()
      const left = performance.now()
      leave.abort()
      // A busy machine needs a moment for it; nothing else would end the stream as soon.
      expect((await upstream.aborted) - left).toBeLessThan(2_000)
    })
  }

  once('a client that leaves before the first byte ends the provider call', async () => {
    const { promise: aborted, resolve } = Promise.withResolvers<void>()
    const { promise: called, resolve: call } = Promise.withResolvers<void>()
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: (request) => {
        call()
        request.signal.addEventListener('abort', () => resolve())
        return new Promise<Response>(() => {})
      },
    })
    cleanUp.push(() => server.stop(true))
    const gateway = await gatewayWith(`${cancelled}providers:\n${provider('up', `http://127.0.0.1:${server.port}/v1`)}`)
    const leave = new AbortController()
    const response = ask(gateway, 'messages', { stream: false, signal: leave.signal }).catch(() => undefined)
    await called
    leave.abort()
    await aborted
    await response
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200)
  })
})

describe('a server that stops', () => {
  test('a server that stops lets a stream finish, then exits with 0', async () => {
    const gateway = await gatewayWith('{}\n')
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: JSON.stringify({
        model: 'sandbox/chat',
        stream: true,
        messages: [{ role: 'user', content: '[[reply: one two three four five six]] [[chunk: 1]] [[pace: 60ms]]' }],
      }),
    })
    gateway.kill('SIGTERM')
    const text = await response.text()
    expect(text).toContain('six')
    expect(text).toEndWith('data: [DONE]\n\n')
    expect(await gateway.exited).toBe(0)
  })

  test('a server that stops answers a request whose body arrived too late', async () => {
    const upstream = endless()
    const gateway = await gatewayWith(`timeouts: { drain: 200ms }\nproviders:\n${provider('up', upstream.url)}`)
    const { hostname, port } = new URL(gateway.url)
    const body = JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: 'x' }] })
    const streaming = await ask(gateway, 'chat.completions')
    const head = chatHead(gateway.key, body) + body.slice(0, 10)
    const answer = rawExchange(hostname, Number(port), head, async (write) => {
      // The head was received before this is answered.
      await fetch(`${gateway.url}/readyz`)
      gateway.kill('SIGTERM')
      // It is cut at the end of the drain.
      await streaming.text()
      write(body.slice(10))
    })
    expect(await answer).toMatch(/^HTTP\/1\.1 503 [^]*"overloaded"/)
    expect(await gateway.exited).toBe(0)
  })

  test('a server that stops answers requests that wait for a place, of which none was made', async () => {
    const upstream = endless()
    const config = `timeouts: { drain: 300ms }\nlimits: { concurrency: 1 }\nproviders:\n${provider('up', upstream.url)}`
    const gateway = await gatewayWith(config)
    const streaming = await ask(gateway, 'chat.completions')
    const waiting = Array.from({ length: 4 }, () => ask(gateway, 'chat.completions'))
    const waitingNow = async (): Promise<string> => (await fetch(`${gateway.url}/metrics`)).text()
    while (!/^sluice_requests_waiting 4$/m.test(await waitingNow())) await Bun.sleep(5)
    gateway.kill('SIGTERM')
    await streaming.text()
    for (const response of await Promise.all(waiting))
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1'])
    expect([await gateway.exited, upstream.calls]).toEqual([0, 1])
  }, 60_000)

  test("a server that stops ends streams that outlast the drain with the protocol's own error", async () => {
    const upstream = endless()
    const gateway = await gatewayWith(`timeouts: { drain: 200ms }\nproviders:\n${provider('up', upstream.url)}`)
    const [chat, messages, responses] = await Promise.all([
      ask(gateway, 'chat.completions'),
      ask(gateway, 'messages'),
      ask(gateway, 'responses'),
    ])
    gateway.kill('SIGTERM')
    const [chatText, messagesText, responsesText] = await Promise.all([chat.text(), messages.text(), responses.text()])
    expect(chatText).toContain('"finish_reason":"error"')
    expect(chatText).not.toContain('[DONE]')
    expect(messagesText).toContain('event: error')
    expect(messagesText).not.toContain('message_stop')
    expect(responsesText).toMatch(/event: error[\s\S]*event: response\.failed/)
    expect(await gateway.exited).toBe(0)
  })
})

/** A provider that responds to every call with this status, or breaks the connection. */
function failing(status: number): { url: string; calls: () => number } {
  let calls = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      calls++
      return Response.json({ error: { message: 'no', type: 'server_error', code: null, param: null } }, { status })
    },
  })
  cleanUp.push(() => server.stop(true))
  return { url: `http://127.0.0.1:${server.port}/v1`, calls: () => calls }
}

/** A frame of Chat Completions with this text. */
const chunkFrame = (content: string): string => {
  const choices = [{ index: 0, delta: { content }, finish_reason: null }]
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices })}\n\n`
}

const model = (endpoints: string[]): string =>
  `models:\n  pool/m: { endpoints: [${endpoints.map((id) => `{ provider: ${id}, model: m }`).join(', ')}] }\n`

describe('several endpoints', () => {
  once('the next endpoint is tried after a failure before the first byte', async () => {
    const bad = failing(500)
    const limited = failing(429)
    const gateway = await gatewayWith(
      `
providers:
${provider('bad', bad.url)}${provider('limited', limited.url)}${provider('gone', 'http://127.0.0.1:9/v1')}
models:
  pool/m:
    endpoints:
      - { provider: bad, model: m }
      - { provider: limited, model: m }
      - { provider: gone, model: m }
      - { provider: sandbox, model: chat, protocol: chat.completions }
`,
    )
    const response = await ask(gateway, 'chat.completions', { stream: false, model: 'pool/m' })
    expect(response.status).toBe(200)
    expect([response.headers.get('x-sluice-provider'), response.headers.get('x-sluice-attempts')]).toEqual([
      'sandbox',
      '4',
    ])
    expect([bad.calls(), limited.calls()]).toEqual([1, 1])
  })

  once('a request refused by one endpoint is not sent to another', async () => {
    const [bad, other] = [failing(400), failing(500)]
    const gateway = await gatewayWith(
      `providers:\n${provider('bad', bad.url)}${provider('other', other.url)}${model(['bad', 'other'])}`,
    )
    expect((await ask(gateway, 'messages', { stream: false, model: 'pool/m' })).status).toBe(400)
    expect(other.calls()).toBe(0)
  })

  once('an unreachable provider is reported as a 502 without its address', async () => {
    const gateway = await gatewayWith(`providers:\n${provider('gone', 'http://127.0.0.1:9/v1')}`)
    const response = await ask(gateway, 'responses', { stream: false, model: 'gone/m' })
    expect(response.status).toBe(502)
    const message = 'The provider could not be reached (ECONNREFUSED).'
    expect(await response.json()).toMatchObject({ error: { code: 'upstream_error', message } })
  })
})

describe('timeouts', () => {
  once('a provider that is silent too long before its response head is reported as a 504', async () => {
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: () => new Promise<Response>(() => {}),
    })
    cleanUp.push(() => server.stop(true))
    const gateway = await gatewayWith(
      `timeouts: { firstByte: 150ms }\nproviders:\n${provider('up', `http://127.0.0.1:${server.port}/v1`)}`,
    )
    const response = await ask(gateway, 'messages')
    expect(response.status).toBe(504)
    expect(await response.json()).toMatchObject({ error: { type: 'timeout_error' } })
  })

  once('a provider that is silent too long in its stream is reported by an error in the stream', async () => {
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(chunkFrame('Hel')),
          }),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    })
    cleanUp.push(() => server.stop(true))
    const gateway = await gatewayWith(
      `timeouts: { idle: 150ms }\nproviders:\n${provider('up', `http://127.0.0.1:${server.port}/v1`)}`,
    )
    const text = await (await ask(gateway, 'messages')).text()
    expect(text).toContain('Hel')
    expect(text).toContain('event: error')
  })

  once("keep-alive frames are sent in each protocol's own form while a provider is silent", async () => {
    const gateway = await gatewayWith('keepAlive: 100ms\n')
    const ask = (path: string, body: object): Promise<string> =>
      fetch(gateway.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
        body: JSON.stringify(body),
      }).then((response) => response.text())
    const prompt = '[[pace: 350ms]] [[chunk: 1]] [[reply: well done]]'
    const messages = [{ role: 'user', content: prompt }]
    const [chat, anthropic, responses, google] = await Promise.all([
      ask('/v1/chat/completions', { model: 'sandbox/messages', stream: true, messages }),
      ask('/v1/messages', { model: 'sandbox/chat', stream: true, max_tokens: 100, messages }),
      ask('/v1/responses', { model: 'sandbox/chat', stream: true, store: false, input: prompt }),
      ask('/v1/publishers/sandbox/models/chat:streamGenerateContent?alt=sse', {
        contents: [{ parts: [{ text: prompt }] }],
      }),
    ])
    for (const text of [chat, anthropic, responses, google]) expect(text).toContain('done')
    expect(google).toMatch(/^(data: .*\n\n)+$/)
    for (const text of [chat, responses]) expect(text).toContain('\n\n: keep-alive\n\n')
    expect(anthropic).toContain('event: ping\n')
  })
})

once(
  'more than 256 concurrent calls reach the provider at once',
  async () => {
    const waiting: (() => void)[] = []
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: () =>
        new Promise<Response>((resolve) => {
          waiting.push(() =>
            resolve(
              Response.json({
                id: 'c',
                object: 'chat.completion',
                created: 1,
                model: 'm',
                choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
              }),
            ),
          )
          if (waiting.length === 400) for (const answer of waiting) answer()
        }),
    })
    cleanUp.push(() => server.stop(true))
    const gateway = await gatewayWith(
      `limits: { requestsPerMinute: 100000 }\nproviders:\n${provider('up', `http://127.0.0.1:${server.port}/v1`)}`,
    )
    const { hostname, port } = new URL(gateway.url)
    const body = JSON.stringify({ model: 'up/m', messages: [{ role: 'user', content: 'Hello' }] })
    const statuses = await Promise.all(
      Array.from({ length: 400 }, () => rawExchange(hostname, Number(port), chatHead(gateway.key, body) + body)),
    )
    expect(statuses.every((text) => text.startsWith('HTTP/1.1 200'))).toBe(true)
  },
  20_000,
)

const chatHead = (key: string, body: string): string =>
  requestHead(
    'POST /v1/chat/completions',
    `authorization: Bearer ${key}`,
    `content-length: ${body.length}`,
    'connection: close',
  )

/** Sends bytes and returns those received. `fetch` would hold back more than 256 concurrent calls. */
const rawExchange = (
  hostname: string,
  port: number,
  text: string,
  then?: (write: (text: string) => void) => void,
): Promise<string> =>
  new Promise((resolve, reject) => {
    let received = ''
    Bun.connect({
      hostname,
      port,
      socket: {
        open: (socket) => {
          socket.write(text)
          then?.((more) => void socket.write(more))
        },
        data: (_, bytes) => {
          received += bytes.toString()
        },
        close: () => resolve(received),
        error: (_, error) => reject(error),
      },
    }).catch(reject)
  })
