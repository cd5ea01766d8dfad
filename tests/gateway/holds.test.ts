import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { connect, createServer, type Server } from 'node:net'
import type { AddressInfo } from 'node:net'
import { startGateway, type Gateway } from '../server.ts'
import { requestHead } from '../transport/raw-server.ts'

/** A hold covers the largest possible bill, and a request that no provider worked on is not billed. */

let gateway: Gateway
/** A server that accepts connections and sends nothing: a TLS handshake with it does not end. */
let silent: Server
const refusing = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: () => Response.json({ error: { message: 'no', type: 'server_error' } }, { status: 500 }),
})

beforeAll(async () => {
  silent = createServer(() => {}).listen(0, '127.0.0.1')
  await new Promise((resolve) => silent.once('listening', resolve))
  const endpoint = (provider: string): string => `endpoints: [{ provider: ${provider}, model: m }]`
  const sandbox = (model: string, protocol: string): string =>
    `endpoints: [{ provider: sandbox, model: ${model}, protocol: ${protocol} }]`
  const chat = sandbox('chat', 'chat.completions')
  const messages = sandbox('messages', 'messages')
  gateway = await startGateway({
    config: `billing: { startingCredit: 0.1, overdraft: 5, delay: 0s }
providers:
  silent: { protocol: chat.completions, baseUrl: "https://127.0.0.1:${(silent.address() as AddressInfo).port}/v1" }
  refusing: { protocol: chat.completions, baseUrl: "http://127.0.0.1:${refusing.port}/v1" }
models:
  silent: { ${endpoint('silent')}, price: { prompt: 1, completion: 4 } }
  refusing: { ${endpoint('refusing')}, price: { prompt: 1, completion: 4 } }
  priced: { ${chat}, price: { prompt: 1, completion: 4 } }
  drawing: { ${chat}, price: { prompt: 1, completion: 4, output_image: 1000 } }
  searching: { ${chat}, price: { prompt: 1, completion: 4, web_search: 0.011 } }
  growing: { ${sandbox('generateContent', 'generateContent')}, price: { prompt: 1, completion: 4 } }
  answering: { ${sandbox('responses', 'responses')}, price: { prompt: 1, completion: 4, web_search: 0.011 } }
  caching: { ${messages}, price: { prompt: 1, completion: 4, input_cache_write_1_h: 1000 } }
`,
  })
})
afterAll(async () => {
  silent.close()
  await Promise.all([gateway.stop(), refusing.stop(true)])
})

const post = (path: string, body: object, signal?: AbortSignal, headers: object = {}): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
const chat = (model: string, more: object = {}, signal?: AbortSignal): Promise<Response> =>
  post(
    '/v1/chat/completions',
    { model, max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }], ...more },
    signal,
  )
/** A stream whose client wants it whole: all of its output is held. */
const wholeStream = (more: object): Promise<Response> =>
  post(
    '/v1/chat/completions',
    { model: 'priced', stream: true, messages: [{ role: 'user', content: 'Hello' }], ...more },
    undefined,
    { 'x-sluice-strict': 'true' },
  )
const management = async (path: string): Promise<Record<string, never>> =>
  (
    await fetch(`${gateway.url}/v1/management/${path}`, { headers: { authorization: `Bearer ${gateway.key}` } })
  ).json() as Promise<Record<string, never>>

test('a request is refused if its document, output, searches or cache may cost more than the balance', async () => {
  const file = (bytes: number): object => ({
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'file',
            file: {
              filename: 'a.txt',
              file_data: `data:text/plain;base64,${Buffer.alloc(bytes, 'word ').toString('base64')}`,
            },
          },
        ],
      },
    ],
  })
  const cached = (ttl?: string): object => ({
    model: 'caching',
    max_tokens: 100,
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'text',
            text: 'Hello '.repeat(50),
            ...(ttl === undefined ? {} : { cache_control: { type: 'ephemeral', ttl } }),
          },
        ],
      },
    ],
  })
  const statuses = [
    await chat('priced', file(1_000)),
    await chat('priced', file(1_000_000)),
    await chat('drawing', { max_tokens: 10 }),
    await chat('drawing', { max_tokens: 1_000 }),
    await chat('searching'),
    await chat('searching', { web_search_options: {} }),
    await post('/v1/responses', { model: 'answering', input: 'Hello', max_output_tokens: 100 }),
    await post('/v1/responses', {
      model: 'answering',
      input: 'Hello',
      max_output_tokens: 100,
      plugins: [{ id: 'web' }],
    }),
    await post('/v1/messages', cached()),
    await post('/v1/messages', cached('5m')),
    await post('/v1/messages', cached('1h')),
  ].map(({ status }) => status)
  expect(statuses).toEqual([200, 402, 200, 402, 200, 402, 200, 402, 200, 200, 402])
})

