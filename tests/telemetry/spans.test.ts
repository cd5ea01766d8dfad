import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { noUsage } from '../../src/generation/usage.ts'
import type { RequestEntry } from '../../src/log/request-line.ts'
import { type EndedRequest, SpanWriter } from '../../src/pipeline/span-writer.ts'
import type { AttemptRecord } from '../../src/providers/attempt-record.ts'
import type { GenerationRecord } from '../../src/store/store.ts'
import { beginMessage, endMessage, writerOf } from '../../src/telemetry/otlp.ts'
import { RequestTrace } from '../../src/telemetry/trace.ts'
import { runs } from '../runs.ts'
import { type Message, type Span, decodeProtobuf, spansOf, valuesOf } from './collector.ts'

/**
 * Spans of any requests, in any order, against what the requests say. Few different values make many requests that are
 * alike but for one.
 */

const few = <T>(...values: T[]): fc.Arbitrary<T> => fc.constantFrom(...values)
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
const hex = (digits: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${digits}}$`))
const name = fc.oneof(few('m', 'acme/large', 'é', 'a'.repeat(300), `${'a'.repeat(256)}b`), fc.string({ maxLength: 8 }))
const count = fc.oneof(few(0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 40), fc.nat(100_000))

const attempt: fc.Arbitrary<AttemptRecord> = fc.record(
  {
    provider: few('acme', 'azure', 'google', 'x'),
    model: name,
    protocol: few('chat.completions', 'generateContent', 'images'),
    startedMs: fc.nat(5_000),
    status: few(400, 429, 502),
    error: few('upstream_error', 'rate_limited'),
    spanId: hex(16),
    milliseconds: fc.nat(100_000),
  },
  { requiredKeys: ['provider', 'milliseconds', 'spanId'], noNullPrototype: true },
)

const usage = fc
  .record({ inputTokens: count, cacheReadTokens: count, cacheWrite5mTokens: count, cacheWrite1hTokens: count })
  .chain((input) =>
    fc.record({ outputTokens: count, reasoningTokens: count }).map((output) => ({ ...noUsage(), ...input, ...output })),
  )

const generation = fc.record({
  id: fc.tuple(few('chatcmpl-', 'msg_'), hex(32)).map((parts) => parts.join('')),
  outcome: few('completed', 'failed'),
  cost: few('0', '0.000017', '12.5', '1234567.000000001'),
  losses: few<string[]>([], ['lost.one'], ['lost.one', 'lost.two']),
  attempts: fc.array(attempt, { maxLength: 3 }),
  servedModel: maybe(name),
  hasBegun: fc.boolean(),
  record: fc.record({
    model: name,
    finish: few('stop', 'length', ''),
    streamed: fc.boolean(),
    latency: fc.nat(9_000),
    usage,
  }),
})

const parent = fc.record({ spanId: hex(16), state: maybe(few('vendor=a', 'b=c')) })

const request = fc.record({
  traceId: hex(32),
  parent: maybe(parent),
  method: few('POST', 'GET'),
  startedAt: fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 }),
  attemptsAfter: fc.nat(100),
  level: few('info', 'warn', 'error'),
  requestId: hex(32).map((digits) => `req_${digits}`),
  route: few('messages', 'responses', 'GET /*'),
  status: few(200, 404, 500),
  key: maybe(few('first', 'é key')),
  model: maybe(name),
  error: maybe(few('not_found', 'internal_error')),
  ms: fc.nat(100_000),
  generation: maybe(generation),
})
type Request = typeof request extends fc.Arbitrary<infer T> ? T : never

/** A request, and for each value of it the same with that value of another one. */
function alike(one: Request, other: Request): Request[] {
  const oneByOne = <T extends object>(object: T, from: T, put: (changed: T) => Request): Request[] =>
    (Object.keys(object) as (keyof T)[]).map((key) => put({ ...object, [key]: from[key] }))
  const { generation } = one
  const tried = generation?.attempts.at(-1)
  const otherTried = other.generation?.attempts.at(-1)
  if (tried === undefined || otherTried === undefined) return [one, other]
  const { record } = generation!
  const withAttempt = (last: AttemptRecord): Request => ({ ...one, generation: { ...generation!, attempts: [last] } })
  const withRecord = (record: NonNullable<Request['generation']>['record']): Request => ({
    ...one,
    generation: { ...generation!, record },
  })
  return [
    one,
    ...oneByOne(one, other, (changed) => changed),
    ...oneByOne(generation!, other.generation!, (generation) => ({ ...one, generation })),
    ...oneByOne(record, other.generation!.record, withRecord),
    ...oneByOne(record.usage, other.generation!.record.usage, (usage) => withRecord({ ...record, usage })),
    ...oneByOne(tried, otherTried, withAttempt),
  ]
}

function endedOf({ generation, parent, ...one }: Request): EndedRequest {
  const { traceId, method, startedAt, attemptsAfter, ...rest } = one
  const headers = { traceparent: '', ...(parent?.state === undefined ? {} : { tracestate: parent.state }) }
  const remote = parent && { traceId, spanId: parent.spanId, isSampled: true, headers, headersFor: () => headers }
  const trace = new RequestTrace(traceId, remote, method, startedAt)
  trace.attemptsAt = startedAt + attemptsAfter
  const entry = { ...rest, generation } as unknown as RequestEntry
  const { attempts = [], servedModel, hasBegun = false } = generation ?? {}
  const record = generation?.record as GenerationRecord | undefined
  return { trace, entry, record, attempts, servedModel, hasBegun }
}

const cut = (model: string) => model.slice(0, 256)
const time = (ms: number) => String(BigInt(ms) * 1_000_000n)
const present = (attributes: Record<string, unknown>) =>
  Object.entries(attributes).filter(([, value]) => value !== undefined)

type Expected = Omit<Span, 'attributes' | 'spanId' | 'parentSpanId'> & {
  parentSpanId: string | undefined
  attributes: [string, unknown][]
}

const FAILED = { status: { code: 2 } }
const stateOf = ({ parent }: Request) => (parent?.state === undefined ? {} : { traceState: parent.state })

function requestSpan(one: Request): Expected {
  const { generation, level, model } = one
  const hasFailed = level === 'error'
  return {
    traceId: one.traceId,
    parentSpanId: one.parent?.spanId,
    ...stateOf(one),
    name: `${one.method} ${one.route}`,
    kind: 2,
    startTimeUnixNano: time(one.startedAt),
    endTimeUnixNano: time(one.startedAt + one.ms),
    ...(hasFailed ? FAILED : {}),
    attributes: present({
      'http.request.method': one.method,
      'http.route': one.route,
      'http.response.status_code': one.status,
      'url.scheme': 'http',
      'sluice.key': one.key,
      'gen_ai.request.model': model === undefined ? undefined : cut(model),
      'error.type': one.error ?? (hasFailed ? (generation?.outcome ?? String(one.status)) : undefined),
      'sluice.outcome': generation?.outcome,
      'sluice.request_id': one.requestId,
      'sluice.generation_id': generation?.id,
      'sluice.cost_usd': generation && Number(generation.cost),
      'sluice.losses': generation?.losses.length === 0 ? undefined : generation?.losses,
    }),
  }
}

const OPERATIONS: Record<string, string> = { generateContent: 'generate_content', images: 'generate_content' }
const PROVIDERS: Record<string, string> = { azure: 'azure.ai.openai', google: 'gcp.gemini' }
const positive = (count: number) => (count > 0 ? count : undefined)

function attemptSpan(one: Request, tried: AttemptRecord, parentSpanId: string): Expected {
  const { record, servedModel, hasBegun, attempts } = one.generation!
  const { usage, finish } = record
  const hasServed = tried === attempts.at(-1) && tried.error === undefined
  const hasFailed = tried.error !== undefined || (hasServed && one.level === 'error')
  const operation = OPERATIONS[tried.protocol!] ?? 'chat'
  const model = cut(tried.model ?? record.model)
  const startMs = one.startedAt + one.attemptsAfter + (tried.startedMs ?? 0)
  const endMs = hasServed ? one.startedAt + one.ms : startMs + tried.milliseconds
  const served = {
    'gen_ai.response.model': servedModel === undefined ? undefined : cut(servedModel),
    'gen_ai.response.finish_reasons': [finish],
    'gen_ai.usage.input_tokens':
      usage.inputTokens + usage.cacheReadTokens + usage.cacheWrite5mTokens + usage.cacheWrite1hTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens + usage.reasoningTokens,
    'gen_ai.usage.cache_read.input_tokens': positive(usage.cacheReadTokens),
    'gen_ai.usage.cache_creation.input_tokens': positive(usage.cacheWrite5mTokens + usage.cacheWrite1hTokens),
    'gen_ai.usage.reasoning.output_tokens': positive(usage.reasoningTokens),
    'gen_ai.response.time_to_first_chunk':
      record.streamed && hasBegun ? Math.max(0, one.startedAt + record.latency - startMs) / 1000 : undefined,
  }
  return {
    traceId: one.traceId,
    parentSpanId,
    ...stateOf(one),
    name: `${operation} ${model}`,
    kind: 3,
    startTimeUnixNano: time(startMs),
    endTimeUnixNano: time(Math.max(startMs, endMs)),
    ...(hasFailed ? FAILED : {}),
    attributes: present({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': PROVIDERS[tried.provider] ?? tried.provider,
      'gen_ai.request.model': model,
      ...(hasServed ? served : { 'error.type': tried.error, 'http.response.status_code': tried.status }),
    }),
  }
}

/** Compares the spans of a message with what its requests say. The ids of requests' spans are random. */
function check(spans: Span[], requests: readonly Request[]): void {
  let at = 0
  const next = (expected: Expected): Span => {
    const span = spans[at++]!
    const { spanId, attributes, parentSpanId, ...rest } = span
    expect({ ...rest, parentSpanId, attributes: Object.entries(valuesOf(attributes)) }).toEqual(expected)
    expect(spanId).toMatch(/^[0-9a-f]{16}$/)
    return span
  }
  for (const one of requests) {
    const { spanId } = next(requestSpan(one))
    for (const tried of one.generation?.attempts ?? [])
      if (tried.spanId !== undefined) expect(next(attemptSpan(one, tried, spanId)).spanId).toBe(tried.spanId)
  }
  expect(at).toBe(spans.length)
}

describe.each(['http/protobuf', 'http/json'] as const)('spans by %s', (protocol) => {
  const out = writerOf(protocol)
  const writer = new SpanWriter()

  const written = (requests: readonly Request[]): Span[] => {
    beginMessage(out, 'traces', {}, '1')
    for (const one of requests) writer.write(out, endedOf(one))
    const bytes = endMessage(out)
    const isJson = protocol === 'http/json'
    return spansOf(isJson ? (JSON.parse(Buffer.from(bytes).toString()) as Message) : decodeProtobuf('traces', bytes))
  }

  test('say of each request what happened, whatever came before it', () => {
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 8 }), (requests) => check(written(requests), requests)),
      { numRuns: runs(200, 5_000) },
    )
  })

  test('differ where requests differ by one value', () => {
    const pair = fc.tuple(request, request).filter((pair) => pair.every(({ generation }) => generation !== undefined))
    fc.assert(
      fc.property(pair, ([one, other]) => {
        const requests = alike(one, other)
        check(written(requests), requests)
      }),
      { numRuns: runs(100, 5_000) },
    )
  })

  test('are right with more models than are remembered', () => {
    const [one] = fc.sample(request, 1) as [Request]
    const requests = Array.from({ length: 1_100 }, (_, index) => ({ ...one, model: `acme/${index}` }))
    check(written(requests), requests)
    check(written(requests), requests)
  })
})
