import { invalid } from '../../error.ts'
import type { MediaPart, MediaSource, Part, ReasoningPart, TextPart, ToolCallPart } from '../../generation/request.ts'
import { unwrapSignature } from '../../generation/signature.ts'
import { collectExtras, type Extras } from '../extras.ts'
import { Fields, isObject } from '../fields.ts'
import { audioMediaType, checkBase64, mediaKind, readDataUrl } from '../media.ts'
import { TEXT_ID } from './shapes.ts'

/** Content parts of a client's messages. Source: specification.md, "Chat-completions message shapes". */

/** Fields nobody reads, by the client's path. */
const KNOWN = ['text', 'image_url', 'input_audio', 'video_url', 'file', 'refusal']

/**
 * `content` as parts: a string is one text part. Parts of unknown types travel as foreign; known types that the role
 * may not hold are refused.
 */
export function readContent(message: Fields, allowed: readonly string[], extras: Extras): Part[] | undefined {
  const content = message.take('content')
  if (content === undefined) return undefined
  const mark = readCache(message)
  if (typeof content === 'string') return [{ type: 'text', text: content, ...mark }]
  if (!Array.isArray(content)) throw invalid(message.at('content'), 'must be a string or an array of parts')
  const parts = content.map((element, index) =>
    readPart(new Fields(element, `${message.at('content')}[${index}]`), allowed, extras),
  )
  // LiteLLM's mark on a whole message covers it to its end.
  const last = parts.at(-1)
  if (last?.type === 'text' || last?.type === 'image' || last?.type === 'file') Object.assign(last, mark)
  return parts
}

function readPart(part: Fields, allowed: readonly string[], extras: Extras): Part {
  const type = part.require('type', part.string('type'), 'it says what kind of part this is')
  if (!allowed.includes(type)) {
    if (KNOWN.includes(type) || allowed.length === 1)
      throw invalid(
        part.at('type'),
        `must be ${allowed.map((word) => `'${word}'`).join(' or ')} in this role, not '${type}'`,
      )
    return { type: 'native', protocol: 'chat.completions', kind: type, value: part.value, path: part.path }
  }
  const read = readKnownPart(part, type, extras)
  if (read.type === 'text' || read.type === 'image' || read.type === 'file') Object.assign(read, readCache(part))
  collectExtras(part, extras)
  return read
}

function readKnownPart(part: Fields, type: string, extras: Extras): Part {
  switch (type) {
    case 'text':
      return { type: 'text', text: part.require('text', part.string('text'), 'the text of the part') }
    case 'refusal':
      return { type: 'refusal', text: part.require('refusal', part.string('refusal'), 'the text of the refusal') }
    case 'image_url':
      return readImage(part, extras)
    case 'input_audio':
      return readAudio(part, extras)
    case 'video_url':
      return readVideo(part, extras)
    default:
      return readFile(part, extras)
  }
}

/** OpenRouter's `cache_control` or OpenAI's `prompt_cache_breakpoint`, which mark the end of a prefix to be cached. */
export function readCache(part: Fields): Pick<TextPart, 'cache'> {
  const { cache_control: mark, prompt_cache_breakpoint: breakpoint } = part.value
  if (isObject(breakpoint)) {
    part.take('prompt_cache_breakpoint')
    return { cache: {} }
  }
  if (!isObject(mark) || mark.type !== 'ephemeral') return {}
  part.take('cache_control')
  return { cache: mark.ttl === '5m' || mark.ttl === '1h' ? { ttl: mark.ttl } : {} }
}

export function readImage(part: Fields, extras: Extras): MediaPart {
  const image = part.require('image_url', part.object('image_url'), 'an object with a url')
  const source = readUrl(image.require('url', image.string('url'), 'a URL or a base64 data URL'), image.at('url'))
  const detail = image.oneOf('detail', ['low', 'high', 'auto'])
  collectExtras(image, extras)
  return {
    type: source.type === 'data' ? mediaKind(source.mediaType) : 'image',
    source,
    ...(detail === undefined ? {} : { detail }),
  }
}

function readUrl(url: string, path: string): MediaSource & { type: 'data' | 'url' } {
  if (/^data:/i.test(url)) return { type: 'data', ...readDataUrl(url, path) }
  if (!URL.canParse(url)) throw invalid(path, 'must be a URL or a base64 data URL')
  return { type: 'url', url }
}

function readAudio(part: Fields, extras: Extras): MediaPart {
  const audio = part.require('input_audio', part.object('input_audio'), 'an object with data and format')
  const data = checkBase64(audio.require('data', audio.string('data'), 'the audio in base64'), audio.at('data'))
  const format = audio.require('format', audio.string('format'), "the audio's format, such as 'wav' or 'mp3'")
  collectExtras(audio, extras)
  return { type: 'audio', source: { type: 'data', mediaType: audioMediaType(format), data } }
}

