import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { version } from '../../package.json'
import { ask } from '../gateway/asking.ts'
import { startGateway, startGatewayProcess, type Gateway } from '../server.ts'
import { until } from '../transport/raw-server.ts'
import { Collector, type Span, valuesOf } from './collector.ts'

/** Traces and metrics as a collector of OpenTelemetry gets them, and what a bad collector costs. */

const CANARY = { prompt: 'canaryprompt', answer: 'canaryanswer', providerKey: 'canary-provider-key-0123456789' }
const answer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'large-2026-11-01',
  choices: [{ index: 0, message: { role: 'assistant', content: CANARY.answer }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
}

/** Headers of the requests that the provider got. */
const received: Headers[] = []
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    received.push(request.headers)
    const text = await request.text()
    if (text.includes('fail')) return Response.json({ error: { message: 'no' } }, { status: 400 })
    if (!text.includes('"stream":true')) return Response.json(answer)
    const chunk = { ...answer, object: 'chat.completion.chunk', usage: null }
    const frames = [
      { ...chunk, choices: [{ index: 0, delta: { content: CANARY.answer }, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: answer.usage },
    ]
    const body = `${frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')}data: [DONE]\n\n`
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  },
})

const CONFIG = `
billing: { unpriced: free }
providers:
  acme: { protocol: chat.completions, baseUrl: 'http://127.0.0.1:${provider.port}/v1', apiKey: ${CANARY.providerKey} }
models:
  acme/large: { endpoints: [{ provider: acme, model: large-2026 }], price: { prompt: 1, completion: 2 } }
`
const QUICK = { OTEL_BSP_SCHEDULE_DELAY: '10' }
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const fromClient = (flags: string) => ({
  traceparent: `00-${TRACE}-${PARENT}-${flags}`,
  tracestate: 'vendor=a,other=b',
})

const collector = new Collector()
let gateway: Gateway
beforeAll(async () => {
  const env = {
    ...QUICK,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-team=a%20b',
    OTEL_METRICS_EXPORTER: 'none',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  }
  gateway = await startGateway({ config: CONFIG, env })
})
afterAll(async () => {
  await gateway.stop()
  await collector.stop()
  await provider.stop(true)
})
beforeEach(() => {
  received.length = 0
  collector.clear()
})

type Asked = { protocol?: 'chat.completions' | 'messages' | 'responses'; stream?: boolean; text?: string }

async function generate(
  { protocol = 'chat.completions', stream = false, text = CANARY.prompt }: Asked,
  headers: Record<string, string> = {},
  { url, key }: Pick<Gateway, 'url' | 'key'> = gateway,
): Promise<Response> {
  const response = await ask({ url, key, protocol, model: 'acme/large', stream, text, headers })
  await response.text()
  return response
}

/** The spans of the only trace, the request's first. */
async function spans(many = 2): Promise<Span[]> {
  await until(() => collector.spans.length >= many)
  return collector.spans.toSorted((a, b) => a.kind - b.kind)
}

