import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import type { SpeedRow } from '../../store/store.ts'
import { answer, time } from './answer.ts'
import { choicesIn, instantIn } from './filters.ts'
import type { ManagementRequest } from './route.ts'
import { bucketIn, countedFrom } from './usage.ts'
import { Zone, type BucketName } from './zones.ts'

/** Percentiles are right within 5 %. `tokens_per_second`: after the first token. */
export type SpeedMeasures = {
  requests: number
  first_token_ms: { p50: number; p95: number; p99: number }
  tokens_per_second: number | null
}

export type SpeedAnswer = {
  from: string
  to: string
  tz: string
  bucket: BucketName
  /** As that of the usage. */
  counted_from: string | null
  data: { provider: string | null; model: string; total: SpeedMeasures; points: [at: string, SpeedMeasures][] }[]
}

const DAY_MS = 86_400_000

/** `GET /v1/management/speed`: completed streams by provider and model. */
export async function getSpeed(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const now = app.clock.now()
  const to = instantIn(inbound, 'to', now) ?? now
  const from = instantIn(inbound, 'from', now) ?? to - DAY_MS
  if (from >= to) throw invalid('from', 'must be before to')
  const zone = new Zone(inbound.query.get('tz') ?? 'UTC')
  const bucket = bucketIn(inbound)
  const bounds = zone.bounds(bucket, from, to)
  const choices = await choicesIn(app, inbound, ['model', 'provider'])
  const rows = await app.store.reports.speed({ bounds, choices })
  const speed: SpeedAnswer = {
    from: time(from),
    to: time(to),
    tz: zone.name,
    bucket,
    counted_from: await countedFrom(app),
    data: [...Map.groupBy(rows, ({ provider, model }) => JSON.stringify([provider, model])).values()].map((own) => ({
      provider: own[0]!.provider,
      model: own[0]!.model,
      total: measured(own),
      points: own.map((row) => [time(bounds[row.bucket]!), measured([row])]),
    })),
  }
  return answer(speed)
}

function measured(rows: readonly SpeedRow[]): SpeedMeasures {
  const counts = new Map<number, number>()
  for (const { counts: own } of rows)
    for (const [bucket, requests] of own) counts.set(bucket, (counts.get(bucket) ?? 0) + requests)
  const sorted = [...counts].sort(([a], [b]) => a - b)
  const requests = sorted.reduce((sum, [, count]) => sum + count, 0)
  const percentile = (share: number): number => {
    let left = requests * share
    const found = sorted.find(([, count]) => (left -= count) <= 0) ?? sorted.at(-1)
    return Math.round(2 ** (found![0] / 8))
  }
  const tokens = rows.reduce((sum, row) => sum + row.tokens, 0)
  const durationMs = rows.reduce((sum, row) => sum + row.durationMs, 0)
  return {
    requests,
    first_token_ms: { p50: percentile(0.5), p95: percentile(0.95), p99: percentile(0.99) },
    tokens_per_second: durationMs === 0 ? null : Math.round((tokens / durationMs) * 10_000) / 10,
  }
}
