import { describe, expect, test } from 'bun:test'
import { readError, readStreamError } from '../../../src/protocols/gemini/read-error.ts'

/** Error responses of providers of generateContent. */

const body = (error: unknown) => JSON.stringify({ error })

describe('an error response', () => {
  test.each<[string, number, string, Record<string, unknown>]>([
    [
      'an invalid key in a 400 is an upstream error',
      400,
      body({
        code: 400,
        message: 'API key not valid.',
        status: 'INVALID_ARGUMENT',
        details: [{ reason: 'API_KEY_INVALID' }],
      }),
      { code: 'upstream_error', status: 502 },
    ],
    [
      'a field violation is an invalid request with its field',
      400,
      body({ code: 400, message: 'Bad schema.', details: [{ fieldViolations: [{ field: 'contents' }] }] }),
      { code: 'invalid_request', status: 400, message: 'Bad schema.', param: 'contents' },
    ],
    [
      'an error in an array is read',
      404,
      `[${body({ code: 404, message: 'models/x is not found' })}]`,
      { code: 'model_not_found', status: 404 },
    ],
    [
      'a rate limit keeps its delay',
      429,
      body({
        code: 429,
        message: 'Quota.',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }],
      }),
      { code: 'upstream_rate_limited', status: 429, retryAfterSeconds: 35 },
    ],
    [
      'an HTML page is an upstream error',
      502,
      '<html><body>Bad gateway</body></html>',
      { code: 'upstream_error', status: 502 },
    ],
    ['an error without an envelope is read', 404, '{"message":"No."}', { code: 'not_found', message: 'No.' }],
    ['an error that is a text is read', 404, '{"error":"No."}', { code: 'not_found', message: 'No.' }],
    ['an empty 503 is overload', 503, '', { code: 'overloaded', status: 503 }],
    [
      'too many input tokens exceed the context length',
      400,
      body({ message: 'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).' }),
      { code: 'context_length_exceeded', status: 400 },
    ],
  ])('%s', (_, status, response, expected) => {
    expect(readError(status, response)).toMatchObject(expected)
  })
})

test.each<[object, string, number]>([
  [{ code: 429, message: 'Slow.' }, 'upstream_rate_limited', 429],
  [{ code: 503, message: 'Busy.' }, 'overloaded', 503],
  [{ code: 400, message: 'Wrong.' }, 'invalid_request', 400],
  [{ code: 499, message: 'Closed.' }, 'upstream_error', 502],
  [{ status: 'RESOURCE_EXHAUSTED', message: 'Slow.' }, 'upstream_rate_limited', 429],
])('the error %j in a stream is %s', (error, code, status) => {
  expect(readStreamError({ ...error })).toMatchObject({ code, status })
})
