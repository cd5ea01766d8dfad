import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { added, call, completed, created, done, eventsOf, message, partsOf } from './provider-events.ts'

/** Streams and whole responses of providers of the Responses API. */

describe('parts of a response', () => {
  test('are read from the last event if there is no other', () => {
    const answer = fold(
      eventsOf(
        completed({
          output: [message('hi'), call('{}')],
          usage: { input_tokens: 5, output_tokens: 3, total_tokens: 8 },
        }),
      ),
    )
    expect(answer).toMatchObject({
      id: 'up',
      model: 'um',
      parts: [
        { type: 'text', text: 'hi' },
        { type: 'tool-call', id: 'c1', arguments: '{}' },
      ],
      finish: { reason: 'tool-calls', raw: 'completed' },
      usage: { inputTokens: 5, outputTokens: 3 },
    })
  })

  test('are reported as soon as their delta is read', () => {
    const reader = responses.call.reader({})
    const read = (event: object): unknown[] => reader.read({ data: JSON.stringify(event) })
    const at = { type: 'response.output_text.delta', output_index: 0 }
    read(created)
    expect(read({ ...at, content_index: 0, delta: 'x' })).toEqual([
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'x' },
    ])
    expect(read({ ...at, content_index: 1, delta: 'y' })).toEqual([
      { type: 'part-end', part: 0 },
      { type: 'part-start', part: 1, head: { type: 'text' } },
      { type: 'part-delta', part: 1, text: 'y' },
    ])
  })

  test('include a content of the finished item that was not streamed, where others have a higher index', () => {
    const content = ['a', 'b'].map((text) => ({ type: 'output_text', text, annotations: [] }))
    const delta = { type: 'response.output_text.delta', output_index: 0, content_index: 1, delta: 'a' }
    expect(partsOf(created, delta, done(0, { ...message(''), content }), completed())).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ])
  })

  test('follow one another if their items interleave', () => {
    const delta = (output_index: number, delta: string) => ({
      type: 'response.function_call_arguments.delta',
      output_index,
      delta,
    })
    expect(
      partsOf(
        created,
        added(0, call('', { call_id: 'a' })),
        added(1, call('', { call_id: 'b' })),
        delta(1, '{"b":'),
        delta(0, '{"a":'),
        delta(1, '2}'),
        delta(0, '1}'),
        completed(),
      ),
    ).toMatchObject([
      { id: 'a', arguments: '{"a":1}' },
      { id: 'b', arguments: '{"b":2}' },
    ])
  })

  test('have arguments that are only in a done frame or in the finished item', () => {
    expect(
      partsOf(
        created,
        added(0, call('')),
        { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"x":1}' },
        completed(),
      ),
    ).toMatchObject([{ arguments: '{"x":1}' }])
    expect(partsOf(created, added(0, { type: 'function_call' }), done(0, call('{"x":1}')), completed())).toMatchObject([
      { name: 'f', arguments: '{"x":1}' },
    ])
    const parsed = call('', { arguments: { x: 1 } })
    expect(partsOf(created, done(0, parsed), completed())).toMatchObject([{ arguments: '{"x":1}' }])
  })

  test('are whole if the id of their item changes in every frame', () => {
    expect(
      partsOf(
        created,
        added(0, { ...message(''), id: 'i1' }),
        { type: 'response.output_text.delta', item_id: 'i2', output_index: 0, content_index: 0, delta: 'hi' },
        done(0, { ...message('hi'), id: 'i3' }),
        completed({ output: [{ ...message('hi'), id: 'i4' }] }),
      ),
    ).toEqual([{ type: 'text', text: 'hi' }])
  })

  test('a final output that lists another item first does not end a streamed item early', () => {
    const parts = partsOf(
      created,
      added(0, message('')),
      { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hel' },
      completed({ output: [{ type: 'reasoning', id: 'r', summary: [] }, message('Hello')] }),
    )
    expect(parts).toMatchObject([{ type: 'text', text: 'Hello' }])
  })

  test('an unstreamed item of the final output is read where another one was streamed at its index', () => {
    const text = { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'Hello' }
    const summary = [{ type: 'summary_text', text: 'so' }]
    for (const ended of [[], [done(0, message('Hello'))]]) {
      const output = [{ type: 'reasoning', id: 'r', summary }, { ...message('Hello'), id: 'other' }, call('{"x":1}')]
      const parts = partsOf(created, added(0, message('')), text, ...ended, completed({ output }))
      expect(parts.map(({ type }) => type)).toEqual(['text', 'reasoning', 'tool-call'])
      expect(parts).toMatchObject([{ text: 'Hello' }, { text: 'so' }, { name: 'f', arguments: '{"x":1}' }])
    }
  })

  test('calls that the final output lists in another order and under other ids come once', () => {
    const [one, two] = [call('{"n":1}', { call_id: 'a', id: 'i1' }), call('{"n":2}', { call_id: 'b', id: 'i2' })]
    const stream = [
      created,
      added(0, message('Hi')),
      done(0, message('Hi')),
      ...[one, two].map((c, at) => done(at + 1, c)),
    ]
    const output = [
      { ...one, id: 'j1' },
      { ...two, id: 'j2' },
      { ...message('Hi'), id: 'j3' },
    ]
    expect(partsOf(...stream, completed({ output }))).toMatchObject([
      { text: 'Hi' },
      { id: 'a', arguments: '{"n":1}' },
      { id: 'b', arguments: '{"n":2}' },
    ])
  })

  test('have the parts of a summary as paragraphs, and the signature of the finished item', () => {
    const item = {
      type: 'reasoning',
      id: 'rs_1',
      summary: [
        { type: 'summary_text', text: 'ab' },
        { type: 'summary_text', text: 'c' },
      ],
      encrypted_content: 'sig',
    }
    const delta = (summary_index: number, delta: string) => ({
      type: 'response.reasoning_summary_text.delta',
      output_index: 0,
      summary_index,
      delta,
    })
    const whole = [{ type: 'reasoning', form: 'summary', id: 'rs_1', text: 'ab\n\nc', signature: { data: 'sig' } }]
    expect(
      partsOf(
        created,
        added(0, { ...item, summary: [], encrypted_content: 'early' }),
        delta(0, 'a'),
        delta(0, 'b'),
        delta(1, 'c'),
        done(0, item),
        completed(),
      ),
    ).toEqual(whole as never)
    expect(partsOf(completed({ output: [item] }))).toEqual(whole as never)
  })

  test('are redacted reasoning for a signature without a text, and none for an empty item', () => {
    const item = { type: 'reasoning', id: 'r', summary: [], encrypted_content: 's' }
    const redacted = { type: 'reasoning', redacted: true, id: 'r', text: '', signature: { data: 's' } } as const
    expect(
      partsOf(
        completed({
          output: [item, { type: 'reasoning', id: 'q', summary: [] }],
        }),
      ),
    ).toEqual([redacted])
    const empty = { type: 'response.reasoning_summary_text.done', output_index: 0, summary_index: 0, text: '' }
    expect(partsOf(created, added(0, item), empty, done(0, item), completed())).toEqual([redacted])
  })

  test('have each citation once behind its text', () => {
    const annotation = { type: 'url_citation', url: 'https://x.y', title: 'X', start_index: 0, end_index: 2 }
    const at = { output_index: 0, content_index: 0 }
    const announced = { type: 'response.output_text.annotation.added', ...at, annotation }
    const part = { type: 'output_text', text: 'hi', annotations: [annotation] }
    const finished = { type: 'response.content_part.done', ...at, part }
    for (const frames of [[announced], [announced, finished], [finished, announced]]) {
      const events = eventsOf(
        created,
        { type: 'response.output_text.delta', ...at, delta: 'hi' },
        ...frames,
        done(0, message('hi', { annotations: [annotation] })),
        completed(),
      )
      expect(fold(events).parts).toEqual([
        {
          type: 'text',
          text: 'hi',
          citations: [{ url: 'https://x.y', title: 'X', start: 0, end: 2, native: annotation }],
        },
      ])
    }
  })

  test('have log probabilities once, whichever frames repeat them', () => {
    const logprobs = [{ token: 'hi', logprob: -1, bytes: [104, 105], top_logprobs: [{ token: 'ho', logprob: -2 }] }]
    const at = { output_index: 0, content_index: 0 }
    const frames = [
      { type: 'response.output_text.delta', ...at, delta: 'hi', logprobs },
      { type: 'response.output_text.done', ...at, text: 'hi', logprobs },
      { type: 'response.content_part.done', ...at, part: { type: 'output_text', text: 'hi', logprobs } },
      completed({ output: [message('hi', { logprobs })] }),
    ]
    for (const first of frames.keys())
      expect(partsOf(...frames.slice(first))).toEqual([
        {
          type: 'text',
          text: 'hi',
          logprobs: [{ token: 'hi', logprob: -1, bytes: [104, 105], top: [{ token: 'ho', logprob: -2 }] }],
        },
      ])
  })

  test('include native web searches, which are counted, images, and calls of custom tools', () => {
    const search = { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search' } }
    const answer = fold(
      eventsOf(
        completed({
          output: [
            search,
            { ...search, action: { type: 'open_page' } },
            { type: 'image_generation_call', id: 'ig', result: 'aGk=', output_format: 'webp', prompt: 'A cat' },
            { type: 'custom_tool_call', call_id: 'c', name: 'g', input: 'free' },
          ],
          usage: { input_tokens: 1, output_tokens: 1 },
        }),
      ),
    )
    expect(answer.parts).toEqual([
      { type: 'native', protocol: 'responses', kind: 'web_search_call', value: search },
      {
        type: 'native',
        protocol: 'responses',
        kind: 'web_search_call',
        value: { ...search, action: { type: 'open_page' } },
      },
      { type: 'image', source: { type: 'data', mediaType: 'image/webp', data: 'aGk=' } },
      { type: 'native', protocol: 'responses', kind: 'revised_prompt', value: 'A cat' },
      { type: 'tool-call', id: 'c', name: 'g', arguments: 'free', form: 'custom' },
    ])
    expect(answer.usage.webSearches).toBe(1)
  })
})

