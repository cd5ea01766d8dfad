import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway, startGatewayProcess, type Gateway, type GatewayOptions, type GatewayProcess } from '../server.ts'
import { rawServer, until, type RawSocket } from '../transport/raw-server.ts'
import { predictionUpstream, type PredictionUpstream } from './upstream.ts'
import { once, storeOf } from '../stores.ts'

/** Faults of providers: each prediction ends, is charged and is reported once, and is never created twice. */

let upstream: PredictionUpstream
let hooks: ReturnType<typeof Bun.serve>
/** Path, status and id of each webhook call. */
let calls: { path: string; status: string; id: string }[] = []
const gateways: Gateway[] = []

beforeAll(() => {
  upstream = predictionUpstream()
  hooks = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      calls.push({
        path: new URL(request.url).pathname,
        status: ((await request.json()) as Shown).status,
        id: request.headers.get('webhook-id')!,
      })
      return new Response(null, { status: 204 })
    },
  })
})
afterEach(async () => {
  upstream.instead = undefined
  calls = []
  for (const gateway of gateways.splice(0)) await gateway.stop()
})
afterAll(async () => {
  await upstream.stop()
  await hooks.stop(true)
})

type Shown = {
  id: string
  status: string
  output: unknown
  error: string | null
  logs: string
  metrics: { predict_time?: number }
  completed_at: string | null
}

type Sections = { models?: string; providers?: string; settings?: string }

async function start(url: string, sections?: Sections): Promise<Gateway> {
  const gateway = await startGateway(configured(url, sections))
  gateways.push(gateway)
  return gateway
}

async function startProcess(url: string, sections?: Sections, data?: string): Promise<GatewayProcess> {
  const gateway = await startGatewayProcess({ ...configured(url, sections), ...(data === undefined ? {} : { data }) })
  gateways.push(gateway)
  return gateway
}

const configured = (url: string, { models = '', providers = '', settings = '' }: Sections = {}): GatewayOptions => ({
  config: `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1, delay: 0s }
fetch: { private: ["127.0.0.1:${hooks.port}"] }
${settings}providers:
  up: { protocol: predictions, baseUrl: "${url}" }
${providers}
models:
  job: { endpoints: [{ provider: up, model: owner/name }], price: { request: 0.01 } }
${models}`,
})

const ask = async ({ url, key }: Gateway, method: string, path: string, body?: object): Promise<Shown> =>
  (await (
    await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  ).json()) as Shown

const create = (gateway: Gateway, input: { key: string; ms?: number }): Promise<Shown> =>
  ask(gateway, 'POST', '/v1/predictions', {
    model: 'job',
    input,
    webhook: `http://127.0.0.1:${hooks.port}/${input.key}`,
    webhook_events_filter: ['completed'],
  })

async function ended(gateway: Gateway, { id }: Shown): Promise<Shown> {
  for (;;) {
    const now = await ask(gateway, 'GET', `/v1/predictions/${id}`)
    if (now.completed_at !== null) return now
    await Bun.sleep(20)
  }
}

const billOf = async (gateway: Gateway, { id }: Shown): Promise<number> =>
  ((await ask(gateway, 'GET', `/v1/management/generation?id=${id}`)) as unknown as { usage: number }).usage

once(
  'a provider that sends invalid responses for a while is polled on',
  async () => {
    const gateway = await start(upstream.url)
    const nonsense = [
      () => new Response('Bad gateway', { status: 502 }),
      () => Response.json({ id: 'x', status: 'exploded' }),
      () => Response.json({ id: '../files', status: 'succeeded' }),
      () => Response.json({ id: 'x', status: 'processing', logs: 5, output: { a: 1 }, metrics: { predict_time: -1 } }),
      () => new Response('{"id":"x","st'),
    ]
    upstream.instead = (kind) => (kind === 'GET' ? nonsense.shift()?.() : undefined)
    const slow = await ended(gateway, await create(gateway, { key: 'nonsense', ms: 300 }))
    expect(slow).toMatchObject({ status: 'succeeded', output: ['done'], metrics: { predict_time: 0.3 } })
    expect([
      nonsense.length,
      upstream.creates.filter((key) => key === 'nonsense').length,
      await billOf(gateway, slow),
    ]).toEqual([0, 1, 0.01])
    await until(() => calls.length === 1)
  },
  60_000,
)

