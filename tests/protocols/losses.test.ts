import { LossReport, type Loss } from '../../src/protocols/translation.ts'
import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent, type PartHead } from '../../src/generation/event.ts'
import type { ConversationName, ProtocolName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { lose, lossesText } from '../../src/protocols/losses.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'

/** What each client's protocol cannot say of an answer is told: the same of a whole answer as of a stream. */

const exchangeOf = (protocol: ProtocolName, report = false): TranslationContext => ({
  rawRequest: { body: {}, text: '{}', headers: new Headers() },
  request: {
    model: 'a/b',
    system: [],
    turns: [],
    tools: [],
    sampling: {},
    stream: true,
    includeUsage: true,
    protocol,
    extras: {},
  },
  responseIdentity: { id: 'id', model: 'a/b', createdAt: 1, issuer: { provider: 'a', model: 'b' } },
  losses: new LossReport(),
  report,
})

type Finish = Partial<Extract<GenerationEvent, { type: 'finish' }>>

const answer = (
  parts: [PartHead, string, Record<string, unknown>?][],
  finish: Finish = {},
  usage: object = {},
): GenerationEvent[] => [
  { type: 'start', id: 'x', model: 'b' },
  ...parts.flatMap(([head, text, more = {}], part): GenerationEvent[] => {
    const { signature, logprobs } = more as { signature?: string; logprobs?: [] }
    return [
      { type: 'part-start', part, head },
      ...(text === ''
        ? []
        : [{ type: 'part-delta' as const, part, text, ...(logprobs === undefined ? {} : { logprobs }) }]),
      { type: 'part-end', part, ...(signature === undefined ? {} : { signature }) },
    ]
  }),
  { type: 'usage', usage: { inputTokens: 3, outputTokens: 2, ...usage } },
  { type: 'finish', reason: 'stop', raw: 'stop', ...finish },
]

const TEXT: [PartHead, string] = [{ type: 'text' }, 'Hello there']
const cited = (citation: object): GenerationEvent[] => answer([TEXT, [{ type: 'citation', citation }, '']])
const LOGPROBS = { logprobs: [{ token: 'Hello there', logprob: -1, bytes: [1], top: [] }] }

/** What is lost towards chat, responses, messages and generateContent, in this order. */
const CASES: [string, GenerationEvent[], string, string, string, string][] = [
  [
    'text, reasoning, a call and an ending that all know',
    answer(
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
    'a call without arguments',
    answer([[{ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '']], { reason: 'tool-calls' }),
    '',
    '',
    '',
    '',
  ],
  [
    'what only the provider knows',
    answer([[{ type: 'native', protocol: 'images', kind: 'odd_thing', value: {} }, ''], TEXT]),
    'odd_thing dropped',
    'odd_thing dropped',
    'odd_thing dropped',
    'odd_thing dropped',
  ],
  ['an image', answer([[{ type: 'image', mediaType: 'image/png' }, 'AAAA']]), '', '', 'image dropped', ''],
  [
    'audio',
    answer([[{ type: 'audio', mediaType: 'audio/L16' }, 'AAAA']]),
    'audio approximated',
    'audio dropped',
    'audio dropped',
    '',
  ],
  [
    'log probabilities',
    answer([[{ type: 'text' }, 'Hello there', LOGPROBS]]),
    '',
    '',
    'logprobs dropped',
    'logprobs approximated',
  ],
  ['a citation with its place', cited({ url: 'https://a.example', title: 'A', start: 0, end: 11 }), '', '', '', ''],
  [
    'a citation without a place',
    cited({ url: 'https://a.example' }),
    'citations approximated',
    'citations approximated',
    'citations approximated',
    '',
  ],
  [
    'a citation without an address',
    cited({ title: 'A', citedText: 'words of it', start: 0, end: 5 }),
    'citations dropped',
    'citations approximated',
    'citations dropped',
    '',
  ],
  [
    'a citation with the words of its source',
    cited({ url: 'https://a.example', citedText: 'words of it', start: 0, end: 11 }),
    'citations approximated',
    'citations approximated',
    '',
    'citations approximated',
  ],
  [
    'a refusal in words',
    answer([[{ type: 'refusal' }, 'No.']], { reason: 'stop', raw: 'stop' }),
    '',
    '',
    '',
    'refusal approximated',
  ],
  [
    'the stop sequence that was hit',
    answer([TEXT], { reason: 'stop-sequence', raw: 'stop_sequence', stopSequence: 'X' }),
    'stop_sequence dropped',
    'stop_sequence dropped',
    '',
    'stop_sequence dropped',
  ],
  [
    'what is said of a refusal',
    answer([TEXT], { reason: 'refusal', raw: 'refusal', details: { type: 'refusal', category: 'cyber' } }),
    'stop_details dropped',
    'finish_reason approximated, stop_details dropped',
    'stop_details dropped',
    'finish_reason approximated, stop_details dropped',
  ],
  [
    'a filter',
    answer([TEXT], { reason: 'content-filter', raw: 'RECITATION' }),
    '',
    '',
    'finish_reason approximated',
    'finish_reason approximated',
  ],
  [
    'a refusal without words',
    answer([TEXT], { reason: 'refusal', raw: 'refusal' }),
    '',
    'finish_reason approximated',
    '',
    'finish_reason approximated',
  ],
  ['a pause', answer([TEXT], { reason: 'pause', raw: 'pause_turn' }), '', 'finish_reason approximated', '', ''],
  [
    "an ending of the provider's own",
    answer([TEXT], { reason: 'other', raw: 'LANGUAGE' }),
    '',
    'finish_reason approximated',
    'finish_reason approximated',
    '',
  ],
  [
    'the signature of the last text',
    answer([[{ type: 'text' }, 'Hello', { signature: 's' }]]),
    '',
    '',
    'signature dropped',
    '',
  ],
  [
    'tokens written to a cache for an hour',
    answer([TEXT], {}, { cacheWrite1hTokens: 7 }),
    'usage approximated',
    'usage approximated',
    '',
    'usage approximated',
  ],
  ['the number of web searches', answer([TEXT], {}, { webSearches: 2 }), '', '', '', 'usage dropped'],
]

const CLIENTS: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const told = (losses: readonly Loss[]): string =>
  losses.map(({ path, effect }) => `${path.replace('response.', '')} ${effect}`).join(', ')

describe.each(CASES)('%s', (_name, events, ...expected) => {
  test.each(CLIENTS.map((client, index) => [client, expected[index]!] as const))('to %s', (client, lost) => {
    const [whole, streamed] = [exchangeOf(client), exchangeOf(client)]
    protocols[client].serve.writeResponse(fold(events), whole)
    const writer = protocols[client].serve.writer(streamed)
    for (const event of events) writer.write(event)
    const { losses } = whole.losses!
    expect(told(losses)).toBe(lost)
    expect(streamed.losses!.losses).toEqual(losses)
    expect(losses.every(({ path }) => path.startsWith('response.'))).toBe(true)
  })
})

test.each(['messages', 'generateContent'] as const)(
  'arguments that were cut are told in a whole answer to %s',
  (client) => {
    const context = exchangeOf(client)
    protocols[client].serve.writeResponse(
      fold(
        answer([[{ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '{"a":']], {
          reason: 'length',
          raw: 'length',
        }),
      ),
      context,
    )
    expect(told(context.losses!.losses)).toBe('tool_calls.arguments dropped')
  },
)

test('an answer with images tells what stood beside them, words only where there is no place for them', () => {
  const events = answer([
    TEXT,
    [{ type: 'reasoning' }, 'hm'],
    [
      { type: 'image', mediaType: 'image/png' },
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    ],
  ])
  const [whole, streamed] = [exchangeOf('images', true), exchangeOf('images', true)]
  protocols.images.serve.writeResponse(fold(events), whole)
  const writer = protocols.images.serve.writer(streamed)
  const frames = events.flatMap((event) => writer.write(event))
  expect([told(whole.losses!.losses), told(streamed.losses!.losses)]).toEqual([
    'reasoning dropped',
    'text dropped, reasoning dropped',
  ])
  expect((JSON.parse(frames.at(-1)!.data) as { sluice: unknown }).sluice).toEqual({
    translation: streamed.losses!.losses,
  })
})

describe.each(CLIENTS)('the report in a stream to %s', (client) => {
  const framesOf = (report: boolean, losses: LossReport): unknown[] => {
    const context = { ...exchangeOf(client, report), losses }
    const writer = protocols[client].serve.writer(context)
    return answer([TEXT])
      .flatMap((event) => writer.write(event))
      .filter(({ data }) => data !== '[DONE]')
      .map(({ data }) => JSON.parse(data) as unknown)
  }
  const holders = (frames: unknown[]): number[] =>
    frames.flatMap((frame, index) => (JSON.stringify(frame).includes('"sluice"') ? [index] : []))

  test('stands in one frame, where it is asked for, and says it when nothing is lost', () => {
    const one = new LossReport()
    one.add('unsupported_field', 'x')
    expect(holders(framesOf(false, one))).toEqual([])
    const frames = framesOf(true, new LossReport())
    expect(holders(frames)).toEqual([client === 'messages' ? frames.length - 2 : frames.length - 1])
    expect(JSON.stringify(frames)).toContain('"sluice":{"translation":[]}')
  })
})

test('the same loss is told once, and nothing where nothing is translated', () => {
  const context = exchangeOf('chat.completions')
  for (const reason of ['a', 'a', 'b']) lose(context, 'response_field_dropped', 'x', reason)
  expect(context.losses!.losses).toHaveLength(2)
  const { losses: _, ...passing } = context
  lose(passing, 'response_field_dropped', 'x', 'a')
  expect('losses' in passing).toBe(false)
})

test('a provider that thinks up kinds without end is told of a thousand times', () => {
  const context = exchangeOf('chat.completions')
  for (let n = 0; n < 3_000; n++) lose(context, 'response_field_dropped', `${n}`)
  expect(context.losses!.losses).toHaveLength(1_000)
})

test('the text of losses is ASCII and bounded, whatever clients call their fields', () => {
  const losses = Array.from(
    { length: 500 },
    (_, index): Loss => ({
      code: 'unsupported_field',
      path: `é${index}`.padEnd(400, '😀'),
      effect: 'dropped',
      reason: 'y',
    }),
  )
  const text = lossesText(losses)
  expect(text.length).toBeLessThanOrEqual(4_000)
  expect(text).toMatch(/^[\x20-\x7e]*$/)
  expect((JSON.parse(text) as Loss[])[0]!.path.startsWith('é0')).toBe(true)
})

test('what the messages API says more of a refusal is read', () => {
  const body = {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: 'refusal',
    stop_sequence: null,
    stop_details: { type: 'refusal', category: 'cyber' },
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  expect(protocols.messages.call.readResponse(body, {}).at(-1)).toMatchObject({
    reason: 'refusal',
    details: { category: 'cyber' },
  })
  expect(protocols.messages.call.readResponse({ ...body, stop_details: null }, {}).at(-1)).toEqual({
    type: 'finish',
    reason: 'refusal',
    raw: 'refusal',
  })
})
