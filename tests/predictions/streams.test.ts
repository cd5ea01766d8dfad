import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Replicate from 'replicate'
import type { Keys } from '../../src/accounts/keys.ts'
import { streamPrediction } from '../../src/endpoints/predictions/stream.ts'
import { streamToken } from '../../src/endpoints/predictions/stream-token.ts'
import type { Prediction } from '../../src/endpoints/predictions/prediction.ts'
import { FrameSplitter } from '../../src/http/frames.ts'
import type { PublicRequest } from '../../src/context.ts'
import type { GatewayContext } from '../../src/routes.ts'
import { startGateway, type Gateway } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { predictionUpstream, type PredictionUpstream } from './upstream.ts'

let upstream: PredictionUpstream
let gateway: Gateway
let replicate: Replicate

beforeAll(async () => {
  upstream = predictionUpstream()
  gateway = await startGateway({
    config: `keepAlive: 1s\nproviders:\n  up: { protocol: predictions, baseUrl: "${upstream.url}" }\n`,
  })
  replicate = new Replicate({ auth: gateway.key, baseUrl: `${gateway.url}/v1`, useFileOutput: false })
})
afterAll(async () => {
  await gateway.stop()
  await upstream.stop()
})

type StreamEvent = { event: string; data: string; id?: string }
type Made = { id: string; status: string; output: unknown; urls: { stream: string; get: string; cancel: string } }

const create = (model: string, input: object): Promise<Made> =>
  replicate.predictions.create({ model, input }) as unknown as Promise<Made>

/** All frames of a stream until it ends. */
async function read(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ events: StreamEvent[]; text: string; status: number }> {
  const response = await fetch(url, { headers: { accept: 'text/event-stream', ...headers } })
  const text = await response.text()
  const splitter = new FrameSplitter()
  const ids = [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id!)
  const events = response.ok
    ? [...splitter.push(new TextEncoder().encode(text)), ...splitter.end()].map(({ event, data }) => ({
        event: event!,
        data,
        ...(event === 'output' ? { id: ids.shift()! } : {}),
      }))
    : []
  return { events, text, status: response.status }
}

