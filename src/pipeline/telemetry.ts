import { version } from '../../package.json'
import type { AppContext } from '../context.ts'
import { log } from '../log/log.ts'
import type { Family, Labels } from '../telemetry/family.ts'
import type { Histogram } from '../telemetry/histogram.ts'
import { beginMessage, endMessage, writeMetric, writerOf } from '../telemetry/otlp.ts'
import { post } from '../telemetry/otlp-exporter.ts'
import { type OtlpSettings, otlpSettings } from '../telemetry/otlp-settings.ts'
import type { ModelCounts } from './generation-counts.ts'
import { metricFamilies } from './metric-families.ts'
import { genAiProvider } from './span-writer.ts'
import { Tracing } from './tracing.ts'

/** Time for what is left to reach the collector when the server stops. */
const LAST_MS = 2_000

/** Throws an Error for the operator where the environment names a collector that cannot be one. */
export function openTelemetry(env: Parameters<typeof otlpSettings>[0]): Pick<AppContext, 'otlp' | 'tracing'> {
  const otlp = otlpSettings(env)
  return { otlp, tracing: otlp.traces && new Tracing(otlp.traces, otlp.resource) }
}

/** Begins to send metrics to a collector. Gives what sends everything a last time, and ends it. */
export function startTelemetry(app: AppContext): () => Promise<void> {
  const { otlp, tracing } = app
  for (const warning of otlp.warnings) log.warn(warning)
  const stopMetrics = otlp.metrics && startMetrics(app, otlp.metrics, otlp.resource)
  return async () => {
    await Promise.all([tracing?.exporter.stop(LAST_MS), Promise.race([stopMetrics?.(), Bun.sleep(LAST_MS)])])
  }
}

function startMetrics(
  app: AppContext,
  target: NonNullable<OtlpSettings['metrics']>,
  resource: Labels,
): () => Promise<unknown> {
  const families = [...metricFamilies(app), ...genAiFamilies(app)]
  const out = writerOf(target.protocol)
  const startMs = app.clock.now()
  let sending: Promise<unknown> | undefined
  const message = (): Uint8Array => {
    beginMessage(out, 'metrics', resource, version)
    const nowMs = app.clock.now()
    for (const family of families) writeMetric(out, family, startMs, nowMs)
    return endMessage(out)
  }
  // A message that cannot be delivered is made up for by the next, whose values include its own.
  const sendNow = (): Promise<unknown> =>
    (sending ??= post(target, message()).finally(() => {
      sending = undefined
    }))
  const timer = setInterval(() => void sendNow(), target.everyMs).unref()
  return () => {
    clearInterval(timer)
    return sendNow()
  }
}

/** The metrics of the GenAI semantic conventions. */
function genAiFamilies({ counts: { generations } }: AppContext): Family[] {
  const family = (
    name: string,
    unit: string,
    help: string,
    points: (counts: ModelCounts) => [Labels, Histogram][],
  ) => ({
    name,
    help,
    type: 'histogram' as const,
    otel: { name, unit },
    samples: () =>
      generations.all().flatMap((counts) =>
        points(counts).map(([labels, value]) => ({
          labels: {
            'gen_ai.operation.name': 'chat',
            'gen_ai.provider.name': genAiProvider(counts.provider),
            'gen_ai.request.model': counts.model,
            ...labels,
          },
          value,
        })),
      ),
  })
  return [
    family('gen_ai.client.operation.duration', 's', 'GenAI operation duration', ({ duration }) => [[{}, duration]]),
    family('gen_ai.server.time_to_first_token', 's', 'Time to the first token of streamed responses', (counts) => [
      [{}, counts.firstToken],
    ]),
    family('gen_ai.client.token.usage', '{token}', 'Input and output tokens used', (counts) => [
      [{ 'gen_ai.token.type': 'input' }, counts.inputTokens],
      [{ 'gen_ai.token.type': 'output' }, counts.outputTokens],
    ]),
  ]
}
