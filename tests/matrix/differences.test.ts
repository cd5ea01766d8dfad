import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { unwrapSignature, wrapSignature } from '../../src/generation/signature.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { protocols } from '../../src/protocols/index.ts'
import { written } from '../translating.ts'
import { codesAndPaths, contextOf, HELLO, type Json, NAMES, others, send } from './routes.ts'
import { callsAndResultsOf, toolChoiceOf, toolsOf } from './tool-requests.ts'

/** Differences between the protocols that are tables: each value of one protocol, and its values in the others. */

/** The request as a provider of any protocol, also of the client's, is written. */
function write(client: ConversationName, provider: ConversationName, body: Json): { body: Json; losses: string[] } {
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
  const { body: sent, losses } = written(provider, contextOf(client, body).request, target, body)
  return { body: sent, losses: codesAndPaths(losses.filter(({ code }) => code !== 'limit_required')) }
}

const read = (provider: ConversationName, body: object) => fold(protocols[provider].call.readResponse(body, {}))

/** The context of a request that streams, with its usage. */
const streaming = (client: ConversationName) =>
  contextOf(
    client,
    client === 'generateContent'
      ? HELLO[client]
      : {
          ...HELLO[client],
          stream: true,
          ...(client === 'chat.completions' ? { stream_options: { include_usage: true } } : {}),
        },
    true,
  )

/** The whole response as a client receives it. */
const whole = (client: ConversationName, response: ReturnType<typeof read>): Json =>
  JSON.parse(JSON.stringify(protocols[client].serve.writeResponse(response, streaming(client)))) as Json

/** The data of the frames that a client receives. */
const framesOf = (client: ConversationName, events: GenerationEvent[]): Json[] => {
  const writer = protocols[client].serve.writer(streaming(client))
  return events
    .flatMap((event) => writer.write(event))
    .map(({ data }) => (data === '[DONE]' ? {} : JSON.parse(data)) as Json)
}

/** A response with this finish reason. */
const responseOf: Record<ConversationName, (reason: string) => object> = {
  'chat.completions': (reason) => ({
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: reason }],
  }),
  responses: (reason) => ({
    id: 'r',
    status: reason === 'completed' ? reason : 'incomplete',
    incomplete_details: reason === 'completed' ? null : { reason },
    output: [{ type: 'message', id: 'm', content: [{ type: 'output_text', text: 'x' }] }],
  }),
  messages: (reason) => ({ type: 'message', content: [{ type: 'text', text: 'x' }], stop_reason: reason }),
  generateContent: (reason) => ({ candidates: [{ content: { parts: [{ text: 'x' }] }, finishReason: reason }] }),
}

const reasonIn: Record<ConversationName, (response: Json) => string> = {
  'chat.completions': (response) => response.choices[0].finish_reason,
  responses: (response) => response.incomplete_details?.reason ?? response.status,
  messages: (response) => response.stop_reason,
  generateContent: (response) => response.candidates[0].finishReason,
}

