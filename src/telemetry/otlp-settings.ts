import { version } from '../../package.json'
import type { OtlpProtocol } from './otlp-writer.ts'
import type { Sampler } from './trace.ts'

/** One kind of data on its way to a collector. */
export type OtlpTarget = { url: string; protocol: OtlpProtocol; headers: Record<string, string>; timeoutMs: number }

export type OtlpSettings = {
  traces: (OtlpTarget & { sampler: Sampler; queue: number; batch: number; delayMs: number }) | undefined
  metrics: (OtlpTarget & { everyMs: number }) | undefined
  /** Attributes of this server. */
  resource: Record<string, string>
  /** Settings that are not followed, in words. */
  warnings: string[]
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * The settings of OpenTelemetry in the environment: https://opentelemetry.io/docs/specs/otel/protocol/exporter/. Throws
 * an Error for the operator for an address that is no URL.
 */
export function otlpSettings(env: Environment): OtlpSettings {
  const isDisabled = env.OTEL_SDK_DISABLED?.toLowerCase() === 'true'
  const target = (kind: 'traces' | 'metrics'): OtlpTarget | undefined =>
    isDisabled || env[`OTEL_${kind.toUpperCase()}_EXPORTER`] === 'none' ? undefined : targetOf(env, kind)
  const [traces, metrics] = [target('traces'), target('metrics')]
  return {
    traces: traces && {
      ...traces,
      sampler: samplerOf(env),
      queue: count(env, 'OTEL_BSP_MAX_QUEUE_SIZE', 2048),
      batch: count(env, 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512),
      delayMs: count(env, 'OTEL_BSP_SCHEDULE_DELAY', 5_000),
    },
    metrics: metrics && { ...metrics, everyMs: count(env, 'OTEL_METRIC_EXPORT_INTERVAL', 60_000) },
    resource: resourceOf(env),
    warnings: warningsOf(env, [
      ['traces', traces],
      ['metrics', metrics],
    ]),
  }
}

function targetOf(env: Environment, kind: 'traces' | 'metrics'): OtlpTarget | undefined {
  const KIND = kind.toUpperCase()
  const [own, shared] = [`OTEL_EXPORTER_OTLP_${KIND}_ENDPOINT`, 'OTEL_EXPORTER_OTLP_ENDPOINT']
  const name = present(env[own]) ? own : shared
  const address = env[name]
  if (!present(address)) return undefined
  const url = URL.parse(name === own ? address : `${address.replace(/\/+$/, '')}/v1/${kind}`)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Error(`${name} must be an http:// or https:// URL, such as http://127.0.0.1:4318`)
  return {
    url: url.href,
    protocol: protocolOf(env, kind) === 'http/json' ? 'http/json' : DEFAULT_PROTOCOL,
    headers: {
      ...pairs(env.OTEL_EXPORTER_OTLP_HEADERS),
      ...pairs(env[`OTEL_EXPORTER_OTLP_${KIND}_HEADERS`]),
    },
    timeoutMs: count(env, `OTEL_EXPORTER_OTLP_${KIND}_TIMEOUT`, count(env, 'OTEL_EXPORTER_OTLP_TIMEOUT', 10_000)),
  }
}

/** That which OpenTelemetry recommends. */
const DEFAULT_PROTOCOL = 'http/protobuf'

/** As the environment names it, which may be one that is not spoken. */
const protocolOf = (env: Environment, kind: 'traces' | 'metrics'): string =>
  [env[`OTEL_EXPORTER_OTLP_${kind.toUpperCase()}_PROTOCOL`], env.OTEL_EXPORTER_OTLP_PROTOCOL].find(present) ??
  DEFAULT_PROTOCOL

const present = (text: string | undefined): text is string => text !== undefined && text.trim() !== ''

const count = (env: Environment, name: string, otherwise: number): number => {
  const value = Number(env[name])
  return present(env[name]) && Number.isInteger(value) && value > 0 ? value : otherwise
}

/** `a=b,c=d`, percent-encoded. */
function pairs(text = ''): Record<string, string> {
  const found: Record<string, string> = {}
  for (const pair of text.split(',')) {
    const at = pair.indexOf('=')
    if (at > 0) found[pair.slice(0, at).trim()] = decoded(pair.slice(at + 1).trim())
  }
  return found
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function samplerOf(env: Environment): Sampler {
  const name = env.OTEL_TRACES_SAMPLER ?? ''
  const ratio = Number(present(env.OTEL_TRACES_SAMPLER_ARG) ? env.OTEL_TRACES_SAMPLER_ARG : 1)
  const share = Number.isFinite(ratio) ? Math.min(1, Math.max(0, ratio)) : 1
  return {
    isParentBased: name === '' || name.startsWith('parentbased'),
    ratio: name.endsWith('always_off') ? 0 : name.endsWith('traceidratio') ? share : 1,
  }
}

function resourceOf(env: Environment): Record<string, string> {
  const named = pairs(env.OTEL_RESOURCE_ATTRIBUTES)
  const name = present(env.OTEL_SERVICE_NAME) ? env.OTEL_SERVICE_NAME : (named['service.name'] ?? 'sluice')
  return { 'service.version': version, 'service.instance.id': crypto.randomUUID(), ...named, 'service.name': name }
}

function warningsOf(
  env: Environment,
  targets: [kind: 'traces' | 'metrics', target: OtlpTarget | undefined][],
): string[] {
  const warnings = new Set<string>()
  for (const [kind, target] of targets) {
    if (target === undefined) continue
    const named = protocolOf(env, kind)
    if (named !== target.protocol) warnings.add(`OTLP is sent as ${target.protocol}, not as ${named.slice(0, 40)}`)
    if (new URL(target.url).port === '4317')
      warnings.add('port 4317 of a collector is usually that for gRPC; for OTLP over HTTP it is 4318')
  }
  return [...warnings]
}
