import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { MODELS, post, useGateway, type Json } from './kit.ts'

/** Keys, statuses, error bodies, ids, headers and paths, as they look from outside. */

const LIMITED = 'sk-ai-v1-limitedlimitedlimited1'
const gateway = useGateway(
  `limits: { requestsPerMinute: 1000000, body: 1MiB }\nkeys: [{ key: "${LIMITED}", requestsPerMinute: 2 }]\nmodels: { mine/priced: { endpoints: [{ provider: sandbox, model: chat }], price: { prompt: [1.5, { over: 200000, rate: 3 }], input_cache_write_5_min: 2, web_search: 0.01 } } }\n`,
)
const keyOf = (kind: string): string => gateway.createdKeys()[kind]!

type Door = { name: string; path: string; body: Json; shape: 'openai' | 'messages' | 'google' }
const TEXT = 'Hello'
const DOORS: Door[] = [
  {
    name: 'chat completions',
    path: '/v1/chat/completions',
    body: { model: 'sandbox/chat', messages: [{ role: 'user', content: TEXT }] },
    shape: 'openai',
  },
  {
    name: 'chat completions, relay',
    path: '/relay/v1/chat/completions',
    body: { model: 'sandbox/chat', messages: [{ role: 'user', content: TEXT }] },
    shape: 'openai',
  },
  { name: 'responses', path: '/v1/responses', body: { model: 'sandbox/responses', input: TEXT }, shape: 'openai' },
  {
    name: 'responses, relay',
    path: '/relay/v1/responses',
    body: { model: 'sandbox/responses', input: TEXT },
    shape: 'openai',
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: { model: 'sandbox/messages', max_tokens: 50, messages: [{ role: 'user', content: TEXT }] },
    shape: 'messages',
  },
  {
    name: 'messages, relay',
    path: '/relay/v1/messages',
    body: { model: 'sandbox/messages', max_tokens: 50, messages: [{ role: 'user', content: TEXT }] },
    shape: 'messages',
  },
  {
    name: 'count_tokens',
    path: '/v1/messages/count_tokens',
    body: { model: 'sandbox/messages', messages: [{ role: 'user', content: TEXT }] },
    shape: 'messages',
  },
  {
    name: 'generateContent',
    path: '/v1/publishers/sandbox/models/gemini:generateContent',
    body: { contents: [{ parts: [{ text: TEXT }] }] },
    shape: 'google',
  },
  {
    name: 'streamGenerateContent',
    path: '/v1/publishers/sandbox/models/gemini:streamGenerateContent',
    body: { contents: [{ parts: [{ text: TEXT }] }] },
    shape: 'google',
  },
]
const GETS: Door[] = [
  { name: 'models', path: '/v1/models', body: {}, shape: 'openai' },
  { name: 'a stored response', path: '/v1/responses/resp_x', body: {}, shape: 'openai' },
]

