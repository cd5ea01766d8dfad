import { expect, test } from 'bun:test'
import {
  FILES,
  no,
  ok,
  openAiRefusal,
  post,
  table,
  useGateway,
  without,
  type Json,
  type Row,
  type Surface,
} from './kit.ts'

const gateway = useGateway()
const PNG = 'data:image/png;base64,iVBORw0KGgo='
const OWN = ['sandbox/responses']
/** The other protocols need a message: there is none to send. */
const TAKES_NOTHING = ['sandbox/responses', 'sandbox/gemini']

const surface: Surface = {
  gateway,
  native: 'sandbox/responses',
  refusal: openAiRefusal,
  send: (model, patch) => post(gateway, '/v1/responses', without({ model, input: 'Hello', ...patch })),
}

const USER = { role: 'user', content: 'Hello' }
const items = (...input: unknown[]): Json => ({ input: [USER, ...input] })
const part = (value: unknown): Json => items({ role: 'user', content: [value] })

/** Every member of an item that is required, left out and given a wrong type. `at`: the item's path. */
function required(item: Json, wrongs: Record<string, unknown>, before: unknown[] = []): Row[] {
  const at = `input[${1 + before.length}]`
  return Object.entries(wrongs).flatMap(([name, wrong]) => [
    no(
      `${String(item.type)}: ${name} is required`,
      `${at}.${name}`,
      items(...before, without({ ...item, [name]: undefined })),
    ),
    no(`${String(item.type)}: ${name} null is missing`, `${at}.${name}`, items(...before, { ...item, [name]: null })),
    no(`${String(item.type)}: ${name} of a wrong type`, `${at}.${name}`, items(...before, { ...item, [name]: wrong })),
  ])
}

/** Members that may be absent or null, and are typed where they are there. */
function optional(
  item: Json,
  members: Record<string, { good: unknown[]; bad: unknown }>,
  only?: readonly string[],
  before: unknown[] = [],
): Row[] {
  return Object.entries(members).flatMap(([name, { good, bad }]) => [
    ...[...good, null].map((value) =>
      ok(`${String(item.type)}: ${name} ${JSON.stringify(value)}`, items(...before, { ...item, [name]: value }), only),
    ),
    no(
      `${String(item.type)}: ${name} of a wrong type`,
      `input[${1 + before.length}].${name}`,
      items(...before, { ...item, [name]: bad }),
    ),
  ])
}

const STATUS = { good: ['in_progress', 'completed', 'incomplete'], bad: 'done' }
const ID = { good: ['x_1'], bad: 5 }

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
  ).map(([how, input]) => ok(`input ${how}`, { input }, TAKES_NOTHING)),
  ok('input absent, instructions given', { input: undefined, instructions: 'Say hello' }),
  no('input is string or array', 'input', { input: 5 }),
  no('input is no object', 'input', { input: { role: 'user', content: 'x' } }),
  no('an item is an object', 'input[0]', { input: ['Hello'] }),
  no('an item is not null', 'input[1]', items(null)),
  no('an item says what it is', 'input[1].type', items({})),
  no("an item's type is a string", 'input[1].type', items({ type: 5, role: 'user', content: 'x' })),
  ok('stream false', { stream: false }),
  ok('stream true', { stream: true }),
  ok('stream null', { stream: null }),
  no('stream is a boolean', 'stream', { stream: 'true' }),
  ok('unknown fields', { new_field: [{ a: 1 }], input: [{ ...USER, odd: 1 }] }),
  ok('unknown item types', items({ type: 'new_call', id: 'x', odd: {} }), OWN),
])

test("a conversation of nothing is refused in the client's own words where the provider needs a message", async () => {
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
  no('an image of nothing', 'input[1].content[0]', part({ type: 'input_image' })),
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
  no('a file of nothing', 'input[1].content[0]', part({ type: 'input_file' })),
])

