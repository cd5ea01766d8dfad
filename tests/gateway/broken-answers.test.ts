import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventStream } from '../../src/pipeline/framing.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { Writer } from '../../src/protocols/protocol.ts'
import { HEAVY } from '../../src/pipeline/heavy/weight.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import type { Store } from '../../src/store/store.ts'
import { startGateway, type Gateway } from '../server.ts'
import { ask, ENDED, PROTOCOLS } from './asking.ts'
import { gatedConfig } from './gated.ts'
import { COUNTED, framed, protocolOf, RESPONSE_PIECES } from './scripted.ts'
import { storeOf } from '../stores.ts'

/**
 * Provider responses in which one value has the wrong type: whatever that breaks, the request ends once and no
 * reservation remains.
 */

type Path = (string | number)[]

/** The paths of all values of a JSON document. */
const pathsIn = (value: unknown, path: Path = []): Path[] =>
  typeof value !== 'object' || value === null
    ? [path]
    : [path, ...Object.entries(value).flatMap(([name, inner]) => pathsIn(inner, [...path, name]))]

function replaced(value: unknown, [name, ...rest]: Path, by: unknown): unknown {
  if (name === undefined) return by
  const copy = structuredClone(value) as Record<string, unknown>
  copy[name] = replaced(copy[name], rest, by)
  return copy
}

const WRONG: unknown[] = [null, 5, 'x', [], {}, true, [null], -1, 1e308]

type Broken = { protocol: ConversationName; stream: boolean; path: Path; by: unknown }

const original = (protocol: ConversationName, stream: boolean): unknown => {
  const pieces = RESPONSE_PIECES[protocol]
  return stream ? [...pieces.begin(COUNTED), ...pieces.end(COUNTED), ...pieces.last(COUNTED)] : pieces.whole(COUNTED)
}

/** One case per value, with the wrong values in turn. */
const BROKEN: Broken[] = PROTOCOLS.flatMap((protocol) =>
  [true, false].flatMap((stream) =>
    pathsIn(original(protocol, stream))
      .filter(({ length }) => !stream || length > 0)
      .map((path) => ({ protocol, stream, path })),
  ),
).map((where, at) => ({ ...where, by: WRONG[at % WRONG.length] }))

let gateway: Gateway
let provider: Bun.Server<undefined>
/** The case of the request in flight. */
let broken: Broken
beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const { protocol, stream, path, by } = broken
      expect(protocolOf(new URL(request.url).pathname)).toBe(protocol)
      const answer = replaced(original(protocol, stream), path, by)
      return stream
        ? new Response(framed(answer as object[]), { headers: { 'content-type': 'text/event-stream' } })
        : Response.json(answer)
    },
  })
  gateway = await startGateway({ config: gatedConfig({ up: { url: `http://127.0.0.1:${provider.port}/v1` } }) })
})
afterAll(async () => {
  await gateway?.stop()
  await provider?.stop(true)
})

/** Asserts that nothing is reserved: a request that needs the whole balance is admitted. */
async function expectNothingHeld(store: Store): Promise<void> {
  const { balances } = await store.ledger.state()
  // An output token costs 2000 nano-USD; for the input one token per two bytes of the body is reserved.
  const limit = Number(balances.find(({ kind }) => kind === 'credit')!.balance / 2_000n) - 100
  broken = { protocol: 'messages', stream: false, path: ['id'], by: 'a' }
  expect(
    (
      await ask({
        url: gateway.url,
        key: gateway.key,
        protocol: 'messages',
        model: 'up/messages',
        stream: false,
        limit,
      })
    ).status,
  ).toBe(200)
}

describe('a provider response with one invalid value', () => {
  test.each([
    ['passed on', 0],
    ['translated', 1],
  ])(
    '%s: the request is answered, recorded once, and leaves no reservation',
    async (_, away) => {
      const store = await storeOf(gateway)
      try {
        const before = (await store.ledger.generations(undefined, 1_000)).length
        for (broken of BROKEN) {
          const { protocol, stream } = broken
          const client = PROTOCOLS[(PROTOCOLS.indexOf(protocol) + away) % PROTOCOLS.length]!
          const response = await ask({
            url: gateway.url,
            key: gateway.key,
            protocol: client,
            model: `up/${protocol}`,
            stream,
            limit: 10,
          })
          const text = await response.text()
          expect([
            client,
            broken,
            response.status === 200 || response.status === 502,
            text.includes('Internal error'),
          ]).toEqual([client, broken, true, false])
          if (stream && response.status === 200)
            expect([client, broken, ENDED[client].whole.test(text) || ENDED[client].failed.test(text)]).toEqual([
              client,
              broken,
              true,
            ])
        }
        const records = (await store.ledger.generations(undefined, 1_000)).slice(before)
        expect(records.length).toBe(BROKEN.length)
        expect(
          records.filter(({ bill, ending }) => bill < 0n || (ending !== 'completed' && ending !== 'failed')),
        ).toEqual([])
        expect(records.some(({ ending }) => ending === 'failed')).toBe(true)
        expect(
          records.filter(
            ({ ending, attempts }) => ending === 'failed' && !/"error":"\w+","message":/.test(attempts ?? ''),
          ),
        ).toEqual([])
        await expectNothingHeld(store)
      } finally {
        await store.close()
      }
    },
    30_000,
  )
})

test('the record of a large response that cannot be read says why', async () => {
  broken = { protocol: 'chat.completions', stream: false, path: [], by: { text: 'x'.repeat(HEAVY.answer) } }
  const { url, key } = gateway
  const asked = {
    url,
    key,
    protocol: 'chat.completions',
    model: 'up/chat.completions',
    stream: false,
    limit: 10,
  } as const
  const response = await ask(asked)
  expect([response.status, (await response.text()).length > HEAVY.answer]).toEqual([200, true])
  const store = await storeOf(gateway)
  const { ending, bill, attempts } = (await store.ledger.generations(undefined, 1_000)).at(-1)!
  await store.close()
  expect([ending, bill, JSON.parse(attempts!)]).toMatchObject([
    'failed',
    0n,
    [{ error: 'upstream_error', message: expect.stringContaining('without choices') }],
  ])
})

/** The bytes of a complete stream. */
function source(): { read(): Promise<Uint8Array | undefined>; cancel(): void; cancelled: boolean } {
  const pieces = [
    ...RESPONSE_PIECES['chat.completions'].begin(COUNTED),
    ...RESPONSE_PIECES['chat.completions'].end(COUNTED),
    ...RESPONSE_PIECES['chat.completions'].last(COUNTED),
  ].map((frame) => Buffer.from(framed([frame])))
  return {
    read: async () => pieces.shift(),
    cancel() {
      this.cancelled = true
    },
    cancelled: false,
  }
}

test.each(['start', 'part-delta', 'finish'])(
  'a writer that fails at %s and again at writing the error still ends its generation',
  async (type) => {
    const writer: Writer = {
      write: (event) => {
        if (event.type === type || event.type === 'error') throw new Error('a mistake of ours')
        return []
      },
    }
    const endings: string[] = []
    const provider = source()
    const relay = new Relay(
      provider,
      new MeteredStream(
        protocols['chat.completions'].call.reader({}),
        new TranslatedOutput(writer),
        new Meter(async () => 7),
      ),
      eventStream,
      async (ending) => {
        endings.push(ending)
        return []
      },
    )
    await expect(relay.pull()).rejects.toThrow('a mistake of ours')
    expect([endings[0], provider.cancelled]).toEqual(['failed', true])
  },
)