type Expected = { status: number; code: string; type: string; google: string }
const EXPECT: Record<string, Expected> = {
  invalid: { status: 400, code: 'invalid_request', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  key: { status: 401, code: 'invalid_api_key', type: 'authentication_error', google: 'UNAUTHENTICATED' },
  kind: { status: 403, code: 'permission_denied', type: 'permission_error', google: 'PERMISSION_DENIED' },
  model: { status: 404, code: 'model_not_found', type: 'not_found_error', google: 'NOT_FOUND' },
  path: { status: 404, code: 'not_found', type: 'not_found_error', google: 'NOT_FOUND' },
  method: { status: 405, code: 'method_not_allowed', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  large: { status: 413, code: 'request_too_large', type: 'request_too_large', google: 'INVALID_ARGUMENT' },
  media: { status: 415, code: 'unsupported_media_type', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  rate: { status: 422, code: 'rate_limit_exceeded', type: 'rate_limit_error', google: 'RESOURCE_EXHAUSTED' },
}

/** The whole body in the protocol's own shape, and the ids that SDKs read. */
async function fails(response: Response, shape: Door['shape'], expected: Expected): Promise<string> {
  const text = await response.text()
  expect({ status: response.status, text: response.status === expected.status ? '' : text }).toEqual({
    status: expected.status,
    text: '',
  })
  expect(response.headers.get('content-type')).toBe('application/json')
  const requestId = response.headers.get('x-request-id')
  expect(requestId).toStartWith('req_')
  expect(response.headers.get('request-id')).toBe(requestId)
  const body = JSON.parse(text) as { type: string; error: Json; request_id: string }
  if (shape === 'openai') {
    expect(Object.keys(body)).toEqual(['error'])
    expect(Object.keys(body.error).toSorted()).toEqual(['code', 'message', 'param', 'type'])
    expect(body.error).toMatchObject({
      type: expected.status === 404 || expected.status === 413 ? 'invalid_request_error' : expected.type,
      code: expected.code,
    })
  } else if (shape === 'messages') {
    expect(body).toMatchObject({ type: 'error', error: { type: expected.type }, request_id: requestId! })
  } else {
    expect(body.error).toMatchObject({ code: expected.status, status: expected.google })
    expect(Array.isArray(body.error.details)).toBe(true)
  }
  const { message } = body.error as { message: string }
  expect(message.length).toBeGreaterThan(10)
  expect(message).not.toMatch(/\bat \/|\.ts:\d|Error:/)
  return message
}

const ask = (door: Door, headers: Record<string, string>, body: unknown = door.body): Promise<Response> =>
  fetch(gateway.url() + door.path, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

describe.each(DOORS.map((door) => [door.name, door] as const))('%s', (_, door) => {
  const mine = (): Record<string, string> => ({ authorization: `Bearer ${gateway.key()}` })

  test('is answered', async () => {
    expect((await ask(door, mine())).status).toBe(200)
    expect((await ask(door, { authorization: `Bearer ${keyOf('subscription')}` })).status).toBe(200)
  })

  test('no usable key is one 401 for all reasons', async () => {
    const key = gateway.key()
    const wrong: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: key },
      { authorization: `Basic ${key}` },
      { authorization: `Bearer ${key}x` },
      { authorization: `Bearer ${key} x` },
      { authorization: `Bearer\t\t${key}x` },
      { authorization: `Bearer ${key.toUpperCase()}` },
      { authorization: `Bearer ' OR 1=1 --` },
      { authorization: `Bearer ${'a'.repeat(8000)}` },
      { 'x-api-key': 'wrong' },
      { 'x-goog-api-key': `${key}x` },
      { 'x-api-key': `Bearer ${key}` },
      { authorization: 'Bearer sk-ai-v1-0000000000000000000000000000000000000000000' },
      { authorization: `Bearer ${new Bun.CryptoHasher('sha256').update(key).digest('hex')}` },
      { cookie: `key=${key}` },
    ]
    const messages = new Set<string>()
    for (const headers of wrong) messages.add(await fails(await ask(door, headers), door.shape, EXPECT.key!))
    messages.add(await fails(await ask({ ...door, path: `${door.path}?key=${key}` }, {}), door.shape, EXPECT.key!))
    expect(messages.size).toBe(1)
  })

  test('keys are taken from three headers', async () => {
    for (const headers of [
      { authorization: `bearer ${gateway.key()}` },
      { 'x-api-key': gateway.key() },
      { 'x-goog-api-key': gateway.key() },
      { authorization: 'Bearer other', 'x-api-key': gateway.key() },
    ] as Record<string, string>[]) {
      expect((await ask(door, headers)).status).toBe(200)
    }
  })

  test('a management key is of the wrong kind', async () => {
    await fails(await ask(door, { authorization: `Bearer ${keyOf('management')}` }), door.shape, EXPECT.kind!)
  })

  test('the table of statuses', async () => {
    await fails(await ask(door, mine(), '{"a":'), door.shape, EXPECT.invalid!)
    await fails(
      await ask(door, mine(), { ...door.body, [door.shape === 'google' ? 'contents' : 'model']: 5 }),
      door.shape,
      EXPECT.invalid!,
    )
    await fails(await ask(door, { ...mine(), 'content-encoding': 'gzip' }), door.shape, EXPECT.media!)
    await fails(await ask(door, mine(), `{"a":"${'x'.repeat(1024 * 1024)}"}`), door.shape, EXPECT.large!)
    await fails(
      await fetch(gateway.url() + door.path, { headers: mine() }),
      door.shape,
      door.path === '/v1/responses' ? { ...EXPECT.method!, status: 426, code: 'upgrade_required' } : EXPECT.method!,
    )
    await fails(
      await fetch(gateway.url() + door.path, { method: 'PUT', headers: mine(), body: '{}' }),
      door.shape,
      EXPECT.method!,
    )
  })

  test('an unknown model names its neighbours', async () => {
    const wrong =
      door.shape === 'google'
        ? { ...door, path: door.path.replace('gemini:', 'gemni:') }
        : { ...door, body: { ...door.body, model: 'sandbox/mesages' } }
    const message = await fails(await ask(wrong, mine()), door.shape, EXPECT.model!)
    expect(message).toContain(door.shape === 'google' ? 'sandbox/gemini' : 'sandbox/messages')
  })

  test('the limit per minute is 422, not counted, and says when to come back', async () => {
    const limited = { authorization: `Bearer ${LIMITED}` }
    for (let i = 0; i < 2; i++) expect((await ask(door, limited)).status).toBe(200)
    for (let i = 0; i < 2; i++) {
      const response = await ask(door, limited)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(response.headers.get('x-should-retry')).toBe('true')
      await fails(response, door.shape, EXPECT.rate!)
    }
  })

  test('content types and Accept decide nothing', async () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=utf-8' },
      { accept: 'text/event-stream' },
      { accept: 'nonsense' },
    ] as Record<string, string>[]) {
      expect((await ask(door, { ...mine(), ...headers })).status).toBe(200)
    }
  })
})