describe('the trace of a generation', () => {
  const lanes = (['chat.completions', 'messages', 'responses'] as const).flatMap((protocol) =>
    [false, true].map((stream) => [protocol, stream] as const),
  )

  test.each(lanes)('goes from the client through Sluice to the provider: %s, streamed %p', async (protocol, stream) => {
    const response = await generate({ protocol, stream }, fromClient('01'))
    const [request, call] = (await spans()) as [Span, Span]
    expect(collector.spans.length).toBe(2)
    expect(request).toMatchObject({
      traceId: TRACE,
      parentSpanId: PARENT,
      kind: 2,
      name: `POST ${protocol}`,
    })
    expect(call).toMatchObject({ traceId: TRACE, parentSpanId: request.spanId, kind: 3, name: 'chat large-2026' })
    expect([request.status, call.status]).toEqual([undefined, undefined])
    expect(call.traceState).toBe('vendor=a,other=b')
    expect(received[0]!.get('traceparent')).toBe(`00-${TRACE}-${call.spanId}-01`)
    expect(received[0]!.get('tracestate')).toBe('vendor=a,other=b')
    expect(valuesOf(request.attributes)).toEqual({
      'http.request.method': 'POST',
      'http.route': protocol,
      'http.response.status_code': 200,
      'url.scheme': 'http',
      'sluice.request_id': response.headers.get('x-request-id'),
      'sluice.key': 'first',
      'gen_ai.request.model': 'acme/large',
      'sluice.generation_id': response.headers.get('x-generation-id'),
      'sluice.outcome': 'completed',
      'sluice.cost_usd': 0.000017,
    })
    expect(valuesOf(call.attributes)).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'acme',
      'gen_ai.request.model': 'large-2026',
      'gen_ai.response.model': 'large-2026-11-01',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 7,
      'gen_ai.usage.output_tokens': 5,
      ...(stream ? { 'gen_ai.response.time_to_first_chunk': expect.any(Number) } : {}),
    })
    for (const { spanId, startTimeUnixNano, endTimeUnixNano } of [request, call]) {
      expect(spanId).toMatch(/^[0-9a-f]{16}$/)
      expect(startTimeUnixNano).toMatch(/^\d{19}$/)
      expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano))
    }
    expect(BigInt(call.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(request.startTimeUnixNano))
  })

  test('has the id of the request where the client sent none', async () => {
    const response = await generate({})
    const [request] = (await spans()) as [Span]
    expect(`req_${request.traceId}`).toBe(response.headers.get('x-request-id')!)
    expect(request.parentSpanId).toBeUndefined()
  })

  test('shows failures', async () => {
    expect((await generate({ text: 'please fail' })).status).toBe(400)
    const [, call] = (await spans()) as [Span, Span]
    expect(call.status).toEqual({ code: 2 })
    expect(valuesOf(call.attributes)).toMatchObject({
      'error.type': 'invalid_request',
      'http.response.status_code': 400,
    })
  })

  test('that the client does not record is none, and its header passes unchanged', async () => {
    await generate({}, fromClient('00'))
    await generate({})
    await spans()
    expect(received[0]!.get('traceparent')).toBe(fromClient('00').traceparent)
    expect(collector.spans.map(({ traceId }) => traceId)).not.toContain(TRACE)
  })

  test.each(['00-xyz', `00-${'0'.repeat(32)}-${PARENT}-01`, `ff-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01-x`])(
    'begins anew after the invalid header %s',
    async (traceparent) => {
      await generate({}, { traceparent })
      const [request] = (await spans()) as [Span]
      expect(request.parentSpanId).toBeUndefined()
      expect(received[0]!.get('traceparent')).toStartWith(`00-${request.traceId}-`)
    },
  )

  test('a refused request has a span, a probe has none', async () => {
    await fetch(`${gateway.url}/livez`)
    await fetch(`${gateway.url}/v1/models`)
    const [request] = (await spans(1)) as [Span]
    expect(request.name).toBe('GET models')
    expect(valuesOf(request.attributes)).toMatchObject({
      'http.response.status_code': 401,
      'error.type': 'invalid_api_key',
    })
    expect(collector.spans.length).toBe(1)
  })

  test('has the beginning of a long name of a model', async () => {
    const { url, key } = gateway
    await ask({ url, key, protocol: 'messages', model: `acme/${'m'.repeat(10_000)}`, stream: false })
    const [request] = (await spans(1)) as [Span]
    expect(valuesOf(request.attributes)).toMatchObject({
      'gen_ai.request.model': `acme/${'m'.repeat(251)}`,
      'error.type': 'invalid_request',
    })
  })

  test('messages have the headers and the resource of the environment, and no prompt, answer or key', async () => {
    await generate({ stream: true })
    await generate({ protocol: 'messages' })
    await spans(4)
    expect(collector.headers.at(-1)!.get('x-team')).toBe('a b')
    expect(collector.resources[0]).toMatchObject({
      'service.name': 'sluice',
      'service.version': version,
      'service.instance.id': expect.any(String),
      'deployment.environment.name': 'test',
    })
    for (const secret of [...Object.values(CANARY), gateway.key])
      expect(collector.bodies.join('')).not.toContain(secret)
  })
})

test('without a collector the trace of a client passes unchanged, and there is none without one', async () => {
  const plain = await startGateway({ config: CONFIG })
  try {
    await generate({ protocol: 'messages' }, fromClient('01'), plain)
    await generate({}, {}, plain)
    expect(received.map((headers) => headers.get('traceparent'))).toEqual([fromClient('01').traceparent, null])
    expect(received[0]!.get('tracestate')).toBe('vendor=a,other=b')
  } finally {
    await plain.stop()
  }
})

