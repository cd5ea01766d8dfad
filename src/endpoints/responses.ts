import type { Call, Spine } from '../spine.ts'
import { GatewayError, invalid } from '../error.ts'
import { readAll } from '../http/call.ts'
import type { Frame } from '../http/frames.ts'
import type { CallSignal } from '../http/connection.ts'
import { protocols } from '../protocols/index.ts'
import type { Quirks, Wire } from '../protocols/protocol.ts'
import { failureCode, failureMessage } from '../protocols/responses/shapes.ts'
import { parseAnswer, transport } from '../providers/attempt.ts'
import type { BackgroundWork, Store, StoredResponse } from '../store/store.ts'

/** Stored responses (OpenAI's Responses API: `store`, `previous_response_id`, `item_reference`), kept by Sluice for every provider. */

type Item = Record<string, unknown>

/** A conversation is followed back over at most this many responses. */
const CHAIN_MAX = 1_000

const PAGE_DEFAULT = 20
const PAGE_MAX = 100

/**
 * Puts what the request refers to in its place: the turns behind `previous_response_id` and each `item_reference`. Changes
 * `wire` only where there is something to expand. Returns the items that the client itself sent, to be kept with the response.
 * GatewayError request_too_large where more than `limitBytes` would be put in.
 */
export async function expand(wire: Wire, store: Store, accountId: string, limitBytes: number): Promise<Item[]> {
  const { body } = wire
  if (body.conversation !== undefined && body.conversation !== null) {
    throw new GatewayError('unsupported_parameter', 'conversation: is not kept here; continue with previous_response_id or send the whole input', { param: 'conversation' })
  }
  const room = new Room(limitBytes)
  const own = await resolved(asItems(body.input), store, accountId, room)
  const previous = body.previous_response_id
  if (previous !== undefined && previous !== null && typeof previous !== 'string') throw invalid('previous_response_id', 'must be a string')
  const before = typeof previous === 'string' ? await history(previous, store, accountId, room) : []
  if (before.length > 0 || own.changed) {
    body.input = [...before, ...own.items]
    wire.text = JSON.stringify(body)
  }
  return own.items
}

/** What a request may still put in: a few bytes may refer to an item a thousand times, and each time it is read and sent whole. */
class Room {
  readonly #limitBytes: number
  #left: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
    this.#left = limitBytes
  }

  take<T extends object>(stored: T): T {
    this.#left -= JSON.stringify(stored).length
    if (this.#left < 0) throw new GatewayError('request_too_large', `What the request refers to must be at most ${this.#limitBytes} bytes together.`)
    return stored
  }
}

/** String or items -> items. What is no array of objects is left for the protocol's reader to refuse by its path. */
const asItems = (input: unknown): Item[] =>
  typeof input === 'string' ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }] : Array.isArray(input) ? (input as Item[]) : []

async function resolved(items: Item[], store: Store, accountId: string, room: Room): Promise<{ items: Item[]; changed: boolean }> {
  if (!items.some(isReference)) return { items, changed: false }
  const out: Item[] = []
  for (const [index, item] of items.entries()) out.push(isReference(item) ? room.take(await referenced(item, index, store, accountId)) : item)
  return { items: out, changed: true }
}

const isReference = (item: unknown): item is Item => typeof item === 'object' && item !== null && (item as Item).type === 'item_reference'

async function referenced(item: Item, index: number, store: Store, accountId: string): Promise<Item> {
  if (typeof item.id !== 'string') throw invalid(`input[${index}].id`, 'must be the id of an earlier item')
  const found = await store.findItem(accountId, item.id)
  if (found !== undefined) return found
  throw new GatewayError('not_found', `input[${index}].id: no item '${item.id}' is stored; send the item itself, or the request that made it with store: true`, { param: `input[${index}].id` })
}

