import type { Clock } from '../accounts/clock.ts'
import type { AppContext, AuthenticatedRequest } from '../context.ts'
import type { GenerationRequest, ProtocolName, RequestSettings } from '../generation/request.ts'
import type { Usage } from '../generation/usage.ts'
import { reserve as reserveFunds } from '../ledger/admission.ts'
import { roughInputTokens, worstCase, worstTextCase } from '../ledger/estimate.ts'
import { hostedTools, requestedImageModel, requestedSearch } from '../protocols/hosted-tools.ts'
import { protocols } from '../protocols/index.ts'
import { chargedMedia } from '../protocols/plugins.ts'
import type {
  Capabilities,
  RawRequest,
  RequestContext,
  TranslationContext,
  UnreadContext,
} from '../protocols/protocol.ts'
import { bodyBytes, rawRequestOf, receiveBody, type ParseBody } from '../protocols/raw-request.ts'
import {
  mostCandidates,
  type RequestedClass,
  type RequestedOutput,
  requestedOutput,
} from '../protocols/requested-output.ts'
import { settingPath } from '../protocols/request-paths.ts'
import { routingMembers } from '../protocols/routing-members.ts'
import { leaveUnread, type UnreadRequest } from '../protocols/unread-request.ts'
import { PreparedRequests, type RequestWriter } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'
import type { RoutingPreferences } from '../providers/routing/terms.ts'
import { HeavyRequest } from './heavy/request.ts'
import { comesAgain, hasHeavySettings, HEAVY, isHeavy, TooHeavy } from './heavy/weight.ts'
import type { Generation, GenerationHooks, GenerationRoute } from './hooks.ts'
import { finishesWithoutClient } from './images.ts'
import { isImagesApi } from './images-api.ts'
import { makesObjects } from './issued-ids.ts'
import type { MediaResolver, ResolvedMedia } from './media.ts'
import { PromptCount } from './prompt-count.ts'
import type { ReasoningReplay } from './reasoning-replay.ts'
import { responseContext } from './response-context.ts'
import {
  type CandidateFinder,
  type Dropped,
  leftOut,
  NOT_REPRESENTABLE,
  splitLonger,
  WITH_LOSSES,
} from './routing/candidates.ts'
import { capableEndpoints, demandsOf, TEXT_ONLY } from './routing/capable.ts'
import {
  losslessEndpoints,
  mayEnd,
  mayLower,
  representingEndpoints,
  schemaGrowth,
  type TranslationOptions,
  translatedClasses,
  translationOptions,
} from './strict.ts'

/** A request read and validated. `media` must be released, whatever becomes of the request. */
export type ParsedRequest = {
  rawRequest: RawRequest
  options: TranslationOptions
  media?: ResolvedMedia | undefined
} & ({ unread: UnreadRequest; request: RequestSettings } | { unread?: undefined; request: GenerationRequest })

/** A request as it is sent, and the endpoints that can serve it, in the order in which they are tried. */
export type SelectedRequest = Pick<ParsedRequest, 'media'> & {
  context: RequestContext
  preparedRequests: RequestWriter
  endpoints: readonly Endpoint[]
  /** Those that serve it if it is too long for the others. */
  longer?: readonly Endpoint[]
  /** Those that may not, with reasons. */
  dropped: readonly Dropped[]
  preferences: RoutingPreferences
  hasTools: boolean
  /** Its response may name objects that the provider stores. */
  makesObjects: boolean
  /** The most that it may use. */
  worst(modelLimit: number | undefined): Usage
  /** The most responses that may be generated for it. */
  candidates: number
  promptCount: Pick<PromptCount, 'tokens' | 'free'>
  /** The classes of service that it asks for. */
  classes: readonly RequestedClass[]
}

/** The modules of a gateway that `read` and `select` use. */
export type PreparingModules = Pick<AppContext, 'schemaCache'> & {
  clock: Pick<Clock, 'now'>
  candidates: Pick<CandidateFinder, 'of'>
  media: Pick<MediaResolver, 'resolve'>
  reasoningReplay: Pick<ReasoningReplay, 'restore'>
}

/**
 * Reads the request, with its stored content and media put into it. One that is heavy is left to another process,
 * unless its conversation came before. Throws a GatewayError that names the path.
 */
