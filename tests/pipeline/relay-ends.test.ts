import { describe, expect, spyOn, test } from 'bun:test'
import { deadlines } from '../../src/deadlines.ts'
import { GatewayError, type ErrorCode } from '../../src/error.ts'
import type { ByteSource } from '../../src/http/call.ts'
import type { Chunk } from '../../src/http/stream.ts'
import { Meter } from '../../src/ledger/meter.ts'
import { chunkText, eventStream } from '../../src/pipeline/framing.ts'
import { MeteredStream } from '../../src/pipeline/metered-stream.ts'
import { PassthroughOutput } from '../../src/pipeline/output.ts'
import { Relay } from '../../src/pipeline/relay.ts'
import { protocols } from '../../src/protocols/index.ts'
import { contextOf } from '../matrix/routes.ts'

const errorOf = (code: ErrorCode): GatewayError => new GatewayError(code, 'It ended.')

/** A response whose bytes come when a test gives them. */
class Source implements ByteSource {
  cancelled = 0
  reads = 0
  #consume: ((bytes: Uint8Array) => boolean) | undefined
  #reader: PromiseWithResolvers<Uint8Array | undefined> | undefined

  read(consume?: (bytes: Uint8Array) => boolean): Promise<Uint8Array | undefined> {
    this.reads++
    this.#consume = consume
    this.#reader = Promise.withResolvers()
    return this.#reader.promise
  }

