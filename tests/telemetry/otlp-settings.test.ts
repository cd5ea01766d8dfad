import { describe, expect, test } from 'bun:test'
import { otlpSettings } from '../../src/telemetry/otlp-settings.ts'
import { isSampled } from '../../src/telemetry/trace.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/base/' }

describe('the settings of OpenTelemetry', () => {
  test('are none without an address', () => {
    expect(otlpSettings({})).toMatchObject({ traces: undefined, metrics: undefined, warnings: [] })
    expect(otlpSettings({ ...ENDPOINT, OTEL_SDK_DISABLED: 'true' })).toMatchObject({ traces: undefined })
    expect(otlpSettings({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' })).toMatchObject({ traces: undefined })
  })

  test('add the paths to the shared address, and take own ones as they are', () => {
    const own = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces/x' }
    expect(otlpSettings(ENDPOINT).traces?.url).toBe('http://collector:4318/base/v1/traces')
    expect(otlpSettings({ ...ENDPOINT, ...own })).toMatchObject({
      traces: { url: 'https://traces/x' },
      metrics: { url: 'http://collector:4318/base/v1/metrics' },
    })
  })

  test('have headers of both, times, and the resource', () => {
    const settings = otlpSettings({
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1, b=x%3Dy',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=2',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_METRIC_EXPORT_INTERVAL: '1000',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,k=v',
      OTEL_SERVICE_NAME: 'b',
    })
    expect(settings.traces).toMatchObject({ headers: { a: '2', b: 'x=y' }, timeoutMs: 500, queue: 2048 })
    expect(settings.metrics).toMatchObject({ headers: { a: '1', b: 'x=y' }, everyMs: 1000 })
    expect(settings.resource).toMatchObject({ 'service.name': 'b', k: 'v' })
  })

  test('have the protocol of a kind before that of both, and http/protobuf without one', () => {
    const own = { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf', OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: ' ' }
    const protocolsOf = (env: Record<string, string>) => {
      const { traces, metrics, warnings } = otlpSettings({ ...ENDPOINT, ...env })
      return [traces?.protocol, metrics?.protocol, warnings.length]
    }
    expect(protocolsOf({})).toEqual(['http/protobuf', 'http/protobuf', 0])
    expect(protocolsOf({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' })).toEqual(['http/json', 'http/json', 0])
    expect(protocolsOf({ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...own })).toEqual(['http/protobuf', 'http/json', 0])
    expect(protocolsOf({ OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'grpc' })).toEqual(['http/protobuf', 'http/protobuf', 1])
  })

  test('warn of a protocol that is not spoken and of the port for gRPC', () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
    expect(otlpSettings(env).warnings.length).toBe(2)
  })

  test.each(['collector:4318', 'grpc://collector', 'x'])('refuse the address %s', (address) => {
    expect(() => otlpSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: address })).toThrow(
      'OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// URL',
    )
  })

  test.each([
    [undefined, undefined, { isParentBased: true, ratio: 1 }],
    ['always_off', undefined, { isParentBased: false, ratio: 0 }],
    ['traceidratio', '0.25', { isParentBased: false, ratio: 0.25 }],
    ['parentbased_traceidratio', '7', { isParentBased: true, ratio: 1 }],
  ])('have the sampler %s', (name, ratio, sampler) => {
    const env = { ...ENDPOINT, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio }
    expect(otlpSettings(env).traces?.sampler).toEqual(sampler)
  })
})

test('a quarter of the traces is a quarter', () => {
  let sampled = 0
  for (let trace = 0; trace < 4000; trace++)
    sampled += Number(isSampled({ isParentBased: true, ratio: 0.25 }, Bun.randomUUIDv7().replaceAll('-', '')))
  expect(sampled).toBeGreaterThan(800)
  expect(sampled).toBeLessThan(1200)
})
