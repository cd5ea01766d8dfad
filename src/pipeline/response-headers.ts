import type { PublicRequest } from '../context.ts'
import { lossesHeader } from '../protocols/losses.ts'
import type { Upstream } from '../providers/attempt.ts'
import type { Generation } from './hooks.ts'
import { routeText } from './routing/route-text.ts'

/** The request's id, under the names that OpenAI's and Anthropic's clients read. */
export const identityHeaders = ({ requestId }: PublicRequest): Record<string, string> => ({
  'x-request-id': requestId,
  'request-id': requestId,
})

/** Adds them to a response without them. */
export function identify({ headers }: Response, inbound: PublicRequest): void {
  if (headers.has('x-request-id')) return
  const identity = identityHeaders(inbound)
  for (const name in identity) headers.set(name, identity[name]!)
}

/** Headers of a response that a provider began. */
export function responseHeaders(
  { app, inbound: { requestId }, open, chosen }: Generation,
  upstream: Upstream,
  contentType = 'application/json',
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': contentType,
    'x-generation-id': upstream.context.responseIdentity.id,
    'x-request-id': requestId,
    'request-id': requestId,
    'x-sluice-provider': upstream.endpoint.provider.id,
    'x-sluice-attempts': String(upstream.attempts),
  }
  if (upstream.losses.length > 0) headers['x-sluice-translation'] = lossesHeader(upstream.losses)
  if (chosen !== undefined) headers['x-sluice-route'] = routeText(chosen, open.meter.attempts, app.router.now())
  return headers
}

/** The same for a stream, which proxies must not buffer. */
export const streamHeaders = (generation: Generation, upstream: Upstream): Record<string, string> => ({
  ...responseHeaders(
    generation,
    upstream,
    generation.route.jsonArray === true ? 'application/json' : 'text/event-stream; charset=utf-8',
  ),
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})
