import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { ask, failureOf, PROTOCOLS } from './asking.ts'
import { RESPONSE_PIECES } from './scripted.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { storeOf } from '../stores.ts'

/** Classes of service with prices of their own, at a running gateway. */

const COUNTED = { prompt: 1_000, completion: 1_000 }
/** The bodies that the provider got, and the class that it reports. */
const upstream = { bodies: [] as Record<string, unknown>[], served: undefined as string | undefined }

const withClass = (body: object, member: string): object =>
  upstream.served === undefined ? body : { ...body, [member]: upstream.served }

const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const protocol = (
      {
        '/v1/chat/completions': 'chat.completions',
        '/v1/responses': 'responses',
        '/v1/messages': 'messages',
        '/v1/models/m:generateContent': 'generateContent',
      } as Record<string, ConversationName>
    )[pathname]!
    upstream.bodies.push((await request.json()) as Record<string, unknown>)
    const whole = RESPONSE_PIECES[protocol].whole(COUNTED) as { usage: object; usageMetadata: object }
    return Response.json(
      protocol === 'messages'
        ? { ...whole, usage: withClass(whole.usage, 'service_tier') }
        : protocol === 'generateContent'
          ? { ...whole, usageMetadata: withClass(whole.usageMetadata, 'serviceTier') }
          : withClass(whole, 'service_tier'),
    )
  },
})
const nameOf = (protocol: ConversationName): string => protocol.toLowerCase().replace('.', '-')
const models = PROTOCOLS.map((protocol) => {
  const name = nameOf(protocol)
  return {
    provider: `  ${name}: { protocol: ${protocol}, baseUrl: "http://127.0.0.1:${provider.port}/v1" }`,
    model: `  ${name}/m:
    price: { prompt: 1, completion: 2 }
    classes: { service_tier=priority: 2, service_tier=flex: 0.5 }`,
  }
})

const OTHER = 'sk-ai-v1-0123456789abcdef0123456789abcdef'

const configOf = (more: string): string => `billing: { delay: 0s }
providers:
${models.map((one) => one.provider).join('\n')}
models:
${models.map((one) => one.model).join('\n')}
  free: { endpoints: [{ provider: chat-completions, model: m }], price: { prompt: 0, completion: 0 } }
${more}
`

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway({ config: configOf(`keys: [{ key: ${OTHER}, account: other }]`) })
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop(true)
})

/** 1,000 prompt and 1,000 completion tokens in nano-USD. */
const PLAIN = 3_000_000n

const lastRecord = async (): Promise<{ bill: bigint; version: string | undefined; held: bigint }> => {
  const store = await storeOf(gateway)
  try {
    const records = await store.ledger.generations(undefined, 1_000)
    const { bill, price, held } = records.toSorted((a, b) => a.createdAt - b.createdAt).at(-1)!
    return { bill, version: price?.version, held }
  } finally {
    await store.close()
  }
}

const send = (protocol: ConversationName, model: string, more: object): Promise<Response> =>
  ask({ url: gateway.url, key: gateway.key, protocol, model, stream: false, limit: 1_000, more })

const SAME = PROTOCOLS.filter((protocol) => protocol !== 'generateContent')

test.each(SAME)('a class of %s is held and billed at its price, and as it was served', async (protocol) => {
  const model = `${nameOf(protocol)}/m`
  const cases: [requested: string | undefined, served: string | undefined, halves: bigint][] = [
    [undefined, undefined, 2n],
    ['priority', undefined, 4n],
    ['priority', 'priority', 4n],
    ['PRIORITY', 'default', 2n],
    ['flex', 'flex', 1n],
    [undefined, 'priority', 4n],
    ['auto', 'priority', 4n],
    ['default', undefined, 2n],
  ]
  const held: bigint[] = []
  for (const [requested, served, halves] of cases) {
    upstream.served = served
    const response = await send(protocol, model, requested === undefined ? {} : { service_tier: requested })
    expect([requested, served, response.status]).toEqual([requested, served, 200])
    const record = await lastRecord()
    expect([requested, served, record.bill]).toEqual([requested, served, (PLAIN * halves) / 2n])
    expect(upstream.bodies.at(-1)!.service_tier).toBe(requested)
    held.push(record.held)
  }
  // The bodies differ by a few bytes.
  expect([held[1]! > (held[0]! * 19n) / 10n, held[4]! > (held[7]! * 99n) / 100n]).toEqual([true, true])
})

test('a class without a known price is refused, unless the model is free', async () => {
  upstream.served = undefined
  for (const [more, param] of [
    [{ service_tier: 'gold' }, 'service_tier'],
    [{ Service_Tier: 'gold' }, 'Service_Tier'],
    [{ speed: 'fast' }, 'speed'],
    [{ inference_geo: 'us' }, 'inference_geo'],
    [{ extra_body: { service_tier: 'gold' } }, 'service_tier'],
  ] as const) {
    const response = await send('chat.completions', 'chat-completions/m', more)
    expect(await failureOf(response, 'chat.completions')).toMatchObject({
      status: 400,
      code: 'invalid_request_error:unsupported_parameter',
      message: expect.stringMatching(
        new RegExp(`^${param}: '\\w+' has no known price for chat-completions/m; leave it out.*unpricedClasses: plain`),
      ) as unknown,
    })
    expect((await send('chat.completions', 'free', more)).status).toBe(200)
  }
})

test('a class without a known price is passed on for a single account', async () => {
  upstream.served = undefined
  const alone = await startGateway({ config: configOf('') })
  const asking = { url: alone.url, key: alone.key, model: 'chat-completions/m', stream: false, limit: 10 }
  const response = await ask({ ...asking, protocol: 'chat.completions', more: { service_tier: 'gold' } })
  expect([response.status, upstream.bodies.at(-1)!.service_tier]).toEqual([200, 'gold'])
  await alone.stop()
})

test('a tier that is translated is priced, and one that the translation drops is no reason to refuse', async () => {
  upstream.served = undefined
  expect((await send('responses', 'chat-completions/m', { service_tier: 'priority' })).status).toBe(200)
  expect((await lastRecord()).bill).toBe(PLAIN * 2n)
  const dropped = await send('chat.completions', 'messages/m', { service_tier: 'flex' })
  expect([dropped.status, dropped.headers.get('x-sluice-translation')?.includes('service_tier')]).toEqual([200, true])
  expect((await lastRecord()).bill).toBe(PLAIN)
})

test('a tier of generateContent is priced where it is carried, in both directions', async () => {
  upstream.served = undefined
  expect((await send('generateContent', 'chat-completions/m', { serviceTier: 'priority' })).status).toBe(200)
  expect(upstream.bodies.at(-1)!.service_tier).toBe('priority')
  expect((await lastRecord()).bill).toBe(PLAIN * 2n)
  const dropped = await send('generateContent', 'messages/m', { serviceTier: 'priority' })
  expect([dropped.status, dropped.headers.get('x-sluice-translation')?.includes('"serviceTier"')]).toEqual([200, true])
  expect((await lastRecord()).bill).toBe(PLAIN)
  for (const [served, halves] of [
    ['flex', 1n],
    ['standard', 2n],
  ] as const) {
    upstream.served = served
    const response = await send('chat.completions', 'generatecontent/m', { service_tier: 'flex' })
    expect(await response.json()).toMatchObject({ service_tier: served === 'flex' ? 'flex' : 'default' })
    expect(upstream.bodies.at(-1)!.serviceTier).toBe('flex')
    expect((await lastRecord()).bill).toBe((PLAIN * halves) / 2n)
  }
})
