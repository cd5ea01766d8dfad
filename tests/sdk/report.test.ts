import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import type { ToolSpec } from './client.ts'
import { CLIENTS } from './clients.ts'

/** Every SDK ignores the translation report in the body, which a proxy in front of the gateway requests. */

let gateway: Gateway
let proxy: ReturnType<typeof Bun.serve>
const reports: number[] = []

beforeAll(async () => {
  gateway = await startGateway()
  proxy = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const headers = new Headers(request.headers)
      headers.set('x-sluice-report', 'body')
      headers.delete('accept-encoding')
      const response = await fetch(gateway.url + pathname + search, {
        method: request.method,
        headers,
        body: await request.text(),
      })
      const text = await response.text()
      reports.push(text.split('"sluice":{"translation":[').length - 1)
      return new Response(text, {
        status: response.status,
        headers: { 'content-type': response.headers.get('content-type')! },
      })
    },
  })
})
afterAll(async () => {
  await proxy?.stop(true)
  await gateway?.stop()
})

const MODELS = {
  chat: 'chat.completions',
  responses: 'responses',
  messages: 'messages',
  gemini: 'generateContent',
} as const
const TIME: ToolSpec = {
  name: 'get_time',
  description: 'Time in a zone',
  schema: { type: 'object', properties: { zone: { type: 'string' } }, required: ['zone'], additionalProperties: false },
}

for (const client of CLIENTS)
  for (const [model, protocol] of Object.entries(MODELS))
    if (protocol !== client.protocol) {
      describe(`${client.name} on sandbox/${model}`, () => {
        test.each([false, true])(
          'the SDK reads the same answer with the report as without it, streamed: %p',
          async (stream) => {
            const record = async (url: string): Promise<unknown[]> => {
              const session = client.open(
                { url, key: gateway.key, model: `sandbox/${model}` },
                { stream, tools: [TIME], maxTokens: 200 },
              )
              const first = await session.send(
                '[[reply: Looking.]] [[call: get_time {"zone":"UTC"}]] [[usage: in=10 out=20 cached=5]]',
              )
              const last = await session.sendResults([{ call: first.calls[0]!, output: 'noon' }])
              return [first, last].map(({ text, finish, usage, calls, reasoning }) => ({
                text,
                finish,
                usage,
                reasoning,
                calls: calls.map(({ name, input }) => ({ name, input })),
              }))
            }
            const usual = await record(gateway.url)
            reports.length = 0
            expect(await record(`http://127.0.0.1:${proxy.port}`)).toEqual(usual)
            expect(reports).toEqual([1, 1])
          },
        )
      })
    }
