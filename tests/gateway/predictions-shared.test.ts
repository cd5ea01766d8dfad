import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import type { Store } from '../../src/store/store.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { newPostgresFolder, storeIn } from '../stores.ts'
import { until } from '../transport/raw-server.ts'
import { predictionProvider, Predictions, type Made, type PredictionProvider } from './predicting.ts'

/** Predictions of several processes over one PostgreSQL. */

const FEE = 10_000_000n

let provider: PredictionProvider
let receiver: ReturnType<typeof Bun.serve>
const received: string[] = []
let folder: string
let processes: GatewayProcess[] = []
beforeAll(() => {
  provider = predictionProvider()
  receiver = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      received.push(((await request.json()) as { id: string }).id)
      return new Response()
    },
  })
})
afterAll(() => Promise.all([provider.stop(), receiver.stop(true)]))

beforeEach(async () => {
  folder = newPostgresFolder()
  Object.assign(provider, { creates: 'answer', fails: undefined, onMade: (made: Made) => (made.status = 'processing') })
  processes = [await start(), await start()]
}, 60_000)
afterEach(async () => {
  for (const one of processes) await one.stop()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

const start = (): Promise<GatewayProcess> =>
  startGatewayProcess({
    data: folder,
    config: `
store: { deadAfter: 2s }
limits: { requestsPerMinute: 1000000 }
timeouts: { drain: 300ms }
billing: { startingCredit: 1 }
predictions: { concurrency: 1 }
fetch: { private: ["127.0.0.1:${receiver.port}"] }
providers:
  up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none }
models:
  maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } }
`,
  })

const clientOf = ({ url, key }: GatewayProcess): Predictions => new Predictions(url, key)

const madeFor = (prompt: string): Made[] => provider.made.filter(({ input }) => input.prompt === prompt)
const change = (prompt: string, change: Partial<Made>): void => void Object.assign(madeFor(prompt)[0]!, change)
const isFollowed = (prompt: string) => () => madeFor(prompt).length === 1 && madeFor(prompt)[0]!.polls > 0

/** One record per prediction with its bill. */
async function bills(): Promise<Record<string, bigint>> {
  const store = await storeIn(folder)
  try {
    for (let looks = 0; looks < 200 && (await store.ledger.openGenerations()).length > 0; looks++) await Bun.sleep(50)
    const records = await store.ledger.generations(undefined, 100)
    return Object.fromEntries(records.map(({ id, bill }) => [`pred_${id}`, bill]))
  } finally {
    await store.close()
  }
}

describe('a process that ends', () => {
  test.each(['SIGKILL', 'SIGTERM'] as const)(
    'predictions of a process that ended by %s go on at another one, each once',
    async (signal) => {
      const [maker, other] = processes.map(clientOf) as [Predictions, Predictions]
      const [first, second] = [`First ${signal}`, `Second ${signal}`]
      const webhook = { webhook: `http://127.0.0.1:${receiver.port}/`, webhook_events_filter: ['completed'] }
      const running = await maker.create('maker/flux', { prompt: first }, webhook)
      const queued = await maker.create('maker/flux', { prompt: second })
      await until(isFollowed(first))
      processes[0]!.kill(signal)
      await processes[0]!.exited
      change(first, { status: 'succeeded', output: 'done' })
      expect(await other.ended(running.id)).toMatchObject({ status: 'succeeded', output: 'done' })
      await until(isFollowed(second))
      change(second, { status: 'succeeded', output: 'done, too' })
      expect(await other.ended(queued.id)).toMatchObject({ status: 'succeeded', output: 'done, too' })
      expect([madeFor(first).length, madeFor(second).length]).toEqual([1, 1])
      await until(() => received.includes(running.id))
      expect(received.filter((id) => id === running.id).length).toBe(1)
      expect(await bills()).toEqual({ [running.id]: FEE, [queued.id]: FEE })
    },
    30_000,
  )
})

describe('another process', () => {
  test('a prediction is shown and streamed by a process that does not run it', async () => {
    const [maker, other] = processes.map(clientOf) as [Predictions, Predictions]
    const { id, urls } = await maker.create('maker/flux', { prompt: 'Streamed' })
    await until(isFollowed('Streamed'))
    const path = new URL(urls.stream).pathname
    const stream = await fetch(processes[1]!.url + path)
    expect(stream.status).toBe(200)
    change('Streamed', { output: ['one'], logs: 'begun\n' })
    while (((await other.get(id)).output as string[] | null)?.[0] !== 'one') await Bun.sleep(20)
    // It is written although no other change follows.
    change('Streamed', { output: ['one', 'two'] })
    while (((await other.get(id)).output as string[])[1] !== 'two') await Bun.sleep(20)
    change('Streamed', { status: 'succeeded', output: ['one', 'two', 'three'] })
    const text = await stream.text()
    expect(text.match(/^(?:event|data): .*$/gm)).toEqual(
      expect.arrayContaining(['data: one', 'data: begun', 'data: two', 'data: three', 'event: done', 'data: {}']),
    )
    expect(await other.get(id)).toMatchObject({ status: 'succeeded', output: ['one', 'two', 'three'] })
  }, 30_000)

  test('a prediction is cancelled through a process that does not run it', async () => {
    const [maker, other] = processes.map(clientOf) as [Predictions, Predictions]
    const running = await maker.create('maker/flux', { prompt: 'Running' })
    const queued = await maker.create('maker/flux', { prompt: 'Queued' })
    await until(isFollowed('Running'))
    expect(await other.cancel(queued.id)).toMatchObject({ status: 'canceled' })
    expect(await other.cancel(running.id)).toMatchObject({ status: 'canceled' })
    expect([madeFor('Running')[0]!.canceled, madeFor('Queued').length]).toEqual([1, 0])
    expect(await maker.get(running.id)).toMatchObject({ status: 'canceled' })
    expect(await bills()).toEqual({ [running.id]: FEE, [queued.id]: 0n })
  }, 30_000)
})

test('a webhook call is made by one of several processes, and by another one once that has ended', async () => {
  const stores: Store[] = [await storeIn(folder, { exclusive: true }), await storeIn(folder, { exclusive: true })]
  const [first, second] = stores.map(({ predictions }) => predictions) as [Store['predictions'], Store['predictions']]
  try {
    const state = { accountId: 'a', model: 'm', createdAt: 1, startedAt: null, state: '{}' }
    const ids = Array.from({ length: 20 }, (_, at) => at.toString(16).padStart(32, '0'))
    for (const id of ids) {
      await first.add({ ...state, id, status: 'starting', completedAt: null, input: '{}' })
      const call = { id, accountId: 'a', predictionId: id, url: 'http://a.example', body: '', attempts: 0, nextAt: 1 }
      await first.update({ ...state, id, status: 'failed', completedAt: 2 }, [call])
    }
    // The process that ended them has them to itself.
    expect((await first.dueDeliveries(9, 100)).length).toBe(20)
    expect(await second.dueDeliveries(9, 100)).toEqual([])
    expect(await second.nextDelivery([])).toBeUndefined()
    for (const id of ids) await first.updateDelivery(id, 1, 5)
    expect((await second.dueDeliveries(9, 100)).length).toBe(20)
    const claims = await Promise.all(
      ids.map((id) => Promise.all([first, second].map(({ shared }) => shared!.claimDelivery(id, 1)))),
    )
    expect(claims.map((pair) => pair.filter(Boolean).length)).toEqual(ids.map(() => 1))
    // What was read before another attempt was made is not attempted now.
    await first.updateDelivery(ids[0]!, 2, 5)
    expect(await second.shared!.claimDelivery(ids[0]!, 1)).toBe(false)
  } finally {
    for (const store of stores) await store.close()
  }
})
