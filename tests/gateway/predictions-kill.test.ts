import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { validateWebhook } from 'replicate'
import type { GenerationRecord, PostedTransfer } from '../../src/store/store.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { IS_LONG, runs } from '../runs.ts'
import { predictionUpstream } from '../predictions/upstream.ts'
import { storeIn } from '../stores.ts'

const ROUNDS = runs(4, 40)
const PREDICTIONS = 20

/** The prices of the configured models, in USD. */
const REQUEST = 10_000_000n
const IMAGE = 40_000_000n

type Kind = 'provider' | 'simulated' | 'text' | 'image'
/** A prediction as its client observed it. `known`: the response to its creation was received. */
type Tracked = { key: string; kind: Kind; known: Shown | undefined }
type Shown = {
  id: string
  status: string
  output: unknown
  error: string | null
  completed_at: string | null
  urls: { get: string }
}
type Hook = { id: string; timestamp: string; signature: string; text: string; body: Shown; taken: boolean }

const below = (most: number): number => Math.floor(Math.random() * most)

const KINDS: readonly Kind[] = ['provider', 'provider', 'simulated', 'text', 'provider', 'image', 'text']

type Receiver = { url: string; port: number; got: Map<string, Hook[]>; isDown: boolean; stop(): Promise<void> }

/** A receiver of webhooks that can be down. */
function receiver(): Receiver {
  const got = new Map<string, Hook[]>()
  const server: Bun.Server<undefined> = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request): Promise<Response> {
      const key = new URL(request.url).pathname.slice(1)
      const text = await request.text()
      const webhookHeader = (name: string): string => request.headers.get(`webhook-${name}`)!
      got.set(key, [
        ...(got.get(key) ?? []),
        {
          id: webhookHeader('id'),
          timestamp: webhookHeader('timestamp'),
          signature: webhookHeader('signature'),
          text,
          body: JSON.parse(text) as Shown,
          taken: !self.isDown,
        },
      ])
      return new Response(null, { status: self.isDown ? 503 : 200 })
    },
  })
  const self: Receiver = {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port!,
    got,
    isDown: false,
    stop: () => server.stop(true),
  }
  return self
}

