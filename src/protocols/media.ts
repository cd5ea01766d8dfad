import { GatewayError, invalid } from '../error.ts'
import type { MediaPart } from '../generation/request.ts'
import { isObject } from './fields.ts'
import type { MediaData, ProviderReference } from './protocol.ts'
import type { Translation } from './translation.ts'

/** Media as clients send them in all protocols: data URLs, base64, addresses and ids of files. */

const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/

/**
 * `data:image/png;base64,...` in its pieces, the media type in lower case. Throws an invalid_request that names the
 * path.
 */
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

/**
 * Base64 in either alphabet, with or without padding, also over several lines, as it came. Each test goes through it
 * once, however it ends.
 */
export function checkBase64(data: string, path: string): string {
  if (data === '') throw invalid(path, 'must hold data in base64, and is empty')
  const padding = data.indexOf('=')
  const bare = padding < 0 ? data.length : padding
  const wrong =
    /[^A-Za-z0-9+/_\-= \t\r\n]/.test(data) ||
    (padding >= 0 && /[^= \t\r\n]/.test(data.slice(padding))) ||
    (bare % 4 === 1 && !/[ \t\r\n]/.test(data))
  if (wrong) throw invalid(path, 'must be base64')
  return data
}

export const dataUrl = ({ mediaType, data }: Pick<MediaData, 'mediaType' | 'data'>): string =>
  `data:${mediaType};base64,${data}`

/** Types whose bytes are text: a protocol that has no place for such a file can carry what it says. */
export const isTextual = (mediaType: string): boolean =>
  /^(text\/|application\/(jsonl?|x-ndjson|x-jsonlines|[\w.-]+\+json|xml|(x-)?yaml|toml|sql|x-sh|javascript|typescript|x-python)$)/.test(
    mediaType,
  )

export const textOf = ({ data }: { data: string }): string => Buffer.from(data, 'base64').toString()

const AUDIO_FORMATS: [string, string][] = [
  ['wav', 'audio/wav'],
  ['mp3', 'audio/mpeg'],
  ['mp3', 'audio/mp3'],
  ['wav', 'audio/wave'],
]

/** OpenAI's word for a kind of sound, and back. */
export const audioFormat = (mediaType: string): string => {
  const bare = mediaType.replace(/^audio\/(x-)?/, 'audio/').replace(/;.*$/, '')
  return AUDIO_FORMATS.find(([, type]) => type === bare)?.[0] ?? bare.replace('audio/', '')
}
export const audioMediaType = (format: string): string =>
  AUDIO_FORMATS.find(([name]) => name === format)?.[1] ?? `audio/${format}`

/** Our kind of media by its type. */
export const mediaKind = (mediaType: string): MediaPart['type'] => {
  const kind = mediaType.slice(0, Math.max(mediaType.indexOf('/'), 0)).toLowerCase()
  return kind === 'image' || kind === 'audio' || kind === 'video' ? kind : 'file'
}

/** Whether a member names a file or an address: null and nothing do not. */
export const isNamed = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** Whether a member names where the medium is, and does not hold it. */
export const isAddress = (value: unknown): value is string => isNamed(value) && !/^data:/i.test(value)

/** The elements of an array that are objects, with their indexes. What else there is, the protocol's reader refuses. */
export const objectsIn = (value: unknown): [index: number, element: Record<string, unknown>][] =>
  Array.isArray(value)
    ? value.flatMap((element: unknown, index): [number, Record<string, unknown>][] =>
        isObject(element) ? [[index, element]] : [],
      )
    : []

/** A path as errors name it: `messages[2].content`. */
export const paramOf = (path: readonly (string | number)[]): string =>
  path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('')

/** The 400 of media that the provider's protocol cannot represent. */
export const unsupportedMedia = (
  part: MediaPart,
  translation: Translation,
  what = `${part.type} input`,
): GatewayError => translation.refusal(translation.at(part), `${what} cannot be sent to the provider of this model`)

/** An object's other members, for the one that takes its place. */
export const without = (object: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)))

/** Only one of these members may name or hold the medium: a provider might read another than Sluice does. */
export function onlyOne(object: Record<string, unknown>, path: readonly (string | number)[], ...names: string[]): void {
  if (names.filter((name) => isNamed(object[name])).length > 1)
    throw invalid(paramOf(path), `must have only one of ${names.join(', ')}`)
}

/** The id of a file where none may stand: a provider might look for it there all the same. `places`: where one may. */
export function noFileId(object: Record<string, unknown>, path: readonly (string | number)[], places: string): void {
  const param = paramOf([...path, 'file_id'])
  if (isNamed(object.file_id))
    throw new GatewayError('not_found', `${param}: a file can be named in ${places} only`, { param })
}

/** The ids in a member, a string or a list of them, that name what only a provider keeps. */
export const keptAt = (ids: unknown, path: readonly (string | number)[], what: string): ProviderReference[] =>
  isNamed(ids) || (Array.isArray(ids) && ids.length > 0)
    ? [{ param: paramOf(path), source: { type: 'provider', what } }]
    : []
