import { afterAll, beforeAll, expect } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'
import type { RawServer } from '../transport/raw-server.ts'
import { PROTOCOLS } from './asking.ts'
import { scriptedProvider } from './scripted.ts'

/** A gateway before providers in all protocols, and requests with files and URLs to it. */

export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=',
  'base64',
)
export const PDF = Buffer.from('%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n', 'latin1')
export const TXT = Buffer.from('Der Reiher heißt "Otto".\n')
export const ZIP = Buffer.from('PK\x03\x04\x14\x00\x00\x00\x00\x00', 'latin1')

export const KEY_OF_ANOTHER = 'sk-ai-v1-of-another-0123456789abcdef0123456789abcdef'

export let provider: RawServer
/** Serves PNG, PDF and TXT at /a.png, /a.pdf, /a.txt, and a page at /page. */
export let site: ReturnType<typeof Bun.serve>
/** Number of requests to /slow, which does not respond. */
export let slow = 0
export let gateway: Gateway
/** A gateway that fetches URLs of requests itself. */
export let fetching: Gateway

const configFor = (requestUrls: boolean): string => {
  const own = PROTOCOLS.flatMap((protocol) => {
    const row = (suffix: string, options: string): string =>
      `  ${idOf(protocol)}${suffix}: ` +
      `{ protocol: ${protocol}, baseUrl: "${provider.url}/v1", apiKey: k, unlisted: true${options} }\n`
    return [
      row('', ', fetches: [], buckets: ["gs://bucket", "gs://shared/public/"]'),
      row('-shared', ', sharedIds: true'),
      row('-default', ''),
      row('-fetching', ', fetches: [image, file]'),
    ]
  })
  const builtIn = ['openai', 'anthropic', 'google', 'groq'].map(
    (id) => `  ${id}: { apiKey: k, baseUrl: "${provider.url}/v1" }\n`,
  )
  return `
limits: { requestsPerMinute: 1000000 }
keys: [{ key: ${KEY_OF_ANOTHER}, account: another }]
fetch: { requestUrls: ${requestUrls}, private: ["127.0.0.1:${site.port}"] }
providers:
${own.join('')}${builtIn.join('')}
models:
  both: { endpoints: [{ provider: own-chat, model: metered }, { provider: own-chat-fetching, model: metered }] }
  small-first:
    endpoints:
      - { provider: groq, model: metered, protocol: chat.completions }
      - { provider: own-chat, model: metered }
  priced: { endpoints: [{ provider: own-messages, model: metered }], price: { prompt: 1, completion: 1 } }
`
}

const IDS: Record<ConversationName, string> = {
  'chat.completions': 'own-chat',
  responses: 'own-responses',
  messages: 'own-messages',
  generateContent: 'own-gemini',
}
export const idOf = (protocol: ConversationName): string => IDS[protocol]

/** Starts the gateway for the tests of a file. `fetches`: also the one that fetches URLs. */
export function useMediaGateway({ fetches = false } = {}): void {
  beforeAll(async () => {
    provider = scriptedProvider()
    site = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        if (new URL(request.url).pathname === '/slow') {
          slow += 1
          await Promise.withResolvers().promise
        }
        const body = {
          '/a.png': PNG,
          '/a.pdf': PDF,
          '/a.txt': TXT,
          '/page': Buffer.from('<html>'),
          '/empty': Buffer.alloc(0),
        }[new URL(request.url).pathname]
        return body === undefined
          ? new Response('no', { status: 404 })
          : new Response(new Uint8Array(body), { headers: { 'content-type': 'image/png' } })
      },
    })
    gateway = await startGateway({ config: configFor(false) })
    if (fetches) fetching = await startGateway({ config: configFor(true) })
  })
  afterAll(async () => {
    await gateway?.stop()
    if (fetches) await fetching?.stop()
    site?.stop(true)
    provider?.stop()
  })
}

