import { describe, expect, test } from 'bun:test'
import { no, ok, post, table, useGateway, without, type Json, type Row, type Surface } from './kit.ts'

const gateway = useGateway()
const OWN = ['sandbox/messages']
const USER = { role: 'user', content: 'Hello' }

const refusal: Surface['refusal'] = (body) => {
  const { type, error, request_id } = body as {
    type: string
    error: { type: string; message: string }
    request_id: string
  }
  expect({ type, errorType: error.type }).toEqual({ type: 'error', errorType: 'invalid_request_error' })
  expect(request_id).toStartWith('req_')
  return { message: error.message, param: undefined }
}
const surface: Surface = {
  gateway,
  native: 'sandbox/messages',
  refusal,
  send: (model, patch) =>
    post(gateway, '/v1/messages', without({ model, max_tokens: 256, messages: [USER], ...patch })),
}
const counting: Surface = {
  ...surface,
  send: (model, patch) => post(gateway, '/v1/messages/count_tokens', without({ model, messages: [USER], ...patch })),
}

const SHARED: Row[] = [
  no('model is required', 'model', { model: undefined }),
  no('model is a string', 'model', { model: 5 }),
  no('model is not empty', 'model', { model: '' }),
  no('messages are required', 'messages', { messages: undefined }),
  no('messages null', 'messages', { messages: null }),
  no('messages are an array', 'messages', { messages: 'x' }),
  no('a message is an object', 'messages[0]', { messages: ['x'] }),
  no('role is required', 'messages[0].role', { messages: [{ content: 'x' }] }),
  no('role is a string', 'messages[0].role', { messages: [{ role: 5, content: 'x' }] }),
  no('role is known', 'messages[0].role', { messages: [{ role: 'robot', content: 'x' }] }),
  no('content is required', 'messages[0].content', { messages: [{ role: 'user' }] }),
  no('content null', 'messages[0].content', { messages: [{ role: 'user', content: null }] }),
  no('content is no number', 'messages[0].content', { messages: [{ role: 'user', content: 5 }] }),
  ok('string content', {}),
  ok('blocks', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }),
  ok('further members of a message', { messages: [{ ...USER, odd: { a: 1 } }] }),
  ok('further members of the body', { odd: { a: [1] } }),
  ok('ends with an assistant', { messages: [USER, { role: 'assistant', content: 'Hi' }] }),
  ok('two users in a row', { messages: [USER, USER] }),
  ok('system in mid-conversation', { messages: [USER, { role: 'system', content: 'x' }] }),
  ok('system', { system: 'Be brief' }),
  ok('system blocks', { system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] }),
  no('system is string or blocks', 'system', { system: 5 }),
  no('threads are not supported', 'thread', { thread: { type: 'create' } }, /not supported/),
]

table('messages', surface, [
  ...SHARED,
  no('max_tokens is required', 'max_tokens', { max_tokens: undefined }),
  no('max_tokens null', 'max_tokens', { max_tokens: null }),
  ...['5', 1.5, true, -1].map((max_tokens) =>
    no(`max_tokens ${JSON.stringify(max_tokens)}`, 'max_tokens', { max_tokens }),
  ),
  ...[1, 256, 2 ** 31, 2 ** 53].map((max_tokens) => ok(`max_tokens ${max_tokens}`, { max_tokens })),
  ok("max_tokens 0, which only fills the provider's cache", { max_tokens: 0 }, OWN),
  ...[true, false, null].map((stream) => ok(`stream ${stream}`, { stream })),
  no('stream is a boolean', 'stream', { stream: 'true' }),
])

