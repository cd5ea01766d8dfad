import { heapStats } from 'bun:jsc'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { FrameSplitter } from '../../src/http/frames.ts'
import { sandbox, serveSandbox } from '../../src/providers/sandbox/server.ts'

type Json = Record<string, any>

const post = (path: string, body: object | string, init: RequestInit = {}) =>
  new Request(`http://sandbox${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
  })
const chat = (content: string, more: object = {}) => ({ model: 'chat', messages: [{ role: 'user', content }], ...more })
const postJson = async (path: string, body: object, init: RequestInit = {}): Promise<Json> =>
  (await sandbox(post(path, body, init))).json() as Promise<Json>
const CHAT = '/v1/chat/completions'

/** The same prompt as a request of each protocol. */
const ALL = [
  { path: CHAT, body: (text: string, stream: boolean) => chat(text, { stream }) },
  { path: '/v1/responses', body: (text: string, stream: boolean) => ({ model: 'responses', input: text, stream }) },
  {
    path: '/v1/messages',
    body: (text: string, stream: boolean) => ({
      model: 'messages',
      max_tokens: 1000,
      messages: [{ role: 'user', content: text }],
      stream,
    }),
  },
  {
    path: '/v1beta/models/gemini:generateContent',
    streamed: '/v1beta/models/gemini:streamGenerateContent?alt=sse',
    body: (text: string) => ({ contents: [{ role: 'user', parts: [{ text }] }] }),
  },
]
const request = (one: (typeof ALL)[number], text: string, stream: boolean) =>
  post(stream ? (one.streamed ?? one.path) : one.path, one.body(text, stream))

for (const one of ALL)
  describe(one.path, () => {
    test('the same request gets the same bytes, except for times and item ids', async () => {
      for (const stream of [false, true]) {
        const texts = await Promise.all(
          [0, 1].map(async () =>
            (await sandbox(request(one, '[[think]] [[call: f {"a":1}]] [[reply: x]]', stream))).text(),
          ),
        )
        const timeless = texts.map((text) =>
          text.replace(
            /"(created|created_at|createTime|completed_at)":("[^"]*"|[\d.]+)|"(rs|fc|msg)_[0-9a-f]{32}"/g,
            '',
          ),
        )
        expect(timeless[0]).toBe(timeless[1]!)
      }
    })

    test('[[cut-after]] breaks the body, [[end-after]] ends it without the final events', async () => {
      for (const stream of [false, true]) {
        await expect((await sandbox(request(one, '[[length: 30]] [[cut-after: 2]]', stream))).text()).rejects.toThrow(
          'break the connection',
        )
        const whole = await (await sandbox(request(one, '[[length: 30]]', stream))).text()
        const part = await (await sandbox(request(one, '[[length: 30]] [[end-after: 2]]', stream))).text()
        expect(part.length).toBeGreaterThan(0)
        expect(part.length).toBeLessThan(whole.length)
        if (stream) expect(part).not.toMatch(/\[DONE\]|response\.completed|message_stop|finishReason/)
      }
    })

    test('[[other-form]] swaps JSON and stream', async () => {
      expect((await sandbox(request(one, '[[other-form]]', true))).headers.get('content-type')).toBe('application/json')
      expect((await sandbox(request(one, '[[other-form]]', false))).headers.get('content-type')).toBe(
        'text/event-stream',
      )
    })

    test('[[html]] and [[raw]] send a body in no protocol', async () => {
      const page = await sandbox(request(one, '[[html: 502]]', false))
      expect([page.status, (await page.text()).startsWith('<html>')]).toEqual([502, true])
      expect(await (await sandbox(request(one, '[[raw: {"odd":[[1]]}]]', true))).text()).toBe('{"odd":[[1]]}')
    })

    test('an aborted request rejects before the first byte and in mid-stream', async () => {
      const early = new AbortController()
      const waiting = sandbox(new Request(request(one, '[[hang]]', true), { signal: early.signal }))
      early.abort(new Error('left'))
      await expect(waiting).rejects.toThrow('left')
      const late = new AbortController()
      const response = await sandbox(
        new Request(request(one, '[[length: 30]] [[hang-after: 2]]', true), { signal: late.signal }),
      )
      const reading = response.text()
      setTimeout(() => late.abort(new Error('left')), 20)
      await expect(reading).rejects.toThrow('left')
    })
  })

test('[[chunk]] sets the size of deltas, [[pace]] their interval, [[delay]] the time before them', async () => {
  const started = performance.now()
  const response = await sandbox(
    post(CHAT, chat('[[reply: a b c d]] [[chunk: 1]] [[pace: 10ms]] [[delay: 30ms]]', { stream: true })),
  )
  const delayed = performance.now() - started
  const frames = new FrameSplitter().push(await response.bytes())
  expect(
    frames.flatMap(({ data }) =>
      data === '[DONE]' ? [] : (JSON.parse(data) as Json)['choices']?.[0]?.delta?.content || [],
    ),
  ).toEqual(['a ', 'b ', 'c ', 'd'])
  expect(delayed).toBeGreaterThanOrEqual(29)
  expect(performance.now() - started - delayed).toBeGreaterThanOrEqual(28)
})

test('a chat stream has usage only with include_usage', async () => {
  const usages = async (more: object) =>
    (await (await sandbox(post(CHAT, chat('hi', { stream: true, ...more })))).text()).match(/"prompt_tokens":/g)
      ?.length ?? 0
  expect([await usages({}), await usages({ stream_options: { include_usage: true } })]).toEqual([0, 1])
})

test('a stream of generateContent without alt=sse is one JSON array', async () => {
  const path = '/v1beta/models/gemini:streamGenerateContent'
  const body = (text: string) => ({ contents: [{ parts: [{ text }] }] })
  const chunks = (await (await sandbox(post(path, body('[[reply: one two three four]]')))).json()) as Json[]
  expect(
    chunks
      .flatMap((chunk) => chunk['candidates']?.[0]?.content?.parts ?? [])
      .map((part: Json) => part['text'])
      .join(''),
  ).toBe('one two three four')
  const failed = (await (await sandbox(post(path, body('[[length: 9]] [[error-after: 1 503 busy]]')))).json()) as Json[]
  expect(failed.at(-1)).toMatchObject({ error: { message: 'busy', status: 'UNAVAILABLE' } })
})

test('media in the request is described in the response', async () => {
  const png = Buffer.alloc(1234).toString('base64')
  const answer = await postJson(CHAT, {
    model: 'chat',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'see' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
        ],
      },
    ],
  })
  expect(answer['choices'][0].message.content).toStartWith('You said: "see". You sent image/png 1234 bytes.')
})

test('[[think-redacted]] hides the text, [[think-unsigned]] leaves the signature out', async () => {
  const { content } = await postJson(
    '/v1/messages',
    ALL[2]!.body('[[think-redacted]] [[think-unsigned: hm]] [[reply: x]]', false),
  )
  expect(content).toEqual([
    { type: 'redacted_thinking', data: expect.any(String) },
    { type: 'thinking', thinking: 'hm', signature: '' },
    expect.objectContaining({ type: 'text', text: 'x' }),
  ])
})

test('[[cite]] adds a citation, [[stop]] sets the stop sequence', async () => {
  const cited = await postJson('/v1/responses', {
    model: 'responses',
    input: '[[reply: As scripted]] [[cite: https://example.com Title]]',
  })
  expect(cited['output'][0].content[0].annotations).toEqual([
    expect.objectContaining({ type: 'url_citation', url: 'https://example.com', title: 'Title' }),
  ])
  expect(await postJson('/v1/messages', ALL[2]!.body('[[reply: x]] [[stop: END]]', false))).toMatchObject({
    stop_reason: 'stop_sequence',
    stop_sequence: 'END',
  })
})

test('parallel_tool_calls: false leaves one of two calls', async () => {
  const tools = ['f', 'g'].map((name) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }))
  const calls = async (more: object) =>
    (await postJson(CHAT, chat('[[call: f]] [[call: g]]', { tools, ...more })))['choices'][0].message.tool_calls.length
  expect([await calls({}), await calls({ parallel_tool_calls: false })]).toEqual([2, 1])
})

describe('signatures in the history', () => {
  const first = async () => {
    const user = { role: 'user', content: '[[think: so]] [[call: f {"a":1}]] [[strict-signatures]]' }
    const answer = await postJson('/v1/messages', { model: 'messages', max_tokens: 99, messages: [user] })
    const call = answer['content'].find((block: Json) => block['type'] === 'tool_use')
    return {
      user,
      content: answer['content'] as Json[],
      result: { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'ok' }] },
    }
  }
  const send = (user: Json, content: Json[], result: Json) =>
    sandbox(
      post('/v1/messages', {
        model: 'messages',
        max_tokens: 99,
        messages: [user, { role: 'assistant', content }, result],
      }),
    )

  test('an unchanged signature is accepted', async () => {
    const { user, content, result } = await first()
    expect((await send(user, content, result)).status).toBe(200)
  })

  test('a missing signature is refused only with [[strict-signatures]]', async () => {
    const { user, content, result } = await first()
    const unsigned = content.filter((block) => block['type'] !== 'thinking')
    const refused = await send(user, unsigned, result)
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('messages[1].content[0].id: the tool call f came back without the signature'),
    ])
    expect(
      (await send({ ...user, content: user.content.replace('[[strict-signatures]]', '') }, unsigned, result)).status,
    ).toBe(200)
  })

  test.each([
    [
      'an altered signature',
      (block: Json) => ({
        ...block,
        signature: `${block['signature']}`.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      }),
      'altered',
    ],
    [
      'a signature of another text',
      (block: Json) => ({ ...block, thinking: 'not so' }),
      'does not match the reasoning it came with',
    ],
    [
      'the signature of another provider',
      (block: Json) => ({ ...block, signature: 'WVdGaA==' }),
      'was not issued by this model',
    ],
  ])('%s is refused with its path', async (_name, change, why) => {
    const { user, content, result } = await first()
    const refused = await send(
      user,
      content.map((block) => (block['type'] === 'thinking' ? change(block) : block)),
      result,
    )
    const text = await refused.text()
    expect([refused.status, text]).toEqual([400, expect.stringContaining('messages[1].content[0].signature')])
    expect(text).toContain(why)
  })
})

test('a compacted conversation is one item, which goes on in the next request', async () => {
  const compacted = (await postJson('/v1/responses/compact', { model: 'responses', input: 'one two three' })) as {
    output: object[]
  }
  expect(compacted).toMatchObject({
    object: 'response.compaction',
    output: [{ type: 'compaction', encrypted_content: expect.any(String) }],
    usage: { input_tokens: 3, output_tokens: 1, total_tokens: 4 },
  })
  const input = [...compacted.output, { role: 'user', content: '[[reply: on]]' }]
  expect(await postJson('/v1/responses', { model: 'responses', input })).toMatchObject({ status: 'completed' })
})

test('token counting endpoints return the prompt tokens', async () => {
  expect(
    await postJson('/v1/messages/count_tokens?beta=true', {
      model: 'messages',
      messages: [{ role: 'user', content: 'one two three' }],
    }),
  ).toEqual({ input_tokens: 3 })
  expect(await postJson('/v1/responses/input_tokens', { model: 'responses', input: 'one two three' })).toEqual({
    object: 'response.input_tokens',
    input_tokens: 3,
  })
  expect(await postJson('/v1beta/models/gemini:countTokens', { contents: [{ parts: [{ text: 'one two' }] }] })).toEqual(
    {
      totalTokens: 2,
    },
  )
})

test('models are listed in the format of the calling client', async () => {
  const get = async (path: string, headers: Record<string, string> = {}) =>
    (await sandbox(new Request(`http://sandbox${path}`, { headers }))).json() as Promise<Json>
  expect((await get('/v1/models'))['data'].map((model: Json) => model['id'])).toEqual([
    'chat',
    'responses',
    'messages',
    'gemini',
    'image',
    'prediction',
  ])
  expect((await get('/v1/models/sandbox%2Fchat'))['id']).toBe('chat')
  expect((await get('/v1/models', { 'anthropic-version': '2023-06-01' }))['data'][0].type).toBe('model')
  expect((await get('/v1/models', { 'anthropic-version': '2023-06-01' }))['last_id']).toBe('gemini')
  expect((await get('/v1beta/models'))['models'].map((model: Json) => model['name']).slice(3)).toEqual([
    'models/gemini',
  ])
  expect((await get('/v1/models/none'))['error'].code).toBe('model_not_found')
})

