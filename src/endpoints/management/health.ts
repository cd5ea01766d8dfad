import type { AppContext } from '../../context.ts'
import { answer, time, unknown, type Page } from './answer.ts'
import type { ManagementRequest } from './route.ts'

/**
 * The last hour of a provider. `wrong_requests`: those that it refused because of what the client sent, which are not
 * in `failed`; `first_token_ms`: the median of the streams of that minute; `open`: requests now.
 */
export type ProviderHealthAnswer = {
  provider: string
  minutes: {
    at: string
    requests: number
    failed: number
    wrong_requests: number
    rate_limited: number
    first_token_ms: number | null
  }[]
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
  return answer(await healthOf(app, id))
}

/** `GET /v1/management/health/providers`: of each that is on. */
export async function listProviderHealth(app: AppContext): Promise<Response> {
  const data: ProviderHealthAnswer[] = []
  for (const { id } of app.catalogue.providers()) data.push(await healthOf(app, id))
  const page: Page<ProviderHealthAnswer> = { data, next: null, scanned_to: null }
  return answer(page)
}

async function healthOf(app: AppContext, id: string): Promise<ProviderHealthAnswer> {
  const to = app.clock.now() + MINUTE_MS
  const { minutes, codes, errors } = await app.store.reports.health(id, to - HOUR_MS - MINUTE_MS, to)
  let open = 0
  for (const { meter } of app.ledger.open)
    if ((meter.served?.provider ?? meter.attempts.at(-1)?.provider) === id) open++
  return {
    provider: id,
    minutes: minutes.map(({ at, requests, failed, wrongRequests, rateLimited, firstTokenMs }) => ({
      at: time(at),
      requests,
      failed,
      wrong_requests: wrongRequests,
      rate_limited: rateLimited,
      first_token_ms: firstTokenMs,
    })),
    failures: codes,
    open,
    errors: errors.map(({ at, ...error }) => ({ at: time(at), ...error })),
  }
}
