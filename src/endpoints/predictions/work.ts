import type { AppContext } from '../../context.ts'
import { GatewayError, invalid } from '../../error.ts'
import { isRawJson } from '../../json/exact.ts'
import type { GenerationRequest, ProtocolName } from '../../generation/request.ts'
import { isCount, MOST_TOKENS, noUsage, type Usage } from '../../generation/usage.ts'
import { countTokens, estimateInputTokens, worstCase } from '../../ledger/estimate.ts'
import { protocols } from '../../protocols/index.ts'
import { createRequest } from '../../protocols/predictions/call.ts'
import type { Capabilities, RawRequest } from '../../protocols/protocol.ts'
import type { Endpoint, PredictionEndpoint } from '../../providers/catalogue.ts'
import type { Json } from '../../store/store.ts'
import { textsIn, withFiles } from './media.ts'
import type { Prediction } from './prediction.ts'

/**
 * What a prediction is to the model that makes it: a prediction of a provider that makes some, or a request to a model
 * of ours.
 */
export type Work = Forwarded | Asked
export type Forwarded = {
  kind: 'prediction'
  endpoints: readonly PredictionEndpoint[]
  version: string | null
  input: Json
}
/** `release`: gives up what its files hold of the memory, when it is over. */
export type Asked = {
  kind: 'request'
  endpoints: readonly Endpoint[]
  rawRequest: RawRequest
  request: GenerationRequest
  release(): void
}

/** Puts the files and addresses that a request names into it, as for any other request. */
export type ResolveMedia = (
  of: { accountId: string; signal: AbortSignal },
  protocol: ProtocolName,
  rawRequest: RawRequest,
) => Promise<{ endpoints: readonly Endpoint[]; release(): void } | undefined>

type Rooms = Pick<AppContext, 'catalogue' | 'config' | 'files'> & { resolveMedia: ResolveMedia }

export type Named = Pick<Prediction, 'accountId' | 'model' | 'version' | 'input' | 'origin'>

/**
 * Model and input -> what is to be done, with all files in it. Throws model_not_found, not_found for a file, and
 * invalid_request for an input that the model cannot be asked with.
 */
export async function workOf(rooms: Rooms, named: Named, signal: AbortSignal): Promise<Work> {
  const { catalogue, config } = rooms
  const places = catalogue.predictionEndpoints(named.model)
  const input = await withFiles(rooms, named, config.limits.bodyBytes)
  if (places.length > 0) {
    refuseTheirs(places, input)
    for (const { target } of places) createRequest(target, input, named.version ?? undefined)
    return { kind: 'prediction', endpoints: places, version: named.version, input }
  }
  const { protocol, rawRequest, endpoints: all } = asRequest(rooms, named.model, input)
  const media = await rooms
    .resolveMedia({ accountId: named.accountId, signal }, protocol, rawRequest)
    .catch(tellWithinInput)
  try {
    const endpoints = media?.endpoints ?? all
    const { serve } = protocols[protocol]
    const request = serve.readRequest(rawRequest)
    serve.checkModel?.(
      request,
      endpoints.map(({ target }) => target.capabilities),
    )
    return { kind: 'request', endpoints, rawRequest, request, release: () => media?.release() }
  } catch (error) {
    media?.release()
    return tellWithinInput(error)
  }
}

/** The request that a model of ours is asked with. */
function asRequest(
  { catalogue }: Pick<AppContext, 'catalogue'>,
  model: string,
  input: Json,
): { protocol: ProtocolName; rawRequest: RawRequest; endpoints: readonly Endpoint[] } {
  const chat = catalogue.endpoints(model, 'chat.completions')
  const drawn = chat.some(({ target }) => isDrawn(target.capabilities))
  const protocol = drawn ? 'images' : 'chat.completions'
  const text = JSON.stringify(drawn ? { ...input, model } : chatBody(model, input))
  return {
    protocol,
    rawRequest: { body: JSON.parse(text) as Json, text, headers: new Headers() },
    endpoints: drawn ? catalogue.endpoints(model, protocol) : chat,
  }
}