describe.each(GETS.map((door) => [door.name, door] as const))('%s', (_, door) => {
  test('keys', async () => {
    await fails(await fetch(gateway.url() + door.path), door.shape, EXPECT.key!)
    await fails(
      await fetch(gateway.url() + door.path, { headers: { authorization: `Bearer ${keyOf('management')}` } }),
      door.shape,
      EXPECT.kind!,
    )
  })
})

const PREFIX: Record<string, string> = {
  '/v1/chat/completions': 'chatcmpl-',
  '/v1/responses': 'resp_',
  '/v1/messages': 'msg_',
}
describe('ids and headers', () => {
  const doors = DOORS.filter(({ path }) => path in PREFIX || path.includes(':generate'))
  for (const door of doors) {
    for (const model of MODELS) {
      for (const stream of [false, true]) {
        test(`${door.name} on ${model}, ${stream ? 'streamed' : 'whole'}`, async () => {
          const google = door.shape === 'google'
          const path = google
            ? `/v1/publishers/sandbox/models/${model.slice(8)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`
            : door.path
          const response = await post(gateway, path, google ? door.body : { ...door.body, model, stream })
          const { headers } = response
          const id = headers.get('x-generation-id')!
          expect(id).toMatch(new RegExp(`^${PREFIX[door.path] ?? ''}[0-9a-f]{32}$`))
          expect(headers.get('x-request-id')).toMatch(/^req_/)
          expect(headers.get('request-id')).toBe(headers.get('x-request-id'))
          expect(headers.get('x-sluice-provider')).toBe('sandbox')
          expect(headers.get('x-sluice-attempts')).toBe('1')
          expect(headers.get('content-type')).toStartWith(stream ? 'text/event-stream' : 'application/json')
          const text = await response.text()
          expect(text).toContain(`"${id}"`)
          const named = [...text.matchAll(/"(?:model|modelVersion)": ?"([^"]*)"/g)].map((match) => match[1])
          expect([...new Set(named)]).toEqual([model])
          const ids = [
            ...text.matchAll(
              /"responseId": ?"([^"]*)"|"id": ?"((?:chatcmpl-|resp_|msg_[0-9a-f]{32}(?=", ?"type": ?"message", ?"role": ?"assistant", ?"model))[^"]*)"/g,
            ),
          ].map((match) => match[1] ?? match[2])
          for (const seen of ids) expect(seen).toBe(id)
        })
      }
    }
  }
})

