import { describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import type { Store } from '../../src/store/store.ts'
import { inScene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { newPostgresFolder, storeIn } from '../stores.ts'
import { until } from '../transport/raw-server.ts'
import { predictionProvider, Predictions, type Made } from './predicting.ts'

/** Predictions of several processes over one PostgreSQL. */

const FEE = 10_000_000n

class Scene {
  readonly provider = predictionProvider()
  readonly receiver: ReturnType<typeof Bun.serve>
  readonly received: string[] = []
  readonly folder = newPostgresFolder()
  readonly processes: GatewayProcess[] = []

  constructor() {
    this.provider.onMade = (made) => {
      made.status = 'processing'
    }
    this.receiver = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        this.received.push(((await request.json()) as { id: string }).id)
        return new Response()
      },
    })
  }

  /** Starts two processes, and gives a client of each. */
  async start(): Promise<[Predictions, Predictions]> {
    const config = `
store: { deadAfter: 4s }
limits: { requestsPerMinute: 1000000 }
timeouts: { drain: 300ms }
billing: { startingCredit: 1 }
predictions: { concurrency: 1 }
fetch: { private: ["127.0.0.1:${this.receiver.port}"] }
providers:
  up: { protocol: predictions, baseUrl: "${this.provider.url}", apiKey: none }
models:
  maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } }
`
    for (let count = 0; count < 2; count++)
      this.processes.push(await startGatewayProcess({ data: this.folder, config }))
    const [creator, other] = this.processes.map(({ url, key }) => new Predictions(url, key))
    return [creator!, other!]
  }

  madeFor(prompt: string): Made[] {
    return this.provider.made.filter(({ input }) => input.prompt === prompt)
  }

  change(prompt: string, change: Partial<Made>): void {
    Object.assign(this.madeFor(prompt)[0]!, change)
  }

  followed(prompt: string): Promise<unknown> {
    return until(() => this.madeFor(prompt).length === 1 && this.madeFor(prompt)[0]!.polls > 0)
  }

  /** One record per prediction with its bill. */
  async bills(): Promise<Record<string, bigint>> {
    const store = await storeIn(this.folder)
    try {
      while ((await store.ledger.openGenerations()).length > 0) await Bun.sleep(50)
      const records = await store.ledger.generations(undefined, 100)
      return Object.fromEntries(records.map(({ id, bill }) => [`pred_${id}`, bill]))
    } finally {
      await store.close()
    }
  }

  async end(): Promise<void> {
    for (const one of this.processes) await one.stop()
    rmSync(this.folder, { recursive: true, force: true })
    await Promise.all([this.provider.stop(), this.receiver.stop(true)])
  }
}

/** A cancellation is answered once the prediction has ended, or after 5 s where a busy process has not ended it. */
const CANCEL_MS = 5_000

async function cancelAt(process: Predictions, id: string): Promise<void> {
  for (;;) {
    const began = performance.now()
    if ((await process.cancel(id)).status === 'canceled') return
    expect(performance.now() - began).toBeGreaterThan(0.9 * CANCEL_MS)
  }
}

/** They wait for one another's processes, so they run at the same time, each with its own. */
const LIMIT_MS = 120_000

function sharedTest(name: string, run: (at: Scene) => Promise<void>): void {
  test.concurrent(
    name,
    inScene(() => new Scene(), run),
    LIMIT_MS,
  )
}

describe('a process that ends', () => {
  for (const signal of ['SIGKILL', 'SIGTERM'] as const)
    sharedTest(`predictions of a process that ended by ${signal} go on at another one, each once`, async (at) => {
      const [creator, other] = await at.start()
      const [first, second] = [`First ${signal}`, `Second ${signal}`]
      const webhook = { webhook: `http://127.0.0.1:${at.receiver.port}/`, webhook_events_filter: ['completed'] }
      const running = await creator.create('maker/flux', { prompt: first }, webhook)
      const queued = await creator.create('maker/flux', { prompt: second })
      await at.followed(first)
      at.processes[0]!.kill(signal)
      await at.processes[0]!.exited
      at.change(first, { status: 'succeeded', output: 'done' })
      expect(await other.ended(running.id)).toMatchObject({ status: 'succeeded', output: 'done' })
      await at.followed(second)
      at.change(second, { status: 'succeeded', output: 'done, too' })
      expect(await other.ended(queued.id)).toMatchObject({ status: 'succeeded', output: 'done, too' })
      expect([at.madeFor(first).length, at.madeFor(second).length]).toEqual([1, 1])
      await until(() => at.received.includes(running.id))
      expect(at.received.filter((id) => id === running.id).length).toBe(1)
      expect(await at.bills()).toEqual({ [running.id]: FEE, [queued.id]: FEE })
    })
})

describe('another process', () => {
  sharedTest('a prediction is shown and streamed by a process that does not run it', async (at) => {
    const [creator, other] = await at.start()
    const { id, urls } = await creator.create('maker/flux', { prompt: 'Streamed' })
    await at.followed('Streamed')
    const path = new URL(urls.stream).pathname
    const stream = await fetch(at.processes[1]!.url + path)
    expect(stream.status).toBe(200)
    at.change('Streamed', { output: ['one'], logs: 'begun\n' })
    while (((await other.get(id)).output as string[] | null)?.[0] !== 'one') await Bun.sleep(20)
    // It is written although no other change follows.
    at.change('Streamed', { output: ['one', 'two'] })
    while (((await other.get(id)).output as string[])[1] !== 'two') await Bun.sleep(20)
    at.change('Streamed', { status: 'succeeded', output: ['one', 'two', 'three'] })
    const text = await stream.text()
    expect(text.match(/^(?:event|data): .*$/gm)).toEqual(
      expect.arrayContaining(['data: one', 'data: begun', 'data: two', 'data: three', 'event: done', 'data: {}']),
    )
    expect(await other.get(id)).toMatchObject({ status: 'succeeded', output: ['one', 'two', 'three'] })
  })

  sharedTest('a prediction is cancelled through a process that does not run it', async (at) => {
    const [creator, other] = await at.start()
    const running = await creator.create('maker/flux', { prompt: 'Running' })
    const queued = await creator.create('maker/flux', { prompt: 'Queued' })
    await at.followed('Running')
    for (const { id } of [queued, running]) await cancelAt(other, id)
    expect([at.madeFor('Running')[0]!.canceled, at.madeFor('Queued').length]).toEqual([1, 0])
    expect(await creator.get(running.id)).toMatchObject({ status: 'canceled' })
    expect(await at.bills()).toEqual({ [running.id]: FEE, [queued.id]: 0n })
  })
})

sharedTest(
  'a webhook call is made by one of several processes, and by another one once that has ended',
  async ({ folder }) => {
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
      // A delivery that was read before another attempt was made is not attempted now.
      await first.updateDelivery(ids[0]!, 2, 5)
      expect(await second.shared!.claimDelivery(ids[0]!, 1)).toBe(false)
    } finally {
      for (const store of stores) await store.close()
    }
  },
)