export async function parse(
  app: AppContext,
  inbound: AuthenticatedRequest,
  route: GenerationRoute,
): Promise<ParsedRequest | HeavyRequest> {
  const { protocol, fromPath } = route
  const { accountId } = inbound.identity
  const { headers } = inbound.request
  const body = await receiveBody(app, inbound)
  const heavy = isHeavy(body, route)
  if (heavy && body.scan === undefined) {
    await app.memory.work(inbound.request.signal, 'read')
    return new HeavyRequest(app, inbound, route, {
      bytes: body.bytes,
      options: translationOptions(headers, app.config),
      model: fromPath?.model,
      mayStayUnread: false,
    })
  }
  const rawRequest = rawRequestOf(body, headers, fromPath, bodyParser(app, accountId))
  const options = translationOptions(headers, app.config)
  inbound.routing = routingMembers(rawRequest, protocols[protocol].serve)
  const mayStayUnread = !options.strict && needNoConversation(app, inbound, protocol, rawRequest)
  const isLeft = mayStayUnread && !(heavy && hasHeavySettings(body, protocol))
  const unread = isLeft ? leaveUnread(rawRequest, protocols[protocol].serve) : undefined
  const waiting = app.memory.work(inbound.request.signal, unread === undefined ? 'read' : 'unread')
  if (waiting !== undefined) await waiting
  if (unread !== undefined) return { rawRequest, options, unread, request: unread.request }
  const received = { bytes: body.bytes, options, model: modelOf(rawRequest), mayStayUnread }
  if (heavy && !comesAgain(body, app.conversations, accountId)) return new HeavyRequest(app, inbound, route, received)
  const mostMediaBytes = isImagesApi({ protocol }) ? Infinity : HEAVY.bytes
  return read(app, inbound, route, rawRequest, options, mostMediaBytes).catch((error: unknown) => {
    if (error instanceof TooHeavy) return new HeavyRequest(app, inbound, route, { ...received, api: error.api })
    throw error
  })
}

/**
 * Reads a whole request, its conversation included. Throws TooHeavy where it refers to stored files of more bytes, or
 * to a heavy conversation.
 */
export async function read(
  app: PreparingModules,
  inbound: Pick<AuthenticatedRequest, 'identity' | 'request'>,
  { protocol, hooks }: GenerationRoute,
  rawRequest: RawRequest,
  options: TranslationOptions,
  mostMediaBytes: number,
): Promise<ParsedRequest> {
  const { serve } = protocols[protocol]
  const beforeRead = hooks.beforeRead?.(rawRequest)
  if (beforeRead !== undefined) await beforeRead
  const resolving = app.media.resolve(inbound, protocol, rawRequest, mostMediaBytes)
  const media = resolving && (await resolving)
  try {
    return { rawRequest, options, media, request: serve.readRequest(rawRequest) }
  } catch (error) {
    media?.release()
    throw error
  }
}

/** Not a part of `parse`: a closure of an async function keeps its arguments as long as it is kept itself. */
const bodyParser =
  ({ conversations }: AppContext, accountId: string): ParseBody =>
  (scanned) =>
    conversations.parse(accountId, scanned)

/**
 * Reports whether the endpoints of a request need nothing of its conversation: each takes the client's protocol, and
 * none has signed reasoning that the client may have left out.
 */
function needNoConversation(
  { candidates, reasoningReplay }: AppContext,
  inbound: AuthenticatedRequest,
  protocol: ProtocolName,
  rawRequest: RawRequest,
): boolean {
  const model = modelOf(rawRequest)
  if (protocols[protocol].serve.unread === undefined || model === undefined) return false
  const found = candidates.tryOf(inbound, model, protocol)
  return (
    found !== undefined &&
    found.preferences.requireParameters !== true &&
    found.endpoints.every(
      ({ protocol: other, target }) => other === protocol && target.quirks.requiresReasoning !== true,
    ) &&
    !reasoningReplay.mayRestore(inbound.identity.accountId, found.endpoints)
  )
}

/** The model of a request that was not parsed; undefined where that is needed to know it. */
function modelOf({ model, scanned }: RawRequest): string | undefined {
  if (model !== undefined) return model
  const member = scanned?.scan.members.find(({ name }) => name === 'model')
  if (scanned === undefined || member?.first !== '"') return undefined
  const text = scanned.bytes.toString('utf8', member.start + 1, member.end - 1)
  return text.includes('\\') ? undefined : text
}

