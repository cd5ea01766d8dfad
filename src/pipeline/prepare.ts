import type { AppContext, AuthenticatedRequest } from '../context.ts'
import { GatewayError } from '../error.ts'
import type { GenerationRequest, ProtocolName } from '../generation/request.ts'
import { reserve as reserveFunds } from '../ledger/admission.ts'
import { CHARACTERS_PER_TOKEN, estimateInputTokens, textTotals, worstCase } from '../ledger/estimate.ts'
import { protocols } from '../protocols/index.ts'
import type { RawRequest, TranslationContext } from '../protocols/protocol.ts'
import { readRawRequest } from '../protocols/raw-request.ts'
import { leaveUnread, type UnreadRequest } from '../protocols/unread-request.ts'
import { PreparedRequests } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { Generation, GenerationHooks, GenerationRoute } from './hooks.ts'
import { finishesWithoutClient } from './images.ts'
import type { ResolvedMedia } from './media.ts'
import { losslessEndpoints, schemaGrowth, translationOptions } from './strict.ts'

/**
 * A request read and validated. `media` must be released, whatever becomes of the request. `unread`: its conversation
 * was not read.
 */
export type ParsedRequest = {
  rawRequest: RawRequest
  media: ResolvedMedia | undefined
  request: GenerationRequest
  unread: UnreadRequest | undefined
}

/** A request as it is sent, and the endpoints that can serve it, in the order in which they are tried. */
export type SelectedRequest = ParsedRequest & {
  context: TranslationContext
  preparedRequests: PreparedRequests
  endpoints: readonly Endpoint[]
  hasTools: boolean
  /** Bytes of the request beside its own text: restored reasoning and expanded schemas. */
  addedBytes: number
}

/** Reads the request, with its stored content and media put into it. Throws a GatewayError that names the path. */
export async function parse(
  app: AppContext,
  inbound: AuthenticatedRequest,
  { protocol, hooks, fromPath }: GenerationRoute,
): Promise<ParsedRequest> {
  const rawRequest = await readRawRequest(inbound.request, app.config.limits.bodyBytes, fromPath)
  const { serve } = protocols[protocol]
  const unread = serve.unread && leaveUnread(rawRequest, serve.unread, serve.readRequest)
  if (unread !== undefined && serve.references?.(unread.settings.body).length === 0)
    return { rawRequest, media: undefined, request: unread.request, unread }
  const beforeRead = hooks.beforeRead?.(rawRequest)
  if (beforeRead !== undefined) await beforeRead
  const resolving = app.media.resolve(inbound, protocol, rawRequest)
  const media = resolving && (await resolving)
  try {
    return { rawRequest, media, request: serve.readRequest(rawRequest), unread: undefined }
  } catch (error) {
    media?.release()
    throw error
  }
}

/**
 * Finds the endpoints that can take the request, strict where the client wants that, and restores reasoning that the
 * client left out. Throws model_not_found, unsupported_parameter, and what the protocol refuses of the model.
 */
export async function select(
  app: AppContext,
  inbound: AuthenticatedRequest,
  { protocol, hooks }: GenerationRoute,
  parsed: ParsedRequest,
): Promise<SelectedRequest> {
  const { rawRequest, media } = parsed
  const { strict, report } = translationOptions(inbound.request.headers, app.config)
  const capable = media?.endpoints ?? app.catalogue.endpoints(parsed.request.model, protocol)
  const { accountId } = inbound.identity
  const unread = !strict && staysUnread(app, accountId, protocol, capable) ? parsed.unread : undefined
  const whole = unread === undefined ? (parsed.unread?.readWhole() ?? parsed.request) : parsed.request
  const { request, replayStates, bytes } =
    unread === undefined
      ? await app.reasoningReplay.restore(accountId, whole, capable)
      : { request: whole, replayStates: [], bytes: 0 }
  const { serve } = protocols[protocol]
  const context: TranslationContext = {
    rawRequest,
    request,
    responseIdentity: {
      id: serve.idPrefix + inbound.id,
      model: request.model,
      createdAt: Math.floor(Date.now() / 1000),
    },
    ...hooks.translation?.(rawRequest),
    report,
    restoredReasoning: replayStates,
    ...(unread === undefined ? {} : { settings: unread.settings }),
  }
  const preparedRequests = new PreparedRequests(context, app.schemaCache)
  const endpoints = strict ? losslessEndpoints(preparedRequests, capable) : capable
  serve.checkModel?.(
    request,
    endpoints.map(({ target }) => target.capabilities),
  )
  const addedBytes = unread === undefined ? bytes + schemaGrowth(preparedRequests, endpoints) : 0
  const hasTools = unread?.hasTools ?? request.tools.length > 0
  return { rawRequest, media, request, unread, context, preparedRequests, endpoints, hasTools, addedBytes }
}

/** Reports whether every endpoint takes the client's protocol, and none needs anything in the conversation. */
const staysUnread = (
  app: AppContext,
  accountId: string,
  protocol: ProtocolName,
  endpoints: readonly Endpoint[],
): boolean =>
  endpoints.every((endpoint) => endpoint.protocol === protocol && endpoint.target.quirks.requiresReasoning !== true) &&
  !app.reasoningReplay.mayRestore(accountId, endpoints)

/**
 * Registers the request as in flight and holds the most that it may cost: from here on it has a record, also when it
 * fails. Throws what `reserve` of the ledger throws.
 */
export async function reserve(
  app: AppContext,
  inbound: AuthenticatedRequest,
  route: GenerationRoute,
  { rawRequest, media, request, unread, context, endpoints, addedBytes }: SelectedRequest,
): Promise<Generation> {
  const signal = survivesClient(route.hooks, request, endpoints) ? NEVER : inbound.request.signal
  const inFlight = app.inFlight.enter(signal)
  try {
    const open = await reserveFunds(app, inbound, {
      api: request.protocol,
      model: request.model,
      endpoints,
      streamed: request.stream,
      worst: (modelLimit) =>
        worstCase(
          request,
          bodyBytes(rawRequest) + addedBytes,
          modelLimit,
          endpoints.map(({ target }) => target.capabilities),
          unread && textTotals(unread.cacheLifetime),
        ),
      countInput: () => countInput(rawRequest, request),
    })
    route.hooks.onReserve?.(open)
    inbound.errorHeaders['x-generation-id'] = context.responseIdentity.id
    return { app, inbound, route, open, inFlight, media, replayRecorder: undefined }
  } catch (error) {
    inFlight.leave()
    throw error
  }
}

const bodyBytes = (rawRequest: RawRequest): number =>
  rawRequest.scanned?.bytes.length ?? Buffer.byteLength(rawRequest.text)

/** A conversation that was not read may be one that only its provider understands. */
async function countInput(rawRequest: RawRequest, request: GenerationRequest): Promise<number> {
  try {
    return await estimateInputTokens(request)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return Math.ceil(bodyBytes(rawRequest) / CHARACTERS_PER_TOKEN)
  }
}

const NEVER = new AbortController().signal

/** True if the call goes on when the client leaves: its result is kept, or the provider charges it anyway. */
export const survivesClient = (
  hooks: GenerationHooks,
  request: GenerationRequest,
  endpoints: readonly Endpoint[],
): boolean => hooks.survivesClient?.(request, endpoints) === true || endpoints.some(finishesWithoutClient)
