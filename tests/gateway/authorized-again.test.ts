import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { connect } from 'node:net'
import type { NewKeyAnswer } from '../../src/endpoints/management/answers.ts'
import { type Browser, ownerOf } from '../management/browser.ts'
import { startGateway, type Gateway } from '../server.ts'
import { until } from '../store/account-contract.ts'
import { ask, failureOf } from './asking.ts'
import { type Gated, gatedConfig, gatedProvider } from './gated.ts'

/** Keys and accounts that change while their requests wait, or arrive slowly. */

const MODEL = 'one/messages'
/** A request is authorized again after one second; on a busy machine the server may begin to count it late. */
const WAIT_MS = 2_000
// All begin at once, on a machine that may be busy.
setDefaultTimeout(120_000)

let provider: Gated
let gateway: Gateway
let owner: Browser
beforeAll(async () => {
  provider = gatedProvider()
  const config = gatedConfig({ one: provider }).replace('limits: {', 'limits: { concurrency: 1,')
  gateway = await startGateway({ config })
  owner = await ownerOf(gateway)
})
afterAll(async () => {
  await gateway.stop()
  await provider.stop()
})

type Change = (key: NewKeyAnswer, by?: Browser) => Promise<unknown>

/** Makes a change, which a busy machine refuses where its processes take too long for their turns. */
async function made(by: Browser, method: string, path: string, body?: object): Promise<void> {
  const headers = { 'if-match': '*' }
  expect(await until(async () => (await by.ask(method, path, body, headers)).status < 400)).toBe(true)
}

const change = (by: Browser, path: string, body: object): Promise<void> => made(by, 'PATCH', path, body)

const CHANGES: [what: string, change: Change, status: number, message: RegExp][] = [
  ['a revoked key', ({ id }, by = owner) => made(by, 'DELETE', `/keys/${id}`), 401, /A key of this Sluice is required/],
  [
    'a suspended account',
    ({ account: { id } }, by = owner) => change(by, `/accounts/${id}`, { status: 'suspended' }),
    403,
    /suspended/,
  ],
  [
    'a key for other models',
    ({ id }, by = owner) => change(by, `/keys/${id}`, { models: ['other'] }),
    403,
    /not allowed/,
  ],
  [
    'a key whose limit is used up',
    ({ id }, by = owner) => change(by, `/keys/${id}`, { limit_usd: '0' }),
    402,
    /limit of \$0/,
  ],
]

const SLOW: [path: string, body: object][] = [
  ['/v1/messages', { max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }],
  ['/v1/predictions', { input: { prompt: 'Hello' } }],
]

async function newKey(by = owner): Promise<NewKeyAnswer> {
  const name = `team-${crypto.randomUUID()}`
  await by.post('/accounts', { name })
  await by.post(`/accounts/${name}/credits`, { amount_usd: '1' })
  return (await by.post<NewKeyAnswer>('/keys', { kind: 'pay-as-you-go', account: name })).json
}

test('a queued request is refused if its key, account or limit was changed while it waited', async () => {
  const keys = await Promise.all(CHANGES.map(() => newKey()))
  const asking = { url: gateway.url, protocol: 'messages' as const, model: MODEL, stream: false }
  provider.shut()
  const first = ask({ ...asking, key: gateway.key })
  const { begun } = provider
  while (provider.begun === begun) await Bun.sleep(5)
  const waiting = keys.map((key) => ask({ ...asking, key: key.text }))
  await Bun.sleep(WAIT_MS)
  for (const [index, [, apply]] of CHANGES.entries()) await apply(keys[index]!)
  provider.open()
  expect((await first).status).toBe(200)
  for (const [index, [, , status, message]] of CHANGES.entries())
    expect(await failureOf(await waiting[index]!, 'messages')).toMatchObject({
      status,
      message: expect.stringMatching(message) as unknown,
    })
  expect(provider.begun).toBe(begun + 1)
})

for (const [what, apply, status, message] of CHANGES)
  test.concurrent.each(SLOW)(`${what} is refused where a request to %s arrives slowly`, async (path, request) => {
    const key = await newKey()
    const { hostname, port } = new URL(gateway.url)
    const body = JSON.stringify({ model: MODEL, ...request })
    const socket = connect(Number(port), hostname)
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\nx-api-key: ${key.text}\r\nconnection: close\r\n` +
        `content-length: ${body.length}\r\n\r\n${body.slice(0, 10)}`,
    )
    await Bun.sleep(WAIT_MS)
    await apply(key)
    socket.write(body.slice(10))
    const answer = await new Response(socket as unknown as ReadableStream).text()
    expect(answer).toStartWith(`HTTP/1.1 ${status}`)
    expect(answer).toMatch(message)
  })

// The cost of a request was held before it waited.
const NOT_HELD = CHANGES.filter(([, , status]) => status !== 402)

for (const [what, apply, status] of NOT_HELD)
  test.concurrent(`${what} does not get its turn at an endpoint that is full, and the next one does`, async () => {
    const provider = gatedProvider()
    const at = await startGateway({
      config: gatedConfig({ one: provider }).replaceAll('model: m }', 'model: m, limits: { concurrency: 1 } }'),
    })
    try {
      const its = await ownerOf(at)
      const key = await newKey(its)
      const asking = { url: at.url, protocol: 'messages' as const, model: MODEL, stream: false }
      provider.shut()
      const { begun } = provider
      const first = ask({ ...asking, key: at.key })
      while (provider.begun === begun) await Bun.sleep(5)
      const waiting = ask({ ...asking, key: key.text })
      await Bun.sleep(WAIT_MS)
      const last = ask({ ...asking, key: at.key })
      await Bun.sleep(100)
      await apply(key, its)
      provider.open()
      expect((await first).status).toBe(200)
      expect(await failureOf(await waiting, 'messages')).toMatchObject({ status })
      expect((await last).status).toBe(200)
      expect(provider.begun).toBe(begun + 2)
    } finally {
      await at.stop()
      await provider.stop()
    }
  })

for (const [what, apply, status] of NOT_HELD)
  test.concurrent(`${what} is not tried at another endpoint after the first one failed`, async () => {
    const provider = gatedProvider()
    const failing = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: async () => {
        calls++
        await gate.promise
        return Response.json({ error: { message: 'down' } }, { status: 503 })
      },
    })
    const gate = Promise.withResolvers<void>()
    let calls = 0
    const config = `${gatedConfig({ two: provider })}`.replace(
      'providers: {',
      `providers: { failing: { protocol: messages, baseUrl: "http://127.0.0.1:${failing.port}/v1", apiKey: none }, `,
    )
    const at = await startGateway({
      config: config.replace(
        'models: {',
        'models: { both: { endpoints: [{ provider: failing, model: m }, { provider: two-messages, model: m }], ' +
          'price: { prompt: 1, completion: 2 }, routing: { strategy: order } }, ',
      ),
    })
    try {
      const its = await ownerOf(at)
      const key = await newKey(its)
      provider.open()
      const { begun } = provider
      const asked = ask({ url: at.url, key: key.text, protocol: 'messages', model: 'both', stream: false })
      while (calls === 0) await Bun.sleep(5)
      await Bun.sleep(WAIT_MS)
      await apply(key, its)
      gate.resolve()
      expect(await failureOf(await asked, 'messages')).toMatchObject({ status })
      expect([calls, provider.begun]).toEqual([1, begun])
      expect((await ask({ url: at.url, key: at.key, protocol: 'messages', model: 'both', stream: false })).status).toBe(
        200,
      )
    } finally {
      await at.stop()
      await failing.stop(true)
      await provider.stop()
    }
  })
