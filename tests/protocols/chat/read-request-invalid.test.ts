import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { readToTranslate } from '../../translating.ts'

/** Requests of clients of chat completions that are refused with the path of an invalid field. */

const user = { role: 'user', content: 'Hi' }
const read = (fields: Record<string, unknown>) => {
  const body = { model: 'maker/model', messages: [user], ...fields }
  return readToTranslate('chat.completions', { body, text: JSON.stringify(body), headers: new Headers() })
}

const refusal = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(GatewayError)
    expect((error as GatewayError).status).toBe(400)
    return (error as GatewayError).param ?? ''
  }
  throw new Error('was accepted')
}

const call = {
  role: 'assistant',
  content: null,
  tool_calls: [
    { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"b":1,"a":12345678901234567890}' } },
  ],
}

describe('invalid fields', () => {
  const fields: [string, Record<string, unknown>][] = [
    ['model', { model: undefined }],
    ['model', { model: 3 }],
    ['model', { model: '' }],
    ['messages', { messages: undefined }],
    ['messages', { messages: [] }],
    ['messages', { messages: 'hi' }],
    ['messages[0]', { messages: ['hi'] }],
    ['n', { n: 2 }],
    ['n', { n: 0 }],
    ['n', { n: '1' }],
    ['stop', { stop: ['a', 'b', 'c', 'd', 'e'] }],
    ['stop', { stop: 3 }],
    ['stop[1]', { stop: ['a', 1] }],
    ['frequency_penalty', { frequency_penalty: 2.1 }],
    ['presence_penalty', { presence_penalty: -2.1 }],
    ['temperature', { temperature: 'hot' }],
    ['top_p', { top_p: [] }],
    ['max_tokens', { max_tokens: 1.5 }],
    ['max_completion_tokens', { max_completion_tokens: '9' }],
    ['logit_bias', { logit_bias: { hello: 1 } }],
    ['logit_bias.50', { logit_bias: { 50: 101 } }],
    ['logit_bias.50', { logit_bias: { 50: null } }],
    ['logprobs', { logprobs: 5 }],
    ['top_logprobs', { top_logprobs: 21 }],
    ['top_logprobs', { top_logprobs: -1 }],
    ['metadata', { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'v'])) }],
    ['metadata', { metadata: 'x' }],
    ['tools', { tools: {} }],
    ['tools[0].type', { tools: [{}] }],
    ['tools[0].function', { tools: [{ type: 'function' }] }],
    ['tools[0].function.name', { tools: [{ type: 'function', function: {} }] }],
    ['tools[0].custom.name', { tools: [{ type: 'custom', custom: { name: '' } }] }],
    ['tool_choice', { tool_choice: 'some' }],
    ['tool_choice.type', { tool_choice: { type: 'auto' } }],
    ['tool_choice.function.name', { tool_choice: { type: 'function', function: {} } }],
    [
      'tool_choice.allowed_tools.mode',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'x', tools: [] } } },
    ],
    ['tool_choice.type', { tool_choice: {} }],
    ['tool_choice.function', { tool_choice: { type: 'function' } }],
    ['tool_choice.allowed_tools', { tool_choice: { type: 'allowed_tools' } }],
    ['tool_choice.allowed_tools.mode', { tool_choice: { type: 'allowed_tools', allowed_tools: { tools: [] } } }],
    ['tool_choice.allowed_tools.tools', { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto' } } }],
    [
      'tool_choice.allowed_tools.tools',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } },
    ],
    [
      'tool_choice.allowed_tools.tools[0].type',
      { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{}] } } },
    ],
    ['tools[0].custom', { tools: [{ type: 'custom' }] }],
    ['response_format.type', { response_format: {} }],
    ['reasoning.max_tokens', { reasoning: { max_tokens: -1 } }],
    ['thinking.budget_tokens', { thinking: { type: 'enabled', budget_tokens: -1 } }],
    ['verbosity', { verbosity: 'loud' }],
    ['stream', { stream: 'yes' }],
    ['stream_options', { stream_options: 1 }],
    ['stream_options.include_usage', { stream_options: { include_usage: 1 } }],
    ['response_format.type', { response_format: { type: 5 } }],
    ['response_format.json_schema', { response_format: { type: 'json_schema' } }],
    ['seed', { seed: 1.5 }],
    ['user', { user: 7 }],
    ['reasoning_effort', { reasoning_effort: 1 }],
    ['reasoning.max_tokens', { reasoning: { max_tokens: 'x' } }],
    ['reasoning.exclude', { reasoning: { exclude: 1 } }],
    ['web_search_options', { web_search_options: true }],
    ['parallel_tool_calls', { parallel_tool_calls: 'no' }],
  ]
  for (const [path, change] of fields)
    test(`${JSON.stringify(change).slice(0, 80)} is refused at ${path}`, () =>
      expect(refusal(() => read(change))).toBe(path))
})

