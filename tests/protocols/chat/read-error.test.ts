import { describe, expect, test } from 'bun:test'
import { type ErrorCode, GatewayError } from '../../../src/error.ts'
import { chat } from '../../../src/protocols/chat/index.ts'

/** Errors of providers of chat completions. */

describe('errors of providers', () => {
  const readAs = (status: number, body: unknown) => {
    const {
      code,
      status: shown,
      message,
      metadata,
    } = chat.call.readError(status, typeof body === 'string' ? body : JSON.stringify(body))
    return { code, status: shown, message, metadata }
  }
  test('a status and an error code become the code and status of the gateway', () => {
    expect(
      readAs(400, { error: { message: 'Bad schema', type: 'invalid_request_error', param: 'tools', code: null } }),
    ).toMatchObject({ code: 'invalid_request', status: 400, message: 'Bad schema' })
    expect(readAs(422, { detail: 'odd' })).toMatchObject({ code: 'invalid_request', status: 400, message: 'odd' })
    expect(
      readAs(400, {
        error: { message: "This model's maximum context length is 9 tokens.", code: 'invalid_request_error' },
      }).code,
    ).toBe('context_length_exceeded')
    expect(readAs(404, { error: { message: 'The model `x` does not exist', code: 'model_not_found' } })).toMatchObject({
      code: 'model_not_found',
      status: 404,
    })
    expect(
      readAs(404, { error: { message: 'The API deployment does not exist.', code: 'DeploymentNotFound' } }).code,
    ).toBe('model_not_found')
    expect(readAs(413, '<html><h1>Too large</h1></html>')).toMatchObject({
      code: 'request_too_large',
      status: 413,
      message: 'Too large',
    })
    expect(readAs(429, { error: { message: 'slow' } })).toMatchObject({ code: 'upstream_rate_limited', status: 429 })
    expect(readAs(503, '')).toMatchObject({ code: 'overloaded', status: 503 })
    expect(readAs(529, '')).toMatchObject({ code: 'overloaded', status: 503 })
    expect(readAs(504, '"late"')).toMatchObject({ code: 'upstream_timeout', status: 504 })
    expect(readAs(500, [{ error: { message: 'boom' } }])).toMatchObject({
      code: 'upstream_error',
      status: 502,
      metadata: { status: 500, message: 'boom' },
    })
    expect(readAs(400, { code: 'x', error: 'a plain string' }).message).toBe('a plain string')
  })
  test('refused credentials are a 502 without the key in its text', () => {
    for (const [status, body] of [
      [401, { error: { message: 'Incorrect API key provided: sk-proj-abcdef123456', code: 'invalid_api_key' } }],
      [403, 'no'],
      [402, ''],
      [400, { error: { message: 'API key not valid: AIzaSyAbcdef123' } }],
    ] as const) {
      const error = readAs(status, body)
      expect(error).toMatchObject({ code: 'upstream_error', status: 502 })
      expect(error.message).toContain('credentials')
      expect(JSON.stringify(error)).not.toMatch(/abcdef/i)
    }
    expect(
      readAs(500, { error: { message: 'sent Authorization: Bearer abcdefghij with sk-abcdefghij and AIzaabcdefghij' } })
        .message,
    ).not.toContain('abcdefghij')
  })
})

test.each<[code: ErrorCode, type: string]>([
  ['invalid_api_key', 'authentication_error'],
  ['sign_in_required', 'authentication_error'],
  ['role_required', 'permission_error'],
  ['permission_denied', 'permission_error'],
  ['account_suspended', 'permission_error'],
  ['insufficient_credit', 'insufficient_quota'],
  ['quota_exceeded', 'insufficient_quota'],
  ['rate_limit_exceeded', 'rate_limit_error'],
  ['upstream_rate_limited', 'rate_limit_error'],
  ['invalid_request', 'invalid_request_error'],
  ['upstream_error', 'server_error'],
])('an error with the code %s has the type %s of OpenAI for the client', (code, type) => {
  const error = new GatewayError(code, 'x', { param: 'tools' })
  expect(chat.serve.writeError(error, 'req')).toEqual({ error: { message: 'x', type, param: 'tools', code } })
})
