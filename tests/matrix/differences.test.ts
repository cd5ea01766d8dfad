import { written } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { fold, type Answer, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { wrapSignature, unwrapSignature } from '../../src/generation/signature.ts'
import { noUsage } from '../../src/generation/usage.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext, Target } from '../../src/protocols/protocol.ts'
import type { Any } from '../recorded/response-content.ts'
import { bodyOf, type Ask } from './asking.ts'

/** Differences between the protocols that are tables: each word of one in the words of the others. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const target: Target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }

const wireOf = (body: object, stream = false) => ({
  body: body as Record<string, unknown>,
  text: JSON.stringify(body),
  model: 'a/b',
  stream,
  headers: new Headers(),
})

function exchangeOf(client: ConversationName): TranslationContext {
  const rawRequest = wireOf(
    {
      ...(client === 'generateContent' ? {} : { model: 'a/b' }),
      ...bodyOf(client, { turns: [{ user: 'hi' }] }, client !== 'generateContent'),
    },
    true,
  )
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

const read = (provider: ConversationName, body: object): Answer => fold(protocols[provider].call.readResponse(body, {}))

const whole = (client: ConversationName, answer: Answer): Any =>
  JSON.parse(JSON.stringify(protocols[client].serve.writeResponse(answer, exchangeOf(client)))) as Any

const framesOf = (client: ConversationName, events: GenerationEvent[]): Any[] => {
  const writer = protocols[client].serve.writer(exchangeOf(client))
  return events
    .flatMap((event) => writer.write(event))
    .map(({ data }) => (data === '[DONE]' ? {} : JSON.parse(data)) as Any)
}

const bodies: Record<ConversationName, (word: string) => object> = {
  'chat.completions': (word) => ({
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: word }],
  }),
  responses: (word) => ({
    id: 'r',
    status: word === 'completed' ? word : 'incomplete',
    incomplete_details: word === 'completed' ? null : { reason: word },
    output: [{ type: 'message', id: 'm', content: [{ type: 'output_text', text: 'x' }] }],
  }),
  messages: (word) => ({ type: 'message', content: [{ type: 'text', text: 'x' }], stop_reason: word }),
  generateContent: (word) => ({ candidates: [{ content: { parts: [{ text: 'x' }] }, finishReason: word }] }),
}

const wordIn: Record<ConversationName, (answer: Any) => string> = {
  'chat.completions': (answer) => answer.choices[0].finish_reason,
  responses: (answer) => answer.incomplete_details?.reason ?? answer.status,
  messages: (answer) => answer.stop_reason,
  generateContent: (answer) => answer.candidates[0].finishReason,
}

/** What each ending of each provider is for clients of the four, in the order of NAMES. */
const OUTCOMES: [ConversationName, string, [string, string, string, string]][] = [
  ['chat.completions', 'stop', ['stop', 'completed', 'end_turn', 'STOP']],
  ['chat.completions', 'length', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  ['chat.completions', 'content_filter', ['content_filter', 'content_filter', 'refusal', 'SAFETY']],
  ['responses', 'completed', ['stop', 'completed', 'end_turn', 'STOP']],
  ['responses', 'max_output_tokens', ['length', 'max_output_tokens', 'max_tokens', 'MAX_TOKENS']],
  // Not a word of the document's, but of servers that claim to speak it.
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
    (word): [ConversationName, string, [string, string, string, string]] => [
      'generateContent',
      word,
      ['content_filter', 'content_filter', 'refusal', 'SAFETY'],
    ],
  ),
  ['generateContent', 'MALFORMED_FUNCTION_CALL', ['stop', 'completed', 'end_turn', 'OTHER']],
]

describe('endings', () => {
  test.each(OUTCOMES)('%s says %s', (provider, word, expected) => {
    const answer = read(provider, bodies[provider](word))
    expect(NAMES.map((client) => wordIn[client](whole(client, answer)))).toEqual(expected)
    // The provider's own word is kept where a client may look for it.
    expect(whole('chat.completions', answer).choices[0].native_finish_reason).toBe(word)
  })
})

describe('usage', () => {
  test('writes to caches keep their lifetimes for those who know them, and their sum for all others', () => {
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 7,
      cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 5 },
      output_tokens: 4,
    }
    const answer = read('messages', { ...bodies.messages('end_turn'), usage })
    expect(answer.usage).toMatchObject({
      inputTokens: 10,
      cacheReadTokens: 3,
      cacheWrite5mTokens: 2,
      cacheWrite1hTokens: 5,
    })
    expect(whole('messages', answer).usage).toMatchObject(usage)
    expect(whole('chat.completions', answer).usage).toMatchObject({
      prompt_tokens: 20,
      prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 7 },
    })
    expect(whole('responses', answer).usage).toMatchObject({
      input_tokens: 20,
      input_tokens_details: { cached_tokens: 3, cache_write_tokens: 7 },
    })
    expect(whole('generateContent', answer).usageMetadata).toMatchObject({
      promptTokenCount: 20,
      cachedContentTokenCount: 3,
    })
  })

  test('that comes last is told last, and corrects what a message began with', () => {
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
    // The chunk before the end mark, in which there are no choices.
    expect(framesOf('chat.completions', events).at(-2)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 8, completion_tokens: 2 },
    })
  })
})