describe("a stream's frames cannot be made by its text", () => {
  const EVIL = 'a\n\ndata: {"type":"error"}\n\nevent: error\r\n: x\r\n\r\ndata: [DONE] \u2028 z'
  const READ: Record<
    string,
    { path(model: string): string; body(model: string): Json; names: string[]; text(frame: Json): string }
  > = {
    chat: {
      path: () => '/v1/chat/completions',
      names: ['data'],
      body: (model) => ({
        model,
        stream: true,
        user: EVIL,
        metadata: { a: EVIL },
        messages: [{ role: 'user', content: `[[reply: ${EVIL}]]` }],
      }),
      text: (frame) => (frame.choices as { delta: { content?: string } }[])[0]?.delta.content ?? '',
    },
    messages: {
      path: () => '/v1/messages',
      names: ['event', 'data'],
      body: (model) => ({
        model,
        stream: true,
        max_tokens: 500,
        metadata: { user_id: EVIL },
        messages: [{ role: 'user', content: `[[reply: ${EVIL}]]` }],
      }),
      text: (frame) => (frame.delta as { text?: string } | undefined)?.text ?? '',
    },
    google: {
      path: (model) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
      names: ['data'],
      body: () => ({ contents: [{ parts: [{ text: `[[reply: ${EVIL}]]` }] }] }),
      text: (frame) =>
        (frame.candidates as { content: { parts: { text?: string }[] } }[])[0]!.content.parts
          .map(({ text }) => text ?? '')
          .join(''),
    },
  }
  for (const [name, { path, body, names, text }] of Object.entries(READ)) {
    test.each([...MODELS])(`${name} on %s`, async (model) => {
      const blocks = (await (await post(gateway, path(model), body(model))).text())
        .split(/\r?\n\r?\n/)
        .filter((block) => block !== '')
      let read = ''
      for (const block of blocks) {
        const lines = block.split(/\r?\n|\r/)
        expect(lines.map((line) => line.split(':')[0]!)).toEqual(names)
        const data = lines.at(-1)!.slice(6)
        if (data !== '[DONE]') read += text(JSON.parse(data) as Json)
      }
      expect(read).toBe(EVIL)
    })
  }
})

describe('models', () => {
  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(gateway.url() + path, { headers: { authorization: `Bearer ${gateway.key()}`, ...headers } })

  test('the list', async () => {
    const body = (await (await get('/v1/models')).json()) as { object: string; data: Json[] }
    expect(body.object).toBe('list')
    for (const id of MODELS) expect(body.data.map((model) => model.id)).toContain(id)
    for (const model of body.data) {
      expect(model.object).toBe('model')
      for (const name of ['id', 'owned_by', 'display_name']) expect(typeof model[name]).toBe('string')
      expect(Number.isInteger(model.created)).toBe(true)
      expect(Array.isArray(model.protocols)).toBe(true)
      for (const name of ['capabilities', 'pricings']) expect(JSON.stringify(model[name])).toStartWith('{')
      for (const name of ['input_modalities', 'output_modalities', 'supported_parameters'])
        expect(model[name] === null || Array.isArray(model[name])).toBe(true)
      for (const name of ['context_length', 'max_output_tokens'])
        expect(model[name] === null || Number.isInteger(model[name])).toBe(true)
    }
    expect(body.data.find((model) => model.id === 'mine/priced')!.pricings).toEqual({
      prompt: [
        {
          value: 1.5,
          unit: 'perMTokens',
          currency: 'USD',
          conditions: [{ field: 'prompt_tokens', operator: 'lte', value: 200_000 }],
        },
        {
          value: 3,
          unit: 'perMTokens',
          currency: 'USD',
          conditions: [{ field: 'prompt_tokens', operator: 'gt', value: 200_000 }],
        },
      ],
      input_cache_write_5_min: [{ value: 2, unit: 'perMTokens', currency: 'USD', conditions: [] }],
      web_search: [{ value: 0.01, unit: 'perCount', currency: 'USD', conditions: [] }],
    })
    const chat = body.data.find((model) => model.id === 'sandbox/chat')!
    expect(chat).toMatchObject({
      context_length: 1_000_000,
      protocols: ['chat.completions', 'responses', 'messages', 'generateContent', 'predictions'],
      input_modalities: ['text', 'image', 'file'],
      output_modalities: null,
      capabilities: { tools: true, structured_output: true },
      supported_parameters: expect.arrayContaining(['max_tokens', 'tools', 'temperature']),
    })
  })

  test('one model, the slash raw or encoded', async () => {
    for (const path of ['/v1/models/sandbox/chat', '/v1/models/sandbox%2Fchat', '/v1/models/sandbox%2fchat'])
      expect(((await (await get(path)).json()) as Json).id).toBe('sandbox/chat')
    expect(await fails(await get('/v1/models/sandbox/cht'), 'openai', EXPECT.model!)).toContain('sandbox/chat')
    await fails(await get('/v1/models/__proto__'), 'openai', EXPECT.model!)
  })

  test("in Anthropic's words with its version header, in Google's under its path", async () => {
    const anthropic = (await (await get('/v1/models', { 'anthropic-version': '2023-06-01' })).json()) as {
      data: Json[]
      has_more: boolean
    }
    expect(anthropic.data[0]).toMatchObject({ type: 'model' })
    expect(anthropic.has_more).toBe(false)
    expect(
      ((await (await get('/v1beta/models')).json()) as { models: Json[] }).models.map(({ name }) => name),
    ).toContain('models/sandbox/gemini')
    expect(((await (await get('/v1beta/models/sandbox/gemini')).json()) as Json).name).toBe('models/sandbox/gemini')
    await fails(await get('/v1beta/models/sandbox/none'), 'google', EXPECT.model!)
  })
})

