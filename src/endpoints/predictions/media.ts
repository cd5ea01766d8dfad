import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { isRawJson } from '../../json/exact.ts'
import { isObject } from '../../protocols/fields.ts'
import type { Json, StoredFile } from '../../store/store.ts'
import type { Prediction } from './prediction.ts'

/**
 * Files in an input, where Replicate's clients put the URLs of what they uploaded; and what a model made, where it
 * comes as data.
 */

type Files = Pick<AppContext, 'files'>
type Named = Pick<Prediction, 'accountId' | 'input' | 'origin'>

/** The value of each text in a JSON value, put in its place. */
function mapTexts(value: unknown, text: (value: string) => unknown): unknown {
  if (typeof value === 'string') return text(value)
  if (Array.isArray(value)) return value.map((element) => mapTexts(element, text))
  return isObject(value) && !isRawJson(value)
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, mapTexts(member, text)]))
    : value
}

/** All texts in a JSON value. */
export const textsIn = (value: unknown): string[] => {
  const found: string[] = []
  mapTexts(value, (text) => found.push(text))
  return found
}

/** The id in a URL of a file that was uploaded here: `<origin>/v1/files/file-...`, or that of its content. */
function fileIdOf(text: string, origin: string): string | undefined {
  const start = `${origin}/v1/files/`
  return text.startsWith(start) ? /^([^/?#]+)(?:\/content)?$/.exec(text.slice(start.length))?.[1] : undefined
}

/**
 * Files of the account that its input names, by their URLs. Throws not_found for one that the account does not have.
 */
async function filesIn({ files }: Files, { accountId, input, origin }: Named): Promise<Map<string, StoredFile>> {
  const found = new Map<string, StoredFile>()
  for (const text of textsIn(input)) {
    const id = fileIdOf(text, origin)
    if (id === undefined || found.has(text)) continue
    const file = await files.find(accountId, id)
    if (file === undefined)
      throw new GatewayError(
        'not_found',
        `input: no file '${id.slice(0, 100)}' is stored; it may have expired or been deleted`,
        { param: 'input' },
      )
    found.set(text, file)
  }
  return found
}

/**
 * The input with data URLs in the place of its files: no provider can fetch those. Throws like `filesIn`, and
 * request_too_large for more than `limitBytes` together.
 */
export async function withFiles(rooms: Files, prediction: Named, limitBytes: number): Promise<Json> {
  const files = await filesIn(rooms, prediction)
  if (files.size === 0) return prediction.input
  const sum = [...files.values()].reduce((bytes, file) => bytes + file.bytes, 0)
  if (sum > limitBytes)
    throw new GatewayError(
      'request_too_large',
      `input: its files must be at most ${limitBytes} bytes together, not ${sum}`,
      { param: 'input' },
    )
  const urls = new Map<string, string>()
  for (const [url, file] of files)
    urls.set(url, `data:${file.mediaType};base64,${Buffer.from(await rooms.files.bytes(file)).toString('base64')}`)
  return mapTexts(prediction.input, (text) => urls.get(text) ?? text) as Json
}

/** Shorter data stays in the output: fetching it would take longer than reading it. */
const PUBLISHED_LENGTH = 16 * 1024

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,/

/** The output with URLs in the place of large data. */
export async function withUrls(
  rooms: Files,
  prediction: Pick<Prediction, 'accountId' | 'origin'>,
  output: unknown,
): Promise<unknown> {
  const urls = new Map<string, string>()
  for (const text of textsIn(output)) {
    const [head, mediaType] = text.length < PUBLISHED_LENGTH || urls.has(text) ? [] : (DATA_URL.exec(text) ?? [])
    if (head !== undefined) urls.set(text, await publish(rooms, prediction, mediaType!, text.slice(head.length)))
  }
  return urls.size === 0 ? output : mapTexts(output, (text) => urls.get(text) ?? text)
}

/** Where what a model made is found. `data`: base64. */
export async function publish(
  { files }: Files,
  { accountId, origin }: Pick<Prediction, 'accountId' | 'origin'>,
  mediaType: string,
  data: string,
): Promise<string> {
  return `${origin}/v1/outputs/${await files.publish(accountId, { mediaType, data: Buffer.from(data, 'base64') })}`
}

const PICTURE = /^data:image\/|^https?:\/\/[^?#]+\.(?:png|jpe?g|webp|gif|avif|svg)(?:[?#]|$)/i

/** Images in an output, for models that are paid by the image. */
export const picturesIn = (output: unknown): number => textsIn(output).filter((text) => PICTURE.test(text)).length