export async function upload(bytes: Uint8Array, name: string, key = gateway.key, at = gateway): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'user_data')
  form.set('file', new File([new Uint8Array(bytes)], name))
  const response = await fetch(`${at.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: form,
  })
  const { id } = (await response.json()) as { id: string }
  expect(response.status, id).toBe(200)
  return id
}

export type Kind = 'image' | 'file'
export type Destination = { protocol: ConversationName; model: string; key?: string; at?: Gateway; stream?: boolean }

/** A part of a message with a file or a URL in each protocol, and the path of that field. */
export const PARTS: Record<
  ConversationName,
  {
    file: (id: string, kind: Kind) => object
    url: (url: string, kind: Kind) => object
    param: (source: 'file' | 'url', kind: Kind) => string
  }
> = {
  'chat.completions': {
    file: (file_id) => ({ type: 'file', file: { file_id } }),
    url: (url, kind) =>
      kind === 'image'
        ? { type: 'image_url', image_url: { url, detail: 'low' } }
        : { type: 'file', file: { file_data: url } },
    param: (source, kind) => {
      const field = source === 'file' ? 'file.file_id' : kind === 'image' ? 'image_url.url' : 'file.file_data'
      return `messages[0].content[1].${field}`
    },
  },
  responses: {
    file: (file_id, kind) => ({ type: `input_${kind}`, file_id }),
    url: (url, kind) => ({ type: `input_${kind}`, [`${kind}_url`]: url }),
    param: (source, kind) => `input[0].content[1].${source === 'file' ? 'file_id' : `${kind}_url`}`,
  },
  messages: {
    file: (file_id, kind) => ({ type: kind === 'image' ? 'image' : 'document', source: { type: 'file', file_id } }),
    url: (url, kind) => ({ type: kind === 'image' ? 'image' : 'document', source: { type: 'url', url } }),
    param: (source) => `messages[0].content[1].source.${source === 'file' ? 'file_id' : 'url'}`,
  },
  generateContent: {
    file: (id) => ({ fileData: { fileUri: id } }),
    url: (fileUri, kind) => ({ fileData: { fileUri, mimeType: kind === 'image' ? 'image/png' : 'application/pdf' } }),
    param: () => 'contents[0].parts[1].fileData.fileUri',
  },
}

export function send(
  part: object,
  { protocol, model, key, at = gateway, stream = false }: Destination,
): Promise<Response> {
  const content = [{ type: 'text', text: 'Look' }, part]
  const [path, body] = {
    'chat.completions': ['/v1/chat/completions', { model, stream, messages: [{ role: 'user', content }] }],
    responses: [
      '/v1/responses',
      { model, stream, store: false, input: [{ role: 'user', content: [{ type: 'input_text', text: 'Look' }, part] }] },
    ],
    messages: ['/v1/messages', { model, stream, max_tokens: 10, messages: [{ role: 'user', content }] }],
    generateContent: [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text: 'Look' }, part] }] },
    ],
  }[protocol] as [string, object]
  // A number that a double cannot represent, to check that only the part is rewritten.
  const text = JSON.stringify({ ...body, zz_unknown: 'BIG' }).replace('"BIG"', '12345678901234567890.10')
  return fetch(at.url + path, { method: 'POST', headers: { authorization: `Bearer ${key ?? at.key}` }, body: text })
}

/** The last request that the provider received. */
export const received = (): { text: string; body: unknown } => {
  const request = provider.requests.at(-1)!
  const text = Buffer.from(request.slice(request.indexOf('\r\n\r\n') + 4), 'latin1').toString()
  return { text, body: JSON.parse(text) as unknown }
}

/**
 * The media anywhere in a body of any protocol, as `type bytes`, and texts other than the prompt, as `text: ...`.
 */
export function mediaIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(mediaIn)
  if (typeof value === 'string') return /^data:/.test(value) ? [value.replace(/^data:([^;]+);base64,/, '$1 ')] : []
  if (typeof value !== 'object' || value === null) return []
  const { mimeType, media_type: type, data, text } = value as Record<string, unknown>
  if (typeof data === 'string')
    return [(value as { type?: string }).type === 'text' ? `text: ${data}` : `${mimeType ?? type} ${data}`]
  return [
    ...(typeof text === 'string' && text !== 'Look' ? [`text: ${text}`] : []),
    ...Object.values(value).flatMap(mediaIn),
  ]
}

export const inline = (type: string, bytes: Buffer): string => `${type} ${bytes.toString('base64')}`
export const refusal = async (response: Response): Promise<{ status: number; message: string; param: string }> => {
  const { error } = (await response.json()) as {
    error: { message: string; param?: string; details?: { fieldViolations?: { field: string }[] }[] }
  }
  const param =
    error.param ??
    error.details?.find(({ fieldViolations }) => fieldViolations !== undefined)?.fieldViolations?.[0]?.field
  return {
    status: response.status,
    message: error.message,
    param: param ?? error.message.slice(0, error.message.indexOf(':')),
  }
}

/** The refusal of a request that no provider may see. */
export const never = async (
  path: string,
  text: string,
): Promise<{ status: number; param: string; message: string }> => {
  const before = provider.requests.length
  const answer = await refusal(
    await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}` },
      body: text,
    }),
  )
  expect(provider.requests.length).toBe(before)
  return answer
}