describe('a call without arguments', () => {
  const events: GenerationEvent[] = [
    { type: 'start', id: 'x', model: 'm' },
    { type: 'part-start', part: 0, head: { type: 'tool-call', id: 'c', name: 'now', form: 'function' } },
    { type: 'part-end', part: 0 },
    { type: 'finish', reason: 'tool-calls', raw: 'stop' },
  ]

  test('is an empty object, streamed and whole', () => {
    const answer = fold(events)
    expect(whole('chat.completions', answer).choices[0].message.tool_calls[0].function.arguments).toBe('{}')
    expect(
      framesOf('chat.completions', events)
        .map((frame) => frame.choices?.[0]?.delta.tool_calls?.[0]?.function.arguments ?? '')
        .join(''),
    ).toBe('{}')
    expect(whole('responses', answer).output[0].arguments).toBe('{}')
    expect(
      framesOf('responses', events).findLast(({ type }) => type === 'response.function_call_arguments.done')!.arguments,
    ).toBe('{}')
    expect(whole('messages', answer).content[0].input).toEqual({})
    expect(
      framesOf('messages', events).find(({ type }) => type === 'content_block_start')!.content_block.input,
    ).toEqual({})
    expect(whole('generateContent', answer).candidates[0].content.parts[0].functionCall.args).toEqual({})
  })

  test('is one in the next request, too', () => {
    const answered: Ask = {
      turns: [{ user: 'hi' }, { calls: [{ id: 'c', args: '{}' }] }, { results: [{ id: 'c', text: 'x' }] }],
      tools: true,
    }
    const body = { model: 'a/b', ...bodyOf('chat.completions', answered, false) } as Any
    body.messages[1].tool_calls[0].function.arguments = ''
    const request = protocols['chat.completions'].serve.readRequest(wireOf(body))
    const sent = (provider: ConversationName): Any => written(provider, request, target).body as Any
    expect(sent('responses').input[1].arguments).toBe('{}')
    expect(sent('messages').messages[1].content[0].input).toEqual({})
    expect(sent('generateContent').contents[1].parts[0].functionCall.args).toEqual({})
    expect(sent('chat.completions').messages[1].tool_calls[0].function.arguments).toBe('{}')
  })
})

