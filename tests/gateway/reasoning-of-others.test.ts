import { afterAll, beforeAll, expect, test } from 'bun:test'
import { wrapSignature } from '../../src/generation/signature.ts'
import { startGateway, type Gateway } from '../server.ts'

/** Reasoning of another model on the client's own protocol: reported, and refused where the request is strict. */

const received: { path: string; body: any }[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    received.push({ path: new URL(request.url).pathname, body: await request.json() })
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    return Response.json({ id: 'r', object: 'response', status: 'completed', output: [], usage })
  },
})

let gateway: Gateway
beforeAll(async () => {
  const providerOf = (id: string): string =>
    `  ${id}: { protocol: responses, baseUrl: "http://127.0.0.1:${provider.port}/${id}" }`
  gateway = await startGateway({
    config: `providers:
${providerOf('first')}
${providerOf('second')}
models:
  alone: { endpoints: [{ provider: first, model: m }] }
  both: { endpoints: [{ provider: first, model: m }, { provider: second, model: m }] }
`,
  })
})
afterAll(async () => {
  await gateway?.stop()
  await provider.stop(true)
})

/** A conversation with reasoning that the second provider signed. */
async function ask(model: string, strict: boolean, text = 'q'): Promise<{ response: Response; sent: string[] }> {
  received.length = 0
  const encrypted_content = wrapSignature('s', { provider: 'second', model: 'm' })
  const input = [
    { role: 'user', content: text },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content },
    { role: 'assistant', content: 'a' },
    { role: 'user', content: 'n' },
  ]
  const response = await fetch(`${gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'x-sluice-strict': String(strict) },
    body: JSON.stringify({ model, input, store: false }),
  })
  const signatures = received.map(({ path, body }) => `${path} ${body.input[1].encrypted_content}`)
  return { response, sent: signatures }
}

const LOSS = [
  {
    code: 'reasoning_dropped',
    path: 'input[1]',
    effect: 'dropped',
    reason: 'only the model that issued it accepts earlier reasoning',
  },
]

test.each(['q', 'long '.repeat(300_000)])(
  'reasoning that an endpoint refuses is reported in the header',
  async (text) => {
    const { response, sent } = await ask('alone', false, text)
    expect(sent).toEqual(['/first/responses undefined'])
    expect(JSON.parse(response.headers.get('x-sluice-translation')!)).toEqual(LOSS)
  },
)

test('a strict request goes to the endpoint that issued the reasoning', async () => {
  const { response, sent } = await ask('both', true)
  expect([response.status, response.headers.get('x-sluice-translation'), sent]).toEqual([
    200,
    null,
    ['/second/responses s'],
  ])
})

test('a strict request without such an endpoint is refused with the path of the reasoning', async () => {
  const { response, sent } = await ask('alone', true)
  const { error } = (await response.json()) as any
  expect([response.status, error.param, error.metadata.translation, sent]).toEqual([
    400,
    'input[1]',
    [{ provider: 'first', ...LOSS[0] }],
    [],
  ])
})
