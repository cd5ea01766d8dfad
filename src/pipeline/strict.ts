import type { Config } from '../config/load.ts'
import { GatewayError, invalid } from '../error.ts'
import type { Loss } from '../protocols/translation.ts'
import { hasReferences } from '../protocols/schema/references.ts'
import type { PreparedRequests } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'

/**
 * What a client says of losses: `strict`, that there must be none on the way to the provider; `report`, that it wants
 * to read of them in the body.
 */
export function translationOptions(
  headers: Headers,
  config: Pick<Config, 'strict'>,
): { strict: boolean; report: boolean } {
  const strict = headers.get('x-sluice-strict')
  if (strict !== null && strict !== 'true' && strict !== 'false')
    throw invalid('x-sluice-strict', "must be 'true' or 'false'")
  const report = headers.get('x-sluice-report')
  if (report !== null && report !== 'body') throw invalid('x-sluice-report', "must be 'body'")
  return { strict: strict === null ? config.strict : strict === 'true', report: report !== null }
}

/**
 * The endpoints to which a request gets whole. Throws unsupported_parameter, with all that would be lost, where there
 * is none.
 */
export function losslessEndpoints(
  preparedRequests: PreparedRequests,
  endpoints: readonly Endpoint[],
): readonly Endpoint[] {
  const refusals: GatewayError[] = []
  const lost = endpoints.flatMap((endpoint) => {
    try {
      return [{ endpoint, losses: preparedRequests.of(endpoint).losses.losses }]
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      refusals.push(error)
      return []
    }
  })
  const whole = lost.filter(({ losses }) => losses.length === 0)
  if (whole.length > 0) return whole.map(({ endpoint }) => endpoint)
  throw lost.length > 0 ? refusal(lost) : refusals[0]!
}

/**
 * Bytes by which a request grows for the endpoint where it grows most, as references in its schemas are followed: what
 * they lead to is paid for, too.
 */
export function schemaGrowth(preparedRequests: PreparedRequests, endpoints: readonly Endpoint[]): number {
  const {
    request: { protocol, tools, outputFormat },
    rawRequest,
  } = preparedRequests.asked
  if (!hasReferences([outputFormat, tools])) return 0
  const lengths = endpoints
    .filter((endpoint) => endpoint.protocol !== protocol)
    .map((endpoint) => Buffer.byteLength(drafted(preparedRequests, endpoint)))
  return Math.max(0, ...lengths) - Math.min(Buffer.byteLength(rawRequest.text), Math.max(0, ...lengths))
}

/** Nothing for an endpoint that has no words for the request. */
function drafted(preparedRequests: PreparedRequests, endpoint: Endpoint): string {
  try {
    return preparedRequests.of(endpoint).body
  } catch (error) {
    if (error instanceof GatewayError) return ''
    throw error
  }
}

const LOSSES_MAX = 50

function refusal(lost: readonly { endpoint: Endpoint; losses: readonly Loss[] }[]): GatewayError {
  const all = lost
    .flatMap(({ endpoint: { provider }, losses }) => losses.map((loss) => ({ provider: provider.id, ...loss })))
    .slice(0, LOSSES_MAX)
  const texts = all.map(
    ({ provider, path, effect, reason }) => `${path} would be ${effect} for ${provider} (${reason})`,
  )
  return new GatewayError(
    'unsupported_parameter',
    `The request is strict and no provider of this model supports every field: ${texts.join('; ')}. ` +
      'Set x-sluice-strict: false to send it anyway.',
    { param: all[0]!.path, metadata: { translation: all } },
  )
}
