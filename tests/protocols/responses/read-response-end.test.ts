import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
import { noUsage } from '../../../src/generation/usage.ts'
import type { Any } from './fixtures.ts'
import { added, call, completed, created, eventsOf, message } from './provider-events.ts'

describe('usage of a response', () => {
  const usage = (reported: object) => fold(eventsOf(completed({ usage: reported }))).usage
  test('is read from sums that include their details', () => {
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
  test('is read from sums without their details, which the total shows', () => {
    expect(
      usage({ input_tokens: 10, input_tokens_details: { cached_tokens: 6 }, output_tokens: 5, total_tokens: 21 }),
    ).toMatchObject({ inputTokens: 10, cacheReadTokens: 6 })
    expect(
      usage({ input_tokens: 10, output_tokens: 5, output_tokens_details: { reasoning_tokens: 4 }, total_tokens: 19 }),
    ).toMatchObject({ outputTokens: 5, reasoningTokens: 4 })
  })
  test.each<[string, Any, Any]>([
    [
      'details above a sum, which it cannot include',
      { input_tokens: 5, input_tokens_details: { cached_tokens: 3, cache_write_tokens: 3 }, output_tokens: 1 },
      { inputTokens: 5, cacheReadTokens: 3, cacheWrite5mTokens: 3, outputTokens: 1 },
    ],
    [
      'details that are all of a sum',
      {
        ...{ input_tokens: 6, input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 } },
        ...{ output_tokens: 3, output_tokens_details: { reasoning_tokens: 3 } },
      },
      { inputTokens: 0, cacheReadTokens: 4, cacheWrite5mTokens: 2, outputTokens: 0, reasoningTokens: 3 },
    ],
    [
      'cached and written tokens beside the sum',
      {
        ...{ input_tokens: 10, input_tokens_details: { cached_tokens: 2, cache_write_tokens: 3 } },
        ...{ output_tokens: 5, total_tokens: 20 },
      },
      { inputTokens: 10, cacheReadTokens: 2, cacheWrite5mTokens: 3, outputTokens: 5 },
    ],
    [
      'a total that no details explain',
      {
        ...{ input_tokens: 10, input_tokens_details: { cached_tokens: 2 } },
        ...{ output_tokens: 5, output_tokens_details: { reasoning_tokens: 4 }, total_tokens: 99 },
      },
      { inputTokens: 8, cacheReadTokens: 2, outputTokens: 1, reasoningTokens: 4 },
    ],
    [
      'audio and images within what is neither cached nor reasoning',
      {
        ...{ input_tokens: 10, input_tokens_details: { cached_tokens: 2, audio_tokens: 1, image_tokens: 1 } },
        ...{ output_tokens: 9, output_tokens_details: { reasoning_tokens: 2, audio_tokens: 1 } },
      },
      {
        ...{ inputTokens: 6, cacheReadTokens: 2, inputAudioTokens: 1, inputImageTokens: 1 },
        ...{ outputTokens: 6, reasoningTokens: 2, outputAudioTokens: 1 },
      },
    ],
    [
      'no more audio and images than there can be',
      {
        ...{ input_tokens: 10, input_tokens_details: { cached_tokens: 4, audio_tokens: 5, image_tokens: 9 } },
        ...{ output_tokens: 5, output_tokens_details: { reasoning_tokens: 3, audio_tokens: 5 } },
      },
      {
        ...{ inputTokens: 0, cacheReadTokens: 4, inputAudioTokens: 5, inputImageTokens: 1 },
        ...{ outputTokens: 0, reasoningTokens: 3, outputAudioTokens: 2 },
      },
    ],
  ])('has %s', (_, reported, expected) => {
    expect(usage(reported)).toEqual({ ...noUsage(), ...expected })
  })

  test('is none without a count, and has no output where that is not counted', () => {
    const reports = (reported: unknown) =>
      eventsOf(completed({ usage: reported })).flatMap((event) => (event.type === 'usage' ? [event.usage] : []))
    for (const none of [null, {}, { input_tokens: 'x' }, { input_tokens_details: { cached_tokens: 1 } }])
      expect(reports(none)).toEqual([])
    expect(reports({ input_tokens: 3 })[0]).not.toHaveProperty('outputTokens')
    expect(reports({ output_tokens: 3 })).toMatchObject([{ inputTokens: 0, outputTokens: 3 }])
  })

  const tokens = { input_tokens: 1, output_tokens: 1 }
  const search = { type: 'web_search_call', action: { type: 'search' } }
  test.each<[string, Any, number]>([
    ['as items', {}, 2],
    ['by OpenAI', { tool_usage: { web_search: { num_requests: 5 } } }, 5],
    ['by OpenAI as none', { tool_usage: { web_search: { num_requests: 0 } } }, 0],
    ['by xAI', { usage: { server_side_tool_usage_details: { web_search_calls: 3, x_search_calls: 4 } } }, 7],
    ['by xAI in its own network', { usage: { server_side_tool_usage_details: { x_search_calls: 4 } } }, 4],
    ['by xAI in the web', { usage: { server_side_tool_usage_details: { web_search_calls: 3 } } }, 3],
    ['by xAI without a number', { usage: { server_side_tool_usage_details: { web_search_calls: null } } }, 2],
    ['in the details of the input', { usage: { input_tokens_details: { web_search: 6 } } }, 6],
    ['as null', { usage: { input_tokens_details: { web_search: null } } }, 2],
  ])('has the web searches that are counted %s', (_, { usage: more, ...response }, searches) => {
    const event = completed({ ...response, usage: { ...tokens, ...more }, output: [search, search] })
    expect(fold(eventsOf(event)).usage.webSearches).toBe(searches)
  })

  test('has the service tier of the response', () => {
    const reports = eventsOf(completed({ usage: tokens, service_tier: 'flex' })).filter(({ type }) => type === 'usage')
    expect(reports).toMatchObject([{ service: { service_tier: 'flex' } }])
  })

  test('has the tokens and the model of the image tool, which are in no other count', () => {
    const drawn = (image_gen: unknown, more: object = {}): Any | undefined =>
      eventsOf(completed({ tool_usage: { image_gen }, ...more })).find(({ type }) => type === 'usage')
    const counted = {
      ...{ input_tokens: 9, input_tokens_details: { image_tokens: 4 } },
      ...{ output_tokens: 8, output_tokens_details: { text_tokens: 3 } },
    }
    const buckets = {
      ...{ imageToolInputTokens: 5, imageToolInputImageTokens: 4 },
      ...{ imageToolOutputTokens: 3, imageToolOutputImageTokens: 5 },
    }
    const tools = [{ type: 'function' }, { type: 'image_generation', model: 'gpt-image-1' }]
    expect(drawn(counted, { tools })).toMatchObject({ usage: buckets, imageModel: 'gpt-image-1' })
    for (const model of ['', 5, undefined])
      expect(drawn(counted, { tools: [{ type: 'image_generation', model }] })).not.toHaveProperty('imageModel')
    expect(drawn(counted, { usage: tokens })!.usage).toMatchObject({ ...buckets, inputTokens: 1, outputTokens: 1 })
    expect(drawn({ output_tokens: 2, output_tokens_details: { text_tokens: 7 } })!.usage).toEqual({
      ...{ imageToolInputTokens: 0, imageToolInputImageTokens: 0 },
      ...{ imageToolOutputTokens: 2, imageToolOutputImageTokens: 0 },
    })
    expect(drawn({ input_tokens: 2, input_tokens_details: { image_tokens: 7 } })!.usage).toMatchObject({
      ...{ imageToolInputTokens: 0, imageToolInputImageTokens: 7 },
    })
    expect(drawn({ input_tokens: 0, output_tokens: 0 })).toBeUndefined()
  })

  test('is read from incomplete and failed responses too', () => {
    const reported = { input_tokens: 2, output_tokens: 1, total_tokens: 3 }
    expect(
      eventsOf({
        type: 'response.incomplete',
        response: { usage: reported, incomplete_details: { reason: 'content_filter' } },
      }).slice(-2),
    ).toMatchObject([{ type: 'usage' }, { type: 'finish', reason: 'content-filter', raw: 'content_filter' }])
    expect(
      eventsOf({
        type: 'response.failed',
        response: { usage: reported, error: { code: 'server_error', message: 'm' } },
      }).slice(-2),
    ).toMatchObject([{ type: 'usage' }, { type: 'error' }])
  })
})

describe('the end of a response', () => {
  const end = (...events: object[]): Any => eventsOf(...events).at(-1)!
  test('is a refusal, or the output limit for a call that was cut', () => {
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
  test('is a truncation for an incomplete response, whether it has a reason or not', () => {
    for (const response of [{}, { incomplete_details: null }, { incomplete_details: { reason: 'max_tokens' } }])
      expect(end({ type: 'response.incomplete', response: { ...response, output: [] } })).toMatchObject({
        type: 'finish',
        reason: 'length',
      })
    expect(end(completed({ status: 'incomplete', output: [] }))).toMatchObject({ type: 'finish', reason: 'length' })
    const whole = { id: 'r', status: 'incomplete', output: [], incomplete_details: null }
    expect(responses.call.readResponse(whole, {}).at(-1)).toMatchObject({ type: 'finish', reason: 'length' })
  })
  test('is an error for a stream without its last event', () => {
    expect(end(created, added(0, message(''))).error.message).toContain('ended before its answer was complete')
    expect(end().error.code).toBe('upstream_error')
  })
  test('is the error of the failed response that follows an error event', () => {
    const reader = responses.call.reader({})
    reader.read({ data: JSON.stringify(created) })
    expect([reader.finishing, reader.failure]).toEqual([false, undefined])
    expect(reader.read({ data: '{"type":"error","error":{"code":"unknown-error","message":"Foobar"}}' })).toEqual([])
    expect([reader.finishing, reader.failure?.message]).toEqual([true, expect.stringContaining('Foobar')])
    expect(
      reader.read({
        data: '{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}',
      }),
    ).toMatchObject([{ type: 'error', error: { code: 'upstream_rate_limited' } }])
  })
  test('is an error event, flat, nested or without a type', () => {
    for (const error of [
      { type: 'error', code: 'server_is_overloaded', message: 'busy' },
      { type: 'error', error: { type: 'overloaded', message: 'busy' } },
      { error: { code: 'overloaded', message: 'busy' } },
    ])
      expect(end(created, error).error).toMatchObject({ code: 'overloaded' })
  })
  test('the first of several error events is the error of the response', () => {
    const events = ['overloaded', 'other'].map((code) => ({ type: 'error', code, message: code }))
    expect(end(created, ...events).error).toMatchObject({ code: 'overloaded' })
  })

  test('is thrown for a whole response that failed', () => {
    for (const body of [
      null,
      [],
      {},
      'x',
      { output: null },
      { status: 'failed', output: [], error: { message: 'm' } },
      { error: { message: 'm' } },
    ])
      expect(() => responses.call.readResponse(body, {})).toThrow()
  })
})
