import type { Family, Labels, Sample } from './family.ts'
import { JsonWriter } from './json-writer.ts'
import {
  DOUBLE,
  type Field,
  ID,
  type Kind,
  type OtlpProtocol,
  type OtlpWriter,
  type Template,
  type TemplateWriter,
  TEXT,
  TIME,
  WHOLE,
} from './otlp-writer.ts'
import { ProtobufWriter } from './protobuf-writer.ts'
import type { RequestTrace } from './trace.ts'

/** The messages of OTLP 1.x, as far as they are sent: https://github.com/open-telemetry/opentelemetry-proto. */

const VARINT = 0
const FIXED = 1
const DELIMITED = 2

const one = (name: string, number: number, wireType: number): Field => ({
  name,
  tag: (number << 3) | wireType,
  isRepeated: false,
  lengthBytes: 1,
})
const many = (name: string, number: number, lengthBytes = 1): Field => ({
  ...one(name, number, DELIMITED),
  isRepeated: true,
  lengthBytes,
})

const REQUEST = { traces: many('resourceSpans', 1, 3), metrics: many('resourceMetrics', 1, 3) }
const SCOPES = { traces: many('scopeSpans', 2, 3), metrics: many('scopeMetrics', 2, 3) }
const ITEMS = { traces: many('spans', 2, 2), metrics: many('metrics', 2, 2) }
const RESOURCE = one('resource', 1, DELIMITED)
const RESOURCE_ATTRIBUTES = many('attributes', 1)
const SCOPE = one('scope', 1, DELIMITED)
const SCOPE_NAME = one('name', 1, DELIMITED)
const SCOPE_VERSION = one('version', 2, DELIMITED)

const KEY = one('key', 1, DELIMITED)
const VALUE = one('value', 2, DELIMITED)
const STRING_VALUE = one('stringValue', 1, DELIMITED)
const INT_VALUE = one('intValue', 3, VARINT)
const DOUBLE_VALUE = one('doubleValue', 4, FIXED)
const ARRAY_VALUE = one('arrayValue', 5, DELIMITED)
const ARRAY_VALUES = many('values', 1)

const SPAN = {
  traceId: one('traceId', 1, DELIMITED),
  spanId: one('spanId', 2, DELIMITED),
  traceState: one('traceState', 3, DELIMITED),
  parentSpanId: one('parentSpanId', 4, DELIMITED),
  name: one('name', 5, DELIMITED),
  kind: one('kind', 6, VARINT),
  start: one('startTimeUnixNano', 7, FIXED),
  end: one('endTimeUnixNano', 8, FIXED),
  attributes: many('attributes', 9),
  status: one('status', 15, DELIMITED),
}
const STATUS_CODE = one('code', 3, VARINT)
const STATUS_ERROR = 2

export const KIND_SERVER = 2
export const KIND_CLIENT = 3

export const writerOf = (protocol: OtlpProtocol): OtlpWriter =>
  protocol === 'http/json' ? new JsonWriter() : new ProtobufWriter()

/** Begins a message of spans or metrics, which `endMessage` ends. */
export function beginMessage(out: OtlpWriter, kind: 'traces' | 'metrics', resource: Labels, version: string): void {
  out.clear()
  out.begin(REQUEST[kind])
  out.begin(RESOURCE)
  writeLabels(out, RESOURCE_ATTRIBUTES, resource)
  out.end()
  out.begin(SCOPES[kind])
  out.begin(SCOPE)
  out.text(SCOPE_NAME, 'sluice')
  out.text(SCOPE_VERSION, version)
  out.end()
}

/** Valid until the next message is written. */
export function endMessage(out: OtlpWriter): Uint8Array {
  out.end()
  out.end()
  return out.written
}

const writeLabels = (out: OtlpWriter, field: Field, labels: Labels): void => {
  for (const name in labels) writeText(out, field, name, labels[name]!)
}

function beginAttribute(out: OtlpWriter, field: Field, key: string): void {
  out.begin(field)
  out.text(KEY, key)
  out.begin(VALUE)
}

function endAttribute(out: OtlpWriter): void {
  out.end()
  out.end()
}

function writeText(out: OtlpWriter, field: Field, key: string, value: string): void {
  beginAttribute(out, field, key)
  out.text(STRING_VALUE, value)
  endAttribute(out)
}

/** An attribute of the span that is open. */
export const textAttribute = (out: OtlpWriter, key: string, value: string): void =>
  writeText(out, SPAN.attributes, key, value)

export function wholeAttribute(out: OtlpWriter, key: string, value: number): void {
  beginAttribute(out, SPAN.attributes, key)
  out.int64(INT_VALUE, value)
  endAttribute(out)
}

export function doubleAttribute(out: OtlpWriter, key: string, value: number): void {
  beginAttribute(out, SPAN.attributes, key)
  out.double(DOUBLE_VALUE, value)
  endAttribute(out)
}

export function textsAttribute(out: OtlpWriter, key: string, values: readonly string[]): void {
  beginAttribute(out, SPAN.attributes, key)
  out.begin(ARRAY_VALUE)
  for (const value of values) {
    out.begin(ARRAY_VALUES)
    out.text(STRING_VALUE, value)
    out.end()
  }
  out.end()
  endAttribute(out)
}

