import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { handleRequest } from '../../src/app.ts'
import { PREFIX } from '../../src/endpoints/predictions/prediction.ts'
import { Predictor } from '../../src/endpoints/predictions/predictor.ts'
import { Webhooks } from '../../src/endpoints/predictions/webhooks.ts'
import { GatewayError } from '../../src/error.ts'
import { log } from '../../src/log/log.ts'
import type { GatewayContext } from '../../src/routes.ts'
import type { Store } from '../../src/store/store.ts'
import { expectBookRight } from '../audit.ts'
import { until } from '../transport/raw-server.ts'
import type { Overrides } from '../store/overriding.ts'
import { inProcessGateway } from './in-process.ts'
import { predictionProvider, type PredictionProvider, type Shown } from './predicting.ts'

/** Predictions while some writes to the store fail. Each test waits for repetitions, so it has a gateway of its own. */

const LIMIT_MS = 60_000

let logged: ReturnType<typeof spyOn>
beforeAll(() => {
  logged = spyOn(log, 'error').mockImplementation(() => {})
})
afterAll(() => logged.mockRestore())

const full = (): Promise<never> => Promise.reject(new GatewayError('store_unavailable', 'The disk is full.'))

class Rig {
  readonly provider: PredictionProvider
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
  /** Bodies of webhook calls. */
  readonly hooked: string[] = []
  readonly hooks: ReturnType<typeof Bun.serve>
  /** Replaced methods of the store. */
  failing: Overrides = {}
  plain!: Store
  app!: GatewayContext
  webhooks!: Webhooks
  #headers: Record<string, string> = {}

