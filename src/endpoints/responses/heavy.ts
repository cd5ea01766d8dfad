import type { AppContext } from '../../context.ts'
import { exclusiveTurn } from '../../json/exclusive-turn.ts'
import { isObject } from '../../json/parse.ts'
import { type ApiReader, Needed } from '../../pipeline/heavy/job.ts'
import { HEAVY, TooHeavy } from '../../pipeline/heavy/weight.ts'
import type { RawRequest } from '../../protocols/protocol.ts'
import { itemText, responseOf } from '../../store/responses.ts'
import type { ResponseTexts, Store } from '../../store/store.ts'
import { expand, type Item, isReference, type ItemSource, withIds } from './expand.ts'

/** Stored conversations in requests that another process reads: it has no store. */

/** `previous`: the id of the last response of a conversation. `items`: ids. */
export type NeededItems = { previous: string | undefined; items: readonly string[] }

/** The responses of the conversation as they are stored, and items, by their ids. */
type GivenItems = { responses: ReadonlyMap<string, ResponseTexts>; items: ReadonlyMap<string, Item>; isHeavy: boolean }

/** `items`: those that the client sent, to be stored: their ids, and the lengths of their JSON in bytes. */
export type FoundItems = {
  isStored: boolean
  isBackground: boolean
  items: readonly { id: string | null; length: number }[]
}

/** Stored text that is read in one turn of the event loop. */
const TURN_BYTES = 256 * 1024
/** An item of text alone has six values. */
const ELEMENTS_PER_ITEM = 6

/** Reads what the other process needs, as texts: parsing them is a part of its work. */
export async function storedTexts(
  store: Store['responses'],
  accountId: string,
  { previous, items: ids }: NeededItems,
  limitBytes: number,
): Promise<GivenItems> {
  const responses = new Map<string, ResponseTexts>()
  let [bytes, count, lastTurn] = [0, 0, 0]
  for (let next = previous; next !== undefined && bytes <= limitBytes && !responses.has(next); ) {
    const texts = await store.findTexts(accountId, next)
    if (texts === undefined) break
    responses.set(next, texts)
    for (const text of [...texts.inputItems, ...texts.output]) bytes += text.length
    count += texts.inputItems.length + texts.output.length
    const { previous_response_id: before } = JSON.parse(texts.response) as Item
    next = typeof before === 'string' ? before : undefined
    if (bytes - lastTurn < TURN_BYTES) continue
    lastTurn = bytes
    await exclusiveTurn()
  }
  const items = new Map<string, Item>()
  for (const id of ids) {
    const item = await store.findItem(accountId, id)
    if (item !== undefined) items.set(id, item)
  }
  return { responses, items, isHeavy: bytes >= HEAVY.bytes || count * ELEMENTS_PER_ITEM >= HEAVY.elements }
}

/**
 * Puts stored conversations into a request, and gives the items that its client sent. Throws what `expand` throws, and
 * TooHeavy with the conversations if another process is to do it.
 */
export async function expandStored(
  { store, config: { limits } }: Pick<AppContext, 'store' | 'config'>,
  accountId: string,
  rawRequest: RawRequest,
): Promise<Item[]> {
  const needed = neededItems(rawRequest.body)
  const given = needed && (await storedTexts(store.responses, accountId, needed, limits.bodyBytes))
  if (given?.isHeavy === true) throw new TooHeavy(given)
  return expand(rawRequest, sourceOf(given, rawRequest.body), accountId, limits)
}

/** The steps of `expandStored` in the other process. */
export const readItems: ApiReader = async (rawRequest, { id, accountId, config, given }) => {
  const { body } = rawRequest
  const isStored = body.store !== false && rawRequest.compaction !== true
  const source = sourceOf(given.api as GivenItems | undefined, body)
  const sent = await expand(rawRequest, source, accountId, config.limits)
  // Values that are no items are refused when the request is read, after this.
  const texts = isStored && sent.every(isObject) ? withIds(sent, `resp_${id}`).map(itemText) : []
  const bytes = texts.map(({ text }) => Buffer.from(text))
  const found: FoundItems = {
    isStored,
    isBackground: body.background === true,
    items: texts.map((item, index) => ({ id: item.id, length: bytes[index]!.length })),
  }
  return { found, bytes }
}

/** Undefined for a request that refers to nothing. */
function neededItems({ input, previous_response_id: previous }: Item): NeededItems | undefined {
  const references = Array.isArray(input) ? input.filter(isReference) : []
  if (typeof previous !== 'string' && references.length === 0) return undefined
  return {
    previous: typeof previous === 'string' ? previous : undefined,
    items: references.map(({ id }) => id).filter((id) => typeof id === 'string'),
  }
}

/** The given responses and items; a request that refers to nothing needs none. */
export function sourceOf(given: GivenItems | undefined, body: Item): ItemSource {
  const known = (): GivenItems => {
    if (given === undefined) throw new Needed({ type: 'api', needed: neededItems(body) })
    return given
  }
  return {
    async find(_accountId, id) {
      const texts = known().responses.get(id)
      return texts && responseOf(texts)
    },
    findItem: async (_accountId, id) => known().items.get(id),
  }
}
