import { describe, expect, test } from 'bun:test'
import type { GenerationRecord } from '../../src/store/store.ts'
import { inScene } from '../scene.ts'
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

const configOf = (provider: RawServer, timeouts: object): string =>
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

/** A provider and a gateway over it. They mostly wait, so tests run at the same time, each with its own. */
class Scene {
  readonly provider: RawServer
  gateway!: GatewayProcess
  /** Sockets on which a request waits for the rest of its answer. */
  readonly waiting: { socket: RawSocket; streamed: boolean }[] = []

  constructor() {
    this.provider = rawServer((socket, request) => {
      const streamed = request.includes('"stream":true')
      this.waiting.push({ socket, streamed })
      if (streamed) socket.write(HEAD('text/event-stream') + chunk({ role: 'assistant', content: 'the END' }, null))
    })
  }

  async start(timeouts: object): Promise<void> {
    this.gateway = await startGatewayProcess({ config: configOf(this.provider, timeouts) })
  }

  /** The provider ends all answers under way. */
  release(): void {
    for (const { socket, streamed } of this.waiting.splice(0)) {
      if (streamed)
        socket.write(chunk({}, 'stop') + chunk({}, null, { choices: [], usage: USAGE }) + 'data: [DONE]\n\n')
      else {
        const message = { role: 'assistant', content: 'the END' }
        const choices = [{ index: 0, message, finish_reason: 'stop' }]
        const body = { id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage: USAGE }
        socket.write(HEAD('application/json') + JSON.stringify(body))
      }
      socket.end()
    }
  }

  ask(model: string, stream: boolean, signal: AbortSignal, more: object = {}): Promise<Response> {
    return fetch(`${this.gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.gateway.key}` },
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
  async leave(model: string, stream: boolean, afterMs = 0): Promise<void> {
    const before = this.provider.requests.length
    const leaving = new AbortController()
    const answer = this.ask(model, stream, leaving.signal)
    void answer.catch(() => {})
    await until(() => this.provider.requests.length > before)
    if (stream) {
      const reader = (await answer).body!.getReader()
      for (let text = ''; !text.includes('END'); ) text += new TextDecoder().decode((await reader.read()).value)
    }
    await Bun.sleep(afterMs)
    leaving.abort()
  }

  async records(count: number): Promise<GenerationRecord[]> {
    const store = await storeIn(this.gateway.data)
    try {
      let found: GenerationRecord[] = []
      const deadline = performance.now() + 30_000
      while ((found = await store.ledger.generations(undefined, 100)).length < count && performance.now() < deadline)
        await Bun.sleep(10)
      expect(found).toHaveLength(count)
      return found
    } finally {
      await store.close()
    }
  }

  async end(): Promise<void> {
    this.release()
    await this.gateway?.stop()
    this.provider.stop()
  }
}

const LIMIT_MS = 60_000

function leavingTest(name: string, run: (at: Scene) => Promise<void>, timeouts: object = {}): void {
  test.concurrent(
    name,
    inScene(
      () => new Scene(),
      (at) => at.start(timeouts).then(() => run(at)),
    ),
    LIMIT_MS,
  )
}

describe('a client that leaves', () => {
  for (const stream of [true, false])
    leavingTest(
      `pays what its provider reports in the end, hidden reasoning included, streamed: ${stream}`,
      async (at) => {
        await at.leave('goes-on', stream)
        // The charge is the same where a busy gateway has not noticed by then.
        await Bun.sleep(100)
        at.release()
        const [record] = await at.records(1)
        expect(record).toMatchObject({ bill: BILL, estimated: false, estimation: null, disputed: null })
        expect(record!.usage).toMatchObject({ inputTokens: 20, outputTokens: 10, reasoningTokens: 11_990 })
        expect(['client-left', 'completed']).toContain(record!.ending)
      },
    )

  leavingTest('of a stream whose provider stops when it is cancelled has it cancelled at once', async (at) => {
    await at.leave('stops-on', true)
    const [record] = await at.records(1)
    expect(record).toMatchObject({ ending: 'client-left', estimated: true, estimation: 'counted' })
    await until(() => at.provider.open === 0)
  })

  leavingTest('of a stream with several choices pays for all of them', async (at) => {
    for (const candidates of [1, 4]) {
      const leaving = new AbortController()
      const answer = await at.ask('stops-on', true, leaving.signal, { n: candidates })
      const reader = answer.body!.getReader()
      for (let index = 0; index < candidates; index++)
        at.waiting.at(-1)!.socket.write(chunk({ content: 'word '.repeat(100) }, null, {}, index))
      at.waiting.at(-1)!.socket.write(chunk({ content: 'END' }, null, {}, candidates - 1))
      for (let text = ''; !text.includes('"END"'); ) text += new TextDecoder().decode((await reader.read()).value)
      leaving.abort()
      await at.records(candidates === 1 ? 1 : 2)
    }
    const [one, four] = (await at.records(2)).map(({ usage }) => usage.outputTokens).sort((a, b) => a - b)
    expect(one).toBeGreaterThan(100)
    expect(four).toBe(4 * one!)
  })

  leavingTest(
    'of an answer in one piece pays its time where the provider does not end it soon enough',
    async (at) => {
      await at.leave('stops-on', false, 400)
      const [record] = await at.records(1)
      expect(record).toMatchObject({ ending: 'client-left', estimated: true, estimation: 'timed' })
      // At the assumed 50 tokens a second.
      expect(record!.usage.outputTokens).toBeGreaterThanOrEqual(20)
      await until(() => at.provider.open === 0)
    },
    { clientLeft: '300ms' },
  )

  leavingTest('pays nothing where its provider refuses the request afterwards', async (at) => {
    await at.leave('goes-on', false)
    await Bun.sleep(100)
    for (const { socket } of at.waiting.splice(0))
      socket.end('HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}')
    const [record] = await at.records(1)
    expect(record).toMatchObject({ ending: 'failed', bill: 0n })
  })

  leavingTest('keeps at most 64 connections of its account to providers', async (at) => {
    const leaving = new AbortController()
    const before = at.provider.requests.length
    for (let left = 0; left < 66; left++) void at.ask('goes-on', false, leaving.signal).catch(() => {})
    await until(() => at.provider.requests.length === before + 66)
    leaving.abort()
    // The others were cancelled.
    const early = await at.records(2)
    expect(early.map(({ ending, estimated }) => [ending, estimated])).toEqual([
      ['client-left', true],
      ['client-left', true],
    ])
    expect(at.provider.open).toBe(64)
    at.release()
    const all = await at.records(66)
    expect(all.filter(({ bill }) => bill === BILL)).toHaveLength(64)
    // The places are free again.
    await at.leave('goes-on', false)
    await Bun.sleep(100)
    at.release()
    expect((await at.records(67)).filter(({ bill }) => bill === BILL)).toHaveLength(65)
  })

  leavingTest(
    'does not delay the stop of the server',
    async (at) => {
      await at.leave('goes-on', false)
      await Bun.sleep(100)
      at.gateway.kill('SIGTERM')
      expect(await at.gateway.exited).toBe(0)
      const [record] = await at.records(1)
      expect(record).toMatchObject({ ending: 'client-left', estimated: true })
    },
    { drain: '10m', clientLeft: '10m' },
  )
})
