import { expect, test } from 'bun:test'
import { FILES, no, ok, openAiRefusal, table, useGateway, type Json, type Row } from './kit.ts'
import {
  ACCEPTS_NO_INPUT,
  ID,
  items,
  optional,
  OWN,
  part,
  PNG,
  required,
  STATUS,
  surfaceOf,
  USER,
} from './responses-kit.ts'

const surface = surfaceOf(useGateway())

table('request', surface, [
  no('model is required', 'model', { model: undefined }),
  no('model is a string', 'model', { model: 7 }),
  no('model is not empty', 'model', { model: '' }),
  ok('input string', {}),
  ...(
    [
      ['absent', undefined],
      ['null', null],
      ['of no items', []],
      ['empty', ''],
    ] as const
  ).map(([how, input]) => ok(`input ${how}`, { input }, ACCEPTS_NO_INPUT)),
  ok('input absent, instructions given', { input: undefined, instructions: 'Say hello' }),
  no('input is string or array', 'input', { input: 5 }),
  no('input is no object', 'input', { input: { role: 'user', content: 'x' } }),
  no('an item is an object', 'input[0]', { input: ['Hello'] }),
  no('an item is not null', 'input[1]', items(null)),
  no('an item has a type', 'input[1].type', items({})),
  no("an item's type is a string", 'input[1].type', items({ type: 5, role: 'user', content: 'x' })),
  ok('stream false', { stream: false }),
  ok('stream true', { stream: true }),
  ok('stream null', { stream: null }),
  no('stream is a boolean', 'stream', { stream: 'true' }),
  ok('unknown fields', { new_field: [{ a: 1 }], input: [{ ...USER, odd: 1 }] }),
  ok('unknown item types', items({ type: 'new_call', id: 'x', odd: {} }), OWN),
])

test('an empty conversation is refused with the path of the client where the provider requires a message', async () => {
  for (const model of ['sandbox/chat', 'sandbox/messages']) {
    const response = await surface.send(model, { input: [] })
    expect(response.status).toBe(400)
    expect(openAiRefusal((await response.json()) as Json).param).toBe('input')
  }
})

table('messages', surface, [
  ...['user', 'assistant', 'system', 'developer'].flatMap((role) => [
    ok(`role ${role}`, items({ type: 'message', role, content: 'x' })),
    ok(`role ${role}, no type`, items({ role, content: 'x' })),
    ok(
      `role ${role}, parts`,
      items({ role, content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text: 'x' }] }),
    ),
  ]),
  ...STATUS.good.map((status) => ok(`status ${status}`, items({ ...USER, status }))),
  no('status is one of three', 'input[1].status', items({ ...USER, status: 'failed' })),
  no('role is required', 'input[1].role', items({ type: 'message', content: 'x' })),
  no('role is one of four', 'input[1].role', items({ role: 'tool', content: 'x' })),
  no('content is required', 'input[1].content', items({ role: 'user' })),
  no('content null', 'input[1].content', items({ role: 'user', content: null })),
  no('content is string or array', 'input[1].content', items({ role: 'user', content: {} })),
  ok('content of no parts', items({ role: 'user', content: [] })),
  ok('content empty', items({ role: 'user', content: '' })),
  no('a part is an object', 'input[1].content[0]', part('x')),
  no('a part has a type', 'input[1].content[0].type', part({ text: 'x' })),
  no('input_text has a text', 'input[1].content[0].text', part({ type: 'input_text' })),
  no('text is a string', 'input[1].content[0].text', part({ type: 'input_text', text: 5 })),
  ok('image by URL', part({ type: 'input_image', image_url: 'https://example.com/a.png', detail: 'auto' })),
  ok('image by data URL', part({ type: 'input_image', image_url: PNG })),
  ...['high', 'low', 'auto', null].map((detail) =>
    ok(`image detail ${detail}`, part({ type: 'input_image', image_url: PNG, detail })),
  ),
  no('image detail', 'input[1].content[0].detail', part({ type: 'input_image', image_url: PNG, detail: 'huge' })),
  no('image_url is a string', 'input[1].content[0].image_url', part({ type: 'input_image', image_url: { url: PNG } })),
  no('image_url is a URL', 'input[1].content[0].image_url', part({ type: 'input_image', image_url: 'nope' })),
  no(
    'image data is base64',
    'input[1].content[0].image_url',
    part({ type: 'input_image', image_url: 'data:image/png;base64,%%%' }),
  ),
  ok('image by file id', part({ type: 'input_image', file_id: FILES.png })),
  no('file id is a string', 'input[1].content[0].file_id', part({ type: 'input_image', file_id: 5 })),
  no('an image has a source', 'input[1].content[0]', part({ type: 'input_image' })),
  ok('file data', part({ type: 'input_file', file_data: 'JVBERi0x', filename: 'a.pdf' })),
  ok(
    'file data URL',
    part({ type: 'input_file', file_data: 'data:application/pdf;base64,JVBERi0x', filename: 'a.pdf' }),
  ),
  ok('file data without a name', part({ type: 'input_file', file_data: 'JVBERi0x' })),
  ok('file by URL', part({ type: 'input_file', file_url: 'https://example.com/a.pdf' }), [
    'sandbox/responses',
    'sandbox/messages',
    'sandbox/gemini',
  ]),
  ok('file by id', part({ type: 'input_file', file_id: FILES.pdf })),
  no('file data is a string', 'input[1].content[0].file_data', part({ type: 'input_file', file_data: 5 })),
  no('file data is base64', 'input[1].content[0].file_data', part({ type: 'input_file', file_data: '***' })),
  no('file url is a string', 'input[1].content[0].file_url', part({ type: 'input_file', file_url: 5 })),
  no(
    'filename is a string',
    'input[1].content[0].filename',
    part({ type: 'input_file', file_data: 'JVBERi0x', filename: 5 }),
  ),
  no('a file has a source', 'input[1].content[0]', part({ type: 'input_file' })),
])

