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
  const usable = recorded === undefined || isRefused(recorded) ? MINIMAL[protocol] : recorded
  const body = { ...usable, ...(protocol === 'generateContent' ? {} : { model, stream }), ...(protocol === 'chat.completions' && stream ? { stream_options: { include_usage: true } } : {}) }
  const path = {
    'chat.completions': '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages',
    generateContent: `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  }[protocol]
  return fetch(gateway.url + path, { method: 'POST', headers: { authorization: `Bearer ${gateway.key}` }, body: JSON.stringify(body) })
}

/** What the specification refuses: ids that only the recorded provider knew, several choices. */
const isRefused = (body: Record<string, unknown>): boolean => body.previous_response_id != null || (typeof body.n === 'number' && body.n > 1)

/** Recordings that are not one answer in full: what is expected instead of equality. */
const PECULIAR: Record<string, 'cut' | 'several answers' | 'ids rotate' | 'holds a credential'> = {
  'composite__connection-cut-test-sync-chat-completions-str': 'cut',
  'responses lingua__multimodalRequest-followup-response-streaming': 'cut',
  'firebase-mock__vertexai-streaming-failure-invalid-json': 'cut',
  'firebase-mock__vertexai-streaming-failure-malformed-content': 'cut',
  'vercel-ai__azure-azure-reasoning-encrypted-content.1': 'several answers',
  'vercel-ai__anthropic-anthropic-programmatic-tool-calling.1': 'several answers',
  'vercel-ai__openai-github-copilot-id-rotation.1': 'ids rotate',
  'firebase-mock__vertexai-streaming-failure-api-key': 'holds a credential',
  'firebase-mock__vertexai-unary-failure-api-key': 'holds a credential',
}

function compareStreams(recording: Recording, heard: unknown[], recorded: unknown[]): void {
  switch (PECULIAR[recording.id] ?? PECULIAR[`${recording.protocol} ${recording.id}`]) {
    case 'cut': {
      const whole = recorded.filter((frame) => typeof (frame as { data: unknown }).data === 'object')
      expect(heard.slice(0, whole.length)).toEqual(whole)
      return expect(JSON.stringify(heard.slice(whole.length))).toContain('error')
    }
    // The first answer counts; what a provider says after its terminal event is not passed on.
    case 'several answers': return expect(heard).toEqual(recorded.slice(0, heard.length))
    case 'ids rotate': return expect(withoutItemIds(heard)).toEqual(withoutItemIds(recorded))
    default: expect(heard).toEqual(recorded)
  }
}

const withoutItemIds = (value: unknown): unknown => JSON.parse(JSON.stringify(value, (key, member: unknown) => (key === 'item_id' || key === 'id' ? undefined : member)))

const hidden = (text: string): string => text.replaceAll(/AIz[\w-]{20,}/g, '[hidden]')

/** Frames of a stream as JSON values, by rules of its own so that the project's splitter is not tested against itself. */
function framesOf(text: string): unknown[] {
  return text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n').split('\n\n').flatMap((block): unknown[] => {
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

/** What is Sluice's own in an answer: id and model, and for responses whether and after what it is stored. */
const OURS: Record<ProtocolName, string[]> = {
  'chat.completions': ['id', 'model'],
  responses: ['id', 'model', 'store', 'previous_response_id'],
  messages: ['id', 'model'],
  generateContent: ['responseId', 'modelVersion'],
}

/** The members that hold a whole answer inside a frame. */
const WRAPPERS = ['data', 'response', 'message']

function withoutLabels(value: unknown, protocol: ProtocolName): unknown {
  if (Array.isArray(value)) return value.map((element) => withoutLabels(element, protocol))
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? value.trim() : value
  const out = Object.fromEntries(Object.entries(value).filter(([key]) => !OURS[protocol].includes(key)))
  for (const key of WRAPPERS) if (key in out) out[key] = withoutLabels(out[key], protocol)
  return out
}

/** A sentinel that says nothing: some providers leave it out, and Sluice puts it. */
const spoken = (frames: unknown[]): unknown[] => frames.filter((frame) => String((frame as { data?: unknown }).data).trim() !== '[DONE]')

for (const protocol of Object.keys(PREFIX) as ProtocolName[]) {
  describe.skipIf(!haveRecordings)(`replay of ${protocol}`, () => {
    for (const [name, recording] of byName) {
      if (recording.protocol !== protocol) continue
      for (const size of recording.stream ? [Infinity, 7, 1013] : [Infinity]) {
        test(`${recording.id}${size === Infinity ? '' : ` in pieces of ${size}`}`, async () => {
          piece = recording.response().length / size > 3000 ? 1013 : size
          const response = await ask(name, recording)
          const heard = await response.text()
          const bytes = new TextDecoder().decode(recording.response())
          const recorded = PECULIAR[recording.id] === 'holds a credential' ? hidden(bytes) : bytes
          expect(response.status, heard.slice(0, 500)).toBe(recording.status === 422 ? 400 : recording.status)
          if (!recording.stream || recording.status !== 200) return expect(withoutLabels(parse(heard), protocol)).toEqual(withoutLabels(parse(recorded), protocol))
          compareStreams(recording, withoutLabels(spoken(framesOf(heard)), protocol) as unknown[], withoutLabels(spoken(framesOf(recorded)), protocol) as unknown[])
        })
      }
    }
  })
}
