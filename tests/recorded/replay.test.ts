import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { ProtocolName } from '../../src/generation/request.ts'
import { startGateway, type Gateway } from '../server.ts'
import { haveRecordings, recordings, type Recording } from './recordings.ts'

/** Every recorded exchange, served by a replay upstream and fetched through a running Sluice in its own protocol, comes back whole. */

const all = recordings()
const byName = new Map(all.map((recording, index) => [`r${index}`, recording]))
let gateway: Gateway
let upstream: ReturnType<typeof Bun.serve>
/** How the upstream cuts its bytes: in one piece, or into pieces of this many. */
let piece = Infinity

function replay(recording: Recording): Response {
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

beforeAll(async () => {
  if (!haveRecordings) return
  upstream = Bun.serve({
    port: 0, hostname: '127.0.0.1', idleTimeout: 0,
    fetch: async (request) => {
      const { pathname } = new URL(request.url)
      const name = /models\/([^:]+):/.exec(pathname)?.[1] ?? ((await request.json()) as { model: string }).model
      return replay(byName.get(name)!)
    },
  })
  const providers = Object.entries(PREFIX).map(([protocol, id]) => `  ${id}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${upstream.port}/v1", apiKey: none, unlisted: true }\n`)
  gateway = await startGateway({ config: `limits: { requestsPerMinute: 1000000 }\nproviders:\n${providers.join('')}` })
})

afterAll(async () => {
  await gateway?.stop()
  await upstream?.stop(true)
})

const PREFIX: Record<ProtocolName, string> = { 'chat.completions': 'up-chat', responses: 'up-responses', messages: 'up-messages', generateContent: 'up-gemini' }

const MINIMAL: Record<ProtocolName, Record<string, unknown>> = {
  'chat.completions': { messages: [{ role: 'user', content: 'Hello' }] },
  responses: { input: 'Hello' },
  messages: { max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] },
  generateContent: { contents: [{ parts: [{ text: 'Hello' }] }] },
}

function ask(name: string, recording: Recording): Promise<Response> {
  const { protocol, stream } = recording
  const model = `${PREFIX[protocol]}/${name}`
  const recorded = recording.status === 200 ? recording.request() : undefined
  const usable = recorded === undefined || needsStateOfItsProvider(recorded) ? MINIMAL[protocol] : recorded
  const body = { ...usable, ...(protocol === 'generateContent' ? {} : { model, stream }), ...(protocol === 'chat.completions' && stream ? { stream_options: { include_usage: true } } : {}) }
  const path = {
    'chat.completions': '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[protocol]
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${gateway.key}` }, body: JSON.stringify(body) })
}

/** Ids that only the recorded provider knew: Sluice answers them with its own 404. */
const needsStateOfItsProvider = (body: Record<string, unknown>): boolean => body.previous_response_id != null

/** Frames of a stream as JSON values, by rules of its own so that the project's splitter is not tested against itself. */
function framesOf(text: string): unknown[] {
  return text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n').split('\n\n').flatMap((block) => {
    const lines = block.split('\n')
    const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, '')).join('\n')
    const event = lines.find((line) => line.startsWith('event:'))?.slice(6).trim()
    if (data === '') return block.trim().startsWith('{') ? [{ bare: parse(block) }] : []
    return [{ ...(event === undefined ? {} : { event }), data: parse(data) }]
  })
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Ids and model names are Sluice's own. */
const OURS = new Set(['id', 'model', 'responseId', 'modelVersion'])

function withoutLabels(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((element) => withoutLabels(element, depth + 1))
  const out: Record<string, unknown> = {}
  for (const [key, member] of Object.entries(value)) {
    if (depth <= 3 && OURS.has(key) && typeof member === 'string' && !/^(call_|toolu_|fc_|msg_0|rs_|ws_|srvtoolu_)/.test(member)) continue
    out[key] = withoutLabels(member, key === 'message' || key === 'response' || key === 'data' ? depth : depth + 1)
  }
  return out
}

for (const protocol of Object.keys(PREFIX) as ProtocolName[]) {
  describe.skipIf(!haveRecordings)(`replay of ${protocol}`, () => {
    for (const [name, recording] of byName) {
      if (recording.protocol !== protocol) continue
      for (const size of recording.stream ? [Infinity, 7, 1013] : [Infinity]) {
        test(`${recording.id}${size === Infinity ? '' : ` in pieces of ${size}`}`, async () => {
          piece = recording.response().length / size > 3000 ? 1013 : size
          const response = await ask(name, recording)
          const heard = await response.text()
          const recorded = new TextDecoder().decode(recording.response())
          expect(response.status, heard.slice(0, 500)).toBe(recording.status === 422 ? 400 : recording.status)
          if (!recording.stream || recording.status !== 200) return expect(withoutLabels(parse(heard))).toEqual(withoutLabels(parse(recorded)))
          expect(withoutLabels(framesOf(heard))).toEqual(withoutLabels(framesOf(recorded)))
        })
      }
    }
  })
}
