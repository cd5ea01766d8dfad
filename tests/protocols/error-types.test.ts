import { expect, test } from 'bun:test'
import { type ErrorCode, GatewayError, STATUS_BY_CODE } from '../../src/error.ts'
import { writeError as writeGemini } from '../../src/protocols/gemini/write-error.ts'
import { writeError as writeMessages } from '../../src/protocols/messages/write-error.ts'

/** The names of errors in protocols that have one for each HTTP status. */

const CODES = Object.keys(STATUS_BY_CODE) as ErrorCode[]

/** By Anthropic's documentation; any other 4xx is an invalid request. 422 is Sluice's status for a rate limit. */
const ANTHROPIC: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  422: 'rate_limit_error',
  429: 'rate_limit_error',
  500: 'api_error',
  502: 'api_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

/** By the HTTP mapping of google.rpc.Code; any other 4xx is an invalid argument. */
const GOOGLE: Record<number, string> = {
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  422: 'RESOURCE_EXHAUSTED',
  426: 'FAILED_PRECONDITION',
  428: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/** A status for which neither protocol has a name. */
const UNNAMED = 499

const messagesType = (error: GatewayError): string => (writeMessages(error).error as { type: string }).type
const geminiStatus = (error: GatewayError): unknown => writeGemini(error).error.status

test.each(CODES)('the error %s has the type of its status, and keeps it with a status without a name', (code) => {
  const { status } = new GatewayError(code, 'x')
  for (const error of [new GatewayError(code, 'x'), new GatewayError(code, 'x', { status: UNNAMED })]) {
    expect(messagesType(error)).toBe(ANTHROPIC[status] ?? 'invalid_request_error')
    expect(geminiStatus(error)).toBe(
      code === 'set_in_file' ? 'FAILED_PRECONDITION' : (GOOGLE[status] ?? 'INVALID_ARGUMENT'),
    )
  }
})

test.each([401, 402, 403, 404, 413, 429])('the status %i of a provider decides over the code', (status) => {
  const error = new GatewayError('upstream_error', 'x', { status })
  expect(messagesType(error)).toBe(ANTHROPIC[status]!)
  if (status !== 402 && status !== 413) expect(geminiStatus(error)).toBe(GOOGLE[status])
})

test('the statuses 529 and 504 of a provider are overload for messages and a missed deadline for Google', () => {
  expect(messagesType(new GatewayError('upstream_error', 'x', { status: 529 }))).toBe('overloaded_error')
  expect(geminiStatus(new GatewayError('upstream_error', 'x', { status: 504 }))).toBe('DEADLINE_EXCEEDED')
})
