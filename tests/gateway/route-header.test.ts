import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { CLIENTS, requestIn, send, startUpstreams } from './route-upstreams.ts'

/** The header that says how the endpoint of a request was chosen. */

let failing: ReadonlySet<string> = new Set()
let garbled = false
const upstreams = startUpstreams(({ provider }) => {
  if (garbled) return new Response('<html>', { headers: { 'content-type': 'text/html' } })
  return failing.has(provider) ? Response.json({ error: { message: 'down' } }, { status: 503 }) : undefined
})
let gateway: Gateway
beforeAll(async () => {
  const provider = (id: string, rest = ''): string =>
    `  ${id}: { protocol: chat.completions, baseUrl: "${upstreams.url}/${id}"${rest} }\n`
  gateway = await startGateway({
    config:
      `billing: { unpriced: free }\nproviders:\n${provider('one', ', apiKeys: [{ name: k, key: secret }]')}` +
      `${provider('two')}${provider('three')}` +
      'models:\n  many: { endpoints: [{ provider: one, model: a }, { provider: two, model: b }, ' +
      '{ provider: three, model: c }] }\n  single: { endpoints: [{ provider: two, model: b }] }\n' +
      '  limited: { endpoints: [{ provider: three, model: d, limits: { requestsPerMinute: 1 } }] }\n',
  })
})
afterAll(async () => {
  await gateway?.stop()
  await upstreams.stop()
})
beforeEach(() => {
  failing = new Set()
  garbled = false
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

for (const client of CLIENTS)
  for (const stream of [false, true])
    test(`${client}${stream ? ', streamed' : ''}: an answer that cannot be read is a failed attempt`, async () => {
      garbled = true
      const { path, body } = requestIn(client, 'single', { stream })
      const { status, headers } = await send(gateway, path, body, REPORTED)
      const names = ['x-sluice-provider', 'x-sluice-attempts', 'x-sluice-route']
      expect(names.map((name) => headers.get(name))).toEqual(['two', '1', 'two;upstream_error'])
      // A client of the provider's protocol gets the error in the stream.
      expect(status).toBe(stream && client === 'chat.completions' ? 200 : 502)
      const record = await fetch(`${gateway.url}/v1/management/requests/${headers.get('x-request-id')}`, {
        headers: { authorization: `Bearer ${gateway.createdKeys.management}` },
      })
      expect(await record.json()).toMatchObject({
        error: { code: 'upstream_error' },
        attempts: [{ provider: 'two', error: { code: 'upstream_error' } }],
      })
    })

test('a request that no endpoint can take now gets the reason of each', async () => {
  expect(await routeOf('limited', REPORTED)).toBe('three;order')
  expect(await routeOf('limited', REPORTED)).toBe('three;recovers first (limit)')
})
