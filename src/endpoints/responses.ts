import type { InboundRequest, AppContext } from '../context.ts'
import { asGatewayError, GatewayError, invalid } from '../error.ts'
import { readAll } from '../http/call.ts'
import type { Frame } from '../http/frames.ts'
import type { CallSignal } from '../http/connection.ts'
import type { OpenGeneration } from '../ledger/ledger.ts'
import { isObject } from '../protocols/fields.ts'
import { protocols } from '../protocols/index.ts'
import type { Quirks, RawRequest } from '../protocols/protocol.ts'
import { failureCode, failureMessage } from '../protocols/responses/shapes.ts'
import { parseAnswer, transport } from '../providers/attempt.ts'
import type { BackgroundWork, Store, StoredResponse } from '../store/store.ts'

/**
 * Stored responses (OpenAI's Responses API: `store`, `previous_response_id`, `item_reference`), kept by Sluice for
 * every provider.
 */

type Item = Record<string, unknown>

/** A conversation is followed back over at most this many responses. */
const CHAIN_MAX = 1_000

const PAGE_DEFAULT = 20
const PAGE_MAX = 100

/**
 * Puts what the request refers to in its place: the turns behind `previous_response_id` and each `item_reference`.
 * Changes
 * `wire` only where there is something to expand. Returns the items that the client itself sent, to be kept with the
 * response.
 * GatewayError request_too_large where more than `limitBytes` would be put in.
 */
export async function expand(
  rawRequest: RawRequest,
  store: Store,
  accountId: string,
  limitBytes: number,
): Promise<Item[]> {
  const { body } = rawRequest
  if (body.conversation !== undefined && body.conversation !== null) {
    throw new GatewayError(
      'unsupported_parameter',
      'conversation: is not kept here; continue with previous_response_id or send the whole input',
      { param: 'conversation' },
    )
  }
  const room = new Room(limitBytes)
  const own = await resolved(asItems(body.input), store, accountId, room)
  const previous = body.previous_response_id
  if (previous !== undefined && previous !== null && typeof previous !== 'string')
    throw invalid('previous_response_id', 'must be a string')
  const before = typeof previous === 'string' ? await history(previous, store, accountId, room) : []
  if (before.length > 0 || own.changed) {
    body.input = [...before, ...own.items]
    rawRequest.inserted = before.length
    rawRequest.text = JSON.stringify(body)
  }
  return own.items
}

/**
 * What a request may still put in: a few bytes may refer to an item a thousand times, and each time it is read and sent
 * whole.
 */
class Room {
  readonly #limitBytes: number
  #left: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
    this.#left = limitBytes
  }

  take<T extends object>(stored: T): T {
    this.#left -= JSON.stringify(stored).length
    if (this.#left < 0)
      throw new GatewayError(
        'request_too_large',
        `What the request refers to must be at most ${this.#limitBytes} bytes together.`,
      )
    return stored
  }
}

