import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isRawJson } from '../../json/exact.ts'
import { stringsIn } from '../../json/strings.ts'
import type { GenerationRequest, ProtocolName } from '../../generation/request.ts'
import { isCount, TOKENS_MAX, noUsage, type Usage } from '../../generation/usage.ts'
import { countTokens, estimateInputTokens, worstCase } from '../../ledger/estimate.ts'
import { forwardedOutput } from '../../pipeline/prepare.ts'
import { translatedClasses } from '../../pipeline/strict.ts'
import { refusalOf } from '../../protocols/fields.ts'
import { hostedTools, requestedImageModel, requestedSearch } from '../../protocols/hosted-tools.ts'
import { protocols } from '../../protocols/index.ts'
import { createRequest } from '../../protocols/predictions/call.ts'
import { chargedMedia } from '../../protocols/plugins.ts'
import type { Capabilities, RawRequest } from '../../protocols/protocol.ts'
import type { RequestedClass } from '../../protocols/requested-output.ts'
import { settingPath } from '../../protocols/request-paths.ts'
import { PreparedRequests } from '../../providers/attempt.ts'
import type { Endpoint, PredictionEndpoint } from '../../providers/catalogue.ts'
import type { Json } from '../../store/store.ts'
import { withFiles } from './media.ts'
import type { Prediction } from './prediction.ts'

/** A prediction is run as a prediction of its provider, or as a request to a generation model. */
export type Work = ForwardedWork | GenerationWork
export type ForwardedWork = {
  kind: 'prediction'
  endpoints: readonly PredictionEndpoint[]
  version: string | null
  input: Json
}
/** `release`: frees the memory of its media, when it is over. */
export type GenerationWork = {
  kind: 'generation'
  endpoints: readonly Endpoint[]
  rawRequest: RawRequest
  request: GenerationRequest
  release(): void
}

type Modules = Pick<AppContext, 'catalogue' | 'config' | 'files' | 'media'>

type RequestedPrediction = Pick<Prediction, 'accountId' | 'model' | 'version' | 'input' | 'origin'>

/**
 * Model and input -> the work, with all files in it. Throws model_not_found, not_found for a file, and invalid_request
 * for an input that the model does not take.
 */
export async function workOf(app: Modules, requested: RequestedPrediction, signal: AbortSignal): Promise<Work> {
  const { catalogue, config } = app
  const predicting = catalogue.predictionEndpoints(requested.model)
  const input = await withFiles(app, requested, config.limits.bodyBytes)
  if (predicting.length > 0) {
    refuseProviderFiles(predicting, input)
    for (const { target } of predicting) createRequest(target, input, requested.version ?? undefined)
    return { kind: 'prediction', endpoints: predicting, version: requested.version, input }
  }
  const { protocol, rawRequest, endpoints: all } = asRequest(app, requested.model, input)
  // The key's model rules were checked when the prediction was created.
  const caller = { identity: { accountId: requested.accountId, allows: () => true }, request: { signal } }
  const media = await Promise.try(() => app.media.resolve(caller, protocol, rawRequest)).catch(throwWithinInput)
  try {
    const endpoints = media?.endpoints ?? all
    const { serve } = protocols[protocol]
    const request = serve.readRequest(rawRequest)
    // The input of a prediction is a form of Sluice's own.
    const refusal = refusalOf(request)
    if (refusal !== undefined) throw refusal
    serve.checkModel?.(
      request,
      endpoints.map(({ target }) => target.capabilities),
    )
    return { kind: 'generation', endpoints, rawRequest, request, release: () => media?.release() }
  } catch (error) {
    media?.release()
    return throwWithinInput(error)
  }
}

/** The request to a generation model that runs a prediction. */
function asRequest(
  { catalogue }: Pick<AppContext, 'catalogue'>,
  model: string,
  input: Json,
): { protocol: ProtocolName; rawRequest: RawRequest; endpoints: readonly Endpoint[] } {
  const chat = catalogue.endpoints(model, 'chat.completions')
  const isImages = chat.some(({ target }) => makesImagesOnly(target.capabilities))
  const protocol = isImages ? 'images' : 'chat.completions'
  const text = JSON.stringify(isImages ? { ...input, model } : chatBody(model, input))
  return {
    protocol,
    rawRequest: { body: JSON.parse(text) as Json, text, headers: new Headers() },
    endpoints: isImages ? catalogue.endpoints(model, protocol) : chat,
  }
}

/** A URL of the provider's own API would be opened with the operator's key, and may be another account's file. */
function refuseProviderFiles(endpoints: readonly PredictionEndpoint[], input: Json): void {
  const origins = new Set(endpoints.map(({ baseUrl }) => new URL(baseUrl).origin))
  if (stringsIn(input).some((text) => origins.has(URL.parse(text.trim())?.origin ?? '')))
    throw new GatewayError(
      'not_found',
      'input: files stored at the provider are not known here: upload them with POST /v1/files',
      { param: 'input' },
    )
}

/**
 * The model and version that a client means: it names a model, a version of a model as Replicate's clients write it, or
 * both. Throws model_not_found.
 */
