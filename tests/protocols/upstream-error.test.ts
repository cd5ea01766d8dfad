import { expect, test } from 'bun:test'
import {
  checkDepth,
  plainText,
  type ProviderErrorFields,
  upstreamError,
  upstreamStreamError,
  validationProblems,
} from '../../src/protocols/upstream-error.ts'

/** Status, message and fields of the provider; code, status and message of the error for the client. */
const ERRORS: [status: number, said: string, fields: ProviderErrorFields, code: string, ours: number, says: string][] =
  [
    [404, 'no model x', {}, 'model_not_found', 404, 'no model x'],
    [404, 'gone', { code: 'DeploymentNotFound' }, 'model_not_found', 404, 'gone'],
    [404, 'gone', {}, 'not_found', 404, 'gone'],
    [408, 'slow', {}, 'upstream_timeout', 504, 'The provider did not respond in time. Its message: slow'],
    [504, '', {}, 'upstream_timeout', 504, 'The provider did not respond in time.'],
    [529, 'busy', {}, 'overloaded', 503, 'The provider is overloaded. Its message: busy'],
    [413, 'big', {}, 'request_too_large', 413, 'big'],
    [422, 'odd', {}, 'invalid_request', 400, 'odd'],
    [400, '', {}, 'invalid_request', 400, 'The provider responded with 400 and no message.'],
    [400, 'no', { type: 'authentication_error' }, 'upstream_error', 502, "The provider refused Sluice's credentials"],
    [402, 'no', {}, 'upstream_error', 502, "The provider refused Sluice's credentials"],
    [
      405,
      'no',
      {},
      'upstream_error',
      502,
      "The provider does not accept Sluice's request format (405). Its message: no",
    ],
    [500, 'broken', {}, 'upstream_error', 502, 'The provider failed (500). Its message: broken'],
  ]

test('a message is cut after 4,000 characters', () => {
  for (const [length, kept] of [
    [4_000, 'x'.repeat(4_000)],
    [4_001, `${'x'.repeat(4_000)}…`],
  ] as const)
    expect(upstreamError(422, 'x'.repeat(length)).message).toBe(kept)
})

test.each(ERRORS)('the status %j with the message %j and %j is %s', (status, said, fields, code, ours, says) => {
  expect(upstreamError(status, said, fields)).toMatchObject({ code, status: ours })
  expect(upstreamError(status, said, fields).message).toStartWith(says)
})

test.each([
  [400, 'invalid_request'],
  ['429', 'upstream_rate_limited'],
  [599, 'upstream_error'],
  [99, 'overloaded'],
  [1234, 'overloaded'],
] as const)('an error in a stream has the status that its code %j is, else that of its type', (code, ours) => {
  expect(upstreamStreamError('x', { code, type: 'overloaded_error' })).toMatchObject({ code: ours })
})

test('the problems of a validator are one line, and other lists are none', () => {
  const problem = { loc: ['body', 'a', 0, {}], msg: 'is odd' }
  expect(validationProblems([problem, { loc: ['b'], msg: 'is missing' }])).toBe('a.0: is odd; b: is missing')
  for (const detail of [[], [problem, 'x'], [{ ...problem, loc: 'a' }], [{ ...problem, msg: 1 }], problem])
    expect(validationProblems(detail)).toBeUndefined()
})

test('the error page of a provider is read as its text, without tags, scripts and styles', () => {
  const page = '<html><head><style>a { b: c }</style><title>502</title></head>\n<body>Bad  <b>gateway</b></body></html>'
  expect(plainText(page)).toBe('502 Bad gateway')
  expect(plainText('one<SCRIPT src="x">if (a < b) c()</SCRIPT> two <script>1</script>three')).toBe('one two three')
  expect(plainText('<script>not closed')).toBe('not closed')
  expect(plainText('a < b')).toBe('a < b')
})

test('a page of opened tags is read in linear time', () => {
  const before = performance.now()
  for (const tag of ['<', '<script>', '<script><style>', '<style></script>', '<!-- '])
    expect(plainText(tag.repeat(2_000_000 / tag.length)).length).toBeLessThanOrEqual(500)
  // A pattern that looks for the end of each would take an hour.
  expect(performance.now() - before).toBeLessThan(20_000)
})

test('a response that is nested too deeply to be written again is an error of the provider', () => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
  expect(() => checkDepth(nested(1_000))).not.toThrow()
  expect(() => checkDepth(nested(1_001))).toThrow('nested deeper than 1000 levels')
})
