import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { streamedEventsOf } from '../translating.ts'
import { framesOf } from './provider-replies.ts'
import { NAMES } from './routes.ts'

/** Errors in all the shapes that providers and compatible servers send, and the GatewayError of each. */

/** Status and body of the provider; code, status and part of the message of the GatewayError. */
const ERRORS: [what: string, status: number, body: unknown, code: string, ours: number, message: string][] = [
  ['a plain string', 400, 'no such thing', 'invalid_request', 400, 'no such thing'],
  ['a string in place of the object', 400, { error: 'no such thing' }, 'invalid_request', 400, 'no such thing'],
  [
    'an array, as Google sends it',
    400,
    [{ error: { code: 400, message: 'no such thing', status: 'INVALID_ARGUMENT' } }],
    'invalid_request',
    400,
    'no such thing',
  ],
  [
    'a message at the top level',
    400,
    { object: 'error', message: 'no such thing', type: 'BadRequestError', code: 400 },
    'invalid_request',
    400,
    'no such thing',
  ],
  [
    'the details of a validator',
    422,
    { detail: [{ loc: ['body', 'x'], msg: 'no such thing' }] },
    'invalid_request',
    400,
    'no such thing',
  ],
  ['an unknown shape', 400, { errors: [{ text: 'no such thing' }] }, 'invalid_request', 400, 'no such thing'],
  [
    'an HTML page of a proxy',
    502,
    '<html><body><h1>Bad Gateway</h1></body></html>',
    'upstream_error',
    502,
    'Bad Gateway',
  ],
  [
    'an invalid key at xAI',
    400,
    { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: xai-0123456789.' },
    'upstream_error',
    502,
    "refused Sluice's credentials",
  ],
  [
    'an invalid key at Google',
    400,
    { error: { code: 400, message: 'API key not valid. Please pass a valid API key.', status: 'INVALID_ARGUMENT' } },
    'upstream_error',
    502,
    "refused Sluice's credentials",
  ],
  [
    'a prompt too long for OpenAI',
    400,
    { error: { message: "This model's maximum context length is 8192 tokens", code: 'context_length_exceeded' } },
    'context_length_exceeded',
    400,
    '8192',
  ],
  [
    'a prompt too long for Anthropic',
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 250000 tokens > 200000 maximum' },
    },
    'context_length_exceeded',
    400,
    '250000',
  ],
  [
    'a prompt too long for Google',
    400,
    {
      error: {
        code: 400,
        message: 'The input token count (2) exceeds the maximum number of tokens allowed (1).',
        status: 'INVALID_ARGUMENT',
      },
    },
    'context_length_exceeded',
    400,
    '(2)',
  ],
  [
    'a body too large',
    413,
    { type: 'error', error: { type: 'request_too_large', message: 'too big' } },
    'request_too_large',
    413,
    'too big',
  ],
  [
    'an overload',
    529,
    { type: 'error', error: { type: 'overloaded_error', message: 'busy' } },
    'overloaded',
    503,
    'busy',
  ],
]

describe.each(ERRORS)('an error response: %s', (_, status, body, code, ours, message) => {
  test.each(NAMES)(`of a %s provider is read as ${code} with status ${ours}`, (provider) => {
    const error = protocols[provider].call.readError(
      status,
      typeof body === 'string' && body.startsWith('<') ? body : JSON.stringify(body),
    )
    expect([error.code, error.status]).toEqual([code as typeof error.code, ours])
    expect(error.message).toContain(message)
  })
})

/** Errors under status 200, as a whole body or as a frame of a stream. */
const ERRORS_UNDER_200: [what: string, body: object, code: string, message: string][] = [
  ['an object', { error: { message: 'it broke', type: 'server_error' } }, 'upstream_error', 'it broke'],
  ['a plain string', { error: 'it broke' }, 'upstream_error', 'it broke'],
  ['a numeric status', { error: { code: 429, message: 'not so fast' } }, 'upstream_rate_limited', 'not so fast'],
]

const thrownBy = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error
  }
}

describe.each(ERRORS_UNDER_200)('an error under status 200: %s', (_, body, code, message) => {
  test.each(NAMES)(`of a %s provider is read as ${code}, whole and streamed`, (provider) => {
    const whole = thrownBy(() => protocols[provider].call.readResponse(body, {}))
    const last = streamedEventsOf(provider, framesOf([body])).at(-1)!
    for (const error of [whole, last.type === 'error' ? last.error : last]) {
      expect(error).toBeInstanceOf(GatewayError)
      expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
    }
  })
})

/** Successful responses without content. */
const EMPTY: [ConversationName, object][] = [
  [
    'chat.completions',
    { choices: [{ index: 0, message: { role: 'assistant', content: null }, finish_reason: 'stop' }] },
  ],
  ['chat.completions', { choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'stop' }] }],
  ['responses', { status: 'completed', output: [] }],
  ['responses', { status: 'completed', output: [{ type: 'message', content: [] }] }],
  ['messages', { type: 'message', content: [], stop_reason: 'stop_sequence', stop_sequence: 'END' }],
  ['messages', { type: 'message', content: [{ type: 'text', text: '' }], stop_reason: 'end_turn' }],
  ['generateContent', { candidates: [{ finishReason: 'STOP' }] }],
  ['generateContent', { candidates: [{ content: { role: 'model' } }] }],
  ['generateContent', { candidates: [] }],
  ['generateContent', { usageMetadata: { promptTokenCount: 5, totalTokenCount: 5 }, modelVersion: 'm' }],
  ['generateContent', { promptFeedback: { blockReason: 'SAFETY' } }],
]

test.each(EMPTY)('an empty response of %s is no error: %j', (provider, body) => {
  const answer = fold(protocols[provider].call.readResponse(body, {}))
  expect(answer.parts.filter((part) => part.type !== 'text' || part.text !== '')).toEqual([])
  expect(['stop', 'stop-sequence', 'content-filter']).toContain(answer.finish.reason)
})
