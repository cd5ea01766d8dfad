import root from '@opentelemetry/otlp-transformer/build/src/generated/root.js'

/** A collector of OTLP over HTTP, which keeps what it gets. OpenTelemetry's own code decodes protobuf. */

export type Attribute = { key: string; value: Record<string, unknown> }
export type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  traceState?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: Attribute[]
  status?: { code?: number }
}
export type Metric = { name: string; unit: string } & Record<'sum' | 'gauge' | 'histogram', { dataPoints: Point[] }>
type Point = {
  attributes: Attribute[]
  count?: string
  sum?: number
  bucketCounts?: string[]
  explicitBounds?: number[]
}
type Resource = { resource: { attributes: Attribute[] } }
export type Message = {
  resourceSpans?: (Resource & { scopeSpans: { scope: { name: string }; spans: Span[] }[] })[]
  resourceMetrics?: (Resource & { scopeMetrics: { metrics: Metric[] }[] })[]
}

type MessageType = { decode(bytes: Uint8Array): object; toObject(message: object, options: object): object }
type Service = Record<`Export${'Trace' | 'Metrics'}ServiceRequest`, MessageType>

/** The types that OpenTelemetry generates of its .proto files. */
const { trace, metrics } = (
  root as unknown as { opentelemetry: { proto: { collector: Record<'trace' | 'metrics', { v1: Service }> } } }
).opentelemetry.proto.collector

/** A message of protobuf as OTLP's JSON has it. */
export function decodeProtobuf(kind: 'traces' | 'metrics', bytes: Uint8Array): Message {
  const type = kind === 'traces' ? trace.v1.ExportTraceServiceRequest : metrics.v1.ExportMetricsServiceRequest
  const message = type.toObject(type.decode(bytes), { longs: String, json: true })
  return JSON.parse(JSON.stringify(message, hexIds)) as Message
}

function hexIds(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const bytes = this[key]
  return bytes instanceof Uint8Array ? Buffer.from(bytes).toString('hex') : value
}

const TYPES = { 'application/x-protobuf': 'http/protobuf', 'application/json': 'http/json' } as const

export class Collector {
  /** As text, whatever they are. */
  readonly bodies: string[] = []
  readonly headers: Headers[] = []
  readonly protocols: string[] = []
  #messages: Message[] = []
  readonly #server: Bun.Server<undefined>

  /** `answer`: in place of the acceptance of everything. */
  constructor(answer: () => Response | Promise<Response> = () => new Response()) {
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const path = new URL(request.url).pathname
        const protocol = TYPES[request.headers.get('content-type') as keyof typeof TYPES]
        const kind = /^\/v1\/(traces|metrics)$/.exec(path)?.[1] as 'traces' | 'metrics' | undefined
        if (kind === undefined || protocol === undefined) return new Response('no', { status: 400 })
        const bytes = Buffer.from(await request.arrayBuffer())
        const text = bytes.toString()
        this.#messages.push(protocol === 'http/json' ? (JSON.parse(text) as Message) : decodeProtobuf(kind, bytes))
        this.bodies.push(text)
        this.headers.push(request.headers)
        this.protocols.push(protocol)
        return answer()
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  /** Forgets what came until now. */
  clear(): void {
    for (const list of [this.bodies, this.headers, this.protocols, this.#messages]) list.length = 0
  }

  get spans(): Span[] {
    return this.#messages.flatMap(spansOf)
  }

  /** As of the last message. */
  get metrics(): Metric[] {
    const last = this.#messages.findLast(({ resourceMetrics }) => resourceMetrics !== undefined)
    return last === undefined ? [] : metricsOf(last)
  }

  get resources(): Record<string, unknown>[] {
    return this.#messages.flatMap(({ resourceSpans = [], resourceMetrics = [] }) =>
      [...resourceSpans, ...resourceMetrics].map(({ resource }) => valuesOf(resource.attributes)),
    )
  }

  stop(): Promise<void> {
    return this.#server.stop(true)
  }
}

export const spansOf = ({ resourceSpans = [] }: Message): Span[] =>
  resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))

export const metricsOf = ({ resourceMetrics = [] }: Message): Metric[] =>
  resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))

/** The attributes as values: whole numbers are strings in OTLP. */
export const valuesOf = (attributes: Attribute[]): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => {
      const { stringValue, intValue, doubleValue, arrayValue } = value as Record<string, unknown>
      if (intValue !== undefined) return [key, Number(intValue)]
      if (arrayValue !== undefined)
        return [
          key,
          ((arrayValue as { values?: { stringValue: string }[] }).values ?? []).map((one) => one.stringValue),
        ]
      return [key, stringValue ?? doubleValue]
    }),
  )
