import { expect } from 'bun:test'
import type { Json } from './kit.ts'

/** Routes with a valid request to each, and the errors of their formats. */

export type Route = { name: string; path: string; body: Json; format: 'openai' | 'messages' | 'google' }
const TEXT = 'Hello'
export const ROUTES: Route[] = [
  {
    name: 'chat completions',
    path: '/v1/chat/completions',
    body: { model: 'sandbox/chat', messages: [{ role: 'user', content: TEXT }] },
    format: 'openai',
  },
  {
    name: 'chat completions, relay',
    path: '/relay/v1/chat/completions',
    body: { model: 'sandbox/chat', messages: [{ role: 'user', content: TEXT }] },
    format: 'openai',
  },
  { name: 'responses', path: '/v1/responses', body: { model: 'sandbox/responses', input: TEXT }, format: 'openai' },
  {
    name: 'responses, relay',
    path: '/relay/v1/responses',
    body: { model: 'sandbox/responses', input: TEXT },
    format: 'openai',
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: { model: 'sandbox/messages', max_tokens: 50, messages: [{ role: 'user', content: TEXT }] },
    format: 'messages',
  },
  {
    name: 'messages, relay',
    path: '/relay/v1/messages',
    body: { model: 'sandbox/messages', max_tokens: 50, messages: [{ role: 'user', content: TEXT }] },
    format: 'messages',
  },
  {
    name: 'count_tokens',
    path: '/v1/messages/count_tokens',
    body: { model: 'sandbox/messages', messages: [{ role: 'user', content: TEXT }] },
    format: 'messages',
  },
  {
    name: 'generateContent',
    path: '/v1/publishers/sandbox/models/gemini:generateContent',
    body: { contents: [{ parts: [{ text: TEXT }] }] },
    format: 'google',
  },
  {
    name: 'streamGenerateContent',
    path: '/v1/publishers/sandbox/models/gemini:streamGenerateContent',
    body: { contents: [{ parts: [{ text: TEXT }] }] },
    format: 'google',
  },
]

export type Expected = { status: number; code: string; type: string; google: string }
export const ERRORS: Record<string, Expected> = {
  invalid: { status: 400, code: 'invalid_request', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  key: { status: 401, code: 'invalid_api_key', type: 'authentication_error', google: 'UNAUTHENTICATED' },
  kind: { status: 403, code: 'permission_denied', type: 'permission_error', google: 'PERMISSION_DENIED' },
  model: { status: 404, code: 'model_not_found', type: 'not_found_error', google: 'NOT_FOUND' },
  path: { status: 404, code: 'not_found', type: 'not_found_error', google: 'NOT_FOUND' },
  method: { status: 405, code: 'method_not_allowed', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  large: { status: 413, code: 'request_too_large', type: 'request_too_large', google: 'INVALID_ARGUMENT' },
  media: { status: 415, code: 'unsupported_media_type', type: 'invalid_request_error', google: 'INVALID_ARGUMENT' },
  rate: { status: 422, code: 'rate_limit_exceeded', type: 'rate_limit_error', google: 'RESOURCE_EXHAUSTED' },
}

/** Asserts the error body in the format of its protocol and the ids that SDKs read. Returns the message. */
export async function expectError(response: Response, format: Route['format'], expected: Expected): Promise<string> {
  const text = await response.text()
  expect({ status: response.status, text: response.status === expected.status ? '' : text }).toEqual({
    status: expected.status,
    text: '',
  })
  expect(response.headers.get('content-type')).toBe('application/json')
  const requestId = response.headers.get('x-request-id')
  expect(requestId).toStartWith('req_')
  expect(response.headers.get('request-id')).toBe(requestId)
  const body = JSON.parse(text) as { type: string; error: Json; request_id: string }
  if (format === 'openai') {
    expect(Object.keys(body)).toEqual(['error'])
    expect(Object.keys(body.error).toSorted()).toEqual(['code', 'message', 'param', 'type'])
    expect(body.error).toMatchObject({
      type: expected.status === 404 || expected.status === 413 ? 'invalid_request_error' : expected.type,
      code: expected.code,
    })
  } else if (format === 'messages') {
    expect(body).toMatchObject({ type: 'error', error: { type: expected.type }, request_id: requestId! })
  } else {
    expect(body.error).toMatchObject({ code: expected.status, status: expected.google })
    expect(Array.isArray(body.error.details)).toBe(true)
  }
  const { message } = body.error as { message: string }
  expect(message.length).toBeGreaterThan(10)
  expect(message).not.toMatch(/\bat \/|\.ts:\d|Error:/)
  return message
}