/** A value of an attribute that a template leaves out. `bytes`: see `leave`. */
function leaveValue(out: TemplateWriter, key: string, kind: Kind, value: Field, bytes: number): void {
  beginAttribute(out, SPAN.attributes, key)
  out.leave(kind, value, bytes)
  endAttribute(out)
}

export const leaveText = (out: TemplateWriter, key: string, length: number): void =>
  leaveValue(out, key, TEXT, STRING_VALUE, length)

export const leaveWhole = (out: TemplateWriter, key: string, bytes: number): void =>
  leaveValue(out, key, WHOLE, INT_VALUE, bytes)

export const leaveDouble = (out: TemplateWriter, key: string): void =>
  leaveValue(out, key, DOUBLE, DOUBLE_VALUE, FIXED_BYTES)

const TRACE_BYTES = 16
const SPAN_BYTES = 8
const FIXED_BYTES = 8

/** The common part of many spans. `write`: writes their attributes, or leaves values of them out. */
type SpanForm = {
  name: string
  kind: number
  hasParent: boolean
  hasFailed: boolean
  write(out: TemplateWriter): void
}

/** Leaves out the ids of trace, span and parent, start and end in Unix milliseconds, and what `write` leaves out. */
export const spanTemplate = (out: OtlpWriter, { name, kind, hasParent, hasFailed, write }: SpanForm): Template =>
  out.prepare((template) => {
    template.leave(ID, SPAN.traceId, TRACE_BYTES)
    template.leave(ID, SPAN.spanId, SPAN_BYTES)
    if (hasParent) template.leave(ID, SPAN.parentSpanId, SPAN_BYTES)
    template.leave(TIME, SPAN.start, FIXED_BYTES)
    template.leave(TIME, SPAN.end, FIXED_BYTES)
    if (hasFailed) {
      template.begin(SPAN.status)
      template.enumeration(STATUS_CODE, STATUS_ERROR)
      template.end()
    }
    template.text(SPAN.name, name)
    template.enumeration(SPAN.kind, kind)
    write(template)
  })

/** Begins a span, to which attributes can be added. `values`: those that its template leaves out. */
export function beginSpan(out: OtlpWriter, template: Template, values: readonly (string | number)[]): void {
  out.begin(ITEMS.traces)
  out.fill(template, values)
}

export function endSpan(out: OtlpWriter, { parent }: RequestTrace): void {
  const state = parent?.headers.tracestate
  if (state !== undefined) out.text(SPAN.traceState, state)
  out.end()
}

const METRIC = {
  name: one('name', 1, DELIMITED),
  description: one('description', 2, DELIMITED),
  unit: one('unit', 3, DELIMITED),
  gauge: one('gauge', 5, DELIMITED),
  counter: one('sum', 7, DELIMITED),
  histogram: one('histogram', 9, DELIMITED),
}
const POINTS = many('dataPoints', 1)
const TEMPORALITY = one('aggregationTemporality', 2, VARINT)
const CUMULATIVE = 2
const IS_MONOTONIC = one('isMonotonic', 3, VARINT)

const POINT_START = one('startTimeUnixNano', 2, FIXED)
const POINT_TIME = one('timeUnixNano', 3, FIXED)
const NUMBER = { attributes: many('attributes', 7), value: one('asDouble', 4, FIXED) }
const HISTOGRAM = {
  attributes: many('attributes', 9),
  count: one('count', 4, FIXED),
  sum: one('sum', 5, FIXED),
  counts: many('bucketCounts', 6),
  bounds: many('explicitBounds', 7),
}

/** Units by the end of a name. */
const UNITS = [
  [/_seconds(?:_total)?$/, 's'],
  [/_bytes$/, 'By'],
  [/_usd_total$/, 'USD'],
  [/_total$/, '1'],
] as const

/** Cumulative since `startMs`. */
export function writeMetric(out: OtlpWriter, family: Family, startMs: number, nowMs: number): void {
  const { name, help, type, samples, otel } = family
  out.begin(ITEMS.metrics)
  out.text(METRIC.name, otel?.name ?? name.replace(/_total$/, ''))
  out.text(METRIC.description, help)
  out.text(METRIC.unit, otel?.unit ?? UNITS.find(([end]) => end.test(name))?.[1] ?? '1')
  out.begin(METRIC[type])
  for (const sample of samples()) writePoint(out, sample, startMs, nowMs)
  if (type !== 'gauge') out.enumeration(TEMPORALITY, CUMULATIVE)
  if (type === 'counter') out.isTrue(IS_MONOTONIC)
  out.end()
  out.end()
}

function writePoint(out: OtlpWriter, { labels, value }: Sample, startMs: number, nowMs: number): void {
  out.begin(POINTS)
  out.time(POINT_START, startMs)
  out.time(POINT_TIME, nowMs)
  if (typeof value === 'number') {
    writeLabels(out, NUMBER.attributes, labels)
    out.double(NUMBER.value, value)
  } else {
    writeLabels(out, HISTOGRAM.attributes, labels)
    out.fixed64(HISTOGRAM.count, value.count)
    out.double(HISTOGRAM.sum, value.sum)
    out.fixed64s(HISTOGRAM.counts, value.counts)
    out.doubles(HISTOGRAM.bounds, value.bounds)
  }
  out.end()
}
