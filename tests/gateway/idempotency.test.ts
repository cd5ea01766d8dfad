import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { ask, ENDED, failureOf, PROTOCOLS, type Asking } from './asking.ts'
import { gatedConfig, gatedProvider, type Gated } from './gated.ts'
import { storeIn } from '../stores.ts'

/** Requests with an `Idempotency-Key` at a running gateway. */

const OTHER = 'sk-ss-v1-0123456789abcdef0123456789abcdef'
const PLAIN = 'sk-ai-v1-plain6789abcdef0123456789abcdef'

const folder = mkdtempSync(join(tmpdir(), 'sluice-idempotency-'))
/** Statuses that the failing provider answers with, and its calls. */
const failing = { status: 500, calls: 0 }
const failingServer = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch() {
    failing.calls++
    return Response.json({ error: { message: 'no', type: 'x' } }, { status: failing.status })
  },
})
/** The calls that a provider which never answers has now. */
const hanging = { calls: 0 }
const hangingServer = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  fetch(request) {
    hanging.calls++
    return new Promise<Response>((resolve) => {
      request.signal.addEventListener('abort', () => {
        hanging.calls--
        resolve(new Response())
      })
    })
  },
})
let provider: Gated
let gateway: GatewayProcess

const at = ({ port }: { port?: number | undefined }): { url: string } => ({ url: `http://127.0.0.1:${port}/v1` })

const start = (): Promise<GatewayProcess> =>
  startGatewayProcess({
    data: folder,
    config: `${gatedConfig({ up: provider, failing: at(failingServer), hanging: at(hangingServer) })}
routing: { attempts: 1 }
idempotency: { account: 20KiB }
keys:
  - { key: ${OTHER}, account: other, kind: subscription }
  - { key: ${PLAIN}, idempotency: false }
`,
  })

beforeAll(async () => {
  provider = gatedProvider()
  gateway = await start()
})
beforeEach(() => {
  provider.open()
  provider.begun = failing.calls = 0
})
afterAll(async () => {
  await gateway?.stop()
  await Promise.all([provider?.stop(), failingServer.stop(true), hangingServer.stop(true)])
  rmSync(folder, { recursive: true, force: true })
})

let keys = 0
const newKey = (): string => `key-${keys++}`

const send = (key: string | undefined, more: Partial<Asking> = {}): Promise<Response> =>
  ask({
    url: gateway.url,
    key: gateway.key,
    protocol: 'chat.completions',
    model: 'up/messages',
    stream: false,
    ...more,
    ...(key === undefined ? {} : { headers: { 'idempotency-key': key, 'x-sluice-report': 'headers' } }),
  })

const IDENTITY = [
  'x-generation-id',
  'x-request-id',
  'content-type',
  'x-sluice-provider',
  'x-sluice-translation',
  'x-sluice-route',
]
type Answer = { status: number; text: string; headers: (string | null)[]; replayed: string | null }
const answer = async (response: Response): Promise<Answer> => ({
  status: response.status,
  text: await response.text(),
  headers: IDENTITY.map((name) => response.headers.get(name)),
  replayed: response.headers.get('idempotent-replayed'),
})

const recordsAndBill = async (): Promise<[number, bigint]> => {
  const store = await storeIn(folder)
  try {
    const records = await store.ledger.generations(undefined, 1_000)
    return [records.length, records.reduce((sum, { bill }) => sum + bill, 0n)]
  } finally {
    await store.close()
  }
}

/** Waits until this request is answered with another status than 409. */
async function retried(key: string, more: Partial<Asking> = {}): Promise<Answer> {
  for (;;) {
    const got = await answer(await send(key, more))
    if (got.status !== 409) return got
    await Bun.sleep(20)
  }
}

describe.each([false, true])('a repeated request (streamed: %p)', (stream) => {
  test.each(PROTOCOLS)('of %s is answered from the store', async (protocol) => {
    for (const model of ['up/messages', `up/${protocol}`]) {
      const key = newKey()
      const first = await answer(await send(key, { protocol, stream, model }))
      const billed = await recordsAndBill()
      const second = await retried(key, { protocol, stream, model })
      expect([first.status, first.replayed, second]).toEqual([200, null, { ...first, replayed: 'true' }])
      expect(await recordsAndBill()).toEqual(billed)
    }
    expect(provider.begun).toBe(2)
  })

  test('is refused while the first is in progress, and is answered after its client has left', async () => {
    provider.shut()
    const key = newKey()
    const leave = new AbortController()
    const first = send(key, { stream, signal: leave.signal }).then(
      (response) => response.text(),
      () => {},
    )
    while (provider.begun === 0) await Bun.sleep(5)
    const refused = await send(key, { stream })
    expect([refused.headers.get('retry-after'), refused.headers.get('x-should-retry')]).toEqual(['1', 'true'])
    expect(await failureOf(refused, 'chat.completions')).toMatchObject({
      status: 409,
      code: 'invalid_request_error:request_in_progress',
      message: expect.stringMatching(/generation [0-9a-f]{32}\)/) as unknown,
    })
    leave.abort()
    await first.catch(() => {})
    expect((await send(key, { stream })).status).toBe(409)
    provider.open()
    const got = await retried(key, { stream })
    expect([got.status, got.replayed, provider.begun]).toEqual([200, 'true', 1])
    expect(got.text).toContain(stream ? '[DONE]' : '"finish_reason"')
  })
})