/** All items of a conversation up to and including a stored response, oldest first. */
async function history(id: string, store: Store, accountId: string, room: Room): Promise<Item[]> {
  const chain: Item[][] = []
  for (let next: string | undefined = id; next !== undefined; ) {
    const found = chain.length < CHAIN_MAX ? await store.findResponse(accountId, next) : undefined
    if (found === undefined) throw new GatewayError('not_found', `previous_response_id: no response '${next}' is stored; it may have expired or been made with store: false`, { param: 'previous_response_id' })
    chain.push(room.take([...(found.inputItems as Item[]), ...outputOf(found.response)]))
    const before: unknown = found.response.previous_response_id
    next = typeof before === 'string' ? before : undefined
  }
  return chain.reverse().flat()
}

const outputOf = (response: Item): Item[] => (Array.isArray(response.output) ? (response.output as Item[]) : [])

/** Keeps the final response of one generation, unless its client asked not to. */
export class Keeper {
  readonly #spine: Spine
  readonly #accountId: string
  readonly #inputItems: Item[]
  /** Settles when what was kept is committed. */
  saved: Promise<void> | undefined

  constructor(spine: Spine, accountId: string, inputItems: Item[]) {
    this.#spine = spine
    this.#accountId = accountId
    this.#inputItems = inputItems
  }

  keep = (response: Item): void => this.#save(response, undefined)

  /** Keeps a response on which its provider still works; false where its client wants nothing kept. */
  keepPending(response: Item, upstream: BackgroundWork): boolean {
    if (response.store !== false) this.#save(response, upstream)
    return response.store !== false
  }

  #save(response: Item, upstream: BackgroundWork | undefined): void {
    if (response.store === false || typeof response.id !== 'string') return
    const { keepDays } = this.#spine.config.responses
    this.saved = this.#spine.store.saveResponse(this.#accountId, {
      id: response.id,
      response,
      inputItems: this.#inputItems.map((item, index) => (typeof item.id === 'string' ? item : { id: `in_${String(response.id).slice(5)}_${index}`, ...item })),
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
    { event: 'response.failed', data: JSON.stringify({ type: 'response.failed', sequence_number: at + 1, response: { ...response, status: 'failed', error: { code, message } } }) },
  ]
}

/** Whether a provider still works on a response. */
export const isPending = ({ status }: Item): boolean => status === 'queued' || status === 'in_progress'

const found = async (spine: Spine, call: Call): Promise<StoredResponse> => {
  const id = call.params[0]!
  const kept = await spine.store.findResponse(call.identity.accountId, id)
  if (kept === undefined) throw new GatewayError('not_found', `No response '${id}' is stored.`, { param: 'response_id' })
  return kept
}

/** `GET /v1/responses/{id}`: as it was kept, or, while a provider works on it in the background, as that provider says now. */
export const getResponse = async (spine: Spine, call: Call): Promise<Response> => Response.json(await current(spine, asking(call), await found(spine, call), 'GET', ''))

/** `POST /v1/responses/{id}/cancel`: only what runs in the background can be cancelled. */
export async function cancelResponse(spine: Spine, call: Call): Promise<Response> {
  const kept = await found(spine, call)
  if (kept.upstream === undefined) throw new GatewayError('invalid_request', `Response '${kept.id}' does not run in the background.`, { param: 'response_id' })
  return Response.json(await current(spine, asking(call), kept, 'POST', '/cancel'))
}

/** Who asks, and until when. */
type Asking = { accountId: string; signal: CallSignal }

const asking = ({ identity, request }: Call): Asking => ({ accountId: identity.accountId, signal: request.signal })

const POLLED_BYTES = 64 * 1024 * 1024

