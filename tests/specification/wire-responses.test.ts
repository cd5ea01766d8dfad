import { describe, expect, test } from 'bun:test'
import { MODELS, post, useGateway, type Json } from './kit.ts'
import { ERRORS, expectError, ROUTES } from './wire-kit.ts'

/** Ids, headers and frames of responses, the routes of models and those of stored responses. */

const gateway = useGateway(`
limits: { requestsPerMinute: 1000000 }
models:
  mine/priced:
    endpoints: [{ provider: sandbox, model: chat }]
    price: { prompt: [1.5, { over: 200000, rate: 3 }], input_cache_write_5_min: 2, web_search: 0.01 }
`)

const PREFIX: Record<string, string> = {
  '/v1/chat/completions': 'chatcmpl-',
  '/v1/responses': 'resp_',
  '/v1/messages': 'msg_',
}
/** The id of the generation in a body of any protocol; items of responses have ids of their own. */
const GENERATION_ID = new RegExp(
  '"responseId": ?"([^"]*)"|"id": ?"((?:chatcmpl-|resp_|' +
    'msg_[0-9a-f]{32}(?=", ?"type": ?"message", ?"role": ?"assistant", ?"model))[^"]*)"',
  'g',
)
describe('ids and headers', () => {
  const routes = ROUTES.filter(({ path }) => path in PREFIX || path.includes(':generate'))
  for (const route of routes) {
    for (const model of MODELS) {
      for (const stream of [false, true]) {
        test(`${route.name} of ${model} has its id in headers and body, ${stream ? 'streamed' : 'whole'}`, async () => {
          const google = route.format === 'google'
          const method = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
          const path = google ? `/v1/publishers/sandbox/models/${model.slice(8)}:${method}` : route.path
          const response = await post(gateway, path, google ? route.body : { ...route.body, model, stream })
          const { headers } = response
          const id = headers.get('x-generation-id')!
          expect(id).toMatch(new RegExp(`^${PREFIX[route.path] ?? ''}[0-9a-f]{32}$`))
          expect(headers.get('x-request-id')).toMatch(/^req_/)
          expect(headers.get('request-id')).toBe(headers.get('x-request-id'))
          expect(headers.get('x-sluice-provider')).toBe('sandbox')
          expect(headers.get('x-sluice-attempts')).toBe('1')
          expect(headers.get('content-type')).toStartWith(stream ? 'text/event-stream' : 'application/json')
          const text = await response.text()
          expect(text).toContain(`"${id}"`)
          const named = [...text.matchAll(/"(?:model|modelVersion)": ?"([^"]*)"/g)].map((match) => match[1])
          expect([...new Set(named)]).toEqual([model])
          const ids = [...text.matchAll(GENERATION_ID)].map((match) => match[1] ?? match[2])
          for (const found of ids) expect(found).toBe(id)
        })
      }
    }
  }
})

describe('the framing of a stream', () => {
  const INJECTION = 'a\n\ndata: {"type":"error"}\n\nevent: error\r\n: x\r\n\r\ndata: [DONE] \u2028 z'
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
        user: INJECTION,
        metadata: { a: INJECTION },
        messages: [{ role: 'user', content: `[[reply: ${INJECTION}]]` }],
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
        metadata: { user_id: INJECTION },
        messages: [{ role: 'user', content: `[[reply: ${INJECTION}]]` }],
      }),
      text: (frame) => (frame.delta as { text?: string } | undefined)?.text ?? '',
    },
    google: {
      path: (model) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
      names: ['data'],
      body: () => ({ contents: [{ parts: [{ text: `[[reply: ${INJECTION}]]` }] }] }),
      text: (frame) =>
        (frame.candidates as { content: { parts: { text?: string }[] } }[])[0]!.content.parts
          .map(({ text }) => text ?? '')
          .join(''),
    },
  }
  for (const [name, { path, body, names, text }] of Object.entries(READ)) {
    test.each([...MODELS])(`a text of %s cannot add frames to a stream of ${name}`, async (model) => {
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
      expect(read).toBe(INJECTION)
    })
  }
})

describe('models', () => {
  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(gateway.url() + path, { headers: { authorization: `Bearer ${gateway.key()}`, ...headers } })

  test('every model in the list has the documented members', async () => {
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

  test('a model is found with its slash raw or encoded', async () => {
    for (const path of ['/v1/models/sandbox/chat', '/v1/models/sandbox%2Fchat', '/v1/models/sandbox%2fchat'])
      expect(((await (await get(path)).json()) as Json).id).toBe('sandbox/chat')
    expect(await expectError(await get('/v1/models/sandbox/cht'), 'openai', ERRORS.model!)).toContain('sandbox/chat')
    await expectError(await get('/v1/models/__proto__'), 'openai', ERRORS.model!)
  })

  test("models have Anthropic's format with its version header and Google's below its path", async () => {
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
    await expectError(await get('/v1beta/models/sandbox/none'), 'google', ERRORS.model!)
  })
})

describe('stored responses', () => {
  const get = (path: string, method = 'GET'): Promise<Response> =>
    fetch(gateway.url() + path, { method, headers: { authorization: `Bearer ${gateway.key()}` } })
  const make = async (model: string, body: Json = {}): Promise<Json> =>
    (await (await post(gateway, '/v1/responses', { model, input: 'Hello', ...body })).json()) as Json

  test.each([...MODELS])('a response of %s is stored by default, retrieved, continued and deleted', async (model) => {
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
    await expectError(await get(`/v1/responses/${first.id}`), 'openai', ERRORS.path!)
  })

  test('a response with store: false is not stored', async () => {
    const { id } = await make('sandbox/responses', { store: false })
    await expectError(await get(`/v1/responses/${id}`), 'openai', ERRORS.path!)
  })

  test('an unknown id is refused with its path', async () => {
    for (const id of ['resp_none', '__proto__', 'x'.repeat(3000), '%', "' OR 1=1"]) {
      const previous = await post(gateway, '/v1/responses', {
        model: 'sandbox/responses',
        input: 'x',
        previous_response_id: id,
      })
      expect(((await previous.clone().json()) as { error: { param: string } }).error.param).toBe('previous_response_id')
      await expectError(previous, 'openai', ERRORS.path!)
      const reference = await post(gateway, '/v1/responses', {
        model: 'sandbox/responses',
        input: [
          { role: 'user', content: 'x' },
          { type: 'item_reference', id },
        ],
      })
      expect(((await reference.clone().json()) as { error: { param: string } }).error.param).toBe('input[1].id')
      await expectError(reference, 'openai', ERRORS.path!)
      for (const [path, method] of [
        [`/v1/responses/${encodeURIComponent(id)}`, 'GET'],
        [`/v1/responses/${encodeURIComponent(id)}`, 'DELETE'],
        [`/v1/responses/${encodeURIComponent(id)}/input_items`, 'GET'],
      ] as const)
        await expectError(await get(path, method), 'openai', ERRORS.path!)
    }
  })

  test('an invalid page parameter is refused with its name', async () => {
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