describe('invalid messages', () => {
  const part = (content: unknown) => [{ role: 'user', content: [content] }]
  const assistant = (fields: object) => [user, { role: 'assistant', ...fields }]
  const toolCall = (fields: object) => assistant({ tool_calls: [{ id: 'x', ...fields }] })
  const cases: [string, unknown[]][] = [
    ['messages[0].name', [{ ...user, name: 5 }]],
    ['messages[0].name', [{ role: 'system', content: 'x', name: 5 }]],
    ['messages[0].content[0].image_url', part({ type: 'image_url' })],
    ['messages[0].content[0].image_url', part({ type: 'image_url', image_url: 'no url' })],
    ['messages[0].content[0].input_audio', part({ type: 'input_audio' })],
    ['messages[0].content[0].input_audio.data', part({ type: 'input_audio', input_audio: { format: 'wav' } })],
    ['messages[0].content[0].video_url', part({ type: 'video_url' })],
    ['messages[0].content[0].video_url.url', part({ type: 'video_url', video_url: {} })],
    ['messages[0].content[0].file', part({ type: 'file' })],
    ['messages[0].content[0].file.file_data', part({ type: 'file', file: { file_data: '!' } })],
    ['messages[1].content[0].refusal', assistant({ content: [{ type: 'refusal' }] })],
    ['messages[1].images[0].image_url', assistant({ images: [{}] })],
    ['messages[1].function_call.name', assistant({ function_call: { arguments: '' } })],
    ['messages[1].function_call.arguments', assistant({ function_call: { name: 'f' } })],
    ['messages[1].tool_calls[0].function', toolCall({})],
    ['messages[1].tool_calls[0].function.name', toolCall({ function: { arguments: '' } })],
    ['messages[1].tool_calls[0].custom', toolCall({ type: 'custom' })],
    ['messages[1].tool_calls[0].custom.input', toolCall({ type: 'custom', custom: { name: 'f' } })],
    ...(['encrypted data', 'text text', 'summary summary'] as const).map((one): [string, unknown[]] => {
      const [type, field] = one.split(' ')
      const detail = { type: `reasoning.${type}` }
      return [`messages[1].reasoning_details[0].${field}`, assistant({ content: 'x', reasoning_details: [detail] })]
    }),
    ['messages[1].thinking_blocks[0].type', assistant({ content: 'x', thinking_blocks: [{}] })],
    ['messages[1].thinking_blocks[0].thinking', assistant({ content: 'x', thinking_blocks: [{ type: 'thinking' }] })],
    ['messages[0].role', [{ content: 'x' }]],
    ['messages[0].role', [{ role: 'robot', content: 'x' }]],
    ['messages[1].role', [user, { role: 'function', name: 'f', content: 'x' }]],
    ['messages[0].content', [{ role: 'user' }]],
    ['messages[0].content', [{ role: 'system', content: null }]],
    ['messages[0].content', [{ role: 'user', content: 5 }]],
    [
      'messages[0].content[0].type',
      [{ role: 'system', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png' } }] }],
    ],
    ['messages[0].content[0].type', [{ role: 'user', content: [{ text: 'x' }] }]],
    ['messages[0].content[0].text', [{ role: 'user', content: [{ type: 'text' }] }]],
    ['messages[0].content[0].image_url.url', [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }]],
    [
      'messages[0].content[0].image_url.url',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png,abc' } }] }],
    ],
    [
      'messages[0].content[0].image_url.url',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'no url' } }] }],
    ],
    [
      'messages[0].content[0].image_url.detail',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png', detail: 'huge' } }] }],
    ],
    [
      'messages[0].content[0].input_audio.format',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA' } }] }],
    ],
    [
      'messages[0].content[0].input_audio.data',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: '!', format: 'wav' } }] }],
    ],
    ['messages[0].content[0].input_audio', [{ role: 'user', content: [{ type: 'input_audio', input_audio: '!' }] }]],
    ['messages[0].content[0].input_audio', [{ role: 'user', content: [{ type: 'input_audio', input_audio: 'AAAA' }] }]],
    ['messages[0].content[0].file', [{ role: 'user', content: [{ type: 'file', file: {} }] }]],
    ['messages[1].content', [user, { role: 'assistant' }]],
    ['messages[1].content', [user, { role: 'assistant', content: null, tool_calls: [] }]],
    [
      'messages[1].content',
      [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'refusal', refusal: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
        },
      ],
    ],
    [
      'messages[1].content',
      [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'a' },
            { type: 'refusal', refusal: 'b' },
          ],
        },
      ],
    ],
    ['messages[1].content[0].type', [user, { role: 'assistant', content: [{ type: 'file', file: {} }] }]],
    [
      'messages[1].tool_calls[0].id',
      [user, { role: 'assistant', tool_calls: [{ type: 'function', function: { name: 'a', arguments: '' } }] }],
    ],
    [
      'messages[1].tool_calls[0].function.arguments',
      [
        user,
        { role: 'assistant', tool_calls: [{ id: 'x', type: 'function', function: { name: 'a', arguments: {} } }] },
      ],
    ],
    ['messages[1].tool_calls[0].type', [user, { role: 'assistant', tool_calls: [{ id: 'x', type: 'shell' }] }]],
    ['messages[1].tool_call_id', [user, { role: 'tool', tool_call_id: 'call_1', content: 'x' }]],
    ['messages[2].tool_call_id', [user, call, { role: 'tool', content: 'x' }]],
    ['messages[2].content', [user, call, { role: 'tool', tool_call_id: 'call_1' }]],
    [
      'messages[2].content[0].type',
      [user, call, { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'refusal', refusal: 'No' }] }],
    ],
    ['messages[1].reasoning_details[0].type', [user, { role: 'assistant', content: 'x', reasoning_details: [{}] }]],
    ['messages[1].audio.id', [user, { role: 'assistant', audio: {} }]],
  ]
  for (const [path, messages] of cases)
    test(`${JSON.stringify(messages.at(-1)).slice(0, 90)} is refused at ${path}`, () =>
      expect(refusal(() => read({ messages }))).toBe(path))
})
