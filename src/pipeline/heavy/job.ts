import type { AuthenticatedRequest } from '../../context.ts'
import type { GenerationRequest, ProtocolName, RequestSettings } from '../../generation/request.ts'
import type { Usage } from '../../generation/usage.ts'
import type { RequestBody } from '../../http/encode-request.ts'
import { scanBody } from '../../json/body-scan.ts'
import type { BodyLimits } from '../../json/weight.ts'
import { modelLimitOf } from '../../ledger/admission.ts'
import { ConversationMemory } from '../../protocols/conversation-memory.ts'
import type { RawRequest } from '../../protocols/protocol.ts'
import { type FromPath, rawRequestOf, receivedBody } from '../../protocols/raw-request.ts'
import { type RoutingMembers, routingMembers } from '../../protocols/routing-members.ts'
import { leaveUnread } from '../../protocols/unread-request.ts'
import { protocols } from '../../protocols/index.ts'
import { SchemaCache } from '../../protocols/schema/cache.ts'
import type { RequestedClass } from '../../protocols/requested-output.ts'
import type { Loss } from '../../protocols/translation.ts'
import type { Undo } from '../../protocols/transforms.ts'
import type { Endpoint } from '../../providers/catalogue.ts'
import { type ErrorData, errorData, errorOf } from '../../worker/errors.ts'
import type { GenerationRoute } from '../hooks.ts'
import type { IssuedIds } from '../issued-ids.ts'
import { type MediaModules, MediaResolver } from '../media.ts'
import type { MediaConfig } from '../media-endpoints.ts'
import type { LoadableReference, LoadedMedia } from '../media-memory.ts'
import { type PreparingModules, read, type SelectedRequest, select } from '../prepare.ts'
import { restoreReasoning } from '../reasoning-replay.ts'
import type { TranslationOptions } from '../strict.ts'
import { useKnownTargets } from './known-targets.ts'

/**
 * Reading and writing of one request in a process that has neither store nor catalogue. What it needs of those is given
 * with the job; where something is missing, the job ends with the name of that, and is run again with it.
 */
export type HeavyJob = {
  id: string
  accountId: string
  protocol: ProtocolName
  fromPath: FromPath | undefined
  headers: [string, string][]
  options: TranslationOptions
  mayStayUnread: boolean
  config: MediaConfig & { limits: BodyLimits & { conversationBytes: number } }
  /** `write`: for the endpoint at this index, or the first behind it that can take the request. `count`: its tokens. */
  ask: { type: 'write'; from: number } | { type: 'count' }
  given: Given
}

/** Knowledge of the server: each member once it was needed. */
export type Given = {
  /** `mayUse`: the key may use the model. `issuers`: those of the endpoints whose reasoning is kept. */
  endpoints?: { list: readonly Endpoint[]; mayUse: boolean; issuers: ReadonlySet<string> } | { error: ErrorData }
  reasoning?: ReadonlyMap<string, Uint8Array>
  /** Ids that providers issued to the account, of those in the request. */
  issuedIds?: ReadonlyMap<string, string>
  /** In the order in which they were loaded. `index`: of the reference. `data`: bytes behind those of the body. */
  media?: readonly GivenMedium[]
  data?: readonly number[]
  /** See `ApiReader`. */
  api?: unknown
}

type GivenMedium = Pick<LoadedMedia, 'mediaType' | 'filename' | 'bytes'> & { index: number; isFetched: boolean }

export type Need =
  | { type: 'endpoints'; model: string; routing: RoutingMembers | undefined }
  | { type: 'reasoning'; keys: string[] }
  | { type: 'issuedIds'; ids: readonly string[] }
  | {
      type: 'media'
      references: LoadableReference[]
      toFetch: (LoadableReference & { url: string })[]
      mostBytes: number
    }
  | { type: 'data' }
  | { type: 'api'; needed: unknown }

/** A request as one endpoint is sent it: the number of its bytes, or why it cannot be sent. */
export type Written =
  | {
      url: string
      headers: Record<string, string>
      bytes: number
      losses: readonly Loss[]
      transforms: readonly Undo[]
      assumedLimit: number | undefined
    }
  | { error: ErrorData }

/** One API's steps before a request is read: its `hooks.beforeRead`, in a process that has no store. */
export type ApiReader = (rawRequest: RawRequest, job: HeavyJob) => Promise<ApiFound>

