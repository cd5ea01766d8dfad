import { describe, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { fold, type GenerationEvent } from '../../src/generation/event.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import type { Frame } from '../../src/http/frames.ts'
import { protocols } from '../../src/protocols/index.ts'
import { checkGrammar } from '../grammar.ts'
import { answers, paces, eventsOf } from './answers.ts'
import { change, mutated, type Change } from './mutations.ts'
import { assertProperty, TIMEOUT_MS } from './assertions.ts'
import { bytesOf, contextOf, framesOf, ISSUER, NAMES, providerReader, readStream, readWhole } from './protocol-pairs.ts'

/** A reader gives a valid sequence of events for malformed frames, possibly with an upstream error, in bounded work. */

/** Deep nesting. */
const DEEP = ['[', '{"a":'].map((open) => open.repeat(100_000))
const damage = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('change' as const),
      at: fc.nat(),
      changes: fc.array(change, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('index' as const),
      at: fc.nat(),
      to: fc.constantFrom<unknown>(-1, 1e9, 2 ** 53, 0.5, '0', null, 7, []),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('drop' as const, 'twice' as const, 'swap' as const, 'last' as const),
      at: fc.nat(),
      to: fc.nat(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cut' as const), at: fc.nat(), to: fc.nat(200) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('event' as const),
      at: fc.nat(),
      to: fc.constantFrom(
        '',
        'message',
        'error',
        'ping',
        'response.unknown',
        'content_block_stop',
        'response.completed',
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('text' as const),
      at: fc.nat(),
      to: fc.constantFrom(
        '',
        '{}',
        'null',
        '[]',
        '5',
        '"x"',
        '[DONE]',
        '{"error":null}',
        '{"error":"x"}',
        '{"error":{"message":5,"code":{}}}',
        '{"__proto__":{"a":1},"choices":[{}]}',
        '\ud800',
        ...DEEP,
      ),
    }),
  },
)
type Damage = typeof damage extends fc.Arbitrary<infer T> ? T : never

function damaged(frames: readonly Frame[], all: readonly Damage[]): Frame[] {
  const out = frames.map((frame) => ({ ...frame }))
  for (const one of all) {
    const at = one.at % Math.max(1, out.length)
    const frame = out[at]
    if (frame === undefined) break
    switch (one.kind) {
      case 'change':
        frame.data = changed(frame.data, one.changes)
        break
      case 'index':
        frame.data = frame.data.replace(
          /"(index|output_index|content_index|summary_index|annotation_index|sequence_number)":\d+/g,
          (_whole, name: string) => `"${name}":${JSON.stringify(one.to)}`,
        )
        break
      case 'drop':
        out.splice(at, 1)
        break
      case 'twice':
        out.splice(one.to % out.length, 0, { ...frame })
        break
      case 'swap':
        ;[out[at], out[one.to % out.length]] = [out[one.to % out.length]!, frame]
        break
      case 'last':
        out.length = at
        break
      case 'cut':
        frame.data = frame.data.slice(0, one.to)
        break
      case 'event':
        frame.event = one.to
        break
      case 'text':
        frame.data = one.to
        break
    }
  }
  return out
}

function changed(data: string, changes: readonly Change[]): string {
  try {
    return JSON.stringify(mutated(JSON.parse(data), changes)) ?? ''
  } catch {
    return data
  }
}

/** The most events of one frame: the last frame closes all parts and reports usage. */
const EVENTS_PER_FRAME = 40

function checkEvents(events: readonly GenerationEvent[], bytes: number, frames: number): void {
  checkGrammar(events)
  const text = events.reduce((sum, event) => sum + (event.type === 'part-delta' ? event.text.length : 0), 0)
  if (events.length > EVENTS_PER_FRAME * (frames + 10)) throw new Error(`${events.length} events of ${frames} frames`)
  if (text > 4 * bytes + 1000) throw new Error(`${text} characters of ${bytes} bytes`)
  for (const event of events) if (event.type === 'error') checkError(event.error)
}

function checkError(error: unknown): void {
  if (!(error instanceof GatewayError) || error.code === 'internal_error' || error.status < 400)
    throw new Error(`not an upstream error: ${String(error)}`, { cause: error })
}

function writeAll(events: readonly GenerationEvent[], request: ReturnType<typeof contextOf>['request']): void {
  for (const client of NAMES) {
    const context = { ...contextOf(client, ISSUER), request: { ...request, includeUsage: true } }
    framesOf(client, events, context)
    if (events.at(-1)?.type === 'finish') JSON.stringify(protocols[client].serve.writeResponse(fold(events), context))
  }
}

const sent = fc.tuple(answers, paces).map(([answer, pace]) => eventsOf(answer, pace))

describe.each(NAMES)('responses of %s', (provider: ConversationName) => {
  test(
    'damaged frames give a valid sequence of events, which can be written for every client',
    () => {
      assertProperty(
        fc.property(sent, fc.array(damage, { minLength: 1, maxLength: 4 }), (events, all) => {
          const context = contextOf(provider)
          const frames = damaged(framesOf(provider, events, context), all)
          const reader = providerReader(provider, context.request)
          const received = [...frames.flatMap((frame) => reader.read(frame)), ...reader.end()]
          checkEvents(
            received,
            frames.reduce((sum, { data }) => sum + data.length, 0),
            frames.length,
          )
          writeAll(received, context.request)
          const passthrough = protocols[provider].passthrough(context)
          for (const frame of frames) passthrough.frame(frame)
          passthrough.fail(new GatewayError('upstream_error', 'x'))
        }),
        2,
      )
    },
    TIMEOUT_MS,
  )

  test(
    'damaged bytes give a valid sequence of events',
    () => {
      assertProperty(
        fc.property(sent, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 5 }), (events, all) => {
          const context = contextOf(provider)
          const frames = framesOf(provider, events, context)
          const bytes = bytesOf(frames)
          for (const [at, byte] of all) bytes[at % bytes.length] = byte
          checkEvents(readStream(provider, [bytes], context.request), bytes.length, frames.length)
        }),
        2,
      )
    },
    TIMEOUT_MS,
  )

  test(
    'a damaged whole response gives a valid sequence of events or an upstream error',
    () => {
      assertProperty(
        fc.property(sent, fc.array(change, { minLength: 1, maxLength: 4 }), (events, changes) => {
          const context = contextOf(provider)
          const body = mutated(
            JSON.parse(JSON.stringify(protocols[provider].serve.writeResponse(fold(events), context))),
            changes,
          ) as object
          let received: GenerationEvent[]
          try {
            received = readWhole(provider, body, context.request)
          } catch (error) {
            return checkError(error)
          }
          checkEvents(received, JSON.stringify(body).length, 20)
          writeAll(received, context.request)
          protocols[provider].passthrough(context).answer(JSON.stringify(body))
        }),
        2,
      )
    },
    TIMEOUT_MS,
  )
})
