import { expect, test } from 'bun:test'
import { GatewayError, asGatewayError, invalid } from '../src/error.ts'

test('a changed copy of an error keeps its cause, its stack and its other details', () => {
  const cause = new TypeError('socket closed')
  const error = new GatewayError('upstream_error', 'The provider failed.', {
    cause,
    param: 'input',
    status: 418,
    shouldRetry: true,
    metadata: { provider: 'acme' },
    details: { error_code: 'x' },
  })
  const copy = error.with({ retryAfterSeconds: 7, param: 'prompt' })
  expect(copy).toBeInstanceOf(GatewayError)
  expect(copy).toMatchObject({
    code: 'upstream_error',
    message: 'The provider failed.',
    param: 'prompt',
    status: 418,
    retryAfterSeconds: 7,
    shouldRetry: true,
    metadata: { provider: 'acme' },
    details: { error_code: 'x' },
  })
  expect(copy.cause).toBe(cause)
  expect(copy.stack).toBe(error.stack!)
  expect(error.retryAfterSeconds).toBeUndefined()
})

test('a copy of an error may have another message', () => {
  const copy = invalid('prompt', 'must be a string').with({ message: 'input.prompt: must be a string' })
  expect([copy.message, copy.param, copy.status, 'cause' in copy]).toEqual([
    'input.prompt: must be a string',
    'prompt',
    400,
    false,
  ])
})

test('an unexpected error becomes a 500 that keeps it as the cause and reveals nothing of it', () => {
  const cause = new Error('secret')
  const error = asGatewayError(cause)
  expect([error.status, error.code, error.message]).toEqual([500, 'internal_error', 'Internal error.'])
  expect(error.cause).toBe(cause)
  expect(asGatewayError(error)).toBe(error)
})