test.each([
  [undefined, 'http/protobuf'],
  ['http/json', 'http/json'],
  ['grpc', 'http/protobuf'],
])('where the environment has the protocol %s, spans come by %s', async (named, spoken) => {
  const other = new Collector()
  const env = { ...QUICK, OTEL_EXPORTER_OTLP_ENDPOINT: other.url, OTEL_METRICS_EXPORTER: 'none' }
  const server = await startGateway({ config: CONFIG, env: { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: named ?? '' } })
  try {
    await generate({ stream: true }, fromClient('01'), server)
    await until(() => other.spans.length === 2)
    expect(other.protocols).toEqual([spoken])
    const [request, call] = other.spans.toSorted((a, b) => a.kind - b.kind) as [Span, Span]
    expect(request).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, traceState: 'vendor=a,other=b' })
    expect(call).toMatchObject({ traceId: TRACE, parentSpanId: request.spanId, name: 'chat large-2026' })
    expect(valuesOf(request.attributes)).toMatchObject({ 'sluice.outcome': 'completed', 'sluice.cost_usd': 0.000017 })
    expect(valuesOf(call.attributes)).toMatchObject({
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.output_tokens': 5,
    })
  } finally {
    await server.stop()
    await other.stop()
  }
})

test.each(['http/protobuf', 'http/json'])(
  'metrics reach the collector by %s, those of the GenAI conventions too',
  async (protocol) => {
    const metrics = new Collector()
    const server = await startGatewayProcess({
      config: CONFIG,
      env: {
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${metrics.url}/v1/metrics`,
        OTEL_SERVICE_NAME: 'mine',
        OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: protocol,
      },
    })
    try {
      await generate({}, {}, server)
      server.kill('SIGTERM')
      expect(await server.exited).toBe(0)
      const named = (name: string) => metrics.metrics.find((metric) => metric.name === name)
      expect(new Set(metrics.protocols)).toEqual(new Set([protocol]))
      expect(metrics.resources[0]).toMatchObject({ 'service.name': 'mine' })
      expect(named('sluice_requests')?.sum).toMatchObject({ aggregationTemporality: 2, isMonotonic: true })
      expect(named('process_resident_memory_bytes')).toMatchObject({ unit: 'By', gauge: { dataPoints: [{}] } })
      const usage = named('gen_ai.client.token.usage')!
      expect(usage.unit).toBe('{token}')
      expect(
        usage.histogram.dataPoints.map(({ attributes, count, sum }) => [valuesOf(attributes), count, sum]),
      ).toEqual(
        [['input', 7] as const, ['output', 5] as const].map(([type, sum]) => [
          {
            'gen_ai.operation.name': 'chat',
            'gen_ai.provider.name': 'acme',
            'gen_ai.request.model': 'acme/large',
            'gen_ai.token.type': type,
          },
          '1',
          sum,
        ]),
      )
      const [{ bucketCounts, explicitBounds }] = usage.histogram.dataPoints as [(typeof usage.histogram.dataPoints)[0]]
      expect(bucketCounts!.length).toBe(explicitBounds!.length + 1)
    } finally {
      await server.stop()
      await metrics.stop()
    }
  },
)

describe('a collector that takes nothing', () => {
  const bad = {
    'is not there': () => ({ url: 'http://127.0.0.1:9', stop: () => Promise.resolve() }),
    'never answers': () => new Collector(() => new Promise<Response>(() => {})),
    refuses: () => new Collector(() => new Response('no', { status: 503 })),
  }

  test.concurrent.each(Object.entries(bad))(
    'and %s costs spans, which are counted, and nothing else',
    async (_, start) => {
      const collector = start()
      const { url } = collector
      const env = { ...QUICK, OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_MAX_QUEUE_SIZE: '10' }
      const server = await startGatewayProcess({ config: CONFIG, env })
      try {
        for (let sent = 0; sent < 40; sent++) expect((await generate({}, {}, server)).status).toBe(200)
        const text = await (await fetch(`${server.url}/metrics`)).text()
        expect(Number(/spans_total\{outcome="dropped"\} (\d+)/.exec(text)![1])).toBeGreaterThanOrEqual(40)
        expect(text).toContain('sluice_spans_total{outcome="sent"} 0\n')
        server.kill('SIGTERM')
        expect(await server.exited).toBe(0)
      } finally {
        await server.stop()
        await collector.stop()
      }
    },
    90_000,
  )
})
