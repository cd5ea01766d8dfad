import { no, ok, table, useGateway, type Json } from './kit.ts'
import { PNG, say, surfaceOf, USER } from './chat-kit.ts'

const surface = surfaceOf(useGateway())

const CALL = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Paris"}' } }
const CALLED = { role: 'assistant', tool_calls: [CALL] }
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: 'sunny' }

const assistant = (value: Json): Json => say({ role: 'assistant', ...value })
table('assistant messages', surface, [
  ok('string', assistant({ content: 'Hi' })),
  ok(
    'text parts',
    assistant({
      content: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    }),
  ),
  ok('one refusal part', assistant({ content: [{ type: 'refusal', refusal: 'no' }] })),
  no(
    'two refusal parts',
    'messages[1].content',
    assistant({
      content: [
        { type: 'refusal', refusal: 'a' },
        { type: 'refusal', refusal: 'b' },
      ],
    }),
  ),
  no(
    'a refusal beside a text',
    'messages[1].content',
    assistant({
      content: [
        { type: 'text', text: 'a' },
        { type: 'refusal', refusal: 'b' },
      ],
    }),
  ),
  no('a refusal without its text', 'messages[1].content[0].refusal', assistant({ content: [{ type: 'refusal' }] })),
  no(
    'an image',
    'messages[1].content[0].type',
    assistant({ content: [{ type: 'image_url', image_url: { url: PNG } }] }),
  ),
  no('content is required without calls', 'messages[1].content', assistant({})),
  no('content null without calls', 'messages[1].content', assistant({ content: null })),
  no('content null with no calls in the array', 'messages[1].content', assistant({ content: null, tool_calls: [] })),
  no('content number', 'messages[1].content', assistant({ content: 5 })),
  ok('refusal null', assistant({ content: 'Hi', refusal: null })),
  ok('refusal string, content null, as in a response', assistant({ content: null, refusal: 'no' })),
  no('refusal is a string', 'messages[1].refusal', assistant({ content: 'Hi', refusal: 5 })),
  ok('name', assistant({ content: 'Hi', name: 'bot' })),
  no('name is a string', 'messages[1].name', assistant({ content: 'Hi', name: {} })),
  ok('audio null', assistant({ content: 'Hi', audio: null })),
  ok('audio id', assistant({ content: 'Hi', audio: { id: 'audio_1' } })),
  no('audio id is required', 'messages[1].audio.id', assistant({ content: 'Hi', audio: {} })),
  no('audio is an object', 'messages[1].audio', assistant({ content: 'Hi', audio: 'x' })),
  ok('content absent with calls', say(RESULT, CALLED)),
  ok('content null with calls', say(RESULT, { ...CALLED, content: null })),
  ok('content empty with calls', say(RESULT, { ...CALLED, content: '' })),
  ok(
    'custom call',
    say(
      { ...RESULT, tool_call_id: 'c2' },
      { role: 'assistant', tool_calls: [{ id: 'c2', type: 'custom', custom: { name: 'run', input: 'ls' } }] },
    ),
  ),
  ok(
    'arguments that are no JSON',
    say(RESULT, { role: 'assistant', tool_calls: [{ ...CALL, function: { name: 'f', arguments: '{"a":' } }] }),
  ),
  ok(
    'arguments empty',
    say(RESULT, { role: 'assistant', tool_calls: [{ ...CALL, function: { name: 'f', arguments: '' } }] }),
  ),
  ok('a call whose result is not there yet', say(CALLED)),
  no('tool_calls is an array', 'messages[1].tool_calls', assistant({ tool_calls: {} })),
  no('call id is required', 'messages[1].tool_calls[0].id', assistant({ tool_calls: [{ ...CALL, id: undefined }] })),
  no('call id is a string', 'messages[1].tool_calls[0].id', assistant({ tool_calls: [{ ...CALL, id: 1 }] })),
  no(
    'call type is function or custom',
    'messages[1].tool_calls[0].type',
    assistant({ tool_calls: [{ ...CALL, type: 'odd' }] }),
  ),
  no(
    'function is required',
    'messages[1].tool_calls[0].function',
    assistant({ tool_calls: [{ id: 'a', type: 'function' }] }),
  ),
  no(
    'function name is required',
    'messages[1].tool_calls[0].function.name',
    assistant({ tool_calls: [{ ...CALL, function: { arguments: '{}' } }] }),
  ),
  no(
    'arguments are required',
    'messages[1].tool_calls[0].function.arguments',
    assistant({ tool_calls: [{ ...CALL, function: { name: 'f' } }] }),
  ),
  no(
    'arguments are a string',
    'messages[1].tool_calls[0].function.arguments',
    assistant({ tool_calls: [{ ...CALL, function: { name: 'f', arguments: {} } }] }),
  ),
  no(
    'custom is required',
    'messages[1].tool_calls[0].custom',
    assistant({ tool_calls: [{ id: 'a', type: 'custom' }] }),
  ),
  no(
    'custom name is required',
    'messages[1].tool_calls[0].custom.name',
    assistant({ tool_calls: [{ id: 'a', type: 'custom', custom: { input: '' } }] }),
  ),
  no(
    'custom input is required',
    'messages[1].tool_calls[0].custom.input',
    assistant({ tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'f' } }] }),
  ),
  ok('function_call in place of content', assistant({ function_call: { name: 'f', arguments: '{}' } })),
  no(
    'function_call name is required',
    'messages[1].function_call.name',
    assistant({ function_call: { arguments: '{}' } }),
  ),
  no(
    'function_call arguments are required',
    'messages[1].function_call.arguments',
    assistant({ function_call: { name: 'f' } }),
  ),
  ok('reasoning', assistant({ content: 'Hi', reasoning: 'hm' })),
  ok('reasoning null', assistant({ content: 'Hi', reasoning: null, reasoning_details: null })),
  no('reasoning is a string', 'messages[1].reasoning', assistant({ content: 'Hi', reasoning: {} })),
  ok(
    'reasoning_details without signatures',
    assistant({ content: 'Hi', reasoning_details: [{ type: 'reasoning.text', text: 'hm' }] }),
  ),
  ok('reasoning_details empty', assistant({ content: 'Hi', reasoning_details: [] })),
  no(
    'reasoning_details is an array',
    'messages[1].reasoning_details',
    assistant({ content: 'Hi', reasoning_details: {} }),
  ),
  no(
    'a detail has a type',
    'messages[1].reasoning_details[0].type',
    assistant({ content: 'Hi', reasoning_details: [{ text: 'hm', signature: 's' }] }),
  ),
  no(
    'a detail has a text',
    'messages[1].reasoning_details[0].text',
    assistant({ content: 'Hi', reasoning_details: [{ type: 'reasoning.text' }] }),
  ),
  no(
    "a detail's text is a string",
    'messages[1].reasoning_details[0].text',
    assistant({ content: 'Hi', reasoning_details: [{ type: 'reasoning.text', text: 1, signature: 's' }] }),
  ),
  no(
    "a detail's signature is a string",
    'messages[1].reasoning_details[0].signature',
    assistant({ content: 'Hi', reasoning_details: [{ type: 'reasoning.text', text: 't', signature: 1 }] }),
  ),
  no(
    "a detail's index is a number",
    'messages[1].reasoning_details[0].index',
    assistant({
      content: 'Hi',
      reasoning_details: [{ type: 'reasoning.text', text: 't', signature: 's', index: '0' }],
    }),
  ),
  no(
    "a detail's format is a string",
    'messages[1].reasoning_details[0].format',
    assistant({ content: 'Hi', reasoning_details: [{ type: 'reasoning.text', text: 't', signature: 's', format: 3 }] }),
  ),
])

