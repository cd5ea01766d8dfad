import { readerFor, eventsFor, written } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import { fold, type Answer, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { framed } from '../gateway/scripted.ts'
import type { Any } from '../recorded/said.ts'
import { bodyOf } from './asking.ts'

/**
 * Every word with which a provider ends, streamed and whole, behind text or behind a call: what its reader makes of it,
 * and that both tell clients the same.
 */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

/** An answer of a text, or of a call, that ends with `word`: whole, and as the frames of a stream. */
type Talk = (word: string, calls: boolean) => { whole: object; frames: (object | string)[] }

const chunk = (delta: object, finish_reason: string | null = null): object => ({
  id: 'c',
  choices: [{ index: 0, delta, finish_reason }],
})

const TALKS: Record<ConversationName, Talk> = {
  'chat.completions': (word, calls) => {
    const said = calls
      ? { tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] }
      : { content: 'x' }
    return {
      whole: {
        id: 'c',
        choices: [{ index: 0, message: { role: 'assistant', content: null, ...said }, finish_reason: word }],
      },
      frames: [chunk({ role: 'assistant' }), chunk(said), chunk({}, word), '[DONE]'],
    }
  },
  responses: (word, calls) => {
    const item = calls
      ? { type: 'function_call', id: 'i', call_id: 'a', name: 'f', arguments: '{}' }
      : { type: 'message', id: 'i', content: [{ type: 'output_text', text: 'x' }] }
    const status = word === 'completed' ? word : 'incomplete'
    const whole = {
      id: 'r',
      status,
      incomplete_details: word === 'completed' ? null : { reason: word },
      output: [item],
    }
    return {
      whole,
      frames: [
        { type: 'response.created', response: { id: 'r' } },
        { type: 'response.output_item.added', output_index: 0, item },
        { type: 'response.output_item.done', output_index: 0, item },
        { type: `response.${status}`, response: whole },
      ],
    }
  },
  messages: (stop_reason, calls) => {
    const block = calls ? { type: 'tool_use', id: 'a', name: 'f', input: {} } : { type: 'text', text: 'x' }
    return {
      whole: { type: 'message', content: [block], stop_reason },
      frames: [
        { type: 'message_start', message: { id: 'm', content: [] } },
        { type: 'content_block_start', index: 0, content_block: block },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason } },
        { type: 'message_stop' },
      ],
    }
  },
  generateContent: (finishReason, calls) => {
    const parts = [calls ? { functionCall: { id: 'a', name: 'f', args: {} } } : { text: 'x' }]
    return {
      whole: { candidates: [{ content: { parts }, finishReason }] },
      frames: [
        { candidates: [{ content: { parts } }] },
        { candidates: [{ content: { parts: [{ text: '' }] }, finishReason }] },
      ],
    }
  },
}

/**
 * The reason behind a text, and behind a whole call where that differs: a turn with a call is a tool turn, unless it
 * was cut or refused.
 */
const WORDS: [ConversationName, words: string[], reason: string, called?: string][] = [
  ['chat.completions', ['stop', 'eos', 'end_turn', 'tool_calls', 'function_call'], 'stop', 'tool-calls'],
  ['chat.completions', ['length', 'max_tokens', 'model_length'], 'length'],
  ['chat.completions', ['content_filter'], 'content-filter'],
  ['chat.completions', ['a_word_of_tomorrow', 'tool_use'], 'other', 'tool-calls'],
  ['responses', ['completed'], 'stop', 'tool-calls'],
  ['responses', ['max_output_tokens', 'max_tokens'], 'length'],
  ['responses', ['content_filter'], 'content-filter'],
  ['responses', ['a_word_of_tomorrow'], 'other'],
  ['messages', ['end_turn'], 'stop', 'tool-calls'],
  ['messages', ['tool_use'], 'tool-calls', 'tool-calls'],
  ['messages', ['stop_sequence'], 'stop-sequence'],
  ['messages', ['max_tokens', 'model_context_window_exceeded'], 'length'],
  ['messages', ['pause_turn'], 'pause'],
  ['messages', ['refusal'], 'refusal'],
  ['messages', ['a_word_of_tomorrow'], 'other', 'tool-calls'],
  ['generateContent', ['STOP'], 'stop', 'tool-calls'],
  ['generateContent', ['MAX_TOKENS'], 'length'],
  [
    'generateContent',
    [
      'SAFETY',
      'RECITATION',
      'BLOCKLIST',
      'PROHIBITED_CONTENT',
      'SPII',
      'MODEL_ARMOR',
      'IMAGE_SAFETY',
      'IMAGE_PROHIBITED_CONTENT',
      'IMAGE_RECITATION',
    ],
    'content-filter',
  ],
  [
    'generateContent',
    [
      'LANGUAGE',
      'OTHER',
      'MALFORMED_FUNCTION_CALL',
      'UNEXPECTED_TOOL_CALL',
      'TOO_MANY_TOOL_CALLS',
      'MISSING_THOUGHT_SIGNATURE',
      'MALFORMED_RESPONSE',
      'NO_IMAGE',
      'IMAGE_OTHER',
      'FINISH_REASON_UNSPECIFIED',
    ],
    'other',
    'tool-calls',
  ],
]

function streamed(provider: ConversationName, frames: (object | string)[]): GenerationEvent[] {
  const reader = protocols[provider].call.reader({})
  return [
    ...new FrameSplitter().push(Buffer.from(framed(frames))).flatMap((frame) => reader.read(frame)),
    ...reader.end(),
  ]
}

