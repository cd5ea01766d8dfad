import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Refusals of a provider with chat completions, which name a path in the request that it received. */

const REFUSAL = { message: 'Invalid image.', type: 'invalid_request_error', param: 'messages[1].content', code: null }

let provider: Bun.Server<undefined>
let gateway: Gateway
beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => Response.json({ error: REFUSAL }, { status: 400 }),
  })
  const baseUrl = `"http://127.0.0.1:${provider.port}/v1"`
  const config = `providers:\n  up: { protocol: chat.completions, baseUrl: ${baseUrl}, apiKey: none, unlisted: true }\n`
  gateway = await startGateway({ config })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

test.each([
  ['of its protocol gets it as it is', 'chat/completions', { messages: [{ role: 'user', content: 'hi' }] }, REFUSAL],
  [
    'of another protocol gets it without the path',
    'responses',
    { input: 'hi' },
    { message: REFUSAL.message, param: null },
  ],
])('a client %s', async (_, path, body, error) => {
  const response = await fetch(`${gateway.url}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'up/m', ...body }),
  })
  expect([response.status, ((await response.json()) as { error: object }).error]).toMatchObject([400, error])
})
