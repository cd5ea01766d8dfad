import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { LossCode } from '../../src/protocols/loss-codes.ts'
import { eventsFor } from '../translating.ts'
import { contextOf, NAMES, others } from './routes.ts'

/** Fields of a response that only its own protocol has: each is reported to a client of any other. */

type ReportedLoss = { code: LossCode; path: string }

function lossesOf(client: ConversationName, events: GenerationEvent[], stream: boolean): ReportedLoss[] {
  const context = contextOf(client)
  const writer = protocols[client].serve.writer(context)
  if (stream) for (const event of events) writer.write(event)
  else protocols[client].serve.writeResponse(fold(events), context)
  return context.losses.losses.map(({ code, path }) => ({ code, path }))
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

/** The code of a loss, by client where it differs. */
type Code = LossCode | Record<ConversationName, LossCode>

const ADJUSTED: Record<ConversationName, LossCode> = {
  'chat.completions': 'response_citation_adjusted',
  responses: 'response_citation_adjusted',
  messages: 'response_citation_adjusted',
  generateContent: 'response_citation_adjusted',
}

const FIELDS: [what: string, provider: ConversationName, body: object, code: Code, path: string][] = [
  [
    'log probabilities of reasoning',
    'chat.completions',
    chat(
      { reasoning_content: 'hm' },
      {},
      { logprobs: { content: null, reasoning_content: [{ token: 'hm', logprob: -1, bytes: null, top_logprobs: [] }] } },
    ),
    'response_content_native',
    'response.logprobs',
  ],
  [
    'the text of listed sources',
    'chat.completions',
    chat(
      {},
      {
        citations: ['https://a.example'],
        search_results: [{ url: 'https://a.example', title: 'A', snippet: 'the text of the source' }],
      },
    ),
    'response_citation_adjusted',
    'response.citations',
  ],
  [
    'the phase of a message',
    'responses',
    responses({ type: 'message', id: 'm', phase: 'commentary', content: [{ type: 'output_text', text: 'x' }] }),
    'response_content_native',
    'response.phase',
  ],
  [
    'the revised prompt of an image',
    'responses',
    responses({ type: 'image_generation_call', id: 'i', result: 'iVBORw0KGgo=', revised_prompt: 'a red pixel' }),
    'response_content_native',
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
    { ...ADJUSTED, 'chat.completions': 'response_citation_dropped', messages: 'response_citation_dropped' },
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
    { ...ADJUSTED, 'chat.completions': 'response_citation_dropped' },
    'response.citations',
  ],
  [
    'the explanation of a finish reason',
    'generateContent',
    gemini({ finishReason: 'MALFORMED_FUNCTION_CALL', finishMessage: 'not one of the functions' }),
    'response_field_dropped',
    'response.stop_details',
  ],
  [
    'the reason why a prompt was blocked',
    'generateContent',
    { promptFeedback: { blockReason: 'SAFETY', blockReasonMessage: 'not here' } },
    'response_field_dropped',
    'response.stop_details',
  ],
  [
    'the URLs that the model read',
    'generateContent',
    gemini({
      urlContextMetadata: {
        urlMetadata: [{ retrievedUrl: 'https://a.example', urlRetrievalStatus: 'URL_RETRIEVAL_STATUS_SUCCESS' }],
      },
    }),
    'response_content_native',
    'response.urlContextMetadata',
  ],
]

for (const [what, provider, body, code, path] of FIELDS)
  describe(`${what} in a response of ${provider}`, () => {
    test.each(others(provider))('is reported to a %s client', (client) => {
      const events = eventsFor(provider, body, {}, contextOf(client).request)
      const loss = { code: typeof code === 'string' ? code : code[client], path }
      expect(lossesOf(client, events, false)).toContainEqual(loss)
      expect(lossesOf(client, events, true)).toContainEqual(loss)
    })
  })

test.each(NAMES.slice(0, 3))('the message of an ordinary finish reason is not reported to a %s client', (client) => {
  const body = gemini({ finishMessage: 'The model ended by itself.' })
  const events = eventsFor('generateContent', body, {}, contextOf(client).request)
  expect(lossesOf(client, events, false)).toEqual([])
})
