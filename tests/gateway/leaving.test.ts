import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { GenerationRecord } from '../../src/store/store.ts'
import { startGatewayProcess, type GatewayProcess } from '../server.ts'
import { rawServer, until, type RawServer, type RawSocket } from '../transport/raw-server.ts'
import { storeIn } from '../stores.ts'

/** Generations whose clients leave while their provider goes on. */

const USAGE = {
  prompt_tokens: 20,
  completion_tokens: 12_000,
  total_tokens: 12_020,
  completion_tokens_details: { reasoning_tokens: 11_990 },
}
/** USD per million tokens: a token costs 1000 or 2000 nano-USD. */
const BILL = BigInt(20 * 1000 + 12_000 * 2000)

const HEAD = (type: string): string => `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n\r\n`
const chunk = (delta: object, finish: string | null, more: object = {}, index = 0): string =>
  `data: ${JSON.stringify({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index, delta, finish_reason: finish }],
    ...more,
  })}\n\n`

/** Sockets on which a request waits for the rest of its answer. */
let waiting: { socket: RawSocket; streamed: boolean }[] = []
let provider: RawServer

/** The provider ends all answers under way. */
function release(): void {
  for (const { socket, streamed } of waiting.splice(0)) {
    if (streamed) socket.write(chunk({}, 'stop') + chunk({}, null, { choices: [], usage: USAGE }) + 'data: [DONE]\n\n')
    else {
      const message = { role: 'assistant', content: 'the END' }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      const body = { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage: USAGE }
      socket.write(HEAD('application/json') + JSON.stringify(body))
    }
    socket.end()
  }
}

beforeAll(() => {
  provider = rawServer((socket, request) => {
    const streamed = request.includes('"stream":true')
    waiting.push({ socket, streamed })
    if (streamed) socket.write(HEAD('text/event-stream') + chunk({ role: 'assistant', content: 'the END' }, null))
  })
})
afterAll(() => provider.stop())

const configOf = (timeouts: object): string =>
  Object.entries({
    limits: { requestsPerMinute: 1_000_000 },
    billing: { unpriced: 'refuse', startingCredit: 10 },
    timeouts,
    providers: {
      goes: { protocol: 'chat.completions', baseUrl: `${provider.url}/v1`, unlisted: true },
      stops: {
        protocol: 'chat.completions',
        baseUrl: `${provider.url}/v1`,
        unlisted: true,
        quirks: { stopsOnCancel: 'streams' },
      },
    },
    models: Object.fromEntries(
      ['goes', 'stops'].map((id) => [
        `${id}-on`,
        { endpoints: [{ provider: id, model: 'm' }], price: { prompt: 1, completion: 2 } },
      ]),
    ),
  })
    .map(([setting, value]) => `${setting}: ${JSON.stringify(value)}\n`)
    .join('')

