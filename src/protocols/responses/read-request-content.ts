import { objectsOf } from '../../json/parse.ts'
import { invalid } from '../../error.ts'
import type { Citation, NativePart, MediaPart, MediaSource, Part, TextPart } from '../../generation/request.ts'
import { collectExtras, type Extras, Fields, present, refuseUnreadable } from '../fields.ts'
import { checkBase64, readDataUrl } from '../media.ts'
import { TextOffsets } from '../offsets.ts'
import { readAnnotation, type Json } from './shapes.ts'

const DETAILS = ['low', 'high', 'auto', 'original'] as const

/** `content` of a message or `output` of a call: a string, or an array of content parts. */
export function readContent(item: Fields, name: string, extras: Extras): Part[] {
  const value = item.take(name)
  if (typeof value === 'string') return [{ type: 'text', text: value, path: item.at(name) }]
  if (!Array.isArray(value))
    throw invalid(
      item.at(name),
      value === undefined
        ? 'is required: a string or an array of content parts'
        : 'must be a string or an array of content parts',
    )
  return value.map((part, index) => tryPart(part, `${item.at(name)}[${index}]`, extras))
}

function tryPart(part: unknown, path: string, extras: Extras): Part {
  try {
    const fields = new Fields(part, path, extras)
    const read = readPart(fields)
    collectExtras(fields, extras)
    return read
  } catch (error) {
    refuseUnreadable(error, extras)
    return { type: 'native', protocol: 'responses', kind: 'unknown', value: part, path }
  }
}

function readPart(part: Fields): Part {
  const type = part.require('type', part.string('type'), 'the kind of content part')
  switch (type) {
    case 'text':
    case 'input_text':
    case 'output_text':
      return readText(part)
    case 'refusal':
      return {
        type: 'refusal',
        text: part.require('refusal', part.string('refusal'), 'the text of the refusal'),
        path: part.path,
      }
    case 'input_image':
      return readImage(part)
    case 'input_file':
      return readFile(part)
    case 'input_audio':
      return readAudio(part)
    case 'input_video':
      return readVideo(part)
    case 'encrypted_content':
      return readEncrypted(part) ?? { ...native(part, type), optional: true }
    default:
      return native(part, type)
  }
}

const native = (part: Fields, kind: string): NativePart => ({
  type: 'native',
  protocol: 'responses',
  kind,
  value: part.whole(),
  path: part.path,
})

/** Only OpenAI's models encrypt it: from other models it is plain text. */
function readEncrypted(part: Fields): TextPart | undefined {
  const text = part.require('encrypted_content', part.string('encrypted_content'), 'a string')
  return /^gAAAA[\w-]+=*$/.test(text) ? undefined : { type: 'text', text, path: part.path }
}

function readText(part: Fields): TextPart {
  const text = part.require('text', part.string('text'), 'a string')
  const annotations = objectsOf(part.array('annotations'))
  part.array('logprobs')
  const cache = readCache(part)
  return {
    type: 'text',
    text,
    ...(annotations.length > 0 ? { citations: readAnnotations(annotations, text) } : {}),
    ...cache,
    path: part.path,
  }
}

function readAnnotations(annotations: Json[], text: string): Citation[] {
  const offsets = new TextOffsets(text, 'code points')
  return annotations.map((annotation) => readAnnotation(annotation, offsets))
}

function readCache(part: Fields): { cache?: object } {
  const breakpoint = part.object('prompt_cache_breakpoint')
  breakpoint?.take('mode')
  return breakpoint === undefined ? {} : { cache: {} }
}

function readImage(part: Fields): MediaPart {
  const detail = part.oneOf('detail', DETAILS)
  const url = part.string('image_url')
  const cache = readCache(part)
  const source = url === undefined ? fileSource(part, 'image_url or file_id') : urlSource(url, part.at('image_url'))
  return { type: 'image', source, ...present('detail', detail), ...cache, path: part.path }
}

function readFile(part: Fields): MediaPart {
  const filename = part.string('filename'),
    detail = part.string('detail')
  const data = part.string('file_data'),
    url = data === undefined ? part.string('file_url') : undefined
  const cache = readCache(part)
  const source =
    data !== undefined
      ? dataSource(data, part.at('file_data'), filename)
      : url !== undefined
        ? urlSource(url, part.at('file_url'))
        : fileSource(part, 'file_data, file_url or file_id')
  return {
    type: 'file',
    source,
    ...present('filename', filename),
    ...present('detail', detail),
    ...cache,
    path: part.path,
  }
}

function readAudio(part: Fields): MediaPart {
  const audio = part.require('input_audio', part.object('input_audio'), 'an object with data and format')
  const data = checkBase64(audio.require('data', audio.string('data'), 'base64 audio'), audio.at('data'))
  const format = audio.require('format', audio.string('format'), 'the audio format, e.g. wav or mp3')
  return {
    type: 'audio',
    source: { type: 'data', mediaType: format === 'mp3' ? 'audio/mpeg' : `audio/${format}`, data },
    path: part.path,
  }
}

/** Open Responses has video in a message or a result, OpenAI has not. */
function readVideo(part: Fields): MediaPart {
  const url = part.require('video_url', part.string('video_url'), 'a URL or a base64 data URL')
  return { type: 'video', source: urlSource(url, part.at('video_url')), path: part.path }
}

/** A medium that has only an id: beside data or a URL, the id is not read. */
function fileSource(part: Fields, oneOf: string): MediaSource {
  const id = part.string('file_id')
  if (id === undefined || id === '') throw invalid(part.path, `must have one of ${oneOf}`)
  return { type: 'file', id }
}

function urlSource(url: string, path: string): MediaSource {
  if (/^data:/i.test(url)) return { type: 'data', ...readDataUrl(url, path) }
  if (!/^(https?|gs):\/\/./i.test(url)) throw invalid(path, 'must be an http(s) URL or a base64 data URL')
  return { type: 'url', url }
}

const MEDIA_TYPES = new Map(
  Object.entries({
    pdf: 'application/pdf',
    txt: 'text/plain',
    md: 'text/markdown',
    csv: 'text/csv',
    html: 'text/html',
    json: 'application/json',
    xml: 'application/xml',
    docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
    png: 'image/png',
    jpg: 'image/jpeg',
    jpeg: 'image/jpeg',
    webp: 'image/webp',
  }),
)

/**
 * `file_data`: a data URL as providers require it, or base64 alone as OpenAI documents it; then the file name has the
 * media type.
 */
function dataSource(data: string, path: string, filename: string | undefined): MediaSource {
  if (/^data:/i.test(data)) return { type: 'data', ...readDataUrl(data, path) }
  const extension = filename?.split('.').at(-1)?.toLowerCase()
  // Every PDF starts with `%PDF-`.
  const mediaType =
    MEDIA_TYPES.get(extension ?? '') ?? (data.startsWith('JVBERi') ? 'application/pdf' : 'application/octet-stream')
  return { type: 'data', mediaType, data: checkBase64(data, path) }
}

/** Parts as the content of a tool result, which has no refusals. */
export const asResultContent = (parts: Part[]): (TextPart | MediaPart | NativePart)[] =>
  parts.map((part) =>
    part.type === 'refusal' ? { ...part, type: 'text' } : (part as TextPart | MediaPart | NativePart),
  )
