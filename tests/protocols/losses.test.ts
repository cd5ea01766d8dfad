import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent, type PartHead } from '../../src/generation/event.ts'
import { protocols } from '../../src/protocols/index.ts'
import { CLIENTS, contextOf, responseWith, summaryOf, TEXT } from './response-losses.ts'

/** Losses of responses: what each client protocol cannot represent, the same for whole and streamed responses. */

const responseCiting = (citation: object): GenerationEvent[] =>
  responseWith([TEXT, [{ type: 'citation', citation }, '']])
const LOGPROBS = { logprobs: [{ token: 'Hello there', logprob: -1, bytes: [1], top: [] }] }

/** Losses for clients of chat completions, responses, messages and generateContent, in this order. */
const CASES: [string, GenerationEvent[], string, string, string, string][] = [
  [
    'text, reasoning, a tool call and a common finish reason',
    responseWith(
      [
        [{ type: 'reasoning' }, 'hm', { signature: 's' }],
        TEXT,
        [{ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '{"a":1}', { signature: 's' }],
      ],
      { reason: 'tool-calls', raw: 'tool_calls' },
    ),
    '',
    '',
    '',
    '',
  ],
  [
    'a tool call without arguments',
    responseWith([[{ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '']], { reason: 'tool-calls' }),
    '',
    '',
    '',
    '',
  ],
  [
    'a provider-native part',
    responseWith([[{ type: 'native', protocol: 'images', kind: 'odd_thing', value: {} }, ''], TEXT]),
    'odd_thing dropped',
    'odd_thing dropped',
    'odd_thing dropped',
    'odd_thing dropped',
  ],
  ['an image', responseWith([[{ type: 'image', mediaType: 'image/png' }, 'AAAA']]), '', '', 'image dropped', ''],
  [
    'audio',
    responseWith([[{ type: 'audio', mediaType: 'audio/L16' }, 'AAAA']]),
    'audio approximated',
    'audio dropped',
    'audio dropped',
    '',
  ],
  [
    'log probabilities',
    responseWith([[{ type: 'text' }, 'Hello there', LOGPROBS]]),
    '',
    '',
    'logprobs dropped',
    'logprobs approximated',
  ],
  [
    'a citation with its position',
    responseCiting({ url: 'https://a.example', title: 'A', start: 0, end: 11 }),
    '',
    '',
    '',
    '',
  ],
  [
    'a citation without a position',
    responseCiting({ url: 'https://a.example' }),
    'citations approximated',
    'citations approximated',
    'citations approximated',
    '',
  ],
  [
    'a citation without a URL',
    responseCiting({ title: 'A', citedText: 'words of it', start: 0, end: 5 }),
    'citations dropped',
    'citations approximated',
    'citations dropped',
    '',
  ],
  [
    'a citation with a quotation of its source',
    responseCiting({ url: 'https://a.example', citedText: 'words of it', start: 0, end: 11 }),
    'citations approximated',
    'citations approximated',
    '',
    'citations approximated',
  ],
  [
    'a refusal with text',
    responseWith([[{ type: 'refusal' }, 'No.']], { reason: 'stop', raw: 'stop' }),
    '',
    '',
    '',
    'refusal approximated',
  ],
  [
    'the stop sequence that was found',
    responseWith([TEXT], { reason: 'stop-sequence', raw: 'stop_sequence', stopSequence: 'X' }),
    'stop_sequence dropped',
    'stop_sequence dropped',
    '',
    'stop_sequence dropped',
  ],
  [
    'details of a refusal',
    responseWith([TEXT], { reason: 'refusal', raw: 'refusal', details: { type: 'refusal', category: 'cyber' } }),
    'stop_details dropped',
    'finish_reason approximated, stop_details dropped',
    'stop_details dropped',
    'finish_reason approximated, stop_details dropped',
  ],
  [
    'the finish reason content-filter',
    responseWith([TEXT], { reason: 'content-filter', raw: 'RECITATION' }),
    '',
    '',
    'finish_reason approximated',
    'finish_reason approximated',
  ],
  [
    'a refusal without text',
    responseWith([TEXT], { reason: 'refusal', raw: 'refusal' }),
    '',
    'finish_reason approximated',
    '',
    'finish_reason approximated',
  ],
  [
    'the finish reason pause',
    responseWith([TEXT], { reason: 'pause', raw: 'pause_turn' }),
    '',
    'finish_reason approximated',
    '',
    '',
  ],
  [
    'a finish reason that only the provider has',
    responseWith([TEXT], { reason: 'other', raw: 'LANGUAGE' }),
    '',
    'finish_reason approximated',
    'finish_reason approximated',
    '',
  ],
  [
    'a signature of the last text',
    responseWith([[{ type: 'text' }, 'Hello', { signature: 's' }]]),
    '',
    '',
    'signature dropped',
    '',
  ],
  [
    'tokens written to a cache with a lifetime of an hour',
    responseWith([TEXT], {}, { cacheWrite1hTokens: 7 }),
    'usage approximated',
    'usage approximated',
    '',
    'usage approximated',
  ],
  ['the number of web searches', responseWith([TEXT], {}, { webSearches: 2 }), '', '', '', 'usage dropped'],
]

describe.each(CASES)('%s', (_name, events, ...expected) => {
  const cases = CLIENTS.map((client, index) => [client, expected[index]!] as const)
  test.each(cases)('has for a client of %s the losses: %s', (client, lost) => {
    const [whole, streamed] = [contextOf(client), contextOf(client)]
    protocols[client].serve.writeResponse(fold(events), whole)
    const writer = protocols[client].serve.writer(streamed)
    for (const event of events) writer.write(event)
    const { losses } = whole.losses!
    expect(summaryOf(losses)).toBe(lost)
    expect(streamed.losses!.losses).toEqual(losses)
    for (const { code, path } of losses)
      expect([code.startsWith('response_'), path.startsWith('response.')]).toEqual([true, true])
  })
})

test.each([
  ['messages', 'length', 'response_content_dropped'],
  ['messages', 'tool-calls', 'response_field_dropped'],
  ['generateContent', 'length', 'response_content_dropped'],
  ['generateContent', 'tool-calls', 'response_content_dropped'],
] as const)(
  'incomplete arguments are reported for a client of %s in a response that ends with %s',
  (client, reason, code) => {
    const call: PartHead = { type: 'tool-call', id: 'c', name: 'f', form: 'function' }
    const context = contextOf(client)
    protocols[client].serve.writeResponse(fold(responseWith([[call, '{"a":']], { reason, raw: reason })), context)
    expect(context.losses!.losses).toMatchObject([{ code, path: 'response.tool_calls.arguments', effect: 'dropped' }])
  },
)

test('a response of the images API reports other parts; text only in a stream, which has no field for it', () => {
  const events = responseWith([
    TEXT,
    [{ type: 'reasoning' }, 'hm'],
    [
      { type: 'image', mediaType: 'image/png' },
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    ],
  ])
  const [whole, streamed] = [contextOf('images', true), contextOf('images', true)]
  protocols.images.serve.writeResponse(fold(events), whole)
  const writer = protocols.images.serve.writer(streamed)
  const frames = events.flatMap((event) => writer.write(event))
  expect([summaryOf(whole.losses!.losses), summaryOf(streamed.losses!.losses)]).toEqual([
    'reasoning dropped',
    'text dropped, reasoning dropped',
  ])
  expect((JSON.parse(frames.at(-1)!.data) as { sluice: unknown }).sluice).toEqual({
    translation: streamed.losses!.losses,
  })
})