const OUTPUT = { type: 'message', role: 'assistant', id: 'msg_1', status: 'completed' }
const said = (content: unknown, more: Json = {}): Json => items({ ...OUTPUT, content, ...more })
table('output messages fed back', surface, [
  ok('text', said([{ type: 'output_text', text: 'x', annotations: [], logprobs: [] }])),
  ok('refusal', said([{ type: 'refusal', refusal: 'no' }])),
  ok(
    'both',
    said([
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
      said([{ type: 'output_text', text: 'x', annotations: [annotation], logprobs: [] }]),
    ),
  ),
  no('text is required', 'input[1].content[0].text', said([{ type: 'output_text', annotations: [] }])),
  no(
    'annotations are an array',
    'input[1].content[0].annotations',
    said([{ type: 'output_text', text: 'x', annotations: {} }]),
  ),
  no(
    'logprobs are an array',
    'input[1].content[0].logprobs',
    said([{ type: 'output_text', text: 'x', annotations: [], logprobs: {} }]),
  ),
  no('refusal is required', 'input[1].content[0].refusal', said([{ type: 'refusal' }])),
  no('refusal is a string', 'input[1].content[0].refusal', said([{ type: 'refusal', refusal: 5 }])),
  no('status is one of three', 'input[1].status', said('x', { status: 'done' })),
  no('id is a string', 'input[1].id', said('x', { id: 5 })),
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

const SEARCH = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } }
const act = (action: unknown): Json => items({ ...SEARCH, action })
table('web_search_call', surface, [
  ok(
    'search',
    act({ type: 'search', query: 'x', queries: ['x'], sources: [{ type: 'url', url: 'https://example.com' }] }),
  ),
  ok('search by nothing but its type', act({ type: 'search' })),
  ok('open_page', act({ type: 'open_page', url: 'https://example.com' })),
  ok('find', act({ type: 'find', url: 'https://example.com', pattern: 'x' })),
  ...required(SEARCH, { id: 5, status: 5, action: 'search' }),
  no('an action has a type', 'input[1].action.type', act({ query: 'x' })),
  no('query is a string', 'input[1].action.query', act({ type: 'search', query: 5 })),
  no('queries are strings', 'input[1].action.queries[0]', act({ type: 'search', queries: [5] })),
  no('sources are an array', 'input[1].action.sources', act({ type: 'search', sources: {} })),
  no('a source is of type url', 'input[1].action.sources[0].type', act({ type: 'search', sources: [{ url: 'x' }] })),
  no('open_page url is a string', 'input[1].action.url', act({ type: 'open_page', url: 5 })),
  no('find has a url', 'input[1].action.url', act({ type: 'find', pattern: 'x' })),
  no('find has a pattern', 'input[1].action.pattern', act({ type: 'find', url: 'x' })),
])

const CLICK = { type: 'click', x: 1, y: 2, button: 'left' }
const COMPUTER = { type: 'computer_call', call_id: 'call_3', action: CLICK }
const SCREEN = {
  type: 'computer_call_output',
  call_id: 'call_3',
  output: { type: 'computer_screenshot', image_url: PNG },
}
const move = (action: unknown): Json => items({ ...COMPUTER, action }, SCREEN)
const AT = 'input[1].action'
table('computer calls', surface, [
  ...['left', 'right', 'middle'].map((button) => ok(`click ${button}`, move({ ...CLICK, button }), OWN)),
  ok('double_click', move({ type: 'double_click', x: 1, y: 2 }), OWN),
  ok('move', move({ type: 'move', x: 1, y: 2 }), OWN),
  ok('screenshot', move({ type: 'screenshot' }), OWN),
  ok(
    'drag',
    move({
      type: 'drag',
      path: [
        { x: 1, y: 2 },
        { x: 3, y: 4 },
      ],
    }),
    OWN,
  ),
  ok('scroll', move({ type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: -5 }), OWN),
  ok('type', move({ type: 'type', text: 'x' }), OWN),
  ok('keypress', move({ type: 'keypress', keys: ['CTRL', 'c'] }), OWN),
  ok('wait', move({ type: 'wait' }), OWN),
  no('button is a known one', `${AT}.button`, move({ ...CLICK, button: 'nose' })),
  no('click has an x', `${AT}.x`, move({ type: 'click', y: 2, button: 'left' })),
  no('click y is a number', `${AT}.y`, move({ ...CLICK, y: '2' })),
  no('double_click has a y', `${AT}.y`, move({ type: 'double_click', x: 1 })),
  no('move has an x', `${AT}.x`, move({ type: 'move', y: 1 })),
  no('drag has a path', `${AT}.path`, move({ type: 'drag' })),
  no('a path has points', `${AT}.path[0].y`, move({ type: 'drag', path: [{ x: 1 }] })),
  no('scroll has scroll_x', `${AT}.scroll_x`, move({ type: 'scroll', x: 1, y: 2, scroll_y: 3 })),
  no('scroll has scroll_y', `${AT}.scroll_y`, move({ type: 'scroll', x: 1, y: 2, scroll_x: 3 })),
  no('type has a text', `${AT}.text`, move({ type: 'type' })),
  no('keypress has keys', `${AT}.keys`, move({ type: 'keypress' })),
  no('keys are strings', `${AT}.keys[0]`, move({ type: 'keypress', keys: [5] })),
  no('an action has a type', `${AT}.type`, move({ x: 1 })),
  ...required(COMPUTER, { call_id: 5, action: 'click' }),
  ...optional(
    COMPUTER,
    { id: ID, status: STATUS, pending_safety_checks: { good: [[], [{ id: 'a', code: 'b', message: 'c' }]], bad: 'x' } },
    OWN,
  ),
  ...required(SCREEN, { call_id: 5, output: 'x' }, [COMPUTER]),
  ...optional(
    SCREEN,
    { id: ID, status: STATUS, acknowledged_safety_checks: { good: [[], [{ id: 'a' }]], bad: 'x' } },
    OWN,
    [COMPUTER],
  ),
  ok(
    'a screenshot by file id',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', file_id: FILES.png } }),
    OWN,
  ),
  no('a screenshot has its type', 'input[2].output.type', items(COMPUTER, { ...SCREEN, output: { image_url: PNG } })),
  no(
    "a screenshot's type is the one",
    'input[2].output.type',
    items(COMPUTER, { ...SCREEN, output: { type: 'picture' } }),
  ),
  no(
    'file_id is a string',
    'input[2].output.file_id',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', file_id: 5 } }),
  ),
  no(
    'image_url is a string',
    'input[2].output.image_url',
    items(COMPUTER, { ...SCREEN, output: { type: 'computer_screenshot', image_url: 5 } }),
  ),
])

const EXEC = { type: 'exec', command: ['ls'], env: { A: 'b' } }
const LOCAL = { type: 'local_shell_call', id: 'ls_1', call_id: 'call_4', status: 'completed', action: EXEC }
const LOCAL_OUT = { type: 'local_shell_call_output', id: 'ls_1', output: '{"stdout":""}' }
const SHELL = { type: 'shell_call', call_id: 'call_5', action: { commands: ['ls'] } }
const SHELL_OUT = {
  type: 'shell_call_output',
  call_id: 'call_5',
  output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
}
const exec = (more: Json): Json => items({ ...LOCAL, action: without({ ...EXEC, ...more }) })
const shell = (more: Json): Json => items({ ...SHELL, action: without({ commands: ['ls'], ...more }) })
const out = (one: unknown): Json => items(SHELL, { ...SHELL_OUT, output: [one] })
table('shell calls', surface, [
  ok('local call and output', items(LOCAL, LOCAL_OUT), OWN),
  ok('all of an action', exec({ timeout_ms: 5, user: 'root', working_directory: '/' }), OWN),
  ok('no variables', exec({ env: {} }), OWN),
  ...required(LOCAL, { id: 5, call_id: 5, status: 'done', action: 'exec' }),
  no('type is exec', 'input[1].action.type', exec({ type: 'run' })),
  no('command is required', 'input[1].action.command', exec({ command: undefined })),
  no('command is an array', 'input[1].action.command', exec({ command: 'ls' })),
  no('command holds strings', 'input[1].action.command[0]', exec({ command: [5] })),
  no('env is required', 'input[1].action.env', exec({ env: undefined })),
  no('env is a map', 'input[1].action.env', exec({ env: [] })),
  no('env holds strings', 'input[1].action.env.A', exec({ env: { A: 5 } })),
  no('timeout_ms is an integer', 'input[1].action.timeout_ms', exec({ timeout_ms: 1.5 })),
  no('user is a string', 'input[1].action.user', exec({ user: 5 })),
  no('working_directory is a string', 'input[1].action.working_directory', exec({ working_directory: 5 })),
  ...required(LOCAL_OUT, { id: 5, output: {} }, [LOCAL]),
  ...optional(LOCAL_OUT, { status: STATUS }, OWN, [LOCAL]),
  ok('call and output', items(SHELL, SHELL_OUT), OWN),
  ok('all of an action', shell({ max_output_length: 5, timeout_ms: 5 }), OWN),
  ...required(SHELL, { call_id: 5, action: 'x' }),
  ...optional(SHELL, { id: ID, status: STATUS }, OWN),
  no('commands are required', 'input[1].action.commands', shell({ commands: undefined })),
  no('commands hold strings', 'input[1].action.commands[0]', shell({ commands: [5] })),
  no('max_output_length is an integer', 'input[1].action.max_output_length', shell({ max_output_length: 'x' })),
  no('timeout_ms is an integer', 'input[1].action.timeout_ms', shell({ timeout_ms: 'x' })),
  ...required(SHELL_OUT, { call_id: 5, output: 'x' }, [SHELL]),
  ...optional(SHELL_OUT, { id: ID, max_output_length: { good: [5], bad: 'x' } }, OWN, [SHELL]),
  ok('a timeout', out({ stdout: '', stderr: '', outcome: { type: 'timeout' } }), OWN),
  ok('nothing said', items(SHELL, { ...SHELL_OUT, output: [] }), OWN),
  no('stdout is required', 'input[2].output[0].stdout', out({ stderr: '', outcome: { type: 'timeout' } })),
  no('stderr is required', 'input[2].output[0].stderr', out({ stdout: '', outcome: { type: 'timeout' } })),
  no('outcome is required', 'input[2].output[0].outcome', out({ stdout: '', stderr: '' })),
  no('outcome has a type', 'input[2].output[0].outcome.type', out({ stdout: '', stderr: '', outcome: {} })),
  no(
    'exit has a code',
    'input[2].output[0].outcome.exit_code',
    out({ stdout: '', stderr: '', outcome: { type: 'exit' } }),
  ),
  no(
    'exit_code is an integer',
    'input[2].output[0].outcome.exit_code',
    out({ stdout: '', stderr: '', outcome: { type: 'exit', exit_code: 0.5 } }),
  ),
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
  no('conversations are not kept', 'conversation', { conversation: 'conv_1' }, /not kept/),
])