/**
 * A request in these very bytes. Gives status and body of the first answer; status 0 where the connection was just
 * closed.
 */
const raw = (head: string): Promise<{ status: number; text: string }> =>
  new Promise((resolve) => {
    const { port, hostname } = new URL(gateway.url())
    const socket = connect(Number(port), hostname, () => socket.write(head))
    let received = ''
    socket.setTimeout(2000, () => socket.destroy())
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.end()
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1] ?? 0), text: received }))
  })

describe('paths', () => {
  const at = (path: string, method = 'GET', headers = ''): Promise<{ status: number; text: string }> =>
    raw(
      `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${gateway.key()}\r\n${headers}Content-Length: 0\r\nConnection: close\r\n\r\n`,
    )
  const NOWHERE = [
    '//v1/models',
    '/V1/models',
    '/v1/models/',
    '/v1/models.',
    '/v1/models;a=b',
    '/v1/%6dodels',
    '/v1/models%00',
    '/v1%2fmodels',
    '/v1/./models',
    '/v1/x/../models',
    '/v1/%2e%2e/v1/models',
    '/v1/%252e%252e/models',
    '/v2/models',
    '/',
    '/v1',
    '/admin',
    '/v1/chat/completions/x',
    '/relay/v1/models',
    `/${'a'.repeat(8000)}`,
    '/v1/models/%',
    '/v1/models/%zz',
    '/v1/models/%00',
    '/v1/models/x/../../files',
    '/v1/models/..%2f..%2ffiles',
    '/v1/responses/..',
    '/v1/responses/%2e%2e',
    '/v1/responses/a/b/c',
    '/v1/publishers/a/models/b',
    '/v1/models/toString',
    '/v1/responses/constructor',
    '/v1/responses/%25%25%25_',
  ]
  for (const path of NOWHERE) {
    test(`${path.slice(0, 60)} is 400 or 404 and nothing else`, async () => {
      const { status, text } = await at(path)
      // The runtime resolves dot segments before we see the path, as every client does.
      if (status === 200)
        expect(['/v1/./models', '/v1/x/../models', '/v1/%2e%2e/v1/models', '/v1/models/x/../../files']).toContain(path)
      else expect([400, 404]).toContain(status)
      if (status === 404) expect(text).toContain('"error"')
    })
  }

  const MODEL_NAMES = [
    'x/../../files',
    '..',
    '%2e%2e',
    'a%2f..%2f..%2fb',
    'a%00',
    'a b',
    'gemini:generateContent',
    'a'.repeat(5000),
    '__proto__',
    'constructor',
    '%25',
    'a%0d%0ax:y',
    '%zz',
    '\u0441hat',
  ]
  for (const name of MODEL_NAMES) {
    for (const method of ['generateContent', 'streamGenerateContent', 'countTokens']) {
      test(`model ${name.slice(0, 30)} of ${method} is 400 or 404`, async () => {
        for (const path of [
          `/v1beta/models/${name}:${method}`,
          `/v1/publishers/sandbox/models/${name}:${method}`,
          `/v1/publishers/${name}/models/x:${method}`,
        ]) {
          const response = await fetch(gateway.url() + path, {
            method: 'POST',
            headers: { authorization: `Bearer ${gateway.key()}` },
            body: '{"contents":[{"parts":[{"text":"x"}]}]}',
          })
          expect({ path, ok: [400, 404].includes(response.status), status: response.status }).toEqual({
            path,
            ok: true,
            status: response.status,
          })
          expect(((await response.json()) as { error: unknown }).error).toBeDefined()
        }
      })
    }
  }
  for (const model of [
    ...MODEL_NAMES,
    '',
    ' ',
    'sandbox/',
    '/chat',
    'sandbox//chat',
    'sandbox/chat ',
    'Sandbox/Chat',
    'sandbox/\n',
    'sandbox/chat\0',
  ]) {
    test(`model ${JSON.stringify(model).slice(0, 30)} in a body is 400 or 404, by its path`, async () => {
      const response = await post(gateway, '/v1/chat/completions', {
        model,
        messages: [{ role: 'user', content: 'x' }],
      })
      expect([400, 404]).toContain(response.status)
      expect(((await response.json()) as { error: { param: string } }).error.param).toBe('model')
    })
  }

  for (const verb of [
    'generatecontent',
    'GenerateContent',
    'batchGenerateContent',
    'embedContent',
    'predict',
    '',
    'generateContent:generateContent',
  ]) {
    test(`:${verb} is nothing`, async () => {
      const response = await fetch(`${gateway.url()}/v1beta/models/sandbox/gemini:${verb}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key()}` },
        body: '{"contents":[{"parts":[{"text":"x"}]}]}',
      })
      expect([400, 404, 405]).toContain(response.status)
    })
  }

  for (const method of ['HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'PATCH', 'PUT', 'DELETE', 'PROPFIND', 'FOO', 'get']) {
    test(`${method} is refused`, async () => {
      expect([0, 400, 404, 405, 501]).toContain((await at('/v1/chat/completions', method)).status)
    })
  }

  test('headers do not change the method or the path', async () => {
    for (const header of [
      'X-HTTP-Method-Override: POST',
      'X-HTTP-Method: DELETE',
      'X-Original-URL: /livez',
      'X-Rewrite-URL: /livez',
      'X-Forwarded-Path: /livez',
    ]) {
      expect(
        (await raw(`GET /v1/models HTTP/1.1\r\nHost: localhost\r\n${header}\r\nConnection: close\r\n\r\n`)).status,
      ).toBe(401)
    }
  })
})