test('any events in any order follow the event grammar', () => {
  const item = fc.oneof(
    fc.constantFrom<object>(
      message('x'),
      call('{}'),
      { type: 'reasoning', summary: [{ text: 'a' }], encrypted_content: 's' },
      { type: 'web_search_call' },
      { type: 'message', content: null },
      { type: 'message', content: [null, { type: 'x' }, { type: 'refusal', refusal: 'n' }] },
    ),
    fc.object({ maxDepth: 1 }),
  )
  const type = fc.constantFrom(
    'response.created',
    'response.completed',
    'response.failed',
    'response.incomplete',
    'error',
    'ping',
    'response.output_item.added',
    'response.output_item.done',
    'response.output_text.delta',
    'response.output_text.done',
    'response.refusal.delta',
    'response.content_part.done',
    'response.reasoning_summary_text.delta',
    'response.reasoning_summary_text.done',
    'response.reasoning_text.delta',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.custom_tool_call_input.delta',
    'response.output_text.annotation.added',
  )
  const event = fc.record(
    {
      type,
      output_index: fc.oneof(fc.nat(2), fc.constant(null)),
      content_index: fc.oneof(fc.nat(1), fc.constant(undefined)),
      summary_index: fc.nat(1),
      delta: fc.oneof(fc.string(), fc.constant(null)),
      text: fc.string(),
      item,
      part: item,
      annotation: item,
      arguments: fc.string(),
      logprobs: fc.constantFrom(null, [], [{}]),
      response: fc.oneof(
        fc.constant(null),
        fc.record({
          output: fc.oneof(fc.array(item, { maxLength: 3 }), fc.constant(null)),
          usage: fc.constantFrom(null, {}, { input_tokens: -1, output_tokens: 'x' }),
        }),
      ),
    },
    { requiredKeys: ['type'] },
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => void eventsOf(...events)),
    { numRuns: 1000 },
  )
}, 60_000)

test('frames without an event are ignored', () => {
  const reader = responses.call.reader({})
  for (const data of ['', '[DONE]', 'not json', '[]', 'null', '"x"', '3']) expect(reader.read({ data })).toEqual([])
})

test('a web search counts where its action is missing, and other actions do not', () => {
  const search = (id: string, more: object) => ({ type: 'web_search_call', id, status: 'completed', ...more })
  const output = [
    search('a', {}),
    search('b', { action: { type: 'search' } }),
    search('c', { action: { type: 'open_page' } }),
  ]
  const usage = { input_tokens: 5, output_tokens: 3, total_tokens: 8 }
  expect(fold(eventsOf(completed({ output, usage }))).usage.webSearches).toBe(2)
})
