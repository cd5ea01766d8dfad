import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'
import { rawServer, until, type RawSocket } from '../transport/raw-server.ts'
import { predictionUpstream, type PredictionUpstream } from './upstream.ts'

/** What providers do wrong: each prediction ends once, is paid once and is told of once, and is never made twice. */

let upstream: PredictionUpstream
let hooks: ReturnType<typeof Bun.serve>
/** `path status` of each webhook call, with its id. */
let told: { path: string; status: string; id: string }[] = []
const gateways: Gateway[] = []

beforeAll(() => {
  upstream = predictionUpstream()
  hooks = Bun.serve({ port: 0, hostname: '127.0.0.1', async fetch(request) {
    told.push({ path: new URL(request.url).pathname, status: ((await request.json()) as Shown).status, id: request.headers.get('webhook-id')! })
    return new Response(null, { status: 204 })
  } })
})
afterEach(async () => {
  upstream.instead = undefined
  told = []
  for (const gateway of gateways.splice(0)) await gateway.stop()
})
afterAll(async () => {
  await upstream.stop()
  await hooks.stop(true)
})

type Shown = { id: string; status: string; output: unknown; error: string | null; logs: string; metrics: { predict_time?: number }; completed_at: string | null }

async function start(url: string, more = ''): Promise<Gateway> {
  const gateway = await startGateway({ config: `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1, delay: 0s }
fetch: { private: ["127.0.0.1:${hooks.port}"] }
providers: { up: { protocol: predictions, baseUrl: "${url}" } }
models: { job: { endpoints: [{ provider: up, model: owner/name }], price: { request: 0.01 } } }
${more}` })
  gateways.push(gateway)
  return gateway
}

const ask = async ({ url, key }: Gateway, method: string, path: string, body?: object): Promise<Shown> =>
  (await (await fetch(url + path, { method, headers: { authorization: `Bearer ${key}` }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })).json()) as Shown

const create = (gateway: Gateway, input: { key: string; ms?: number }): Promise<Shown> =>
  ask(gateway, 'POST', '/v1/predictions', { model: 'job', input, webhook: `http://127.0.0.1:${hooks.port}/${input.key}`, webhook_events_filter: ['completed'] })

async function ended(gateway: Gateway, { id }: Shown): Promise<Shown> {
  for (;;) {
    const now = await ask(gateway, 'GET', `/v1/predictions/${id}`)
    if (now.completed_at !== null) return now
    await Bun.sleep(20)
  }
}

const billOf = async (gateway: Gateway, { id }: Shown): Promise<number> =>
  ((await ask(gateway, 'GET', `/v1/management/generation?id=${id}`)) as unknown as { usage: number }).usage

test('a provider that answers nonsense for a while is asked on', async () => {
  const gateway = await start(upstream.url)
  const nonsense = [
    () => new Response('Bad gateway', { status: 502 }), () => Response.json({ id: 'x', status: 'exploded' }), () => Response.json({ id: '../files', status: 'succeeded' }),
    () => Response.json({ id: 'x', status: 'processing', logs: 5, output: { a: 1 }, metrics: { predict_time: -1 } }), () => new Response('{"id":"x","st'),
  ]
  upstream.instead = (kind) => (kind === 'GET' ? nonsense.shift()?.() : undefined)
  const slow = await ended(gateway, await create(gateway, { key: 'nonsense', ms: 300 }))
  expect(slow).toMatchObject({ status: 'succeeded', output: ['done'], metrics: { predict_time: 0.3 } })
  expect([nonsense.length, upstream.creates.filter((key) => key === 'nonsense').length, await billOf(gateway, slow)]).toEqual([0, 1, 0.01])
  await until(() => told.length === 1)
}, 60_000)

