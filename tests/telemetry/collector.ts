/** A collector of OTLP over HTTP, which keeps what it gets. */

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
type Message = {
  resourceSpans?: (Resource & { scopeSpans: { scope: { name: string }; spans: Span[] }[] })[]
  resourceMetrics?: (Resource & { scopeMetrics: { metrics: Metric[] }[] })[]
}

export class Collector {
  readonly bodies: string[] = []
  readonly headers: Headers[] = []
  readonly #server: Bun.Server<undefined>

  /** `answer`: in place of the acceptance of everything. */
  constructor(answer: () => Response | Promise<Response> = () => Response.json({})) {
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const path = new URL(request.url).pathname
        const text = await request.text()
        if (!/^\/v1\/(traces|metrics)$/.test(path) || request.headers.get('content-type') !== 'application/json')
          return new Response('no', { status: 400 })
        this.bodies.push(text)
        this.headers.push(request.headers)
        return answer()
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  get #messages(): Message[] {
    return this.bodies.map((body) => JSON.parse(body) as Message)
  }

  get spans(): Span[] {
    return this.#messages.flatMap(({ resourceSpans = [] }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    )
  }

  /** As of the last message. */
  get metrics(): Metric[] {
    const last = this.#messages.findLast(({ resourceMetrics }) => resourceMetrics !== undefined)
    return last?.resourceMetrics?.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics)) ?? []
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

/** The attributes as values: whole numbers are strings in OTLP. */
export const valuesOf = (attributes: Attribute[]): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => {
      const { stringValue, intValue, doubleValue, arrayValue } = value as Record<string, unknown>
      if (intValue !== undefined) return [key, Number(intValue)]
      if (arrayValue !== undefined)
        return [key, (arrayValue as { values: { stringValue: string }[] }).values.map((one) => one.stringValue)]
      return [key, stringValue ?? doubleValue]
    }),
  )