test('queued predictions of a suspended account are not run and not charged', async () => {
  const gateway = await start(upstream.url, { settings: 'predictions: { concurrency: 1 }\n' })
  const running = await create(gateway, { key: 'runs', ms: 2_500 })
  const waiting = await create(gateway, { key: 'waits', ms: 10 })
  await until(() => upstream.creates.includes('runs'))
  const store = await storeOf(gateway)
  const [account] = await store.accounts.list()
  await store.accounts.setStatus(account!.id, 'suspended')
  await until(() => calls.length === 2)
  expect(calls.map(({ path, status }) => `${path} ${status}`).toSorted()).toEqual(['/runs succeeded', '/waits failed'])
  const records = await store.ledger.generations(undefined, 10)
  const billed = ({ id }: Shown): number => Number(records.find((record) => id.endsWith(record.id))?.bill)
  expect([billed(running), billed(waiting), upstream.creates.includes('waits')]).toEqual([10_000_000, 0, false])
  await store.close()
}, 30_000)

once(
  'a prediction is polled at intervals that grow with its age',
  async () => {
    const gateway = await start(upstream.url)
    const polledAt: number[] = []
    upstream.instead = () => void polledAt.push(performance.now())
    await ended(gateway, await create(gateway, { key: 'patient', ms: 5_000 }))
    const [made = 0] = polledAt
    // Each interval by the age at its end: an eighth of the age at its beginning is a ninth of that.
    const ratios = polledAt
      .map((at, index) => ({ age: at - made, ratio: (at - polledAt[index - 1]!) / (at - made) }))
      .filter(({ age }) => age > 2_300)
      .map(({ ratio }) => ratio)
      .toSorted((a, b) => a - b)
    expect(ratios.length).toBeGreaterThan(1)
    const median = ratios[Math.floor(ratios.length / 2)]!
    expect(median).toBeGreaterThan(0.06)
    expect(median).toBeLessThan(0.16)
  },
  60_000,
)

describe('a provider out of capacity', () => {
  const busy = (status: number, more: object = {}): Response =>
    Response.json({ detail: 'Too much at the moment.', status }, { status, ...more })
  const createsOf = (name: string): number => upstream.creates.filter((key) => key === name).length

  once(
    'is tried again when it asks for it, and the prediction is charged once',
    async () => {
      const gateway = await start(upstream.url)
      const failures = [busy(429, { headers: { 'retry-after': '1' } }), busy(503)]
      const at: number[] = []
      upstream.instead = (kind) => (kind === 'POST' ? (at.push(performance.now()), failures.shift()) : undefined)
      const end = await ended(gateway, await create(gateway, { key: 'busy', ms: 100 }))
      expect([end.status, createsOf('busy'), await billOf(gateway, end)]).toEqual(['succeeded', 3, 0.01])
      expect(at[1]! - at[0]!).toBeGreaterThan(990)
      // The call of the test before may come as late as this one.
      await until(() => calls.filter(({ path }) => path === '/busy').length === 1)
    },
    30_000,
  )

  once(
    'is not tried again where it may have taken the prediction',
    async () => {
      const gateway = await start(upstream.url)
      upstream.instead = (kind) => (kind === 'POST' ? busy(500) : undefined)
      const end = await ended(gateway, await create(gateway, { key: 'unclear', ms: 100 }))
      expect([end.status, createsOf('unclear'), await billOf(gateway, end)]).toEqual(['failed', 1, 0])
    },
    30_000,
  )

  once(
    'fails the prediction when it stays out of capacity',
    async () => {
      const gateway = await start(upstream.url, { settings: 'timeouts: { total: 2s }\n' })
      upstream.instead = (kind) => (kind === 'POST' ? busy(429) : undefined)
      const end = await ended(gateway, await create(gateway, { key: 'given-up' }))
      expect([end.status, end.error, await billOf(gateway, end)]).toEqual([
        'failed',
        expect.stringContaining('Too much at the moment.'),
        0,
      ])
      expect(createsOf('given-up')).toBe(2)
    },
    30_000,
  )

  test('is not tried again for a prediction that is cancelled meanwhile, which costs nothing', async () => {
    const gateway = await start(upstream.url)
    upstream.instead = (kind) => (kind === 'POST' ? busy(429, { headers: { 'retry-after': '60' } }) : undefined)
    const made = await create(gateway, { key: 'changed-mind' })
    await until(() => createsOf('changed-mind') === 1)
    await Bun.sleep(100)
    expect((await ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)).status).toBe('canceled')
    expect([createsOf('changed-mind'), await billOf(gateway, made)]).toEqual([1, 0])
  }, 30_000)

  test('costs nothing where a creation fails after it was cancelled', async () => {
    const gateway = await start(upstream.url)
    const answer = Promise.withResolvers<void>()
    upstream.instead = (kind) => (kind === 'POST' ? answer.promise.then(() => busy(500)) : undefined)
    const made = await create(gateway, { key: 'cancelled-early' })
    await until(() => createsOf('cancelled-early') === 1)
    const canceled = ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)
    await Bun.sleep(200)
    answer.resolve()
    expect([(await canceled).status, await billOf(gateway, made)]).toEqual(['canceled', 0])
  }, 30_000)

  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'is tried by the next start for a prediction that it has not taken: %s',
    async (signal) => {
      const data = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
      try {
        const first = await startProcess(upstream.url, {}, data)
        upstream.instead = (kind) => (kind === 'POST' ? busy(429, { headers: { 'retry-after': '60' } }) : undefined)
        const made = await create(first, { key: signal })
        await until(() => createsOf(signal) === 1)
        await Bun.sleep(200)
        first.kill(signal)
        await first.exited
        upstream.instead = undefined
        const second = await startProcess(upstream.url, {}, data)
        const end = await ended(second, made)
        expect([end.status, createsOf(signal), await billOf(second, end)]).toEqual(['succeeded', 2, 0.01])
        for (const gateway of gateways.splice(0)) await gateway.stop()
      } finally {
        rmSync(data, { recursive: true, force: true })
      }
    },
    30_000,
  )

  once(
    'of a generation model is tried again, too',
    async () => {
      let polls = 0
      const chat = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        fetch: () =>
          ++polls === 1
            ? busy(429)
            : Response.json({
                id: 'c',
                object: 'chat.completion',
                created: 1,
                model: 'm',
                choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
                usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
              }),
      })
      try {
        const gateway = await start(upstream.url, {
          models: `  text: { endpoints: [{ provider: chat, model: m }], price: { request: 0.02 } }\n`,
          providers: `  chat: { protocol: chat.completions, baseUrl: "${chat.url}v1", apiKey: none }\n`,
        })
        const end = await ended(
          gateway,
          await ask(gateway, 'POST', '/v1/predictions', {
            model: 'text',
            input: { prompt: 'Hi' },
            webhook: `http://127.0.0.1:${hooks.port}/text`,
            webhook_events_filter: ['start', 'completed'],
          }),
        )
        expect([end.status, end.output, polls, await billOf(gateway, end)]).toEqual(['succeeded', 'Hello', 2, 0.02])
        await until(() => calls.length === 2)
        expect(calls.map(({ status }) => status)).toEqual(['processing', 'succeeded'])
      } finally {
        await chat.stop(true)
      }
    },
    30_000,
  )
})

