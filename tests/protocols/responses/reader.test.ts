import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold, type GenerationEvent } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { checkGrammar } from '../../grammar.ts'
import type { Any } from './wires.ts'

/** Streams and answers of responses providers. */

const record = (...events: object[]): GenerationEvent[] => {
  const reader = responses.call.reader({})
  const heard = [...events.flatMap((event) => reader.read({ data: JSON.stringify(event) })), ...reader.end()]
  checkGrammar(heard)
  return heard
}
const created = { type: 'response.created', response: { id: 'up', model: 'um', status: 'in_progress', output: [] } }
const completed = (more: object = {}) => ({
  type: 'response.completed',
  response: { id: 'up', model: 'um', status: 'completed', output: [], ...more },
})
const added = (output_index: number, item: object) => ({ type: 'response.output_item.added', output_index, item })
const done = (output_index: number, item: object) => ({ type: 'response.output_item.done', output_index, item })
const message = (text: string, more: object = {}) => ({
  type: 'message',
  id: 'm',
  role: 'assistant',
  content: [{ type: 'output_text', text, annotations: [], ...more }],
})
const call = (args: string, more: object = {}) => ({
  type: 'function_call',
  id: 'fc',
  call_id: 'c1',
  name: 'f',
  arguments: args,
  ...more,
})
const said = (...events: object[]) => fold(record(...events)).parts