const OUTPUT = { type: 'message', role: 'assistant', id: 'msg_1', status: 'completed' }
const output = (content: unknown, more: Json = {}): Json => items({ ...OUTPUT, content, ...more })
table('output messages in the input', surface, [
  ok('text', output([{ type: 'output_text', text: 'x', annotations: [], logprobs: [] }])),
  ok('refusal', output([{ type: 'refusal', refusal: 'no' }])),
  ok(
    'both',
    output([
      { type: 'output_text', text: 'x', annotations: [] },
      { type: 'refusal', refusal: 'no' },
    ]),
  ),
  ...[
    { type: 'file_citation', index: 0, file_id: 'file-1', filename: 'a.txt' },
    { type: 'url_citation', url: 'https://example.com', title: 't', start_index: 0, end_index: 1 },
    { type: 'container_file_citation', container_id: 'c', file_id: 'f', filename: 'a', start_index: 0, end_index: 1 },
    { type: 'file_path', index: 0, file_id: 'f' },
  ].map((annotation) =>
    ok(
      `annotation ${annotation.type}`,
      output([{ type: 'output_text', text: 'x', annotations: [annotation], logprobs: [] }]),
    ),
  ),
  no('text is required', 'input[1].content[0].text', output([{ type: 'output_text', annotations: [] }])),
  no(
    'annotations are an array',
    'input[1].content[0].annotations',
    output([{ type: 'output_text', text: 'x', annotations: {} }]),
  ),
  no(
    'logprobs are an array',
    'input[1].content[0].logprobs',
    output([{ type: 'output_text', text: 'x', annotations: [], logprobs: {} }]),
  ),
  no('refusal is required', 'input[1].content[0].refusal', output([{ type: 'refusal' }])),
  no('refusal is a string', 'input[1].content[0].refusal', output([{ type: 'refusal', refusal: 5 }])),
  no('status is one of three', 'input[1].status', output('x', { status: 'done' })),
  no('id is a string', 'input[1].id', output('x', { id: 5 })),
])

