import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { wrapSignature } from '../../../src/generation/signature.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { withoutPaths } from '../../translating.ts'
import { base, located, rawRequestOf, user } from './reading.ts'

/** Requests of clients of chat completions. */

const read = (fields: Record<string, unknown> = {}) =>
  withoutPaths(chat.serve.readRequest(rawRequestOf({ ...base, ...fields })))
const readTurns = (...messages: unknown[]) => withoutPaths(located(...messages))

const call = {
  role: 'assistant',
  content: null,
  tool_calls: [
    { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"b":1,"a":12345678901234567890}' } },
  ],
}

describe('valid requests', () => {
  test('values at the limits of their ranges are accepted, and null is absent', () => {
    const request = read({
      n: null,
      stop: null,
      stream: null,
      stream_options: null,
      logit_bias: { 5: -100, 6: 100 },
      top_logprobs: 20,
      frequency_penalty: -2,
      presence_penalty: 2,
      temperature: 0,
      max_tokens: 5,
      max_completion_tokens: 9,
      store: false,
      metadata: {},
    })
    expect(request.sampling).toEqual({
      temperature: 0,
      frequencyPenalty: -2,
      presencePenalty: 2,
      logitBias: { 5: -100, 6: 100 },
      topLogprobs: 20,
    })
    expect(request.maxOutputTokens).toBe(9)
    expect(request.stream).toBe(false)
    expect(request.extras).toEqual({ store: false })
  })

  test('the end user is named by either field, and a second name is kept for providers of this protocol', () => {
    expect(read({ safety_identifier: 'a' })).toMatchObject({ user: 'a', extras: {} })
    expect(read({ user: 'a', safety_identifier: 'a' })).toMatchObject({ user: 'a', extras: {} })
    expect(read({ user: 'a', safety_identifier: 'b' })).toMatchObject({ user: 'a', extras: { safety_identifier: 'b' } })
  })

  test('leading instructions are the system, later ones stay turns', () => {
    const request = readTurns(
      {
        role: 'system',
        content: [
          { type: 'text', text: 'A' },
          { type: 'text', text: 'B' },
        ],
      },
      { role: 'developer', content: 'C' },
      user,
      { role: 'system', content: 'D' },
    )
    expect(request.system).toEqual([
      { type: 'text', text: 'A' },
      { type: 'text', text: 'B' },
      { type: 'text', text: 'C' },
    ])
    expect(request.turns.map((turn) => turn.role)).toEqual(['user', 'system'])
  })

  test('consecutive tool results are one turn and have the names of their tools', () => {
    const two = {
      ...call,
      content: '',
      tool_calls: [...call.tool_calls, { id: 'call_2', type: 'custom', custom: { name: 'patch', input: 'free text' } }],
    }
    const { turns } = readTurns(
      user,
      two,
      { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: 'ok' }] },
      { role: 'tool', tool_call_id: 'call_1', name: 'own', content: 'done' },
      user,
    )
    expect(turns[1]!.parts).toEqual([
      {
        type: 'tool-call',
        id: 'call_1',
        name: 'look',
        arguments: '{"b":1,"a":12345678901234567890}',
        form: 'function',
      },
      { type: 'tool-call', id: 'call_2', name: 'patch', arguments: 'free text', form: 'custom' },
    ])
    expect(turns[2]).toEqual({
      role: 'tool',
      parts: [
        {
          type: 'tool-result',
          callId: 'call_2',
          name: 'patch',
          content: [{ type: 'text', text: 'ok' }],
          form: 'custom',
        },
        {
          type: 'tool-result',
          callId: 'call_1',
          name: 'own',
          content: [{ type: 'text', text: 'done' }],
          form: 'function',
        },
      ],
    })
  })

  test('the parts of an assistant message are reasoning, text and calls', () => {
    const { turns } = readTurns(user, {
      ...call,
      content: 'Looking.',
      reasoning: 'Hm',
      reasoning_details: [
        {
          type: 'reasoning.text',
          text: 'Hm',
          signature: wrapSignature('sig', { provider: 'p', model: 'm' }),
          format: 'unknown',
          index: 0,
        },
      ],
    })
    expect(turns[1]!.parts.map((part) => part.type)).toEqual(['reasoning', 'text', 'tool-call'])
    expect(turns[1]!.parts[0]).toEqual({
      type: 'reasoning',
      text: 'Hm',
      signature: { data: 'sig', issuer: { provider: 'p', model: 'm' } },
    })
  })

  test('reasoning in two fields is read once, and entries of one part are joined', () => {
    const parts = (fields: object) =>
      readTurns(user, { role: 'assistant', content: 'x', ...fields }).turns[1]!.parts.slice(0, -1)
    expect(parts({ reasoning_content: 'A', reasoning: 'A' })).toEqual([{ type: 'reasoning', text: 'A' }])
    expect(
      parts({
        reasoning_content: 'AB',
        reasoning_details: [
          { type: 'reasoning.text', text: 'A', index: 0 },
          { type: 'reasoning.text', text: 'B', index: 0 },
          { type: 'reasoning.text', signature: 's', index: 0 },
        ],
      }),
    ).toEqual([{ type: 'reasoning', text: 'AB', signature: { data: 's' } }])
    expect(
      parts({
        reasoning: 'S',
        reasoning_details: [
          { type: 'reasoning.summary', summary: 'S', index: 0 },
          { type: 'reasoning.encrypted', data: 'D', id: 'rs_1', index: 1 },
        ],
      }),
    ).toEqual([{ type: 'reasoning', text: 'S', form: 'summary', id: 'rs_1', signature: { data: 'D' } }])
    expect(parts({ reasoning: 'T', reasoning_details: [{ type: 'reasoning.encrypted', data: 'D' }] })).toEqual([
      { type: 'reasoning', text: 'T' },
      { type: 'reasoning', text: '', redacted: true, signature: { data: 'D' } },
    ])
  })

  test('reasoning of Copilot and of LiteLLM is read where the message has no other', () => {
    const thinking_blocks = [
      { type: 'thinking', thinking: 'A', signature: 's' },
      { type: 'redacted_thinking', data: 'D' },
    ]
    const blocks = [
      { type: 'reasoning', text: 'A', signature: { data: 's' } },
      { type: 'reasoning', text: '', redacted: true, signature: { data: 'D' } },
    ]
    const read = (fields: object): unknown[] => {
      const { turns, extras } = readTurns(user, { role: 'assistant', content: 'x', ...fields })
      return [turns[1]!.parts.slice(0, -1), Object.keys(extras)]
    }
    expect(read({ reasoning_text: 'A' })).toEqual([[{ type: 'reasoning', text: 'A' }], []])
    expect(read({ reasoning_content: 'A', reasoning_text: 'A' })).toEqual([[{ type: 'reasoning', text: 'A' }], []])
    expect(read({ reasoning_content: 'A', thinking_blocks })).toEqual([blocks, []])
    const reasoning_details = [{ type: 'reasoning.text', text: 'A', signature: 's' }]
    expect(read({ reasoning_details, thinking_blocks: thinking_blocks.slice(0, 1) })).toEqual([
      [{ type: 'reasoning', text: 'A', signature: { data: 's' } }],
      [],
    ])
    expect(read({ thinking_blocks: [{ ...thinking_blocks[0], note: 1 }] })).toEqual([
      [blocks[0]],
      ['messages[1].thinking_blocks[0].note'],
    ])
  })

  test("an encrypted entry with the id of a call is that call's signature", () => {
    const { turns } = readTurns(user, {
      ...call,
      reasoning_details: [{ type: 'reasoning.encrypted', data: 'sig', id: 'call_1' }],
    })
    expect(turns[1]!.parts).toEqual([expect.objectContaining({ type: 'tool-call', signature: { data: 'sig' } })])
  })

  test('media are read from data URLs, URLs, base64 and file ids', () => {
    const { turns } = readTurns({
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/PNG;base64,AAAA', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://a.b/c.png' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERi0=', filename: 'a.pdf' } },
        { type: 'file', file: { file_data: 'JVBERi0=' } },
        { type: 'file', file: { file_id: 'file-1' } },
        { type: 'file', file: { file_data: 'gs://bucket/a.mp4', filename: 'a.mp4' } },
        { type: 'video_url', video_url: { url: 'https://a.b/c.mp4' } },
      ],
    })
    expect(turns[0]!.parts).toEqual([
      { type: 'image', source: { type: 'data', mediaType: 'image/png', data: 'AAAA' }, detail: 'low' },
      { type: 'image', source: { type: 'url', url: 'https://a.b/c.png' } },
      { type: 'audio', source: { type: 'data', mediaType: 'audio/mpeg', data: 'AAAA' } },
      { type: 'file', source: { type: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' }, filename: 'a.pdf' },
      { type: 'file', source: { type: 'data', mediaType: 'application/pdf', data: 'JVBERi0=' } },
      { type: 'file', source: { type: 'file', id: 'file-1' } },
      { type: 'file', source: { type: 'url', url: 'gs://bucket/a.mp4' }, filename: 'a.mp4' },
      { type: 'video', source: { type: 'url', url: 'https://a.b/c.mp4' } },
    ])
  })

  test("audio is read from Mistral's string: base64, a data URL or a URL", () => {
    const audioOf = (audio: string): unknown =>
      readTurns({ role: 'user', content: [{ type: 'input_audio', input_audio: audio }] }).turns[0]!.parts[0]
    const wav = Buffer.from('RIFF    WAVEfmt ').toString('base64')
    expect(audioOf(wav)).toEqual({ type: 'audio', source: { type: 'data', mediaType: 'audio/wav', data: wav } })
    // A frame of MP3 without an ID3 tag.
    expect(audioOf('//NkxAAA')).toMatchObject({ source: { mediaType: 'audio/mpeg', data: '//NkxAAA' } })
    expect(audioOf('data:audio/ogg;base64,T2dnUw==')).toMatchObject({
      type: 'audio',
      source: { mediaType: 'audio/ogg', data: 'T2dnUw==' },
    })
    expect(audioOf('https://a.b/c.mp3')).toEqual({ type: 'audio', source: { type: 'url', url: 'https://a.b/c.mp3' } })
  })

  test.each<[Record<string, unknown>, GenerationRequest['reasoning'], object]>([
    [{ thinking: { type: 'disabled' } }, { effort: 'none' }, {}],
    [{ thinking: { type: 'enabled' } }, { adaptive: true }, {}],
    [{ thinking: { type: 'enabled', budget_tokens: 2000 } }, { budgetTokens: 2000 }, {}],
    [{ thinking: { type: 'enabled' }, reasoning_effort: 'high' }, { effort: 'high' }, {}],
    [{ thinking: { type: 'disabled' }, reasoning_effort: 'high' }, { effort: 'none' }, {}],
    [
      { thinking: { type: 'enabled', clear_thinking: false } },
      { adaptive: true },
      { 'thinking.clear_thinking': false },
    ],
    [{ thinking: { type: 'auto' } }, undefined, { thinking: { type: 'auto' } }],
    [{ thinking: true }, undefined, { thinking: true }],
  ])('the switch %j is reasoning, where its form is known', (more, reasoning, extras) => {
    expect(read(more)).toMatchObject({ extras })
    expect(read(more).reasoning).toEqual(reasoning)
  })

  test('tools, choices, formats, reasoning and usage options are read in each spelling', () => {
    expect(
      read({
        tools: [
          { type: 'function', function: { name: 'f', parameters: { $schema: 'x', type: 'object' }, strict: null } },
        ],
        tool_choice: { type: 'function', function: { name: 'f' } },
      }),
    ).toMatchObject({
      tools: [{ type: 'function', name: 'f', parameters: { $schema: 'x', type: 'object' } }],
      toolChoice: { type: 'tool', name: 'f', form: 'function' },
    })
    expect(
      read({
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: {
            mode: 'required',
            tools: [
              { type: 'function', function: { name: 'f' } },
              { type: 'custom', custom: { name: 'g' } },
            ],
          },
        },
      }).toolChoice,
    ).toEqual({ type: 'allowed', names: ['f', 'g'], required: true })
    expect(read({ response_format: { type: 'json_object' } }).outputFormat).toEqual({ type: 'json' })
    expect(
      read({
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' }, strict: true } },
      }).outputFormat,
    ).toEqual({ type: 'schema', name: 'n', schema: { type: 'object' }, strict: true })
    expect(read({ reasoning_effort: 'xhigh' }).reasoning).toEqual({ effort: 'xhigh' })
    expect(read({ reasoning: { effort: 'low', max_tokens: 100, exclude: true } }).reasoning).toEqual({
      effort: 'low',
      budgetTokens: 100,
      visible: false,
    })
    expect(read({ reasoning_effort: 'ultra' }).extras).toEqual({ reasoning_effort: 'ultra' })
    expect(read({ stream: true, usage: { include: true } }).includeUsage).toBe(true)
    expect(read({ stream: true, stream_options: { include_usage: false, include_obfuscation: false } })).toMatchObject({
      includeUsage: false,
      extras: { 'stream_options.include_obfuscation': false },
    })
    expect(read({ web_search_options: { search_context_size: 'low' } }).webSearch).toMatchObject({ contextSize: 'low' })
    expect(
      read({ tools: [{ type: 'openrouter:web_search', parameters: { search_context_size: 'high', max_uses: 1 } }] }),
    ).toMatchObject({ tools: [], webSearch: { contextSize: 'high' }, extras: { 'tools[0].parameters.max_uses': 1 } })
    expect(readTurns(user, { role: 'assistant', content: 'cut', prefix: true }).extras).toEqual({
      'messages[1].prefix': true,
    })
  })
})

test("an error has the shape of OpenAI's", () => {
  const error = new GatewayError('insufficient_credit', 'No credit.', { metadata: { status: 1 } })
  expect(chat.serve.writeError(error, 'req')).toEqual({
    error: {
      message: 'No credit.',
      type: 'insufficient_quota',
      param: null,
      code: 'insufficient_credit',
      metadata: { status: 1 },
    },
  })
  expect(chat.serve.writeError(new GatewayError('rate_limit_exceeded', 'x'), 'req')).toMatchObject({
    error: { type: 'rate_limit_error' },
  })
  expect(chat.serve.writeError(new GatewayError('upstream_error', 'x'), 'req')).toMatchObject({
    error: { type: 'server_error' },
  })
})
