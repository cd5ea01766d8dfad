import type { AppContext, AuthenticatedRequest } from '../../context.ts'
import { within } from '../../deadlines.ts'
import { GatewayError, invalid } from '../../error.ts'
import { originOf } from '../../http/serve.ts'
import { parseExact } from '../../json/exact.ts'
import { authorizeAgain } from '../../pipeline/authorize.ts'
import { identityHeaders } from '../../pipeline/response-headers.ts'
import { refusePreferences } from '../../pipeline/routing/preferences.ts'
import { Fields, present } from '../../protocols/fields.ts'
import { bodyBytes, readRawRequest } from '../../protocols/raw-request.ts'
import type { Json } from '../../store/store.ts'
import { hasEnded, PREFIX, toReplicate, type NewPrediction, type Prediction } from './prediction.ts'
import type { PredictionContext, Predictor } from './predictor.ts'
import { readWebhook } from './webhooks.ts'
import { resolveModel } from './work.ts'

const WAIT_MAX_SECONDS = 60

const PAGE = 100

type App = AppContext & PredictionContext

/** `POST /v1/predictions`, and `POST /v1/models/{owner}/{name}/predictions`, which Replicate's client uses. */
export async function createPrediction(app: App, inbound: AuthenticatedRequest): Promise<Response> {
  const { predictor } = app
  const prediction = await predictor.create(inbound, await readNewPrediction(app, inbound))
  const waitMs = preferredWaitMs(inbound.request.headers.get('prefer'))
  const now = waitMs === undefined ? prediction : await stateAfter(predictor, prediction, waitMs)
  // Replicate's client takes any status but `starting` for the end that it waited for.
  const status = hasEnded(now) ? now.status : 'starting'
  return Response.json(bodyOf(app, inbound, { ...now, status }), {
    headers: { 'x-generation-id': PREFIX + prediction.id, ...identityHeaders(inbound) },
  })
}

/** Time for the store to say how a prediction is that was waited for. */
const FIND_MS = 2_000

/** The state at its end, or after this time. It runs, so its client needs it also where the store is away. */
async function stateAfter(predictor: Predictor, prediction: Prediction, waitMs: number): Promise<Prediction> {
  const { accountId, id } = prediction
  await predictor.ended(id, waitMs)
  const found = predictor.find(accountId, id).catch(() => undefined)
  return (await within(found, FIND_MS, () => undefined)) ?? prediction
}

async function readNewPrediction(app: App, inbound: AuthenticatedRequest): Promise<NewPrediction> {
  const { listen, fetch } = app.config
  refusePreferences(inbound.request.headers, 'predictions')
  const rawRequest = await readRawRequest(app, inbound)
  await app.memory.work(inbound.request.signal, 'read')
  authorizeAgain(app, inbound)
  const body = new Fields(rawRequest.body)
  const model = inbound.params[0] ?? body.string('model')
  const resolved = resolveModel(app, model, body.string('version'))
  body.require('input', body.object('input'), "an object with the model's input")
  const { input } = parseExact(rawRequest.text) as { input: Json }
  body.boolean('stream')
  const webhook = readWebhook(body, fetch.private)
  const origin = originOf(inbound.request, listen.publicUrl)
  return { ...resolved, bodyBytes: bodyBytes(rawRequest), input, origin, ...present('webhook', webhook) }
}

/**
 * Milliseconds that a client would wait for the end (`Prefer: wait=seconds`, RFC 7240). Other preferences are ignored,
 * and so is a time over the maximum.
 */
function preferredWaitMs(prefer: string | null): number | undefined {
  const [preference, text = WAIT_MAX_SECONDS] =
    /(?:^|[,;]\s*)wait(?:\s*=\s*"?(\d{1,4})"?)?\s*(?=[,;]|$)/i.exec(prefer ?? '') ?? []
  const seconds = Number(text)
  return preference === undefined || seconds < 1 || seconds > WAIT_MAX_SECONDS ? undefined : seconds * 1000
}

const bodyOf = (app: App, { request }: AuthenticatedRequest, prediction: Prediction): Json =>
  toReplicate(app, prediction, originOf(request, app.config.listen.publicUrl))

/** `GET /v1/predictions/{id}`. */
export async function getPrediction(app: App, inbound: AuthenticatedRequest): Promise<Response> {
  const prediction = await app.predictor.find(inbound.identity.accountId, idOf(inbound))
  return Response.json(bodyOf(app, inbound, orNotFound(inbound, prediction)))
}

/** `POST /v1/predictions/{id}/cancel`: no effect on a prediction that has ended. */
export async function cancelPrediction(app: App, inbound: AuthenticatedRequest): Promise<Response> {
  const prediction = await app.predictor.cancel(inbound.identity.accountId, idOf(inbound))
  return Response.json(bodyOf(app, inbound, orNotFound(inbound, prediction)))
}

const ID = new RegExp(`^${PREFIX}([0-9a-f]{32})$`)

/** The id without its prefix; '' for anything that is not a prediction's id. */
const idOf = ({ params }: AuthenticatedRequest): string => ID.exec(params[0]!)?.[1] ?? ''

const orNotFound = ({ params }: AuthenticatedRequest, prediction: Prediction | undefined): Prediction => {
  if (prediction === undefined)
    throw new GatewayError('not_found', `No prediction '${params[0]!}' is stored.`, { param: 'prediction_id' })
  return prediction
}

/** `GET /v1/predictions`, newest first. `next` is the URL of older ones; `previous` is always null. */
export async function listPredictions(app: App, inbound: AuthenticatedRequest): Promise<Response> {
  const {
    identity: { accountId },
    query,
    request,
  } = inbound
  const cursor = query.get('cursor')
  if (cursor !== null && !/^[0-9a-f]{32}$/.test(cursor)) throw invalid('cursor', 'must be taken from a URL in `next`')
  const page = await app.predictor.list(accountId, PAGE, cursor ?? undefined)
  const last = page.at(-1)
  const hasMore = last !== undefined && (await app.predictor.list(accountId, 1, last.id)).length > 0
  const next = hasMore ? `${originOf(request, app.config.listen.publicUrl)}/v1/predictions?cursor=${last.id}` : null
  return Response.json({ previous: null, next, results: page.map((prediction) => bodyOf(app, inbound, prediction)) })
}
