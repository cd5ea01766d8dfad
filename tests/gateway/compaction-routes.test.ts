import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** `POST /v1/responses/compact` at providers of the responses API that have no such route. */

const ANSWERS: Record<string, () => Response> = {
  full: () =>
    Response.json({
      id: 'r',
      object: 'response.compaction',
      created_at: 1,
      output: [{ id: 'cmp_1', type: 'compaction', encrypted_content: 'gAAA' }],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    }),
  'not-found': () => Response.json({ detail: 'Not Found' }, { status: 404 }),
  'no-page': () => new Response('404 page not found', { status: 404 }),
  'no-method': () => Response.json({ detail: 'Method Not Allowed' }, { status: 405 }),
  'no-model': () => Response.json({ error: { message: "The model 'm' does not exist" } }, { status: 404 }),
  'no-item': () => Response.json({ error: { message: "Item 'rs_1' not found", param: 'input' } }, { status: 404 }),
  failing: () => Response.json({ error: { message: 'Out of order' } }, { status: 500 }),
}

/** The first member of each path is the name of the answer. */
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: ({ url }) => ANSWERS[new URL(url).pathname.split('/')[1]!]!(),
})

const LACKING = ['not-found', 'no-page', 'no-method']
const names = Object.keys(ANSWERS)
const model = (name: string, ...endpoints: string[]): string =>
  `  ${name}: { endpoints: [${endpoints.map((one) => `{ provider: ${one}, model: m }`).join()}] }`

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({
    config: `providers:
${names
  .map((name) => `  ${name}: { protocol: responses, baseUrl: "http://127.0.0.1:${provider.port}/${name}/v1" }`)
  .join('\n')}
models:
${names.map((name) => `  ${name}/m: { price: { prompt: 1, completion: 1 } }`).join('\n')}
${LACKING.map((name) => model(`${name}-and-full`, name, 'full')).join('\n')}
${model('lacking', ...LACKING)}
${model('failing-and-lacking', 'failing', 'not-found')}
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

type Answer = { status: number; provider: string | null; body: any }

async function post(path: string, name: string): Promise<Answer> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({ model: name, input: 'Hi' }),
  })
  return { status: response.status, provider: response.headers.get('x-sluice-provider'), body: await response.json() }
}
const compact = (name: string): Promise<Answer> => post('/v1/responses/compact', name)

describe('a compaction', () => {
  test.each(LACKING)('goes on to the next endpoint where a provider has no route for it: %s', async (name) => {
    const { status, provider: served, body } = await compact(`${name}-and-full`)
    expect([status, served, body.object]).toEqual([200, 'full', 'response.compaction'])
  })

  test.each([...LACKING.map((name) => `${name}/m`), 'lacking'])(
    'is a 400 that says what works instead where no provider has a route for it: %s',
    async (name) => {
      const { status, body } = await compact(name)
      expect(status).toBe(400)
      expect(body.error).toMatchObject({
        message: expect.stringContaining(`no provider of '${name}' compacts conversations`),
        type: 'invalid_request_error',
        param: 'model',
        code: 'unsupported_parameter',
        metadata: { status: name === 'no-method/m' || name === 'lacking' ? 405 : 404 },
      })
    },
  )

  test.each([
    ['no-model/m', "The model 'm' does not exist"],
    ['no-item/m', "Item 'rs_1' not found"],
  ])('has the own error of a provider that finds something else missing: %s', async (name, message) => {
    const { status, body } = await compact(name)
    expect([status, body.error.message]).toEqual([404, message])
  })

  test('has the error of the provider that failed where another one has no route for it', async () => {
    const { status, provider: failed, body } = await compact('failing-and-lacking')
    expect([status, failed, body.error.message]).toEqual([500, 'failing', 'Out of order'])
  })
})

test('a 404 of any other request is the error of the provider', async () => {
  const { status, body } = await post('/v1/responses', 'not-found/m')
  expect([status, body]).toEqual([404, { detail: 'Not Found' }])
})
