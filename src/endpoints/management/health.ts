import type { AppContext } from '../../context.ts'
import { answer, time, unknown } from './answer.ts'
import type { ManagementRequest } from './route.ts'

/** The last hour of a provider. `first_token_ms`: the median of the streams of that minute; `open`: requests now. */
export type ProviderHealthAnswer = {
  minutes: { at: string; requests: number; failed: number; rate_limited: number; first_token_ms: number | null }[]
  failures: { code: string; requests: number }[]
  open: number
  errors: { at: string; model: string | null; code: string; message: string | null }[]
}

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

/** `GET /v1/management/providers/{id}/health`. */
export async function getProviderHealth(app: AppContext, { params }: ManagementRequest): Promise<Response> {
  const id = params[0]!
  if (!app.catalogue.providers().some((provider) => provider.id === id)) throw unknown('provider', 'id')
  const to = app.clock.now() + MINUTE_MS
  const { minutes, codes, errors } = await app.store.reports.health(id, to - HOUR_MS - MINUTE_MS, to)
  let open = 0
  for (const { meter } of app.ledger.open) if ((meter.served?.provider ?? meter.tries.at(-1)?.provider) === id) open++
  const health: ProviderHealthAnswer = {
    minutes: minutes.map(({ at, requests, failed, rateLimited, firstTokenMs }) => ({
      at: time(at),
      requests,
      failed,
      rate_limited: rateLimited,
      first_token_ms: firstTokenMs,
    })),
    failures: codes,
    open,
    errors: errors.map(({ at, ...error }) => ({ at: time(at), ...error })),
  }
  return answer(health)
}