table('tool messages', surface, [
  ok('string', say(RESULT, CALLED)),
  ok('text parts', say({ ...RESULT, content: [{ type: 'text', text: 'sunny' }] }, CALLED)),
  ok('name', say({ ...RESULT, name: 'get_weather' }, CALLED)),
  ok('empty content', say({ ...RESULT, content: '' }, CALLED)),
  no('content is required', 'messages[2].content', say({ role: 'tool', tool_call_id: 'call_1' }, CALLED)),
  ok('image parts', say({ ...RESULT, content: [{ type: 'image_url', image_url: { url: PNG } }] }, CALLED)),
  no(
    'no refusals',
    'messages[2].content[0].type',
    say({ ...RESULT, content: [{ type: 'refusal', refusal: 'No' }] }, CALLED),
  ),
  no('tool_call_id is required', 'messages[2].tool_call_id', say({ role: 'tool', content: 'x' }, CALLED)),
  no('tool_call_id is a string', 'messages[2].tool_call_id', say({ ...RESULT, tool_call_id: 1 }, CALLED)),
  no('tool_call_id matches a call', 'messages[2].tool_call_id', say({ ...RESULT, tool_call_id: 'call_2' }, CALLED)),
  no('tool_call_id matches an earlier call', 'messages[1].tool_call_id', { messages: [USER, RESULT, CALLED] }),
  no('name is a string', 'messages[2].name', say({ ...RESULT, name: 1 }, CALLED)),
])