const exchangeOf = (client: ConversationName): TranslationContext => {
  const body = {
    ...(client === 'generateContent' ? {} : { model: 'a/b' }),
    ...bodyOf(client, { turns: [{ user: 'hi' }] }, client !== 'generateContent'),
  }
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: true, headers: new Headers() }
  return {
    rawRequest,
    request: protocols[client].serve.readRequest(rawRequest),
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000 },
  }
}

/** The word in a whole answer, and in the frame of a stream that has it. */
const wordIn: Record<ConversationName, { whole(answer: Any): unknown; frames(frames: Any[]): unknown }> = {
  'chat.completions': {
    whole: ({ choices: [choice] }) => choice.finish_reason,
    frames: (frames) => frames.findLast(({ choices }) => choices?.[0]?.finish_reason)!.choices[0].finish_reason,
  },
  responses: {
    whole: ({ status, incomplete_details: why }) => [status, why?.reason],
    frames: (frames) => [frames.at(-1)!.type.split('.')[1], frames.at(-1)!.response.incomplete_details?.reason],
  },
  messages: { whole: ({ stop_reason }) => stop_reason, frames: (frames) => frames.at(-2)!.delta.stop_reason },
  generateContent: {
    whole: ({ candidates: [{ finishReason, finishMessage }] }) => [finishReason, finishMessage],
    frames: (frames) => [frames.at(-1)!.candidates[0].finishReason, frames.at(-1)!.candidates[0].finishMessage],
  },
}

const framesFor = (client: ConversationName, events: GenerationEvent[]): Any[] => {
  const writer = protocols[client].serve.writer(exchangeOf(client))
  return events
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Any)
}

describe.each(WORDS)('%s ends with %j', (provider, words, reason, called = reason) => {
  test.each(words)('%s', (word) => {
    for (const [calls, expected] of [
      [false, reason === 'tool-calls' ? 'tool-calls' : reason],
      [true, called],
    ] as const) {
      const { whole, frames } = TALKS[provider](word, calls)
      const events = streamed(provider, frames)
      const answer: Answer = fold(protocols[provider].call.readResponse(whole, {}))
      expect(answer.finish).toMatchObject({ reason: expected as Answer['finish']['reason'], raw: word })
      expect(fold(events).finish).toEqual(answer.finish)
      for (const client of NAMES)
        expect(wordIn[client].frames(framesFor(client, events))).toEqual(
          wordIn[client].whole(protocols[client].serve.writeResponse(answer, exchangeOf(client)) as Any),
        )
    }
  })
})

describe('stop sequences beyond those that a provider takes', () => {
  const STOPS = ['one', 'two', 'three', 'four', 'five', ' ']
  const spoken: Record<ConversationName, (text: string) => { whole: object; frames: (object | string)[] }> = {
    'chat.completions': (content) => ({
      whole: { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] },
      frames: [chunk({ content }), chunk({}, 'stop'), '[DONE]'],
    }),
    responses: (text) => ({
      whole: { status: 'completed', output: [{ type: 'message', content: [{ type: 'output_text', text }] }] },
      frames: [
        { type: 'response.created', response: {} },
        {
          type: 'response.completed',
          response: { status: 'completed', output: [{ type: 'message', content: [{ type: 'output_text', text }] }] },
        },
      ],
    }),
    messages: (text) => ({
      whole: { type: 'message', content: [{ type: 'text', text }], stop_reason: 'end_turn' },
      frames: [
        { type: 'message_start', message: {} },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
        { type: 'message_stop' },
      ],
    }),
    generateContent: (text) => ({
      whole: { candidates: [{ content: { parts: [{ text }] }, finishReason: 'STOP' }] },
      frames: [{ candidates: [{ content: { parts: [{ text }] }, finishReason: 'STOP' }] }],
    }),
  }
  const body = { model: 'a/b', max_tokens: 9, messages: [{ role: 'user', content: 'q' }], stop_sequences: STOPS }
  const request = protocols.messages.serve.readRequest({ body, text: JSON.stringify(body), headers: new Headers() })

  test.each(NAMES.filter((name) => name !== 'messages'))(
    'end an answer of %s all the same, and are told',
    (provider) => {
      const { whole, frames } = spoken[provider]('zero-five-six')
      const reader = readerFor(provider, {}, request)
      const events = [
        ...new FrameSplitter().push(Buffer.from(framed(frames))).flatMap((frame) => reader.read(frame)),
        ...reader.end(),
      ]
      for (const answer of [fold(events), fold(eventsFor(provider, whole, {}, request))]) {
        expect(answer.parts).toEqual([{ type: 'text', text: 'zero-' }])
        expect(answer.finish).toMatchObject({ reason: 'stop-sequence', stopSequence: 'five' })
      }
      const { losses } = written(provider, request, {
        provider: 'p',
        model: 'm',
        quirks: {},
        capabilities: {},
      })
      expect(losses).toContainEqual(
        expect.objectContaining({
          field: 'stop',
          effect: 'approximated',
          reason: expect.stringContaining('the answer is cut'),
        }),
      )
    },
  )

  test('of nothing but space end an answer of messages, which refuses them', () => {
    const asked = { ...request, protocol: 'chat.completions' as const }
    expect(fold(eventsFor('messages', spoken.messages('zero six').whole, {}, asked))).toMatchObject({
      parts: [{ text: 'zero' }],
      finish: { stopSequence: ' ' },
    })
    expect(
      written('messages', asked, { provider: 'p', model: 'm', quirks: {}, capabilities: {} }).body.stop_sequences,
    ).toEqual(STOPS.slice(0, 5))
  })

  test("are left to a provider that hears the client's own words", () => {
    expect(fold(eventsFor('messages', spoken.messages('zero five').whole, {}, request)).parts).toMatchObject([
      { text: 'zero five' },
    ])
  })
})
