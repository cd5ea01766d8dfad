import type { Strategy } from '../../config/terms.ts'
import type { AppContext } from '../../context.ts'
import type { GenerationRequest, ProtocolName } from '../../generation/request.ts'
import { roughInputTokens } from '../../ledger/estimate.ts'
import { protocols } from '../../protocols/index.ts'
import type { RawRequest, TranslationContext } from '../../protocols/protocol.ts'
import { bodyBytes } from '../../protocols/raw-request.ts'
import { routingMembers } from '../../protocols/routing-members.ts'
import { PreparedRequests } from '../../providers/attempt.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import type { Chosen } from '../../providers/routing/choose.ts'
import { settingsOf, USUAL_OUTPUT_TOKENS } from '../routing.ts'
import { losslessEndpoints, representingEndpoints, translationOptions } from '../strict.ts'
import { capableEndpoints, demandsOf } from './capable.ts'
import { type Candidates, type Dropped, leftOut, NOT_REPRESENTABLE, WITH_LOSSES } from './candidates.ts'

/** A request to choose for: its body, if there is one, and its headers. */
export type PreviewedRequest = {
  model: string
  protocol: ProtocolName
  rawRequest: RawRequest | undefined
  headers: Headers
}

type RoutePreview = { strategy: Strategy; decision: Chosen<Endpoint>; dropped: readonly Dropped[] }

/** The choice that a request would have now, without sending it. Throws as the request would be refused. */
export function previewRoute(app: AppContext, requested: PreviewedRequest): RoutePreview {
  const { model, protocol, rawRequest, headers } = requested
  const { serve } = protocols[protocol]
  const routing = rawRequest && routingMembers(rawRequest, serve)
  const caller = { identity: { allows: () => true }, request: { headers }, routing }
  const found = app.candidates.of(caller, model, protocol)
  const request = rawRequest && serve.readRequest(rawRequest)
  const able = request === undefined ? found : capable(app, requested, found, request)
  const settings = settingsOf(app.config, able.endpoints[0]!, model)
  const decision = app.router.route(able.endpoints, {
    preferences: found.preferences,
    strategy: settings.strategy,
    promptTokens: request === undefined ? 0 : roughInputTokens(request, bodyBytes(rawRequest!)),
    outputTokens: USUAL_OUTPUT_TOKENS,
    conversation: undefined,
  })
  return { strategy: found.preferences.strategy ?? settings.strategy, decision, dropped: able.dropped }
}

/** The endpoints that the request can be written for, as `select` of prepare.ts finds them. */
function capable(
  { config, schemaCache }: AppContext,
  { rawRequest, model, headers }: PreviewedRequest,
  { endpoints, dropped, preferences }: Candidates,
  request: GenerationRequest,
): Pick<Candidates, 'endpoints' | 'dropped'> {
  const representing = representingEndpoints(request, endpoints)
  const able = capableEndpoints(representing, () => demandsOf(request, bodyBytes(rawRequest!)))
  const isStrict = translationOptions(headers, config).strict || preferences.requireParameters === true
  const responseIdentity = { id: '', model, createdAt: 0 }
  const context: TranslationContext = { rawRequest: rawRequest!, request, responseIdentity }
  const lossless = isStrict ? losslessEndpoints(new PreparedRequests(context, schemaCache), representing) : representing
  return {
    endpoints: lossless,
    dropped: [
      ...dropped,
      ...leftOut(endpoints, representing, NOT_REPRESENTABLE),
      ...able.dropped,
      ...leftOut(able.endpoints, lossless, WITH_LOSSES),
    ],
  }
}