  constructor() {
    this.hooks = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => (this.hooked.push(await request.text()), new Response()),
    })
    this.provider = predictionProvider()
    this.provider.onMade = (made) => void Object.assign(made, { status: 'succeeded', output: 'done' })
  }

  async start(): Promise<void> {
    const { plain, app, headers } = await inProcessGateway(
      this.folder,
      `
billing: { startingCredit: 1, delay: 0s }
fetch: { private: ["127.0.0.1:${this.hooks.port}"] }
providers: { up: { protocol: predictions, baseUrl: "${this.provider.url}", apiKey: none } }
models: { maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } } }
`,
      () => this.failing,
    )
    this.plain = plain
    this.#headers = headers
    this.webhooks = new Webhooks(app)
    this.app = Object.assign(app, { predictor: new Predictor(app, this.webhooks) })
  }

  async stop(): Promise<void> {
    this.failing = {}
    await this.app.predictor.stop()
    await this.webhooks.stop()
    await this.app.ledger.stop()
    await this.app.files.stop()
    await this.plain.close()
    await this.provider.stop()
    await this.hooks.stop(true)
    await expectBookRight(this.folder)
    rmSync(this.folder, { recursive: true, force: true })
  }

  ask(method: string, path: string, body?: object, more: Record<string, string> = {}): Promise<Response> {
    return handleRequest(
      this.app,
      new Request(`http://sluice${path}`, {
        method,
        headers: { ...this.#headers, ...more },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    )
  }

  create(more: object = {}): Promise<Response> {
    return this.ask('POST', '/v1/predictions', { model: 'maker/flux', input: { prompt: 'A cat' }, ...more })
  }

  async look(id: string): Promise<Shown> {
    return (await (await this.ask('GET', `/v1/predictions/${id}`)).json()) as Shown
  }

  async list(): Promise<Shown[]> {
    return ((await (await this.ask('GET', '/v1/predictions')).json()) as { results: Shown[] }).results
  }

  async credit(): Promise<bigint> {
    return (await this.plain.ledger.state()).balances.find(({ kind }) => kind === 'credit')!.balance
  }

  /** The number of open generations. */
  async held(): Promise<number> {
    return (await this.plain.ledger.openGenerations()).length
  }

  /** Has all changes of predictions fail; resolves when one that ends a prediction did. */
  endRefused(): Promise<void> {
    const refused = Promise.withResolvers<void>()
    this.failing['predictions.update'] = ((change: { completedAt: number | null }) => {
      if (change.completedAt !== null) refused.resolve()
      return full()
    }) as never
    return refused.promise
  }
}

function storeTest(name: string, run: (at: Rig) => Promise<void>): void {
  const inRig = async (): Promise<void> => {
    const at = new Rig()
    await at.start()
    try {
      await run(at)
    } finally {
      await at.stop()
    }
  }
  test.concurrent(name, inRig, LIMIT_MS)
}

for (const method of ['predictions.add', 'ledger.saveOpen'])
  storeTest(`a prediction that cannot be stored (${method}) is refused, and nothing of it remains`, async (at) => {
    at.failing[method] = full
    expect((await at.create()).status).toBe(503)
    at.failing = {}
    expect((await at.list()).filter(({ status }) => status === 'starting' || status === 'processing')).toEqual([])
    expect(at.provider.made).toEqual([])
    expect([await at.held(), await at.credit(), at.app.ledger.deferred]).toEqual([0, 1_000_000_000n, []])
    const { id } = (await (await at.create()).json()) as Shown
    await until(() => at.provider.made.length === 1)
    await at.app.predictor.ended(id.slice(PREFIX.length), LIMIT_MS)
    expect((await at.look(id)).status).toBe('succeeded')
    expect(await at.credit()).toBe(990_000_000n)
  })

storeTest('a prediction whose start cannot be stored is not sent', async (at) => {
  const refused = at.endRefused()
  const { id } = (await (await at.create()).json()) as Shown
  await refused
  at.failing = {}
  await at.app.predictor.ended(id.slice(PREFIX.length), LIMIT_MS)
  expect(await at.look(id)).toMatchObject({ status: 'failed', error: 'The disk is full.' })
  expect(at.provider.made).toEqual([])
  expect([await at.held(), await at.credit()]).toEqual([0, 1_000_000_000n])
})

for (const how of ['fails', 'does not answer'])
  storeTest(`a client that waits gets its prediction where the store ${how}`, async (at) => {
    const answer = Promise.withResolvers<never>()
    answer.promise.catch(() => {})
    at.failing['predictions.find'] = how === 'fails' ? full : () => answer.promise
    const before = performance.now()
    const made = await at.ask('POST', '/v1/predictions', { model: 'maker/flux', input: {} }, { prefer: 'wait=1' })
    const { id, status } = (await made.json()) as Shown
    expect([made.status, status, id]).toEqual([200, 'starting', expect.stringMatching(/^pred_/)])
    expect(performance.now() - before).toBeLessThan(30_000)
    at.failing = {}
    answer.reject(new GatewayError('store_unavailable', 'The disk is full.'))
  })

storeTest('a prediction whose end cannot be stored ends when it can be', async (at) => {
  at.provider.onMade = (made) => {
    made.status = 'processing'
  }
  const { id } = (await (await at.create()).json()) as Shown
  await until(() => (at.provider.made[0]?.polls ?? 0) > 0)
  const refused = at.endRefused()
  Object.assign(at.provider.made[0]!, { status: 'succeeded', output: 'done' })
  await refused
  expect(await at.look(id)).toMatchObject({ status: 'processing', output: null })
  // A prediction whose end could not be written can no longer be cancelled, since it has ended.
  const canceled = at.ask('POST', `/v1/predictions/${id}/cancel`)
  at.failing = {}
  expect(await (await canceled).json()).toMatchObject({ status: 'succeeded', output: 'done' })
  const { made } = at.provider
  expect([await at.held(), await at.credit(), made.length, made[0]!.canceled]).toEqual([0, 990_000_000n, 1, 0])
})

for (const how of ['slow', 'broken'])
  storeTest(`an end is not shown before its record can be looked up: a store that is ${how}`, async (at) => {
    const written = Promise.withResolvers<void>()
    const closeGeneration = at.plain.ledger.closeGeneration.bind(at.plain.ledger)
    at.failing['ledger.closeGeneration'] = (
      how === 'broken'
        ? full
        : async (...closing: Parameters<Store['ledger']['closeGeneration']>) => (
            await written.promise, closeGeneration(...closing)
          )
    ) as never
    const { id, urls } = (await (
      await at.create({ webhook: `${at.hooks.url}done`, webhook_events_filter: ['completed'] })
    ).json()) as Shown
    const stream = (await at.ask('GET', new URL(urls.stream).pathname)).text()
    let streamed = false
    void stream.then(() => {
      streamed = true
    })
    const own = id.slice(PREFIX.length)
    while ((await at.plain.predictions.unfinished()).length > 0) await Bun.sleep(5)
    for (let round = 0; round < 10; round++) {
      at.webhooks.round()
      await Bun.sleep(20)
    }
    expect([(await at.look(id)).status, (await at.list())[0]!.status, streamed, at.hooked]).toEqual([
      'starting',
      'starting',
      false,
      [],
    ])
    expect(await (await at.ask('POST', `/v1/predictions/${id}/cancel`)).json()).toMatchObject({ status: 'starting' })
    expect(await at.credit()).toBe(1_000_000_000n)
    at.failing = {}
    written.resolve()
    await at.app.predictor.ended(own, LIMIT_MS)
    expect((await at.ask('GET', `/v1/management/generation?id=${id}`)).status).toBe(200)
    expect(await at.look(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    expect(await stream).toContain('event: done')
    await until(() => at.hooked.length === 1)
    expect([await at.held(), await at.credit()]).toEqual([0, 990_000_000n])
  })

storeTest('a prediction whose provider id cannot be stored is followed all the same', async (at) => {
  const changePrediction = at.plain.predictions.update.bind(at.plain.predictions)
  at.failing['predictions.update'] = ((prediction: { state: string; completedAt: number | null }, deliveries: never) =>
    prediction.completedAt === null && prediction.state.includes('"upstream"')
      ? full()
      : changePrediction(prediction as never, deliveries)) as never
  at.provider.onMade = (made) => {
    made.status = 'processing'
  }
  const { id } = (await (await at.create()).json()) as Shown
  await until(() => (at.provider.made[0]?.polls ?? 0) > 0)
  Object.assign(at.provider.made[0]!, { status: 'succeeded', output: 'done' })
  await at.app.predictor.ended(id.slice(PREFIX.length), LIMIT_MS)
  expect((await at.look(id)).status).toBe('succeeded')
  expect([await at.held(), await at.credit(), at.provider.made.length]).toEqual([0, 990_000_000n, 1])
})