/** One choice in the words of the four, in the order of NAMES. */
const CHOICES: [string, object, object, object, object][] = [
  ['auto', { tool_choice: 'auto' }, { tool_choice: 'auto' }, { tool_choice: { type: 'auto' } }, { mode: 'AUTO' }],
  ['none', { tool_choice: 'none' }, { tool_choice: 'none' }, { tool_choice: { type: 'none' } }, { mode: 'NONE' }],
  [
    'required',
    { tool_choice: 'required' },
    { tool_choice: 'required' },
    { tool_choice: { type: 'any' } },
    { mode: 'ANY' },
  ],
  [
    'one tool',
    { tool_choice: { type: 'function', function: { name: 'find_place' } } },
    { tool_choice: { type: 'function', name: 'find_place' } },
    { tool_choice: { type: 'tool', name: 'find_place' } },
    { mode: 'ANY', allowedFunctionNames: ['find_place'] },
  ],
]

const chosen: Record<ConversationName, (choice: object) => object> = {
  'chat.completions': (choice) => choice,
  responses: (choice) => choice,
  messages: (choice) => choice,
  generateContent: (choice) => ({ toolConfig: { functionCallingConfig: choice } }),
}

const ask: Ask = { turns: [{ user: 'hi' }], tools: true }
const asking = (client: ConversationName, more: object) =>
  protocols[client].serve.readRequest(
    wireOf({ ...(client === 'generateContent' ? {} : { model: 'a/b' }), ...bodyOf(client, ask, false), ...more }),
  )

describe('tool choice', () => {
  for (const [what, ...words] of CHOICES)
    for (const [index, client] of NAMES.entries())
      test(`${what} of ${client}`, () => {
        const request = asking(client, chosen[client](words[index]!))
        for (const [at, provider] of NAMES.entries()) {
          const { body, losses } = written(provider, request, target)
          expect(body).toMatchObject(chosen[provider](words[at]!))
          expect(losses.filter(({ path }) => /choice/i.test(path))).toEqual([])
        }
      })

  test('no more than one call at once, where that can be said', () => {
    const wishes: [ConversationName, object][] = [
      ['chat.completions', { parallel_tool_calls: false }],
      ['responses', { parallel_tool_calls: false }],
      ['messages', { tool_choice: { type: 'auto', disable_parallel_tool_use: true } }],
    ]
    for (const [client, wish] of wishes) {
      const request = asking(client, wish)
      for (const [provider, words] of wishes) expect(written(provider, request, target).body).toMatchObject(words)
      expect(written('generateContent', request, target).losses.map(({ path, effect }) => `${path} ${effect}`)).toEqual(
        ['parallelTools dropped'],
      )
    }
    // With no call at all there is nothing to be said of several.
    expect(
      written('messages', asking('chat.completions', { parallel_tool_calls: false, tool_choice: 'none' }), target).body
        .tool_choice,
    ).toEqual({ type: 'none' })
  })
})

test('a sealed signature is read in either alphabet of base64, as SDKs that take it for bytes write it anew', () => {
  const data = Buffer.from(Array.from({ length: 96 }, (_, i) => (i * 61 + 251) % 256)).toString('base64')
  const sealed = wrapSignature(`${data}??>>`, { provider: 'p', model: 'm~?' })
  expect(sealed).toMatch(/[+/]/)
  for (const text of [sealed, sealed.replaceAll('+', '-').replaceAll('/', '_'), sealed.replace(/=+$/, '')])
    expect(unwrapSignature(text)).toEqual({ data: `${data}??>>`, issuer: { provider: 'p', model: 'm~?' } })
})

test('one answer is asked for: more are refused where the protocol says so, and told where it does not', () => {
  expect(() => asking('chat.completions', { n: 2 })).toThrow('n: must be 1, not 2')
  const request = asking('generateContent', {
    generationConfig: { candidateCount: 2 },
    cachedContent: 'cachedContents/x',
  })
  // What stands there is told as lost to every provider of another protocol.
  expect(Object.keys(request.extras)).toEqual(['cachedContent', 'generationConfig.candidateCount'])
})