/** String or items -> items. What is no array of objects is left for the protocol's reader to refuse by its path. */
const asItems = (input: unknown): Item[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
    : Array.isArray(input)
      ? (input as Item[])
      : []

async function resolved(
  items: Item[],
  store: Store,
  accountId: string,
  room: Room,
): Promise<{ items: Item[]; changed: boolean }> {
  if (!items.some(isReference)) return { items, changed: false }
  const out: Item[] = []
  for (const [index, item] of items.entries())
    out.push(isReference(item) ? room.take(await referenced(item, index, store, accountId)) : item)
  return { items: out, changed: true }
}

const isReference = (item: unknown): item is Item => isObject(item) && item.type === 'item_reference'

async function referenced(item: Item, index: number, store: Store, accountId: string): Promise<Item> {
  if (typeof item.id !== 'string') throw invalid(`input[${index}].id`, 'must be the id of an earlier item')
  const found = await store.findItem(accountId, item.id)
  if (found !== undefined) return found
  throw new GatewayError(
    'not_found',
    `input[${index}].id: no item '${item.id}' is stored; send the item itself, or the request that made it with store: true`,
    { param: `input[${index}].id` },
  )
}

/** All items of a conversation up to and including a stored response, oldest first. */
async function history(id: string, store: Store, accountId: string, room: Room): Promise<Item[]> {
  const chain: Item[][] = []
  for (let next: string | undefined = id; next !== undefined; ) {
    const found = chain.length < CHAIN_MAX ? await store.findResponse(accountId, next) : undefined
    if (found === undefined)
      throw new GatewayError(
        'not_found',
        `previous_response_id: no response '${next}' is stored; it may have expired or been made with store: false`,
        { param: 'previous_response_id' },
      )
    chain.push(room.take([...(found.inputItems as Item[]), ...outputOf(found.response)]))
    const before: unknown = found.response.previous_response_id
    next = typeof before === 'string' ? before : undefined
  }
  return chain.reverse().flat()
}

const outputOf = (response: Item): Item[] => (Array.isArray(response.output) ? (response.output as Item[]) : [])

/** Keeps the final response of one generation, unless its client asked not to. */
export class ResponseStore {
  readonly #app: AppContext
  readonly #accountId: string
  readonly #inputItems: Item[]
  /** The response as its client knows it while a provider works on it in the background. */
  pending: Item | undefined
  /** Settles when what was kept is committed. */
  saved: Promise<void> | undefined

  constructor(app: AppContext, accountId: string, inputItems: Item[]) {
    this.#app = app
    this.#accountId = accountId
    this.#inputItems = inputItems
  }

  keep = (response: Item): void => this.#save(response, undefined)

  keepPending(upstream: BackgroundWork): void {
    if (this.pending !== undefined) this.#save(this.pending, upstream)
  }

  #save(response: Item, upstream: BackgroundWork | undefined): void {
    if (response.store === false || typeof response.id !== 'string') return
    const { keepDays } = this.#app.config.responses
    this.saved = this.#app.store.saveResponse(this.#accountId, {
      id: response.id,
      response,
      inputItems: this.#inputItems.map((item, index) =>
        typeof item.id === 'string' ? item : { id: `in_${String(response.id).slice(5)}_${index}`, ...item },
      ),
      expiresAt: Date.now() + keepDays * 86_400_000,
      upstream,
    })
  }
}

/** What a stream ends with instead of its last frame when its response could not be kept. */
export function notKept(last: Frame | undefined, error: GatewayError): Frame[] {
  if (last === undefined) return []
  console.error(error.message, error.cause)
  const { sequence_number: at, response } = JSON.parse(last.data) as { sequence_number: number; response: Item }
  const [code, message] = [failureCode(error), failureMessage(error)]
  return [
    { event: 'error', data: JSON.stringify({ type: 'error', sequence_number: at, code, message, param: null }) },
    {
      event: 'response.failed',
      data: JSON.stringify({
        type: 'response.failed',
        sequence_number: at + 1,
        response: { ...response, status: 'failed', error: { code, message } },
      }),
    },
  ]
}

const ENDED: ReadonlySet<unknown> = new Set(['completed', 'incomplete', 'failed', 'cancelled'])

/** Whether a provider still works on a response. */
export const isPending = (answer: unknown): boolean => isResponse(answer) && !ENDED.has(answer.status)

const isResponse = (answer: unknown): answer is Item => isObject(answer) && typeof answer.status === 'string'

const found = async (app: AppContext, call: InboundRequest): Promise<StoredResponse> => {
  const id = call.params[0]!
  const kept = await app.store.findResponse(call.identity.accountId, id)
  if (kept === undefined)
    throw new GatewayError('not_found', `No response '${id}' is stored.`, { param: 'response_id' })
  return kept
}

/**
 * `GET /v1/responses/{id}`: as it was kept, or, while a provider works on it in the background, as that provider says
 * now.
 */
export const getResponse = async (app: AppContext, call: InboundRequest): Promise<Response> =>
  Response.json(await current(app, call, await found(app, call), false))

/** `POST /v1/responses/{id}/cancel`: only what runs in the background can be cancelled. */
export async function cancelResponse(app: AppContext, call: InboundRequest): Promise<Response> {
  const kept = await found(app, call)
  if (kept.upstream === undefined && kept.response.background !== true)
    throw new GatewayError('invalid_request', `Response '${kept.id}' does not run in the background.`, {
      param: 'response_id',
    })
  return Response.json(await current(app, call, kept, true))
}

