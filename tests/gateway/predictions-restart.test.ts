import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noUsage } from '../../src/generation/usage.ts'
import type { Store } from '../../src/store/store.ts'
import type { GenerationRecord, PredictionChange } from '../../src/store/store.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { gatedProvider, type Gated } from './gated.ts'
import { predictionProvider, Predictions, type PredictionProvider, type Shown } from './predicting.ts'
import { storeIn } from '../stores.ts'

/** Predictions of a server that is stopped or killed, and of the server that replaces it. */

const FEE = 10_000_000n
const CREDIT = 1_000_000_000n

let provider: PredictionProvider
let gated: Gated
beforeAll(() => {
  ;[provider, gated] = [predictionProvider(), gatedProvider()]
})
afterAll(() => Promise.all([provider.stop(), gated.stop()]))

let folder: string
let running: GatewayProcess
let client: Predictions
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
  Object.assign(provider, {
    creates: 'answer',
    fails: undefined,
    onMade: (made: { status: string }) => {
      made.status = 'processing'
    },
  })
  gated.shut()
  await start()
})
afterEach(async () => {
  gated.open()
  await running.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function start(isOn = true): Promise<void> {
  running = await startGatewayProcess({
    data: folder,
    config: `
limits: { requestsPerMinute: 1000000 }
timeouts: { drain: 300ms }
billing: { startingCredit: 1 }
predictions: { concurrency: 1 }
providers:
  up: { protocol: predictions, baseUrl: "${provider.url}", apiKey: none, enabled: ${isOn} }
  gated: { protocol: chat.completions, baseUrl: "${gated.url}", apiKey: none }
models:
  maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } }
  maker/gated: { endpoints: [{ provider: gated, model: m }], price: { prompt: 1, completion: 2 } }
`,
  })
  client = new Predictions(running.url, running.key)
}

type Signal = 'SIGTERM' | 'SIGKILL'

async function end(signal: Signal): Promise<void> {
  running.kill(signal)
  expect(await running.exited).toBe(signal === 'SIGTERM' ? 0 : 137)
}

async function restart(signal: Signal, between: (store: Store) => Promise<void> = async () => {}): Promise<void> {
  await end(signal)
  const store = await storeIn(folder)
  await between(store)
  await store.close()
  await start()
}

async function kept(): Promise<{ records: GenerationRecord[]; open: number; credit: bigint | undefined }> {
  const store = await storeIn(folder)
  try {
    const { balances } = await store.ledger.state()
    return {
      records: await store.ledger.generations(undefined, 100),
      open: (await store.ledger.openGenerations()).length,
      credit: balances.find(({ kind }) => kind === 'credit')?.balance,
    }
  } finally {
    await store.close()
  }
}

/** Asserts at the end of a test: one record per prediction, nothing open, and the credit less what was billed. */
async function expectSettled(bills: Record<string, bigint>): Promise<void> {
  for (let looks = 0; looks < 100 && (await kept()).open > 0; looks++) await Bun.sleep(20)
  const { records, open, credit } = await kept()
  expect(open).toBe(0)
  expect(Object.fromEntries(records.map(({ id, bill }) => [`pred_${id}`, bill]))).toEqual(bills)
  expect(credit).toBe(CREDIT - Object.values(bills).reduce((sum, bill) => sum + bill, 0n))
}

const madeFor = (prompt: string): PredictionProvider['made'] =>
  provider.made.filter(({ input }) => input.prompt === prompt)
const finish = (prompt: string): void =>
  void Object.assign(madeFor(prompt)[0]!, { status: 'succeeded', output: 'done' })

const idsOf = async (status: string): Promise<string[]> =>
  ((await (await client.send('GET', '/v1/predictions')).json()) as { results: Shown[] }).results
    .filter((one) => one.status === status)
    .map(({ id }) => id)

describe.each<Signal>(['SIGTERM', 'SIGKILL'])('after %s', (signal) => {
  test('a queued prediction runs after a restart, and a running one is followed at its provider', async () => {
    const [first, second] = [`First ${signal}`, `Second ${signal}`]
    const one = await client.create('maker/flux', { prompt: first })
    const two = await client.create('maker/flux', { prompt: second })
    await until(() => madeFor(first).length === 1 && madeFor(first)[0]!.polls > 0)
    await restart(signal)
    expect(await idsOf('starting')).toEqual([two.id])
    expect(await idsOf('processing')).toEqual([one.id])
    finish(first)
    expect(await client.ended(one.id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await until(() => madeFor(second).length === 1)
    finish(second)
    expect(await client.ended(two.id)).toMatchObject({ status: 'succeeded', output: 'done' })
    expect([madeFor(first).length, madeFor(second).length]).toEqual([1, 1])
    await expectSettled({ [one.id]: FEE, [two.id]: FEE })
  }, 20_000)

  test('a prediction that ended at its provider meanwhile is reported', async () => {
    const prompt = `Meanwhile ${signal}`
    const { id } = await client.create('maker/flux', { prompt })
    await until(() => madeFor(prompt).length === 1 && madeFor(prompt)[0]!.polls > 0)
    await restart(signal, async () => finish(prompt))
    expect(await client.ended(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await expectSettled({ [id]: FEE })
  }, 20_000)

  test('a prediction that its provider may have accepted fails, is not sent again and costs nothing', async () => {
    provider.creates = 'hang'
    const prompt = `Hanging ${signal}`
    const { id } = await client.create('maker/flux', { prompt })
    await until(() => madeFor(prompt).length === 1)
    await restart(signal)
    expect(await client.ended(id)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining(signal === 'SIGTERM' ? 'Sluice is stopping' : 'Create it again'),
    })
    await Bun.sleep(300)
    expect(madeFor(prompt).length).toBe(1)
    await expectSettled({ [id]: 0n })
  }, 20_000)

  test('a prediction whose response was in flight fails and costs nothing', async () => {
    const { id } = await client.create('maker/gated', { prompt: 'Hello', max_tokens: 10 })
    for (let looks = 0; looks < 500 && (await client.get(id)).output === null; looks++) await Bun.sleep(10)
    await restart(signal)
    expect(await client.ended(id)).toMatchObject({ status: 'failed', error: expect.any(String) })
    await expectSettled({ [id]: 0n })
  }, 20_000)
})

test('a server that stops lets a response end within the drain time', async () => {
  const { id } = await client.create('maker/gated', { prompt: 'Hello', max_tokens: 10 })
  for (let looks = 0; looks < 500 && (await client.get(id)).output === null; looks++) await Bun.sleep(10)
  setTimeout(() => gated.open(), 100)
  await restart('SIGTERM')
  expect(await client.ended(id)).toMatchObject({ status: 'succeeded', output: 'one two three' })
  await expectSettled({ [id]: 20_000n })
}, 20_000)

test('a prediction whose provider is removed from the configuration is followed when it returns', async () => {
  const prompt = 'Switched off'
  const { id } = await client.create('maker/flux', { prompt })
  await until(() => madeFor(prompt).length === 1 && madeFor(prompt)[0]!.polls > 0)
  await end('SIGTERM')
  const { polls } = madeFor(prompt)[0]!
  await start(false)
  finish(prompt)
  await Bun.sleep(500)
  expect([(await client.get(id)).status, madeFor(prompt)[0]!.polls]).toEqual(['processing', polls])
  await end('SIGTERM')
  await start()
  expect(await client.ended(id)).toMatchObject({ status: 'succeeded', output: 'done' })
  await expectSettled({ [id]: FEE })
}, 20_000)

test('a waiting client receives the current state when the server stops', async () => {
  const prompt = 'Waited for'
  const waiting = client.send('POST', '/v1/predictions', { model: 'maker/flux', input: { prompt } }, { prefer: 'wait' })
  await until(() => madeFor(prompt).length === 1 && madeFor(prompt)[0]!.polls > 0)
  await restart('SIGTERM')
  const { id, status } = (await (await waiting).json()) as Shown
  expect(status).toBe('starting')
  finish(prompt)
  expect((await client.ended(id)).status).toBe('succeeded')
}, 20_000)

describe('killed between two writes', () => {
  /**
   * A prediction that runs at its provider when the server is killed. `write`: changes the store before the next start.
   */
  async function interrupted(
    prompt: string,
    write: (store: Store, stored: PredictionChange) => Promise<void>,
  ): Promise<string> {
    const { id } = await client.create('maker/flux', { prompt })
    await until(() => madeFor(prompt).length === 1 && madeFor(prompt)[0]!.polls > 0)
    await restart('SIGKILL', async (store) => {
      const [stored] = await store.predictions.unfinished()
      await write(store, stored!)
    })
    return id
  }
  const ending = (stored: PredictionChange, status: PredictionChange['status'], outcome: object): PredictionChange => ({
    ...stored,
    status,
    completedAt: Date.now(),
    state: JSON.stringify({ ...(JSON.parse(stored.state) as object), output: 'done', outcome }),
  })

  test('a prediction whose end is stored is settled from the store and not polled again', async () => {
    const usage = { ...noUsage(), inputTokens: 3 }
    const id = await interrupted('Ended', async (store, stored) => {
      expect(
        await store.predictions.update(
          ending(stored, 'succeeded', {
            ending: 'completed',
            usage,
            estimated: true,
            served: { provider: 'up', model: 'maker/flux' },
          }),
        ),
      ).toBe(true)
    })
    expect(await client.get(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await expectSettled({ [id]: FEE })
    expect((await kept()).records).toMatchObject([{ provider: 'up', ending: 'completed', usage, estimated: true }])
  })

  test('a prediction whose failure is stored costs nothing', async () => {
    const id = await interrupted(
      'Failed',
      async (store, stored) => void (await store.predictions.update(ending(stored, 'failed', { ending: 'failed' }))),
    )
    expect((await client.get(id)).status).toBe('failed')
    await expectSettled({ [id]: 0n })
  })

  test('a generation whose prediction was never stored costs nothing', async () => {
    const id = await interrupted('Unwritten', async (store, stored) => {
      await store.predictions.update({ ...stored, status: 'failed', completedAt: 1 })
      expect(await store.predictions.purge(2)).toBe(1)
    })
    expect((await client.send('GET', `/v1/predictions/${id}`)).status).toBe(404)
    await expectSettled({ [id]: 0n })
  })

  test('a prediction that its client cancelled is stopped at its provider', async () => {
    const id = await interrupted(
      'Unwanted',
      async (store, stored) =>
        void (await store.predictions.update({
          ...stored,
          state: JSON.stringify({ ...(JSON.parse(stored.state) as object), unwanted: true }),
        })),
    )
    expect((await client.ended(id)).status).toBe('canceled')
    expect(madeFor('Unwanted')[0]!.canceled).toBe(1)
    await expectSettled({ [id]: FEE })
  })
})