/** Asks the provider for a response it still works on, and keeps how that ended. A provider that cannot be asked leaves it as it was. */
async function current(spine: Spine, { accountId, signal }: Asking, kept: StoredResponse, method: 'GET' | 'POST', path: string): Promise<Item> {
  const { upstream, response } = kept
  if (upstream === undefined || !isPending(response)) return response
  const endpoint = spine.catalogue.endpoints(String(response.model), 'responses').find(({ provider }) => provider.id === upstream.provider)
  if (endpoint === undefined) return response
  const incoming = await transport(endpoint)({
    url: `${endpoint.baseUrl}/responses/${encodeURIComponent(upstream.id)}${path}`, method,
    headers: { accept: 'application/json', ...endpoint.provider.headers, ...endpoint.credentials }, timeouts: spine.config.timeouts, signal,
  })
  const text = await readAll(incoming.body, POLLED_BYTES)
  if (incoming.status !== 200) return response
  const now: Item = { ...(parseAnswer(text) as Item), id: kept.id, model: response.model, store: response.store, previous_response_id: response.previous_response_id }
  // What is still pending is asked for again anyway.
  if (!isPending(now)) {
    await Promise.all([settle(spine, accountId, now, endpoint.target.quirks), spine.store.saveResponse(accountId, { id: kept.id, response: now, inputItems: kept.inputItems, expiresAt: kept.expiresAt, upstream })])
  }
  return now
}

const PREFIX = 'resp_'

/** The end of a response in the background is the end of its generation. */
async function settle({ ledger }: Spine, accountId: string, response: Item, quirks: Quirks): Promise<void> {
  const open = ledger.deferred.find(({ ask }) => ask.accountId === accountId && PREFIX + ask.id === response.id)
  if (open === undefined) return
  try {
    open.meter.hear(protocols.responses.call.readAnswer(response, quirks))
  } catch {
    // A response that failed is an error to its reader: what it used stands below.
  }
  await ledger.close(open, response.status === 'cancelled' ? 'client-left' : response.status === 'failed' ? 'failed' : 'completed')
}

/** What nobody hears of for so long is over. */
const FOLLOWED_MS = 86_400_000

/** Asks how responses in the background are getting on, whether or not their clients do: what they cost is settled when they have ended. */
export async function followBackground(spine: Spine, signal: CallSignal): Promise<void> {
  for (const open of spine.ledger.deferred) {
    const { id, accountId, createdAt } = open.ask
    const kept = await spine.store.findResponse(accountId, PREFIX + id)
    if (kept === undefined) await spine.ledger.close(open, 'client-left')
    else if (Date.now() - createdAt > FOLLOWED_MS) await spine.ledger.close(open, 'timed-out')
    // A provider that cannot be asked now is asked again later.
    else await current(spine, { accountId, signal }, kept, 'GET', '').catch(() => {})
  }
}

/** `DELETE /v1/responses/{id}` */
export async function deleteResponse(spine: Spine, call: Call): Promise<Response> {
  const { response } = await found(spine, call)
  await spine.store.deleteResponse(call.identity.accountId, String(response.id))
  return Response.json({ id: response.id, object: 'response', deleted: true })
}

/** `GET /v1/responses/{id}/input_items`, newest first unless `order=asc`; `limit` 1 to 100, `after` an item id. */
export async function listInputItems(spine: Spine, call: Call): Promise<Response> {
  const inputItems = (await found(spine, call)).inputItems as Item[]
  const limit = Number(call.query.get('limit') ?? PAGE_DEFAULT)
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX) throw invalid('limit', `must be a whole number from 1 to ${PAGE_MAX}`)
  const order = call.query.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalid('order', "must be 'asc' or 'desc'")
  const ordered = order === 'asc' ? inputItems : inputItems.toReversed()
  const after = call.query.get('after')
  const from = after === null ? 0 : ordered.findIndex((item) => item.id === after) + 1
  // Begun anew, a client would turn these pages for ever.
  if (after !== null && from === 0) throw invalid('after', 'must be the id of one of these items')
  const data = ordered.slice(from, from + limit)
  return Response.json({ object: 'list', data, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more: from + limit < ordered.length })
}

/** `GET /v1/responses`: a WebSocket is asked for; clients fall back to HTTP on 426. */
export const refuseUpgrade = (): never => {
  throw new GatewayError('upgrade_required', 'WebSockets are not spoken here: send POST /v1/responses over HTTP.')
}
