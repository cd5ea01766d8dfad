import type { Family, Labels, Sample } from './family.ts'
import type { ByteWriter } from './byte-writer.ts'
import type { RequestTrace } from './trace.ts'

/** The JSON form of OTLP 1.x, written piece by piece: building values first costs twice as much. */

export const KIND_SERVER = 2
export const KIND_CLIENT = 3

const text = (value: string): string => `{"stringValue":${JSON.stringify(value)}}`

export const textAttribute = (key: string, value: string): string => `{"key":"${key}","value":${text(value)}}`
export const wholeAttribute = (key: string, value: number): string => `{"key":"${key}","value":{"intValue":"${value}"}}`
export const doubleAttribute = (key: string, value: number): string =>
  `{"key":"${key}","value":{"doubleValue":${value}}}`
export const textsAttribute = (key: string, values: readonly string[]): string =>
  `{"key":"${key}","value":{"arrayValue":{"values":[${values.map(text).join(',')}]}}}`

const attributesOf = (labels: Labels): string =>
  Object.entries(labels)
    .map(([name, value]) => textAttribute(name, value))
    .join(',')

/** The parts around the spans or metrics of one message. */
export const envelope = (
  kind: 'Spans' | 'Metrics',
  resource: Labels,
  version: string,
): { head: string; tail: string } => ({
  head:
    `{"resource${kind}":[{"resource":{"attributes":[${attributesOf(resource)}]},` +
    `"scope${kind}":[{"scope":{"name":"sluice","version":"${version}"},"${kind.toLowerCase()}":[`,
  tail: ']}]}]}',
})

/** The JSON of a span from its name on; `writeSpan` adds attributes. `attributes`: JSON, with commas between. */
export const sharedJson = (name: string, kind: number, attributes: string): Uint8Array =>
  Buffer.from(`,"name":${JSON.stringify(name)},"kind":${kind},"attributes":[${attributes}`)

export type SpanFacts = {
  trace: RequestTrace
  spanId: string
  parentId: string | undefined
  /** Unix milliseconds. */
  startMs: number
  endMs: number
  hasFailed: boolean
  /** The part that is the same for many spans, of `sharedJson`. */
  shared: Uint8Array
  /** JSON of further attributes, each after a comma. */
  attributes: string
}

export function writeSpan(out: ByteWriter, span: SpanFacts): void {
  const { trace, spanId, parentId, startMs, endMs, hasFailed, shared, attributes } = span
  const state = trace.parent?.headers.tracestate
  out.text(
    `{"traceId":"${trace.traceId}","spanId":"${spanId}"` +
      (parentId === undefined ? '' : `,"parentSpanId":"${parentId}"`) +
      (state === undefined ? '' : `,"traceState":${JSON.stringify(state)}`) +
      `,"startTimeUnixNano":"${startMs}000000","endTimeUnixNano":"${Math.max(startMs, endMs)}000000"` +
      (hasFailed ? ',"status":{"code":2}' : ''),
  )
  out.bytes(shared)
  out.text(`${attributes}]}`)
}

/** Cumulative since this instant. */
export function metricsJson(families: readonly Family[], startMs: number, nowMs: number): string {
  const times = `"startTimeUnixNano":"${startMs}000000","timeUnixNano":"${nowMs}000000"`
  return families.map((family) => metricJson(family, times)).join(',')
}

const CUMULATIVE = '"aggregationTemporality":2'

/** Units by the end of a name. */
const UNITS = [
  [/_seconds(?:_total)?$/, 's'],
  [/_bytes$/, 'By'],
  [/_usd_total$/, 'USD'],
  [/_total$/, '1'],
] as const

function metricJson({ name, help, type, samples, otel }: Family, times: string): string {
  const unit = otel?.unit ?? UNITS.find(([end]) => end.test(name))?.[1] ?? '1'
  const points = samples().map((sample) => pointJson(sample, times))
  const data =
    type === 'gauge'
      ? `"gauge":{"dataPoints":[${points}]}`
      : type === 'counter'
        ? `"sum":{"dataPoints":[${points}],${CUMULATIVE},"isMonotonic":true}`
        : `"histogram":{"dataPoints":[${points}],${CUMULATIVE}}`
  const otelName = otel?.name ?? name.replace(/_total$/, '')
  return `{"name":"${otelName}","description":${JSON.stringify(help)},"unit":"${unit}",${data}}`
}

function pointJson({ labels, value }: Sample, times: string): string {
  const head = `{"attributes":[${attributesOf(labels)}],${times}`
  if (typeof value === 'number') return `${head},"asDouble":${value}}`
  const { bounds, counts, sum, count } = value
  return (
    `${head},"count":"${count}","sum":${sum},"bucketCounts":["${counts.join('","')}"],` +
    `"explicitBounds":[${bounds.join(',')}]}`
  )
}