test.each(PROTOCOLS)('a stream of %s is repeated as soon as its last frame has come', async (protocol) => {
  const statuses = new Set<number>()
  for (let round = 0; round < 10; round++) {
    const key = newKey()
    const reader = (await send(key, { protocol, stream: true })).body!.getReader()
    let text = ''
    while (!ENDED[protocol].whole.test(text)) text += Buffer.from((await reader.read()).value!).toString()
    const repeated = await answer(await send(key, { protocol, stream: true }))
    statuses.add(repeated.status)
    expect(repeated.text).toStartWith(text.trimEnd())
  }
  expect([...statuses]).toEqual([200])
})

test('a key is of one request, and of one account', async () => {
  const key = newKey()
  await answer(await send(key))
  expect(await failureOf(await send(key, { text: 'Another' }), 'chat.completions')).toMatchObject({
    status: 400,
    code: 'invalid_request_error:invalid_request',
    message: expect.stringContaining('was used for another request') as unknown,
  })
  expect((await send(key, { protocol: 'messages' })).status).toBe(400)
  expect((await answer(await send(key, { key: OTHER }))).replayed).toBeNull()
  expect((await answer(await send(key, { key: OTHER }))).replayed).toBe('true')
  expect((await send('a b')).status).toBe(400)
  expect((await send('x'.repeat(256))).status).toBe(400)
})

test('without the header, or with a key that ignores it, every request is carried out', async () => {
  const key = newKey()
  for (const response of [await send(undefined), await send(undefined), await send(key, { key: PLAIN })])
    expect((await answer(response)).replayed).toBeNull()
  expect((await answer(await send(key, { key: PLAIN }))).replayed).toBeNull()
  expect(provider.begun).toBe(4)
})

test('an error that nothing was carried out for is not kept, one of a provider is', async () => {
  const unknown = newKey()
  expect((await send(unknown, { model: 'no/such' })).status).toBe(404)
  expect((await answer(await send(unknown, { model: 'no/such' }))).replayed).toBeNull()
  for (const [status, isKept] of [
    [429, false],
    [502, false],
    [503, false],
    [400, true],
    [500, true],
  ] as const) {
    const key = newKey()
    Object.assign(failing, { status, calls: 0 })
    const first = await answer(await send(key, { model: 'failing/chat.completions' }))
    const again = await send(key, { model: 'failing/chat.completions' })
    expect([status, again.headers.get('x-should-retry') === 'false' && isKept]).toEqual([status, isKept])
    const second = await answer(again)
    expect([status, failing.calls, second.replayed, second.text === first.text || !isKept]).toEqual([
      status,
      isKept ? 1 : 2,
      isKept ? 'true' : null,
      true,
    ])
  }
})

test('answers survive a restart', async () => {
  const key = newKey()
  const first = await answer(await send(key, { stream: true }))
  await retried(key, { stream: true })
  await gateway.stop()
  gateway = await start()
  expect(await answer(await send(key, { stream: true }))).toEqual({ ...first, replayed: 'true' })
  expect(provider.begun).toBe(1)
})

test('a request that died with its server is carried out again', async () => {
  provider.shut()
  const key = newKey()
  const first = send(key).catch(() => {})
  while (provider.begun === 0) await Bun.sleep(5)
  gateway.kill('SIGKILL')
  await Promise.all([gateway.exited, first])
  provider.open()
  gateway = await start()
  expect(await answer(await send(key))).toMatchObject({ status: 200, replayed: null })
  expect(await answer(await send(key))).toMatchObject({ status: 200, replayed: 'true' })
})

test('the oldest answers of an account are removed when they are too many', async () => {
  const oldest = newKey()
  await answer(await send(oldest))
  let last = ''
  for (let sent = 0; sent < 60; sent++) await answer(await send((last = newKey())))
  expect((await answer(await send(last))).replayed).toBe('true')
  expect((await answer(await send(oldest))).replayed).toBeNull()
})

test("OpenAI's SDK gets one answer for one key, also while the first is in progress", async () => {
  provider.shut()
  const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, maxRetries: 20 })
  const create = (): Promise<{ id: string }> =>
    openai.chat.completions.create(
      { model: 'up/chat.completions', messages: [{ role: 'user', content: 'Hello' }] },
      { headers: { 'Idempotency-Key': 'sdk-1' } },
    )
  const first = create()
  while (provider.begun === 0) await Bun.sleep(5)
  const second = create()
  await Bun.sleep(50)
  provider.open()
  expect((await second).id).toBe((await first).id)
  expect(provider.begun).toBe(1)
}, 30_000)

test('at most 64 generations of an account go on without their clients', async () => {
  const MOST = 64
  const clients = Array.from({ length: MOST + 20 }, () => new AbortController())
  const requests = clients.map(({ signal }) =>
    send(newKey(), { model: 'hanging/chat.completions', limit: 1, signal }).catch(() => {}),
  )
  while (hanging.calls < clients.length) await Bun.sleep(20)
  for (const client of clients) client.abort()
  await Promise.all(requests)
  while (hanging.calls > MOST) await Bun.sleep(20)
  // Those that go on are not ended by the ones that are.
  await Bun.sleep(300)
  expect(hanging.calls).toBe(MOST)
}, 60_000)
