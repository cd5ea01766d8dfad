import type { Gateway } from '../server.ts'

/** Providers on the loopback interface in every protocol, which record what they are asked, and requests to them. */

type Json = Record<string, unknown>

export const CLIENTS = ['chat.completions', 'responses', 'messages', 'generateContent'] as const
export type Client = (typeof CLIENTS)[number]

/** One call of a provider: the first segment of its base URL, its header with a key, and the body. */
export type Call = { provider: string; key: string; model: unknown; body: Json }

/** `respond`: the answer of a provider in place of a success. */
export function startUpstreams(respond?: (call: Call) => Response | undefined): {
  url: string
  calls: Call[]
  stop(): Promise<void>
} {
  const calls: Call[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const { headers } = request
      const body = (await request.json()) as Json
      const key = headers.get('x-api-key') ?? headers.get('x-goog-api-key') ?? headers.get('authorization') ?? ''
      const call = { provider: pathname.split('/')[1]!, key: key.replace('Bearer ', ''), model: body.model, body }
      calls.push(call)
      return respond?.(call) ?? success(pathname, body.stream === true)
    },
  })
  return { url: server.url.origin, calls, stop: () => server.stop(true) }
}

function success(path: string, stream: boolean): Response {
  if (path.endsWith('/chat/completions')) return stream ? events(CHAT_CHUNKS) : Response.json(CHAT)
  if (path.endsWith('/responses')) return stream ? events([COMPLETED]) : Response.json(RESPONSE)
  if (path.endsWith('/images/generations')) return Response.json({ created: 1, data: [{ b64_json: PIXEL }] })
  if (path.endsWith('/messages')) return stream ? events(MESSAGE_EVENTS) : Response.json(MESSAGE)
  return path.includes(':streamGenerateContent') ? events([GENERATED]) : Response.json(GENERATED)
}

const events = (data: (Json | string)[]): Response =>
  new Response(
    data
      .map((one) =>
        typeof one === 'string'
          ? `data: ${one}\n\n`
          : `${typeof one.type === 'string' ? `event: ${one.type}\n` : ''}data: ${JSON.stringify(one)}\n\n`,
      )
      .join(''),
    { headers: { 'content-type': 'text/event-stream' } },
  )

/** A GIF of one pixel. */
const PIXEL = 'R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs='
const CHAT = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}
const CHAT_CHUNKS = [
  {
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  },
  { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage: CHAT.usage },
  '[DONE]',
]
const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  model: 'm',
  status: 'completed',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}
const COMPLETED = { type: 'response.completed', sequence_number: 0, response: RESPONSE }
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
}
const MESSAGE_EVENTS = [
  { type: 'message_start', message: { ...MESSAGE, content: [], stop_reason: null } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 1 } },
  { type: 'message_stop' },
]
const GENERATED = {
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
  modelVersion: 'm',
}

/** Path and body of a request in a protocol. `text`: of its one message. */
export function requestIn(
  client: Client,
  model: string,
  { stream = false, text = 'Hi' }: { stream?: boolean; text?: string } = {},
): { path: string; body: Json } {
  const messages = [{ role: 'user', content: text }]
  switch (client) {
    case 'chat.completions':
      return { path: '/v1/chat/completions', body: { model, stream, messages } }
    case 'responses':
      return { path: '/v1/responses', body: { model, stream, store: false, input: text } }
    case 'messages':
      return { path: '/v1/messages', body: { model, stream, max_tokens: 10, messages } }
    case 'generateContent':
      return {
        path: `/v1/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
        body: { contents: [{ role: 'user', parts: [{ text }] }] },
      }
  }
}

/** `body`: a value, or JSON text. */
export const send = (
  gateway: Gateway,
  path: string,
  body: Json | string,
  headers: Record<string, string> = {},
): Promise<Response> =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
