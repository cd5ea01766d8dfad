import { describe, expect, test } from 'bun:test'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { eventsFor, readerFor, written } from '../translating.ts'
import { framesOf } from './provider-replies.ts'
import { type Json, HELLO, contextOf, NAMES, others, ROUTES, sendTo } from './routes.ts'

/** Stop sequences that a provider does not accept: Sluice ends its response at them. */

const STOPS = ['one', 'two', 'three', 'four', 'five', ' ']
const TARGET = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }

const chunk = (delta: object, finish_reason: string | null = null): object => ({
  id: 'c',
  choices: [{ index: 0, delta, finish_reason }],
})

/** A response of this text: whole, and as the frames of a stream. */
const RESPONSES: Record<ConversationName, (text: string) => { whole: object; frames: (object | string)[] }> = {
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

const BODY = { model: 'a/b', max_tokens: 9, messages: [{ role: 'user', content: 'q' }], stop_sequences: STOPS }
const { request } = contextOf('messages', BODY)

const LOSS_REASONS: Partial<Record<ConversationName, string>> = {
  'chat.completions': 'the provider accepts 4 stop sequences and gets the first ones',
  responses: 'the provider has no stop sequences',
  generateContent: 'the provider accepts 5 stop sequences and gets the first ones',
}

describe('stop sequences of a messages client', () => {
  test.each(others('messages'))(
    'end a response of %s also if the provider does not accept them, and are reported',
    (provider) => {
      const { whole, frames } = RESPONSES[provider]('zero-five-six')
      const reader = readerFor(provider, {}, request)
      const events = [...framesOf(frames).flatMap((frame) => reader.read(frame)), ...reader.end()]
      for (const answer of [fold(events), fold(eventsFor(provider, whole, {}, request))]) {
        expect(answer.parts).toEqual([{ type: 'text', text: 'zero-' }])
        expect(answer.finish).toMatchObject({ reason: 'stop-sequence', stopSequence: 'five' })
      }
      expect(written(provider, request, TARGET, BODY).losses).toContainEqual({
        code: 'stop_applied_here',
        path: 'stop_sequences',
        effect: 'approximated',
        reason: `${LOSS_REASONS[provider]}; Sluice ends the response there, and tokens after it are billed`,
      })
    },
  )

  test('are applied by the provider alone if it has the protocol of the client', () => {
    expect(fold(eventsFor('messages', RESPONSES.messages('zero five').whole, {}, request)).parts).toMatchObject([
      { text: 'zero five' },
    ])
  })
})

test('a stop sequence of whitespace only, which messages providers refuse, ends their response', () => {
  const ofChat = { ...request, protocol: 'chat.completions' as const }
  expect(fold(eventsFor('messages', RESPONSES.messages('zero six').whole, {}, ofChat))).toMatchObject({
    parts: [{ text: 'zero' }],
    finish: { stopSequence: ' ' },
  })
  expect(written('messages', ofChat, TARGET).body.stop_sequences).toEqual(STOPS.slice(0, 5))
})

/** The setting in which a client of each protocol with stop sequences writes them. */
const WRITTEN: Partial<Record<ConversationName, [path: string, write: (stops: string[]) => Json]>> = {
  'chat.completions': ['stop', (stop) => ({ stop })],
  messages: ['stop_sequences', (stops) => ({ stop_sequences: stops })],
  generateContent: ['generationConfig.stopSequences', (stopSequences) => ({ generationConfig: { stopSequences } })],
}

const SENT: Record<ConversationName, (body: Json) => unknown> = {
  'chat.completions': ({ stop }) => stop,
  responses: () => undefined,
  messages: ({ stop_sequences }) => stop_sequences,
  generateContent: ({ generationConfig }) => generationConfig?.stopSequences,
}

describe('an empty stop sequence', () => {
  const routes = ROUTES.filter(([client]) => WRITTEN[client] !== undefined)

  test.each(routes)('of a %s client is dropped for %s, reported, and ends no response', (client, provider) => {
    const [path, write] = WRITTEN[client]!
    const loss = {
      code: 'unsupported_by_provider',
      path,
      effect: 'dropped',
      reason: 'an empty stop sequence ends no response',
    }
    const alone = contextOf(client, { ...HELLO[client], ...write(['']) })
    const { body, losses } = sendTo(provider, alone)
    expect(SENT[provider](body)).toBeUndefined()
    expect(losses.filter(({ code }) => code !== 'limit_required')).toEqual([loss as Loss])
    expect(fold(eventsFor(provider, RESPONSES[provider]('zero').whole, {}, alone.request))).toMatchObject({
      parts: [{ text: 'zero' }],
      finish: { reason: 'stop' },
    })

    const amongOthers = contextOf(client, { ...HELLO[client], ...write(['', 'two']) })
    const sent = sendTo(provider, amongOthers)
    if (provider !== 'responses') expect(SENT[provider](sent.body)).toEqual(['two'])
    expect(sent.losses).toContainEqual(loss as Loss)
    expect(fold(eventsFor(provider, RESPONSES[provider]('one-two').whole, {}, amongOthers.request))).toMatchObject({
      parts: [{ text: 'one-' }],
      finish: { stopSequence: 'two' },
    })
  })

  test('of a chat completions client is dropped also if it is the only value of stop', () => {
    const { body, losses } = sendTo(
      'generateContent',
      contextOf('chat.completions', { ...HELLO['chat.completions'], stop: '' }),
    )
    expect(body.generationConfig?.stopSequences).toBeUndefined()
    expect(losses).toMatchObject([{ code: 'unsupported_by_provider', path: 'stop' }])
  })

  test.each(NAMES.filter((name) => WRITTEN[name] !== undefined))(
    'of a %s client is judged by a provider of its own protocol',
    (client) => {
      const body = WRITTEN[client]![1](['', 'two'])
      expect(sendTo(client, contextOf(client, { ...HELLO[client], ...body })).body).toMatchObject(body)
    },
  )
})