/**
 * An address of the provider's own API would be opened with our credentials: what is there was given to it for others.
 */
function refuseTheirs(endpoints: readonly PredictionEndpoint[], input: Json): void {
  const theirs = new Set(endpoints.map(({ baseUrl }) => new URL(baseUrl).origin))
  if (textsIn(input).some((text) => theirs.has(URL.parse(text.trim())?.origin ?? '')))
    throw new GatewayError(
      'not_found',
      "input: files of a provider's own account are not known here: upload them with POST /v1/files",
      { param: 'input' },
    )
}

/**
 * What a client names: a model, a version of a model as Replicate's clients write it, or both. Throws model_not_found.
 */
export function modelNamed(
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
  const hash = version.slice(colon + 1)
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

/** Models that make pictures and no text are asked for pictures. */
const isDrawn = ({ api, output }: Capabilities): boolean =>
  api === 'images' || (output?.includes('image') === true && !output.includes('text'))

/**
 * The input of a text model as Replicate's models take it, `prompt` and `system_prompt`, or `messages`; all else is of
 * chat completions.
 */
function chatBody(model: string, { prompt, system_prompt: system, messages, ...rest }: Json): Json {
  if (messages === undefined && prompt === undefined)
    throw invalid('input.prompt', 'is required: a text, unless messages are given')
  if (messages !== undefined && (prompt !== undefined || system !== undefined))
    throw invalid('input.messages', 'must stand without prompt and system_prompt: put them into the messages')
  if (prompt !== undefined && typeof prompt !== 'string') throw invalid('input.prompt', 'must be a string')
  if (system !== undefined && typeof system !== 'string') throw invalid('input.system_prompt', 'must be a string')
  const turns = [
    ...(system === undefined || system === '' ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content: prompt },
  ]
  return { ...rest, model, messages: messages ?? turns, stream: true }
}

/** An error in the input is told under the path that it has in the prediction's body. */
function tellWithinInput(error: unknown): never {
  if (!(error instanceof GatewayError) || error.param === undefined || error.param === 'model') throw error
  const { message, param } = error
  throw error.with({ param: `input.${param}`, message: message.startsWith(param) ? `input.${message}` : message })
}

/** The most that it may use. */
export function worstOf(work: Work, modelLimit: number | undefined): Usage {
  if (work.kind === 'request')
    return worstCase(
      work.request,
      Buffer.byteLength(work.rawRequest.text),
      modelLimit,
      work.endpoints.map(({ target }) => target.capabilities),
    )
  const bytes = promptsIn(work.input).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  return {
    ...noUsage(),
    inputTokens: Math.max(1, Math.ceil(bytes / 2)),
    images: Math.min(MOST_TOKENS, picturesAskedFor(work.input)),
  }
}

/** Under these names models take how many pictures they are to make. */
const COUNTS = ['num_outputs', 'number_of_images', 'n']

const picturesAskedFor = (input: Json): number =>
  Math.max(
    1,
    ...COUNTS.map((name) => numberOf(input[name]))
      .filter(isCount)
      .map(Math.ceil),
  )

/** One that is kept as it was spelled is read. */
const numberOf = (value: unknown): unknown => (isRawJson(value) ? JSON.parse(JSON.stringify(value)) : value)

/** Its input tokens, where nobody reports them. */
export function countInput(
  { catalogue }: Pick<AppContext, 'catalogue'>,
  { model, input }: Pick<Named, 'model' | 'input'>,
): Promise<number> {
  if (catalogue.predictionEndpoints(model).length > 0) return countTokens(promptsIn(input))
  const { protocol, rawRequest } = asRequest({ catalogue }, model, input)
  return estimateInputTokens(protocols[protocol].serve.readRequest(rawRequest))
}

/** What of an input is read by a model: media and settings are none of it. */
const promptsIn = (input: Json): string[] =>
  Object.values(input).filter((value): value is string => typeof value === 'string' && !value.startsWith('data:'))