describe('parts', () => {
  test('an answer that is only in the last event', () => {
    const answer = fold(
      record(
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

  test('a delta leaves in the turn in which it came', () => {
    const reader = responses.call.reader({})
    reader.read({ data: JSON.stringify(created) })
    expect(
      reader.read({
        data: JSON.stringify({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'x' }),
      }),
    ).toEqual([
      { type: 'part-start', part: 0, head: { type: 'text' } },
      { type: 'part-delta', part: 0, text: 'x' },
    ])
  })

  test('items that interleave come one after the other', () => {
    const delta = (output_index: number, delta: string) => ({
      type: 'response.function_call_arguments.delta',
      output_index,
      delta,
    })
    expect(
      said(
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

  test('arguments only in a done frame, or only in the finished item', () => {
    expect(
      said(
        created,
        added(0, call('')),
        { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"x":1}' },
        completed(),
      ),
    ).toMatchObject([{ arguments: '{"x":1}' }])
    expect(said(created, added(0, { type: 'function_call' }), done(0, call('{"x":1}')), completed())).toMatchObject([
      { name: 'f', arguments: '{"x":1}' },
    ])
  })

  test('ids that change in every frame', () => {
    expect(
      said(
        created,
        added(0, { ...message(''), id: 'i1' }),
        { type: 'response.output_text.delta', item_id: 'i2', output_index: 0, content_index: 0, delta: 'hi' },
        done(0, { ...message('hi'), id: 'i3' }),
        completed({ output: [{ ...message('hi'), id: 'i4' }] }),
      ),
    ).toEqual([{ type: 'text', text: 'hi' }])
  })

  test("a summary's parts are paragraphs, its seal is the finished item's", () => {
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
      said(
        created,
        added(0, { ...item, summary: [], encrypted_content: 'early' }),
        delta(0, 'a'),
        delta(0, 'b'),
        delta(1, 'c'),
        done(0, item),
        completed(),
      ),
    ).toEqual(whole as never)
    expect(said(completed({ output: [item] }))).toEqual(whole as never)
  })

  test('reasoning that is only a seal is hidden, and nothing at all is nothing', () => {
    expect(
      said(
        completed({
          output: [
            { type: 'reasoning', id: 'r', summary: [], encrypted_content: 's' },
            { type: 'reasoning', id: 'q', summary: [] },
          ],
        }),
      ),
    ).toEqual([{ type: 'reasoning', redacted: true, id: 'r', text: '', signature: { data: 's' } }])
  })

  test('citations follow their text, each once', () => {
    const annotation = { type: 'url_citation', url: 'https://x.y', title: 'X', start_index: 0, end_index: 2 }
    const events = record(
      created,
      { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'hi' },
      { type: 'response.output_text.annotation.added', output_index: 0, content_index: 0, annotation },
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
  })

  test('log probabilities', () => {
    const logprobs = [{ token: 'hi', logprob: -1, bytes: [104, 105], top_logprobs: [{ token: 'ho', logprob: -2 }] }]
    expect(said(completed({ output: [message('hi', { logprobs })] }))).toEqual([
      {
        type: 'text',
        text: 'hi',
        logprobs: [{ token: 'hi', logprob: -1, bytes: [104, 105], top: [{ token: 'ho', logprob: -2 }] }],
      },
    ])
  })

  test('searches are foreign and counted; images are images; custom calls are custom', () => {
    const search = { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search' } }
    const answer = fold(
      record(
        completed({
          output: [
            search,
            { ...search, action: { type: 'open_page' } },
            { type: 'image_generation_call', id: 'ig', result: 'aGk=', output_format: 'webp' },
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
      { type: 'tool-call', id: 'c', name: 'g', arguments: 'free', form: 'custom' },
    ])
    expect(answer.usage.webSearches).toBe(1)
  })
})

describe('usage', () => {
  const usage = (rawRequest: object) => fold(record(completed({ usage: rawRequest }))).usage
  test('details inside their sums', () => {
    expect(
      usage({
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 6, cache_write_tokens: 1 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 4 },
        total_tokens: 15,
      }),
    ).toMatchObject({ inputTokens: 3, cacheReadTokens: 6, cacheWrite5mTokens: 1, outputTokens: 1, reasoningTokens: 4 })
  })
  test('details beside their sums are known by the total', () => {
    expect(
      usage({ input_tokens: 10, input_tokens_details: { cached_tokens: 6 }, output_tokens: 5, total_tokens: 21 }),
    ).toMatchObject({ inputTokens: 10, cacheReadTokens: 6 })
    expect(
      usage({ input_tokens: 10, output_tokens: 5, output_tokens_details: { reasoning_tokens: 4 }, total_tokens: 19 }),
    ).toMatchObject({ outputTokens: 5, reasoningTokens: 4 })
  })
  test('on an incomplete and on a failed response, too', () => {
    const rawRequest = { input_tokens: 2, output_tokens: 1, total_tokens: 3 }
    expect(
      record({
        type: 'response.incomplete',
        response: { usage: rawRequest, incomplete_details: { reason: 'content_filter' } },
      }).slice(-2),
    ).toMatchObject([{ type: 'usage' }, { type: 'finish', reason: 'content-filter', raw: 'content_filter' }])
    expect(
      record({
        type: 'response.failed',
        response: { usage: rawRequest, error: { code: 'server_error', message: 'm' } },
      }).slice(-2),
    ).toMatchObject([{ type: 'usage' }, { type: 'error' }])
  })
})

describe('endings', () => {
  const end = (...events: object[]): Any => record(...events).at(-1)!
  test('a refusal is a refusal, a cut call is cut', () => {
    expect(
      end(completed({ output: [{ type: 'message', content: [{ type: 'refusal', refusal: 'no' }] }] })),
    ).toMatchObject({ type: 'finish', reason: 'refusal' })
    expect(
      end({
        type: 'response.incomplete',
        response: { incomplete_details: { reason: 'max_output_tokens' }, output: [call('{"a')] },
      }),
    ).toMatchObject({ type: 'finish', reason: 'length' })
  })
  test('a stream without its end is an error', () => {
    expect(end(created, added(0, message(''))).error.message).toContain('ended before its answer was complete')
    expect(end().error.code).toBe('upstream_error')
  })
  test('an error waits for the failed response, which says more', () => {
    const reader = responses.call.reader({})
    reader.read({ data: JSON.stringify(created) })
    expect(reader.read({ data: '{"type":"error","error":{"code":"unknown-error","message":"Foobar"}}' })).toEqual([])
    expect(
      reader.read({
        data: '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}',
      }),
    ).toMatchObject([{ type: 'error', error: { code: 'upstream_rate_limited' } }])
  })
  test('an error by itself, flat or nested or nameless', () => {
    for (const error of [
      { type: 'error', code: 'server_is_overloaded', message: 'busy' },
      { type: 'error', error: { type: 'overloaded', message: 'busy' } },
      { error: { code: 'overloaded', message: 'busy' } },
    ])
      expect(end(created, error).error).toMatchObject({ code: 'overloaded' })
  })
  test('a whole answer that failed is thrown', () => {
    for (const body of [
      null,
      [],
      {},
      'x',
      { output: null },
      { status: 'failed', output: [], error: { message: 'm' } },
      { error: { message: 'm' } },
    ])
      expect(() => responses.call.readAnswer(body, {})).toThrow()
  })
})

test('any events in any order make a sentence', () => {
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
    fc.property(fc.array(event, { maxLength: 12 }), (events) => void record(...events)),
    { numRuns: 1000 },
  )
}, 60_000)

test('what is no event is passed over', () => {
  const reader = responses.call.reader({})
  for (const data of ['', '[DONE]', 'not json', '[]', 'null', '"x"', '3']) expect(reader.read({ data })).toEqual([])
})