describe('hosts', () => {
  const hosted = (hosts: string[]): Promise<{ status: number; text: string }> =>
    raw(`GET /v1/models HTTP/1.1\r\n${hosts.map((host) => `Host: ${host}\r\n`).join('')}Connection: close\r\n\r\n`)
  for (const hosts of [
    [],
    ['a/#@b'],
    ['x/livez?'],
    ['a b'],
    ['user:pw@localhost'],
    ['localhost:999999'],
    ['[::1'],
    ['[::1]]'],
    [''],
    ['a', 'b'],
    ['localhost/livez#'],
    ['livez?x=y'],
  ]) {
    test(`${JSON.stringify(hosts)} is refused, never let in`, async () => {
      const { status, text } = await hosted(hosts)
      expect([0, 400, 401]).toContain(status)
      expect(text).not.toContain('sandbox/chat')
    })
  }

  for (const host of ['localhost', 'localhost:99999', '[::1]:80', 'sluice.example.com', '127.0.0.1']) {
    test(`${host} still needs a key`, async () => expect((await hosted([host])).status).toBe(401))
  }

  test('two Authorization headers, of which one is wrong, let nobody in by the wrong one', async () => {
    const two = (first: string, second: string) =>
      raw(
        `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${first}\r\nAuthorization: ${second}\r\nConnection: close\r\n\r\n`,
      )
    expect((await two('Bearer wrong', 'Bearer wronger')).status).toBe(401)
    expect([200, 400, 401]).toContain((await two(`Bearer ${gateway.key()}`, 'Bearer wrong')).status)
  })
})

