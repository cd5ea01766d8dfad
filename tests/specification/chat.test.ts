import { FILES, many, no, ok, table, useGateway, type Json } from './kit.ts'
import { part, PNG, say, surfaceOf, USER } from './chat-kit.ts'

const surface = surfaceOf(useGateway())

const TOOL = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'd',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}
const CUSTOM = { type: 'custom', custom: { name: 'run', description: 'd', format: { type: 'text' } } }

table('model and messages', surface, [
  no('model is required', 'model', { model: undefined }),
  no('model is a string', 'model', { model: 7 }),
  no('model null is missing', 'model', { model: null }),
  no('model is not empty', 'model', { model: '' }),
  no('messages is required', 'messages', { messages: undefined }),
  no('messages null is missing', 'messages', { messages: null }),
  no('messages is an array', 'messages', { messages: 'Hello' }),
  no('messages is an array, not an object', 'messages', { messages: { role: 'user' } }),
  no('messages holds objects', 'messages[0]', { messages: ['Hello'] }),
  no('messages holds no null', 'messages[1]', { messages: [USER, null] }),
  no('messages are not empty', 'messages', { messages: [] }),
  ok('unknown fields anywhere', {
    new_field: { deep: [1] },
    messages: [{ ...USER, odd: 1, content: [{ type: 'text', text: 'x', odd: 2 }] }],
  }),
])

table(
  'developer and system messages',
  surface,
  ['developer', 'system'].flatMap((role) => [
    ok(`${role}: string`, { messages: [{ role, content: 'Be brief' }, USER] }),
    ok(`${role}: text parts`, { messages: [{ role, content: [{ type: 'text', text: 'Be brief' }] }, USER] }),
    ok(`${role}: name`, { messages: [{ role, content: 'Be brief', name: 'boss' }, USER] }),
    ok(`${role}: in mid-conversation`, say({ role, content: 'Be brief' }, { role: 'assistant', content: 'Hi' })),
    ok(`${role}: empty string`, { messages: [{ role, content: '' }, USER] }),
    no(`${role}: content is required`, 'messages[0].content', { messages: [{ role }, USER] }),
    no(`${role}: content null`, 'messages[0].content', { messages: [{ role, content: null }, USER] }),
    no(`${role}: content is string or array`, 'messages[0].content', { messages: [{ role, content: 7 }, USER] }),
    no(`${role}: only text parts`, 'messages[0].content[0].type', {
      messages: [{ role, content: [{ type: 'image_url', image_url: { url: PNG } }] }, USER],
    }),
    no(`${role}: unknown part`, 'messages[0].content[0].type', {
      messages: [{ role, content: [{ type: 'odd' }] }, USER],
    }),
    no(`${role}: part without text`, 'messages[0].content[0].text', {
      messages: [{ role, content: [{ type: 'text' }] }, USER],
    }),
    no(`${role}: name is a string`, 'messages[0].name', { messages: [{ role, content: 'x', name: 5 }, USER] }),
  ]),
)

table('roles', surface, [
  no('role is required', 'messages[0].role', { messages: [{ content: 'x' }] }),
  no('role is one of five', 'messages[0].role', { messages: [{ role: 'robot', content: 'x' }] }),
  no('role is a string', 'messages[0].role', { messages: [{ role: 5, content: 'x' }] }),
  no('function role is not supported', 'messages[1].role', say({ role: 'function', name: 'f', content: 'x' })),
])