once(
  'a prediction that exceeds the total timeout is cancelled at its provider, and costs nothing',
  async () => {
    const gateway = await start(upstream.url, { settings: 'timeouts: { total: 1s }\n' })
    const end = await ended(gateway, await create(gateway, { key: 'stuck', ms: 600_000 }))
    expect([
      end.status,
      end.error,
      upstream.cancels.filter((key) => key === 'stuck').length,
      await billOf(gateway, end),
    ]).toEqual(['failed', expect.stringContaining('did not end in time'), 1, 0])
    await until(() => calls.length === 1)
    expect(calls[0]).toMatchObject({ path: '/stuck', status: 'failed' })
  },
  30_000,
)

once(
  'a creation whose connection breaks is not sent again, on a new connection or a reused one',
  async () => {
    const keys: string[] = []
    let dies = false
    const answerTo = (socket: RawSocket, body: object): void => {
      const text = JSON.stringify(body)
      socket.write(
        `HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      )
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
  },
  30_000,
)

once(
  'an id that would change the path of a poll is refused',
  async () => {
    const gateway = await start(upstream.url)
    const polls = upstream.polls
    for (const id of ['../files/x', 'a/b', '', '.', 'x?y=1', 5]) {
      upstream.instead = (kind) => (kind === 'POST' ? Response.json({ id, status: 'processing' }) : undefined)
      const end = await ended(gateway, await create(gateway, { key: 'odd-id' }))
      expect([id, end.status, await billOf(gateway, end)]).toEqual([id, 'failed', 0])
    }
    expect(upstream.polls).toBe(polls)
  },
  30_000,
)

test('an end and a cancellation at the same time are one end, which is reported once', async () => {
  const gateway = await startProcess(upstream.url, { settings: 'predictions: { concurrency: 20 }\n' })
  const ends = await Promise.all(
    Array.from({ length: 20 }, async (_, number) => {
      const made = await create(gateway, { key: `race-${number}`, ms: 300 })
      await Bun.sleep(230 + number * 15)
      const responses = await Promise.all(
        Array.from({ length: 4 }, () => ask(gateway, 'POST', `/v1/predictions/${made.id}/cancel`)),
      )
      const end = await ended(gateway, made)
      for (const one of responses) if (one.completed_at !== null) expect(one).toEqual(end)
      return { number, end }
    }),
  )
  await until(() => calls.length >= 20)
  await Bun.sleep(100)
  expect(calls.map(({ path, status }) => `${path} ${status}`).toSorted()).toEqual(
    ends.map(({ number, end }) => `/race-${number} ${end.status}`).toSorted(),
  )
  for (const { end } of ends)
    expect([end.status === 'succeeded' || end.status === 'canceled', await billOf(gateway, end)]).toEqual([true, 0.01])
}, 30_000)
