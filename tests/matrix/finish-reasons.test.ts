import { describe, expect, test } from 'bun:test'
import { fold, type FinishReason, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import type { Any } from '../recorded/response-content.ts'
import { streamedEventsOf } from '../translating.ts'
import { framesOf } from './provider-replies.ts'
import { bodyOf } from './client-requests.ts'
import { contextOf, NAMES } from './routes.ts'

/**
 * Every finish reason of each provider, streamed and whole, after text or after a call: how it is read, and that a
 * client receives the same from a stream and from a whole response.
 */

/** A response of a text or of a call with this finish reason: whole, and as the frames of a stream. */
type ResponseOf = (reason: string, calls: boolean) => { whole: object; frames: (object | string)[] }

const chunk = (delta: object, finish_reason: string | null = null): object => ({
  id: 'c',
  choices: [{ index: 0, delta, finish_reason }],
})

const RESPONSES: Record<ConversationName, ResponseOf> = {
  'chat.completions': (reason, calls) => {
    const content = calls
      ? { tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] }
      : { content: 'x' }
    return {
      whole: {
        id: 'c',
        choices: [{ index: 0, message: { role: 'assistant', content: null, ...content }, finish_reason: reason }],
      },
      frames: [chunk({ role: 'assistant' }), chunk(content), chunk({}, reason), '[DONE]'],
    }
  },
  responses: (reason, calls) => {
    const item = calls
      ? { type: 'function_call', id: 'i', call_id: 'a', name: 'f', arguments: '{}' }
      : { type: 'message', id: 'i', content: [{ type: 'output_text', text: 'x' }] }
    const status = reason === 'completed' ? reason : 'incomplete'
    const whole = {
      id: 'r',
      status,
      incomplete_details: reason === 'completed' ? null : { reason },
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
 * The provider's values, and the reason that they mean after a text and, where that differs, after a complete call: a
 * turn with a call is a tool turn unless it was truncated or refused.
 */
const REASONS: [ConversationName, values: string[], reason: FinishReason, withCall?: FinishReason][] = [
  ['chat.completions', ['stop', 'eos', 'end_turn', 'tool_calls', 'function_call'], 'stop', 'tool-calls'],
  ['chat.completions', ['length', 'max_tokens', 'model_length'], 'length'],
  ['chat.completions', ['content_filter'], 'content-filter'],
  ['chat.completions', ['a_future_reason', 'tool_use'], 'other', 'tool-calls'],
  ['responses', ['completed'], 'stop', 'tool-calls'],
  ['responses', ['max_output_tokens', 'max_tokens'], 'length'],
  ['responses', ['content_filter'], 'content-filter'],
  ['responses', ['a_future_reason'], 'other'],
  ['messages', ['end_turn', 'tool_use'], 'stop', 'tool-calls'],
  ['messages', ['stop_sequence'], 'stop-sequence'],
  ['messages', ['max_tokens', 'model_context_window_exceeded'], 'length'],
  ['messages', ['pause_turn'], 'pause'],
  ['messages', ['refusal'], 'refusal'],
  ['messages', ['a_future_reason'], 'other', 'tool-calls'],
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

const contextFor = (client: ConversationName): TranslationContext => {
  const model = client === 'generateContent' ? {} : { model: 'a/b' }
  return contextOf(client, { ...model, ...bodyOf(client, { turns: [{ user: 'hi' }] }, client !== 'generateContent') })
}

/** The client's finish reason in a whole response, and in the frame of a stream that has it. */
const finishIn: Record<ConversationName, { whole(answer: Any): unknown; frames(frames: Any[]): unknown }> = {
  'chat.completions': {
    whole: ({ choices: [choice] }) => choice.finish_reason,
    frames: (frames) => frames.findLast(({ choices }) => choices?.[0]?.finish_reason)!.choices[0].finish_reason,
  },
  responses: {
    whole: ({ status, incomplete_details: details }) => [status, details?.reason],
    frames: (frames) => [frames.at(-1)!.type.split('.')[1], frames.at(-1)!.response.incomplete_details?.reason],
  },
  messages: { whole: ({ stop_reason }) => stop_reason, frames: (frames) => frames.at(-2)!.delta.stop_reason },
  generateContent: {
    whole: ({ candidates: [{ finishReason, finishMessage }] }) => [finishReason, finishMessage],
    frames: (frames) => [frames.at(-1)!.candidates[0].finishReason, frames.at(-1)!.candidates[0].finishMessage],
  },
}

const framesFor = (client: ConversationName, events: GenerationEvent[]): Any[] => {
  const writer = protocols[client].serve.writer(contextFor(client))
  return events
    .flatMap((event) => writer.write(event))
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Any)
}

describe.each(REASONS)('the finish reasons of %s: %j', (provider, values, reason, withCall = reason) => {
  test.each(values)(`%s is ${reason}, with a call ${withCall}, and the same streamed and whole`, (value) => {
    for (const calls of [false, true]) {
      const { whole, frames } = RESPONSES[provider](value, calls)
      const events = streamedEventsOf(provider, framesOf(frames))
      const answer = fold(protocols[provider].call.readResponse(whole, {}))
      expect(answer.finish).toMatchObject({ reason: calls ? withCall : reason, raw: value })
      expect(fold(events).finish).toEqual(answer.finish)
      for (const client of NAMES)
        expect(finishIn[client].frames(framesFor(client, events))).toEqual(
          finishIn[client].whole(protocols[client].serve.writeResponse(answer, contextFor(client)) as Any),
        )
    }
  })
})
