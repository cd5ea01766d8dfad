import type { MediaPart, MediaSource, Part } from '../../generation/request.ts'
import { breakpointOf } from '../cache-breakpoints.ts'
import { present } from '../fields.ts'
import { audioFormat, dataUrl, isTextual, decodedText, unsupportedMedia } from '../media.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

type FileSource = MediaSource & { type: 'data' | 'url' }

const urlOf = (source: FileSource): string => (source.type === 'url' ? source.url : dataUrl(source))

type MediaWriters = {
  [Type in MediaPart['type']]?: {
    [Source in MediaSource['type']]?: (source: MediaSource & { type: Source }, part: MediaPart) => Json
  }
}

const writeImage = (source: FileSource, { detail }: MediaPart): Json => ({
  type: 'image_url',
  image_url: { url: urlOf(source), ...present('detail', detail) },
})

const writeDocument = (source: FileSource, { filename }: MediaPart): Json => ({
  type: 'document_url',
  document_url: urlOf(source),
  ...present('document_name', filename),
})

const writeVideo = (source: FileSource): Json => ({ type: 'video_url', video_url: { url: urlOf(source) } })

/** The form of OpenRouter, vLLM and others for models with video input; OpenAI has none. */
const VIDEO: NonNullable<MediaWriters['video']> = { data: writeVideo, url: writeVideo }

/** Media that can be sent, by the kind of the part and of its source, in OpenAI's form. */
const OBJECTS: MediaWriters = {
  image: { data: writeImage, url: writeImage },
  audio: {
    data: ({ data, mediaType }) => ({ type: 'input_audio', input_audio: { data, format: audioFormat(mediaType) } }),
  },
  file: {
    data: (source, { filename = `file.${source.mediaType.split('/').at(-1)}` }) => ({
      type: 'file',
      file: { filename, file_data: dataUrl(source) },
    }),
    // URLs of files are resolved before, unless the provider fetches them itself.
    url: ({ url }, { filename = 'file' }) => ({ type: 'file', file: { filename, file_data: url } }),
  },
}

/** The same in Mistral's form, where audio and documents are one string each. */
const STRINGS: MediaWriters = {
  image: OBJECTS.image!,
  audio: { data: ({ data }) => ({ type: 'input_audio', input_audio: data }) },
  file: { data: writeDocument, url: writeDocument },
}

const SOURCE_NAMES = { data: 'data', url: 'a URL', file: 'a file id', text: 'text' } as const

/** Content of messages, as one string or as parts. Lives as long as one request is written. */
export class ContentWriter {
  readonly #translation: Translation

  constructor(translation: Translation) {
    this.#translation = translation
  }

  /**
   * Text only; other content is lost. One string, since few servers accept parts outside user messages; parts where the
   * provider has cache breakpoints, with or without one, so that moving a breakpoint changes no other message.
   */
  texts(parts: Part[], separator: string): string | Json[] {
    const texts = parts.flatMap((part) => {
      if (part.type === 'text') return part.text === '' ? [] : [part]
      this.loseContent(part)
      return []
    })
    // OpenAI refuses an empty list.
    return this.#hasBreakpoints && texts.length > 0
      ? texts.map((part) => ({ type: 'text', text: part.text, ...this.breakpoint(part) }))
      : texts.map(({ text }) => text).join(separator)
  }

  /** Content of a user message. */
  ofUser(parts: Part[]): string | Json[] {
    const written = parts.flatMap((part) => this.#userPart(part))
    const [only] = written
    if (only === undefined) return ''
    return written.length === 1 && only.type === 'text' && !this.#hasBreakpoints ? (only.text as string) : written
  }

  #userPart(part: Part): Json[] {
    switch (part.type) {
      case 'text':
        return part.text === '' ? [] : [{ type: 'text', text: part.text, ...this.breakpoint(part) }]
      case 'image':
      case 'audio':
      case 'video':
      case 'file':
        return [this.media(part)]
      default:
        this.loseContent(part)
        return []
    }
  }

  /** A part of a user message. Throws unsupported_parameter for media that the protocol cannot represent. */
  media(part: MediaPart): Json {
    const { source, type, filename } = part
    const text = textIn(part)
    if (text !== undefined) {
      this.#translation.lose('content_as_text', this.#translation.at(part))
      return {
        type: 'text',
        text: filename === undefined ? text : `${filename}:\n${text}`,
        ...this.breakpoint(part),
      }
    }
    if (type !== 'file' && filename !== undefined)
      this.#translation.lose('unsupported_field', this.#translation.at(part, 'filename'), 'only files have a name')
    const { quirks, capabilities } = this.#translation.target
    const writers =
      type === 'video' && capabilities.input?.includes('video') === true
        ? VIDEO
        : (quirks.mediaParts === 'strings' ? STRINGS : OBJECTS)[type]
    const write = writers?.[source.type] as ((source: MediaSource, part: MediaPart) => Json) | undefined
    if (write === undefined)
      throw unsupportedMedia(part, this.#translation, `${type} input given as ${SOURCE_NAMES[source.type]}`)
    return { ...write(source, type === 'image' ? this.#withDetail(part) : part), ...this.breakpoint(part) }
  }

  #withDetail(part: MediaPart): MediaPart {
    const { detail } = part
    if (detail === undefined || ['low', 'high', 'auto'].includes(detail)) return part
    this.#translation.lose('detail_adjusted', this.#translation.at(part, 'detail'), `'${detail}' is sent as 'auto'`)
    return { ...part, detail: 'auto' }
  }

  get #hasBreakpoints(): boolean {
    return this.#translation.target.capabilities.cacheBreakpoints !== undefined
  }

  /** The cache breakpoint at the end of a part, in the provider's form. */
  breakpoint(part: Part): Json {
    return 'cache' in part ? breakpointOf(part, this.#translation.target.capabilities.cacheBreakpoints) : {}
  }

  /** Reports content that cannot be sent in its position. */
  loseContent(part: Part): void {
    this.#translation.lose(part.type === 'native' ? 'content_native' : 'content_dropped', this.#translation.at(part))
  }
}

/** The text of a plain-text document, which chat completions has no parts for. */
function textIn({ type, source }: MediaPart): string | undefined {
  if (source.type === 'text') return source.text
  return type === 'file' && source.type === 'data' && isTextual(source.mediaType) ? decodedText(source) : undefined
}
