import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { mapStrings, stringsIn } from '../../json/strings.ts'
import type { Json, StoredFile } from '../../store/store.ts'
import type { Prediction } from './prediction.ts'

/**
 * Files in an input, which Replicate's clients give as the URLs of their uploads, and media in an output, which some
 * providers give as data URLs.
 */

type Files = Pick<AppContext, 'files'>
type WithInput = Pick<Prediction, 'accountId' | 'input' | 'origin'>

/** The id in the URL of an uploaded file (`<origin>/v1/files/file-...`), or of its content. */
function fileIdOf(text: string, origin: string): string | undefined {
  const start = `${origin}/v1/files/`
  return text.startsWith(start) ? /^([^/?#]+)(?:\/content)?$/.exec(text.slice(start.length))?.[1] : undefined
}

/** Files of the account that the input refers to, by their URLs. Throws not_found for one that it does not have. */
async function filesIn({ files }: Files, { accountId, input, origin }: WithInput): Promise<Map<string, StoredFile>> {
  const found = new Map<string, StoredFile>()
  for (const text of stringsIn(input)) {
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
 * The input with data URLs in place of its files, which no provider could fetch. Throws not_found for an unknown file,
 * request_too_large for more than `limitBytes` together.
 */
export async function withFiles(app: Files, prediction: WithInput, limitBytes: number): Promise<Json> {
  const files = await filesIn(app, prediction)
  if (files.size === 0) return prediction.input
  const sum = [...files.values()].reduce((bytes, file) => bytes + file.bytes, 0)
  if (sum > limitBytes)
    throw new GatewayError(
      'request_too_large',
      `input: files of ${sum} bytes together exceed the limit of ${limitBytes}`,
      { param: 'input' },
    )
  const urls = new Map<string, string>()
  for (const [url, file] of files)
    urls.set(url, `data:${file.mediaType};base64,${Buffer.from(await app.files.bytes(file)).toString('base64')}`)
  return mapStrings(prediction.input, (text) => urls.get(text) ?? text) as Json
}

/** Shorter data stays in the output: fetching it would take longer. */
const PUBLISHED_LENGTH = 16 * 1024

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,/

/** The output with URLs in place of large data. */
export async function withUrls(
  app: Files,
  prediction: Pick<Prediction, 'accountId' | 'origin'>,
  output: unknown,
): Promise<unknown> {
  const urls = new Map<string, string>()
  for (const text of stringsIn(output)) {
    const [head, mediaType] = text.length < PUBLISHED_LENGTH || urls.has(text) ? [] : (DATA_URL.exec(text) ?? [])
    if (head !== undefined) urls.set(text, await publish(app, prediction, mediaType!, text.slice(head.length)))
  }
  return urls.size === 0 ? output : mapStrings(output, (text) => urls.get(text) ?? text)
}

/** Stores output of a model and gives its URL. `data`: base64. */
export async function publish(
  { files }: Files,
  { accountId, origin }: Pick<Prediction, 'accountId' | 'origin'>,
  mediaType: string,
  data: string,
): Promise<string> {
  return `${origin}/v1/outputs/${await files.publish(accountId, { mediaType, data: Buffer.from(data, 'base64') })}`
}

const IMAGE = /^data:image\/|^https?:\/\/[^?#]+\.(?:png|jpe?g|webp|gif|avif|svg)(?:[?#]|$)/i

/** The number of images in an output, for models that are charged by the image. */
export const countImages = (output: unknown): number => stringsIn(output).filter((text) => IMAGE.test(text)).length
