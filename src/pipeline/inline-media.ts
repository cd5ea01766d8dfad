import { exclusiveTurn } from '../json/exclusive-turn.ts'
import { replaceAt, type JsonPath } from '../json/edit.ts'
import type { MediaData, MediaReference, RawRequest } from '../protocols/protocol.ts'
import type { LoadedMedia } from './media-memory.ts'

/** Puts the data of media in the place of their references. Parts of the body that do not change are shared with it. */
export async function inline(rawRequest: RawRequest, loaded: readonly LoadedMedia[]): Promise<void> {
  const encoded = new Map<Uint8Array, string>()
  const changes = await Promise.all(
    loaded.map(async ({ reference, mediaType, filename, data }) => {
      const bytes = await data()
      const base64 = encoded.get(bytes) ?? toBase64(bytes)
      encoded.set(bytes, base64)
      const medium = { mediaType, filename, data: base64 }
      // Each step through a long medium takes tens of milliseconds: other requests are served in between.
      await exclusiveTurn()
      const value = reference.inline(medium)
      return { path: reference.path, value, text: jsonText(reference, medium, value) }
    }),
  )
  rawRequest.text = replaceAt(
    rawRequest.text,
    changes.map(({ path, text }) => ({ path, value: text })),
  )
  // Copied along the paths that change: the response store keeps the input as its client sent it.
  rawRequest.body = changes.reduce<unknown>(
    (body, { path, value }) => withValue(body, path, value),
    rawRequest.body,
  ) as RawRequest['body']
}

/** The data of a medium, without a copy of its bytes. */
const toBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')

const MARK = crypto.randomUUID().replaceAll('-', '')

/** JSON text of a value. Its data, which may be long and needs no escapes, is put in without being scanned. */
function jsonText(reference: MediaReference, medium: MediaData, value: unknown): string {
  const around = JSON.stringify(reference.inline({ ...medium, data: MARK })).split(MARK)
  // Concatenated strings are ropes: they are copied once, when read, and not once more for each piece.
  return around.length === 2 ? around[0]! + medium.data + around[1]! : JSON.stringify(value)
}

function withValue(value: unknown, path: JsonPath, leaf: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return leaf
  if (Array.isArray(value)) return value.with(step as number, withValue(value[step as number], rest, leaf))
  const object = value as Record<string, unknown>
  return { ...object, [step]: withValue(object[step], rest, leaf) }
}