test('the reservation includes what a schema grows by when its references are expanded', async () => {
  const growth = (times: number): object => {
    const properties = Object.fromEntries(Array.from({ length: times }, (_, n) => [`p${n}`, { $ref: '#/$defs/Long' }]))
    return {
      tools: [
        {
          type: 'function',
          function: {
            name: 'f',
            parameters: {
              type: 'object',
              properties,
              $defs: { Long: { type: 'string', description: 'word '.repeat(400) } },
            },
          },
        },
      ],
    }
  }
  expect((await chat('growing', growth(10))).status).toBe(200)
  expect((await chat('growing', growth(300))).status).toBe(402)
  expect((await chat('priced', growth(300))).status).toBe(200)
})

test('of two different output limits the larger is reserved, as providers differ in which they apply', async () => {
  expect((await wholeStream({ max_tokens: 100_000, max_completion_tokens: 1 })).status).toBe(402)
  expect((await wholeStream({ max_tokens: 1, max_completion_tokens: 100_000 })).status).toBe(402)
  expect((await chat('priced', { max_tokens: 100, max_completion_tokens: 10 })).status).toBe(200)
})

describe('members that ask for more than the protocol documents', () => {
  const MORE = [
    { n_predict: 100_000 },
    { Max_Tokens: 100_000 },
    { options: { num_predict: 100_000 } },
    { best_of: 1000 },
  ]
  const google = (model: string, more: object, config: object = {}): Promise<Response> =>
    post(`/v1beta/models/${model}:generateContent`, {
      contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
      generationConfig: { maxOutputTokens: 100, ...config },
      ...more,
    })
  const IMAGE =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='
  const asks: Record<string, (more: object) => Promise<Response>> = {
    chat: (more) => chat('priced', more),
    'chat with a medium, which is read': (more) =>
      chat('priced', {
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: IMAGE } }] }],
        ...more,
      }),
    responses: (more) => post('/v1/responses', { model: 'answering', max_output_tokens: 100, input: 'Hello', ...more }),
    messages: (more) =>
      post('/v1/messages', {
        model: 'caching',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'Hello' }],
        ...more,
      }),
    generateContent: (more) => google('growing', more),
    generationConfig: (more) => google('growing', {}, more),
  }

  test('are reserved for on every protocol, whether its conversation is read or not', async () => {
    for (const [name, ask] of Object.entries(asks)) {
      expect([name, (await ask({})).status]).toEqual([name, 200])
      for (const more of MORE) expect([name, more, (await ask(more)).status]).toEqual([name, more, 402])
    }
  })

  test('are reserved for where the own limit has a value that only a provider understands', async () => {
    for (const more of [
      { n: 1000, max_tokens: 100 },
      { max_tokens: '100000' },
      { max_tokens: -1 },
      { max_tokens: 1.5e5 },
    ])
      expect([more, (await wholeStream(more)).status]).toEqual([more, 402])
  })

  test('are passed on where they are affordable', async () => {
    for (const [name, ask] of Object.entries(asks)) {
      const more = { n_predict: 200, Max_Tokens: 150, options: { num_predict: 10 } }
      expect([name, (await ask(more)).status]).toEqual([name, 200])
    }
  })

  test('are not reserved for where the translation drops them', async () => {
    const answer = await chat('growing', { n_predict: 100_000, best_of: 1000 })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('x-sluice-translation')).toContain('n_predict')
  })
})

test('no request is admitted on the overdraft', async () => {
  expect((await wholeStream({ max_tokens: 30_000 })).status).toBe(402)
  // Nor is an answer in one piece, whose limit is lowered, given more than the balance of 0.1 USD pays for.
  const lowered = await chat('priced', { max_tokens: 30_000 })
  const [, tokens] = /lowered to ([\d,]+): balance/.exec(lowered.headers.get('x-sluice-translation')!)!
  expect(Number(tokens!.replace(',', ''))).toBeLessThanOrEqual(25_000)
})

test('a client that leaves pays for its input only if the provider was reached', async () => {
  const before = (await management('payg/balance')).data
  const leave = new AbortController()
  const answer = chat('silent', {}, leave.signal).catch(() => undefined)
  await Bun.sleep(200)
  leave.abort()
  await answer
  await Bun.sleep(200)
  expect((await management('payg/balance')).data).toEqual(before)
})

test('a failed generation is found by the id in its response headers', async () => {
  const failed = await chat('refusing')
  expect(failed.status).toBe(500)
  expect(await management(`generation?id=${failed.headers.get('x-generation-id')}`)).toMatchObject({
    ending: 'failed',
    usage: 0,
    finishReason: 'error',
  })
})

test('createAt is the time the request arrived, even if its body took long', async () => {
  const body = JSON.stringify({ model: 'priced', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] })
  const { hostname, port } = new URL(gateway.url)
  const began = Date.now()
  const head = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      const headers = [`authorization: Bearer ${gateway.key}`, `content-length: ${body.length}`]
      socket.write(requestHead('POST /v1/chat/completions', ...headers) + body.slice(0, 5))
      setTimeout(() => socket.write(body.slice(5)), 600)
    })
    socket.on('data', (data) => {
      resolve(data.toString())
      socket.destroy()
    })
  })
  const record = await management(`generation?id=${/x-generation-id: (\S+)/i.exec(head)![1]}`)
  expect(Date.parse(record.createAt as unknown as string) - began).toBeLessThan(500)
  expect(record.latency as unknown as number).toBeGreaterThanOrEqual(590)
})
