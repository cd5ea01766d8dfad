import { invalid } from '../../error.ts'
import type { MediaPart, MediaSource, NativePart, Part, TextPart } from '../../generation/request.ts'
import { SNIFFED_BYTES, sniff } from '../../http/sniff.ts'
import { readLifetime } from '../cache-breakpoints.ts'
import { collectExtras, type Extras, Fields, refuseUnreadable } from '../fields.ts'
import { isObject } from '../../json/parse.ts'
import { audioMediaType, checkBase64, mediaKind, readDataUrl } from '../media.ts'

/** Types of parts that some role may have. */
const KNOWN = ['text', 'image_url', 'input_audio', 'video_url', 'file', 'refusal']

/**
 * `content` as parts: a string is one text part, an unknown type a native part. Throws invalid_request for a known type
 * that the role may not have.
 */
export function readContent(message: Fields, allowed: readonly string[], extras: Extras): Part[] | undefined {
  const content = message.take('content')
  if (content === undefined) return undefined
  const breakpoint = readCache(message)
  const path = message.at('content')
  if (typeof content === 'string') return [{ type: 'text', text: content, ...breakpoint, path }]
  if (!Array.isArray(content)) throw invalid(path, 'must be a string or an array of parts')
  const parts = content.map((element, index) => readPart(element, `${path}[${index}]`, allowed, extras))
  // LiteLLM's cache breakpoint on a message is at its end.
  const last = parts.at(-1)
  if (last?.type === 'text' || last?.type === 'image' || last?.type === 'file') Object.assign(last, breakpoint)
  return parts
}

function readPart(element: unknown, path: string, allowed: readonly string[], extras: Extras): Part {
  try {
    return readOwnPart(new Fields(element, path, extras), allowed, extras)
  } catch (error) {
    refuseUnreadable(error, extras)
    return { type: 'native', protocol: 'chat.completions', kind: 'unknown', value: element, path }
  }
}

function readOwnPart(part: Fields, allowed: readonly string[], extras: Extras): Part {
  const type = part.require('type', part.string('type'), "the kind of the part, such as 'text'")
  if (!allowed.includes(type)) {
    if (KNOWN.includes(type) || allowed.length === 1)
      throw invalid(
        part.at('type'),
        `must be ${allowed.map((word) => `'${word}'`).join(' or ')} in this role, not '${type}'`,
      )
    return nativePart(part, type)
  }
  const read: Part = { ...readKnownPart(part, type), path: part.path }
  if (read.type === 'text' || read.type === 'image' || read.type === 'file') Object.assign(read, readCache(part))
  collectExtras(part, extras)
  return read
}

/** An element that only this protocol knows. */
export const nativePart = (fields: Fields, kind: string): NativePart => ({
  type: 'native',
  protocol: 'chat.completions',
  kind,
  value: fields.whole(),
  path: fields.path,
})

function readKnownPart(part: Fields, type: string): Part {
  switch (type) {
    case 'text':
      return { type: 'text', text: part.require('text', part.string('text'), 'the text of the part') }
    case 'refusal':
      return { type: 'refusal', text: part.require('refusal', part.string('refusal'), 'the text of the refusal') }
    case 'image_url':
      return readImage(part)
    case 'input_audio':
      return readAudio(part)
    case 'video_url':
      return readVideo(part)
    default:
      return readFile(part)
  }
}

/** OpenRouter's `cache_control`, OpenAI's `prompt_cache_breakpoint` or both: one cache breakpoint. */
export function readCache(part: Fields): Pick<TextPart, 'cache'> {
  const { cache_control: control, prompt_cache_breakpoint: breakpoint } = part.value
  const isOpenAi = isObject(breakpoint)
  if (isOpenAi) part.object('prompt_cache_breakpoint')!.take('mode')
  if (!isObject(control) || control.type !== 'ephemeral') return isOpenAi ? { cache: {} } : {}
  const fields = part.object('cache_control')!
  fields.take('type')
  return { cache: readLifetime(fields) }
}

