import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/error.ts'
import { call, framesOf, last, parsed, sentence, text, types } from './fixtures.ts'

describe('a failed stream', () => {
  const failure = (error: GatewayError, before = sentence([text, ['par']])) =>
    parsed(framesOf([...before, { type: 'error', error }]))

  test('has the error in an error event and in the failed response', () => {
    const frames = failure(new GatewayError('upstream_error', 'broke'))
    expect(types(frames).slice(-2)).toEqual(['error', 'failed'])
    expect(frames.at(-2)).toEqual({
      type: 'error',
      sequence_number: 5,
      code: 'server_error',
      message: 'broke',
      param: null,
    })
    expect(last(frames)).toMatchObject({ status: 'failed', error: { code: 'server_error', message: 'broke' } })
  })

  test('names the parameter of the error', () => {
    const [error] = failure(new GatewayError('invalid_request', 'bad', { param: 'input[0]' })).slice(-2)
    expect(error).toMatchObject({ type: 'error', param: 'input[0]' })
  })

  test('has the failed response if nothing came before it', () => {
    expect(types(failure(new GatewayError('upstream_error', 'broke'), []))).toEqual([
      'created',
      'in_progress',
      'error',
      'failed',
    ])
  })

  test('never ends a call that may be cut', () => {
    const frames = parsed(
      framesOf([
        ...sentence([call('c1'), ['{"rm":1}']]),
        { type: 'error', error: new GatewayError('upstream_error', 'broke') },
      ]),
    )
    expect(types(frames)).not.toContain('output_item.done')
    expect(last(frames).output).toEqual([])
  })

  test.each([
    ['rate_limit_exceeded', 'rate_limit_exceeded'],
    ['upstream_rate_limited', 'rate_limit_exceeded'],
    ['overloaded', 'server_is_overloaded'],
    ['store_unavailable', 'server_is_overloaded'],
    ['context_length_exceeded', 'context_length_exceeded'],
    ['quota_exceeded', 'insufficient_quota'],
    ['insufficient_credit', 'insufficient_quota'],
    ['invalid_request', 'invalid_prompt'],
    ['unsupported_parameter', 'invalid_prompt'],
    ['upstream_timeout', 'server_error'],
  ] as const)('has the code %s as %s', (ours, theirs) => {
    expect(last(failure(new GatewayError(ours, 'm'))).error.code).toBe(theirs)
  })

  test('has a known wait in the phrase that clients search for', () => {
    const message = (text: string): string =>
      last(failure(new GatewayError('upstream_rate_limited', text, { retryAfterSeconds: 2 }))).error.message
    expect(message('Slow down.')).toBe('Slow down. Please try again in 2s.')
    expect(message('Please try again in 1.8s.')).toBe('Please try again in 1.8s.')
  })
})
