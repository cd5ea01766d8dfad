import type { ConversationName } from '../../../src/generation/request.ts'

/** Errors of providers in each protocol. */

/** The body of a provider's 429. */
export const errorBodyOf = (protocol: ConversationName, message: string): object =>
  ({
    'chat.completions': { error: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } },
    responses: { error: { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } },
    messages: { type: 'error', error: { type: 'rate_limit_error', message }, request_id: 'req_up' },
    generateContent: {
      error: {
        code: 429,
        message,
        status: 'RESOURCE_EXHAUSTED',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '7s' }],
      },
    },
  })[protocol]

/** The frame of an error in the middle of a stream. */
export const failureFrameOf = (protocol: ConversationName, message: string): object =>
  ({
    'chat.completions': { error: { message, type: 'server_error', param: null, code: null } },
    responses: { type: 'error', message, code: 'server_error', param: null, sequence_number: 9 },
    messages: { type: 'error', error: { type: 'overloaded_error', message } },
    generateContent: { error: { code: 503, message, status: 'UNAVAILABLE' } },
  })[protocol]

/** A failure under status 200 in a response that is not streamed. */
export const failureBodyOf = (protocol: ConversationName, message: string): object =>
  protocol !== 'responses'
    ? failureFrameOf(protocol, message)
    : {
        id: 'resp_up',
        object: 'response',
        created_at: 1_700_000_000,
        model: 'up',
        status: 'failed',
        output: [],
        usage: null,
        error: { code: 'server_error', message },
        incomplete_details: null,
      }
