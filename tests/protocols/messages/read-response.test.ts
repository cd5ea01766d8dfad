import { describe, expect, test } from 'bun:test'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import type { Part } from '../../../src/generation/request.ts'
import { messages } from '../../../src/protocols/messages/index.ts'
import { readResponse } from '../../../src/protocols/messages/read-response.ts'
import { streamedEventsOf } from '../../translating.ts'
import { type Any, events } from './kit.ts'

/** Responses of providers of the Messages API. */

describe('a response', () => {
  const begin = {
    type: 'message_start',
    message: { id: 'm', model: 'up', usage: { input_tokens: 7, output_tokens: 1 } },
  }
  const end = [
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ]
  const open = (index: number, block: Any): Any => ({ type: 'content_block_start', index, content_block: block })
  const append = (index: number, delta: Any): Any => ({ type: 'content_block_delta', index, delta })
  const shut = (index: number): Any => ({ type: 'content_block_stop', index })
  const json = (index: number, partial_json: string): Any => append(index, { type: 'input_json_delta', partial_json })
  const call = (id: string, input: Any = {}): Any => ({ type: 'tool_use', id, name: 'f', input })
  const parts = (list: (Any | string)[]): Part[] => fold(events([begin, ...list, ...end])).parts
  const args = (list: (Any | string)[]): string[] =>
    parts(list).map((part) => (part.type === 'tool-call' ? `${part.id} ${part.arguments}` : part.type))

  test('has the last usage of each kind, and keeps what is omitted, null or zero', () => {
    const usage = (list: Any[]): Any => fold(events([begin, ...list, ...end])).usage
    expect(usage([])).toMatchObject({ inputTokens: 7, outputTokens: 5 })
    const delta = (value: Any): Any => ({ type: 'message_delta', delta: {}, usage: value })
    expect(
      usage([
        delta({
          input_tokens: 3,
          cache_read_input_tokens: 4,
          cache_creation_input_tokens: 10,
          cache_creation: { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 2 },
        }),
      ]),
    ).toMatchObject({ inputTokens: 3, cacheReadTokens: 4, cacheWrite5mTokens: 8, cacheWrite1hTokens: 2 })
    expect(usage([delta({ input_tokens: 0, cache_read_input_tokens: null })])).toMatchObject({ inputTokens: 7 })
    expect(usage([delta({ input_tokens: 0, cache_read_input_tokens: 7 })])).toMatchObject({
      inputTokens: 0,
      cacheReadTokens: 7,
    })
    expect(
      usage([
        delta({ input_tokens: 3, cache_read_input_tokens: 4 }),
        delta({ input_tokens: 3, cache_read_input_tokens: null, output_tokens: null }),
      ]),
    ).toMatchObject({ inputTokens: 3, cacheReadTokens: 4 })
    expect(
      usage([delta({ output_tokens_details: { thinking_tokens: 2 }, server_tool_use: { web_search_requests: 3 } })]),
    ).toMatchObject({ outputTokens: 3, reasoningTokens: 2, webSearches: 3 })
    expect(usage([delta({ input_tokens: -5, output_tokens: 'many' })])).toMatchObject({
      inputTokens: 7,
      outputTokens: 5,
    })
  })

  test('has the class of service by which it is priced', () => {
    const usage = { output_tokens: 5, service_tier: 'priority', speed: 'fast', inference_geo: 'us' }
    const all = events([begin, { type: 'message_delta', delta: {}, usage }, ...end])
    expect(fold(all).service).toEqual({ service_tier: 'priority', speed: 'fast', inference_geo: 'us' })
  })

  test('has calls of one frame, of deltas, and without arguments', () => {
    expect(
      args([
        open(0, call('a', { z: 1 })),
        shut(0),
        open(1, call('b')),
        json(1, ''),
        json(1, '{"x"'),
        json(1, ':1}'),
        shut(1),
        open(2, call('c')),
        shut(2),
      ]),
    ).toEqual(['a {"z":1}', 'b {"x":1}', 'c {}'])
    const nameless = [undefined, '', 7].flatMap((id, index) => [open(index, { ...call('a'), id }), shut(index)])
    expect(args(nameless)).toEqual(['toolu_0 {}', 'toolu_1 {}', 'toolu_2 {}'])
    expect(
      args([
        '{"type":"content_block_start","index":0,"content_block":' +
          '{"type":"tool_use","id":"a","name":"f","input":{"n":12345678901234567890}}}',
        shut(0),
      ]),
    ).toEqual(['a {"n":12345678901234567890}'])
  })

  test('has calls whose deltas are interleaved one after the other', () => {
    expect(
      args([
        open(0, call('a')),
        open(1, call('b')),
        json(0, '{"p"'),
        json(1, '{"q"'),
        json(0, ':1}'),
        json(1, ':2}'),
        shut(1),
        shut(0),
      ]),
    ).toEqual(['a {"p":1}', 'b {"q":2}'])
    expect(args([open(0, call('a')), open(1, call('b')), json(1, '{}'), open(2, { type: 'text', text: 'x' })])).toEqual(
      ['a {}', 'b {}', 'text'],
    )
  })

  test('goes on if a server stops no blocks, and in a new part if text comes late', () => {
    const text = (list: Any[]): string[] => parts(list).map((part) => (part.type === 'text' ? part.text : part.type))
    expect(
      text([
        open(0, { type: 'thinking', thinking: '' }),
        append(0, { type: 'thinking_delta', thinking: 'h' }),
        open(1, { type: 'text', text: '' }),
        append(1, { type: 'text_delta', text: 'a' }),
      ]),
    ).toEqual(['reasoning', 'a'])
    expect(text([open(0, { type: 'text', text: 'a' }), shut(0), append(0, { type: 'text_delta', text: 'b' })])).toEqual(
      ['a', 'b'],
    )
    expect(text([append(0, { type: 'text_delta', text: 'lost start' })])).toEqual(['lost start'])
  })

  test('has text at once, although the block before it was never stopped', () => {
    const reader = messages.call.reader({})
    const read = (data: Any): GenerationEvent[] => reader.read({ data: JSON.stringify(data) })
    read(open(0, { type: 'thinking', thinking: 'h' }))
    expect(read(open(1, { type: 'text', text: 'a' })).map(({ type }) => type)).toEqual([
      'part-end',
      'part-start',
      'part-delta',
    ])
    expect(read(append(1, { type: 'text_delta', text: 'b' }))).toEqual([{ type: 'part-delta', part: 1, text: 'b' }])
  })

  test('has events of unknown types as native parts, also where only the event line names them', () => {
    const frames = [begin, { type: 'ping' }, { type: 'mood' }, ...end].map((data) => ({ data: JSON.stringify(data) }))
    const named = [
      ...frames.slice(0, 3),
      { event: 'ping', data: '{}' },
      { event: 'tide', data: '{}' },
      ...frames.slice(3),
    ]
    const kinds = fold(streamedEventsOf('messages', named)).parts.map((part) => part.type === 'native' && part.kind)
    expect(kinds).toEqual(['mood', 'tide'])
  })

  test('has deltas of unknown types as native parts, and none of those that are known', () => {
    const citation = { type: 'char_location', cited_text: 'a', document_index: 0 }
    expect(
      parts([
        open(0, { type: 'thinking', thinking: '' }),
        append(0, { type: 'thinking_delta', thinking: 'h' }),
        append(0, { type: 'signature_delta', signature: 's' }),
        shut(0),
        open(1, { type: 'text', text: '' }),
        append(1, { type: 'text_delta', text: 'a' }),
        append(1, { type: 'citations_delta', citation }),
        append(1, { type: 'tone_delta', tone: 'b' }),
        shut(1),
        open(2, call('a')),
        append(2, { type: 'input_json_delta', partial_json: null }),
        json(2, '{}'),
        shut(2),
        open(3, { type: 'redacted_thinking', data: 'd' }),
      ]).map((part) => (part.type === 'native' ? part.kind : part.type)),
    ).toEqual(['reasoning', 'text', 'tool-call', 'reasoning', 'tone_delta'])
  })

  test('has nothing native where it is whole and has members that are documented alone', () => {
    const content = [
      { type: 'thinking', thinking: 'h', signature: 's' },
      { type: 'redacted_thinking', data: 'd' },
      { type: 'text', text: 'a', citations: null },
      call('a', { x: 1 }),
    ]
    const more = { role: 'assistant', container: { id: 'c' }, stop_sequence: null, stop_details: null }
    const message = { ...begin.message, type: 'message', ...more, content, stop_reason: 'tool_use' }
    expect(fold(readResponse(message)).parts.map(({ type }) => type)).toEqual([
      'reasoning',
      'reasoning',
      'text',
      'tool-call',
    ])
  })

  test('has deltas of blocks that have ended or never began as native parts, unless they continue text', () => {
    const kinds = (list: Any[]): string[] => parts(list).map((part) => (part.type === 'native' ? part.kind : part.type))
    const text = { type: 'text_delta', text: 'x' }
    expect(kinds([open(0, call('a')), shut(0), json(0, '{"a":1}'), append(0, text)])).toEqual([
      'tool-call',
      'text',
      'input_json_delta',
    ])
    expect(kinds([json(7, '')])).toEqual([])
    expect(kinds([json(7, '{"a":1}')])).toEqual(['input_json_delta'])
    expect(kinds([append(7, { type: 'signature_delta', signature: 's' })])).toEqual(['signature_delta'])
  })

  test('ends with an error also where the error has no type', () => {
    for (const error of ['Busy.', { message: 'Busy.' }])
      expect(events([begin, { error }, ...end]).at(-1)).toMatchObject({
        type: 'error',
        error: { message: expect.stringContaining('Busy.') },
      })
  })

  test('waits after its stop reason for the usage of the prompt and of the output', () => {
    const waits = (input_tokens: number, usage: Any): boolean => {
      const reader = messages.call.reader({})
      const message = { ...begin.message, usage: { input_tokens } }
      for (const data of [
        { type: 'message_start', message },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
      ])
        reader.read({ data: JSON.stringify(data) })
      return reader.finishing === true
    }
    expect([waits(7, { output_tokens: 5 }), waits(7, {}), waits(0, { output_tokens: 5 })]).toEqual([false, true, true])
    expect(waits(0, { input_tokens: 7, output_tokens: 5 })).toBe(false)
  })

  test('keeps the details of its end', () => {
    const details = { type: 'refusal', category: 'cyber' }
    const endOf = (delta: Any): unknown => events([begin, { type: 'message_delta', delta }, end[1]!]).at(-1)
    expect(endOf({ stop_reason: 'refusal', stop_details: details })).toMatchObject({ details })
    expect(endOf({ stop_reason: 'stop_sequence', stop_sequence: 'X' })).toMatchObject({ stopSequence: 'X' })
    expect(Object.keys(endOf({ stop_reason: 'end_turn', stop_sequence: null, stop_details: null })!)).toEqual([
      'type',
      'reason',
      'raw',
    ])
  })

  test('has blocks of unknown types as native parts, with their input', () => {
    const server = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }
    expect(
      parts([
        open(0, server),
        json(0, '{"query":"x"}'),
        shut(0),
        open(1, { type: 'compaction', content: '' }),
        append(1, { type: 'compaction_delta', content: 'sum' }),
        shut(1),
      ]),
    ).toEqual([
      { type: 'native', protocol: 'messages', kind: 'server_tool_use', value: { ...server, input: { query: 'x' } } },
      { type: 'native', protocol: 'messages', kind: 'compaction', value: { type: 'compaction', content: 'sum' } },
    ])
  })

  test('has citations of the text in whose block they came', () => {
    const citation = {
      type: 'web_search_result_location',
      url: 'https://x',
      title: 'X',
      cited_text: 'c',
      encrypted_index: 'e',
    }
    const found = { type: 'search_result_location', source: 'https://y', title: 'Y', cited_text: 'd' }
    const document = { type: 'page_location', document_title: 'Z', cited_text: 'e' }
    expect(
      parts([
        open(0, { type: 'text', text: '' }),
        ...[citation, found, document].map((one) => append(0, { type: 'citations_delta', citation: one })),
        append(0, { type: 'text_delta', text: 'abc' }),
        shut(0),
      ]),
    ).toEqual([
      {
        type: 'text',
        text: 'abc',
        citations: [
          { url: 'https://x', title: 'X', citedText: 'c', start: 0, end: 3, native: citation },
          { url: 'https://y', title: 'Y', citedText: 'd', start: 0, end: 3, native: found },
          { title: 'Z', citedText: 'e', start: 0, end: 3, native: document },
        ],
      },
    ])
  })

  test('without a tool call has another finish reason than tool-calls', () => {
    expect(
      events([
        begin,
        open(0, { type: 'text', text: 'a' }),
        shut(0),
        { type: 'message_delta', delta: { stop_reason: 'tool_use' } },
        { type: 'message_stop' },
      ]).at(-1),
    ).toEqual({ type: 'finish', reason: 'stop', raw: 'tool_use' })
  })

  test('with a tool call has the finish reason tool-calls', () => {
    expect(events([begin, open(0, call('a')), shut(0), ...end]).at(-1)).toEqual({
      type: 'finish',
      reason: 'tool-calls',
      raw: 'end_turn',
    })
    expect(
      events([
        begin,
        open(0, call('a')),
        { type: 'message_delta', delta: { stop_reason: 'max_tokens' } },
        { type: 'message_stop' },
      ]).at(-1),
    ).toMatchObject({ reason: 'length' })
  })

  test.each([
    ['overloaded_error', 'overloaded', 503],
    ['rate_limit_error', 'upstream_rate_limited', 429],
    ['api_error', 'upstream_error', 502],
    ['authentication_error', 'upstream_error', 502],
    ['invalid_request_error', 'invalid_request', 400],
    ['timeout_error', 'upstream_timeout', 504],
  ])('has the error %s inside a stream as %s', (type, code, status) => {
    const all = events([begin, open(0, call('a')), { type: 'error', error: { type, message: 'failed' } }, ...end])
    expect(all.at(-1)).toMatchObject({ type: 'error', error: { code, status } })
    // A call that was cut off must not end like a complete one.
    expect(all.filter(({ type: kind }) => kind === 'part-end')).toEqual([])
  })

  test('that is complete in its first frame has its calls, usage and stop reason', () => {
    const message = { ...begin.message, content: [call('a', { x: 1 })], stop_reason: 'tool_use' }
    const all = events([{ type: 'message_start', message }, { type: 'message_stop' }])
    expect(fold(all)).toMatchObject({
      parts: [{ id: 'a', arguments: '{"x":1}' }],
      usage: { inputTokens: 7, outputTokens: 1 },
      finish: { reason: 'tool-calls', raw: 'tool_use' },
    })
  })

  test('a response that ends properly without a stop reason has stopped', () => {
    const all = events([begin, open(0, { type: 'text', text: 'Hi' }), shut(0), { type: 'message_stop' }])
    expect(all.at(-1)).toMatchObject({ type: 'finish', reason: 'stop', raw: '' })
  })

  test('without message_stop is an error, even after a stop reason', () => {
    for (const list of [[], [begin], [begin, open(0, { type: 'text', text: 'a' })], [begin, end[0]!]]) {
      expect(events(list).at(-1)).toMatchObject({
        type: 'error',
        error: { code: 'upstream_error', message: expect.stringContaining('ended before') },
      })
    }
  })

  test('that is an error object is thrown, and any other body is refused', () => {
    expect(() => readResponse({ type: 'error', error: { type: 'overloaded_error', message: 'x' } })).toThrow(
      expect.objectContaining({ code: 'overloaded' }),
    )
    for (const body of [null, 'x', [], {}, { content: 'x' }])
      expect(() => readResponse(body)).toThrow(expect.objectContaining({ code: 'upstream_error' }))
  })
})

test('a tool call has the name and form that the provider sent, without a transform', () => {
  expect(
    events([
      { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'x', name: 'f', input: {} } },
      { type: 'message_stop' },
    ]),
  ).toMatchObject([
    { type: 'start' },
    { type: 'part-start', head: { name: 'f', form: 'function' } },
    { type: 'part-delta', text: '{}' },
    { type: 'part-end' },
    { type: 'finish', reason: 'tool-calls' },
  ])
})
