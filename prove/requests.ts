/** Requests in the four protocols, and what their clients see. */
import { pick } from './table.ts'

export const PROTOCOLS = ['chat.completions', 'responses', 'messages', 'generateContent'] as const
export type ProtocolName = (typeof PROTOCOLS)[number]

/** Providers of all protocols at one sandbox, each with a model of every name at 1 USD per 1,000 output tokens. */
export const providersAt = (url: string): string =>
  `providers:\n${PROTOCOLS.map(
    (protocol) =>
      `  ${idOf(protocol)}: { protocol: ${protocol}, ` +
      `baseUrl: "${url}${protocol === 'generateContent' ? '/v1beta' : '/v1'}", apiKey: proving, unlisted: true }`,
  ).join('\n')}\nmodels:\n${PROTOCOLS.map(
    (protocol) =>
      `  ${modelOf(protocol)}: { endpoints: [{ provider: ${idOf(protocol)}, model: m }], ` +
      'price: { prompt: 1, completion: 1000 } }',
  ).join('\n')}\n`

const idOf = (protocol: ProtocolName): string => `up-${protocol.split('.')[0]!.toLowerCase()}`

/** The model of a provider with this protocol. */
export const modelOf = (protocol: ProtocolName): string => `prove/${idOf(protocol)}`

export type Asked = {
  client: ProtocolName
  provider: ProtocolName
  stream: boolean
  text: string
  limit: number
  key?: string
}

/** A request with one of these texts, between any two protocols. */
export const randomRequest = (texts: readonly string[], random: () => number): Asked => ({
  client: pick(PROTOCOLS, random),
  provider: pick(PROTOCOLS, random),
  stream: random() < 0.6,
  text: pick(texts, random),
  limit: 1_000,
})

/** Sends one request; `signal` ends it from the client's side. */
export function send(
  server: { url: string; key: string },
  { client, provider, stream, text, limit, key = server.key }: Asked,
  signal?: AbortSignal,
): Promise<Response> {
  const model = modelOf(provider)
  const messages = [{ role: 'user', content: text }]
  const [path, body] = {
    'chat.completions': [
      '/v1/chat/completions',
      { model, stream, max_tokens: limit, messages, ...(stream ? { stream_options: { include_usage: true } } : {}) },
    ],
    responses: ['/v1/responses', { model, stream, max_output_tokens: limit, input: text, store: false }],
    messages: ['/v1/messages', { model, stream, max_tokens: limit, messages }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text }] }], generationConfig: { maxOutputTokens: limit } },
    ],
  }[client] as [string, object]
  return fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** The end of a stream that is whole, in each protocol; an answer that is not streamed is whole if it is JSON. */
const ENDS: Record<ProtocolName, RegExp> = {
  'chat.completions': /data: \[DONE\]/,
  responses: /event: response\.completed/,
  messages: /event: message_stop/,
  generateContent: /"finishReason":\s*"STOP"/,
}

export const isWhole = (text: string, { client, stream }: Asked): boolean =>
  stream ? ENDS[client].test(text) : text.trimEnd().endsWith('}')

/** The output tokens that the client received last; undefined without usage. */
export function outputTokensIn(text: string): number | undefined {
  const last = (pattern: RegExp): number | undefined => {
    const found = [...text.matchAll(pattern)].at(-1)
    return found === undefined ? undefined : Number(found[1])
  }
  const candidates = last(/"candidatesTokenCount":\s*(\d+)/g)
  return candidates === undefined
    ? (last(/"(?:completion|output)_tokens":\s*(\d+)/g) ?? undefined)
    : candidates + (last(/"thoughtsTokenCount":\s*(\d+)/g) ?? 0)
}
