import { readerFor } from '../translating.ts'
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { fold } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { unwrapSignature } from '../../src/generation/signature.ts'
import { chunkText, eventStream, JsonArray, type Framing } from '../../src/pipeline/framing.ts'
import type { ByteSource } from '../../src/http/call.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { protocols } from '../../src/protocols/index.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { PassthroughOutput, TranslatedOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import { haveRecordings, recordings } from '../recorded/recordings.ts'
import { answers, paces, eventsOf } from './answers.ts'
import { assertProperty, assertAsyncProperty, TIMEOUT_MS, assertSame } from './assertions.ts'
import { bytesOf, contextOf, framesOf, ISSUER, NAMES, readStream } from './protocol-pairs.ts'

/** The pieces in which the bytes of a stream arrive make no difference. */

/** Positions to cut at; an empty list cuts after every byte. */
const cuts = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.nat(5000), { minLength: 1, maxLength: 12 }) },
  { weight: 1, arbitrary: fc.constant([]) },
)

function cut(bytes: Uint8Array, positions: readonly number[]): Uint8Array[] {
  const sorted =
    positions.length === 0
      ? Array.from(bytes, (_, index) => index)
      : [...new Set([0, ...positions.map((position) => position % (bytes.length + 1))])].sort((a, b) => a - b)
  return sorted.map((start, index) => bytes.slice(start, sorted[index + 1] ?? bytes.length))
}

/** Line ends of servers. */
const lineEnds = fc.constantFrom('\n', '\r\n', '\r')
const withLineEnds = (bytes: Uint8Array, end: string): Uint8Array =>
  end === '\n' ? bytes : new TextEncoder().encode(new TextDecoder().decode(bytes).replaceAll('\n', end))

/** Responses with usage, so that no tokens have to be counted. */
const meteredStreams = fc.tuple(answers, paces).map(([answer, pace]) => {
  const events = eventsOf(
    { ...answer, metered: true, usage: { ...answer.usage, inputTokens: answer.usage.inputTokens + 1 } },
    pace,
  )
  return { answer: fold(events), events }
})

class Pieces implements ByteSource {
  readonly #pieces: Uint8Array[]
  constructor(pieces: readonly Uint8Array[]) {
    this.#pieces = [...pieces]
  }
  read(consume?: (chunk: Uint8Array) => boolean): Promise<Uint8Array | undefined> {
    let piece = this.#pieces.shift()
    while (piece !== undefined && consume?.(piece) === true) piece = this.#pieces.shift()
    return Promise.resolve(piece)
  }
  cancel(): void {}
}

/** Replaces generated ids and times. */
const reproducible = (text: string): string => {
  const ids = new Map<string, string>()
  // Signature envelopes contain ids of calls and a digest over them, so they are unwrapped first.
  const unwrapped = text.replace(/c2xjMQ[\w+/]+=*/g, (envelope) => {
    const { data, issuer, note } = unwrapSignature(envelope)
    return [issuer?.provider, issuer?.model, note, data].join('\0')
  })
  return unwrapped
    .replace(
      /\b(msg|rs|fc|ctc|ig|ci|mcp|item|call)_[0-9a-f]{20,}/g,
      (id) => ids.get(id) ?? (ids.set(id, `id-${ids.size}`), ids.get(id)!),
    )
    .replace(/"completed_at":\d+/g, '"completed_at":0')
}

/** The events that the provider's reader reads. */
const eventsRead = (provider: ConversationName, pieces: readonly Uint8Array[]): string =>
  reproducible(
    JSON.stringify(
      readStream(provider, pieces, contextOf(provider).request).map((event) =>
        event.type === 'error' ? event.error.message : event,
      ),
    ),
  )