/** Provider, its finish reason, and what clients receive for it, in the order of NAMES. */
const OUTCOMES: [ConversationName, string, [string, string, string, string]][] = [
  ['chat.completions', 'stop', ['stop', 'completed', 'end_turn', 'STOP']],
  ['chat.completions', 'length', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  ['chat.completions', 'content_filter', ['content_filter', 'content_filter', 'refusal', 'SAFETY']],
  ['responses', 'completed', ['stop', 'completed', 'end_turn', 'STOP']],
  ['responses', 'max_output_tokens', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  // Not in the document; servers that implement the protocol send it.
  ['responses', 'max_tokens', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  ['responses', 'content_filter', ['content_filter', 'content_filter', 'refusal', 'SAFETY']],
  ['messages', 'end_turn', ['stop', 'completed', 'end_turn', 'STOP']],
  ['messages', 'stop_sequence', ['stop', 'completed', 'stop_sequence', 'STOP']],
  ['messages', 'max_tokens', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  [
    'messages',
    'model_context_window_exceeded',
    ['length', 'max_output_tokens', 'model_context_window_exceeded', 'MAX_TOKENS'],
  ],
  ['messages', 'refusal', ['content_filter', 'content_filter', 'refusal', 'SAFETY']],
  ['messages', 'pause_turn', ['stop', 'completed', 'pause_turn', 'OTHER']],
  ['generateContent', 'STOP', ['stop', 'completed', 'end_turn', 'STOP']],
  ['generateContent', 'MAX_TOKENS', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  ...['SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY'].map(
    (reason): [ConversationName, string, [string, string, string, string]] => [
      'generateContent',
      reason,
      ['content_filter', 'content_filter', 'refusal', 'SAFETY'],
    ],
  ),
  ['generateContent', 'MALFORMED_FUNCTION_CALL', ['stop', 'completed', 'end_turn', 'OTHER']],
]

test.each(OUTCOMES)('%s: the finish reason %s is translated to that of each protocol', (provider, reason, expected) => {
  const response = read(provider, responseOf[provider](reason))
  expect(NAMES.map((client) => reasonIn[client](whole(client, response)))).toEqual(expected)
  // Where a client may look for the provider's own reason.
  expect(whole('chat.completions', response).choices[0].native_finish_reason).toBe(reason)
})

describe('usage', () => {
  test('has the lifetimes of cache writes for messages, and their sum for other protocols', () => {
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 7,
      cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 5 },
      output_tokens: 4,
    }
    const response = read('messages', { ...responseOf.messages('end_turn'), usage })
    expect(response.usage).toMatchObject({
      inputTokens: 10,
      cacheReadTokens: 3,
      cacheWrite5mTokens: 2,
      cacheWrite1hTokens: 5,
    })
    expect(whole('messages', response).usage).toMatchObject(usage)
    expect(whole('chat.completions', response).usage).toMatchObject({
      prompt_tokens: 20,
      prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 7 },
    })
    expect(whole('responses', response).usage).toMatchObject({
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 3, cache_write_tokens: 7 },
    })
    expect(whole('generateContent', response).usageMetadata).toMatchObject({
      promptTokenCount: 20,
      cachedContentTokenCount: 3,
    })
  })

  test('that the provider sends last is written last and corrects the one at the start of a message', () => {
    const events: GenerationEvent[] = [
      { type: 'start', id: 'x', model: 'm' },
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'hi' },
      { type: 'part-end', part: 0 },
      { type: 'usage', usage: { ...noUsage(), inputTokens: 8, outputTokens: 2 } },
      { type: 'finish', reason: 'stop', raw: 'stop' },
    ]
    const frames = framesOf('messages', events)
    expect(frames[0]!.message.usage).toMatchObject({ input_tokens: 0, output_tokens: 0 })
    expect(frames.find(({ type }) => type === 'message_delta')!.usage).toMatchObject({
      input_tokens: 8,
      output_tokens: 2,
    })
    expect(framesOf('generateContent', events).at(-1)!.usageMetadata).toMatchObject({
      promptTokenCount: 8,
      candidatesTokenCount: 2,
    })
    expect(framesOf('responses', events).at(-1)!.response.usage).toMatchObject({ input_tokens: 8, output_tokens: 2 })
    // The chunk before [DONE], which has no choices.
    expect(framesOf('chat.completions', events).at(-2)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 8, completion_tokens: 2 },
    })
  })
})

describe('a tool call without arguments', () => {
  const events: GenerationEvent[] = [
    { type: 'start', id: 'x', model: 'm' },
    { type: 'part-start', part: 0, head: { type: 'tool-call', id: 'c', name: 'now', form: 'function' } },
    { type: 'part-end', part: 0 },
    { type: 'finish', reason: 'tool-calls', raw: 'stop' },
  ]

  test('has an empty object in a whole response and in a stream', () => {
    const response = fold(events)
    expect(whole('chat.completions', response).choices[0].message.tool_calls[0].function.arguments).toBe('{}')
    expect(
      framesOf('chat.completions', events)
        .map((frame) => frame.choices?.[0]?.delta.tool_calls?.[0]?.function.arguments ?? '')
        .join(''),
    ).toBe('{}')
    expect(whole('responses', response).output[0].arguments).toBe('{}')
    expect(
      framesOf('responses', events).findLast(({ type }) => type === 'response.function_call_arguments.done')!.arguments,
    ).toBe('{}')
    expect(whole('messages', response).content[0].input).toEqual({})
    expect(
      framesOf('messages', events).find(({ type }) => type === 'content_block_start')!.content_block.input,
    ).toEqual({})
    expect(whole('generateContent', response).candidates[0].content.parts[0].functionCall.args).toEqual({})
  })

  test('has an empty object in the next request', () => {
    const body = { ...HELLO['chat.completions'], ...callsAndResultsOf['chat.completions']([{ name: 'now', args: '' }]) }
    const sent = (provider: ConversationName): Json => write('chat.completions', provider, body).body
    expect(sent('chat.completions').messages[1].tool_calls[0].function.arguments).toBe('{}')
    expect(sent('responses').input[1].arguments).toBe('{}')
    expect(sent('messages').messages[1].content[0].input).toEqual({})
    expect(sent('generateContent').contents[1].parts[0].functionCall.args).toEqual({})
  })
})

