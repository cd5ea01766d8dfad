import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { noUsage } from '../../src/generation/usage.ts'
import type { Store } from '../../src/store/store.ts'
import type { GenerationRecord, PredictionChange } from '../../src/store/store.ts'
import { inScene } from '../scene.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { gatedProvider, type Gated } from './gated.ts'
import { predictionProvider, Predictions, type PredictionProvider, type Shown } from './predicting.ts'
import { storeIn } from '../stores.ts'

/** Predictions of a server that is stopped or killed, and of the server that replaces it. */

const FEE = 10_000_000n
const CREDIT = 1_000_000_000n

type Signal = 'SIGTERM' | 'SIGKILL'

class Scene {
  readonly provider = predictionProvider()
  readonly gated: Gated = gatedProvider()
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
  client!: Predictions
  readonly #drain: string
  #running: GatewayProcess | undefined

  constructor(drain: string) {
    this.#drain = drain
    this.provider.onMade = (made) => {
      made.status = 'processing'
    }
    this.gated.shut()
  }

  async start(isOn = true): Promise<void> {
    this.#running = await startGatewayProcess({
      data: this.folder,
      config: `
limits: { requestsPerMinute: 1000000 }
timeouts: { drain: ${this.#drain} }
billing: { startingCredit: 1 }
predictions: { concurrency: 1 }
providers:
  up: { protocol: predictions, baseUrl: "${this.provider.url}", apiKey: none, enabled: ${isOn} }
  gated: { protocol: chat.completions, baseUrl: "${this.gated.url}", apiKey: none }
models:
  maker/flux: { endpoints: [{ provider: up, model: maker/flux }], price: { request: 0.01 } }
  maker/gated: { endpoints: [{ provider: gated, model: m }], price: { prompt: 1, completion: 2 } }
`,
    })
    this.client = new Predictions(this.#running.url, this.#running.key)
  }

  async kill(signal: Signal): Promise<void> {
    this.#running!.kill(signal)
    expect(await this.#running!.exited).toBe(signal === 'SIGTERM' ? 0 : 137)
  }

  async restart(signal: Signal, between: (store: Store) => Promise<void> = async () => {}): Promise<void> {
    await this.kill(signal)
    const store = await storeIn(this.folder)
    await between(store)
    await store.close()
    await this.start()
  }

  /** Creates a prediction of the provider, and waits until that runs it and is polled. */
  async createRunning(prompt: string): Promise<Shown> {
    const made = await this.client.create('maker/flux', { prompt })
    await this.polled(prompt)
    return made
  }

  polled(prompt: string): Promise<unknown> {
    return until(() => this.madeFor(prompt).length === 1 && this.madeFor(prompt)[0]!.polls > 0)
  }

  /** Creates a prediction whose response has begun. */
  async createBegun(): Promise<Shown> {
    const made = await this.client.create('maker/gated', { prompt: 'Hello', max_tokens: 10 })
    while ((await this.client.get(made.id)).output === null) await Bun.sleep(10)
    return made
  }

  madeFor(prompt: string): PredictionProvider['made'] {
    return this.provider.made.filter(({ input }) => input.prompt === prompt)
  }

  finish(prompt: string): void {
    Object.assign(this.madeFor(prompt)[0]!, { status: 'succeeded', output: 'done' })
  }

  async idsOf(status: string): Promise<string[]> {
    return ((await (await this.client.send('GET', '/v1/predictions')).json()) as { results: Shown[] }).results
      .filter((one) => one.status === status)
      .map(({ id }) => id)
  }

  async kept(): Promise<{ records: GenerationRecord[]; open: number; credit: bigint | undefined }> {
    const store = await storeIn(this.folder)
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
  async expectSettled(bills: Record<string, bigint>): Promise<void> {
    while ((await this.kept()).open > 0) await Bun.sleep(20)
    const { records, credit } = await this.kept()
    expect(Object.fromEntries(records.map(({ id, bill }) => [`pred_${id}`, bill]))).toEqual(bills)
    expect(credit).toBe(CREDIT - Object.values(bills).reduce((sum, bill) => sum + bill, 0n))
  }

  async end(): Promise<void> {
    this.gated.open()
    await this.#running?.stop()
    rmSync(this.folder, { recursive: true, force: true })
    await Promise.all([this.provider.stop(), this.gated.stop()])
  }
}

/** Those of a group run at the same time, each with servers of its own. */
const LIMIT_MS = 60_000

function restartTest(name: string, run: (at: Scene) => Promise<void>, drain = '300ms'): void {
  test.concurrent(
    name,
    inScene(
      () => new Scene(drain),
      (at) => at.start().then(() => run(at)),
    ),
    LIMIT_MS,
  )
}

describe.each<Signal>(['SIGTERM', 'SIGKILL'])('after %s', (signal) => {
  restartTest('a queued prediction runs after a restart, and a running one is followed at its provider', async (at) => {
    const [first, second] = [`First ${signal}`, `Second ${signal}`]
    const one = await at.createRunning(first)
    const two = await at.client.create('maker/flux', { prompt: second })
    await at.restart(signal)
    expect(await at.idsOf('starting')).toEqual([two.id])
    expect(await at.idsOf('processing')).toEqual([one.id])
    at.finish(first)
    expect(await at.client.ended(one.id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await until(() => at.madeFor(second).length === 1)
    at.finish(second)
    expect(await at.client.ended(two.id)).toMatchObject({ status: 'succeeded', output: 'done' })
    expect([at.madeFor(first).length, at.madeFor(second).length]).toEqual([1, 1])
    await at.expectSettled({ [one.id]: FEE, [two.id]: FEE })
  })

  restartTest('a prediction that ended at its provider meanwhile is reported', async (at) => {
    const prompt = `Meanwhile ${signal}`
    const { id } = await at.createRunning(prompt)
    await at.restart(signal, async () => at.finish(prompt))
    expect(await at.client.ended(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await at.expectSettled({ [id]: FEE })
  })

  restartTest(
    'a prediction that its provider may have accepted fails, is not sent again and costs nothing',
    async (at) => {
      at.provider.creates = 'hang'
      const prompt = `Hanging ${signal}`
      const { id } = await at.client.create('maker/flux', { prompt })
      await until(() => at.madeFor(prompt).length === 1)
      await at.restart(signal)
      expect(await at.client.ended(id)).toMatchObject({
        status: 'failed',
        error: expect.stringContaining(signal === 'SIGTERM' ? 'Sluice is stopping' : 'Create it again'),
      })
      await Bun.sleep(300)
      expect(at.madeFor(prompt).length).toBe(1)
      await at.expectSettled({ [id]: 0n })
    },
  )

  restartTest('a prediction whose response was in flight fails and costs nothing', async (at) => {
    const { id } = await at.createBegun()
    await at.restart(signal)
    expect(await at.client.ended(id)).toMatchObject({ status: 'failed', error: expect.any(String) })
    await at.expectSettled({ [id]: 0n })
  })
})

describe('a server that is stopped', () => {
  const endsMeanwhile = async (at: Scene): Promise<void> => {
    const { id } = await at.createBegun()
    setTimeout(() => at.gated.open(), 100)
    await at.restart('SIGTERM')
    expect(await at.client.ended(id)).toMatchObject({ status: 'succeeded', output: 'one two three' })
    await at.expectSettled({ [id]: 20_000n })
  }
  restartTest('a server that stops lets a response end within the drain time', endsMeanwhile, '30s')

  restartTest(
    'a prediction whose provider is removed from the configuration is followed when it returns',
    async (at) => {
      const prompt = 'Switched off'
      const { id } = await at.createRunning(prompt)
      await at.kill('SIGTERM')
      const { polls } = at.madeFor(prompt)[0]!
      await at.start(false)
      at.finish(prompt)
      await Bun.sleep(500)
      expect([(await at.client.get(id)).status, at.madeFor(prompt)[0]!.polls]).toEqual(['processing', polls])
      await at.kill('SIGTERM')
      await at.start()
      expect(await at.client.ended(id)).toMatchObject({ status: 'succeeded', output: 'done' })
      await at.expectSettled({ [id]: FEE })
    },
  )

  restartTest('a waiting client receives the current state when the server stops', async (at) => {
    const prompt = 'Waited for'
    const waiting = at.client.send(
      'POST',
      '/v1/predictions',
      { model: 'maker/flux', input: { prompt } },
      { prefer: 'wait' },
    )
    await at.polled(prompt)
    await at.restart('SIGTERM')
    const { id, status } = (await (await waiting).json()) as Shown
    expect(status).toBe('starting')
    at.finish(prompt)
    expect((await at.client.ended(id)).status).toBe('succeeded')
  })
})

describe('killed between two writes', () => {
  /**
   * A prediction that runs at its provider when the server is killed. `write`: changes the store before the next start.
   */
  async function interrupted(
    at: Scene,
    prompt: string,
    write: (store: Store, stored: PredictionChange) => Promise<void>,
  ): Promise<string> {
    const { id } = await at.createRunning(prompt)
    await at.restart('SIGKILL', async (store) => {
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

  restartTest('a prediction whose end is stored is settled from the store and not polled again', async (at) => {
    const usage = { ...noUsage(), inputTokens: 3 }
    const id = await interrupted(at, 'Ended', async (store, stored) => {
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
    expect(await at.client.get(id)).toMatchObject({ status: 'succeeded', output: 'done' })
    await at.expectSettled({ [id]: FEE })
    expect((await at.kept()).records).toMatchObject([{ provider: 'up', ending: 'completed', usage, estimated: true }])
  })

  restartTest('a prediction whose failure is stored costs nothing', async (at) => {
    const id = await interrupted(
      at,
      'Failed',
      async (store, stored) => void (await store.predictions.update(ending(stored, 'failed', { ending: 'failed' }))),
    )
    expect((await at.client.get(id)).status).toBe('failed')
    await at.expectSettled({ [id]: 0n })
  })

  restartTest('a generation whose prediction was never stored costs nothing', async (at) => {
    const id = await interrupted(at, 'Unwritten', async (store, stored) => {
      await store.predictions.update({ ...stored, status: 'failed', completedAt: 1 })
      expect(await store.predictions.purge(2)).toBe(1)
    })
    expect((await at.client.send('GET', `/v1/predictions/${id}`)).status).toBe(404)
    await at.expectSettled({ [id]: 0n })
  })

  restartTest('a prediction that its client cancelled is stopped at its provider', async (at) => {
    const id = await interrupted(
      at,
      'Unwanted',
      async (store, stored) =>
        void (await store.predictions.update({
          ...stored,
          state: JSON.stringify({ ...(JSON.parse(stored.state) as object), unwanted: true }),
        })),
    )
    expect((await at.client.ended(id)).status).toBe('canceled')
    expect(at.madeFor('Unwanted')[0]!.canceled).toBe(1)
    await at.expectSettled({ [id]: FEE })
  })
})