describe('a stream', () => {
  test("sends a model's text to Replicate's own client as it comes, without a key", async () => {
    const texts: string[] = []
    let done: string | undefined
    for await (const { event, data } of replicate.stream('sandbox/chat', {
      input: { prompt: '[[length: 40]] [[pace: 5ms]] Hello' },
    })) {
      if (event === 'output') texts.push(data)
      if (event === 'done') done = data
    }
    expect(done).toBe('{}')
    expect(texts.length).toBeGreaterThan(3)
    const [latest] = (await replicate.predictions.list()).results
    expect(texts.join('')).toBe(latest!.output as string)
  })

  test('of a prediction that has ended sends everything at once, or from the position in Last-Event-ID', async () => {
    const { urls } = await create('up/owner/name', { key: 'whole', output: ['one\n', ' two', { three: 3 }], steps: 2 })
    const { events } = await read(urls.stream)
    const expected: StreamEvent[] = [
      { event: 'output', data: 'one\n', id: '1' },
      { event: 'output', data: ' two', id: '2' },
      { event: 'output', data: '{"three":3}', id: '3' },
      { event: 'logs', data: 'step 1\nstep 2\n' },
      { event: 'done', data: '{}' },
    ]
    expect(events).toEqual(expected)
    expect((await read(urls.stream)).events).toEqual(expected)
    expect((await read(urls.stream, { 'last-event-id': '2' })).events).toEqual(expected.slice(2))
    for (const odd of ['-1', 'x', '1e9', '99999999999999'])
      expect((await read(urls.stream, { 'last-event-id': odd })).events).toEqual(expected)
  })

  test('sends logs as they come, the error of a failed prediction, and the reason of a cancelled one', async () => {
    const failing = await create('up/owner/name', { key: 'fails', ms: 600, fail: 'out of memory', steps: 3 })
    const { events } = await read(failing.urls.stream)
    expect(events.slice(-2)).toEqual([
      { event: 'error', data: '{"detail":"out of memory"}' },
      { event: 'done', data: '{"reason":"error"}' },
    ])
    expect(
      events
        .filter(({ event }) => event === 'logs')
        .map(({ data }) => data)
        .join(''),
    ).toBe('step 1\nstep 2\nstep 3\n')
    const long = await create('up/owner/name', { key: 'long', ms: 60_000 })
    const following = read(long.urls.stream)
    await replicate.predictions.cancel(long.id)
    expect((await following).events.at(-1)).toEqual({ event: 'done', data: '{"reason":"canceled"}' })
    await expect(
      (async () => {
        for await (const _ of replicate.stream('owner/name', { input: { key: 'fails again', fail: 'no' } }));
      })(),
    ).rejects.toThrow('{"detail":"no"}')
  })

  test('sends keep-alives while nothing happens', async () => {
    const { urls, id } = await create('up/owner/name', { key: 'quiet', ms: 60_000, steps: 0 })
    const response = await fetch(urls.stream)
    expect([response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual([
      'text/event-stream; charset=utf-8',
      'no-cache',
    ])
    const reader = response.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(': keep-alive\n\n')
    await replicate.predictions.cancel(id)
    await reader.cancel()
  })
})

describe('the URL of a stream', () => {
  test('cannot be forged from another token', async () => {
    const [one, other] = [
      await create('up/owner/name', { key: 'mine' }),
      await create('up/owner/name', { key: 'other' }),
    ]
    const start = `${gateway.url}/v1/streams/`
    const token = one.urls.stream.slice(start.length)
    const bytes = Buffer.from(token, 'base64url')
    const flipped = Array.from({ length: bytes.length }, (_, at) =>
      Buffer.from(bytes.map((byte, index) => (index === at ? byte ^ 1 : byte))).toString('base64url'),
    )
    const text = Buffer.from(other.urls.stream.slice(start.length), 'base64url').subarray(32)
    const mixed = Buffer.concat([bytes.subarray(0, 32), text]).toString('base64url')
    const never = await read(`${start}xyzzy`)
    expect([never.status, never.text]).toEqual([404, expect.stringContaining('"code":"not_found"')])
    for (const wrong of [...flipped, mixed, one.id, one.id.slice(5), token.slice(0, 43), '%00', 'a'.repeat(5_000)]) {
      const { status, text: body } = await read(start + wrong)
      expect([status, body.replace(/req_\w+/, '')]).toEqual([404, never.text.replace(/req_\w+/, '')])
    }
    expect((await read(one.urls.stream)).events.at(-1)).toEqual({ event: 'done', data: '{}' })
  })
})

describe('a client that leaves', () => {
  test('gets no more events, whether the prediction has ended or not', async () => {
    const keys = {
      derive: (purpose: string, subject: string) => new Bun.CryptoHasher('sha256', purpose).update(subject).digest(),
    } as unknown as Keys
    const one = { id: 'a'.repeat(32), accountId: 'mine', status: 'processing', output: 'some ', logs: '' } as Prediction
    const listeners = new Set<(prediction: Prediction) => void>()
    const predictor = {
      follow: (_owned: object, listener: (prediction: Prediction) => void) => {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      find: async (accountId: string, id: string) => (accountId === one.accountId && id === one.id ? one : undefined),
    }
    const app = {
      keys,
      predictor,
      config: { keepAliveMs: 10_000, timeouts: { clientStalledMs: 60_000 } },
    } as unknown as GatewayContext
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) =>
        streamPrediction(app, {
          request,
          params: [new URL(request.url).pathname.slice(1)],
        } as unknown as PublicRequest),
    })
    const url = `http://127.0.0.1:${server.port}/${streamToken(keys, one)}`
    const leaving = new AbortController()
    const reader = (await fetch(url, { signal: leaving.signal })).body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('id: 5\nevent: output\ndata: some \n\n')
    expect(listeners.size).toBe(1)
    leaving.abort()
    await until(() => listeners.size === 0)
    const whole = read(url)
    await until(() => listeners.size === 1)
    for (const listener of listeners) listener({ ...one, output: 'some more', status: 'succeeded' })
    // Changes after the end are ignored.
    for (const listener of listeners) listener({ ...one, output: 'some more and more' })
    expect(
      (await whole).events
        .filter(({ event }) => event === 'output')
        .map(({ data }) => data)
        .join(''),
    ).toBe('some more')
    expect(listeners.size).toBe(0)
    await server.stop(true)
  })
})
