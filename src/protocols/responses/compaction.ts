import { GatewayError } from '../../error.ts'
import type { RequestSettings } from '../../generation/request.ts'

/** The refusal of a compaction that no provider of the model can do. `metadata`: the provider's own error. */
export const compactionRefusal = (model: string, metadata?: Record<string, unknown>): GatewayError =>
  new GatewayError(
    'unsupported_parameter',
    `model: no provider of '${model}' compacts conversations, only some providers of the responses API do. ` +
      'Use a model of one of those, or request a summary by POST /v1/responses and go on with that',
    { param: 'model', ...(metadata === undefined ? {} : { metadata }) },
  )

/**
 * The same where a provider's error says that it has no such route: many providers of the API have only the others. An
 * error about the model or a member of the request has another reason.
 */
export function missingRoute(
  { compaction, model }: RequestSettings,
  status: number,
  { code, param, metadata }: GatewayError,
): GatewayError | undefined {
  const isOfRoute = status === 405 || (status === 404 && code !== 'model_not_found' && param === undefined)
  return compaction === true && isOfRoute ? compactionRefusal(model, metadata) : undefined
}
