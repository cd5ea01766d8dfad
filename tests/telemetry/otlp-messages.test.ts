import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Family } from '../../src/telemetry/family.ts'
import { Histogram } from '../../src/telemetry/histogram.ts'
import {
  beginMessage,
  beginSpan,
  doubleAttribute,
  endMessage,
  endSpan,
  leaveDouble,
  leaveText,
  leaveWhole,
  spanTemplate,
  textAttribute,
  textsAttribute,
  wholeAttribute,
  writeMetric,
  writerOf,
} from '../../src/telemetry/otlp.ts'
import { bytesOf, type TemplateWriter } from '../../src/telemetry/otlp-writer.ts'
import { ProtobufWriter } from '../../src/telemetry/protobuf-writer.ts'
import { RequestTrace } from '../../src/telemetry/trace.ts'
import { type Message, type Metric, type Span, decodeProtobuf, metricsOf, valuesOf } from './collector.ts'

/** Messages of any contents, read by OpenTelemetry's own decoder or by a parser of JSON. */

type Written = {
  traceId: string
  spanId: string
  parentId: string | undefined
  state: string | undefined
  name: string
  startMs: number
  lastsMs: number
  hasFailed: boolean
  text: string
  whole: number
  double: number
  texts: string[]
  /** Values that a template leaves out. */
  left: { text: string; whole: number; double: number }
}

const ID = (digits: number) => fc.stringMatching(new RegExp(`^[0-9a-f]{${digits}}$`))
/** Any UTF-16, unpaired surrogates too. */
const text = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 127 }), fc.integer({ min: 0, max: 0xffff })), { maxLength: 200 })
  .map((units) => String.fromCharCode(...units))
const natural = fc.oneof(fc.nat(300), fc.maxSafeNat())
/** Unix milliseconds until the year 2200. */
const instant = fc.integer({ min: 1, max: 7_258_118_400_000 })

const span: fc.Arbitrary<Written> = fc.record({
  traceId: ID(32),
  spanId: ID(16),
  parentId: fc.option(ID(16), { nil: undefined }),
  state: fc.option(fc.string({ minLength: 1 }), { nil: undefined }),
  name: text,
  startMs: instant,
  lastsMs: fc.nat(10_000_000),
  hasFailed: fc.boolean(),
  text,
  whole: natural,
  double: fc.double(),
  texts: fc.array(text, { maxLength: 4 }),
  left: fc.record({ text: fc.stringMatching(/^[a-z0-9_-]{0,120}$/), whole: natural, double: fc.double() }),
})

const read = (protocol: 'http/protobuf' | 'http/json', kind: 'traces' | 'metrics', bytes: Uint8Array): Message =>
  protocol === 'http/json' ? (JSON.parse(Buffer.from(bytes).toString()) as Message) : decodeProtobuf(kind, bytes)

const nanoseconds = (ms: number): string => String(BigInt(ms) * 1_000_000n)
/** In JSON, numbers that it does not have are texts, and there is one zero. */
const numberOf = (value: unknown): number => Number(value ?? 0) + 0
const KIND = 3

