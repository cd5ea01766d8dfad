import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { FrameSplitter } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { framed } from '../gateway/scripted.ts'

/** Errors in all formats of providers and compatible servers. */

const NAMES: ConversationName[] = ['chat.completions', 'responses', 'messages', 'generateContent']

/** Status and body of a provider, and the code, status and message that every protocol reads. */
const REFUSALS: [what: string, status: number, body: unknown, code: string, ours: number, says: string][] = [
  ['a bare string', 400, 'no such thing', 'invalid_request', 400, 'no such thing'],
  ['a string in place of the object', 400, { error: 'no such thing' }, 'invalid_request', 400, 'no such thing'],
  [
    'an array of Google',
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
    'details of a validator',
    422,
    { detail: [{ loc: ['body', 'x'], msg: 'no such thing' }] },
    'invalid_request',
    400,
    'no such thing',
  ],
  ['a shape that nobody knows', 400, { errors: [{ text: 'no such thing' }] }, 'invalid_request', 400, 'no such thing'],
  ['a page of a proxy', 502, '<html><body><h1>Bad Gateway</h1></body></html>', 'upstream_error', 502, 'Bad Gateway'],
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
  ['overload', 529, { type: 'error', error: { type: 'overloaded_error', message: 'busy' } }, 'overloaded', 503, 'busy'],
]

describe.each(REFUSALS)('an error response with %s', (_, status, body, code, ours, says) => {
  test.each(NAMES)('is read from %s', (provider) => {
    const error = protocols[provider].call.readError(
      status,
      typeof body === 'string' && body.startsWith('<') ? body : JSON.stringify(body),
    )
    expect([error.code, error.status]).toEqual([code as typeof error.code, ours])
    expect(error.message).toContain(says)
  })
})

/** Error bodies with status 200, whole or as a frame of a stream. */
const FAILURES: [what: string, body: object, code: string, says: string][] = [
  ['an object', { error: { message: 'it broke', type: 'server_error' } }, 'upstream_error', 'it broke'],
  ['a bare string', { error: 'it broke' }, 'upstream_error', 'it broke'],
  ['a number for a status', { error: { code: 429, message: 'not so fast' } }, 'upstream_rate_limited', 'not so fast'],
]

function streamed(provider: ConversationName, text: string): GenerationEvent[] {
  const reader = protocols[provider].call.reader({})
  const frames = new FrameSplitter()
  return [
    ...[...frames.push(Buffer.from(text)), ...frames.end()].flatMap((frame) => reader.read(frame)),
    ...reader.end(),
  ]
}

const thrownBy = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error
  }
}

describe.each(FAILURES)('an error with status 200 as %s', (_, body, code, says) => {
  test.each(NAMES)('is read from %s', (provider) => {
    const whole = thrownBy(() => protocols[provider].call.readAnswer(body, {}))
    const last = streamed(provider, framed([body])).at(-1)!
    for (const error of [whole, last.type === 'error' ? last.error : last]) {
      expect(error).toBeInstanceOf(GatewayError)
      expect(error).toMatchObject({ code, message: expect.stringContaining(says) })
    }
  })
})

/** Empty responses are responses. */
const NOTHING: [ConversationName, object][] = [
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

test.each(NOTHING)('an empty response of %s is read: %j', (provider, body) => {
  const answer = fold(protocols[provider].call.readAnswer(body, {}))
  expect(answer.parts.filter((part) => part.type !== 'text' || part.text !== '')).toEqual([])
  expect(['stop', 'stop-sequence', 'content-filter']).toContain(answer.finish.reason)
})