/**
 * Finds the endpoints that can take the request, strict where the client wants that, and restores reasoning that the
 * client left out. Throws model_not_found, unsupported_parameter, and what the protocol refuses of the model.
 */
export function select(
  app: PreparingModules,
  inbound: SelectingRequest,
  route: GenerationRoute,
  parsed: ParsedRequest | HeavyRequest,
): SelectedRequest | Promise<SelectedRequest> {
  if (parsed instanceof HeavyRequest) return parsed.select()
  return parsed.unread === undefined
    ? selectRead(app, inbound, route, parsed)
    : selectUnread(app, inbound, route, parsed)
}

type SelectingRequest = Pick<AuthenticatedRequest, 'id' | 'identity' | 'request' | 'routing' | 'candidates'>
type ReadRequest = ParsedRequest & { unread?: undefined }

async function selectRead(
  app: PreparingModules,
  inbound: SelectingRequest,
  route: GenerationRoute,
  parsed: ReadRequest,
): Promise<SelectedRequest> {
  const { rawRequest, media, options } = parsed
  const { protocol, hooks } = route
  const { serve } = protocols[protocol]
  const found = app.candidates.of(inbound, parsed.request.model, protocol)
  const all = media?.endpoints ?? found.endpoints
  const representing = representingEndpoints(parsed.request, all)
  const able = capableEndpoints(representing, () => demandsOf(parsed.request, bodyBytes(rawRequest)))
  const capable = able.endpoints
  const { accountId } = inbound.identity
  const { request, replayStates, bytes } = await app.reasoningReplay.restore(accountId, parsed.request, capable)
  const context: TranslationContext = {
    ...responseContext(app, inbound, route, parsed, request),
    request,
    ...hooks.translation?.(rawRequest),
    restoredReasoning: replayStates,
  }
  if (serve.usageAtStart === true && request.stream && capable.some((endpoint) => endpoint.protocol !== protocol))
    context.promptEstimate = roughInputTokens(request, bodyBytes(rawRequest))
  const preparedRequests = new PreparedRequests(context, app.schemaCache)
  const isStrict = options.strict || found.preferences.requireParameters === true
  const endpoints = isStrict ? losslessEndpoints(preparedRequests, capable) : capable
  const capabilities = checkModel(protocol, request, endpoints)
  const ownBytes = bodyBytes(rawRequest)
  const sentBytes = ownBytes + bytes + schemaGrowth(request, ownBytes, preparedRequests, endpoints)
  const forwarded = forwardedOutput(protocol, endpoints, rawRequest)
  return {
    media,
    context,
    preparedRequests,
    ...splitLonger(found, endpoints),
    dropped: [
      ...found.dropped,
      ...leftOut(found.endpoints, all, 'does not take the media of the request'),
      ...leftOut(all, representing, NOT_REPRESENTABLE),
      ...able.dropped,
      ...leftOut(capable, endpoints, WITH_LOSSES),
    ],
    preferences: found.preferences,
    hasTools: request.tools.length > 0,
    makesObjects: makesObjects(request, request.tools),
    worst: (modelLimit) => worstCase(request, sentBytes, modelLimit, capabilities, forwarded),
    candidates: mostCandidates(request, forwarded),
    classes: [
      ...(forwarded?.classes ?? translatedClasses(request, rawRequest.body, endpoints, preparedRequests)),
      ...hostedTools(request.tools),
      ...requestedImageModel(request, endpoints, () => settingPath(serve.paths, rawRequest.body, 'outputModalities')),
      ...requestedSearch(request, request.tools, forwarded !== undefined),
      ...chargedMedia(request, rawRequest.body, capabilities),
    ],
    // Restored reasoning is only in the request as it was read.
    promptCount: new PromptCount(rawRequest, replayStates.length === 0 ? serve.readRequest : () => request, request),
  }
}

