import type { ConversationName } from '../../src/generation/request.ts'
import { RESPONSE_PIECES } from './scripted.ts'

/** Requests to any model in the four protocols. */

export const PROTOCOLS = Object.keys(RESPONSE_PIECES) as ConversationName[]

export type Asking = {
  url: string
  key: string
  protocol: ConversationName
  model: string
  stream: boolean
  text?: string
  limit?: number
  signal?: AbortSignal
  headers?: Record<string, string>
  /** More members of the body. */
  more?: object
}

export function ask({
  url,
  key,
  protocol,
  model,
  stream,
  text = 'Hello',
  limit = 1000,
  signal,
  headers,
  more,
}: Asking): Promise<Response> {
  const messages = [{ role: 'user', content: text }]
  const [path, body] = {
    'chat.completions': ['/v1/chat/completions', { model, stream, max_tokens: limit, messages }],
    responses: ['/v1/responses', { model, stream, max_output_tokens: limit, input: text }],
    messages: ['/v1/messages', { model, stream, max_tokens: limit, messages }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text }] }], generationConfig: { maxOutputTokens: limit } },
    ],
  }[protocol] as [string, object]
  return fetch(url + path, {
    method: 'POST',
    headers: { ...headers, authorization: `Bearer ${key}` },
    body: JSON.stringify({ ...body, ...more }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** An error in any protocol. `code`: the type and code that the protocol has for it. */
export type Failure = { status: number; code: string | undefined; message: string; headers: Headers }

/** Reads an error response. Messages has no codes, only types. */
export async function failureOf(response: Response, protocol: ConversationName): Promise<Failure> {
  const { error, type } = (await response.json()) as {
    type?: string
    error: { code: unknown; type: string; message: string; status: string }
  }
  const code =
    protocol === 'messages'
      ? `${type}:${error.type}`
      : protocol === 'generateContent'
        ? `${error.code}:${error.status}`
        : `${error.type}:${error.code}`
  return { status: response.status, code, message: error.message, headers: response.headers }
}

/** The frames by which clients recognize that a stream is complete, or that it failed. */
export const ENDED: Record<ConversationName, { whole: RegExp; failed: RegExp }> = {
  'chat.completions': { whole: /^data: \[DONE\]$/m, failed: /"finish_reason":"error"/ },
  responses: { whole: /"type":"response\.completed"/, failed: /event: error[^]*event: response\.failed/ },
  messages: { whole: /"type":"message_stop"/, failed: /^event: error$/m },
  generateContent: { whole: /"finishReason":/, failed: /\{"error":\{"code":/ },
}
