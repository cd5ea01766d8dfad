import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test'
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

/** Predictions while some writes to the store fail. */

let provider: PredictionProvider
let folder: string
let plain: Store
let app: GatewayContext
let headers: Record<string, string>
/** Replaced methods of the store. */
let failing: Overrides
let logged: ReturnType<typeof spyOn>
let hooks: ReturnType<typeof Bun.serve>
/** Bodies of webhook calls. */
let hooked: string[]
let webhooks: Webhooks

const full = (): Promise<never> => Promise.reject(new GatewayError('store_unavailable', 'The disk is full.'))

beforeEach(async () => {
  logged = spyOn(log, 'error').mockImplementation(() => {})
  failing = {}
  hooked = []
  hooks = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => (hooked.push(await request.text()), new Response()),
  })
  provider = predictionProvider()
  provider.onMade = (made) => void Object.assign(made, { status: 'succeeded', output: 'done' })
  folder = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
  const built = await inProcessGateway(
    folder,
    `
billing: { startingCredit: 1, delay: 0s }
fetch: { private: ["127.0.0.1:${hooks.port}"] }
providers: { up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none } }
models: { maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } } }
`,
    () => failing,
  )
  plain = built.plain
  headers = built.headers
  webhooks = new Webhooks(built.app)
  app = Object.assign(built.app, { predictor: new Predictor(built.app, webhooks) })
})
afterEach(async () => {
  failing = {}
  await app.predictor.stop()
  await webhooks.stop()
  await app.ledger.stop()
  await app.files.stop()
  await plain.close()
  await provider.stop()
  await hooks.stop(true)
  logged.mockRestore()
  await expectBookRight(folder)
  rmSync(folder, { recursive: true, force: true })
})