const block = (value: unknown, role = 'user'): Json => ({ messages: [USER, { role, content: [value] }] })
const AT = 'messages[1].content[0]'
const USED = { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } }] }
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
table('content blocks', surface, [
  no('a block is an object', AT, block('x')),
  no('a block has a type', `${AT}.type`, block({ text: 'x' })),
  no('text is required', `${AT}.text`, block({ type: 'text' })),
  ok('no blocks', { messages: [USER, { role: 'user', content: [] }] }),
  ok('image', block(IMAGE)),
  ok('image by URL', block({ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } })),
  no('image source is required', `${AT}.source`, block({ type: 'image' })),
  no(
    'image data is required',
    `${AT}.source.data`,
    block({ type: 'image', source: { type: 'base64', media_type: 'image/png' } }),
  ),
  no(
    'image media_type is required',
    `${AT}.source.media_type`,
    block({ type: 'image', source: { type: 'base64', data: 'AAAA' } }),
  ),
  ok(
    'document',
    block({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0x' } }),
  ),
  ok('document of text', block({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } })),
  ok('use and result', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] }],
  }),
  ok('result without content', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] }],
  }),
  no('result has its id', 'messages[2].content[0].tool_use_id', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result' }] }],
  }),
  no('is_error is a boolean', 'messages[2].content[0].is_error', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', is_error: 'x' }] }],
  }),
  no('use has an id', `${AT}.id`, block({ type: 'tool_use', name: 'f', input: {} }, 'assistant')),
  no('use has a name', `${AT}.name`, block({ type: 'tool_use', id: 'toolu_1', input: {} }, 'assistant')),
  ok('thinking without a signature', {
    messages: [
      USER,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: '' },
          { type: 'text', text: 'x' },
        ],
      },
      USER,
    ],
  }),
  no('hidden thinking has data', `${AT}.data`, block({ type: 'redacted_thinking' }, 'assistant')),
])

const field = (name: string, good: unknown[], bad: unknown[]): Row[] => [
  ...good.map((value) => ok(`${name} ${JSON.stringify(value)}`, { [name]: value })),
  ...bad.map((value) => no(`${name} ${JSON.stringify(value)}`, name, { [name]: value })),
]
table('what real clients send', surface, [
  ...field('temperature', [0, 1, null], ['1']),
  ...field('top_p', [0, 1], ['1']),
  ...field('top_k', [1, 40], ['1', 1.5]),
  ...field('stop_sequences', [[], ['a']], ['a', {}]),
  ...field('metadata', [{}, { user_id: 'x' }, null], ['x']),
  ...field('service_tier', ['auto', null], [5]),
  ...field('thinking', [{ type: 'disabled' }, { type: 'adaptive', display: 'omitted' }, null], ['x']),
  ok('thinking with a budget', { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 4096 }),
  no('thinking has a type', 'thinking.type', { thinking: {} }),
  ...field('output_config', [{ effort: 'low' }, { effort: 'new' }, {}], ['x']),
  ...field('context_management', [{ edits: [] }], []),
  ...field(
    'tools',
    [
      [],
      [{ name: 'f', input_schema: { type: 'object' } }],
      [{ name: 'f', input_schema: { type: 'object' }, defer_loading: true }],
    ],
    ['x'],
  ),
  no('a tool has a name', 'tools[0].name', { tools: [{ input_schema: { type: 'object' } }] }),
  ok('choice', { tools: [{ name: 'f', input_schema: { type: 'object' } }], tool_choice: { type: 'tool', name: 'f' } }),
  no('choice is known', 'tool_choice.type', { tool_choice: { type: 'some' } }),
  no('choice of one has a name', 'tool_choice.name', { tool_choice: { type: 'tool' } }),
])

table('count_tokens', counting, [
  ...SHARED,
  ok('max_tokens is not needed', {}),
  ok('max_tokens', { max_tokens: 5 }),
  no('max_tokens is typed', 'max_tokens', { max_tokens: 'x' }),
])

describe('headers', () => {
  for (const headers of [
    { 'compat-version': '2025-01-01' },
    { 'anthropic-version': '2026-10-21' },
    { 'anthropic-version': 'anything' },
    { 'compat-version': 'x', 'anthropic-version': 'y', 'anthropic-beta': 'z-2026-01-01' },
  ] as Record<string, string>[]) {
    test(`accepted: ${JSON.stringify(headers)}`, async () => {
      const response = await post(
        gateway,
        '/v1/messages?beta=true',
        { model: 'sandbox/messages', max_tokens: 64, messages: [{ role: 'user', content: '[[echo: headers]]' }] },
        headers,
      )
      expect(response.status).toBe(200)
      const seen = JSON.stringify(await response.json())
      for (const value of Object.values(headers)) expect(seen).toContain(value)
    })
  }

  test('a thread is refused in the words that the SDK falls back upon', async () => {
    const response = await surface.send(OWN[0]!, { thread: { type: 'create' } })
    expect(response.status).toBe(400)
    expect(((await response.json()) as { error: { details: object } }).error.details).toMatchObject({
      error_code: 'thread_unsupported_request',
    })
  })
})