  /** True where the reader goes on to wait. */
  give(text: string): boolean {
    const bytes = Buffer.from(text)
    if (this.#consume?.(bytes) === true) return true
    this.#reader!.resolve(bytes)
    return false
  }

  /** Bytes that wait until they are read. */
  giveQueued(text: string): void {
    this.#reader!.resolve(Buffer.from(text))
  }

  end(): void {
    this.#reader!.resolve(undefined)
  }

  fail(error: GatewayError): void {
    this.#reader!.reject(error)
  }

  cancel(): void {
    this.cancelled++
    this.#reader?.reject(errorOf('upstream_error'))
  }
}

const chunk = (choice: object, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'ours', model: 'a/b', choices: [{ index: 0, ...choice }], ...more })}\n\n`
const text = (content: string): string => chunk({ delta: { content }, finish_reason: null })
const USAGE = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
const STOP = chunk({ delta: {}, finish_reason: 'stop' }, { usage: USAGE })
const DONE = 'data: [DONE]\n\n'

/** `readsOn`: the provider is read on when the client leaves. */
function scene({ readsOn = false } = {}) {
  const source = new Source()
  const meter = new Meter(() => Promise.resolve(1))
  const { call, passthrough } = protocols['chat.completions']
  const output = new PassthroughOutput(passthrough(contextOf('chat.completions')), false)
  const stream = new MeteredStream(call.reader({}, false), output, meter)
  const ends: string[] = []
  const inFlight = {
    left: false,
    clientLeft() {
      this.left = true
      return readsOn
    },
  }
  const close = async (outcome: string, last: { data: string }[]): Promise<{ data: string }[]> => {
    ends.push(outcome)
    return last
  }
  const relay = new Relay(source, stream, eventStream, close, inFlight)
  return { source, meter, stream, ends, relay }
}

/** The text of a chunk that is there. */
async function textOf(pulling: Promise<Chunk | undefined>): Promise<string | undefined> {
  const chunk = await pulling
  return chunk === undefined ? undefined : chunkText(chunk)
}

test('a chunk is written once: at once, or given to the client that did not take it', async () => {
  const { source, relay } = scene()
  const written: string[] = []
  const results = ['written', 'written', 'full', 'refused'] as const
  const write = (text: string) => {
    const result = results[written.length]!
    written.push(text)
    return result
  }
  const pulling = relay.pull(write)
  expect([source.give(text('a')), source.give(text('b')), source.give(': nothing\n\n')]).toEqual([true, true, true])
  expect(source.give(text('c'))).toBe(false)
  expect(await textOf(pulling)).toBe('')
  const refused = relay.pull(write)
  source.give(text('d'))
  expect(await textOf(refused)).toBe(text('d'))
  const given = relay.pull()
  expect(source.give(text('e'))).toBe(false)
  expect(await textOf(given)).toBe(text('e'))
  const queued = relay.pull(write)
  source.giveQueued(text('f'))
  expect(await textOf(queued)).toBe(text('f'))
  expect(written).toEqual(['a', 'b', 'c', 'd'].map(text))
})

test('the beginning waits for the first chunk, but not for too long, and the client gets that chunk', async () => {
  const { source, relay } = scene()
  let hasBegun = false
  const beginning = relay.begin(60_000).then(() => (hasBegun = true))
  await Bun.sleep(0)
  expect(hasBegun).toBe(false)
  source.give(text('a'))
  await beginning
  expect(await textOf(relay.pull())).toBe(text('a'))
  const next = relay.pull()
  source.give(text('b'))
  expect(await textOf(next)).toBe(text('b'))
  const silent = scene()
  await silent.relay.begin(1)
  silent.source.give(text('b'))
  expect(await textOf(silent.relay.pull())).toBe(text('b'))
})

describe('the tail of a complete response', () => {
  const ended = async () => {
    const set = spyOn(deadlines, 'set')
    const { source, relay, ends } = scene()
    const pulling = relay.pull()
    source.give(text('a') + STOP + DONE)
    expect(await textOf(pulling)).toBe(text('a') + STOP + DONE)
    expect([await relay.pull(), ends]).toEqual([undefined, ['completed']])
    const [deadline, ms] = set.mock.calls.at(-1)!
    set.mockRestore()
    expect([ms, deadline.isSet, source.cancelled]).toEqual([1_000, true, 0])
    return { source, deadline }
  }

  test('is read, so that its connection can be used again', async () => {
    const { source, deadline } = await ended()
    const { reads } = source
    source.give('data: more\n\n')
    await Bun.sleep(0)
    expect([source.reads, deadline.isSet]).toEqual([reads + 1, true])
    source.end()
    await Bun.sleep(0)
    expect([source.reads, deadline.isSet, source.cancelled]).toEqual([reads + 1, false, 0])
  })

  test('is cut where its provider keeps sending', async () => {
    const { source, deadline } = await ended()
    deadline.owner.onDeadline()
    await Bun.sleep(0)
    expect([source.cancelled, deadline.isSet]).toEqual([1, false])
  })
})

test.each([
  ['upstream_timeout', 'timed-out'],
  ['upstream_error', 'failed'],
] as const)('a response that ends with %s is %s, with an error for its client', async (code, outcome) => {
  const { source, relay, ends, stream } = scene()
  const pulling = relay.pull()
  source.fail(errorOf(code))
  expect(await textOf(pulling)).toContain('"error"')
  expect([await relay.pull(), ends, source.cancelled, stream.error?.code]).toEqual([undefined, [outcome], 1, code])
})

test.each(['give', 'giveQueued'] as const)(
  'bytes that cannot be read end the response with an error: %s',
  async (how) => {
    const { source, relay, ends, stream } = scene()
    const pulling = relay.pull(() => 'written')
    spyOn(stream, 'take').mockImplementationOnce(() => {
      throw errorOf('upstream_error')
    })
    source[how](text('a'))
    expect(await textOf(pulling)).toContain('It ended.')
    expect([ends, source.cancelled]).toEqual([['failed'], 1])
  },
)

test('bytes that end without the end of the response are an error', async () => {
  const { source, relay, ends } = scene()
  const pulling = relay.pull()
  source.giveQueued(text('a'))
  expect(await textOf(pulling)).toBe(text('a'))
  const last = relay.pull()
  source.end()
  expect(await textOf(last)).toContain('"error"')
  expect(ends).toEqual(['failed'])
})

describe('a client that leaves', () => {
  test('ends the call, and nothing that was received by then counts any more', async () => {
    const { source, relay, ends, meter, stream } = scene()
    const taken = spyOn(stream, 'take')
    const pulling = relay.pull()
    source.give(text('a'))
    await pulling
    const left = relay.pull()
    source.give(STOP.trimEnd())
    relay.cancel()
    await left
    expect([ends[0], source.cancelled]).toEqual(['client-left', 2])
    expect(taken.mock.calls.flatMap(([frames]) => frames)).toHaveLength(1)
    expect(meter.usage.outputTokens).toBe(0)
  })

  test('of a provider that goes on has it read to its end, and nothing is written', async () => {
    const { source, relay, ends, meter } = scene({ readsOn: true })
    const written: string[] = []
    const write = (text: string) => {
      written.push(text)
      return 'written' as const
    }
    void relay.pull(write)
    source.give(text('a'))
    relay.cancel()
    expect(source.cancelled).toBe(0)
    source.giveQueued(text('b'))
    await Bun.sleep(0)
    expect(source.give(text('c'))).toBe(true)
    source.give(STOP + DONE)
    await Bun.sleep(0)
    expect([ends, source.cancelled, meter.usage.outputTokens]).toEqual([['client-left'], 0, 2])
    expect(written).toEqual([text('a')])
  })

  test('after the end of its response changes nothing', async () => {
    const { source, relay, ends } = scene()
    const pulling = relay.pull()
    source.give(text('a') + STOP + DONE)
    await pulling
    relay.cancel()
    relay.exhaust()
    relay.cut(errorOf('overloaded'))
    expect([ends, source.cancelled]).toEqual([['completed'], 0])
  })
})

test.each([
  ['a part of its end', STOP.trimEnd(), 'give'],
  ['all of its end', STOP, 'giveQueued'],
] as const)('a server that stops ends a response with its own error, where %s has come', async (_, end, how) => {
  const { source, relay, ends, meter, stream } = scene()
  const pulling = relay.pull()
  source.give(text('a'))
  await pulling
  const last = relay.pull()
  source[how](end)
  relay.cut(errorOf('overloaded'))
  relay.exhaust()
  expect(await textOf(last)).toContain('It ended.')
  expect([ends, stream.error?.code, meter.usage.outputTokens]).toEqual([['shutdown'], 'overloaded', 0])
})

test('a response for which no more can be held is ended, without the end of its provider', async () => {
  const { source, relay, ends, meter } = scene()
  const pulling = relay.pull()
  source.give(text('a'))
  await pulling
  const last = relay.pull()
  source.give(STOP.trimEnd())
  // Nothing has to be counted.
  meter.estimation = 'counted'
  meter.exhaust({ tokens: 1, candidates: 1, unseen: 0, cause: 'balance' })
  relay.exhaust()
  expect(await textOf(last)).toContain('"finish_reason":"length"')
  expect([ends, source.cancelled, meter.finish]).toEqual([['exhausted'], 2, undefined])
})
