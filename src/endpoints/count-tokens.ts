import { exclusiveTurn } from '../json/exclusive-turn.ts'
import { checkAllowed } from '../accounts/allowed-models.ts'
import type { AppContext, AuthenticatedRequest } from '../context.ts'
import { GatewayError, invalid } from '../error.ts'
import type { GenerationRequest, ProtocolName } from '../generation/request.ts'
import { readAll } from '../http/call.ts'
import { splice } from '../json/edit.ts'
import { members } from '../json/scan.ts'
import { estimateInputTokens } from '../ledger/estimate.ts'
import { protocols } from '../protocols/index.ts'
import { readCountRequest } from '../protocols/messages/read-request.ts'
import type { RawRequest } from '../protocols/protocol.ts'
import { readRawRequest } from '../protocols/raw-request.ts'
import { routingMembers } from '../protocols/routing-members.ts'
import { LossReport } from '../protocols/translation.ts'
import { representingEndpoints } from '../pipeline/strict.ts'
import { transport } from '../providers/attempt.ts'
import type { Endpoint } from '../providers/catalogue.ts'

const RESPONSE_BYTES = 1024 * 1024

/** One protocol's request and response for counting tokens. */
type Counting = {
  protocol: ProtocolName
  read(rawRequest: RawRequest): GenerationRequest
  /** The member of the response that has the number. */
  member: 'input_tokens' | 'totalTokens'
  /** Other members of the response. */
  rest?: object
  /** The path at a provider of the same protocol. */
  path(endpoint: Endpoint): string
  /** The body of a count, from that which a generation would be sent. */
  body?(forwarded: string, endpoint: Endpoint): string
}

/** `POST /v1/messages/count_tokens` */
export async function countMessagesTokens(app: AppContext, inbound: AuthenticatedRequest): Promise<Response> {
  const rawRequest = await readRawRequest(app, inbound)
  return count(app, inbound, rawRequest, {
    protocol: 'messages',
    read: readCountRequest,
    member: 'input_tokens',
    path: () => '/messages/count_tokens',
  })
}

/**
 * `POST /v1/responses/input_tokens`. `expand` replaces references to stored responses, which only Sluice knows, by
 * their items.
 */
export async function countResponsesTokens(
  app: AppContext,
  inbound: AuthenticatedRequest,
  expand: (rawRequest: RawRequest) => Promise<unknown>,
): Promise<Response> {
  const rawRequest = await readRawRequest(app, inbound)
  await expand(rawRequest)
  return count(app, inbound, rawRequest, {
    protocol: 'responses',
    read: protocols.responses.serve.readRequest,
    member: 'input_tokens',
    rest: { object: 'response.input_tokens' },
    path: () => '/responses/input_tokens',
    // Only a generation has what Sluice adds to these.
    body: (forwarded) => splice(forwarded, ownMembers(rawRequest.body, ['store', 'include'])),
  })
}

/** These members as the client sent them: undefined where it did not. */
const ownMembers = (body: Record<string, unknown>, names: readonly string[]): Record<string, string | undefined> =>
  Object.fromEntries(names.map((name) => [name, Object.hasOwn(body, name) ? JSON.stringify(body[name]) : undefined]))

/** Google's member that may contain the request whose tokens are counted, under both of its names. */
const WRAPPERS = ['generateContentRequest', 'generate_content_request']

/** `POST .../models/{model}:countTokens` */
export async function countGeminiTokens(
  app: AppContext,
  inbound: AuthenticatedRequest,
  model: string,
): Promise<Response> {
  const fromPath = { model, stream: false }
  const rawRequest = await readRawRequest(app, inbound, fromPath)
  const wrapped = wrappedIn(rawRequest)
  const inner =
    wrapped === undefined
      ? rawRequest
      : {
          ...rawRequest,
          body: rawRequest.body[wrapped.key] as Record<string, unknown>,
          text: rawRequest.text.slice(wrapped.start, wrapped.end),
        }
  return count(app, inbound, inner, {
    protocol: 'generateContent',
    read: protocols.generateContent.serve.readRequest,
    member: 'totalTokens',
    path: ({ target }) => `/models/${target.model}:countTokens`,
    body: (forwarded, { target }) =>
      wrapped === undefined ? forwarded : inWrapper(rawRequest, wrapped.key, forwarded, target),
  })
}