/** `found`, with its bytes: for `hooks.adopt`. */
type ApiFound = { found: unknown; bytes: readonly Uint8Array[] }

/** `endpoints`: indexes of those that can serve the request. `written`: for the first of them from `from` on. */
export type HeavyRead = {
  settings: RequestSettings
  promptEstimate: number | undefined
  hasTools: boolean
  makesObjects: boolean
  worst: Usage
  candidates: number
  classes: readonly RequestedClass[]
  endpoints: number[]
  written: Written[]
  /** See `ApiFound`. */
  found?: unknown
  /** The members of the request on which the response depends. */
  body: Record<string, unknown>
}

export type HeavyResult = { need: Need } | { tokens: number } | HeavyRead

/** Ends a job that needs something. */
export class Needed extends Error {
  readonly need: Need

  constructor(need: Need) {
    super(`needs ${need.type}`)
    this.need = need
  }
}

const schemaCache = new SchemaCache()
let conversations: ConversationMemory | undefined

/** Does one job. Its results are those of the same steps in the server. */
export async function prepareHeavy(
  readers: Partial<Record<ProtocolName, ApiReader>>,
  job: HeavyJob,
  bytes: Buffer,
): Promise<{ output: HeavyResult; bytes?: Uint8Array[] }> {
  try {
    const { selected, api } = await selectGiven(readers[job.protocol], job, bytes)
    if (job.ask.type === 'count') return { output: { tokens: await selected.promptCount.tokens() } }
    const { output, bytes: body } = await writeFrom(selected, job)
    if (api === undefined) return { output, bytes: body }
    return { output: { ...output, found: api.found }, bytes: [...body, ...api.bytes] }
  } catch (error) {
    if (error instanceof Needed) return { output: { need: error.need } }
    throw error
  }
}

/** Reads and selects as the server does, with what is given in the place of its services. */
async function selectGiven(
  reader: ApiReader | undefined,
  job: HeavyJob,
  bytes: Buffer,
): Promise<{ selected: SelectedRequest; api: ApiFound | undefined }> {
  const { protocol, fromPath, options, mayStayUnread, accountId, given } = job
  if (given.endpoints !== undefined && 'list' in given.endpoints) useKnownTargets(given.endpoints.list)
  const data = given.data ?? []
  const bodyEnd = bytes.length - data.reduce((sum, length) => sum + length, 0)
  const body = bytes.subarray(0, bodyEnd)
  conversations ??= new ConversationMemory(job.config.limits.conversationBytes)
  const parseBody = conversations.parse.bind(conversations, accountId)
  const received = receivedBody(body, await scanBody(body, job.config.limits), job.config.limits)
  const rawRequest = rawRequestOf(received, new Headers(job.headers), fromPath, parseBody)
  const inbound = inboundOf(job)
  let api: ApiFound | undefined
  const beforeRead = async (): Promise<void> => {
    api = await reader?.(rawRequest, job)
  }
  const route: GenerationRoute = { protocol, hooks: { beforeRead }, fromPath }
  const routing = routingMembers(rawRequest, protocols[protocol].serve)
  const modules = modulesOf(job, dataIn(bytes, bodyEnd, data), routing)
  const unread = mayStayUnread ? leaveUnread(rawRequest, protocols[protocol].serve) : undefined
  const parsed =
    unread === undefined
      ? await read(modules, inbound, route, rawRequest, options, Infinity)
      : { rawRequest, options, unread, request: unread.request }
  return { selected: await select(modules, inbound, route, parsed), api }
}

/** The client, as far as reading needs it. */
const inboundOf = ({ id, accountId }: HeavyJob): AuthenticatedRequest =>
  ({
    id,
    identity: { accountId },
    request: { signal: new AbortController().signal },
  }) as unknown as AuthenticatedRequest

function dataIn(bytes: Buffer, from: number, lengths: readonly number[]): Uint8Array[] {
  let at = from
  return lengths.map((length) => bytes.subarray(at, (at += length)))
}

function endpointsIn(
  { endpoints }: Given,
  model: string,
  routing?: RoutingMembers,
): Exclude<Given['endpoints'], { error: ErrorData } | undefined> {
  if (endpoints === undefined) throw new Needed({ type: 'endpoints', model, routing })
  if ('error' in endpoints) throw errorOf(endpoints.error)
  return endpoints
}

