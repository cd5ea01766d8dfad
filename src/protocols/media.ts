import { GatewayError, invalid } from '../error.ts'
import type { MediaPart, ToolResultPart } from '../generation/request.ts'
import { isObject } from '../json/parse.ts'
import type { MediaData, ProviderReference } from './protocol.ts'
import type { Translation } from './translation.ts'

/** Media in all protocols: data URLs, base64, URLs and file ids. */

const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/

/** Media type (in lower case) and base64 of `data:image/png;base64,...`. Throws invalid_request with the path. */
export function readDataUrl(url: string, path: string): { mediaType: string; data: string } {
  const comma = url.indexOf(',')
  const [mediaType = '', ...parameters] = url.slice(5, Math.max(comma, 5)).split(';')
  if (
    !/^data:/i.test(url) ||
    comma < 0 ||
    !MEDIA_TYPE.test(mediaType) ||
    parameters.at(-1)?.toLowerCase() !== 'base64'
  ) {
    throw invalid(path, 'must be a data URL with a media type and base64 data (data:image/png;base64,...)')
  }
  return { mediaType: mediaType.toLowerCase(), data: checkBase64(url.slice(comma + 1), path) }
}

/** Returns a media type unchanged. Throws invalid_request with the path for an empty one. */
export function checkMediaType(mediaType: string, path: string): string {
  if (mediaType.trim() === '') throw invalid(path, 'must be a media type such as image/png')
  return mediaType
}

/**
 * Checks base64 of either alphabet, with or without padding, possibly over several lines, and returns it unchanged.
 * Linear in its length: no test backtracks.
 */
export function checkBase64(data: string, path: string): string {
  if (data === '') throw invalid(path, 'must be base64, not an empty string')
  const padding = data.indexOf('=')
  const unpaddedLength = padding < 0 ? data.length : padding
  const wrong =
    /[^A-Za-z0-9+/_\-= \t\r\n]/.test(data) ||
    (padding >= 0 && /[^= \t\r\n]/.test(data.slice(padding))) ||
    (unpaddedLength % 4 === 1 && !/[ \t\r\n]/.test(data))
  if (wrong) throw invalid(path, 'must be base64')
  return data
}

export const dataUrl = ({ mediaType, data }: Pick<MediaData, 'mediaType' | 'data'>): string =>
  `data:${mediaType};base64,${data}`

/** True for files that are text: a protocol without such files can carry their content as text. */
export const isTextual = (mediaType: string): boolean =>
  mediaType.startsWith('text/') ||
  /^application\/(jsonl?|x-ndjson|x-jsonlines|[\w.-]+\+json|xml|(x-)?yaml|toml)$/.test(mediaType) ||
  /^application\/(sql|x-sh|javascript|typescript|x-python)$/.test(mediaType)

export const decodedText = ({ data }: { data: string }): string => Buffer.from(data, 'base64').toString()

const AUDIO_FORMATS: [string, string][] = [
  ['wav', 'audio/wav'],
  ['mp3', 'audio/mpeg'],
  ['mp3', 'audio/mp3'],
  ['wav', 'audio/wave'],
]

/** The registered name of a media type: `image/jpg` is a common mistake, which Anthropic and Google refuse. */
export const registeredType = (mediaType: string): string => (mediaType === 'image/jpg' ? 'image/jpeg' : mediaType)

/** OpenAI's name of an audio format, and back. */
export const audioFormat = (mediaType: string): string => {
  const plainType = mediaType.replace(/^audio\/(x-)?/, 'audio/').replace(/;.*$/, '')
  return AUDIO_FORMATS.find(([, type]) => type === plainType)?.[0] ?? plainType.replace('audio/', '')
}
export const audioMediaType = (format: string): string =>
  AUDIO_FORMATS.find(([name]) => name === format)?.[1] ?? `audio/${format}`

/** The kind of part for a media type. */
export const mediaKind = (mediaType: string): MediaPart['type'] => {
  const kind = mediaType.slice(0, Math.max(mediaType.indexOf('/'), 0)).toLowerCase()
  return kind === 'image' || kind === 'audio' || kind === 'video' ? kind : 'file'
}

/** True for a non-empty string: an id, a URL or data. */
export const isNonEmptyString = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** True for a URL other than a data URL, which contains the medium itself. */
export const isRemoteUrl = (value: unknown): value is string => isNonEmptyString(value) && !/^data:/i.test(value)

/** The elements of an array that are objects, with their indexes. The protocol's reader refuses the others. */
export const objectsIn = (value: unknown): [index: number, element: Record<string, unknown>][] =>
  Array.isArray(value)
    ? value.flatMap((element: unknown, index): [number, Record<string, unknown>][] =>
        isObject(element) ? [[index, element]] : [],
      )
    : []

/** Members that refer to something, in any protocol. */
const REFERRING = new RegExp(
  '"(image_url|video_url|input_audio|audio|file|file_?(id|ids|url|data|uri|search)|source|container(_id)?|' +
    'environment|retrieval|vector_store_ids|collection_ids|skill_id)":',
  'i',
)

/**
 * The same where references may be inside. Throws invalid_request for an object that has some without its array, which
 * some servers take for an array of one: what it refers to would not be checked.
 */
export function listedIn(
  value: unknown,
  path: readonly (string | number)[],
): [index: number, element: Record<string, unknown>][] {
  if (isObject(value) && REFERRING.test(JSON.stringify(value)))
    throw invalid(pathText(path), 'must be an array, not an object')
  return objectsIn(value)
}

/** A path as text: `messages[2].content`. */
export const pathText = (path: readonly (string | number)[]): string =>
  path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('')

/** The 400 of media that the provider's protocol cannot represent. */
export const unsupportedMedia = (
  part: MediaPart,
  translation: Translation,
  what = `${part.type} input`,
): GatewayError => translation.refusal(translation.at(part), `${what} cannot be sent to the provider of this model`)

/** A copy of the object without these members. */
export const omit = (object: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)))

/**
 * Throws invalid_request if more than one of these members is set: a provider could read another one than Sluice.
 */
export function refuseSeveral(
  object: Record<string, unknown>,
  path: readonly (string | number)[],
  ...names: string[]
): void {
  if (names.filter((name) => isNonEmptyString(object[name])).length > 1)
    throw invalid(pathText(path), `must have only one of ${names.join(', ')}`)
}

/**
 * Throws not_found for a file id in a position that has none, since a provider could resolve it there. `allowed`: the
 * positions with file ids, for the message.
 */
export function refuseFileId(
  object: Record<string, unknown>,
  path: readonly (string | number)[],
  allowed: string,
): void {
  if (!isNonEmptyString(object.file_id)) return
  const param = pathText([...path, 'file_id'])
  throw new GatewayError('not_found', `${param}: file ids are accepted in ${allowed} only`, { param })
}

/** A reference to an object that the provider stores, if the member is an id or a list of ids. */
export const providerReferences = (
  ids: unknown,
  path: readonly (string | number)[],
  what: string,
): ProviderReference[] =>
  isNonEmptyString(ids) || (Array.isArray(ids) && ids.length > 0)
    ? [{ param: pathText(path), source: { type: 'provider', what, ids: Array.isArray(ids) ? ids : [ids] } }]
    : []

/** A part of a tool result, after its label as a text if it has one: there is no field for it. */
export const labelled = (part: ToolResultPart['content'][number]): ToolResultPart['content'] =>
  'label' in part ? [{ type: 'text', text: `${part.label}:` }, part] : [part]
