import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import type { StoredResponse } from '../../store/store.ts'
import { listedItem } from './listed-item.ts'

/** Routes of stored responses (OpenAI's Responses API), which Sluice stores for every provider. */

const PAGE_DEFAULT = 20
const PAGE_MAX = 100

async function findStored(app: AppContext, { params, identity }: AuthenticatedRequest): Promise<StoredResponse> {
  const id = params[0]!
  const stored = await app.background.find(identity.accountId, id)
  if (stored === undefined) throw notStored(id)
  return stored
}

const notStored = (id: string): GatewayError =>
  new GatewayError('not_found', `No response '${id}' is stored.`, { param: 'response_id' })

/** `GET /v1/responses/{id}`: as stored, or as its provider reports it while it runs in the background. */
export async function getResponse(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  // OpenAI's client reads JSON in the place of a stream as one without events.
  if (inbound.query.get('stream') === 'true')
    throw new GatewayError('unsupported_parameter', 'stream is not supported here; a stored response is sent as JSON', {
      param: 'stream',
    })
  return Response.json(await refresh(app, inbound, await findStored(app, inbound), false))
}

/** `POST /v1/responses/{id}/cancel`: only a response that runs in the background can be cancelled. */
export async function cancelResponse(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const stored = await findStored(app, inbound)
  if (stored.upstream === undefined && stored.response.background !== true)
    throw new GatewayError('invalid_request', `Response '${stored.id}' does not run in the background.`, {
      param: 'response_id',
    })
  return Response.json(await refresh(app, inbound, stored, true))
}

const refresh = (
  app: AppContext,
  { identity, request }: AuthenticatedRequest,
  stored: StoredResponse,
  cancel: boolean,
): Promise<object> => app.background.refresh(identity.accountId, stored, cancel, request.signal)

/** `DELETE /v1/responses/{id}`: one that runs in the background is cancelled, too. */
export async function deleteResponse(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const { params, identity, request } = inbound
  const id = params[0]!
  if (!(await app.background.delete(identity.accountId, id, request.signal))) throw notStored(id)
  return Response.json({ id, object: 'response', deleted: true })
}

/** `GET /v1/responses/{id}/input_items`, newest first unless `order=asc`; `limit` 1 to 100, `after` an item id. */
export async function listInputItems(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const inputItems = (await findStored(app, inbound)).inputItems as Record<string, unknown>[]
  const limit = Number(inbound.query.get('limit') ?? PAGE_DEFAULT)
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX)
    throw invalid('limit', `must be a whole number from 1 to ${PAGE_MAX}`)
  const order = inbound.query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "must be 'asc' or 'desc'")
  const ordered = order === 'asc' ? inputItems : inputItems.toReversed()
  const after = inbound.query.get('after')
  const from = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1
  // Starting from the first page again, a client would read these pages for ever.
  if (after !== null && from === 0) throw invalid('after', 'must be the id of one of these items')
  const data = ordered.slice(from, from + limit).map(listedItem)
  return Response.json({
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < ordered.length,
  })
}

/**
 * `GET /v1/responses` requests a WebSocket; clients fall back to HTTP on 426. So does one without the headers of an
 * upgrade, which proxies drop.
 */
export const refuseUpgrade = (): never => {
  throw new GatewayError('upgrade_required', 'WebSocket is not supported: send POST /v1/responses over HTTP.')
}
