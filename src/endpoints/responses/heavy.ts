import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ApiReader, Needed } from '../../pipeline/heavy/job.ts'
import { itemText, responseOf } from '../../store/responses.ts'
import type { ResponseTexts, Store } from '../../store/store.ts'
import { expand, type Item, isReference, type ItemSource, withIds } from './expand.ts'

/** Stored conversations in requests that another process reads: it has no store. */

/** `previous`: the id of the last response of a conversation. `items`: ids. */
export type NeededItems = { previous: string | undefined; items: readonly string[] }

/** The responses of the conversation as they are stored, and items, by their ids. */
type GivenItems = { responses: ReadonlyMap<string, ResponseTexts>; items: ReadonlyMap<string, Item> }

/** `items`: those that the client sent, to be stored: their ids, and the lengths of their JSON in bytes. */
export type FoundItems = {
  isStored: boolean
  isBackground: boolean
  items: readonly { id: string | null; length: number }[]
}

/** Reads what the other process needs, as texts: parsing them is a part of its work. */
export async function storedTexts(
  store: Store['responses'],
  accountId: string,
  { previous, items: ids }: NeededItems,
  limitBytes: number,
): Promise<GivenItems> {
  const responses = new Map<string, ResponseTexts>()
  let bytes = 0
  for (let next = previous; next !== undefined && bytes <= limitBytes && !responses.has(next); ) {
    const texts = await store.findTexts(accountId, next)
    if (texts === undefined) break
    responses.set(next, texts)
    for (const text of [...texts.inputItems, ...texts.output]) bytes += text.length
    const { previous_response_id: before } = JSON.parse(texts.response) as Item
    next = typeof before === 'string' ? before : undefined
    await nextTurn()
  }
  const items = new Map<string, Item>()
  for (const id of ids) {
    const item = await store.findItem(accountId, id)
    if (item !== undefined) items.set(id, item)
  }
  return { responses, items }
}

/** The steps of `ResponseStore.beforeRead` in the other process. */
export const readItems: ApiReader = async (rawRequest, { id, accountId, config, given }) => {
  const { body } = rawRequest
  const isStored = body.store !== false
  const source = sourceOf(given.api as GivenItems | undefined, body)
  const sent = await expand(rawRequest, source, accountId, config.limits)
  const texts = isStored ? withIds(sent, `resp_${id}`).map(itemText) : []
  const bytes = texts.map(({ text }) => Buffer.from(text))
  const found: FoundItems = {
    isStored,
    isBackground: body.background === true,
    items: texts.map((item, index) => ({ id: item.id, length: bytes[index]!.length })),
  }
  return { found, bytes }
}

function sourceOf(given: GivenItems | undefined, { input, previous_response_id: previous }: Item): ItemSource {
  const items = Array.isArray(input) ? input.filter(isReference).map(({ id }) => id) : []
  const known = (): GivenItems => {
    if (given !== undefined) return given
    const needed: NeededItems = {
      previous: typeof previous === 'string' ? previous : undefined,
      items: items.filter((id) => typeof id === 'string'),
    }
    throw new Needed({ type: 'api', needed })
  }
  return {
    async find(_accountId, id) {
      const texts = known().responses.get(id)
      return texts && responseOf(texts)
    },
    findItem: async (_accountId, id) => known().items.get(id),
  }
}
