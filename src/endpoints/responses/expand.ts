import { GatewayError, invalid } from '../../error.ts'
import { isObject } from '../../json/parse.ts'
import { isPending } from '../../pipeline/background.ts'
import type { RawRequest } from '../../protocols/protocol.ts'
import type { Store, StoredResponse } from '../../store/store.ts'

/** Replaces the references of a request (`previous_response_id`, `item_reference`) by the items themselves. */

export type Item = Record<string, unknown>

/** Stored responses and items of an account. */
export type ItemSource = Pick<Store['responses'], 'findItem'> & {
  find(accountId: string, id: string): Promise<Pick<StoredResponse, 'response' | 'inputItems'> | undefined>
}

/** Bytes of stored items, and number of items in all. */
type ItemLimits = { bodyBytes: number; parts: number }

/** A conversation may consist of at most this many stored responses. */
const CHAIN_MAX = 1_000

/**
 * Replaces `previous_response_id` by the turns behind it, and each `item_reference` by its item. Changes body and text
 * of `rawRequest` only where there is something to expand. Returns the items that the client itself sent, to be stored
 * with the response. Throws not_found for an unknown id, request_too_large for more bytes of stored items than the
 * limit, and invalid_request for more items, or a response that runs in the background, whose items are not known yet.
 */
export async function expand(
  rawRequest: RawRequest,
  store: ItemSource,
  accountId: string,
  limits: ItemLimits,
): Promise<Item[]> {
  const { body } = rawRequest
  if (body.conversation !== undefined && body.conversation !== null) {
    throw new GatewayError(
      'unsupported_parameter',
      'conversation: is not supported; use previous_response_id or send the full input',
      { param: 'conversation' },
    )
  }
  const lookup = new StoredItems(store, accountId, limits)
  const sent = asItems(body.input)
  const isChanged = sent.some((item) => isReference(item) || hasMadeId(item))
  const own = isChanged ? await lookup.resolve(sent) : sent
  const previous = body.previous_response_id
  if (previous !== undefined && previous !== null && typeof previous !== 'string')
    throw invalid('previous_response_id', 'must be a string')
  const before = typeof previous === 'string' ? await lookup.history(previous) : []
  if (before.length > 0 || isChanged) {
    const items = before.length + own.length
    if (items > limits.parts)
      throw invalid(
        'input',
        `must have at most ${limits.parts} items with the stored ones, not ${items} (limits.parts)`,
      )
    body.input = [...before, ...own]
    rawRequest.inserted = before.length
    rawRequest.text = JSON.stringify(body)
  }
  return own
}

/** String or items -> items. Anything else is left for the protocol's reader, which names its path. */
const asItems = (input: unknown): Item[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }]
    : Array.isArray(input)
      ? (input as Item[])
      : []

export const isReference = (item: unknown): item is Item => isObject(item) && item.type === 'item_reference'

/** Items of one account, read for one request. */
class StoredItems {
  readonly #store: ItemSource
  readonly #accountId: string
  readonly #limits: ItemLimits
  /** A short request may refer to one item a thousand times, and each time it is read and sent whole. */
  #bytesLeft: number

  constructor(store: ItemSource, accountId: string, limits: ItemLimits) {
    this.#store = store
    this.#accountId = accountId
    this.#limits = limits
    this.#bytesLeft = limits.bodyBytes
  }

  async resolve(items: Item[]): Promise<Item[]> {
    const resolved: Item[] = []
    for (const [index, item] of items.entries())
      resolved.push(asSent(isReference(item) ? this.#count(await this.#find(item, index)) : item))
    return resolved
  }

  async #find(reference: Item, index: number): Promise<Item> {
    const param = `input[${index}].id`
    if (typeof reference.id !== 'string') throw invalid(param, 'must be the id of an earlier item')
    const found = await this.#store.findItem(this.#accountId, reference.id)
    if (found !== undefined) return found
    throw new GatewayError(
      'not_found',
      `${param}: no item '${reference.id}' is stored; send the item itself, ` +
        'or send the request that creates it with store: true',
      { param },
    )
  }

  /** All items of a conversation up to and including a stored response, oldest first. */
  async history(id: string): Promise<Item[]> {
    const chain: Item[][] = []
    for (let next: string | undefined = id; next !== undefined; ) {
      const found = chain.length < CHAIN_MAX ? await this.#store.find(this.#accountId, next) : undefined
      if (found === undefined)
        throw new GatewayError(
          'not_found',
          `previous_response_id: no response '${next}' is stored; it may have expired or been made with store: false`,
          { param: 'previous_response_id' },
        )
      const { inputItems, response } = found
      if (response.background === true && isPending(response))
        throw invalid('previous_response_id', `response '${next}' has not ended yet: fetch it until it has`)
      const output = Array.isArray(response.output) ? (response.output as Item[]) : []
      chain.push(this.#count([...(inputItems as Item[]).map(asSent), ...output]))
      const before: unknown = response.previous_response_id
      next = typeof before === 'string' ? before : undefined
    }
    return chain.reverse().flat()
  }

  #count<T extends object>(stored: T): T {
    this.#bytesLeft -= JSON.stringify(stored).length
    if (this.#bytesLeft < 0)
      throw new GatewayError(
        'request_too_large',
        `The stored items that this request refers to exceed ${this.#limits.bodyBytes} bytes.`,
      )
    return stored
  }
}

/** Ids of `withIds`. */
const MADE_ID = /^in_[0-9a-f]{32}_\d+$/

const hasMadeId = (item: unknown): boolean =>
  isObject(item) && typeof item.id === 'string' && item.id.startsWith('in_') && MADE_ID.test(item.id)

/** An item as its client sent it: OpenAI refuses ids without the prefix of their kind of item. */
function asSent(item: Item): Item {
  if (!hasMadeId(item)) return item
  const { id: _, ...sent } = item
  return sent
}

/** The items with ids, as they are stored with their response. */
export function withIds(items: readonly Item[], responseId: string): Item[] {
  const start = `in_${responseId.slice(5)}`
  return items.map((item, index) => (typeof item.id === 'string' ? item : { id: `${start}_${index}`, ...item }))
}