test(
  `a gateway killed ${ROUNDS} times ends, charges and reports each of ${PREDICTIONS} predictions once`,
  async () => {
    const upstream = predictionUpstream()
    // Slow enough for a kill between a creation and its response.
    upstream.instead = (kind) => (kind === 'POST' ? Bun.sleep(below(400)).then(() => undefined) : undefined)
    const hooks = receiver()
    const data = mkdtempSync(join(tmpdir(), 'sluice-predictions-'))
    const options = {
      data,
      config: `
limits: { requestsPerMinute: 1000000 }
billing: { unpriced: refuse, startingCredit: 1000, delay: 0s }
predictions: { concurrency: 6 }
fetch: { private: ["127.0.0.1:${hooks.port}"] }
providers:
  up: { protocol: predictions, baseUrl: "${upstream.url}" }
models:
  provider: { endpoints: [{ provider: up, model: owner/name }], price: { request: 0.01 } }
  simulated: { endpoints: [{ provider: sandbox, model: prediction, protocol: predictions }], price: { request: 0.01 } }
  text: { endpoints: [{ provider: sandbox, model: chat }], price: { request: 0.01 } }
  image: { endpoints: [{ provider: sandbox, model: image, protocol: images }], price: { image: 0.04 } }
`,
    }
    let gateway = await startGatewayProcess(options)
    const tracked: Tracked[] = []

    const ask = async (kind: Kind): Promise<void> => {
      const one: Tracked = { key: `${kind}-${tracked.length}`, kind, known: undefined }
      tracked.push(one)
      const ms = below(IS_LONG ? 20_000 : 2_000)
      const input = {
        provider: { key: one.key, ms, ...(Math.random() < 0.2 ? { fail: 'as requested' } : {}) },
        simulated: { prompt: one.key, duration: ms / 1000, ...(Math.random() < 0.2 ? { fail: 'as requested' } : {}) },
        text: { prompt: `[[length: ${5 + below(30)}]] [[pace: ${below(80)}ms]] Hello` },
        image: { prompt: 'a fox', size: '64x64' },
      }[kind]
      const body = {
        model: kind,
        input,
        webhook: `${hooks.url}/${one.key}`,
        webhook_events_filter: Math.random() < 0.5 ? ['completed'] : ['start', 'output', 'logs', 'completed'],
      }
      const init = { method: 'POST', headers: { authorization: `Bearer ${gateway.key}` }, body: JSON.stringify(body) }
      // Undefined if the gateway was killed meanwhile.
      const answer = await fetch(`${gateway.url}/v1/predictions`, init)
        .then(async (response) => ({ status: response.status, shown: (await response.json()) as Shown }))
        .catch(() => undefined)
      if (answer === undefined) return
      expect(answer).toEqual({
        status: 200,
        shown: expect.objectContaining({ id: expect.stringMatching(/^pred_[0-9a-f]{32}$/) }),
      })
      one.known = answer.shown
    }

    const get = async (path: string): Promise<{ status: number; body: unknown }> => {
      const response = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${gateway.key}` } })
      return { status: response.status, body: await response.json() }
    }
    const shown = async ({ id }: { id: string }): Promise<Shown> => (await get(`/v1/predictions/${id}`)).body as Shown

    try {
      for (let number = 0; number < PREDICTIONS; number++) await ask(KINDS[number % KINDS.length]!)
      expect(tracked.filter(({ known }) => known === undefined)).toEqual([])
      /** Ends that a client has observed, which must not change. */
      const seen = new Map<string, Shown>()
      for (let round = 0; round < ROUNDS; round++) {
        // A kill during this creation may leave a prediction or none.
        const caught = Bun.sleep(below(600)).then(() => ask(KINDS[below(KINDS.length)]!))
        // Calls that it does not take are repeated five seconds later, after the other kills.
        hooks.isDown = round === 0
        await Bun.sleep(100 + below(700))
        for (const { known } of tracked)
          if (known !== undefined && !seen.has(known.id) && Math.random() < 0.5) {
            const now = await shown(known)
            if (now.completed_at !== null) seen.set(now.id, now)
          }
        gateway.kill('SIGKILL')
        await gateway.exited
        await caught
        gateway = await startGatewayProcess(options)
        for (const [id, end] of seen) expect(await shown({ id })).toEqual({ ...end, urls: expect.any(Object) })
      }
      await Bun.sleep(500)
      hooks.isDown = false
      await expectAllOver({ gateway, tracked, hooks, shown, data, creates: upstream.creates })
      const { results } = (await get('/v1/predictions')).body as { results: Shown[] }
      console.log(
        `${ROUNDS} kills, ${results.length} predictions: ${JSON.stringify(
          Object.fromEntries(
            Map.groupBy(results, ({ status, error }) =>
              error?.startsWith('Sluice stopped') === true ? 'lost' : status,
            )
              .entries()
              .map(([word, ones]) => [word, ones.length]),
          ),
        )}, ${[...hooks.got.values()].flat().length} webhook calls`,
      )
    } finally {
      await gateway.stop()
      await upstream.stop()
      await hooks.stop()
      rmSync(data, { recursive: true, force: true })
    }
  },
  IS_LONG ? 600_000 : 60_000,
)

type After = {
  gateway: GatewayProcess
  tracked: Tracked[]
  hooks: Receiver
  shown(one: { id: string }): Promise<Shown>
  data: string
  creates: string[]
}

/** Asserts the invariants once nothing is in flight. */
async function expectAllOver({ gateway, tracked, hooks, shown, data, creates }: After): Promise<void> {
  const list = (
    (await (
      await fetch(`${gateway.url}/v1/predictions`, { headers: { authorization: `Bearer ${gateway.key}` } })
    ).json()) as { results: Shown[] }
  ).results
  const known = tracked.filter((one) => one.known !== undefined)
  expect(list.map(({ id }) => id)).toEqual(expect.arrayContaining(known.map((one) => one.known!.id)))
  const ends: Shown[] = []
  for (const one of list) {
    for (;;) {
      const now = await shown(one)
      if (now.completed_at !== null) {
        ends.push(now)
        break
      }
      await Bun.sleep(50)
    }
  }
  expect(ends.filter(({ status }) => !['succeeded', 'failed'].includes(status))).toEqual([])
  // A prediction is created once at its provider, however often the gateway was killed.
  expect(creates.filter((key, index) => creates.indexOf(key) !== index)).toEqual([])
  await expectReported(gateway, known, hooks, ends)
  const store = await storeIn(data)
  try {
    while ((await store.ledger.openGenerations()).length > 0) await Bun.sleep(20)
    expectPaid(ends, await store.ledger.generations(undefined, 1_000), await store.ledger.transfers(undefined, 10_000))
    expect(await store.predictions.unfinished()).toEqual([])
    expect(await store.predictions.dueDeliveries(Infinity, 1_000)).toEqual([])
  } finally {
    await store.close()
  }
}

/**
 * Each client receives the end at least once, always with the same id and body, and no event after it.
 */
async function expectReported(
  { url, key }: GatewayProcess,
  known: readonly Tracked[],
  { got }: Receiver,
  ends: readonly Shown[],
): Promise<void> {
  const { key: secret } = (await (
    await fetch(`${url}/v1/webhooks/default/secret`, { headers: { authorization: `Bearer ${key}` } })
  ).json()) as { key: string }
  for (const one of known) {
    const calls = (): Hook[] => got.get(one.key) ?? []
    const isEnd = ({ body }: Hook): boolean => body.completed_at !== null
    while (!calls().some((call) => isEnd(call) && call.taken)) await Bun.sleep(50)
    const end = ends.find(({ id }) => id === one.known!.id)!
    const last = calls().filter(isEnd)
    expect(new Set(last.map(({ id, text }) => `${id} ${text}`)).size).toBe(1)
    expect(last[0]!.body).toMatchObject({
      id: end.id,
      status: end.status,
      error: end.error,
      output: end.output,
      completed_at: end.completed_at,
    })
    expect(calls().slice(calls().findIndex(isEnd)).every(isEnd)).toBe(true)
    const before = calls().filter((call) => !isEnd(call))
    expect(new Set(before.map(({ id }) => id)).size).toBe(before.length)
    for (const { id, timestamp, signature, text } of calls())
      expect(await validateWebhook({ id, timestamp, signature, body: text, secret })).toBe(true)
  }
}

/** Asserts one record per prediction, and that only successful ones were charged. */
function expectPaid(
  ends: readonly Shown[],
  records: readonly GenerationRecord[],
  transfers: readonly PostedTransfer[],
): void {
  const paid = Map.groupBy(
    transfers.filter(({ credit }) => credit.kind === 'revenue'),
    ({ reference }) => reference,
  )
  for (const { id, status } of ends) {
    const number = id.slice('pred_'.length)
    const mine = records.filter((record) => record.id === number)
    expect([id, mine.length]).toEqual([id, 1])
    const { bill, api, model } = mine[0]!
    expect([id, status, api, bill]).toEqual([
      id,
      status,
      'predictions',
      status === 'failed' ? 0n : model === 'image' ? IMAGE : REQUEST,
    ])
    expect([id, (paid.get(number) ?? []).reduce((sum, { amount }) => sum + amount, 0n)]).toEqual([id, bill])
  }
}