const CALL = { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' }
const RESULT = { type: 'function_call_output', call_id: 'call_1', output: 'sunny' }
const CUSTOM = { type: 'custom_tool_call', call_id: 'call_2', name: 'run', input: 'ls' }
const CUSTOM_RESULT = { type: 'custom_tool_call_output', call_id: 'call_2', output: 'files' }
table('calls and their outputs', surface, [
  ok('a call and its output', items(CALL, RESULT)),
  ok('a call alone', items(CALL)),
  ok('arguments that are no JSON', items({ ...CALL, arguments: '{"a":' }, RESULT)),
  ok('arguments empty', items({ ...CALL, arguments: '' }, RESULT)),
  ok(
    'output parts',
    items(CALL, {
      ...RESULT,
      output: [
        { type: 'input_text', text: 'x' },
        { type: 'input_image', image_url: PNG },
      ],
    }),
  ),
  ok('output empty', items(CALL, { ...RESULT, output: '' })),
  ...required(CALL, { call_id: 5, name: 5, arguments: {} }),
  ...optional(CALL, { id: ID, status: STATUS }),
  ...required(RESULT, { call_id: 5, output: 5 }, [CALL]),
  ...optional(RESULT, { id: ID, status: STATUS }, undefined, [CALL]),
  no('output part has a type', 'input[2].output[0].type', items(CALL, { ...RESULT, output: [{}] })),
  ok('a custom call and its output', items(CUSTOM, CUSTOM_RESULT)),
  ok('custom output parts', items(CUSTOM, { ...CUSTOM_RESULT, output: [{ type: 'input_text', text: 'x' }] })),
  ...required(CUSTOM, { call_id: 5, name: 5, input: {} }),
  ...optional(CUSTOM, { id: ID }),
  ...required(CUSTOM_RESULT, { call_id: 5, output: 5 }, [CUSTOM]),
  ...optional(CUSTOM_RESULT, { id: ID }, undefined, [CUSTOM]),
])

const field = (name: string, good: unknown[], bad: unknown[]): Row[] => [
  ...good.map((value) => ok(`${name} ${JSON.stringify(value)}`, { [name]: value })),
  ...bad.map((value) => no(`${name} ${JSON.stringify(value)}`, name, { [name]: value })),
]
table('other fields, as the response object has them', surface, [
  ...field('instructions', ['Be brief', null], [5]),
  ...field('max_output_tokens', [null, 64, 2 ** 31], ['5', 1.5, 0, -1]),
  ...field('max_tool_calls', [null, 3], ['3', 1.5]),
  ...field('parallel_tool_calls', [true, false, null], ['x']),
  ...field('temperature', [0, 2, 5, null], ['1']),
  ...field('top_p', [0, 1, null], ['1']),
  ...field('top_logprobs', [0, 20, null], ['5', -1]),
  ...field('store', [true, false, null], ['x']),
  ...field('truncation', ['auto', 'disabled', null], [5]),
  ...field('metadata', [{}, { a: 'b' }, null], ['x', []]),
  ...field('user', ['ada', null], [5]),
  ...field('safety_identifier', ['ada', null], [5]),
  ...field('prompt_cache_key', ['k', null], [5]),
  ...field('service_tier', ['auto', 'default', null], [5]),
  ...field(
    'text',
    [
      {},
      { format: { type: 'text' } },
      { format: { type: 'json_object' } },
      { format: { type: 'json_schema', name: 'a', schema: { type: 'object' } } },
      { verbosity: 'low' },
      null,
    ],
    ['x'],
  ),
  ...field(
    'reasoning',
    [{}, { effort: 'low', summary: 'auto' }, { effort: 'ultra' }, { effort: null, summary: null }, null],
    ['low'],
  ),
  ...field('include', [[], ['reasoning.encrypted_content'], null], ['x']),
  ...field(
    'tools',
    [[], null, [{ type: 'function', name: 'f', parameters: null, strict: null }], [{ type: 'custom', name: 'c' }]],
    ['x', {}],
  ),
  ...field('tool_choice', ['auto', 'none', null], [5, 'any']),
  ...field('previous_response_id', [null], [5]),
  ok('choice of one function', {
    tools: [{ type: 'function', name: 'f' }],
    tool_choice: { type: 'function', name: 'f' },
  }),
  no('a tool has a type', 'tools[0].type', { tools: [{ name: 'f' }] }),
  no('a function has a name', 'tools[0].name', { tools: [{ type: 'function' }] }),
  no('parameters are an object', 'tools[0].parameters', { tools: [{ type: 'function', name: 'f', parameters: 5 }] }),
  no('conversation is not supported', 'conversation', { conversation: 'conv_1' }, /is not supported/),
])