table('user messages', surface, [
  ok('string', say(USER)),
  ok('empty string', say({ role: 'user', content: '' })),
  ok('no parts', say({ role: 'user', content: [] })),
  ok('name', say({ ...USER, name: 'ada' })),
  no('content is required', 'messages[0].content', { messages: [{ role: 'user' }] }),
  no('content null', 'messages[0].content', { messages: [{ role: 'user', content: null }] }),
  no('content number', 'messages[0].content', { messages: [{ role: 'user', content: 4 }] }),
  no('content object', 'messages[0].content', { messages: [{ role: 'user', content: { type: 'text', text: 'x' } }] }),
  no('part is an object', 'messages[1].content[0]', say({ role: 'user', content: ['x'] })),
  no('part type is required', 'messages[1].content[0].type', part({ text: 'x' })),
  no('part type is a string', 'messages[1].content[0].type', part({ type: 3, text: 'x' })),
  no('text is required', 'messages[1].content[0].text', part({ type: 'text' })),
  no('text is a string', 'messages[1].content[0].text', part({ type: 'text', text: 1 })),
  no("refusal parts are the assistant's", 'messages[1].content[0].type', part({ type: 'refusal', refusal: 'no' })),
  ok('image data URL', part({ type: 'image_url', image_url: { url: PNG } })),
  ok('image URL', part({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } })),
  ...['low', 'high', 'auto', null].map((detail) =>
    ok(`image detail ${detail}`, part({ type: 'image_url', image_url: { url: PNG, detail } })),
  ),
  no(
    'image detail is one of three',
    'messages[1].content[0].image_url.detail',
    part({ type: 'image_url', image_url: { url: PNG, detail: 'huge' } }),
  ),
  no('image_url is required', 'messages[1].content[0].image_url', part({ type: 'image_url' })),
  ok('image_url as text, as Mistral has it', part({ type: 'image_url', image_url: PNG })),
  no('image url is required', 'messages[1].content[0].image_url.url', part({ type: 'image_url', image_url: {} })),
  no(
    'image url is a string',
    'messages[1].content[0].image_url.url',
    part({ type: 'image_url', image_url: { url: 1 } }),
  ),
  no(
    'image url is a URL',
    'messages[1].content[0].image_url.url',
    part({ type: 'image_url', image_url: { url: 'not a url' } }),
  ),
  no(
    'image data is base64',
    'messages[1].content[0].image_url.url',
    part({ type: 'image_url', image_url: { url: 'data:image/png;base64,%%%' } }),
  ),
  ok('audio wav', part({ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }), [
    'sandbox/chat',
    'sandbox/gemini',
  ]),
  ok('audio mp3', part({ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'mp3' } }), [
    'sandbox/chat',
    'sandbox/gemini',
  ]),
  ok('audio formats are examples', part({ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'flac' } }), [
    'sandbox/chat',
  ]),
  no('audio is required', 'messages[1].content[0].input_audio', part({ type: 'input_audio' })),
  no(
    'audio data is required',
    'messages[1].content[0].input_audio.data',
    part({ type: 'input_audio', input_audio: { format: 'wav' } }),
  ),
  no(
    'audio data is base64',
    'messages[1].content[0].input_audio.data',
    part({ type: 'input_audio', input_audio: { data: '***', format: 'wav' } }),
  ),
  no(
    'audio format is required',
    'messages[1].content[0].input_audio.format',
    part({ type: 'input_audio', input_audio: { data: 'UklGRg==' } }),
  ),
  ok('file data', part({ type: 'file', file: { file_data: 'JVBERi0x', filename: 'a.pdf' } })),
  ok('file data without a name', part({ type: 'file', file: { file_data: 'JVBERi0x' } })),
  ok('file id', part({ type: 'file', file: { file_id: FILES.pdf } })),
  no('file is required', 'messages[1].content[0].file', part({ type: 'file' })),
  no('file data is a string', 'messages[1].content[0].file.file_data', part({ type: 'file', file: { file_data: 1 } })),
  no(
    'file data is base64',
    'messages[1].content[0].file.file_data',
    part({ type: 'file', file: { file_data: '***' } }),
  ),
  no('file id is a string', 'messages[1].content[0].file.file_id', part({ type: 'file', file: { file_id: 1 } })),
  no(
    'filename is a string',
    'messages[1].content[0].file.filename',
    part({ type: 'file', file: { file_data: 'JVBERi0x', filename: 1 } }),
  ),
  no('a file without data and id', 'messages[1].content[0].file', part({ type: 'file', file: {} })),
])

const range = (name: string, good: unknown[], bad: unknown[]) => [
  ...good.map((value) => ok(`${name} ${JSON.stringify(value)}`.slice(0, 60), { [name]: value })),
  ...bad.map((value) => no(`${name} ${JSON.stringify(value)}`.slice(0, 60), name, { [name]: value })),
]

