export type Json = Record<string, unknown>

/**
 * A response kept for `previous_response_id`. `inputItems` are complete items: the caller has resolved references.
 */
export type ResponseToSave = WrittenResponse & {
  inputItems: readonly ItemText[]
  expiresAt: number
  upstream?: BackgroundWork | undefined
}

/** An item as JSON, in UTF-8 where it comes as bytes. `id`: null for one that is not found by an id. */
export type ItemText = { id: string | null; text: string | Uint8Array }

/** A response as JSON, without its output, and the items of that. */
export type WrittenResponse = { id: string; head: string; output: readonly ItemText[] }

/** A stored response as it was written: itself without its output, and the items of both. */
export type ResponseTexts = { response: string; inputItems: string[]; output: string[] }

export type StoredResponse = {
  id: string
  response: Json
  inputItems: unknown[]
  createdAt: number
  expiresAt: number
  upstream?: BackgroundWork
}

/**
 * A response that a provider is still working on in the background: the endpoint's name in the catalogue and the
 * provider's own id of the response. `unwanted`: the client deleted it, so the provider is to be cancelled.
 */
export type BackgroundWork = { provider: string; id: string; unwanted?: boolean }

export interface ResponseStore {
  /** Resolves when committed, with `upstream` on the disk. Saving the same id again replaces the response. */
  save(accountId: string, response: ResponseToSave): Promise<void>
  /**
   * Replaces a response in the background by its result and removes `upstream`. Does nothing if it has a result
   * already, or was deleted.
   */
  finish(accountId: string, id: string, response: Json): Promise<void>
  find(accountId: string, id: string): Promise<StoredResponse | undefined>
  findTexts(accountId: string, id: string): Promise<ResponseTexts | undefined>
  /** The newest input or output item with this id. */
  findItem(accountId: string, itemId: string): Promise<Json | undefined>
  delete(accountId: string, id: string): Promise<boolean>
  /** Removes what has expired by `now`. Returns the number of responses removed. */
  purge(now: number): Promise<number>
}

/** Output items of a response, which are found by id as its input items are. */
export const outputItems = ({ output }: Json): unknown[] => (Array.isArray(output) ? output : [])

/** A reference has the id of the item it refers to. Indexed as an item, it would hide that one. */
export const hasOwnId = (item: unknown): item is Json & { id: string } =>
  typeof item === 'object' &&
  item !== null &&
  typeof (item as Json).id === 'string' &&
  (item as Json).type !== 'item_reference'

export const itemText = (item: unknown): ItemText & { text: string } => ({
  id: hasOwnId(item) ? item.id : null,
  text: JSON.stringify(item),
})

/** Undefined for a response that is not to be stored. */
export const writtenResponse = (response: Json): WrittenResponse | undefined =>
  response.store === false || typeof response.id !== 'string'
    ? undefined
    : { id: response.id, head: headOf(response), output: outputItems(response).map(itemText) }

/** A response as text without its output, whose items have rows of their own. */
export const headOf = (response: Json): string => JSON.stringify(withOutput(response, []))

/** The value of stored texts. */
export const responseOf = ({
  response,
  inputItems,
  output,
}: ResponseTexts): { response: Json; inputItems: unknown[] } => ({
  response: withOutput(JSON.parse(response) as Json, output.map(parseText)),
  inputItems: inputItems.map(parseText),
})

/** A response as stores read it. */
export type ResponseRow = { response: string; upstream: string | null; createdAt: number; expiresAt: number }

export const storedResponseOf = (
  id: string,
  { response, upstream, createdAt, expiresAt }: ResponseRow,
  items: Omit<ResponseTexts, 'response'>,
): StoredResponse => ({
  id,
  ...responseOf({ response, ...items }),
  createdAt,
  expiresAt,
  ...(upstream === null ? {} : { upstream: JSON.parse(upstream) as BackgroundWork }),
})

/** The texts of items as stores read them, in their order. */
export function itemTextsOf(
  items: readonly { isOutput: boolean | number; item: string }[],
): Omit<ResponseTexts, 'response'> {
  const textsOf = (kind: boolean): string[] =>
    items.flatMap(({ isOutput, item }) => (Boolean(isOutput) === kind ? [item] : []))
  return { inputItems: textsOf(false), output: textsOf(true) }
}

/** The bytes that count as kept. */
export function bytesOf({ head, inputItems, output }: ResponseToSave): number {
  let bytes = Buffer.byteLength(head)
  for (const items of [inputItems, output]) for (const { text } of items) bytes += Buffer.byteLength(text)
  return bytes
}

const parseText = (text: string): unknown => JSON.parse(text)

/** The response with other output, at the same place among its members. */
const withOutput = (response: Json, output: readonly unknown[]): Json =>
  Array.isArray(response.output) ? { ...response, output } : response