/** OpenRouter's. */
function readVideo(part: Fields, extras: Extras): MediaPart {
  const video = part.require('video_url', part.object('video_url'), 'an object with a url')
  const source = readUrl(video.require('url', video.string('url'), 'a URL or a base64 data URL'), video.at('url'))
  collectExtras(video, extras)
  return { type: 'video', source }
}

function readFile(part: Fields, extras: Extras): MediaPart {
  const file = part.require('file', part.object('file'), 'an object with file_id or file_data')
  const id = file.string('file_id')
  const data = file.string('file_data')
  const filename = file.string('filename')
  collectExtras(file, extras)
  const named = filename === undefined ? {} : { filename }
  if (data !== undefined) {
    const source = readFileData(data, filename, file.at('file_data'))
    return { type: source.type === 'data' ? mediaKind(source.mediaType) : 'file', source, ...named }
  }
  if (id === undefined) throw invalid(file.path, 'must have file_id or file_data')
  return { type: 'file', source: { type: 'file', id }, ...named }
}

const TYPE_BY_ENDING: Record<string, string> = {
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

/** A data URL, a URL, or bare base64, whose type the name or the first bytes tell. */
function readFileData(
  data: string,
  filename: string | undefined,
  path: string,
): MediaSource & { type: 'data' | 'url' } {
  if (/^(data|https?):/i.test(data)) return readUrl(data, path)
  const ending = filename?.split('.').at(-1)?.toLowerCase() ?? ''
  const mediaType = data.startsWith('JVBERi')
    ? 'application/pdf'
    : Object.hasOwn(TYPE_BY_ENDING, ending)
      ? TYPE_BY_ENDING[ending]!
      : 'application/octet-stream'
  return { type: 'data', mediaType, data: checkBase64(data, path) }
}

/**
 * Earlier reasoning of an assistant message. `reasoning_details` say the most; the same text in `reasoning` or
 * `reasoning_content` is not read again.
 * A summary and the encrypted item that follows it are one part, and entries cut up by a stream (same index) are
 * joined.
 * `signable`: the message's calls and images by their ids; an encrypted entry with such an id is that part's own
 * signature. One of a text is
 * an empty text here, which `arranged` gives its words.
 */
export function readReasoning(message: Fields, signable: ReadonlyMap<string, Signable>): Part[] {
  const plain = message.string('reasoning') ?? message.string('reasoning_content')
  message.string('reasoning_content')
  const parts: ReasoningDraft[] = []
  for (const detail of message.objects('reasoning_details') ?? []) addDetail(detail, parts, signable)
  if (plain !== undefined && plain !== '' && parts.every((part) => part.text === ''))
    parts.unshift({ type: 'reasoning', text: plain })
  return parts.map(({ index: _index, ...part }) => part)
}

export type Signable = MediaPart | ToolCallPart
type ReasoningDraft = (ReasoningPart | TextPart) & { index?: number }

function addDetail(detail: Fields, parts: ReasoningDraft[], signable: ReadonlyMap<string, Signable>): void {
  const type = detail.require('type', detail.string('type'), "such as 'reasoning.text'")
  const index = detail.number('index')
  detail.string('format')
  const id = detail.string('id')
  const before = parts.at(-1),
    last = before?.type === 'reasoning' ? before : undefined
  const head = { ...(id === undefined ? {} : { id }), ...(index === undefined ? {} : { index }) }
  if (type === 'reasoning.encrypted') {
    const data = detail.require('data', detail.string('data'), 'the encrypted reasoning')
    // A call's own signature is no part of the summary before it.
    const own = id === undefined ? undefined : signable.get(id)
    if (own !== undefined) own.signature = unwrapSignature(data)
    else if (id === TEXT_ID) parts.push({ type: 'text', text: '', signature: unwrapSignature(data) })
    else if (
      last?.form === 'summary' &&
      last.signature === undefined &&
      (id === undefined || last.id === undefined || last.id === id)
    )
      Object.assign(last, { signature: unwrapSignature(data) }, id === undefined ? {} : { id })
    else parts.push({ type: 'reasoning', text: '', redacted: true, signature: unwrapSignature(data), ...head })
    return
  }
  const summary = type === 'reasoning.summary'
  const text = detail.string(summary ? 'summary' : 'text')
  const signature = detail.string('signature')
  if (text === undefined && signature === undefined)
    throw invalid(detail.at(summary ? 'summary' : 'text'), 'is required')
  const proof = signature === undefined || signature === '' ? {} : { signature: unwrapSignature(signature) }
  const form = summary ? { form: 'summary' as const } : {}
  if (
    last !== undefined &&
    index !== undefined &&
    last.index === index &&
    last.form === form.form &&
    last.redacted !== true
  )
    Object.assign(last, { text: last.text + (text ?? '') }, proof)
  else parts.push({ type: 'reasoning', text: text ?? '', ...form, ...proof, ...head })
}
