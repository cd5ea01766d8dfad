import { describe, expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { responses } from '../../../src/protocols/responses/index.ts'
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
    expect(reader.read({ data: '{"type":"error","error":{"code":"unknown-error","message":"Foobar"}}' })).toEqual([])
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
