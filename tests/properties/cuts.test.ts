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

/** It does not matter in which pieces the bytes of an answer come. */

/** Places to cut at; none: every byte by itself. */
const cuts = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.nat(5000), { minLength: 1, maxLength: 12 }) },
  { weight: 1, arbitrary: fc.constant([]) },
)

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const sorted =
    places.length === 0
      ? Array.from(bytes, (_, index) => index)
      : [...new Set([0, ...places.map((place) => place % (bytes.length + 1))])].sort((a, b) => a - b)
  return sorted.map((place, index) => bytes.slice(place, sorted[index + 1] ?? bytes.length))
}

/** The three ways in which servers end lines. */
const lineEnds = fc.constantFrom('\n', '\r\n', '\r')
const withLineEnds = (bytes: Uint8Array, end: string): Uint8Array =>
  end === '\n' ? bytes : new TextEncoder().encode(new TextDecoder().decode(bytes).replaceAll('\n', end))

/** Answers whose usage is told, so that nothing has to be counted. */
const told = fc.tuple(answers, paces).map(([answer, pace]) => {
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
  read(): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#pieces.shift())
  }
  cancel(): void {}
}

/** Ids are drawn anew for each answer, and the clock goes on. */
const timeless = (text: string): string => {
  const ids = new Map<string, string>()
  // Also within what is sealed, where the call is named whose signature it is, and over which a seal has its digest.
  const opened = text.replace(/c2xjMQ[\w+/]+=*/g, (sealed) => {
    const { data, issuer, note } = unwrapSignature(sealed)
    return [issuer?.provider, issuer?.model, note, data].join('\0')
  })
  return opened
    .replace(
      /\b(msg|rs|fc|ctc|ig|item|call)_[0-9a-f]{20,}/g,
      (id) => ids.get(id) ?? (ids.set(id, `id-${ids.size}`), ids.get(id)!),
    )
    .replace(/"completed_at":\d+/g, '"completed_at":0')
}

/** What the provider's reader hears, event by event. */
const heard = (provider: ConversationName, pieces: readonly Uint8Array[]): string =>
  timeless(
    JSON.stringify(
      readStream(provider, pieces, contextOf(provider).request).map((event) =>
        event.type === 'error' ? event.error.message : event,
      ),
    ),
  )

/** What a client gets. */
async function relayed(
  provider: ConversationName,
  client: ConversationName,
  pieces: readonly Uint8Array[],
  framing: Framing = eventStream,
): Promise<string> {
  const context = contextOf(client, provider === client ? undefined : ISSUER)
  const out =
    provider === client
      ? new PassthroughOutput(protocols[client].passthrough(context))
      : new TranslatedOutput(protocols[client].serve.writer(context))
  const lane = new MeteredStream(readerFor(provider, {}, context.request), out, new Meter(() => Promise.resolve(1)))
  const relay = new Relay(new Pieces(pieces), lane, framing, (_ending, last) => Promise.resolve(last))
  let text = ''
  for (let piece = await relay.pull(); piece !== undefined; piece = await relay.pull()) text += chunkText(piece)
  return timeless(text)
}

describe.each(NAMES)('a stream of %s', (provider) => {
  test(
    'is heard alike, however its bytes are cut and its lines end',
    () => {
      assertProperty(
        fc.property(
          told,
          cuts,
          lineEnds,
          fc.option(fc.nat(5000), { nil: undefined }),
          ({ events }, places, end, broken) => {
            const whole = bytesOf(framesOf(provider, events, contextOf(provider)))
            // A connection may break anywhere, between two lines for one: where a line is broken is the same for all
            // line ends.
            const bytes =
              broken === undefined
                ? whole
                : new TextEncoder().encode(new TextDecoder().decode(whole).slice(0, broken % whole.length))
            assertSame(heard(provider, cut(withLineEnds(bytes, end), places)), heard(provider, [bytes]))
          },
        ),
      )
    },
    TIMEOUT_MS,
  )

  test.each(NAMES)(
    'is the same text for a client of %s',
    async (client) => {
      await assertAsyncProperty(
        fc.asyncProperty(told, cuts, lineEnds, fc.boolean(), async ({ events }, places, end, array) => {
          const bytes = withLineEnds(bytesOf(framesOf(provider, events, contextOf(provider))), end)
          const framing = (): Framing => (array && client === 'generateContent' ? new JsonArray() : eventStream)
          const whole = await relayed(provider, client, [bytes], framing())
          assertSame(await relayed(provider, client, cut(bytes, places), framing()), whole)
        }),
        0.3,
      )
    },
    TIMEOUT_MS,
  )

  test(
    'passes byte for byte to a client of its own protocol, but for the names on it',
    async () => {
      await assertAsyncProperty(
        fc.asyncProperty(told, cuts, async ({ events }, places) => {
          const bytes = bytesOf(framesOf(provider, events, contextOf(provider)))
          // These frames bear our names already.
          assertSame(await relayed(provider, provider, cut(bytes, places)), timeless(new TextDecoder().decode(bytes)))
        }),
        0.5,
      )
    },
    TIMEOUT_MS,
  )
})

describe.skipIf(!haveRecordings)('recorded streams', () => {
  const streams = recordings().filter(({ stream, status }) => stream && status === 200)
  test('there are some', () => expect(streams.length).toBeGreaterThan(100))

  test.each(NAMES)(
    'of %s are heard alike and are the same text, however they are cut',
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
          async (bytes, places, client) => {
            const pieces = cut(bytes, places)
            assertSame(heard(provider, pieces), heard(provider, [bytes]))
            assertSame(await relayed(provider, client, pieces), await relayed(provider, client, [bytes]))
          },
        ),
      )
    },
    TIMEOUT_MS,
  )
})