function selectUnread(
  app: PreparingModules,
  inbound: SelectingRequest,
  route: GenerationRoute,
  parsed: ParsedRequest & { unread: UnreadRequest },
): SelectedRequest {
  const { rawRequest, unread } = parsed
  const { request, settings, hasTools, cacheLifetime } = unread
  const context: UnreadContext = { ...responseContext(app, inbound, route, parsed, request), settings }
  const found = app.candidates.of(inbound, request.model, route.protocol)
  const ownBytes = bodyBytes(rawRequest)
  const able = capableEndpoints(found.endpoints, () => ({ ...TEXT_ONLY, hasTools, textBytes: ownBytes }))
  const { endpoints } = able
  const capabilities = checkModel(route.protocol, request, endpoints)
  const forwarded = forwardedOutput(route.protocol, endpoints, settings)
  return {
    context,
    preparedRequests: new PreparedRequests(context, app.schemaCache),
    ...splitLonger(found, endpoints),
    dropped: able.dropped.length === 0 ? found.dropped : [...found.dropped, ...able.dropped],
    preferences: found.preferences,
    hasTools,
    makesObjects: makesObjects(request, []),
    worst: (modelLimit) => worstTextCase(request, cacheLifetime, ownBytes, modelLimit, capabilities, forwarded),
    candidates: mostCandidates(request, forwarded),
    classes:
      request.webSearch === undefined
        ? (forwarded?.classes ?? [])
        : [...(forwarded?.classes ?? []), ...requestedSearch(request, [], true)],
    promptCount: new PromptCount(rawRequest, protocols[route.protocol].serve.readRequest, undefined),
  }
}

/** The output that the client's own members ask for; undefined where no endpoint gets them. */
export const forwardedOutput = (
  protocol: ProtocolName,
  endpoints: readonly Endpoint[],
  { body }: RawRequest,
): RequestedOutput | undefined =>
  endpoints.some((endpoint) => endpoint.protocol === protocol)
    ? requestedOutput(body, protocols[protocol].serve.paths.settings.maxOutputTokens)
    : undefined

/** The capabilities of all endpoints. Throws what the protocol refuses of the model. */
function checkModel(
  protocol: ProtocolName,
  request: RequestSettings,
  endpoints: readonly Endpoint[],
): readonly Capabilities[] {
  const capabilities = endpoints.map(({ target }) => target.capabilities)
  protocols[protocol].serve.checkModel?.(request, capabilities)
  return capabilities
}

/**
 * Registers the request as in flight and holds the most that it may cost: from here on it has a record, also when it
 * fails. Throws what `reserve` of the ledger throws.
 */
export function reserve(
  app: AppContext,
  inbound: AuthenticatedRequest,
  route: GenerationRoute,
  { media, context, endpoints, longer = [], worst, candidates, hasTools, promptCount, classes }: SelectedRequest,
): Generation {
  const { request } = context
  const continues = survivesClient(route.hooks, request, endpoints)
  const inFlight = app.inFlight.enter(continues ? NEVER : inbound.request.signal)
  inFlight.isKept = inbound.execution !== undefined
  try {
    const open = reserveFunds(app, inbound, {
      api: request.protocol,
      model: app.catalogue.named(request.model).model,
      endpoints: longer.length === 0 ? endpoints : [...endpoints, ...longer],
      streamed: request.stream,
      worst,
      hasTools,
      lowerable: mayLower(app, inbound, request) && !continues ? request : undefined,
      isEndable: mayEnd(app, inbound, request) && !continues,
      candidates,
      choices: request.candidates,
      countInput: promptCount.tokens,
      classes,
    })
    // Media take much memory, which no client may keep without a connection, unless the answer is kept.
    if (media === undefined || inFlight.isKept) inFlight.generation = { open, endpoints }
    route.hooks.onReserve?.(open)
    inbound.open = open
    if (inbound.execution !== undefined) inbound.execution.open = open
    inbound.errorHeaders['x-generation-id'] = context.responseIdentity.id
    return {
      app,
      inbound,
      clientSignal: inbound.request.signal,
      route,
      open,
      inFlight,
      media,
      replayRecorder: undefined,
      issuedIds: undefined,
      capture: inbound.capture,
      sending: undefined,
    }
  } catch (error) {
    inFlight.leave()
    throw error
  }
}

const NEVER = new AbortController().signal

/** True if the call goes on when the client leaves: its result is kept, or the provider charges it anyway. */
export const survivesClient = (
  hooks: GenerationHooks,
  request: RequestSettings,
  endpoints: readonly Endpoint[],
): boolean => hooks.survivesClient?.(request, endpoints) === true || endpoints.some(finishesWithoutClient)
