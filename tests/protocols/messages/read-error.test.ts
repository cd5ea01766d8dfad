import { expect, test } from 'bun:test'
import { errorOf, readError } from '../../../src/protocols/messages/read-error.ts'

/** Errors of providers of the Messages API, and of servers that are compatible with it. */

test.each<[status: number, body: string, code: string, message: string]>([
  [400, '{"type":"error","error":{"type":"invalid_request_error","message":"No."}}', 'invalid_request', 'No.'],
  [404, '{"error":{"message":"No model x.","type":"not_found_error"}}', 'model_not_found', 'No model x.'],
  [400, '{"error":"No."}', 'invalid_request', 'No.'],
  [400, '[{"error":{"message":"No."}}]', 'invalid_request', 'No.'],
  [400, '{"message":"No."}', 'invalid_request', 'No.'],
  [400, '<html><body>No.</body></html>', 'invalid_request', 'No.'],
  [429, '{"error":{"message":"Slow."}}', 'upstream_rate_limited', 'Slow.'],
  [529, '{}', 'overloaded', ''],
])('the response %i with %s is %s', (status, body, code, message) => {
  const error = readError(status, body)
  expect(error.code as string).toBe(code)
  expect(error.message).toContain(message)
})

test.each<[type: string | undefined, code: string, status: number]>([
  ['invalid_request_error', 'invalid_request', 400],
  ['authentication_error', 'upstream_error', 502],
  ['billing_error', 'upstream_error', 502],
  ['permission_error', 'upstream_error', 502],
  ['not_found_error', 'not_found', 404],
  ['request_too_large', 'request_too_large', 413],
  ['rate_limit_error', 'upstream_rate_limited', 429],
  ['api_error', 'upstream_error', 502],
  ['timeout_error', 'upstream_timeout', 504],
  ['overloaded_error', 'overloaded', 503],
  ['odd_error', 'upstream_error', 502],
  [undefined, 'upstream_error', 502],
])('an error of the type %s in a stream is %s', (type, code, status) => {
  expect(errorOf({ type: 'error', error: { type, message: 'No.' } })).toMatchObject({ code, status })
})