/**
 * `DELETE /v1/responses/{id}`: a provider that works on it is told to stop, now or as soon as it can be asked; until
 * then its work is followed, and paid.
 */
export async function deleteResponse(app: AppContext, call: InboundRequest): Promise<Response> {
  const { id } = await found(app, call)
  const { accountId } = call.identity
  const open = followed(app, accountId, id)
  if (open?.background !== undefined) open.background.unwanted = true
  await Promise.all([open === undefined ? undefined : app.ledger.defer(open), app.store.deleteResponse(accountId, id)])
  if (open !== undefined) await follow(app, open, call.request.signal).catch(() => {})
  return Response.json({ id, object: 'response', deleted: true })
}

/** A response as it is now. A provider that cannot be asked leaves it as it was. */
async function current(
  app: AppContext,
  { identity: { accountId }, request }: InboundRequest,
  kept: StoredResponse,
  unwanted: boolean,
): Promise<Item> {
  const { id, upstream, response } = kept
  if (upstream === undefined) return response
  const open = followed(app, accountId, id)
  const said = await ask(app, String(response.model), { ...upstream, unwanted }, request.signal)
  if (said === undefined) return response
  if (!isPending(said.response)) await end(app, accountId, kept, open, said)
  return labelled(said.response, kept)
}

/** A provider's answer under the names by which its client knows it. */
const labelled = (answer: Item, { id, response }: StoredResponse): Item => ({
  ...response,
  ...answer,
  id,
  model: response.model,
  store: response.store,
  previous_response_id: response.previous_response_id,
})

const PREFIX = 'resp_'

const followed = ({ ledger }: AppContext, accountId: string, id: string): OpenGeneration | undefined =>
  ledger.deferred.find(({ request }) => request.accountId === accountId && PREFIX + request.id === id)

/** What a provider says of a response on which it works. */
type Said = { response: Item; quirks: Quirks }

const POLLED_BYTES = 64 * 1024 * 1024

/** Asks a provider how it is getting on, or to stop. Undefined where it does not say. */
async function ask(
  { catalogue, config: { timeouts } }: AppContext,
  model: string,
  work: BackgroundWork,
  signal: CallSignal,
): Promise<Said | undefined> {
  const endpoint = catalogue.endpoints(model, 'responses').find(({ provider }) => provider.id === work.provider)
  if (endpoint === undefined) return undefined
  const {
    provider,
    credentials,
    baseUrl,
    target: { quirks },
  } = endpoint
  const headers = { accept: 'application/json', ...provider.headers, ...credentials }
  const call = async (method: 'GET' | 'POST', path: string): Promise<{ status: number; text: string }> => {
    const { status, body } = await transport(endpoint)({
      url: `${baseUrl}/responses/${encodeURIComponent(work.id)}${path}`,
      method,
      headers,
      timeouts,
      signal,
    })
    return { status, text: await readAll(body, POLLED_BYTES) }
  }
  const stopped = work.unwanted === true ? await call('POST', '/cancel') : undefined
  // What has ended cannot be cancelled any more.
  const { status, text } = stopped?.status === 200 ? stopped : await call('GET', '')
  if (status === 404 && work.unwanted === true) return { response: { status: 'cancelled' }, quirks }
  if (status !== 200) return undefined
  const response = parseAnswer(text)
  if (isResponse(response)) return { response, quirks }
  throw new GatewayError('upstream_error', 'The provider answered 200 with something that is no response.')
}

/** The end of a response in the background is the end of its generation. */
async function end(
  { ledger, store }: AppContext,
  accountId: string,
  kept: StoredResponse | undefined,
  open: OpenGeneration | undefined,
  said: Said,
): Promise<void> {
  await Promise.all([
    open === undefined ? undefined : settled(ledger, open, said),
    kept?.upstream === undefined ? undefined : store.endResponse(accountId, kept.id, labelled(said.response, kept)),
  ])
}

/** Several may hear of one end: each waits for the record before it tells. */
const ends = new WeakMap<OpenGeneration, Promise<void>>()

function settled(ledger: AppContext['ledger'], open: OpenGeneration, said: Said): Promise<void> {
  const known = ends.get(open) ?? settle(ledger, open, said)
  ends.set(open, known)
  return known
}