/**
 * Where the wrapped request is in the text; a scan that has not seen one saves the search. Throws invalid_request for
 * another request beside it: only one is checked and counted.
 */
function wrappedIn({ text, body, scanned }: RawRequest): { key: string; start: number; end: number } | undefined {
  if (scanned?.scan.members.some(({ name }) => WRAPPERS.includes(name)) === false) return undefined
  const wrapped = members(text).filter(({ key, start }) => WRAPPERS.includes(key) && text[start] === '{')
  const [first] = wrapped
  if (first !== undefined && (wrapped.length > 1 || Object.hasOwn(body, 'contents')))
    throw invalid(first.key, 'must be the only request to count: leave out the other one')
  return first
}

/** The request in its wrapper, which names the model as a resource. */
function inWrapper(
  { text, body }: RawRequest,
  wrapper: string,
  forwarded: string,
  { model }: Endpoint['target'],
): string {
  const { model: named } = body[wrapper] as Record<string, unknown>
  const request = named === undefined ? forwarded : splice(forwarded, { model: JSON.stringify(`models/${model}`) })
  return splice(text, { [wrapper]: request })
}

/** The provider's own count where it speaks the protocol, otherwise an estimate (`x-sluice-estimated: true`). */
async function count(
  app: AppContext,
  inbound: AuthenticatedRequest,
  rawRequest: RawRequest,
  counting: Counting,
): Promise<Response> {
  const { protocol, member, rest } = counting
  inbound.routing = routingMembers(rawRequest, protocols[protocol].serve)
  const media = await app.media.resolve(inbound, protocol, rawRequest)
  try {
    // Parsing and counting a long body take tens of milliseconds each.
    await exclusiveTurn()
    const request = counting.read(rawRequest)
    await exclusiveTurn()
    checkAllowed(inbound.identity, app.catalogue.named(request.model).model)
    const all = media?.endpoints ?? app.candidates.of(inbound, request.model, protocol).endpoints
    const endpoint = representingEndpoints(request, all)[0]!
    const counted =
      endpoint.protocol === protocol
        ? await countAtProvider(app, inbound.request.signal, endpoint, {
            path: counting.path(endpoint),
            body: await bodyFor(app, inbound, endpoint, { rawRequest, request, counting }),
            headers: protocols[protocol].call.headers(rawRequest),
          })
        : undefined
    if (typeof counted?.[member] === 'number') return Response.json(counted)
    const headers = { 'x-sluice-estimated': 'true' }
    return Response.json({ ...rest, [member]: await estimateInputTokens(request) }, { headers })
  } finally {
    media?.release()
  }
}

/** The body of a generation: with signatures of this model alone, and those that the client left out. */
async function bodyFor(
  app: AppContext,
  { identity }: AuthenticatedRequest,
  endpoint: Endpoint,
  { rawRequest, request, counting }: { rawRequest: RawRequest; request: GenerationRequest; counting: Counting },
): Promise<string> {
  const { replayStates } = await app.reasoningReplay.restore(identity.accountId, request, [endpoint])
  const context = { rawRequest, restoredReasoning: replayStates }
  const forwarded = protocols[endpoint.protocol].call.forward(context, endpoint.target, new LossReport())
  return counting.body?.(forwarded, endpoint) ?? forwarded
}

/** Undefined where the provider does not count. Throws its refusal of the request. */
async function countAtProvider(
  app: AppContext,
  signal: AbortSignal,
  endpoint: Endpoint,
  { path, body, headers }: { path: string; body: string; headers: Record<string, string> },
): Promise<Record<string, unknown> | undefined> {
  try {
    const incoming = await transport(endpoint)({
      url: endpoint.baseUrl + path,
      method: 'POST',
      body,
      timeouts: app.config.timeouts,
      signal,
      headers: {
        'content-type': 'application/json',
        ...headers,
        ...endpoint.provider.headers,
        ...endpoint.credentials,
      },
    })
    const text = await readAll(incoming.body, RESPONSE_BYTES)
    if (incoming.status === 200) return JSON.parse(text) as Record<string, unknown>
    if (incoming.status === 400) throw protocols[endpoint.protocol].call.readError(incoming.status, text)
  } catch (error) {
    if (error instanceof GatewayError && error.status === 400) throw error
  }
  return undefined
}
