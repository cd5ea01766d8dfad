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
  no('model must be a string', 'model', { model: 5 }),
  no('model must not be empty', 'model', { model: '' }),
  no('messages are required', 'messages', { messages: undefined }),
  no('messages must not be null', 'messages', { messages: null }),
  no('messages must be an array', 'messages', { messages: 'x' }),
  no('a message must be an object', 'messages[0]', { messages: ['x'] }),
  no('role is required', 'messages[0].role', { messages: [{ content: 'x' }] }),
  no('role must be a string', 'messages[0].role', { messages: [{ role: 5, content: 'x' }] }),
  no('role must be a known role', 'messages[0].role', { messages: [{ role: 'robot', content: 'x' }] }),
  no('content is required', 'messages[0].content', { messages: [{ role: 'user' }] }),
  no('content must not be null', 'messages[0].content', { messages: [{ role: 'user', content: null }] }),
  no('content must not be a number', 'messages[0].content', { messages: [{ role: 'user', content: 5 }] }),
  ok('content may be a string', {}),
  ok('content may be blocks', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }),
  ok('a message may have unknown members', { messages: [{ ...USER, odd: { a: 1 } }] }),
  ok('the body may have unknown members', { odd: { a: [1] } }),
  ok('the conversation may end with the assistant', { messages: [USER, { role: 'assistant', content: 'Hi' }] }),
  ok('the user may have two messages in a row', { messages: [USER, USER] }),
  ok('a system message may be inside the conversation', { messages: [USER, { role: 'system', content: 'x' }] }),
  ok('system may be a string', { system: 'Be brief' }),
  ok('system may be blocks', { system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] }),
  no('system must be a string or blocks', 'system', { system: 5 }),
  no('threads are not supported', 'thread', { thread: { type: 'create' } }, /not supported/),
]

table('messages', surface, [
  ...SHARED,
  no('max_tokens is required', 'max_tokens', { max_tokens: undefined }),
  no('max_tokens must not be null', 'max_tokens', { max_tokens: null }),
  ...['5', 1.5, true, -1].map((max_tokens) =>
    no(`max_tokens must not be ${JSON.stringify(max_tokens)}`, 'max_tokens', { max_tokens }),
  ),
  ...[1, 256, 2 ** 31, 2 ** 53].map((max_tokens) => ok(`max_tokens may be ${max_tokens}`, { max_tokens })),
  ok("max_tokens may be 0, which only fills the provider's cache", { max_tokens: 0 }, OWN),
  ...[true, false, null].map((stream) => ok(`stream may be ${stream}`, { stream })),
  no('stream must be a boolean', 'stream', { stream: 'true' }),
])

const block = (value: unknown, role = 'user'): Json => ({ messages: [USER, { role, content: [value] }] })
const AT = 'messages[1].content[0]'
const USED = { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } }] }
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
table('content blocks', surface, [
  no('a block must be an object', AT, block('x')),
  no('a block must have a type', `${AT}.type`, block({ text: 'x' })),
  no('the text of a block is required', `${AT}.text`, block({ type: 'text' })),
  ok('content may be an empty list', { messages: [USER, { role: 'user', content: [] }] }),
  ok('an image may be base64', block(IMAGE)),
  ok('an image may be a URL', block({ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } })),
  no('the source of an image is required', `${AT}.source`, block({ type: 'image' })),
  no(
    'the data of an image is required',
    `${AT}.source.data`,
    block({ type: 'image', source: { type: 'base64', media_type: 'image/png' } }),
  ),
  no(
    'the media_type of an image is required',
    `${AT}.source.media_type`,
    block({ type: 'image', source: { type: 'base64', data: 'AAAA' } }),
  ),
  ok(
    'a document may be base64',
    block({ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0x' } }),
  ),
  ok(
    'a document may be text',
    block({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } }),
  ),
  ok('a tool result may follow its call', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] }],
  }),
  ok('a tool result may have no content', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] }],
  }),
  no('a tool result must have the id of its call', 'messages[2].content[0].tool_use_id', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result' }] }],
  }),
  no('is_error must be a boolean', 'messages[2].content[0].is_error', {
    messages: [USER, USED, { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', is_error: 'x' }] }],
  }),
  no('a tool call must have an id', `${AT}.id`, block({ type: 'tool_use', name: 'f', input: {} }, 'assistant')),
  no('a tool call must have a name', `${AT}.name`, block({ type: 'tool_use', id: 'toolu_1', input: {} }, 'assistant')),
  ok('thinking may be unsigned', {
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
  no('redacted thinking must have data', `${AT}.data`, block({ type: 'redacted_thinking' }, 'assistant')),
])

const field = (name: string, good: unknown[], bad: unknown[]): Row[] => [
  ...good.map((value) => ok(`${name} may be ${JSON.stringify(value)}`, { [name]: value })),
  ...bad.map((value) => no(`${name} must not be ${JSON.stringify(value)}`, name, { [name]: value })),
]
table('what real clients send', surface, [
  ...field('temperature', [0, 1, null], ['1']),
  ...field('top_p', [0, 1], ['1']),
  ...field('top_k', [1, 40], ['1', 1.5]),
  ...field('stop_sequences', [[], ['a']], ['a', {}]),
  ...field('metadata', [{}, { user_id: 'x' }, null], ['x']),
  ...field('service_tier', ['auto', null], [5]),
  ...field('thinking', [{ type: 'disabled' }, { type: 'adaptive', display: 'omitted' }, null], ['x']),
  ok('thinking may have a budget', { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 4096 }),
  no('thinking must have a type', 'thinking.type', { thinking: {} }),
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
  no('a tool must have a name', 'tools[0].name', { tools: [{ input_schema: { type: 'object' } }] }),
  ok('tool_choice may be one tool', {
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    tool_choice: { type: 'tool', name: 'f' },
  }),
  no('tool_choice must have a known type', 'tool_choice.type', { tool_choice: { type: 'some' } }),
  no('tool_choice of one tool must have a name', 'tool_choice.name', { tool_choice: { type: 'tool' } }),
])

table('count_tokens', counting, [
  ...SHARED,
  ok('max_tokens is optional', {}),
  ok('max_tokens may be given', { max_tokens: 5 }),
  no('max_tokens must be a number', 'max_tokens', { max_tokens: 'x' }),
])

describe('headers', () => {
  for (const headers of [
    { 'compat-version': '2025-01-01' },
    { 'anthropic-version': '2026-10-21' },
    { 'anthropic-version': 'anything' },
    { 'compat-version': 'x', 'anthropic-version': 'y', 'anthropic-beta': 'z-2026-01-01' },
  ] as Record<string, string>[]) {
    test(`the headers ${JSON.stringify(headers)} are passed on`, async () => {
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

  test('a thread is refused with the error code for which the SDK sends the full conversation', async () => {
    const response = await surface.send(OWN[0]!, { thread: { type: 'create' } })
    expect(response.status).toBe(400)
    expect(((await response.json()) as { error: { details: object } }).error.details).toMatchObject({
      error_code: 'thread_unsupported_request',
    })
  })
})