async function settle(ledger: AppContext['ledger'], open: OpenGeneration, { response, quirks }: Said): Promise<void> {
  const { status, usage } = response
  const broken = status === 'cancelled' || status === 'failed'
  try {
    // To its reader what broke off is an error, and tells nothing: what was used until then is told as that of an
    // answer that is not complete.
    const answer = broken
      ? { ...response, status: 'incomplete', incomplete_details: { reason: status }, error: null }
      : response
    if (!broken || (typeof usage === 'object' && usage !== null) || outputOf(response).length > 0)
      open.meter.record(protocols.responses.call.readAnswer(answer, quirks))
  } catch (error) {
    console.error(
      `What was made of ${PREFIX}${open.request.id} in the background cannot be read: ${asGatewayError(error).message}`,
    )
  }
  await ledger.close(open, status === 'cancelled' ? 'client-left' : status === 'failed' ? 'failed' : 'completed')
}

/** What nobody hears of for so long is over. */
const FOLLOWED_MS = 86_400_000

/**
 * Asks how one response in the background is getting on, whether or not it is stored here: what it costs is settled
 * when it has ended.
 */
async function follow(app: AppContext, open: OpenGeneration, signal: CallSignal): Promise<void> {
  const {
    request: { id, accountId, createdAt, model },
    background,
  } = open
  if (Date.now() - createdAt > FOLLOWED_MS) return app.ledger.close(open, 'timed-out')
  const said = background === undefined ? undefined : await ask(app, model, background, signal)
  if (said === undefined || isPending(said.response)) return
  await end(app, accountId, await app.store.findResponse(accountId, PREFIX + id), open, said)
}

/**
 * Follows each response in the background by itself: a provider that does not answer delays nobody else, and is asked
 * once at a time.
 */
export class Follower {
  readonly #app: AppContext
  readonly #polls = new Map<OpenGeneration, Promise<void>>()
  readonly #stopping = new AbortController()

  constructor(app: AppContext) {
    this.#app = app
  }

  /** Asks after each that is not being asked after. */
  round(): void {
    for (const open of this.#app.ledger.deferred)
      if (open.request.api === 'responses' && !this.#polls.has(open)) this.#polls.set(open, this.#poll(open))
  }

  /** A provider that cannot be asked now, and a store that does not take its answer, are asked again later. */
  async #poll(open: OpenGeneration): Promise<void> {
    try {
      await follow(this.#app, open, this.#stopping.signal)
    } catch (error) {
      if (!(error instanceof GatewayError)) console.error(error)
    } finally {
      this.#polls.delete(open)
    }
  }

  /** Breaks off what is being asked: the next start goes on. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#polls.values())
  }
}

/** Tells a provider to stop a work that nobody here will hear of. Never rejects. */
export async function stopWork(app: AppContext, model: string, work: BackgroundWork): Promise<void> {
  await ask(app, model, { ...work, unwanted: true }, new AbortController().signal).catch(() => {})
}

/** `GET /v1/responses/{id}/input_items`, newest first unless `order=asc`; `limit` 1 to 100, `after` an item id. */
export async function listInputItems(app: AppContext, call: InboundRequest): Promise<Response> {
  const inputItems = (await found(app, call)).inputItems as Item[]
  const limit = Number(call.query.get('limit') ?? PAGE_DEFAULT)
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX)
    throw invalid('limit', `must be a whole number from 1 to ${PAGE_MAX}`)
  const order = call.query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "must be 'asc' or 'desc'")
  const ordered = order === 'asc' ? inputItems : inputItems.toReversed()
  const after = call.query.get('after')
  const from = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1
  // Begun anew, a client would turn these pages for ever.
  if (after !== null && from === 0) throw invalid('after', 'must be the id of one of these items')
  const data = ordered.slice(from, from + limit)
  return Response.json({
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + limit < ordered.length,
  })
}

/** `GET /v1/responses`: a WebSocket is asked for; clients fall back to HTTP on 426. */
export const refuseUpgrade = (): never => {
  throw new GatewayError('upgrade_required', 'WebSockets are not spoken here: send POST /v1/responses over HTTP.')
}