table('parameters', surface, [
  ...range('max_completion_tokens', [null, 64, 2 ** 31], ['5', 1.5, true, {}, 0, -1]),
  ...range('max_tokens', [64, 2 ** 31, 2 ** 53], ['5', 1.5, true, 0, -1]),
  ...range('temperature', [0, 1, 2, 5, -1], ['1', true, []]),
  ...range('top_p', [0, 1, 0.5], ['1', false]),
  ...range('n', [null, 1], [2, 0, -1, 1.5, '1', true]),
  ...range('frequency_penalty', [null, 0, -2, 2], [-2.01, 2.01, '0', true]),
  ...range('presence_penalty', [null, 0, -2, 2], [-2.01, 2.01, '0', true]),
  ...range('stop', [null, 'END', ['a'], ['a', 'b', 'c', 'd'], []], [['a', 'b', 'c', 'd', 'e'], 5, {}, true]),
  ...range('logit_bias', [{}, { 50256: -100 }, { 1: 100 }], [5, 'x', []]),
  no('logit_bias 101', 'logit_bias.1', { logit_bias: { 1: 101 } }),
  no('logit_bias -101', 'logit_bias.1', { logit_bias: { 1: -101 } }),
  no('logit_bias string', 'logit_bias.1', { logit_bias: { 1: '5' } }),
  no('logit_bias keys are token ids', 'logit_bias', { logit_bias: { word: 5 } }),
  ...range('logprobs', [null, false, true], ['true', 1]),
  ...['sandbox/chat'].flatMap(() =>
    [0, 20].map((value) => ok(`top_logprobs ${value}`, { logprobs: true, top_logprobs: value })),
  ),
  ...range('top_logprobs', [], [-1, 21, 1.5, '5']),
  ...range('parallel_tool_calls', [true, false], ['true', 0]),
  ...range('reasoning_effort', ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'ultra'], [5, true, {}]),
  ...range('verbosity', ['low', 'medium', 'high'], ['huge', 1]),
  ...range(
    'web_search_options',
    [{}, { search_context_size: 'low' }, { user_location: { type: 'approximate', approximate: { city: 'Paris' } } }],
    [true, 'x', []],
  ),
  ...range(
    'metadata',
    [
      {},
      { a: 'b' },
      Object.fromEntries(many(16, (i) => [`k${i}`, 'v'])),
      { __proto__: null, constructor: 'x', toString: 'y' },
    ],
    [5, 'x', [], Object.fromEntries(many(17, (i) => [`k${i}`, 'v']))],
  ),
  ...range('stream', [null, false, true], ['true', 1, {}]),
  ...range('stream_options', [null, {}, { include_usage: true }], ['x', 5]),
  ...range(
    'response_format',
    [
      { type: 'text' },
      { type: 'json_object' },
      { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' } } },
    ],
    ['json', 5],
  ),
  ok("a provider's own response_format", { response_format: { type: 'grammar', grammar: 'x' } }),
  ...range('seed', [7, null], ['7', 1.5]),
  ...range('user', ['ada', null], [5]),
  ...range('models', [['sandbox/messages'], null], ['x', {}]),
  ok('reasoning', { reasoning: { effort: 'low', exclude: true } }),
  ok('reasoning budget', { reasoning: { max_tokens: 2000 } }),
  no('reasoning is an object', 'reasoning', { reasoning: 'low' }),
  ok('provider', { provider: { order: ['sandbox'], only: [], ignore: [], allow_fallbacks: false, sort: 'price' } }),
  no('provider is an object', 'provider', { provider: 'x' }),
  no('provider order holds strings', 'provider.order[0]', { provider: { order: [1] } }),
])

const choose = (tool_choice: unknown, tools: Json[] = [TOOL]): Json => ({ tools, tool_choice })
table('tools', surface, [
  ok('function', { tools: [TOOL] }),
  ok('no tools', { tools: [] }),
  ok('null', { tools: null }),
  ok('function without parameters', { tools: [{ type: 'function', function: { name: 'f' } }] }),
  ok('function with a $schema', {
    tools: [
      {
        type: 'function',
        function: {
          name: 'f',
          parameters: {
            $schema: 'http://json-schema.org/draft-07/schema#',
            type: 'object',
            additionalProperties: false,
          },
        },
      },
    ],
  }),
  ok('strict null', { tools: [{ type: 'function', function: { name: 'f', strict: null } }] }),
  ok('custom', { tools: [CUSTOM] }),
  ok('custom with a grammar', {
    tools: [
      {
        type: 'custom',
        custom: { name: 'g', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "a"' } } },
      },
    ],
  }),
  no('tools is an array', 'tools', { tools: TOOL }),
  no('a tool is an object', 'tools[0]', { tools: ['f'] }),
  no('a tool has a type', 'tools[0].type', { tools: [{ function: { name: 'f' } }] }),
  no('a function tool has a function', 'tools[0].function', { tools: [{ type: 'function' }] }),
  no('a function has a name', 'tools[0].function.name', { tools: [{ type: 'function', function: {} }] }),
  no('a name is not empty', 'tools[0].function.name', { tools: [{ type: 'function', function: { name: '' } }] }),
  no('parameters are an object', 'tools[0].function.parameters', {
    tools: [{ type: 'function', function: { name: 'f', parameters: 'x' } }],
  }),
  no('strict is a boolean', 'tools[0].function.strict', {
    tools: [{ type: 'function', function: { name: 'f', strict: 'x' } }],
  }),
  no('a custom tool has a custom', 'tools[0].custom', { tools: [{ type: 'custom' }] }),
  no('a custom tool has a name', 'tools[0].custom.name', { tools: [{ type: 'custom', custom: {} }] }),
  ...['none', 'auto', 'required', null].map((word) => ok(`choice ${word}`, choose(word))),
  ok('choice of one function', choose({ type: 'function', function: { name: 'get_weather' } })),
  ok('choice of one custom tool', choose({ type: 'custom', custom: { name: 'run' } }, [CUSTOM])),
  ok(
    'choice among allowed tools',
    choose({
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'get_weather' } }] },
    }),
  ),
  ok("choice of any tool in Mistral's word", choose('any')),
  no('choice of an unknown string', 'tool_choice', choose('some')),
  no('choice number', 'tool_choice', choose(1)),
  no('choice without a type', 'tool_choice.type', choose({ function: { name: 'get_weather' } })),
  no('choice without a function', 'tool_choice.function', choose({ type: 'function' })),
  no('choice without a name', 'tool_choice.function.name', choose({ type: 'function', function: {} })),
])