test.each([
  ['GET', CHAT, undefined, 405],
  ['POST', '/v1/nowhere', '{}', 404],
  ['POST', CHAT, '{', 400],
  ['POST', CHAT, '[]', 400],
  ['POST', CHAT, '{}', 400],
  ['GET', '/v1/%E0%A4%A', undefined, 400],
  ['GET', '/v1/images/generations', undefined, 405],
  ['POST', '/v1/images/generations', '[]', 400],
])('%s %s with body %s has status %d', async (method, path, body, status) => {
  expect(
    (await sandbox(new Request(`http://sandbox${path}`, { method, ...(body === undefined ? {} : { body }) }))).status,
  ).toBe(status)
})

describe('serveSandbox', () => {
  let server: ReturnType<typeof serveSandbox>
  beforeAll(() => {
    server = serveSandbox({ host: '127.0.0.1', port: 0 })
  })
  afterAll(() => server.stop())

  test('[[cut-after]] resets the connection', async () => {
    const response = await fetch(server.url + CHAT, {
      method: 'POST',
      body: JSON.stringify(chat('[[length: 30]] [[cut-after: 2]] [[pace: 1ms]]', { stream: true })),
    })
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toMatchObject({ code: 'ECONNRESET' })
  })

  test('an error response has the retry-after header', async () => {
    const response = await fetch(server.url + CHAT, {
      method: 'POST',
      body: JSON.stringify(chat('[[error: 429 retry-after=7]]')),
    })
    expect([
      response.status,
      response.headers.get('retry-after'),
      ((await response.json()) as Json)['error'].code,
    ]).toEqual([429, '7', 'rate_limit_exceeded'])
  })
})

test('a filler of any length has that many words, in the same order', async () => {
  const text = async (words: number): Promise<string> =>
    (await postJson(CHAT, chat(`[[length: ${words}]]`)))['choices'][0].message.content as string
  const all = (await text(100)).split(' ')
  expect(all.length).toBe(100)
  for (const words of [1, 2, 24, 25, 26, 48, 49, 50, 51, 99])
    expect([words, await text(words)]).toEqual([words, all.slice(0, words).join(' ')])
})

test('a long response that is not read takes little memory', async () => {
  const readers: unknown[] = []
  const begin = async (): Promise<void> => {
    const { body } = await sandbox(post(CHAT, chat('[[length: 100000]]', { stream: true })))
    const reader = body!.getReader()
    for (let frames = 0; frames < 5; frames++) await reader.read()
    readers.push(reader)
  }
  const sizeNow = (): number => {
    Bun.gc(true)
    return heapStats().heapSize + heapStats().extraMemorySize
  }
  await begin()
  const before = sizeNow()
  for (let clients = 0; clients < 20; clients++) await begin()
  expect((sizeNow() - before) / 20).toBeLessThan(300_000)
})
