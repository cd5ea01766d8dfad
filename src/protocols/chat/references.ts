import { invalid } from '../../error.ts'
import { isObject, objectOf } from '../../json/parse.ts'
import {
  audioFormat,
  dataUrl,
  isRemoteUrl,
  isNonEmptyString,
  isTextual,
  mediaKind,
  providerReferences,
  refuseFileId,
  listedIn,
  objectsIn,
  refuseSeveral,
  pathText,
  decodedText,
  omit,
} from '../media.ts'
import type { MediaData, MemberPath, References } from '../protocol.ts'
import type { Json } from './shapes.ts'

const POSITIONS = 'file parts'

/** Members that name what some compatible servers store under the operator's key. */
const STORED = [
  ['preset', 'a preset'],
  ['thread_id', 'a thread'],
  ['cache_id', 'a cache'],
] as const

/**
 * Files, URLs and earlier audio in a body's messages of every role, and what compatible servers store: the cached
 * contents of Google's, presets, threads and caches of others, and what search tools look through.
 */
export function references(body: Json): References {
  const found: References = []
  found.push(...providerReferences(body.cached_content, ['cached_content'], 'a cached content'))
  for (const [vendor, options] of Object.entries(objectOf(body.extra_body)))
    found.push(
      ...providerReferences(
        objectOf(options).cached_content,
        ['extra_body', vendor, 'cached_content'],
        'a cached content',
      ),
    )
  for (const [name, what] of STORED) found.push(...providerReferences(body[name], [name], what))
  const { sources } = objectOf(body.search_parameters)
  for (const [s, source] of listedIn(sources, ['search_parameters', 'sources']))
    found.push(
      ...providerReferences(
        source.collection_ids,
        ['search_parameters', 'sources', s, 'collection_ids'],
        'a collection',
      ),
    )
  for (const [t, tool] of listedIn(body.tools, ['tools']))
    found.push(...providerReferences(tool.vector_store_ids, ['tools', t, 'vector_store_ids'], 'a vector store'))
  for (const [m, message] of listedIn(body.messages, ['messages'])) {
    if (isObject(message.audio))
      for (const reference of providerReferences(message.audio.id, ['messages', m, 'audio', 'id'], 'an audio response'))
        found.push({ ...reference, optional: true })
    for (const name of ['content', 'images'])
      for (const [p, part] of listedIn(message[name], ['messages', m, name]))
        addPart(part, ['messages', m, name, p], found)
  }
  return found
}

function addPart(part: Json, path: MemberPath, found: References): void {
  const { image_url: image, file } = part
  if (isObject(image) && isObject(file)) throw invalid(pathText(path), 'must have only one of image_url and file')
  for (const [name, kind] of [
    ['image_url', 'image'],
    ['video_url', 'video'],
  ] as const) {
    const medium = part[name]
    // Mistral has the URL without an object.
    const url = isObject(medium) ? medium.url : medium
    if (!isRemoteUrl(url)) continue
    const at = isObject(medium) ? [...path, name, 'url'] : [...path, name]
    found.push({ path: at, param: pathText(at), source: { type: 'url', url }, kind, inline: dataUrl })
  }
  addAudioUrl(part.input_audio, [...path, 'input_audio'], found)
  refuseFileId(part, path, POSITIONS)
  for (const [name, value] of Object.entries(part))
    if (name !== 'file' && isObject(value)) refuseFileId(value, [...path, name], POSITIONS)
  if (!isObject(file)) return
  refuseSeveral(file, [...path, 'file'], 'file_id', 'file_data')
  if (isNonEmptyString(file.file_id)) {
    found.push({
      path,
      param: pathText([...path, 'file', 'file_id']),
      source: { type: 'file', id: file.file_id },
      inline: (medium) => inlineFile(medium, part, file),
    })
  } else if (isUrlNotData(file.file_data)) {
    const at = [...path, 'file', 'file_data']
    found.push({
      path: at,
      param: pathText(at),
      source: { type: 'url', url: file.file_data },
      kind: 'file',
      inline: dataUrl,
    })
  }
}

/** Mistral's form of audio: base64, or a URL. */
function addAudioUrl(audio: unknown, path: MemberPath, found: References): void {
  if (isUrlNotData(audio))
    found.push({
      path,
      param: pathText(path),
      source: { type: 'url', url: audio },
      kind: 'audio',
      inline: ({ data }) => data,
    })
}

/** Anything with a scheme: `http:/host` is parsed as a URL too, and base64 has no colon. */
const isUrlNotData = (value: unknown): value is string => isRemoteUrl(value) && /^[a-z][\w+.-]*:/i.test(value)

/** A file by id may be of any kind; its data needs the part of its kind, and textual data becomes a text part. */
function inlineFile(medium: MediaData, part: Json, file: Json): Json {
  const rest = omit(part, 'type', 'file')
  const filename = isNonEmptyString(file.filename) ? file.filename : medium.filename
  const kind = mediaKind(medium.mediaType)
  if (kind === 'image') return { ...rest, type: 'image_url', image_url: { url: dataUrl(medium) } }
  if (kind === 'audio')
    return { ...rest, type: 'input_audio', input_audio: { data: medium.data, format: audioFormat(medium.mediaType) } }
  if (isTextual(medium.mediaType)) return { ...rest, type: 'text', text: `${filename}:\n${decodedText(medium)}` }
  return { ...rest, type: 'file', file: { ...omit(file, 'file_id'), filename, file_data: dataUrl(medium) } }
}

/** The ids of the audio of a response. */
export const issuedIds = (data: Json): string[] =>
  objectsIn(data.choices)
    .flatMap(([, { message, delta }]) => [message, delta])
    .map((holder) => (isObject(holder) && isObject(holder.audio) ? holder.audio.id : undefined))
    .filter(isNonEmptyString)
