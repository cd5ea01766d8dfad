import type { Config } from '../config/load.ts'
import type { AppContext, AuthenticatedRequest } from '../context.ts'
import { GatewayError, invalid } from '../error.ts'
import { lengthOf } from '../http/encode-request.ts'
import type { GenerationRequest, RequestSettings, Tool } from '../generation/request.ts'
import { classValue } from '../generation/service-class.ts'
import { isPlain } from '../ledger/service-classes.ts'
import { isRemembered } from '../protocols/element-memory.ts'
import { refusalOf } from '../protocols/fields.ts'
import type { RequestedClass } from '../protocols/requested-output.ts'
import { protocols } from '../protocols/index.ts'
import { settingPath } from '../protocols/request-paths.ts'
import { hasReferences } from '../protocols/schema/references.ts'
import type { Loss } from '../protocols/translation.ts'
import type { PreparedRequests } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'

/**
 * The client's options about losses: `strict` refuses a request that would have some on the way to the provider;
 * `report` lists them in the body of the response.
 */
export type TranslationOptions = { strict: boolean; report: boolean }

/** Throws invalid_request for values of its headers that are not known. */
export function translationOptions(headers: Headers, config: Pick<Config, 'strict'>): TranslationOptions {
  const strict = headers.get('x-sluice-strict')
  if (strict !== null && strict !== 'true' && strict !== 'false')
    throw invalid('x-sluice-strict', "must be 'true' or 'false'")
  const report = headers.get('x-sluice-report')
  if (report !== null && report !== 'body' && report !== 'headers')
    throw invalid('x-sluice-report', "must be 'body' or 'headers'")
  return { strict: strict === null ? config.strict : strict === 'true', report: report === 'body' }
}

/**
 * The endpoints that can be sent a request: those of the client's own protocol where no other can represent it. Throws
 * its refusal for none.
 */
export function representingEndpoints(request: GenerationRequest, endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const refusal = refusalOf(request)
  if (refusal === undefined) return endpoints
  const own = endpoints.filter(({ protocol }) => protocol === request.protocol)
  if (own.length === 0) throw refusal
  return own
}

/** The endpoints that a request reaches without losses. Throws unsupported_parameter with all losses for none. */
export function losslessEndpoints(
  preparedRequests: PreparedRequests,
  endpoints: readonly Endpoint[],
): readonly Endpoint[] {
  const refusals: GatewayError[] = []
  const prepared = endpoints.flatMap((endpoint) => {
    try {
      return [{ endpoint, losses: preparedRequests.of(endpoint).losses.losses }]
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      refusals.push(error)
      return []
    }
  })
  const lossless = prepared.filter(({ losses }) => losses.length === 0)
  if (lossless.length > 0) return lossless.map(({ endpoint }) => endpoint)
  throw prepared.length > 0 ? lossRefusal(prepared) : refusals[0]!
}

/**
 * Bytes by which `$ref`s in the schemas of a request make it longer at the endpoint where that is most: the expanded
 * schemas are charged, too.
 */
export function schemaGrowth(
  { protocol, tools, outputFormat }: GenerationRequest,
  bodyBytes: number,
  preparedRequests: PreparedRequests,
  endpoints: readonly Endpoint[],
): number {
  const hasToolReferences = isRemembered(tools) ? hasKnownReferences : hasReferences
  if (!tools.some(hasToolReferences) && !hasReferences(outputFormat)) return 0
  const lengths = endpoints
    .filter((endpoint) => endpoint.protocol !== protocol)
    .map((endpoint) => lengthOf(prepared(preparedRequests, endpoint)?.body ?? ''))
  const longest = Math.max(0, ...lengths)
  return longest - Math.min(bodyBytes, longest)
}

/** Reports whether a tool, which comes again as the same object, has references in its schema. */
function hasKnownReferences(tool: Tool): boolean {
  let found = toolReferences.get(tool)
  if (found === undefined) toolReferences.set(tool, (found = hasReferences(tool)))
  return found
}

/** The service tier of a request that is translated, unless it gets lost on the way to every endpoint. */
export function translatedClasses(
  { serviceTier, protocol }: GenerationRequest,
  body: Record<string, unknown>,
  endpoints: readonly Endpoint[],
  preparedRequests: PreparedRequests,
): RequestedClass[] {
  const value = serviceTier === undefined ? undefined : classValue(serviceTier)
  if (value === undefined || isPlain('service_tier', value)) return []
  const param = settingPath(protocols[protocol].serve.paths, body, 'serviceTier')
  const isSent = endpoints.some((endpoint) => {
    const { losses } = prepared(preparedRequests, endpoint)?.losses ?? {}
    return losses?.every(({ path }) => path !== param) === true
  })
  return isSent ? [{ member: 'service_tier', value, param }] : []
}

const toolReferences = new WeakMap<Tool, boolean>()

/** Undefined for an endpoint whose protocol cannot represent the request. */
function prepared(
  preparedRequests: PreparedRequests,
  endpoint: Endpoint,
): ReturnType<PreparedRequests['of']> | undefined {
  try {
    return preparedRequests.of(endpoint)
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

const LISTED_LOSSES = 50

function lossRefusal(prepared: readonly { endpoint: Endpoint; losses: readonly Loss[] }[]): GatewayError {
  const losses = prepared
    .flatMap(({ endpoint: { provider }, losses }) => losses.map((loss) => ({ provider: provider.id, ...loss })))
    .slice(0, LISTED_LOSSES)
  const texts = losses.map(
    ({ provider, path, effect, reason }) => `${path} would be ${effect} for ${provider} (${reason})`,
  )
  return new GatewayError(
    'unsupported_parameter',
    `The request is strict, and no provider of this model supports every field: ${texts.join('; ')}. ` +
      'Set x-sluice-strict: false to send it anyway.',
    { param: losses[0]!.path, metadata: { translation: losses } },
  )
}

/**
 * True where a request may be sent with a lower output limit than its own: an answer in one piece, whose client accepts
 * losses. A budget of reasoning must stay below the limit, and a compaction has none.
 */
export const mayLower = (
  { config }: Pick<AppContext, 'config'>,
  { request: { headers }, candidates }: AuthenticatedRequest,
  { stream, reasoning, compaction }: RequestSettings,
): boolean =>
  !stream &&
  compaction !== true &&
  reasoning?.budgetTokens === undefined &&
  candidates?.preferences.requireParameters !== true &&
  !translationOptions(headers, config).strict

/**
 * True where the response may be ended before its model ends it: a stream of text, whose client accepts losses. No
 * other kind of output shows how many tokens it has.
 */
export const mayEnd = (
  { config }: Pick<AppContext, 'config'>,
  { request: { headers } }: AuthenticatedRequest,
  { stream, outputModalities = ['text'] }: RequestSettings,
): boolean => stream && outputModalities.every((one) => one === 'text') && !translationOptions(headers, config).strict