describe.each(['http/protobuf', 'http/json'] as const)('messages of %s', (protocol) => {
  const out = writerOf(protocol)

  const write = (spans: readonly Written[]): Uint8Array => {
    beginMessage(out, 'traces', { 'service.name': 'sluice', k: 'é' }, '1.2.3')
    for (const one of spans) {
      const traceparent = `00-${one.traceId}-${one.parentId}-01`
      const headers = one.state === undefined ? { traceparent } : { traceparent, tracestate: one.state }
      const parent = { traceId: one.traceId, spanId: '', isSampled: true, headers, headersFor: () => headers }
      const trace = new RequestTrace(one.traceId, parent, 'POST', one.startMs)
      const { startMs, parentId, left } = one
      const form = {
        name: one.name,
        kind: KIND,
        hasParent: parentId !== undefined,
        hasFailed: one.hasFailed,
        write(span: TemplateWriter) {
          textAttribute(span, 'shared', one.text)
          leaveText(span, 'left text', left.text.length)
          leaveWhole(span, 'left whole', bytesOf(left.whole))
          leaveDouble(span, 'left double')
        },
      }
      const ids = parentId === undefined ? [one.traceId, one.spanId] : [one.traceId, one.spanId, parentId]
      const values = [...ids, startMs, startMs + one.lastsMs, left.text, left.whole, left.double]
      beginSpan(out, spanTemplate(out, form), values)
      textAttribute(out, 'text', one.text)
      wholeAttribute(out, 'whole', one.whole)
      doubleAttribute(out, 'double', one.double)
      textsAttribute(out, 'texts', one.texts)
      endSpan(out, trace)
    }
    return endMessage(out)
  }

  const check = (spans: readonly Written[]): void => {
    const message = read(protocol, 'traces', write(spans))
    expect(valuesOf(message.resourceSpans![0]!.resource.attributes)).toEqual({ 'service.name': 'sluice', k: 'é' })
    expect(message.resourceSpans![0]!.scopeSpans[0]!.scope as object).toEqual({ name: 'sluice', version: '1.2.3' })
    expect(message.resourceSpans!.length).toBe(1)
    const got = message.resourceSpans![0]!.scopeSpans[0]!.spans ?? []
    expect(got.length).toBe(spans.length)
    for (const [index, one] of spans.entries()) checkSpan(got[index]!, one)
  }

  test('have the spans that were written, whatever their contents', () => {
    fc.assert(fc.property(fc.array(span, { maxLength: 5 }), check))
  })

  test.each([0, 1, 64, 65, 127, 128, 16_383, 16_384, 2_097_152])('have texts of %d bytes', (length) => {
    const [one] = fc.sample(span, 1) as [Written]
    check([{ ...one, text: 'a'.repeat(length) }, { ...one, text: 'é'.repeat(length / 2) }, one])
  })

  test('begin again in the same memory', () => {
    const [long, short] = fc.sample(span, 2) as [Written, Written]
    const expected = write([short]).slice()
    check([long, long, { ...long, text: 'x'.repeat(100_000) }])
    expect(write([short])).toEqual(expected)
  })

  test('have the metrics that were written, whatever their values', () => {
    const counts = fc.array(natural, { minLength: 3, maxLength: 3 })
    fc.assert(
      fc.property(text, fc.double(), counts, fc.double(), instant, (help, number, counts, sum, nowMs) => {
        const histogram = new Histogram([0.5, 2 ** 60])
        histogram.counts.splice(0, 3, ...counts)
        histogram.sum = sum
        const labels = { model: help, empty: '' }
        const family = (type: Family['type'], value: number | Histogram): Family => ({
          name: `sluice_${type}_seconds_total`,
          help,
          type,
          samples: () => [{ labels, value }],
        })
        beginMessage(out, 'metrics', {}, '1')
        for (const type of ['counter', 'gauge'] as const) writeMetric(out, family(type, number), 1, nowMs)
        writeMetric(out, family('histogram', histogram), 1, nowMs)
        const [counter, gauge, histograms] = metricsOf(read(protocol, 'metrics', endMessage(out))) as [
          Metric,
          Metric,
          Metric,
        ]
        expect([counter.name, counter.unit]).toEqual(['sluice_counter_seconds', 's'])
        expect(counter.sum).toMatchObject({ aggregationTemporality: 2, isMonotonic: true })
        for (const [point] of [counter.sum.dataPoints, gauge.gauge.dataPoints]) {
          expect(numberOf((point as { asDouble?: unknown }).asDouble)).toBe(number + 0)
          expect(point).toMatchObject({ startTimeUnixNano: nanoseconds(1), timeUnixNano: nanoseconds(nowMs) })
        }
        const [point] = histograms.histogram.dataPoints as [(typeof histograms.histogram.dataPoints)[0]]
        expect(histograms.histogram).toMatchObject({ aggregationTemporality: 2 })
        expect(valuesOf(point.attributes)).toEqual({ model: expect.any(String), empty: '' })
        expect(point.bucketCounts).toEqual(counts.map(String))
        expect(point.explicitBounds).toEqual([0.5, 2 ** 60])
        expect(numberOf(point.sum)).toBe(sum + 0)
      }),
    )
  })
})

test('a message of protobuf keeps its last byte where its length is the first to need more memory', () => {
  for (let size = 65_520; size < 65_550; size++) {
    const out = new ProtobufWriter()
    out.begin({ name: 'any', tag: 10, isRepeated: false, lengthBytes: 1 })
    out.fill({ left: [], bytes: new Uint8Array(size).fill(7), texts: [], list: undefined }, [])
    out.end()
    const { written } = out
    expect([written.length, written[0], written.at(-1)]).toEqual([1 + 3 + size, 10, 7])
  }
})

function checkSpan(got: Span, one: Written): void {
  expect([got.traceId, got.spanId, got.parentSpanId]).toEqual([one.traceId, one.spanId, one.parentId])
  expect([got.traceState, got.name.toWellFormed(), got.kind]).toEqual([one.state, one.name.toWellFormed(), KIND])
  expect(got.startTimeUnixNano).toBe(nanoseconds(one.startMs))
  expect(got.endTimeUnixNano).toBe(nanoseconds(one.startMs + one.lastsMs))
  expect(got.status?.code === 2).toBe(one.hasFailed)
  const values = valuesOf(got.attributes) as Record<string, string> & { texts?: string[] }
  const names = ['text', 'whole', 'double']
  expect(Object.keys(values)).toEqual(['shared', ...names.map((name) => `left ${name}`), ...names, 'texts'])
  expect([values.shared!, values.text!].map((text) => text.toWellFormed())).toEqual(
    Array(2).fill(one.text.toWellFormed()),
  )
  expect([values['left text'], values['left whole']] as unknown[]).toEqual([one.left.text, one.left.whole])
  expect(numberOf(values['left double'])).toBe(one.left.double + 0)
  expect(values.whole as unknown).toBe(one.whole)
  expect(numberOf(values.double)).toBe(one.double + 0)
  expect((values.texts ?? []).map((text) => text.toWellFormed())).toEqual(one.texts.map((text) => text.toWellFormed()))
}
