import type { Config } from '../config/load.ts'
import { GatewayError } from '../error.ts'
import type { GenerationRequest, ProtocolName } from '../generation/request.ts'
import { bodyText } from '../http/encode-request.ts'
import { parseExact } from '../json/exact.ts'
import { splice } from '../json/edit.ts'
import { protocols } from '../protocols/index.ts'
import type { RawRequest, TranslationContext } from '../protocols/protocol.ts'
import { parseRawRequest } from '../protocols/raw-request.ts'
import { SchemaCache } from '../protocols/schema/cache.ts'
import type { Loss } from '../protocols/translation.ts'
import { prepare } from './attempt.ts'
import type { Catalogue, Endpoint } from './catalogue.ts'
import { howToEnable } from './configured.ts'

/** The request to one endpoint, or why it is not sent. `body`: parsed, with numbers as they are spelled. */
export type EndpointPlan = {
  provider: string
  protocol: ProtocolName
  url?: string
  headers?: Record<string, string>
  body?: unknown
  translation?: readonly Loss[]
  refused?: string
}

/**
 * A request as each endpoint of its model would get it. `off`: providers of the model that are switched off. `asNamed`:
 * members that refer to what only a running generation inserts.
 */
export type Explanation = {
  model: string
  protocol: ProtocolName
  endpoints: EndpointPlan[]
  off: { provider: string; remedy: string }[]
  asNamed: string[]
}

/** A request to explain. `text`: its body. */
export type ExplainedRequest = { rawRequest: RawRequest; protocol: ProtocolName; model: string }

/** A body with this model and stream, in the protocol that the body has where none is given. Throws like reading it. */
export function explainedRequest(
  text: string,
  given: { protocol: ProtocolName | undefined; model: string | undefined; stream: boolean },
): ExplainedRequest | undefined {
  const { body } = parseRawRequest(text, new Headers())
  const protocol = given.protocol ?? detectProtocol(body)
  const model = given.model ?? (typeof body.model === 'string' ? body.model : undefined)
  if (model === undefined) return undefined
  if (protocols[protocol].serve.modelInPath === true)
    return { rawRequest: parseRawRequest(text, new Headers(), { model, stream: given.stream }), protocol, model }
  const changes = { model: JSON.stringify(model), ...(given.stream ? { stream: 'true' } : {}) }
  return { rawRequest: parseRawRequest(splice(text, changes), new Headers()), protocol, model }
}

/** The protocol whose fields the body has; responses for a body with a model alone. */
function detectProtocol(body: Record<string, unknown>): ProtocolName {
  const [best] = Object.values(protocols)
    .map(({ name, serve }) => ({ name, score: serve.recognize(body) }))
    .toSorted((a, b) => b.score - a.score)
  return best === undefined || best.score === 0 ? 'responses' : best.name
}

/** The plans for a request, without sending it. Throws the errors of its reading, and for an unknown model. */
export function explainRequest(
  catalogue: Catalogue,
  config: Config,
  { rawRequest, protocol, model }: ExplainedRequest,
): Explanation & { request: GenerationRequest; candidates: readonly Endpoint[] } {
  const request = protocols[protocol].serve.readRequest(rawRequest)
  const candidates = catalogue.endpoints(model, protocol)
  const context: TranslationContext = { rawRequest, request, responseIdentity: { id: '', model, createdAt: 0 } }
  return {
    request,
    candidates,
    model,
    protocol,
    endpoints: candidates.map((endpoint) => explainOne(endpoint, context, config.strict)),
    off: switchedOff(catalogue, candidates).map((provider) => ({
      provider,
      remedy: howToEnable(provider, config) ?? 'it is not configured',
    })),
    asNamed: [
      ...(protocols[protocol].serve.references?.(rawRequest.body) ?? []).map(({ param }) => param),
      ...('previous_response_id' in rawRequest.body ? ['previous_response_id'] : []),
    ],
  }
}

function explainOne(endpoint: Endpoint, context: TranslationContext, strict: boolean): EndpointPlan {
  const { protocol, provider, credentials } = endpoint
  const target = { provider: provider.id, protocol }
  try {
    const {
      url,
      headers,
      body,
      losses: { losses },
    } = prepare(endpoint, context, new SchemaCache())
    const hidden = Object.fromEntries(
      [...Object.keys(provider.headers), ...Object.keys(credentials)].map((name) => [name, '(hidden)']),
    )
    const refused =
      strict && losses.length > 0
        ? { refused: 'strict is set in the configuration, and the translation has losses' }
        : {}
    return {
      ...target,
      url,
      headers: { ...headers, ...hidden },
      body: parseExact(bodyText(body)),
      translation: losses,
      ...refused,
    }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { ...target, refused: error.message }
  }
}

/** Providers of the model that are switched off. */
function switchedOff(catalogue: Catalogue, [first]: readonly Endpoint[]): string[] {
  const on = new Set(catalogue.providers().map(({ id }) => id))
  const listed = catalogue.list().find(({ id }) => id === first?.listed)
  return [...new Set(listed?.endpoints.map(({ provider }) => provider) ?? [])].filter((id) => !on.has(id))
}