const ask = (method: string, path: string, body?: object, more: Record<string, string> = {}): Promise<Response> =>
  handleRequest(
    app,
    new Request(`http://sluice${path}`, {
      method,
      headers: { ...headers, ...more },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  )
const create = (more: object = {}): Promise<Response> =>
  ask('POST', '/v1/predictions', { model: 'maker/flux', input: { prompt: 'A cat' }, ...more })
const look = async (id: string): Promise<Shown> => (await (await ask('GET', `/v1/predictions/${id}`)).json()) as Shown
const list = async (): Promise<Shown[]> =>
  ((await (await ask('GET', '/v1/predictions')).json()) as { results: Shown[] }).results
const credit = async (): Promise<bigint> =>
  (await plain.ledger.state()).balances.find(({ kind }) => kind === 'credit')!.balance

/** The number of open generations. */
const held = async (): Promise<number> => (await plain.ledger.openGenerations()).length

test.each(['predictions.add', 'ledger.saveOpen'])(
  'a prediction that cannot be stored (%s) is refused, and nothing of it remains',
  async (method) => {
    failing[method] = full
    expect((await create()).status).toBe(503)
    failing = {}
    expect((await list()).filter(({ status }) => status === 'starting' || status === 'processing')).toEqual([])
    expect(provider.made).toEqual([])
    expect([await held(), await credit(), app.ledger.deferred]).toEqual([0, 1_000_000_000n, []])
    const { id } = (await (await create()).json()) as Shown
    await until(() => provider.made.length === 1)
    await app.predictor.ended(id.slice(PREFIX.length), 5_000)
    expect((await look(id)).status).toBe('succeeded')
    expect(await credit()).toBe(990_000_000n)
  },
)

test('a prediction whose start cannot be stored is not sent', async () => {
  failing['predictions.update'] = full
  const { id } = (await (await create()).json()) as Shown
  await until(() => logged.mock.calls.length > 0)
  failing = {}
  await app.predictor.ended(id.slice(PREFIX.length), 5_000)
  expect(await look(id)).toMatchObject({ status: 'failed', error: 'The disk is full.' })
  expect(provider.made).toEqual([])
  expect([await held(), await credit()]).toEqual([0, 1_000_000_000n])
})

test.each(['fails', 'does not answer'])(
  'a client that waits gets its prediction where the store %s',
  async (how) => {
    const answer = Promise.withResolvers<never>()
    answer.promise.catch(() => {})
    failing['predictions.find'] = how === 'fails' ? full : () => answer.promise
    const before = performance.now()
    const made = await ask('POST', '/v1/predictions', { model: 'maker/flux', input: {} }, { prefer: 'wait=1' })
    const { id, status } = (await made.json()) as Shown
    expect([made.status, status, id]).toEqual([200, 'starting', expect.stringMatching(/^pred_/)])
    expect(performance.now() - before).toBeLessThan(10_000)
    failing = {}
    answer.reject(new GatewayError('store_unavailable', 'The disk is full.'))
  },
  20_000,
)

test('a prediction whose end cannot be stored ends when it can be', async () => {
  provider.onMade = (made) => {
    made.status = 'processing'
  }
  const { id } = (await (await create()).json()) as Shown
  await until(() => (provider.made[0]?.polls ?? 0) > 0)
  failing['predictions.update'] = full
  Object.assign(provider.made[0]!, { status: 'succeeded', output: 'done' })
  const before = logged.mock.calls.length
  await until(() => logged.mock.calls.length > before)
  expect(await look(id)).toMatchObject({ status: 'processing', output: null })
  // A prediction whose end could not be written can no longer be cancelled, since it has ended.
  const canceled = ask('POST', `/v1/predictions/${id}/cancel`)
  failing = {}
  expect(await (await canceled).json()).toMatchObject({ status: 'succeeded', output: 'done' })
  expect([await held(), await credit(), provider.made.length, provider.made[0]!.canceled]).toEqual([
    0,
    990_000_000n,
    1,
    0,
  ])
}, 20_000)

test.each(['slow', 'broken'])(
  'an end is not shown before its record can be looked up: a store that is %s',
  async (how) => {
    const written = Promise.withResolvers<void>()
    const closeGeneration = plain.ledger.closeGeneration.bind(plain.ledger)
    failing['ledger.closeGeneration'] = (
      how === 'broken'
        ? full
        : async (...closing: Parameters<Store['ledger']['closeGeneration']>) => (
            await written.promise, closeGeneration(...closing)
          )
    ) as never
    const { id, urls } = (await (
      await create({ webhook: `${hooks.url}done`, webhook_events_filter: ['completed'] })
    ).json()) as Shown
    const stream = (await ask('GET', new URL(urls.stream).pathname)).text()
    let streamed = false
    void stream.then(() => {
      streamed = true
    })
    const own = id.slice(PREFIX.length)
    while ((await plain.predictions.unfinished()).length > 0) await Bun.sleep(5)
    for (let round = 0; round < 10; round++) {
      webhooks.round()
      await Bun.sleep(20)
    }
    expect([(await look(id)).status, (await list())[0]!.status, streamed, hooked]).toEqual([
      'starting',
      'starting',
      false,
      [],
    ])
    expect(await (await ask('POST', `/v1/predictions/${id}/cancel`)).json()).toMatchObject({ status: 'starting' })
    expect(await credit()).toBe(1_000_000_000n)
    failing = {}
    written.resolve()
    await app.predictor.ended(own, 10_000)
    expect((await ask('GET', `/v1/management/generation?id=${id}`)).status).toBe(200)
    expect(await look(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    expect(await stream).toContain('event: done')
    await until(() => hooked.length === 1)
    expect([await held(), await credit()]).toEqual([0, 990_000_000n])
  },
  20_000,
)

test('a prediction whose provider id cannot be stored is followed all the same', async () => {
  const changePrediction = plain.predictions.update.bind(plain.predictions)
  failing['predictions.update'] = ((prediction: { state: string; completedAt: number | null }, deliveries: never) =>
    prediction.completedAt === null && prediction.state.includes('"upstream"')
      ? full()
      : changePrediction(prediction as never, deliveries)) as never
  provider.onMade = (made) => {
    made.status = 'processing'
  }
  const { id } = (await (await create()).json()) as Shown
  await until(() => (provider.made[0]?.polls ?? 0) > 0)
  Object.assign(provider.made[0]!, { status: 'succeeded', output: 'done' })
  await app.predictor.ended(id.slice(PREFIX.length), 5_000)
  expect((await look(id)).status).toBe('succeeded')
  expect([await held(), await credit(), provider.made.length]).toEqual([0, 990_000_000n, 1])
})