function ask(
  gateway: GatewayProcess,
  model: string,
  stream: boolean,
  signal: AbortSignal,
  more: object = {},
): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}` },
    body: JSON.stringify({
      model,
      stream,
      max_tokens: 20_000,
      messages: [{ role: 'user', content: 'Think' }],
      ...more,
    }),
    signal,
  })
}

/** Asks, and leaves when the provider works on it; a stream at its last word. */
async function leave(gateway: GatewayProcess, model: string, stream: boolean, afterMs = 0): Promise<void> {
  const before = provider.requests.length
  const leaving = new AbortController()
  const answer = ask(gateway, model, stream, leaving.signal)
  void answer.catch(() => {})
  await until(() => provider.requests.length > before)
  if (stream) {
    const reader = (await answer).body!.getReader()
    for (let text = ''; !text.includes('END'); ) text += new TextDecoder().decode((await reader.read()).value)
  }
  await Bun.sleep(afterMs)
  leaving.abort()
}

async function records({ data }: GatewayProcess, count: number): Promise<GenerationRecord[]> {
  const store = await storeIn(data)
  try {
    let found: GenerationRecord[] = []
    const deadline = performance.now() + 10_000
    while ((found = await store.ledger.generations(undefined, 100)).length < count && performance.now() < deadline)
      await Bun.sleep(10)
    expect(found).toHaveLength(count)
    return found
  } finally {
    await store.close()
  }
}

async function withGateway(timeouts: object, run: (gateway: GatewayProcess) => Promise<void>): Promise<void> {
  waiting = []
  const gateway = await startGatewayProcess({ config: configOf(timeouts) })
  try {
    await run(gateway)
  } finally {
    release()
    await gateway.stop()
  }
}

describe('a client that leaves', () => {
  for (const stream of [true, false])
    test(`pays what its provider reports in the end, hidden reasoning included, streamed: ${stream}`, async () => {
      await withGateway({}, async (gateway) => {
        await leave(gateway, 'goes-on', stream)
        // The charge is the same where a busy gateway has not noticed by then.
        await Bun.sleep(100)
        release()
        const [record] = await records(gateway, 1)
        expect(record).toMatchObject({ bill: BILL, estimated: false, estimation: null, disputed: null })
        expect(record!.usage).toMatchObject({ inputTokens: 20, outputTokens: 10, reasoningTokens: 11_990 })
        expect(['client-left', 'completed']).toContain(record!.ending)
      })
    })

  test('of a stream whose provider stops when it is cancelled has it cancelled at once', async () => {
    await withGateway({}, async (gateway) => {
      await leave(gateway, 'stops-on', true)
      const [record] = await records(gateway, 1)
      expect(record).toMatchObject({ ending: 'client-left', estimated: true, estimation: 'counted' })
      await until(() => provider.open === 0)
    })
  })

  test('of a stream with several choices pays for all of them', async () => {
    await withGateway({}, async (gateway) => {
      for (const candidates of [1, 4]) {
        const leaving = new AbortController()
        const answer = await ask(gateway, 'stops-on', true, leaving.signal, { n: candidates })
        const reader = answer.body!.getReader()
        for (let index = 0; index < candidates; index++)
          waiting.at(-1)!.socket.write(chunk({ content: 'word '.repeat(100) }, null, {}, index))
        waiting.at(-1)!.socket.write(chunk({ content: 'END' }, null, {}, candidates - 1))
        for (let text = ''; !text.includes('"END"'); ) text += new TextDecoder().decode((await reader.read()).value)
        leaving.abort()
        await records(gateway, candidates === 1 ? 1 : 2)
      }
      const [one, four] = (await records(gateway, 2)).map(({ usage }) => usage.outputTokens).sort((a, b) => a - b)
      expect(one).toBeGreaterThan(100)
      expect(four).toBe(4 * one!)
    })
  })

  test('of an answer in one piece pays its time where the provider does not end it soon enough', async () => {
    await withGateway({ clientLeft: '300ms' }, async (gateway) => {
      await leave(gateway, 'stops-on', false, 400)
      const [record] = await records(gateway, 1)
      expect(record).toMatchObject({ ending: 'client-left', estimated: true, estimation: 'timed' })
      // At the assumed 50 tokens a second.
      expect(record!.usage.outputTokens).toBeGreaterThanOrEqual(20)
      await until(() => provider.open === 0)
    })
  })

  test('pays nothing where its provider refuses the request afterwards', async () => {
    await withGateway({}, async (gateway) => {
      await leave(gateway, 'goes-on', false)
      await Bun.sleep(100)
      for (const { socket } of waiting.splice(0))
        socket.end('HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}')
      const [record] = await records(gateway, 1)
      expect(record).toMatchObject({ ending: 'failed', bill: 0n })
    })
  })

  test('keeps at most 64 connections of its account to providers', async () => {
    await withGateway({}, async (gateway) => {
      const leaving = new AbortController()
      const before = provider.requests.length
      for (let left = 0; left < 66; left++) void ask(gateway, 'goes-on', false, leaving.signal).catch(() => {})
      await until(() => provider.requests.length === before + 66)
      leaving.abort()
      // The others were cancelled.
      const early = await records(gateway, 2)
      expect(early.map(({ ending, estimated }) => [ending, estimated])).toEqual([
        ['client-left', true],
        ['client-left', true],
      ])
      expect(provider.open).toBe(64)
      release()
      const all = await records(gateway, 66)
      expect(all.filter(({ bill }) => bill === BILL)).toHaveLength(64)
      // The places are free again.
      await leave(gateway, 'goes-on', false)
      await Bun.sleep(100)
      release()
      expect((await records(gateway, 67)).filter(({ bill }) => bill === BILL)).toHaveLength(65)
    })
  })

  test('does not delay the stop of the server', async () => {
    await withGateway({ drain: '10m', clientLeft: '10m' }, async (gateway) => {
      await leave(gateway, 'goes-on', false)
      await Bun.sleep(100)
      gateway.kill('SIGTERM')
      expect(await gateway.exited).toBe(0)
      const [record] = await records(gateway, 1)
      expect(record).toMatchObject({ ending: 'client-left', estimated: true })
    })
  }, 20_000)
})