/** The bytes that a client receives. */
async function relayed(
  provider: ConversationName,
  client: ConversationName,
  pieces: readonly Uint8Array[],
  framing: Framing = eventStream,
): Promise<string> {
  const context = contextOf(client, provider === client ? undefined : ISSUER)
  const out =
    provider === client
      ? new PassthroughOutput(protocols[client].passthrough(context), false)
      : new TranslatedOutput(protocols[client].serve.writer(context))
  const lane = new MeteredStream(readerFor(provider, {}, context.request), out, new Meter(() => Promise.resolve(1)))
  const relay = new Relay(new Pieces(pieces), lane, framing, (_outcome, last) => Promise.resolve(last))
  let text = ''
  let writes = 0
  const write = (chunk: string): 'written' | 'full' | 'refused' => {
    const result = (['written', 'full', 'refused'] as const)[writes++ % 3]!
    if (result !== 'refused') text += chunk
    return result
  }
  for (let piece = await relay.pull(); piece !== undefined; piece = await relay.pull(write)) text += chunkText(piece)
  return reproducible(text)
}

describe.each(NAMES)('a stream of %s', (provider) => {
  test(
    'gives the same events for any pieces and any line ends',
    () => {
      assertProperty(
        fc.property(
          meteredStreams,
          cuts,
          lineEnds,
          fc.option(fc.nat(5000), { nil: undefined }),
          ({ events }, positions, end, broken) => {
            const whole = bytesOf(framesOf(provider, events, contextOf(provider)))
            // A connection may break anywhere, at the same character for all line ends.
            const bytes =
              broken === undefined
                ? whole
                : new TextEncoder().encode(new TextDecoder().decode(whole).slice(0, broken % whole.length))
            assertSame(eventsRead(provider, cut(withLineEnds(bytes, end), positions)), eventsRead(provider, [bytes]))
          },
        ),
      )
    },
    TIMEOUT_MS,
  )

  test.each(NAMES)(
    'gives the same bytes to a client of %s for any pieces',
    async (client) => {
      await assertAsyncProperty(
        fc.asyncProperty(meteredStreams, cuts, lineEnds, fc.boolean(), async ({ events }, positions, end, array) => {
          const bytes = withLineEnds(bytesOf(framesOf(provider, events, contextOf(provider))), end)
          const framing = (): Framing => (array && client === 'generateContent' ? new JsonArray() : eventStream)
          const whole = await relayed(provider, client, [bytes], framing())
          assertSame(await relayed(provider, client, cut(bytes, positions), framing()), whole)
        }),
        0.3,
      )
    },
    TIMEOUT_MS,
  )

  test(
    'is passed to a client of its own protocol byte by byte, except for its id and model',
    async () => {
      await assertAsyncProperty(
        fc.asyncProperty(meteredStreams, cuts, async ({ events }, positions) => {
          const bytes = bytesOf(framesOf(provider, events, contextOf(provider)))
          // These frames already have Sluice's id and model.
          assertSame(
            await relayed(provider, provider, cut(bytes, positions)),
            reproducible(new TextDecoder().decode(bytes)),
          )
        }),
        0.5,
      )
    },
    TIMEOUT_MS,
  )
})

describe.skipIf(!haveRecordings)('recorded streams', () => {
  const streams = recordings().filter(({ stream, status }) => stream && status === 200)
  test('there are recorded streams', () => expect(streams.length).toBeGreaterThan(100))

  test.each(NAMES)(
    'a stream of %s gives the same events and the same bytes for any pieces',
    async (provider) => {
      const own = streams
        .filter(({ protocol }) => protocol === provider)
        .map((recording) => recording.response())
        .filter(({ length }) => length < 200_000)
      await assertAsyncProperty(
        fc.asyncProperty(
          fc.constantFrom(...own),
          fc.array(fc.nat(200_000), { minLength: 1, maxLength: 30 }),
          fc.constantFrom(...NAMES),
          async (bytes, positions, client) => {
            const pieces = cut(bytes, positions)
            assertSame(eventsRead(provider, pieces), eventsRead(provider, [bytes]))
            assertSame(await relayed(provider, client, pieces), await relayed(provider, client, [bytes]))
          },
        ),
      )
    },
    TIMEOUT_MS,
  )
})