test('what is public needs no key', async () => {
  expect((await fetch(`${gateway.url()}/api/hello`, { method: 'HEAD' })).status).toBe(200)
  for (const path of ['/livez', '/readyz']) expect((await fetch(gateway.url() + path)).status).toBe(200)
})

describe('stored responses', () => {
  const get = (path: string, method = 'GET'): Promise<Response> =>
    fetch(gateway.url() + path, { method, headers: { authorization: `Bearer ${gateway.key()}` } })
  const make = async (model: string, body: Json = {}): Promise<Json> =>
    (await (await post(gateway, '/v1/responses', { model, input: 'Hello', ...body })).json()) as Json

  test.each([...MODELS])('kept by default, found, listed, continued, deleted (%s)', async (model) => {
    const first = await make(model)
    expect(await (await get(`/v1/responses/${first.id}`)).json()).toEqual(first)
    const items = (await (await get(`/v1/responses/${first.id}/input_items`)).json()) as {
      object: string
      data: Json[]
      has_more: boolean
    }
    expect(items).toMatchObject({ object: 'list', has_more: false, data: [{ type: 'message', role: 'user' }] })
    const second = await make(model, { previous_response_id: first.id, input: '[[echo: body]]' })
    expect(second.previous_response_id).toBe(first.id)
    expect(JSON.stringify(second.output)).toContain('Hello')
    const [item] = first.output as { id: string }[]
    const third = await make(model, {
      input: [
        { role: 'user', content: 'Hello' },
        { type: 'item_reference', id: item!.id },
        { role: 'user', content: '[[echo]]' },
      ],
    })
    expect(third.status).toBe('completed')
    expect(await (await get(`/v1/responses/${first.id}`, 'DELETE')).json()).toEqual({
      id: first.id,
      object: 'response',
      deleted: true,
    })
    await fails(await get(`/v1/responses/${first.id}`), 'openai', EXPECT.path!)
  })

  test('not kept when the request says so', async () => {
    const { id } = await make('sandbox/responses', { store: false })
    await fails(await get(`/v1/responses/${id}`), 'openai', EXPECT.path!)
  })

  test('unknown ids say which', async () => {
    for (const id of ['resp_none', '__proto__', 'x'.repeat(3000), '%', "' OR 1=1"]) {
      const previous = await post(gateway, '/v1/responses', {
        model: 'sandbox/responses',
        input: 'x',
        previous_response_id: id,
      })
      expect(((await previous.clone().json()) as { error: { param: string } }).error.param).toBe('previous_response_id')
      await fails(previous, 'openai', EXPECT.path!)
      const reference = await post(gateway, '/v1/responses', {
        model: 'sandbox/responses',
        input: [
          { role: 'user', content: 'x' },
          { type: 'item_reference', id },
        ],
      })
      expect(((await reference.clone().json()) as { error: { param: string } }).error.param).toBe('input[1].id')
      await fails(reference, 'openai', EXPECT.path!)
      for (const [path, method] of [
        [`/v1/responses/${encodeURIComponent(id)}`, 'GET'],
        [`/v1/responses/${encodeURIComponent(id)}`, 'DELETE'],
        [`/v1/responses/${encodeURIComponent(id)}/input_items`, 'GET'],
      ] as const)
        await fails(await get(path, method), 'openai', EXPECT.path!)
    }
  })

  test('wrong pages are refused by name', async () => {
    const { id } = await make('sandbox/responses')
    for (const [query, param] of [
      ['limit=0', 'limit'],
      ['limit=101', 'limit'],
      ['limit=x', 'limit'],
      ['limit=1.5', 'limit'],
      ['order=up', 'order'],
      ['after=none', 'after'],
    ] as const) {
      const response = await get(`/v1/responses/${id}/input_items?${query}`)
      expect({ query, status: response.status }).toEqual({ query, status: 400 })
      expect(((await response.json()) as { error: { param: string } }).error.param).toBe(param)
    }
    for (const query of ['', 'limit=1', 'limit=100', 'order=asc', 'order=desc', 'odd=1'])
      expect((await get(`/v1/responses/${id}/input_items?${query}`)).status).toBe(200)
  })
})
