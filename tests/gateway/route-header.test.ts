import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CLIENTS, requestIn, send, startUpstreams } from './route-upstreams.ts'

/** The header that says how the endpoint of a request was chosen. */

let failing: ReadonlySet<string> = new Set()
const upstreams = startUpstreams(({ provider }) =>
  failing.has(provider) ? Response.json({ error: { message: 'down' } }, { status: 503 }) : undefined,
)
let gateway: Gateway
beforeAll(async () => {
  const provider = (id: string, rest = ''): string =>
    `  ${id}: { protocol: chat.completions, baseUrl: "${upstreams.url}/${id}"${rest} }\n`
  gateway = await startGateway({
    config:
      `billing: { unpriced: free }\nproviders:\n${provider('one', ', apiKeys: [{ name: k, key: secret }]')}` +
      `${provider('two')}${provider('three')}` +
      'models:\n  many: { endpoints: [{ provider: one, model: a }, { provider: two, model: b }, ' +
      '{ provider: three, model: c }] }\n  single: { endpoints: [{ provider: two, model: b }] }\n',
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstreams.stop()
})
beforeEach(() => {
  failing = new Set()
})

const routeOf = async (
  model: string,
  headers: Record<string, string>,
  client: (typeof CLIENTS)[number] = 'chat.completions',
  stream = false,
): Promise<string | null> => {
  const { path, body } = requestIn(client, model, { stream })
  const answer = await send(gateway, path, body, headers)
  await answer.text()
  return answer.headers.get('x-sluice-route')
}
const REPORTED = { 'x-sluice-report': 'headers' }

for (const client of CLIENTS)
  for (const stream of [false, true])
    test(`${client}${stream ? ', streamed' : ''}: a client that asks gets endpoint and reasons`, async () => {
      expect(await routeOf('many', {}, client, stream)).toBeNull()
      expect(await routeOf('many', { ...REPORTED, 'x-sluice-provider-ignore': 'three' }, client, stream)).toBe(
        'one/k;order, two;not tried, three;among ignore',
      )
      expect(await routeOf('single', REPORTED, client, stream)).toBe('two;only endpoint')
    })

test('an endpoint that failed is named with the code of its failure', async () => {
  failing = new Set(['one'])
  expect(await routeOf('many', { ...REPORTED, 'x-sluice-provider-ignore': 'three' })).toBe(
    'two;order, one/k;overloaded, three;among ignore',
  )
  failing = new Set(['two'])
  expect(await routeOf('single', { 'x-sluice-report': 'body' })).toMatch(/^two;overloaded/)
})
