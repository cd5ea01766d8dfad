import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { startGateway, type Gateway } from '../server.ts'
import type { Recording } from './recordings.ts'

/** A provider that responds with recordings, and a gateway in front of it. The model name selects the recording. */
export type Replay = { gateway: Gateway; send(name: string): Promise<Response>; stop(): Promise<void> }

export const PREFIX: Record<ConversationName, string> = {
  'chat.completions': 'up-chat',
  responses: 'up-responses',
  messages: 'up-messages',
  generateContent: 'up-gemini',
}

const MINIMAL: Record<ConversationName, Record<string, unknown>> = {
  'chat.completions': { messages: [{ role: 'user', content: 'Hello' }] },
  responses: { input: 'Hello' },
  messages: { max_tokens: 64_000, messages: [{ role: 'user', content: 'Hello' }] },
  generateContent: { contents: [{ parts: [{ text: 'Hello' }] }] },
}

/** `piece`: number of bytes of each piece of a stream; Infinity for one piece. */
export async function startReplay(byName: ReadonlyMap<string, Recording>, piece: () => number): Promise<Replay> {
  const upstream = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      // Sluice polls a background response, of which nothing more is recorded.
      if (request.method !== 'POST') return new Response(null, { status: 503 })
      const { pathname } = new URL(request.url)
      const name = /models\/([^:]+):/.exec(pathname)?.[1] ?? ((await request.json()) as { model: string }).model
      return responseOf(byName.get(name)!, piece())
    },
  })
  const providers = Object.entries(PREFIX).map(
    ([protocol, id]) =>
      `  ${id}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", ` +
      'apiKey: none, unlisted: true, sharedIds: true, fetches: [image, file, audio, video], ' +
      'buckets: ["gs://pydantic-ai-test-files-vertex"] }\n',
  )
  const gateway = await startGateway({
    config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}`,
  })
  return {
    gateway,
    send: (name) => sendRequest(gateway, name, byName.get(name)!),
    stop: async () => {
      await gateway.stop()
      await upstream.stop(true)
    },
  }
}

function responseOf(recording: Recording, piece: number): Response {
  const bytes = recording.response()
  const headers = { 'content-type': recording.contentType }
  if (piece === Infinity || !recording.stream) return new Response(bytes, { status: recording.status, headers })
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, (at += piece)))
      await Bun.sleep(0)
    },
  })
  return new Response(body, { status: recording.status, headers })
}

/** Sends the recorded request if it is usable, otherwise a minimal one. */
function sendRequest(gateway: Gateway, name: string, recording: Recording): Promise<Response> {
  const { protocol, stream } = recording
  const model = `${PREFIX[protocol]}/${name}`
  const recorded = recording.status === 200 ? recording.request() : undefined
  const usable = recorded === undefined || isRefused(recorded, protocol) ? MINIMAL[protocol] : recorded
  const body = {
    ...usable,
    ...(protocol === 'generateContent' ? {} : { model, stream }),
    ...(protocol === 'chat.completions' && stream ? { stream_options: { include_usage: true } } : {}),
  }
  const path = {
    'chat.completions': '/v1/chat/completions',
    responses: '/v1/responses',
    messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[protocol]
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify(body),
  })
}

/** Requests that Sluice refuses: ids that only the recorded provider knew, several choices. */
const isRefused = (body: Record<string, unknown>, protocol: ConversationName): boolean =>
  body.previous_response_id != null || (typeof body.n === 'number' && body.n > 1) || refersToFiles(body, protocol)

function refersToFiles(body: Record<string, unknown>, protocol: ConversationName): boolean {
  try {
    return protocols[protocol].serve.references!(body).some(({ source }) => source.type === 'file')
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return true
    throw error
  }
}