test('a prediction is asked after at intervals that follow its age', async () => {
  const gateway = await start(upstream.url)
  const asked: number[] = []
  upstream.instead = () => void asked.push(performance.now())
  await ended(gateway, await create(gateway, { key: 'patient', ms: 5_000 }))
  const [made = 0] = asked
  // Each interval by the age at its end: an eighth of the age at its beginning is a ninth of that.
  const ratios = asked.map((at, index) => ({ age: at - made, ratio: (at - asked[index - 1]!) / (at - made) })).filter(({ age }) => age > 2_300).map(({ ratio }) => ratio).toSorted((a, b) => a - b)
  expect(ratios.length).toBeGreaterThan(3)
  const median = ratios[Math.floor(ratios.length / 2)]!
  expect(median).toBeGreaterThan(0.06)
  expect(median).toBeLessThan(0.16)
}, 60_000)

test('a provider that never ends is told to stop when the time is up, and not paid', async () => {
  const gateway = await start(upstream.url, 'timeouts: { total: 1s }\n')
  const end = await ended(gateway, await create(gateway, { key: 'stuck', ms: 600_000 }))
  expect([end.status, end.error, upstream.cancels.filter((key) => key === 'stuck').length, await billOf(gateway, end)]).toEqual(['failed', expect.stringContaining('did not end in time'), 1, 0])
  await until(() => told.length === 1)
  expect(told[0]).toMatchObject({ path: '/stuck', status: 'failed' })
}, 30_000)

test('a creation whose connection dies is not sent again, whether the connection was used before or not', async () => {
  const keys: string[] = []
  let dies = false
  const answerTo = (socket: RawSocket, body: object): void => {
    const text = JSON.stringify(body)
    socket.write(`HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`)
  }
  const raw = rawServer((socket, request) => {
    const { input } = JSON.parse(request.slice(request.indexOf('\r\n\r\n') + 4)) as { input: { key: string } }
    keys.push(input.key)
    if (dies) socket.terminate()
    else answerTo(socket, { id: `p${keys.length}`, status: 'succeeded', output: ['done'] })
  })
  try {
    const gateway = await start(`${raw.url}/v1`)
    expect(await ended(gateway, await create(gateway, { key: 'before' }))).toMatchObject({ status: 'succeeded' })
    dies = true
    const lost = await ended(gateway, await create(gateway, { key: 'lost' }))
    expect([lost.status, keys, await billOf(gateway, lost)]).toEqual(['failed', ['before', 'lost'], 0])
  } finally {
    raw.stop()
  }
}, 30_000)

test('a provider whose id would lead elsewhere is not followed there', async () => {
  const gateway = await start(upstream.url)
  const polls = upstream.polls
  for (const id of ['../files/x', 'a/b', '', '.', 'x?y=1', 5]) {
    upstream.instead = (kind) => (kind === 'POST' ? Response.json({ id, status: 'processing' }) : undefined)
    const end = await ended(gateway, await create(gateway, { key: 'odd-id' }))
    expect([id, end.status, await billOf(gateway, end)]).toEqual([id, 'failed', 0])
  }
  expect(upstream.polls).toBe(polls)
}, 30_000)

test('an end and a cancellation that come at once are one end, of which is told once', async () => {
  const gateway = await start(upstream.url, 'predictions: { concurrency: 20 }\n')
  const ends = await Promise.all(Array.from({ length: 20 }, async (_, number) => {
    const made = await create(gateway, { key: `race-${number}`, ms: 300 })
    await Bun.sleep(230 + number * 15)
    const heard = await Promise.all(Array.from({ length: 4 }, () => ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)))
    const end = await ended(gateway, made)
    for (const one of heard) if (one.completed_at !== null) expect(one).toEqual(end)
    return { number, end }
  }))
  await until(() => told.length >= 20)
  await Bun.sleep(100)
  expect(told.map(({ path, status }) => `${path} ${status}`).toSorted()).toEqual(ends.map(({ number, end }) => `/race-${number} ${end.status}`).toSorted())
  for (const { end } of ends) expect([end.status === 'succeeded' || end.status === 'canceled', await billOf(gateway, end)]).toEqual([true, 0.01])
}, 30_000)