function modulesOf(
  { config, given }: HeavyJob,
  data: readonly Uint8Array[],
  routing: RoutingMembers | undefined,
): PreparingModules {
  const candidates: PreparingModules['candidates'] & MediaModules['candidates'] = {
    of: (_request, model) => ({ endpoints: endpointsIn(given, model, routing).list, dropped: [], preferences: {} }),
    mayUse: (_request, model) => endpointsIn(given, model, routing).mayUse,
  }
  return {
    // The server dates the response.
    clock: { now: Date.now },
    schemaCache,
    candidates,
    media: new MediaResolver({ candidates, config, loader: givenLoader(given, data), issuedIds: givenIds(given) }),
    reasoningReplay: {
      restore: (accountId, request) =>
        restoreReasoning(accountId, request, endpointsIn(given, request.model).issuers, async (keys) => {
          if (given.reasoning === undefined) throw new Needed({ type: 'reasoning', keys })
          return given.reasoning
        }),
    },
  }
}

const givenIds = ({ issuedIds }: Given): Pick<IssuedIds, 'find'> => ({
  async find(_accountId, ids) {
    if (ids.length > 0 && issuedIds === undefined) throw new Needed({ type: 'issuedIds', ids })
    return issuedIds ?? new Map()
  },
})

/** Media as the server loaded them; it lends the memory for them, too. */
const givenLoader = (given: Given, data: readonly Uint8Array[]): MediaResolver['loader'] => ({
  lease: () => ({ add() {}, release() {} }),
  async load(_caller, references, toFetch, _lease, mostBytes) {
    if (given.media === undefined)
      throw new Needed({
        type: 'media',
        references: references.map(loadable),
        toFetch: toFetch.map((reference) => ({ ...loadable(reference), url: reference.url })),
        mostBytes,
      })
    return given.media.map(({ index, isFetched, ...medium }, at) => ({
      ...medium,
      reference: (isFetched ? toFetch : references)[index]!,
      async data() {
        if (given.data === undefined) throw new Needed({ type: 'data' })
        return data[at]!
      },
    }))
  },
})

/** A reference without its function, which cannot leave its process. */
const loadable = ({ path, param, source, kind }: LoadableReference): LoadableReference => ({
  path,
  param,
  source,
  ...(kind === undefined ? {} : { kind }),
})

async function writeFrom(
  { context, endpoints, hasTools, makesObjects, worst, candidates, classes, preparedRequests }: SelectedRequest,
  { given, ask, protocol }: HeavyJob,
): Promise<{ output: HeavyRead; bytes: Uint8Array[] }> {
  const written: Written[] = []
  let bytes: Uint8Array[] = []
  for (const endpoint of endpoints.slice(ask.type === 'write' ? ask.from : 0)) {
    try {
      const { url, headers, body, losses, transforms, assumedLimit } = await preparedRequests.take(endpoint)
      bytes = piecesOf(body)
      const length = bytes.reduce((sum, piece) => sum + piece.length, 0)
      written.push({ url, headers, bytes: length, losses: losses.losses, transforms, assumedLimit })
      break
    } catch (error) {
      const data = errorData(error)
      if (data === undefined) throw error
      written.push({ error: data })
    }
  }
  const { list } = endpointsIn(given, context.request.model)
  const output = {
    settings: settingsOf(context.request as GenerationRequest),
    promptEstimate: context.promptEstimate,
    hasTools,
    makesObjects,
    worst: worst(modelLimitOf(endpoints)),
    candidates,
    classes,
    endpoints: endpoints.map((endpoint) => list.indexOf(endpoint)),
    written,
    body: protocols[protocol].serve.repeatedMembers?.(context.rawRequest.body) ?? {},
  }
  return { output, bytes }
}

const piecesOf = (body: RequestBody): Uint8Array[] =>
  (typeof body === 'string' ? [body] : body).map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece))

/** The settings that the response depends on, without those that may be as large as a conversation. */
function settingsOf({
  system: _system,
  turns: _turns,
  tools: _tools,
  extras: _extras,
  outputFormat: _outputFormat,
  metadata: _metadata,
  ...settings
}: GenerationRequest): RequestSettings {
  return settings
}