export function readImage(part: Fields): MediaPart {
  // Mistral's form.
  if (typeof part.value.image_url === 'string')
    return imageOf(readUrl(part.string('image_url')!, part.at('image_url')), part.path)
  const image = part.require('image_url', part.object('image_url'), 'an object with a url')
  const source = readUrl(image.require('url', image.string('url'), 'a URL or a base64 data URL'), image.at('url'))
  const detail = image.oneOf('detail', ['low', 'high', 'auto'])
  return { ...imageOf(source, part.path), ...(detail === undefined ? {} : { detail }) }
}

const imageOf = (source: MediaSource & { type: 'data' | 'url' }, path: string): MediaPart => ({
  type: source.type === 'data' ? mediaKind(source.mediaType) : 'image',
  source,
  path,
})

function readUrl(url: string, path: string): MediaSource & { type: 'data' | 'url' } {
  if (/^data:/i.test(url)) return { type: 'data', ...readDataUrl(url, path) }
  if (!URL.canParse(url)) throw invalid(path, 'must be a URL or a base64 data URL')
  return { type: 'url', url }
}

function readAudio(part: Fields): MediaPart {
  if (typeof part.value.input_audio === 'string')
    return { type: 'audio', source: readPlainAudio(part.string('input_audio')!, part.at('input_audio')) }
  const audio = part.require('input_audio', part.object('input_audio'), 'an object with data and format')
  const data = checkBase64(audio.require('data', audio.string('data'), 'the audio in base64'), audio.at('data'))
  const format = audio.require('format', audio.string('format'), "the audio's format, such as 'wav' or 'mp3'")
  return { type: 'audio', source: { type: 'data', mediaType: audioMediaType(format), data } }
}

/** Mistral's form: base64 without a format, a data URL or a URL. */
function readPlainAudio(audio: string, path: string): MediaSource & { type: 'data' | 'url' } {
  if (audio.includes(':')) return readUrl(audio, path)
  const data = checkBase64(audio, path)
  const mediaType = sniff(Buffer.from(data.slice(0, SNIFFED_BYTES), 'base64'))
  if (!mediaType.startsWith('audio/')) throw invalid(path, 'must be audio in base64, a data URL or a URL')
  return { type: 'data', mediaType, data }
}

/** OpenRouter's part. */
function readVideo(part: Fields): MediaPart {
  const video = part.require('video_url', part.object('video_url'), 'an object with a url')
  const source = readUrl(video.require('url', video.string('url'), 'a URL or a base64 data URL'), video.at('url'))
  return { type: 'video', source }
}

function readFile(part: Fields): MediaPart {
  const file = part.require('file', part.object('file'), 'an object with file_id or file_data')
  const data = file.string('file_data')
  const filename = file.string('filename')
  const named = filename === undefined ? {} : { filename }
  if (data !== undefined) {
    const source = readFileData(data, filename, file.at('file_data'))
    return { type: source.type === 'data' ? mediaKind(source.mediaType) : 'file', source, ...named }
  }
  const id = file.string('file_id')
  if (id === undefined) throw invalid(file.path, 'must have file_id or file_data')
  return { type: 'file', source: { type: 'file', id }, ...named }
}

const TYPE_BY_EXTENSION: Record<string, string> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  json: 'application/json',
  html: 'text/html',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
}

/** A data URL, a URL, or base64 alone, whose type is known by its first bytes or the file's name. */
function readFileData(
  data: string,
  filename: string | undefined,
  path: string,
): MediaSource & { type: 'data' | 'url' } {
  if (/^[a-z][\w+.-]*:/i.test(data)) return readUrl(data, path)
  const extension = filename?.split('.').at(-1)?.toLowerCase() ?? ''
  const mediaType = data.startsWith('JVBERi')
    ? 'application/pdf'
    : Object.hasOwn(TYPE_BY_EXTENSION, extension)
      ? TYPE_BY_EXTENSION[extension]!
      : 'application/octet-stream'
  return { type: 'data', mediaType, data: checkBase64(data, path) }
}
