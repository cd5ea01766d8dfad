import { afterAll, beforeAll, expect } from 'bun:test'
import type { BodiesAnswer, BodyAnswer } from '../../src/endpoints/management/answers.ts'
import type { RequestDetailAnswer } from '../../src/endpoints/management/answers.ts'
import { startGateway, type Gateway } from '../server.ts'
import { type Browser, ownerOf } from './browser.ts'

/** A gateway that captures bodies, with a provider that repeats its credential. */

export const MARK = 'marigold-4711'
export const CREDENTIAL = 'the provider credential'.replaceAll(' ', '_')
export let gateway: Gateway
export let owner: Browser
/** A provider that repeats the credential that it was sent; in a stream, slowly. */
export let provider: ReturnType<typeof Bun.serve>

/** Starts both for the tests of a file. */
export function useCapture(): void {
  beforeAll(async () => {
    provider = Bun.serve({
      port: 0,
      fetch: async (request) => {
        const { headers } = request
        if (((await request.json()) as { stream?: boolean }).stream === true) return slowStream()
        const message = { role: 'assistant', content: headers.get('authorization') }
        return Response.json({ id: 'x', choices: [{ index: 0, message, finish_reason: 'stop' }] })
      },
    })
    gateway = await startGateway({
      config: `
capture: { most: all, bytes: 4KiB, redact: [emails, phones, cards] }
limits: { requestsPerMinute: 100000 }
providers:
  up:
    { protocol: chat.completions, baseUrl: 'http://127.0.0.1:${provider.port}', apiKey: ${CREDENTIAL}, unlisted: true }
`,
    })
    owner = await ownerOf(gateway)
  }, 60_000)
  afterAll(async () => {
    await gateway?.stop()
    await provider?.stop(true)
  })
}

export const FRAMES = ['one', 'two', 'three'].map(
  (content) => `data: {"id":"x","choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]}\n\n`,
)
export const LAST_FRAMES = ['{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', '[DONE]']
  .map((data) => `data: ${data}\n\n`)
  .join('')

const slowStream = (): Response =>
  new Response(
    (async function* () {
      for (const frame of [...FRAMES, LAST_FRAMES]) {
        yield frame
        await Bun.sleep(20)
      }
    })(),
    { headers: { 'content-type': 'text/event-stream' } },
  )

type Sent = { id: string; status: number; text: string }
export type Sending = { key?: string; path?: string; headers?: Record<string, string>; body?: object; of?: Gateway }

export async function send(prompt: string, { key, path, headers, body, of = gateway }: Sending = {}): Promise<Sent> {
  const response = await fetch(of.url + (path ?? '/v1/chat/completions'), {
    method: 'POST',
    headers: { authorization: `Bearer ${key ?? of.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'sandbox/chat', messages: [{ role: 'user', content: prompt }], ...body }),
  })
  const text = await response.text()
  const id = response.headers.get('x-request-id')!.replace('req_', '')
  return { id, status: response.status, text }
}

/** A new key whose bodies are captured. */
export async function keyWith(capture: object | null, browser = owner): Promise<{ id: string; text: string }> {
  const { json, status } = await browser.post<{ id: string; text: string }>('/keys', { kind: 'pay-as-you-go', capture })
  expect(status).toBe(201)
  return json
}

/** The bodies of a request, once they are written: that happens after the last byte. */
export async function bodiesOf(id: string, browser = owner): Promise<Record<string, BodyAnswer>> {
  for (let looks = 0; looks < 300; looks++) {
    const { status, json } = await browser.get<BodiesAnswer>(`/requests/${id}/bodies`)
    if (status === 200) return Object.fromEntries(json.parts.map((part) => [part.name, part]))
    await Bun.sleep(20)
  }
  throw new Error(`no bodies of ${id}`)
}

export const detailOf = async (id: string): Promise<RequestDetailAnswer> =>
  (await owner.get<RequestDetailAnswer>(`/requests/${id}`)).json

export const ALL = { mode: 'all' }
