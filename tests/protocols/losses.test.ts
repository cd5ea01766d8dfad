import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent, type PartHead } from '../../src/generation/event.ts'
import type { ConversationName, ProtocolName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { lose, lossesHeader } from '../../src/protocols/losses.ts'
import type { TranslationContext } from '../../src/protocols/protocol.ts'
import { LossReport, type Loss } from '../../src/protocols/translation.ts'
import { eventsOf, streamedEventsOf } from '../translating.ts'

/** Losses of responses: what each client protocol cannot represent, the same for whole and streamed responses. */

const contextOf = (protocol: ProtocolName, report = false): TranslationContext => ({
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

const responseWith = (
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

const CLIENTS: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']
const summaryOf = (losses: readonly Loss[]): string =>
  losses.map(({ path, effect }) => `${path.replace('response.', '')} ${effect}`).join(', ')

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

test.each(['messages', 'generateContent'] as const)(
  'incomplete arguments are reported in a whole response for a client of %s',
  (client) => {
    const context = contextOf(client)
    protocols[client].serve.writeResponse(
      fold(
        responseWith([[{ type: 'tool-call', id: 'c', name: 'f', form: 'function' }, '{"a":']], {
          reason: 'length',
          raw: 'length',
        }),
      ),
      context,
    )
    expect(summaryOf(context.losses!.losses)).toBe('tool_calls.arguments dropped')
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

describe.each(CLIENTS)('the report in a stream for a client of %s', (client) => {
  const framesOf = (isRequested: boolean, losses: LossReport): unknown[] => {
    const context = { ...contextOf(client, isRequested), losses }
    const writer = protocols[client].serve.writer(context)
    return responseWith([TEXT])
      .flatMap((event) => writer.write(event))
      .filter(({ data }) => data !== '[DONE]')
      .map(({ data }) => JSON.parse(data) as unknown)
  }
  const reportingFrames = (frames: unknown[]): number[] =>
    frames.flatMap((frame, index) => (JSON.stringify(frame).includes('"sluice"') ? [index] : []))

  test('is in one frame if requested, even without losses', () => {
    const report = new LossReport()
    report.add('unsupported_field', 'x')
    expect(reportingFrames(framesOf(false, report))).toEqual([])
    const frames = framesOf(true, new LossReport())
    expect(reportingFrames(frames)).toEqual([client === 'messages' ? frames.length - 2 : frames.length - 1])
    expect(JSON.stringify(frames)).toContain('"sluice":{"translation":[]}')
  })
})

test('the same loss is reported once, and none without a translation', () => {
  const context = contextOf('chat.completions')
  for (const reason of ['a', 'a', 'b']) lose(context, 'response_field_dropped', 'x', reason)
  expect(context.losses!.losses).toHaveLength(2)
  const { losses: _, ...withoutTranslation } = context
  lose(withoutTranslation, 'response_field_dropped', 'x', 'a')
  expect('losses' in withoutTranslation).toBe(false)
})

test('at most a thousand losses of a response are reported', () => {
  const context = contextOf('chat.completions')
  for (let n = 0; n < 3_000; n++) lose(context, 'response_field_dropped', `${n}`)
  expect(context.losses!.losses).toHaveLength(1_000)
})

test('the header text of losses is ASCII and bounded for any field names', () => {
  const losses = Array.from(
    { length: 500 },
    (_, index): Loss => ({
      code: 'unsupported_field',
      path: `é${index}`.padEnd(400, '😀'),
      effect: 'dropped',
      reason: 'y',
    }),
  )
  const text = lossesHeader(losses)
  expect(text.length).toBeLessThanOrEqual(4_000)
  expect(text).toMatch(/^[\x20-\x7e]*$/)
  expect((JSON.parse(text) as Loss[])[0]!.path.startsWith('é0')).toBe(true)
})

test('the details of a refusal are read from a response of the messages API', () => {
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
  expect(eventsOf('messages', body).at(-1)).toMatchObject({
    reason: 'refusal',
    details: { category: 'cyber' },
  })
  expect(eventsOf('messages', { ...body, stop_details: null }).at(-1)).toEqual({
    type: 'finish',
    reason: 'refusal',
    raw: 'refusal',
  })
})

/** Members that only the server has, in each object of a response, and the names under which they are lost. */
const UNREAD: [ConversationName, frames: object[], whole: object, lost: string[]][] = [
  [
    'chat.completions',
    [
      {
        id: 'x',
        model: 'm',
        related_questions: ['Why?'],
        choices: [{ index: 0, delta: { executed_tools: [{ n: 1 }] } }],
      },
      {
        id: 'x',
        choices: [
          {
            index: 0,
            delta: {
              executed_tools: [{ n: 2 }],
              content: 'Hello',
              prefix: false,
              channel: 'final',
              thinking_blocks: [{ text: '' }],
              tool_calls: [
                { index: 0, id: 'c', extra: { a: 1 }, function: { name: 'f', arguments: '{}', parsed: { b: 2 } } },
              ],
            },
          },
        ],
      },
      {
        id: 'x',
        choices: [{ index: 0, delta: {}, stop_reason: 128009, token_ids: null, finish_reason: 'tool_calls' }],
      },
    ],
    {
      id: 'x',
      model: 'm',
      related_questions: ['Why?'],
      choices: [
        {
          index: 0,
          stop_reason: 128009,
          finish_reason: 'tool_calls',
          message: {
            executed_tools: [{ n: 1 }],
            content: 'Hello',
            tool_calls: [{ id: 'c', extra: { a: 1 }, function: { name: 'f', arguments: '{}', parsed: { b: 2 } } }],
          },
        },
      ],
    },
    ['related_questions', 'stop_reason', 'executed_tools', 'tool_calls.extra', 'tool_calls.parsed'],
  ],
  [
    'responses',
    [
      {
        type: 'response.output_item.done',
        output_index: 0,
        item: { type: 'message', mood: 'calm', content: [{ type: 'output_text', text: 'Hello', tone: 1 }] },
      },
      {
        type: 'response.output_item.done',
        output_index: 1,
        item: { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', caller: { type: 'program' } },
      },
      { type: 'response.completed', response: { id: 'x', model: 'm', status: 'completed', output: [] } },
    ],
    {
      id: 'x',
      model: 'm',
      status: 'completed',
      output: [
        { type: 'message', mood: 'calm', content: [{ type: 'output_text', text: 'Hello', tone: 1 }] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}', caller: { type: 'program' } },
      ],
    },
    ['mood', 'tone', 'caller'],
  ],
  [
    'messages',
    [
      { type: 'message_start', message: { id: 'x', model: 'm', content: [], region: 'eu' } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'Hello', tone: 1 } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'c', name: 'f', input: {}, caller: { type: 'code_execution_20250825' } },
      },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'tool_use' },
        context_management: { applied_edits: [{ type: 'clear_tool_uses_20250919' }] },
      },
      { type: 'message_stop' },
    ],
    {
      id: 'x',
      model: 'm',
      region: 'eu',
      content: [
        { type: 'text', text: 'Hello', tone: 1 },
        { type: 'tool_use', id: 'c', name: 'f', input: {}, caller: { type: 'code_execution_20250825' } },
        { type: 'tool_use', id: 'd', name: 'f', input: {}, caller: { type: 'direct' } },
      ],
      stop_reason: 'tool_use',
      context_management: { applied_edits: [{ type: 'clear_tool_uses_20250919' }] },
    },
    ['region', 'tone', 'caller', 'context_management'],
  ],
  [
    'generateContent',
    [
      { responseId: 'x', candidates: [{ content: { parts: [{ text: 'Hello', tone: 1 }, { hologram: { a: 1 } }] } }] },
      {
        responseId: 'x',
        serverHint: 'a',
        candidates: [
          {
            mood: 'calm',
            finishReason: 'STOP',
            content: { parts: [{ functionCall: { name: 'f', args: {}, caller: 'x' } }] },
          },
        ],
      },
    ],
    {
      responseId: 'x',
      serverHint: 'a',
      candidates: [
        {
          mood: 'calm',
          finishReason: 'STOP',
          content: {
            parts: [
              { text: 'Hello', tone: 1 },
              { hologram: { a: 1 } },
              { functionCall: { name: 'f', args: {}, caller: 'x' } },
            ],
          },
        },
      ],
    },
    ['serverHint', 'mood', 'tone', 'hologram', 'functionCall.caller'],
  ],
]

/** The response with a member in each object of its top-level lists. */
const deepen = (whole: object, deep: unknown): object =>
  Object.fromEntries(
    Object.entries(whole).map(([name, value]) => [
      name,
      Array.isArray(value)
        ? value.map((one) => (typeof one === 'object' ? { ...one, deep } : (one as unknown)))
        : value,
    ]),
  )

describe.each(UNREAD)('members that only a server of %s has', (provider, frames, whole, lost) => {
  const others = CLIENTS.filter((client) => client !== provider)

  test.each(others)('are reported for a client of %s, each once, in a whole response and in a stream', (client) => {
    const [once, streamed] = [contextOf(client), contextOf(client)]
    protocols[client].serve.writeResponse(fold(eventsOf(provider, whole)), once)
    const writer = protocols[client].serve.writer(streamed)
    for (const event of streamedEventsOf(
      provider,
      frames.map((frame) => ({ data: JSON.stringify(frame) })),
    ))
      writer.write(event)
    for (const { losses } of [once.losses!, streamed.losses!]) {
      expect(losses.map(({ path }) => path).toSorted()).toEqual(lost.map((name) => `response.${name}`).toSorted())
      expect(losses.map(({ code }) => code)).toEqual(lost.map(() => 'response_content_native'))
    }
  })

  test('are reported however deeply they are nested', () => {
    const deep: unknown = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000))
    const context = contextOf(others[0]!)
    protocols[others[0]!].serve.writeResponse(fold(eventsOf(provider, deepen(whole, deep))), context)
    expect(context.losses!.losses.map(({ path }) => path)).toContain('response.deep')
  })

  test('do not fill the report where it invents them without end', () => {
    const invented = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`member_${n}`, n]))
    const first = (value: unknown): unknown =>
      Array.isArray(value) ? [{ ...(value[0] as object), ...invented }, ...(value as unknown[]).slice(1)] : value
    const changed = Object.fromEntries(Object.entries(whole).map(([name, value]) => [name, first(value)]))
    const context = contextOf(others[0]!)
    protocols[others[0]!].serve.writeResponse(fold(eventsOf(provider, changed)), context)
    expect(context.losses!.losses).toHaveLength(100)
  })
})
