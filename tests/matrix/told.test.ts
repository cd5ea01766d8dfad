import { eventsFor } from '../translating.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { bodyOf } from './asking.ts'

/** Response members that only one protocol has are reported for clients of every other, streamed and whole. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

function exchangeOf(client: ConversationName): TranslationContext {
  const body: Record<string, unknown> = {
    ...(client === 'generateContent' ? {} : { model: 'a/b' }),
    ...bodyOf(client, { turns: [{ user: 'hi' }] }, false),
  }
  const request = protocols[client].serve.readRequest({
    body,
    text: JSON.stringify(body),
    model: 'a/b',
    stream: false,
    headers: new Headers(),
  })
  return {
    rawRequest: { body, text: '', headers: new Headers() },
    request,
    responseIdentity: { id: 'ours', model: 'a/b', createdAt: 1_700_000_000, issuer: { provider: 'p', model: 'm' } },
    losses: new LossReport(),
  }
}

function toldOf(client: ConversationName, events: GenerationEvent[], stream: boolean): string[] {
  const context = exchangeOf(client)
  const writer = protocols[client].serve.writer(context)
  if (stream) for (const event of events) writer.write(event)
  else protocols[client].serve.writeAnswer(fold(events), context)
  return context.losses!.losses.map(({ path }) => path)
}

const chat = (message: object, more: object = {}, choice: object = {}): object => ({
  id: 'c',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x', ...message }, finish_reason: 'stop', ...choice }],
  ...more,
})
const responses = (...output: object[]): object => ({ id: 'r', status: 'completed', output })
const gemini = (candidate: object): object => ({
  candidates: [{ content: { parts: [{ text: 'x' }] }, finishReason: 'STOP', ...candidate }],
})

const ONLY: [what: string, provider: ConversationName, body: object, field: string][] = [
  [
    'log probabilities of reasoning',
    'chat.completions',
    chat(
      { reasoning_content: 'hm' },
      {},
      { logprobs: { content: null, reasoning_content: [{ token: 'hm', logprob: -1, bytes: null, top_logprobs: [] }] } },
    ),
    'response.logprobs',
  ],
  [
    'quotations of listed sources',
    'chat.completions',
    chat(
      {},
      {
        citations: ['https://a.example'],
        search_results: [{ url: 'https://a.example', title: 'A', snippet: 'as it stands there' }],
      },
    ),
    'response.citations',
  ],
  [
    'the phase of a message',
    'responses',
    responses({ type: 'message', id: 'm', phase: 'commentary', content: [{ type: 'output_text', text: 'x' }] }),
    'response.phase',
  ],
  [
    'the revised prompt of an image',
    'responses',
    responses({ type: 'image_generation_call', id: 'i', result: 'iVBORw0KGgo=', revised_prompt: 'a red pixel' }),
    'response.revised_prompt',
  ],
  [
    'the file of a citation',
    'responses',
    responses({
      type: 'message',
      id: 'm',
      content: [
        {
          type: 'output_text',
          text: 'x',
          annotations: [{ type: 'file_citation', file_id: 'file_1', filename: 'a.txt', index: 0 }],
        },
      ],
    }),
    'response.citations',
  ],
  [
    'the position in a cited document',
    'messages',
    {
      type: 'message',
      content: [
        {
          type: 'text',
          text: 'x',
          citations: [
            {
              type: 'char_location',
              cited_text: 'y',
              document_index: 0,
              document_title: 'A',
              start_char_index: 3,
              end_char_index: 4,
            },
          ],
        },
      ],
      stop_reason: 'end_turn',
    },
    'response.citations',
  ],
  [
    'an explanation of the finish reason',
    'generateContent',
    gemini({ finishReason: 'MALFORMED_FUNCTION_CALL', finishMessage: 'not one of the functions' }),
    'response.stop_details',
  ],
  [
    'why a prompt was blocked',
    'generateContent',
    { promptFeedback: { blockReason: 'SAFETY', blockReasonMessage: 'not here' } },
    'response.stop_details',
  ],
  [
    'the URLs that were read',
    'generateContent',
    gemini({
      urlContextMetadata: {
        urlMetadata: [{ retrievedUrl: 'https://a.example', urlRetrievalStatus: 'URL_RETRIEVAL_STATUS_SUCCESS' }],
      },
    }),
    'response.urlContextMetadata',
  ],
]

describe('the report includes', () => {
  for (const [what, provider, body, field] of ONLY)
    for (const client of NAMES.filter((name) => name !== provider))
      test(`${what} to ${client}`, () => {
        const events = eventsFor(provider, body, {}, exchangeOf(client).request)
        expect(toldOf(client, events, false)).toContain(field)
        expect(toldOf(client, events, true)).toContain(field)
      })

  test.each(NAMES.slice(0, 3))('nothing for an ordinary finish reason, to %s', (client) => {
    const events = eventsFor(
      'generateContent',
      gemini({ finishMessage: 'The model ended by itself.' }),
      {},
      exchangeOf(client).request,
    )
    expect(toldOf(client, events, false)).toEqual([])
  })
})