/** One choice in each protocol, in the order of NAMES. */
const CHOICES: [string, object, object, object, object][] = [
  ['auto', { tool_choice: 'auto' }, { tool_choice: 'auto' }, { tool_choice: { type: 'auto' } }, mode('AUTO')],
  ['none', { tool_choice: 'none' }, { tool_choice: 'none' }, { tool_choice: { type: 'none' } }, mode('NONE')],
  ['required', { tool_choice: 'required' }, { tool_choice: 'required' }, { tool_choice: { type: 'any' } }, mode('ANY')],
  [
    'one tool',
    toolChoiceOf['chat.completions']('find_place'),
    toolChoiceOf.responses('find_place'),
    toolChoiceOf.messages('find_place'),
    toolChoiceOf.generateContent('find_place'),
  ],
]

function mode(name: string): object {
  return { toolConfig: { functionCallingConfig: { mode: name } } }
}

describe('the tool choice', () => {
  const requestOf = (client: ConversationName, more: object): Json => ({
    ...HELLO[client],
    ...toolsOf[client]([{ name: 'find_place' }]),
    ...more,
  })

  for (const [what, ...choices] of CHOICES)
    for (const [index, client] of NAMES.entries())
      test(`${what} of ${client} is the same choice for every provider`, () => {
        const request = requestOf(client, choices[index]!)
        for (const [at, provider] of NAMES.entries()) {
          const { body, losses } = write(client, provider, request)
          expect(body).toMatchObject(choices[at]!)
          expect(losses).toEqual([])
        }
      })

  const ONE_CALL: [ConversationName, object, string][] = [
    ['chat.completions', { parallel_tool_calls: false }, 'parallel_tool_calls'],
    ['responses', { parallel_tool_calls: false }, 'parallel_tool_calls'],
    [
      'messages',
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
      'tool_choice.disable_parallel_tool_use',
    ],
  ]

  test.each(ONE_CALL)('of one call at a time of %s is sent to providers that support it', (client, option) => {
    for (const [provider, expected] of ONE_CALL)
      expect(write(client, provider, requestOf(client, option)).body).toMatchObject(expected)
  })

  test.each(ONE_CALL)('of one call at a time of %s is reported for generateContent', (client, option, path) => {
    expect(write(client, 'generateContent', requestOf(client, option)).losses).toEqual([`unsupported_field ${path}`])
  })

  test('of no tool is sent without a limit of parallel calls', () => {
    const request = requestOf('chat.completions', { parallel_tool_calls: false, tool_choice: 'none' })
    expect(write('chat.completions', 'messages', request).body.tool_choice).toEqual({ type: 'none' })
  })
})

test('a wrapped signature is unwrapped in either base64 alphabet, since SDKs may write its bytes again', () => {
  const issuer = { provider: 'p', model: 'm~?' }
  const data = Buffer.from(Array.from({ length: 96 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')
  const wrapped = wrapSignature(`${data}??>>`, issuer)
  expect(wrapped).toMatch(/[+/]/)
  for (const text of [wrapped, wrapped.replaceAll('+', '-').replaceAll('/', '_'), wrapped.replace(/=+$/, '')])
    expect(unwrapSignature(text)).toEqual({ data: `${data}??>>`, issuer })
})

describe('several choices in one response', () => {
  test.each(others('chat.completions'))('of chat completions are refused for %s', (provider) => {
    const body = { ...HELLO['chat.completions'], n: 2 }
    expect(() => send('chat.completions', provider, body)).toThrow('n: must be 1, not 2')
  })

  test.each(others('generateContent'))('of generateContent are reported as dropped for %s', (provider) => {
    const body = {
      ...HELLO.generateContent,
      generationConfig: { candidateCount: 2 },
      cachedContent: 'cachedContents/x',
    }
    const { request } = contextOf('generateContent', body)
    expect(Object.keys(request.extras)).toEqual(['cachedContent', 'generationConfig.candidateCount'])
    expect(codesAndPaths(send('generateContent', provider, body).losses)).toEqual(
      expect.arrayContaining(['native_field cachedContent', 'native_field generationConfig.candidateCount']),
    )
  })
})