export function resolveModel(
  { catalogue }: Pick<AppContext, 'catalogue'>,
  model: string | undefined,
  version: string | undefined,
): { model: string; version: string | null } {
  if (model !== undefined) return { model, version: version ?? null }
  if (version === undefined) throw invalid('model', 'is required: the name of a model, unless a version is given')
  const listed = catalogue
    .list()
    .find(({ endpoints }) =>
      endpoints.some((endpoint) => endpoint.model === version || endpoint.model.endsWith(`:${version}`)),
    )
  const colon = version.lastIndexOf(':')
  // A name without a version is that of the model's latest version.
  const hash = colon < 0 && version.includes('/') ? null : version.slice(colon + 1)
  if (listed !== undefined) return { model: listed.id, version: hash }
  try {
    catalogue.predictionEndpoints(version)
    return { model: version, version: hash }
  } catch (error) {
    if (colon < 0) throw error
    catalogue.predictionEndpoints(version.slice(0, colon))
    return { model: version.slice(0, colon), version: hash }
  }
}

const makesImagesOnly = ({ api, output }: Capabilities): boolean =>
  api === 'images' || (output?.includes('image') === true && !output.includes('text'))

/**
 * The input of a text model as Replicate's models take it, `prompt` and `system_prompt`, or `messages`; every other
 * member is one of chat completions.
 */
function chatBody(model: string, { prompt, system_prompt: system, messages, ...rest }: Json): Json {
  if (messages === undefined && prompt === undefined)
    throw invalid('input.prompt', 'is required: a text, unless messages are given')
  if (messages !== undefined && (prompt !== undefined || system !== undefined))
    throw invalid('input.messages', 'cannot be combined with prompt and system_prompt: put them into the messages')
  if (prompt !== undefined && typeof prompt !== 'string') throw invalid('input.prompt', 'must be a string')
  if (system !== undefined && typeof system !== 'string') throw invalid('input.system_prompt', 'must be a string')
  const turns = [
    ...(system === undefined || system === '' ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content: prompt },
  ]
  return { ...rest, model, messages: messages ?? turns, stream: true }
}

/** Rethrows an error in the input with the path that it has in the prediction's body. */
function throwWithinInput(error: unknown): never {
  if (!(error instanceof GatewayError) || error.param === undefined || error.param === 'model') throw error
  const { code, message, param, cause, ...details } = error
  throw new GatewayError(code, message.startsWith(param) ? `input.${message}` : message, {
    ...details,
    cause,
    param: `input.${param}`,
  })
}

/** The largest usage that this work may have. */
export function worstUsage(work: Work, modelLimit: number | undefined): Usage {
  if (work.kind === 'generation')
    return worstCase(
      work.request,
      Buffer.byteLength(work.rawRequest.text),
      modelLimit,
      work.endpoints.map(({ target }) => target.capabilities),
      forwardedOutput(work.request.protocol, work.endpoints, work.rawRequest),
    )
  const bytes = promptsIn(work.input).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  return {
    ...noUsage(),
    inputTokens: Math.max(1, Math.ceil(bytes / 2)),
    images: Math.min(TOKENS_MAX, requestedImages(work.input)),
  }
}

/** The classes of service that this work asks for, and what it has its provider use. */
export function requestedClasses(
  { schemaCache }: Pick<AppContext, 'schemaCache'>,
  work: Work,
): readonly RequestedClass[] {
  if (work.kind !== 'generation') return []
  const { request, rawRequest, endpoints } = work
  const responseIdentity = { id: '', model: request.model, createdAt: 0 }
  const prepared = new PreparedRequests({ rawRequest, request, responseIdentity }, schemaCache)
  const forwarded = forwardedOutput(request.protocol, endpoints, rawRequest)
  return [
    ...(forwarded?.classes ?? translatedClasses(request, rawRequest.body, endpoints, prepared)),
    ...hostedTools(request.tools),
    ...requestedImageModel(request, endpoints, () =>
      settingPath(protocols[request.protocol].serve.paths, rawRequest.body, 'outputModalities'),
    ),
    ...requestedSearch(request, request.tools, forwarded !== undefined),
    ...chargedMedia(
      request,
      rawRequest.body,
      endpoints.map(({ target }) => target.capabilities),
    ),
  ].map((one) => ({ ...one, param: `input.${one.param}` }))
}

/** The names under which models take the number of images. */
const COUNTS = ['num_outputs', 'number_of_images', 'n']

const requestedImages = (input: Json): number =>
  Math.max(
    1,
    ...COUNTS.map((name) => asNumber(input[name]))
      .filter(isCount)
      .map(Math.ceil),
  )

/** A number that is kept as raw JSON is parsed. */
const asNumber = (value: unknown): unknown => (isRawJson(value) ? JSON.parse(JSON.stringify(value)) : value)

/** Its input tokens, where the provider reports none. */
export function countInput(
  { catalogue }: Pick<AppContext, 'catalogue'>,
  { model, input }: Pick<RequestedPrediction, 'model' | 'input'>,
): Promise<number> {
  if (catalogue.predictionEndpoints(model).length > 0) return countTokens(promptsIn(input))
  const { protocol, rawRequest } = asRequest({ catalogue }, model, input)
  return estimateInputTokens(protocols[protocol].serve.readRequest(rawRequest))
}

/** The members of an input that a model reads: media and settings are not. */
const promptsIn = (input: Json): string[] =>
  Object.values(input).filter((value): value is string => typeof value === 'string' && !value.startsWith('data:'))
