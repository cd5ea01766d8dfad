import type { Config } from './config.ts'
import { GatewayError, invalid } from './error.ts'
import type { GenerationRequest } from './generation/request.ts'
import { protocols } from './protocols/index.ts'
import type { Loss } from './protocols/protocol.ts'
import type { Endpoint } from './providers/catalogue.ts'

/** What a client says of losses: `strict`, that there must be none on the way to the provider; `report`, that it wants to read of them in the body. */
export function wishesOf(headers: Headers, config: Pick<Config, 'strict'>): { strict: boolean; report: boolean } {
  const strict = headers.get('x-sluice-strict')
  if (strict !== null && strict !== 'true' && strict !== 'false') throw invalid('x-sluice-strict', "must be 'true' or 'false'")
  const report = headers.get('x-sluice-report')
  if (report !== null && report !== 'body') throw invalid('x-sluice-report', "must be 'body'")
  return { strict: strict === null ? config.strict : strict === 'true', report: report !== null }
}

/** The endpoints to which a request gets whole. Throws unsupported_parameter, with all that would be lost, where there is none. */
export function carriedWhole(request: GenerationRequest, endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const lost = endpoints.map((endpoint) => ({ endpoint, losses: lossesAt(request, endpoint) }))
  const whole = lost.filter(({ losses }) => losses.length === 0)
  if (whole.length === 0) throw refusal(lost)
  return whole.map(({ endpoint }) => endpoint)
}

const lossesAt = (request: GenerationRequest, { protocol, target }: Endpoint): Loss[] =>
  request.protocol === protocol ? [] : protocols[protocol].call.writeRequest(request, target).losses

const TOLD_MAX = 50

function refusal(lost: readonly { endpoint: Endpoint; losses: readonly Loss[] }[]): GatewayError {
  const told = lost.flatMap(({ endpoint: { provider }, losses }) => losses.map((loss) => ({ provider: provider.id, ...loss }))).slice(0, TOLD_MAX)
  const texts = told.map(({ provider, field, what, why }) => `${field} would be ${what} for ${provider} (${why})`)
  return new GatewayError('unsupported_parameter', `Nothing was sent, because this request is strict and no provider of its model would hear all of it: ${texts.join('; ')}.`, { param: told[0]!.field, metadata: { translation: told } })
}
