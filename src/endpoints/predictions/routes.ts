import type { InboundRequest, AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { parseExact } from '../../json/exact.ts'
import { originOf } from '../../http/serve.ts'
import { Fields, present } from '../../protocols/fields.ts'
import { readRawRequest } from '../../protocols/raw-request.ts'
import type { Json } from '../../store/store.ts'
import { hasEnded, PREFIX, shown, type Prediction } from './prediction.ts'
import type { Wanted } from './predictor.ts'
import { readWebhook } from './webhooks.ts'
import { modelNamed } from './work.ts'

const WAIT_MAX_SECONDS = 60

const PAGE = 100

/**
 * `POST /v1/predictions`, and `POST /v1/models/{owner}/{name}/predictions`, which is how Replicate's client names a
 * model.
 */
export async function createPrediction(app: AppContext, call: InboundRequest): Promise<Response> {
  const { predictor } = app
  const prediction = await predictor.create(call, await readWanted(app, call))
  const waitMs = waitOf(call.request.headers.get('prefer'))
  if (waitMs !== undefined) await predictor.ended(prediction.id, waitMs)
  const now =
    waitMs === undefined ? prediction : ((await predictor.find(prediction.accountId, prediction.id)) ?? prediction)
  // Replicate's client takes anything else but `starting` for the end of what it waited for.
  const status = hasEnded(now) ? now.status : 'starting'
  const id = PREFIX + prediction.id
  return Response.json(told(app, call, { ...now, status }), {
    headers: { 'x-generation-id': id, 'x-request-id': call.requestId, 'request-id': call.requestId },
  })
}

async function readWanted(app: AppContext, call: InboundRequest): Promise<Wanted> {
  const {
    config: { limits, listen, fetch },
  } = app
  const rawRequest = await readRawRequest(call.request, limits.bodyBytes)
  const body = new Fields(rawRequest.body)
  const model = call.params[0] ?? body.string('model')
  const named = modelNamed(app, model, body.string('version'))
  body.require('input', body.object('input'), 'an object with what the model is given')
  const { input } = parseExact(rawRequest.text) as { input: Json }
  body.boolean('stream')
  const webhook = readWebhook(body, fetch.private)
  return { ...named, input, origin: originOf(call.request, listen.publicUrl), ...present('webhook', webhook) }
}

/**
 * How long a client would wait for the end (RFC 7240): what is no such wish is ignored, as is a time that is not
 * granted.
 */
function waitOf(prefer: string | null): number | undefined {
  const [wish, seconds = WAIT_MAX_SECONDS] =
    /(?:^|[,;]\s*)wait(?:\s*=\s*"?(\d{1,4})"?)?\s*(?=[,;]|$)/i.exec(prefer ?? '') ?? []
  const asked = Number(seconds)
  return wish === undefined || asked < 1 || asked > WAIT_MAX_SECONDS ? undefined : asked * 1000
}

const told = (app: AppContext, { request }: InboundRequest, prediction: Prediction): Json =>
  shown(app, prediction, originOf(request, app.config.listen.publicUrl))

/** `GET /v1/predictions/{id}`. */
export const getPrediction = async (app: AppContext, call: InboundRequest): Promise<Response> =>
  Response.json(told(app, call, known(call, await app.predictor.find(call.identity.accountId, idOf(call)))))

/** `POST /v1/predictions/{id}/cancel`: one that has ended stays as it is. */
export const cancelPrediction = async (app: AppContext, call: InboundRequest): Promise<Response> =>
  Response.json(told(app, call, known(call, await app.predictor.cancel(call.identity.accountId, idOf(call)))))

/** The id without its prefix; what has another form is no prediction's. */
const idOf = ({ params }: InboundRequest): string => new RegExp(`^${PREFIX}([0-9a-f]{32})$`).exec(params[0]!)?.[1] ?? ''

const known = ({ params }: InboundRequest, prediction: Prediction | undefined): Prediction => {
  if (prediction === undefined)
    throw new GatewayError('not_found', `No prediction '${params[0]!}' is stored.`, { param: 'prediction_id' })
  return prediction
}

/** `GET /v1/predictions`: the newest first. `next` leads to older ones; there is no way back. */
export async function listPredictions(app: AppContext, call: InboundRequest): Promise<Response> {
  const {
    identity: { accountId },
    query,
    request,
  } = call
  const cursor = query.get('cursor')
  if (cursor !== null && !/^[0-9a-f]{32}$/.test(cursor)) throw invalid('cursor', 'must be that of a URL in `next`')
  const page = await app.predictor.list(accountId, PAGE, cursor ?? undefined)
  const last = page.at(-1)
  const hasMore = last !== undefined && (await app.predictor.list(accountId, 1, last.id)).length > 0
  const next = hasMore ? `${originOf(request, app.config.listen.publicUrl)}/v1/predictions?cursor=${last.id}` : null
  return Response.json({ previous: null, next, results: page.map((prediction) => told(app, call, prediction)) })
}
