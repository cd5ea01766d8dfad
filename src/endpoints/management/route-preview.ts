import type { AppContext } from '../../context.ts'
import { invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { parseExact } from '../../json/exact.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { explainedRequest } from '../../providers/explain.ts'
import { previewRoute, type PreviewedRequest } from '../../pipeline/routing/preview.ts'
import { protocols } from '../../protocols/index.ts'
import { answer } from './answer.ts'
import { bodyTextOf } from './body.ts'
import type { ManagementRequest } from './route.ts'

/** An endpoint: `acme/key-2`, its name of the model, and the fallback model that it is for. */
type RoutedEndpoint = { endpoint: string; model: string; protocol: string; fallback: string | null }

/**
 * The choice among the endpoints of a model. `candidates`: in the order of attempts, a lower score is better. Rates and
 * times are those of the last minutes, null where they are not known; `quota_left`: the share of the provider's own
 * limits.
 */
export type RouteAnswer = {
  model: string
  protocol: string
  strategy: string
  candidates: (RoutedEndpoint & {
    score: number
    reason: string
    in_flight: number
    success_rate: number | null
    first_token_ms: number | null
    tokens_per_second: number | null
    quota_left: number
    breaker: string
  })[]
  /** `seconds`: until it is available again; null where the request may not use it. */
  left_out: (RoutedEndpoint & { reason: string; seconds: number | null })[]
}

const MEMBERS = ['model', 'protocol', 'body', 'headers']
const BODY_BYTES = 2 ** 20

/** `POST /v1/management/route`: the endpoints that a request would be sent to now, without sending it. */
export async function previewModelRoute(app: AppContext, inbound: ManagementRequest): Promise<Response> {
  const requested = readGiven(await bodyTextOf(inbound, BODY_BYTES))
  const { strategy, decision, dropped } = previewRoute(app, requested)
  const now = app.router.now()
  const rounded = (value: number | undefined): number | null => (value === undefined ? null : Math.round(value))
  const routed: RouteAnswer = {
    model: requested.model,
    protocol: requested.protocol,
    strategy,
    candidates: decision.candidates.map(({ endpoint, state, score, reason }) => ({
      ...named(endpoint),
      score,
      reason,
      in_flight: state.inFlight,
      success_rate: thousandths(state.knownSuccessRate(now)),
      first_token_ms: rounded(state.firstTokenMs(0.5)),
      tokens_per_second: rounded(state.tokensPerSecond(now)),
      quota_left: state.quotaLeft(now),
      breaker: state.breaker.state,
    })),
    left_out: [
      ...decision.dropped.map(({ endpoint, unavailable: { reason, until } }) => ({
        ...named(endpoint),
        reason,
        seconds: Math.max(0, Math.ceil((until - now) / 1000)),
      })),
      ...dropped.map(({ endpoint, reason }) => ({ ...named(endpoint), reason, seconds: null })),
    ],
  }
  return answer(routed)
}

const thousandths = (share: number | undefined): number | null =>
  share === undefined ? null : Math.round(share * 1000) / 1000

const named = ({ name, target, protocol, fallback }: Endpoint): RoutedEndpoint => ({
  endpoint: name,
  model: target.model,
  protocol,
  fallback: fallback ?? null,
})

function readGiven(text: string): PreviewedRequest {
  const given = parseExact(text)
  if (!isObject(given)) throw invalid('body', 'must be a JSON object')
  const unknown = Object.keys(given).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) throw invalid(unknown.slice(0, 80), `is unknown; known members: ${MEMBERS.join(', ')}`)
  const { model, protocol, body, headers = {} } = given
  if (model !== undefined && typeof model !== 'string') throw invalid('model', 'must be a string')
  const known = Object.values(protocols).find(({ name, alias }) => name === protocol || alias === protocol)
  if (protocol !== undefined && known === undefined)
    throw invalid('protocol', `must be one of ${Object.keys(protocols).join(', ')}`)
  if (body !== undefined && !isObject(body)) throw invalid('body', 'must be the body of a request')
  if (!isObject(headers) || !Object.values(headers).every((value) => typeof value === 'string'))
    throw invalid('headers', 'must be an object of strings')
  const sent = headersOf(headers as Record<string, string>)
  if (body === undefined) {
    if (model === undefined) throw invalid('model', 'is required, here or in body')
    return { model, protocol: known?.name ?? 'chat.completions', rawRequest: undefined, headers: sent }
  }
  const requested = explainedRequest(JSON.stringify(body), { protocol: known?.name, model, stream: false })
  if (requested === undefined) throw invalid('model', 'is required, here or in body')
  return { ...requested, headers: sent }
}

function headersOf(given: Record<string, string>): Headers {
  try {
    return new Headers(given)
  } catch {
    throw invalid('headers', 'must have names and values of headers')
  }
}
